"""Every scripted agent in every environment: as trials play it, and as the definitions have it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from agents.histories.test_agents import literal
from oracles import extended_environments, history_agents
from reflection.histories import CHECKED, SCRIPTED, draw_in
from reflection.test_environments import RUNTIME, interact, rooms

from goalmeter.agents.history import Agent
from goalmeter.agents.registry import history_agent as agent
from goalmeter.reflection.environments import ENVIRONMENTS, Environment

ALL = (*SCRIPTED, *CHECKED, "rc(rc(naive))")
STEPS = 16
SEED = 5


class LiteralCode:
    """The code T of a scripted agent: its function of (seed, history), on tuples, nothing kept."""

    def __init__(self, name: str, n_actions: int, n_observations: int) -> None:
        self.name = name
        self.counts = n_actions, n_observations

    def __call__(self, x: Any, y: Any, *, n_actions: int | None = None, **options: float) -> int:
        n = n_actions or self.counts[0]
        m = self.counts[1]
        if not options:
            return literal(self.name, SEED, n, m)((x, y), n, m)
        if not self.name.endswith(("q-learner", "q-learner)")):
            raise TypeError(f"unexpected keyword arguments {sorted(options)}")
        rate = options.get("learning_rate", 0.1) * options.get("learning_rate_scale", 1)

        def learner(history: Any, n: int, m: int) -> int:
            drawing = {"seed": SEED, "draw": draw_in(n, m)}
            return history_agents.q_learner(history, n, m, learning_rate=rate, **drawing)

        is_checked = self.name.startswith("rc(")
        pi = history_agents.reality_check_alternate(learner) if is_checked else learner
        return pi((x, y), n, m)


def definition(environment: Environment, T: LiteralCode, is_opposite: bool) -> Any:
    mu = extended_environments.ENVIRONMENTS[environment.name]
    mu = extended_environments.opposite(mu) if is_opposite else mu
    draws = rooms(environment, SEED)
    return extended_environments.interact(mu, T, T, STEPS, [draws.random() for _ in range(STEPS)])


@pytest.mark.parametrize("name", ALL)
def test_the_incremental_run_is_the_literal_one(name: str) -> None:
    player = agent(name, SEED)
    for environment in ENVIRONMENTS.values():
        if environment.base in RUNTIME:
            continue  # they count the lines of the very code that runs
        T = LiteralCode(name, environment.n_actions, environment.n_observations)
        for is_opposite in (False, True):
            reading = "literal" if is_opposite else "itself"
            played = interact(environment, reading, player, player, SEED, STEPS)
            assert played == definition(environment, T, is_opposite), environment.name


class Copies:
    """Begins minds of an agent that note each percept in `told`."""

    def __init__(self, player: Agent) -> None:
        self.one = player
        self.options = player.options
        self.told: list[int] = []

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Noting:
        return Noting(self.one.begin(n_actions, n_observations, **options), self.told)


class Noting:
    def __init__(self, mind: Any, told: list[int]) -> None:
        self.mind = mind
        self.told = told
        self.act, self.take = mind.act, mind.take

    @property
    def settled(self) -> bool:
        return bool(self.mind.settled)

    def perceive(self, reward: float, observation: int) -> None:
        self.told.append(observation)
        self.mind.perceive(reward, observation)

    def fork(self) -> Noting:
        return Noting(self.mind.fork(), self.told)


@pytest.mark.parametrize("name", ["BackwardConsciousness", "DejaVu"])
@pytest.mark.parametrize("of", ["random", "naive", "constant"])
def test_a_frozen_copy_is_told_no_more(name: str, of: str) -> None:
    """So a reality check pays for the few turns until it freezes, not for the whole history."""
    steps = 400
    copies = Copies(agent(f"rc({of})", SEED))
    run = ENVIRONMENTS[name].start(copies, Random(0))
    mind = agent(f"rc({of})", SEED).begin(2, 1)
    mind.perceive(*run.begin())
    for _ in range(steps):
        action = mind.act()
        mind.take(action)
        mind.perceive(*run.react(action))
    assert len(copies.told) < 25 * steps  # all of it each time would be 200 a step
