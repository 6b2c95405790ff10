"""The recurrent DQN: against its literal form with PyTorch, by hand, and what every agent keeps."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
from reflection.histories import answers, in_another_process, random_history, tell

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.history import (
    FunctionAgent,
    History,
    Percept,
    RealityCheck,
    hash_action,
    hash_percept,
    hash_start,
)
from goalmeter.agents.recurrent_dqn import QNetwork, RecurrentDQN
from goalmeter.reflection.environments.registry import ENVIRONMENTS, find
from goalmeter.reflection.trial import run_trial
from goalmeter.runs.jobs import OK

# A learner that learns within a few steps.
SMALL: dict[str, Any] = {
    "batch": 4,
    "memory": 12,
    "target_every": 3,
    "lookback": 2,
    "hidden": 3,
    "learning_rate": 0.5,
}


def generators_of(agent: RecurrentDQN, n_actions: int, n_observations: int) -> Callable[..., Any]:
    """The draws of an agent as a function of the history that is trained on, for the oracle."""

    def draws(history: Any) -> tuple[np.random.Generator, ...]:
        percepts, actions = history
        state = hash_start(agent.seed, n_actions, n_observations)
        for percept, action in zip(percepts, (*actions, None), strict=True):
            state = hash_percept(state, *percept)
            if action is not None:
                state = hash_action(state, action)
        drawn = agent.draws(state)
        return drawn.weights, drawn.replay, drawn.dropout

    return draws


def own_values(agent: RecurrentDQN, history: History, n_actions: int, n_obs: int) -> list[float]:
    mind: Any = tell(agent.begin(n_actions, n_obs), history)
    network = agent.trained(mind).network
    return network.q_values(mind._window()[:, None])[:, 0].tolist()


# --- Against the literal function -----------------------------------------------------------------


@pytest.mark.parametrize("case", range(24))
def test_values_and_actions_are_those_of_the_literal_function(case: int) -> None:
    """Histories that are nobody's, any number of layers and actions, both sorts of draws.

    The last histories have rewards of any size and actions that are not legal.
    """
    oracle = pytest.importorskip("oracles.recurrent_dqn")
    rng = Random(case)
    settings = {
        "batch": (batch := rng.randint(1, 6)),
        "memory": rng.randint(batch, 30),
        "target_every": rng.randint(1, 9),
        "lookback": rng.randint(0, 4),
        "layers": rng.randint(1, 3),
        "hidden": rng.randint(1, 5),
        "learning_rate": rng.choice([0.01, 0.1, 1.0]),
        "dropout": rng.choice([0.0, 0.2, 0.5]),
        "discount": rng.choice([0.0, 0.9, 0.999]),
    }
    n_actions = rng.randint(1, 4)
    told = random_history(rng, rng.randint(20, 40), n_actions, 3)
    if case >= 18:
        rewards = [9, -2.5, Fraction(1, 3), 50]
        told = History(
            tuple(Percept(rng.choice(rewards), p.observation) for p in told.percepts),
            tuple(rng.randint(-1, n_actions) for _ in told.actions),
        )
    agent = RecurrentDQN(case - 3, draws_from=rng.choice(["seed", "history"]), **settings)
    expected = oracle.trained_values(
        told, n_actions, draws=generators_of(agent, n_actions, 3), **settings
    )
    assert own_values(agent, told, n_actions, 3) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    action = oracle.recurrent_dqn(
        told, n_actions, 3, draws=generators_of(agent, n_actions, 3), **settings
    )
    assert tell(agent.begin(n_actions, 3), told).act() == action


def test_every_answer_along_a_history_is_that_of_the_literal_function() -> None:
    """The two agree at every point, before and after learning, and both actions occur."""
    oracle = pytest.importorskip("oracles.recurrent_dqn")
    agent = RecurrentDQN(5, **SMALL)
    told = random_history(Random(3), 34)
    draws = generators_of(agent, 2, 2)
    expected = [
        oracle.recurrent_dqn((told.percepts[:n], told.actions[: n - 1]), 2, 2, draws=draws, **SMALL)
        for n in range(1, 35)
    ]
    assert answers(agent.begin(2, 2), told) == expected
    assert set(expected) == {0, 1}


@pytest.mark.parametrize(
    "environment",
    [name for name in ENVIRONMENTS if name not in ("PunishSlowAgent", "PunishFastAgent")],
)
def test_every_environment_sees_the_literal_agent(environment: str) -> None:
    """A run with minds is the run with the literal function; it learns from the fifth percept."""
    oracle = pytest.importorskip("oracles.recurrent_dqn")
    agent = RecurrentDQN(2, **SMALL)

    @cache  # the agent and the environment ask at the same histories, and training takes long
    def literal(
        history: History,
        n_actions: int,
        n_observations: int,
        *,
        learning_rate: float = SMALL["learning_rate"],
        learning_rate_scale: float = 1.0,
    ) -> int:
        settings = SMALL | {"learning_rate": learning_rate * learning_rate_scale}
        draws = generators_of(agent, n_actions, n_observations)
        action: int = oracle.recurrent_dqn(
            history, n_actions, n_observations, draws=draws, **settings
        )
        return action

    for opposite in (False, True):
        place = find(environment)[0]
        ours = run_trial(agent, place, opposite=opposite, steps=11, seed=3)
        theirs = run_trial(FunctionAgent(literal), place, opposite=opposite, steps=11, seed=3)
        assert ours == theirs and ours.outcome == OK


def test_the_published_settings_agree_with_the_literal_function_when_learning_begins() -> None:
    """256 percepts: 255 pushes, so 128 steps with the first from the 128th push on."""
    oracle = pytest.importorskip("oracles.recurrent_dqn")
    agent = RecurrentDQN(1, lookback=1)
    told = random_history(Random(1), 256)
    draws = generators_of(agent, 2, 2)
    expected = oracle.trained_values(told, 2, draws=draws, lookback=1)
    assert own_values(agent, told, 2, 2) == pytest.approx(expected, rel=1e-9)
    before: Any = tell(agent.begin(2, 2), History(told.percepts[:255], told.actions[:254]))
    initial = QNetwork.initial(agent.draws(0).weights, 2, 5, 2)
    assert agent.trained(before).network.gates.tolist() == initial.gates.tolist()


# --- What every agent keeps -----------------------------------------------------------------------


@pytest.mark.parametrize("draws_from", ["seed", "history"])
def test_asking_and_the_order_of_asking_change_nothing(draws_from: str) -> None:
    agent = RecurrentDQN(2, draws_from=draws_from, **SMALL)
    rng = Random(4)
    told = [random_history(rng, 40) for _ in range(4)]
    expected = [
        answers(RecurrentDQN(2, draws_from=draws_from, **SMALL).begin(2, 2), history)
        for history in told
    ]
    assert len({tuple(row) for row in expected}) > 1
    for n in (3, 1, 0, 2, 0):
        assert answers(agent.begin(2, 2), told[n]) == expected[n]
        mind = tell(agent.begin(2, 2), told[n])
        assert [mind.act() for _ in range(3)] == [expected[n][-1]] * 3


def test_what_is_forgotten_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks and answers are remembered up to a number, and the same when made again."""
    module = "goalmeter.agents.recurrent_dqn"
    rng = Random(5)
    told = [random_history(rng, 33) for _ in range(3)]
    agent = RecurrentDQN(2, **SMALL)
    expected = [answers(agent.begin(2, 2), history) for history in told]
    monkeypatch.setattr(f"{module}._NETWORKS", 2)
    monkeypatch.setattr(f"{module}._ANSWERS", 3)
    small = RecurrentDQN(2, **SMALL)
    for _ in range(2):
        assert [answers(small.begin(2, 2), history) for history in told] == expected
    assert len(small._trained) == 2
    assert all(len(trained.answers) <= 3 for trained in small._trained.values())


def test_forks_are_independent() -> None:
    agent = RecurrentDQN(1, **SMALL)
    rng = Random(6)
    common, first, second = (random_history(rng, 20) for _ in range(3))
    original = tell(agent.begin(2, 2), common)
    original.take(1)
    fork = original.fork()
    tell(fork, second)
    tell(original, first)
    for mind, following in ((original, first), (fork, second)):
        whole = History(
            (*common.percepts, *following.percepts), (*common.actions, 1, *following.actions)
        )
        assert mind.act() == tell(RecurrentDQN(1, **SMALL).begin(2, 2), whole).act()


def test_learning_rates_are_assumed_and_kept_apart() -> None:
    told = random_history(Random(8), 40)
    settings = SMALL | {"learning_rate": 0.25}
    agent = RecurrentDQN(3, **settings)
    assert agent.options == {"learning_rate", "learning_rate_scale"}
    asked = {
        rate: own_values(RecurrentDQN(3, **settings | {"learning_rate": rate}), told, 2, 2)
        for rate in (0.125, 0.25, 1.0)
    }
    for options, rate in (
        ({}, 0.25),
        ({"learning_rate": 1.0}, 1.0),
        ({"learning_rate_scale": 0.5}, 0.125),
        ({"learning_rate": 0.5, "learning_rate_scale": 0.5}, 0.25),
    ):
        mind: Any = tell(agent.begin(2, 2, **options), told)
        network = agent.trained(mind).network
        assert network.q_values(mind._window()[:, None])[:, 0].tolist() == asked[rate]
    assert len({tuple(values) for values in asked.values()}) == 3


def test_global_random_numbers_are_left_alone() -> None:
    torch = pytest.importorskip("torch")

    def states() -> list[str]:
        legacy = np.random.get_state()  # noqa: NPY002
        return [str(random.getstate()), str(legacy), str(torch.get_rng_state().tolist())]

    before = states()
    answers(RecurrentDQN(1, **SMALL).begin(2, 2), random_history(Random(1), 20))
    assert states() == before


def fixed_answers() -> list[list[int]]:
    rng = Random(9)
    told = [random_history(rng, 40) for _ in range(3)]
    return [
        answers(RecurrentDQN(seed, draws_from=draws, **SMALL).begin(2, 2), history)
        for seed in (0, -7, 2**70)
        for draws in ("seed", "history")
        for history in told
    ]


def test_another_process_answers_the_same_without_torch() -> None:
    program = (
        "import sys; sys.modules['torch'] = None; "
        "import agents.learners.test_recurrent_dqn as t; answers = t.fixed_answers()"
    )
    in_this_process = fixed_answers()
    assert in_another_process(program) == in_this_process
    assert len({tuple(row) for row in in_this_process}) > 6


def test_before_a_batch_is_full_all_histories_share_the_initial_network() -> None:
    agent = RecurrentDQN(0)
    for n in (1, 5, 128):
        tell(agent.begin(2, 2), random_history(Random(n), n)).act()
    assert len(agent._trained) == 1
    apart = RecurrentDQN(0, draws_from="history")
    for n in (1, 5, 128):
        tell(apart.begin(2, 2), random_history(Random(n), n)).act()
    assert len(apart._trained) == 3


def test_the_reality_check_changes_nothing_where_copies_did_what_the_agent_did() -> None:
    """In TemptingButton a copy's past actions are the agent's own, so no copy ever freezes."""
    plain, checked = (
        run_trial(agent, find("TemptingButton")[0], steps=200, seed=2)
        for agent in (RecurrentDQN(4, **SMALL), RealityCheck(RecurrentDQN(4, **SMALL)))
    )
    assert plain.total_reward == checked.total_reward
    assert abs(plain.total_reward) < 199


def test_rewards_too_large_to_learn_from_are_no_error() -> None:
    told = History(tuple(Percept(1e308 * (-1) ** n, 0) for n in range(20)), (0,) * 19)
    assert tell(RecurrentDQN(1, **SMALL).begin(2, 1), told).act() in (0, 1)


# --- Words ----------------------------------------------------------------------------------------


def test_its_name_says_what_is_not_as_published() -> None:
    assert repr(RecurrentDQN(3)) == "RecurrentDQN(seed=3)"
    changed = RecurrentDQN(lookback=1, learning_rate=0.1, draws_from="history")
    assert repr(changed) == "RecurrentDQN(seed=0, draws_from='history', lookback=1)"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lookback": -1}, "lookback is -1, expected at least 0"),
        ({"batch": 0}, "batch is 0, expected at least 1"),
        ({"layers": 0}, "layers is 0, expected at least 1"),
        ({"hidden": 0}, "hidden is 0, expected at least 1"),
        ({"target_every": 0}, "target_every is 0, expected at least 1"),
        ({"dropout": 1.0}, r"dropout is 1.0, expected a share in \[0, 1\)"),
        ({"memory": 100}, "memory is 100, expected at least the batch, 128"),
        ({"draws_from": "clock"}, "draws_from is 'clock', expected 'seed' or 'history'"),
        ({"epsilon": 0.1}, "the recurrent DQN has no setting 'epsilon'; it has learning_rate, "),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        RecurrentDQN(**settings)


def test_options_that_it_does_not_know_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="cannot assume temper='bad': it knows learn"):
        RecurrentDQN().begin(2, 1, temper="bad")
