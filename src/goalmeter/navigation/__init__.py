"""How agents behave in grid worlds: suites of tasks, walks through them, and what they show."""

from goalmeter.navigation.measure import Navigation, load, measure
from goalmeter.navigation.suite_definition import Suite, SuiteOptions
from goalmeter.navigation.suites import SUITES, register_suite, suite_named, suite_names
from goalmeter.navigation.trajectories import (
    Episode,
    Step,
    Task,
    TaskSet,
    Trajectory,
    suite,
    walk,
    walks,
)

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
