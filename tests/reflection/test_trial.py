from __future__ import annotations

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.reflection.adapters import FunctionAgent
from goalmeter.reflection.agents import ConstantAgent
from goalmeter.reflection.environments.registry import BATTERY, find
from goalmeter.reflection.protocol import History
from goalmeter.reflection.trial import Trial, run_trial

IGNORE_REWARDS, _ = find("IgnoreRewards")


def test_the_first_percept_counts_as_a_step() -> None:
    # A deterministic agent that ignores rewards agrees with its copy at each of n - 1 actions.
    trial = run_trial(ConstantAgent(), IGNORE_REWARDS, steps=10, seed=0)
    assert trial == Trial("IgnoreRewards", False, 0, 10, 9)
    opposite = run_trial(ConstantAgent(), IGNORE_REWARDS, opposite=True, steps=10, seed=0)
    assert opposite.total_reward == -9


def test_the_opposite_has_the_same_rooms() -> None:
    # An agent that ignores everything gains in one what it loses in the other.
    for environment in BATTERY:
        one, other = (
            run_trial(ConstantAgent(), environment, opposite=way, steps=60, seed=4).total_reward
            for way in (False, True)
        )
        assert one == -other, environment.name


def test_an_illegal_action_ends_its_trial_and_says_so() -> None:
    def bad(history: History, n_actions: int, n_observations: int) -> int:
        return 7 if len(history.actions) == 3 else 0

    trial = run_trial(FunctionAgent(bad), IGNORE_REWARDS, steps=10, seed=0)
    assert trial.outcome == "illegal action"
    assert trial.detail == "action 7, expected 0 to 1"
    assert trial.total_reward == 3


def test_an_exception_ends_its_trial_and_says_so() -> None:
    def broken(history: History, n_actions: int, n_observations: int) -> int:
        raise RuntimeError("out of ideas")

    trial = run_trial(FunctionAgent(broken), IGNORE_REWARDS, steps=10, seed=0)
    assert (trial.outcome, trial.detail) == ("exception", "RuntimeError: out of ideas")


def test_a_trial_has_a_step() -> None:
    with pytest.raises(InvalidParameterError, match="steps is 0, expected at least 1"):
        run_trial(ConstantAgent(), IGNORE_REWARDS, steps=0, seed=0)
