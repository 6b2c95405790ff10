"""goalmeter measures how goal-directed an agent is: towards what, and how strongly.

>>> import goalmeter as gm
>>> mdp = gm.cliff_world(goal_length=1)
>>> result = gm.meg.known_utility(mdp, gm.optimal_policy(mdp))
>>> round(result.value, 3)
40.203
"""

from goalmeter import agents as agents
from goalmeter import causal as causal
from goalmeter import gridworld as gridworld
from goalmeter import meg as meg
from goalmeter import reflection as reflection
from goalmeter import tabular as tabular
from goalmeter._errors import GoalmeterError as GoalmeterError
from goalmeter._errors import MissingExtraError as MissingExtraError
from goalmeter.causal import CausalBayesianNetwork as CausalBayesianNetwork
from goalmeter.causal import InfluenceDiagram as InfluenceDiagram
from goalmeter.meg.result import MegResult as MegResult
from goalmeter.tabular import TabularMDP as TabularMDP
from goalmeter.tabular import cliff_world as cliff_world
from goalmeter.tabular import epsilon_greedy as epsilon_greedy
from goalmeter.tabular import optimal_policy as optimal_policy
from goalmeter.tabular import uniform_policy as uniform_policy

__version__ = "0.1.0"
