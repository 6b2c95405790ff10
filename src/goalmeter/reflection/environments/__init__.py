"""Extended environments: a short file each, whose docstring is the specification."""

from goalmeter.reflection.environments.base import Agreement as Agreement
from goalmeter.reflection.environments.base import Run as Run
from goalmeter.reflection.environments.base import replay as replay
from goalmeter.reflection.environments.opposite import READINGS as READINGS
from goalmeter.reflection.environments.record import Environment as Environment
from goalmeter.reflection.environments.registry import BATTERY as BATTERY
from goalmeter.reflection.environments.registry import ENVIRONMENTS as ENVIRONMENTS
from goalmeter.reflection.environments.registry import all_environments as all_environments
from goalmeter.reflection.environments.registry import find as find
from goalmeter.reflection.environments.registry import opposite as opposite
