"""goalmeter measures how goal-directed an agent is: towards what, and how strongly.

>>> import goalmeter as gm
>>> mdp = gm.cliff_world(goal_length=1)
>>> result = gm.meg.known_utility(mdp, gm.optimal_policy(mdp))
>>> round(result.value, 3)
40.203
"""

from goalmeter import (
    agents,
    causal,
    gridworld,
    meg,
    navigation,
    reflection,
    representation,
    tabular,
)
from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter.causal import CausalBayesianNetwork, InfluenceDiagram
from goalmeter.meg.result import MegResult
from goalmeter.tabular import (
    TabularMDP,
    cliff_world,
    epsilon_greedy,
    optimal_policy,
    uniform_policy,
)

__all__ = [
    "CausalBayesianNetwork",
    "GoalmeterError",
    "InfluenceDiagram",
    "MegResult",
    "MissingExtraError",
    "TabularMDP",
    "agents",
    "causal",
    "cliff_world",
    "epsilon_greedy",
    "gridworld",
    "meg",
    "navigation",
    "optimal_policy",
    "reflection",
    "representation",
    "tabular",
    "uniform_policy",
]

__version__ = "0.1.0"
