"""Faults, injected into every kind of run, and survived."""
