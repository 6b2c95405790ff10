"""Every environment: its run equals its literal definition, percept for percept."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from oracles import extended_environments as oracle
from reflection.simple_agents import (
    DETERMINISTIC,
    CodeOf,
    Rated,
    alternate,
    hashed,
)

from goalmeter.agents.history import Agent, RealityCheck
from goalmeter.agents.scripted import NaiveLearner, QLearner
from goalmeter.reflection.environments import (
    Environment,
    find,
    replay,
)

STEPS = 40
RUNTIME = ("PunishSlowAgent", "PunishFastAgent")
SLOW_STEPS = 24  # where lines are counted, which is slow


def rooms(environment: Environment, seed: int) -> Random:
    return Random(f"{environment.base} {seed}")


def interact(
    environment: Environment,
    reading: str,
    played_by: Agent,
    simulated: Agent,
    seed: int,
    steps: int = STEPS,
) -> tuple[oracle.Percepts, oracle.Actions]:
    """x_1 y_1 ... x_n of a streaming run; its actions may be another agent's than the simulated."""
    run = environment.start(
        simulated,
        rooms(environment, seed),
        opposite=reading != "itself",
        opposite_reading="literal" if reading == "itself" else reading,
    )
    mind = played_by.begin(environment.n_actions, environment.n_observations)
    x, y = [run.begin()], []
    mind.perceive(*x[-1])
    while len(x) < steps:
        y.append(mind.act())
        mind.take(y[-1])
        x.append(run.react(y[-1]))
        mind.perceive(*x[-1])
    return tuple(x), tuple(y)


def literal(
    environment: Environment,
    reading: str,
    T: CodeOf,
    policy: CodeOf,
    seed: int,
    steps: int = STEPS,
) -> tuple[oracle.Percepts, oracle.Actions]:
    mu = oracle.ENVIRONMENTS[environment.name]
    if reading != "itself":
        mu = {"literal": oracle.opposite, "unnegated": oracle.opposite_unnegated}[reading](mu)
    draws = rooms(environment, seed)
    return oracle.interact(mu, T, policy, steps, [draws.random() for _ in range(steps)])


@pytest.mark.parametrize("reading", ["itself", "literal", "unnegated"])
@pytest.mark.parametrize("name", oracle.ENVIRONMENTS)
def test_a_run_is_its_definition(name: str, reading: str) -> None:
    environment, _ = find(name)
    counts = environment.n_actions, environment.n_observations
    steps = SLOW_STEPS if environment.base in RUNTIME else STEPS
    for seed, simple in enumerate(DETERMINISTIC):
        T = CodeOf(simple.steps, *counts)
        expected = literal(environment, reading, T, T, seed, steps)
        # Where lines are counted, those of the adapter of a function count too.
        for agent in simple.forms[environment.base in RUNTIME :]:
            run = interact(environment, reading, agent, agent, seed, steps)
            assert run == expected, simple.name


@pytest.mark.parametrize("reading", ["itself", "literal", "unnegated"])
@pytest.mark.parametrize("name", oracle.ENVIRONMENTS)
def test_a_run_is_its_definition_where_the_actions_are_not_the_agents(
    name: str, reading: str
) -> None:
    environment, _ = find(name)
    counts = environment.n_actions, environment.n_observations
    for seed, (player, simulated) in enumerate(
        [(hashed(7), DETERMINISTIC[-1]), (alternate, hashed(8))]
    ):
        T = CodeOf(simulated.steps, *counts)
        policy = CodeOf(player.steps, *counts)
        expected = literal(environment, reading, T, policy, seed)
        assert interact(environment, reading, player.steps, simulated.steps, seed) == expected


@pytest.mark.parametrize("name", oracle.ENVIRONMENTS)
def test_a_run_is_its_definition_for_agents_that_learn(name: str) -> None:
    # Their minds change as they are told things, so here a fork must not touch its original.
    environment, _ = find(name)
    for agent, reading in (
        (RealityCheck(NaiveLearner(3)), "itself"),
        (QLearner(4), "literal"),
        (Rated(), "itself"),
    ):
        T = CodeOf(agent, environment.n_actions, environment.n_observations)
        steps = SLOW_STEPS if environment.base in RUNTIME else 30
        expected = literal(environment, reading, T, T, 11, steps)
        assert interact(environment, reading, agent, agent, 11, steps) == expected


def test_a_learning_rate_is_assumed_by_those_who_can() -> None:
    # Rated plays 1 while its average, which starts at 0 and moves by 0.3 of the way to each reward,
    # is above 0.2. At a rate of 1 the average is the last reward.
    # Half of its own is 0.15.
    #     r    average at 0.3   at 1             r    average at 0.3   at 0.15
    #     0     0      plays 0   0: plays 0       0     0     plays 0    0      plays 0
    #     1     0.3          1   1        1       1     0.3         1    0.15         0
    #     1     0.51         1   1        1      -1    -0.09        0   -0.0225       0
    #     1     0.657        1   1        1       1     0.237       1    0.1309       0
    for spelled, rewards in (
        ("IncentivizeLearningRate", [0, 1, 1, 1, 1]),
        ("IncentivizeLearningRate(rate=half)", [0, 1, -1, 1, -1]),
    ):
        x, _ = interact(find(spelled)[0], "itself", Rated(), Rated(), 0, 5)
        assert [reward for reward, _ in x] == rewards
        deaf = Rated(options=frozenset())
        x, _ = interact(find(spelled)[0], "itself", deaf, deaf, 0, 5)
        assert [reward for reward, _ in x] == [0, -1, -1, -1, -1]


class Freezing:
    """Takes 1 until it is told of an action 0, then 0; says when it is settled."""

    options: frozenset[str] = frozenset()

    def __init__(self, action: int = 1, told: list[int] | None = None) -> None:
        self.action = action
        self.told = [] if told is None else told

    @property
    def settled(self) -> bool:
        return self.action == 0

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Freezing:
        return Freezing(1, self.told)

    def perceive(self, reward: float, observation: int) -> None:
        self.told.append(observation)

    def act(self) -> int:
        return self.action

    def take(self, action: int) -> None:
        self.action &= action

    def fork(self) -> Freezing:
        return Freezing(self.action, self.told)


def test_a_replay_tells_all_of_it_or_until_a_mind_is_settled() -> None:
    percepts = [(0, 5), (0, 6), (0, 7)]
    for actions, told, action in (
        ([1, 1], [5, 6, 7], 1),
        ([1, 0], [5, 6], 0),
        ([0, 1], [5], 0),
    ):
        mind = Freezing()
        replay(mind, percepts, actions)
        assert (mind.told, mind.act()) == (told, action)
        replay(mind, percepts, [1, 1])
        assert mind.told == (told if action == 0 else told * 2)
