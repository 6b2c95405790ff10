"""How agents behave in grid worlds: suites of tasks, walks through them, and what they show."""

from goalmeter.navigation.record import Step, Trajectory
from goalmeter.navigation.suites import SUITES, Suite, Task, suite
from goalmeter.navigation.walks import Episode, walk, walks

__all__ = [
    "SUITES",
    "Episode",
    "Step",
    "Suite",
    "Task",
    "Trajectory",
    "suite",
    "walk",
    "walks",
]
