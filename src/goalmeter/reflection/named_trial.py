"""A trial by names: plain JSON in and out, so that it can be played in any process."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from goalmeter.agents.histories.protocol import Agent
from goalmeter.agents.registry import history_agent
from goalmeter.agents.user_agents import check_counts, check_installed, check_mind
from goalmeter.agents.user_code import split_name
from goalmeter.reflection.environments.record import Environment
from goalmeter.reflection.environments.registry import find
from goalmeter.reflection.trial import COUNTINGS, FAILED, Trial, run_trial
from goalmeter.runs.jobs import in_a_line

T = TypeVar("T")


def play(
    agent: str,
    environment: str,
    opposite: bool,
    steps: int,
    seed: int,
    opposite_reading: str,
    step_counting: str = COUNTINGS[0],
) -> dict[str, Any]:
    """Play the trial of these names; `Trial.to_json` of what came of it.

    An agent is made for this trial alone. Where a user's file is involved, what it may draw from
    (`random`, NumPy's and torch's global generators) is seeded by the trial first, so that the
    trial is the same whatever was played in this process before. So call it in a worker only.

    Raises:
        GoalmeterError: the names stand for nothing.
    """

    def start() -> tuple[Agent, Environment]:
        return history_agent(agent, seed), find(environment)[0]

    user = is_user_code(agent) or is_user_code(environment)
    try:
        player, place = _seeded(start, seed) if user else start()
    except (Exception, SystemExit) as error:
        return Trial(environment, opposite, seed, steps, 0, FAILED, in_a_line(error), 0).to_json()
    trial = run_trial(
        player,
        place,
        opposite=opposite,
        steps=steps,
        seed=seed,
        opposite_reading=opposite_reading,
        step_counting=step_counting,
        keyboard=False,
    )
    return trial.to_json()


def check(agent: str, environments: Sequence[str], seed: int) -> None:
    """Make the agent once and look the environments up, for the error if that fails.

    Raises:
        GoalmeterError: a name stands for nothing, or a user's file does not give it.
        MissingExtraError: the agent needs a package that is not installed.
    """
    places = [find(environment)[0] for environment in environments]
    check_player(history_agent(agent, seed), agent, places, is_users=is_user_code(agent))


def check_player(
    player: Agent, name: str, environments: Iterable[Environment], *, is_users: bool
) -> None:
    """Raise what would be wrong with every trial of an agent, before the first of them."""
    check_installed(player)
    if is_users:
        check_mind(player, name)
    for environment in environments:
        check_counts(player, environment.n_actions, environment.n_observations)


def is_user_code(name: str) -> bool:
    """Whether an agent's or environment's name, whatever stands around it, is of a file."""
    return split_name(name) is not None


def _seeded(make: Callable[[], T], seed: int) -> T:
    """What `make` makes, with all global generators seeded before, also those that it imports."""
    had_torch = _seed_generators(seed)
    made = make()
    # A file that imports torch brings a generator that was not there to be seeded: once more.
    if not had_torch and _seed_generators(seed):
        made = make()
    return made


def _seed_generators(seed: int) -> bool:
    """Whether torch's was among them."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  # the one that a user's file may draw from
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
    return torch is not None
