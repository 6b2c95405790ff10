"""How agents behave in grid worlds: suites of tasks, walks through them, and what they show."""

from goalmeter.navigation.measure import load, measure
from goalmeter.navigation.record import Step, Trajectory
from goalmeter.navigation.result import Navigation
from goalmeter.navigation.suites.options import SuiteOptions
from goalmeter.navigation.suites.record import Suite
from goalmeter.navigation.suites.registry import SUITES, register_suite, suite_named, suite_names
from goalmeter.navigation.suites.tasks import Task, TaskSet, suite
from goalmeter.navigation.walks import Episode, walk, walks

__all__ = [
    "SUITES",
    "Episode",
    "Navigation",
    "Step",
    "Suite",
    "SuiteOptions",
    "Task",
    "TaskSet",
    "Trajectory",
    "load",
    "measure",
    "register_suite",
    "suite",
    "suite_named",
    "suite_names",
    "walk",
    "walks",
]
