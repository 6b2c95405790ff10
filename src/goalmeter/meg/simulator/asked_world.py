"""What a caller asks to be measured: the world, who acts in it, and for how many decisions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple

from goalmeter._arguments import whole
from goalmeter._errors import InvalidParameterError
from goalmeter.meg.simulator.agents.acting import Actor, table_actor
from goalmeter.meg.simulator.agents.callers_agent import actor_of
from goalmeter.meg.simulator.agents.continuous_acting import continuous_actor
from goalmeter.meg.simulator.fitting import Fits, fits_of, learnt_of
from goalmeter.meg.simulator.states.chance import FROM_GENERATOR, chance_of
from goalmeter.meg.simulator.states.naming import StateOf
from goalmeter.meg.simulator.utilities.named_utilities import (
    REWARD,
    NamedUtilities,
    named_utilities,
    ranges_of,
)
from goalmeter.meg.simulator.worlds.box_simulator import BoxSimulator
from goalmeter.meg.simulator.worlds.gymnasium_simulator import GymnasiumSimulator
from goalmeter.meg.simulator.worlds.opening import closed, opened, time_limit, world_name
from goalmeter.meg.simulator.worlds.protocol import Simulator
from goalmeter.meg.simulator.worlds.reference_densities import is_box, reference_density
from goalmeter.meg.simulator.worlds.tabular_simulator import TabularSimulator
from goalmeter.tabular.mdp import TabularMDP

_MOST_HORIZON = 10**6


class AskedWorld(NamedTuple):
    """What is measured.

    Attributes:
        simulator: the world, with its utilities.
        actor: the agent.
        horizon: H.
        fits: utilities that were learnt first; None for none.
    """

    simulator: Simulator
    actor: Actor
    horizon: int
    fits: Fits | None = None


def of_table(
    mdp: TabularMDP,
    agent: Any,
    *,
    utility: Any,
    horizon: int | None,
    seed: int,
    bounds: Any,
    reference: Any,
    chance: str | None,
) -> AskedWorld:
    """A table that is run; its utilities are arrays."""
    _no_reference(reference)
    if chance not in (None, FROM_GENERATOR):
        raise InvalidParameterError(
            f"chance is {chance!r}, but what a TabularMDP leaves to chance is drawn here, by a "
            f"generator; leave chance= out"
        )
    if mdp.discount != 1.0:
        raise InvalidParameterError(
            f"the MDP has discount {mdp.discount:g}, but what a simulator pays is added up as it "
            f"comes; give one with discount=1 and horizon=, or measure it by `meg.known_utility`"
        )
    if learnt_of(utility, None) or callable(utility):
        raise InvalidParameterError(
            "utility is a function or to be learnt, but a TabularMDP shows no observation that it "
            "could be of; give an array [S] or [S, A], or several by name (combined=True learns "
            "their best combination)"
        )
    several = utility if isinstance(utility, Mapping) else {_array_name(utility): utility}
    arrays = {
        name: mdp.reward if isinstance(array, str) and array == REWARD else array
        for name, array in several.items()
    }
    steps = _horizon(horizon, mdp.horizon, "this MDP")
    simulator = TabularSimulator(mdp, seed=seed, utilities=arrays, bounds=ranges_of(arrays, bounds))
    return AskedWorld(simulator, table_actor(agent, mdp.n_states, mdp.n_actions, steps), steps)


def of_environment(
    env: Any,
    agent: Any,
    *,
    utility: Any,
    horizon: int | None,
    budget: int,
    seed: int,
    state: str | StateOf | None,
    bounds: Any,
    reference: Any,
    chance: str | None,
    closing: ExitStack,
) -> AskedWorld:
    """A Gymnasium environment; `closing` closes it where it was made here."""
    world = opened(env)
    # What was made here is closed here; a caller's own environment stays open.
    if isinstance(env, (str, type)) or not hasattr(env, "step"):
        closing.callback(closed, world)
    declared = chance_of(world, chance)
    learnt = learnt_of(utility, bounds)
    continuous = is_box(world.action_space)
    density = reference_density(reference, world.action_space) if continuous else None
    if density is None:
        _no_reference(reference)

    def simulator_of(named: NamedUtilities) -> GymnasiumSimulator:
        if density is not None:
            return BoxSimulator(world, named, seed=seed, reference=density, chance=declared)
        return GymnasiumSimulator(world, named, seed=seed, state=state, chance=declared)

    steps = _horizon(horizon, time_limit(world), world_name(world))
    actor = continuous_actor(agent) if continuous else actor_of(agent, world, steps)
    if not learnt:
        return AskedWorld(simulator_of(named_utilities(utility, bounds)), actor, steps)
    fits = fits_of(learnt, world, simulator_of, actor, steps, budget)
    several = utility if isinstance(utility, Mapping) else {"learnt": utility}
    named = named_utilities({**several, **fits.frozen}, bounds)
    named = NamedUtilities(
        named.functions,
        {**named.bounds, **{key: each.range for key, each in fits.frozen.items()}},
        learnt=frozenset(fits.frozen),
    )
    return AskedWorld(simulator_of(named), actor, steps, fits)


def _no_reference(reference: Any) -> None:
    if reference is not None:
        raise InvalidParameterError(
            f"reference is {reference!r}, but actions are discrete here, and compared with free "
            f"choice; leave reference= out"
        )


def _array_name(utility: Any) -> str:
    return REWARD if isinstance(utility, str) else "utility"


def _horizon(asked: int | None, limit: int | None, what: str) -> int:
    if asked is None:
        if limit is None:
            raise InvalidParameterError(
                f"{what} has no time limit, so it does not say how many decisions are measured; "
                f"give horizon="
            )
        return limit
    horizon = whole(asked, "horizon", least=1, most=_MOST_HORIZON)
    if limit is not None and horizon > limit:
        raise InvalidParameterError(
            f"horizon is {horizon}, but {what} cuts episodes off after {limit} decisions: what "
            f"would follow is not known; give a horizon up to {limit}, or make the environment "
            f"with a longer limit (gymnasium.make(..., max_episode_steps={horizon}))"
        )
    return horizon
