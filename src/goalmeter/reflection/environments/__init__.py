"""Extended environments: a short file each, whose docstring is the specification."""

from goalmeter.reflection.environments.base import Agreement, Run, replay
from goalmeter.reflection.environments.opposite import READINGS
from goalmeter.reflection.environments.record import Environment
from goalmeter.reflection.environments.registry import BATTERY, ENVIRONMENTS, find, opposite

__all__ = [
    "BATTERY",
    "ENVIRONMENTS",
    "READINGS",
    "Agreement",
    "Environment",
    "Run",
    "find",
    "opposite",
    "replay",
]
