"""Behaviour of agents in grid worlds: suites, trajectories and measures."""

from goalmeter.navigation.measure import Navigation, load, measure
from goalmeter.navigation.plan import NavigationOptions
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
    "NavigationOptions",
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
