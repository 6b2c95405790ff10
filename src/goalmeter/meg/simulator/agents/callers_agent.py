"""The agent that a caller names or gives, as an `Actor` in one simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.agents.abilities import Ability, NamedAgent
from goalmeter.agents.navigators.memoryless import Memoryless
from goalmeter.agents.registry import agent as named
from goalmeter.gridworld.draws import Draws
from goalmeter.meg.simulator.agents.acting import (
    Actor,
    Answer,
    Answered,
    FunctionActor,
    function_actor,
    is_stable_baselines,
    stable_baselines_actor,
    table_actor,
)
from goalmeter.meg.simulator.agents.numbered_spaces import count_of, first_of
from goalmeter.meg.simulator.agents.remembered import remembered

_ASKER = "MEG from a simulator"
_SB3 = "sb3:"


@dataclass(frozen=True, eq=False)
class WalkingActor:
    """A navigator of grid worlds in one of our environments, whose state it is told.

    Attributes:
        navigator: who walks.
        env: the environment, without its wrappers.
        name: as on the command line.
    """

    navigator: Any
    env: Any
    name: str
    timed: bool = False

    @property
    def remembers(self) -> bool:
        """Whether it is any other walker than a policy."""
        return not isinstance(self.navigator, Memoryless)

    @property
    def is_function(self) -> bool:
        """Whether it is a policy."""
        return not self.remembers

    def begin(self, generator: np.random.Generator) -> Answer:
        """Set out in the present world."""
        walk = self.navigator.begin(self.env.world, Draws(int(generator.integers(2**31))))

        def answer(observation: Any, decision: int) -> int | Answered:
            made = walk.act(self.env.state)
            if made.action is None:
                raise InvalidParameterError(
                    f"{self.name} gave no action ({made.invalid}), and a decision without one has "
                    f"no evidence; measure an agent that always acts"
                )
            if made.probabilities is None:
                return int(made.action)
            return Answered(made.action, np.asarray(made.probabilities, dtype=np.float64))

        return answer


def actor_of(agent: Any, env: Any, horizon: int) -> Actor:
    """An agent of any kind in a Gymnasium environment.

    Args:
        agent: a name, a `NamedAgent`, a model of Stable-Baselines3, a table over integer
            observations, a function of the observation, or an object whose `begin(generator)`
            gives such a function for an episode.
        env: the environment.
        horizon: H.
    """
    if isinstance(agent, str):
        agent = named(agent)
    if isinstance(agent, NamedAgent):
        return _of_name(agent, env)
    if is_stable_baselines(agent):
        check_spaces(type(agent).__name__, agent, env)
        return remembered(stable_baselines_actor(agent))
    if isinstance(agent, (np.ndarray, list, tuple)):
        observations = count_of(env.observation_space)
        if observations is None:
            raise InvalidParameterError(
                f"the agent is a table, but the environment shows {env.observation_space}, "
                f"expected Discrete(n); give a function of the observation"
            )
        actions = count_of(env.action_space)
        # An environment with other actions is refused as a whole.
        table = table_actor(agent, observations, actions or 1, horizon)
        return replace(table, first=first_of(env.observation_space))
    if (actor := function_actor(agent)) is not None:
        return actor
    raise InvalidParameterError(
        f"agent is {agent!r}, expected a name, a model of Stable-Baselines3, a table, a function "
        f"of the observation that gives an action or a distribution, or an object with "
        f"begin(generator)"
    )


def _of_name(agent: NamedAgent, env: Any) -> Actor:
    bare = env.unwrapped
    if agent.name.startswith(_SB3) and not type(bare).__module__.startswith("goalmeter.gridworld"):
        return remembered(FunctionActor(_saved(agent.name, env), agent.name, is_function=True))
    if not type(bare).__module__.startswith("goalmeter.gridworld"):
        raise InvalidParameterError(
            f"{agent.name!r} walks in grid worlds, and this environment is "
            f"{type(bare).__name__}; give a trained policy (sb3:PATH.zip) or a function"
        )
    agent.require(Ability.GRID, asker=_ASKER)
    return WalkingActor(agent.in_grids(asker=_ASKER), bare, agent.name)


def _saved(name: str, env: Any) -> Callable[[Any], FloatArray]:
    from goalmeter.agents.trained.sb3_file import read_policy

    policy = read_policy(name.removeprefix(_SB3))
    seen, shown, actions = policy.observations, env.observation_space, env.action_space
    sizes = (getattr(shown, "n", None), None if hasattr(shown, "n") else shown.shape)
    expected = (seen.count, None if seen.length is None else (seen.length,))
    if sizes != expected or getattr(actions, "n", None) != policy.n_actions:
        sees = "arrays of length" if seen.count is None else "observations, numbered, to"
        raise InvalidParameterError(
            f"{name} was trained to see {sees} {seen.length or seen.count} and to choose among "
            f"{policy.n_actions} actions, but the environment shows {shown} and takes {actions}; "
            f"make it as it was for training, with the same wrappers"
        )
    return lambda observation: policy.probabilities(np.asarray(observation)[None])[0]


def check_spaces(name: str, model: Any, env: Any) -> None:
    """See that a model of Stable-Baselines3 can act in an environment."""
    for what in ("observation_space", "action_space"):
        of_model, of_env = getattr(model, what), getattr(env, what)
        # Pictures have their colours first in one of them and last in the other.
        if _size(of_model) != _size(of_env):
            raise InvalidParameterError(
                f"the model {name} has the {what.replace('_', ' ')} {of_model}, but that of the "
                f"environment is {of_env}; make it as it was for training, with the same wrappers"
            )


def _size(space: Any) -> tuple[Any, ...]:
    shape = space.shape if isinstance(getattr(space, "shape", None), tuple) else ()
    return getattr(space, "n", None), tuple(sorted(shape) if len(shape) == 3 else shape)
