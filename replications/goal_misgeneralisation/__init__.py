"""Agents that may have learnt a wrong goal, and MEG that is to name it before it shows."""
