"""goalmeter measures how goal-directed an agent is: towards what, and how strongly.

>>> import goalmeter as gm
>>> mdp = gm.cliff_world(goal_length=1)
>>> result = gm.meg.known_utility(mdp, gm.optimal_policy(mdp))
>>> round(result.value, 3)
40.203
"""

import typing

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    MissingExtraError,
)
from goalmeter._gymnasium_ids import register as _register
from goalmeter._names import lazy_front as _lazy_front

if typing.TYPE_CHECKING:
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
    from goalmeter.card import Card, measure
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
    "Card",
    "CausalBayesianNetwork",
    "GoalmeterError",
    "InfluenceDiagram",
    "InvalidFileError",
    "InvalidParameterError",
    "MegResult",
    "MissingExtraError",
    "TabularMDP",
    "agents",
    "causal",
    "cliff_world",
    "epsilon_greedy",
    "gridworld",
    "measure",
    "meg",
    "navigation",
    "optimal_policy",
    "reflection",
    "representation",
    "tabular",
    "uniform_policy",
]

__version__ = "0.1.0"

# Packages are imported when they are first used: all together take half a second.
__getattr__, __dir__ = _lazy_front(__name__, __file__)

# So that `gymnasium.make("goalmeter/KeyDoor-v0")` works; Gymnasium itself is not imported for it.
_register()
