"""Stable-Baselines3's learners as functions of the history, against the library's own `learn`."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from oracles import stable_baselines as oracle

from goalmeter._errors import InvalidParameterError
from goalmeter.agents import stable_baselines as sb3_training
from goalmeter.agents.history import (
    FunctionAgent,
    History,
    Mind,
    Percept,
    Prefix,
    as_function,
    hash_action,
    hash_percept,
    hash_start,
    uniform,
)
from goalmeter.agents.registry import history_agent as agent
from goalmeter.agents.stable_baselines import StableBaselinesAgent
from goalmeter.reflection.environments.registry import ENVIRONMENTS, find
from goalmeter.reflection.trial import run_trial

ALGORITHMS = ("a2c", "dqn", "ppo")


def experience(k: int, n_actions: int, n_observations: int, seed: int) -> Prefix:
    rng = random.Random(seed)
    return Prefix(
        tuple(rng.choice((-1, 0, 1, 2.5)) for _ in range(k)),
        tuple(rng.randrange(n_observations) for _ in range(k)),
        tuple(rng.randrange(n_actions) for _ in range(k - 1)),
    )


def table(
    algorithm: str, told: Prefix, counts: tuple[int, int], seed: int, **settings: Any
) -> np.ndarray[Any, Any]:
    """The learner's probabilities, from the cumulative ones."""
    learner = sb3_training.ALGORITHMS[algorithm](*counts, seed, settings, False)
    return np.diff(np.array(learner.train(told)), axis=1, prepend=0)


def mind_at(mind: Mind, told: Prefix) -> Mind:
    for i, (reward, observation) in enumerate(zip(told.rewards, told.observations, strict=True)):
        if i:
            mind.take(told.actions[i - 1])
        mind.perceive(reward, observation)
    return mind


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_trained_on_the_largest_power_of_two_and_nothing_else(
    algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    learner = sb3_training.ALGORITHMS[algorithm]
    train = learner.train

    def noted(self: Any, told: Prefix) -> Any:
        asked.append(len(told.rewards))
        return train(self, told)

    monkeypatch.setattr(learner, "train", noted)
    subject = StableBaselinesAgent(algorithm, 0)
    mind = subject.begin(2, 1)
    for _ in range(19):
        mind.perceive(0, 0)
        mind.act()
        mind.act()
        mind.take(0)
    assert asked == [1, 2, 4, 8, 16]
    # What is not asked is not trained, and what is known is not trained again.
    unasked = subject.begin(2, 1)
    for _ in range(15):
        unasked.perceive(0, 0)
        unasked.take(0)
    unasked.perceive(0, 0)
    unasked.act()
    assert asked == [1, 2, 4, 8, 16]


def test_too_little_to_train_on_is_action_0() -> None:
    for algorithm, least in (("ppo", 4), ("dqn", 8)):
        actions = set()
        for seed in range(30):
            mind = StableBaselinesAgent(algorithm, seed).begin(2, 1)
            for _ in range(least - 1):
                mind.perceive(0, 0)
                actions.add(mind.act())
                mind.take(1)
        assert actions == {0}
    first = {mind_at(agent("a2c", s).begin(2, 1), Prefix((0,), (0,), ())).act() for s in range(30)}
    assert first == {0, 1}


def test_draws_follow_the_learner_and_the_seed() -> None:
    """The shares of actions at many histories with the same training are the learner's chances."""
    told = experience(4, 3, 2, 7)
    subject = StableBaselinesAgent("ppo", 0)
    counts = np.zeros(3)
    n = 0
    for reward in range(1000):
        mind = mind_at(subject.begin(3, 2), told)
        mind.take(0)
        mind.perceive(reward, 1)
        counts[mind.act()] += 1
        n += 1
    expected = table("ppo", told, (3, 2), 0)[1]
    assert counts / n == pytest.approx(expected, abs=4 * np.sqrt(0.25 / n))
    assert len(subject._tables) == 1


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        *(
            (name, "opposite(CensoredObservation)")
            for name in ("a2c", "dqn", "ppo", "ppo-as-published", "rc(dqn)")
        ),
        ("ppo-as-published", "DejaVu"),
        ("rc(dqn)", "AdversarialSequencePredictor"),
    ],
)
def test_incremental_is_literal(name: str, environment: str) -> None:
    """A run with minds is the run with a function that is told the whole history each time."""
    played, is_opposite = find(environment)
    fast = run_trial(agent(name, 1), played, opposite=is_opposite, steps=18, seed=1)
    literal = FunctionAgent(as_function(agent(name, 1)))
    slow = run_trial(literal, played, opposite=is_opposite, steps=18, seed=1)
    assert fast == slow and fast.outcome == "ok"


DEFAULT_RATES = {"a2c": 7e-4, "dqn": 1e-4, "ppo": 3e-4}
LEAST = {"a2c": 0, "dqn": 4, "ppo": 2}


def literal(algorithm: str, seed: int) -> Any:
    """Section 2.1 as a function of the history: training by the library's own `learn`."""
    known: dict[Any, Any] = {}

    def act(
        history: History,
        n_actions: int,
        n_observations: int,
        *,
        learning_rate: float | None = None,
        learning_rate_scale: float = 1.0,
    ) -> int:
        percepts, actions = history
        k = max(2**i for i in range(12) if 2**i <= len(percepts))
        if k - 1 < LEAST[algorithm]:
            return 0
        rate = (DEFAULT_RATES[algorithm] if learning_rate is None else learning_rate) * (
            learning_rate_scale
        )
        key = (percepts[:k], actions[: k - 1], n_actions, n_observations, rate)
        if key not in known:
            rewards, observations = ([p[i] for p in percepts[:k]] for i in (0, 1))
            lists = (rewards, observations, list(actions[: k - 1]))
            known[key] = oracle.trained(
                algorithm, *lists, n_actions, n_observations, seed, learning_rate=rate
            )
        row = known[key][percepts[-1].observation]
        if algorithm == "dqn":
            row = 0.05 / n_actions + 0.95 * (np.arange(n_actions) == row.argmax())
        state = hash_start(seed, n_actions, n_observations)
        for percept, action in zip(percepts, (*actions, None), strict=True):
            state = hash_percept(state, *percept)
            if action is not None:
                state = hash_action(state, action)
        below = np.cumsum(row[:-1]) <= uniform(state)
        return int(below.sum())

    return act


@pytest.mark.parametrize(
    ("algorithm", "environment"),
    [
        (ALGORITHMS[i % 3], environment)
        for i, environment in enumerate(ENVIRONMENTS)
        if environment not in ("PunishSlowAgent", "PunishFastAgent")  # they count lines of code
    ],
)
def test_every_environment_sees_the_literal_agent(algorithm: str, environment: str) -> None:
    """A run with minds is the run with the function that trains with `learn` on the tuples."""
    for is_opposite in (False, True):
        played = find(environment)[0]
        ours = run_trial(agent(algorithm, 1), played, opposite=is_opposite, steps=10, seed=1)
        asked = FunctionAgent(literal(algorithm, 1))
        theirs = run_trial(asked, played, opposite=is_opposite, steps=10, seed=1)
        assert ours == theirs and ours.outcome == "ok"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_being_simulated_changes_nothing(algorithm: str) -> None:
    told = experience(40, 2, 3, 4)
    function = as_function(StableBaselinesAgent(algorithm, 2))
    alone = StableBaselinesAgent(algorithm, 2)
    mind = alone.begin(2, 3)
    for i in range(40):
        mind.perceive(told.rewards[i], told.observations[i])
        fork = mind.fork()
        for j in range(5):  # a copy lives on, and learns
            fork.act()
            fork.take(j % 2)
            fork.perceive(1, j % 3)
        if i % 8 == 7:
            percepts = zip(told.rewards[: i + 1], told.observations[: i + 1], strict=True)
            history = History(tuple(Percept(*p) for p in percepts), told.actions[:i])
            assert mind.act() == function(history, 2, 3)
        if i < 39:
            mind.take(told.actions[i])


def test_the_memory_of_tables_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sb3_training, "_REMEMBERED", 3)
    subject = StableBaselinesAgent("a2c", 0)
    told = [experience(2, 2, 1, seed) for seed in range(6)]
    first = [mind_at(subject.begin(2, 1), prefix_told).act() for prefix_told in told]
    assert len(subject._tables) <= 3
    assert [mind_at(subject.begin(2, 1), prefix_told).act() for prefix_told in told] == first


def test_what_a_user_gives_is_left_as_it_is() -> None:
    """The library writes into the dictionary of A2C's policy, and PPO would then learn by it."""
    settings: dict[str, Any] = {"policy_kwargs": {"net_arch": [8]}}
    agents = [StableBaselinesAgent(name, 0, **settings) for name in ("a2c", "ppo")]
    before = [repr(subject) for subject in agents]
    for subject in agents:
        mind_at(subject.begin(2, 1), experience(4, 2, 1, 0)).act()
    assert settings == {"policy_kwargs": {"net_arch": [8]}}
    assert [repr(subject) for subject in agents] == before
    assert isinstance(agents[1]._learner(2, 1, None).model.policy.optimizer, torch.optim.Adam)


@pytest.mark.parametrize(("one", "other"), [(0, 2.0**64), (1, 2**64 + 1), (0, 2.0**70)])
def test_large_rewards_are_told_apart(one: float, other: float) -> None:
    def answers(rewards: tuple[float, ...]) -> dict[float, Any]:
        subject = StableBaselinesAgent("dqn", 0)
        states = {}
        for reward in rewards:
            mind: Any = mind_at(subject.begin(2, 1), Prefix((reward,) * 2, (0, 0), (1,)))
            mind.act()
            states[reward] = mind._state
        assert len(subject._tables) == 2
        return states

    assert answers((one, other)) == answers((other, one))
    assert len(set(answers((one, other)).values())) == 2


def test_seeds_of_any_size() -> None:
    for algorithm in ALGORITHMS:
        mind = StableBaselinesAgent(algorithm, 2**40 + 3).begin(2, 1)
        assert mind_at(mind, experience(8, 2, 1, 0)).act() in (0, 1)


def test_a2c_normalises_no_single_advantage() -> None:
    subject = StableBaselinesAgent("a2c", 0, normalize_advantage=True)
    assert mind_at(subject.begin(2, 1), experience(2, 2, 1, 0)).act() == 0
    assert mind_at(subject.begin(2, 1), experience(4, 2, 1, 0)).act() in (0, 1)


def test_tables_are_bounded_by_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sb3_training, "_CELLS", 12)
    subject = StableBaselinesAgent("dqn", 0)
    for seed in range(6):
        mind_at(subject.begin(2, 3), experience(4, 2, 3, seed)).act()
    assert len(subject._tables) == 2


def test_a_learning_rate_can_be_assumed() -> None:
    told = experience(32, 2, 1, 3)

    def chances(subject: StableBaselinesAgent, **options: float) -> Any:
        mind: Any = mind_at(subject.begin(2, 1, **options), told)
        mind.act()
        return mind._table

    ours = StableBaselinesAgent("a2c", 0)
    usual = chances(ours)
    assert chances(ours, learning_rate=7e-4) == usual  # the library's default
    assert chances(ours, learning_rate=0.1) != usual
    halved = chances(ours, learning_rate_scale=0.5)
    assert halved == chances(ours, learning_rate=3.5e-4) != usual
    assert halved == chances(ours, learning_rate=7e-4, learning_rate_scale=0.5)
    published = StableBaselinesAgent("a2c", 0, as_published=True)
    assert chances(published, learning_rate=0.1) == usual
    # As published only the draws of such a copy differ.
    draws: list[list[int]] = [[], []]
    for actions, options in zip(draws, ({}, {"learning_rate": 0.1}), strict=True):
        mind = published.begin(2, 1, **options)
        for _ in range(40):
            mind.perceive(0, 0)
            actions.append(mind.act())
            mind.take(0)
    assert draws[0] != draws[1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: StableBaselinesAgent("sac"),
            "algorithm is 'sac', expected one of a2c, dqn, ppo",
        ),
        (
            lambda: StableBaselinesAgent("ppo", n_steps=5),
            "ppo: n_steps cannot be given: the conversion of a learner to a function of the "
            "history sets _init_setup_model, batch_size, buffer_size, device, env, ",
        ),
        (
            lambda: agent("dqn").begin(2, 1, speed=3),
            "cannot assume speed=3: it knows learning_rate, learning_rate_scale",
        ),
        (
            lambda: table("dqn", experience(8, 2, 1, 0), (2, 1), 0, train_freq=(1, "episode")),
            "train_freq is 1 episodes, expected steps: a history is one episode",
        ),
        (
            lambda: table("a2c", Prefix((0, 0), (0, 4), (0,)), (2, 2), 0),
            "A2C cannot learn from observation 4, expected 0 to 1: the environment tells of one "
            "that it does not have",
        ),
        (
            lambda: table("a2c", Prefix((0, 0), (0, 1), (2,)), (2, 2), 0),
            "A2C cannot learn from action 2, expected 0 to 1",
        ),
        (
            lambda: mind_at(agent("ppo").begin(2, 2), Prefix((0,) * 3, (0, 0, 2), (0, 0))).act(),
            "is told of observation 2, expected 0 to 1: the environment tells of one that it does",
        ),
        (
            lambda: mind_at(
                StableBaselinesAgent("a2c", gama=0.5).begin(2, 1), Prefix((0,), (0,), ())
            ).act(),
            "A2C of Stable-Baselines3 cannot be made with gama: ",
        ),
        *(
            (
                lambda name=name: table(
                    name, Prefix((0.0, *[math.nan] * 7), (0,) * 8, (0,) * 7), (2, 1), 0
                ),
                f"{name.upper()} has no finite weights after training on 8 percepts",
            )
            for name in ALGORITHMS
        ),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        make()
    assert message in str(caught.value)


def test_what_it_is_called() -> None:
    assert repr(agent("dqn", 4)) == "StableBaselinesAgent('dqn', seed=4)"
    assert repr(agent("ppo-as-published", 1)) == (
        "StableBaselinesAgent('ppo', seed=1, as_published=True)"
    )
    assert repr(StableBaselinesAgent("a2c", gamma=0.5)) == (
        "StableBaselinesAgent('a2c', seed=0, gamma=0.5)"
    )
