"""Stable-Baselines3's learners as functions of the history, against the library's own `learn`."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from oracles import stable_baselines as oracle
from reflection.simple_agents import as_function

from goalmeter._errors import InvalidParameterError
from goalmeter.agents import stable_baselines as sb3_training
from goalmeter.agents.history import (
    FunctionAgent,
    Mind,
    Prefix,
)
from goalmeter.agents.registry import history_agent as agent
from goalmeter.agents.stable_baselines import StableBaselinesAgent
from goalmeter.reflection.environments.registry import find
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
    learner = StableBaselinesAgent(algorithm, seed, **settings)._learner(*counts, None)
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


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("a2c", "opposite(CensoredObservation)"),
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


def test_a_learning_rate_can_be_assumed() -> None:
    told = experience(32, 2, 1, 3)

    def chances(subject: StableBaselinesAgent, **options: float) -> Any:
        mind: Any = mind_at(subject.begin(2, 1, **options), told)
        mind.act()
        return mind.learned

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
            "ppo: n_steps cannot be changed; the conversion of a learner to a function of the "
            "history sets _init_setup_model, batch_size, buffer_size, device, env, ",
        ),
        (
            lambda: table("a2c", Prefix((0, 0), (0, 4), (0,)), (2, 2), 0),
            "A2C cannot learn from observation 4, expected 0 to 1; the environment declares "
            "fewer than it uses",
        ),
        (
            lambda: mind_at(
                StableBaselinesAgent("a2c", gama=0.5).begin(2, 1), Prefix((0,), (0,), ())
            ).act(),
            "A2C of Stable-Baselines3 does not accept gama: ",
        ),
        *(
            (
                lambda name=name: table(
                    name, Prefix((0.0, *[math.nan] * 7), (0,) * 8, (0,) * 7), (2, 1), 0
                ),
                f"{name.upper()} has non-finite weights after training on 8 percepts",
            )
            for name in ALGORITHMS
        ),
    ],
)
def test_errors(make: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        make()
    assert message in str(caught.value)


def every_observation(learner: Any) -> Any:
    return learner.model.policy.obs_to_tensor(np.arange(learner.counts["observation"]))[0]


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("a2c", {"gamma": 0.5, "learning_rate": 0.05, "gae_lambda": 0.9}),
        ("dqn", {"train_freq": 3, "gradient_steps": 2, "target_update_interval": 5}),
        ("dqn", {"gradient_steps": -1, "learning_rate": 0.01}),
        ("ppo", {"n_epochs": 3, "learning_rate": 0.01, "clip_range_vf": 0.2}),
    ],
)
def test_training_is_what_the_library_does_in_a_world_that_replays(
    algorithm: str, settings: dict[str, Any]
) -> None:
    k, counts = 32, (3, 4)
    told = experience(k, *counts, seed=k)
    lists = (list(told.rewards), list(told.observations), list(told.actions))
    expected = oracle.trained(algorithm, *lists, *counts, seed=5, **settings)
    if algorithm != "dqn":
        assert table(algorithm, told, counts, 5, **settings) == pytest.approx(expected, abs=2e-5)
        return
    learner = StableBaselinesAgent("dqn", 5, **settings)._learner(*counts, None)
    rows = learner.train(told)
    q_values = learner.model.q_net(every_observation(learner)).detach().numpy()
    assert q_values == pytest.approx(expected, abs=2e-5)
    # Greedy, but for the last of the exploration rates: 5% uniform.
    chances = np.full(counts[::-1], 0.05 / counts[0])
    chances[np.arange(counts[1]), expected.argmax(axis=1)] += 0.95
    assert np.diff(np.array(rows), axis=1, prepend=0) == pytest.approx(chances)


@pytest.mark.parametrize("as_published", [False, True])
def test_forced_actions_are_forced_properly(as_published: bool) -> None:
    """PPO compares with the chance of the action that was taken, the better one of the two at each
    observation here; as published, with that of an action that the untrained network drew."""
    learner = StableBaselinesAgent("ppo", 3, as_published=as_published)._learner(2, 8, None)
    untrained = np.asarray(learner._probabilities(every_observation(learner)))
    better = untrained.argmax(axis=1)
    seen = tuple(i % 8 for i in range(64))
    told = Prefix((1.0,) * 64, seen, tuple(int(better[o]) for o in seen[:-1]))
    learner.train(told)
    kept = learner.model.rollout_buffer.log_probs.reshape(-1)
    of_taken = np.log([untrained[o].max() for o in seen[:-1]])
    of_others = np.log([untrained[o].min() for o in seen[:-1]])
    if as_published:
        agrees = np.isclose(kept, of_taken, atol=1e-6)
        assert 0.2 < agrees.mean() < 0.8
        assert np.allclose(kept[~agrees], of_others[~agrees], atol=1e-6)
    else:
        assert kept == pytest.approx(of_taken, abs=1e-6)


def test_nothing_global_is_touched() -> None:
    def states() -> tuple[Any, ...]:
        of_numpy = np.random.get_state()[1].tolist()  # type: ignore[index]  # noqa: NPY002
        return random.getstate(), of_numpy, torch.get_rng_state().tolist()

    before = states()
    for algorithm in ALGORITHMS:
        table(algorithm, experience(8, 2, 1, 0), (2, 1), 0)
    assert states() == before
