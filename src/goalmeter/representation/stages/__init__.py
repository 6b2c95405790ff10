"""Stages of a probe, each stored when it is finished."""
