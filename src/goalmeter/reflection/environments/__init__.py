"""Extended environments: a class each, whose docstring is the specification."""

from goalmeter.reflection.environments.base import READINGS, Agreement, Run, replay
from goalmeter.reflection.environments.registry import (
    BATTERY,
    ENVIRONMENTS,
    Environment,
    all_environments,
    find,
    opposite,
)

__all__ = [
    "BATTERY",
    "ENVIRONMENTS",
    "READINGS",
    "Agreement",
    "Environment",
    "Run",
    "all_environments",
    "find",
    "opposite",
    "replay",
]
