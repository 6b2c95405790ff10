"""How agents behave in grid worlds: suites of tasks, walks through them, and what they show."""

from goalmeter.navigation.measure import load as load
from goalmeter.navigation.measure import measure as measure
from goalmeter.navigation.record import Step as Step
from goalmeter.navigation.record import Trajectory as Trajectory
from goalmeter.navigation.result import Navigation as Navigation
from goalmeter.navigation.suites.options import SuiteOptions as SuiteOptions
from goalmeter.navigation.suites.record import Suite as Suite
from goalmeter.navigation.suites.registry import SUITES as SUITES
from goalmeter.navigation.suites.registry import register_suite as register_suite
from goalmeter.navigation.suites.registry import suite_named as suite_named
from goalmeter.navigation.suites.registry import suite_names as suite_names
from goalmeter.navigation.suites.tasks import Task as Task
from goalmeter.navigation.suites.tasks import TaskSet as TaskSet
from goalmeter.navigation.suites.tasks import suite as suite
from goalmeter.navigation.walks import Episode as Episode
from goalmeter.navigation.walks import walk as walk
from goalmeter.navigation.walks import walks as walks
