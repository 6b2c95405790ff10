"""Behaviour of agents in grid worlds: suites, trajectories and measures."""

from goalmeter.navigation.behaviour import Exact, Row, SuiteBehaviour, behaviour, exact
from goalmeter.navigation.interventions import interventions, interventions_of
from goalmeter.navigation.keys import Keys, keys
from goalmeter.navigation.measure import Navigation, load, measure
from goalmeter.navigation.plan import NavigationOptions
from goalmeter.navigation.prompts import ParsedAnswer, understood
from goalmeter.navigation.rationality import (
    Decisions,
    Evidence,
    evidence,
    signed_nats,
    summed_evidence,
)
from goalmeter.navigation.recorded import WalkOptions, from_walks, read_walks
from goalmeter.navigation.steps import Grid, Observed, observed
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
    "Decisions",
    "Episode",
    "Evidence",
    "Exact",
    "Grid",
    "Keys",
    "Navigation",
    "NavigationOptions",
    "Observed",
    "ParsedAnswer",
    "Row",
    "Step",
    "Suite",
    "SuiteBehaviour",
    "SuiteOptions",
    "Task",
    "TaskSet",
    "Trajectory",
    "WalkOptions",
    "behaviour",
    "evidence",
    "exact",
    "from_walks",
    "interventions",
    "interventions_of",
    "keys",
    "load",
    "measure",
    "observed",
    "read_walks",
    "register_suite",
    "signed_nats",
    "suite",
    "suite_named",
    "suite_names",
    "summed_evidence",
    "understood",
    "walk",
    "walks",
]
