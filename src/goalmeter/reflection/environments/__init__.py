"""Extended environments; the docstring of each class is its specification."""

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
