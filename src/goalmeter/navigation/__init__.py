"""How agents behave in grid worlds: suites of tasks, walks through them, and what they show."""

from goalmeter.navigation.record import Step as Step
from goalmeter.navigation.record import Trajectory as Trajectory
from goalmeter.navigation.suites import SUITES as SUITES
from goalmeter.navigation.suites import Suite as Suite
from goalmeter.navigation.suites import Task as Task
from goalmeter.navigation.suites import suite as suite
from goalmeter.navigation.walks import Episode as Episode
from goalmeter.navigation.walks import walk as walk
from goalmeter.navigation.walks import walks as walks
