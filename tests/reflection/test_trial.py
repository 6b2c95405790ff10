from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.history import FunctionAgent, History
from goalmeter.agents.scripted import ConstantAgent, NaiveLearner
from goalmeter.reflection import trial as named_trial
from goalmeter.reflection.environments.registry import find
from goalmeter.reflection.trial import Trial, run_trial

IGNORE_REWARDS, _ = find("IgnoreRewards")


@pytest.fixture
def user_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of users that are loaded leave nothing behind in this process."""
    monkeypatch.setattr(sys, "path", sys.path.copy())


def test_the_first_percept_counts_as_a_step() -> None:
    # A deterministic agent that ignores rewards agrees with its copy at each of n - 1 actions.
    trial = run_trial(ConstantAgent(), IGNORE_REWARDS, steps=10, seed=0)
    assert trial == Trial("IgnoreRewards", False, 0, 10, 9, played=10)
    opposite = run_trial(ConstantAgent(), IGNORE_REWARDS, opposite=True, steps=10, seed=0)
    assert opposite.total_reward == -9


def test_an_illegal_action_ends_its_trial_and_says_so() -> None:
    def bad(history: History, n_actions: int, n_observations: int) -> int:
        return 7 if len(history.actions) == 3 else 0

    trial = run_trial(FunctionAgent(bad), IGNORE_REWARDS, steps=10, seed=0)
    assert trial.outcome == "illegal action"
    assert trial.detail == "action 7, expected 0 to 1"
    assert (trial.total_reward, trial.played) == (3, 4)


def test_an_exception_ends_its_trial_and_says_so() -> None:
    def broken(history: History, n_actions: int, n_observations: int) -> int:
        raise RuntimeError("out of ideas")

    trial = run_trial(FunctionAgent(broken), IGNORE_REWARDS, steps=10, seed=0)
    line = broken.__code__.co_firstlineno + 1
    assert trial.outcome == "exception"
    assert trial.detail == f"RuntimeError: out of ideas (test_trial.py, line {line})"
    assert (trial.total_reward, trial.played) == (0, 1)


class Answers:
    """An agent, and its own mind, that gives the answer it was made with; forks go on saying 0."""

    options: frozenset[str] = frozenset()

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.taken: list[Any] = []

    def begin(self, n_actions: int, n_observations: int, **options: Any) -> Any:
        return self

    def perceive(self, reward: float, observation: int) -> None:
        pass

    def act(self) -> Any:
        return self.answer

    def take(self, action: int) -> None:
        self.taken.append(action)

    def fork(self) -> Any:
        return Answers(0)


def test_integers_of_any_kind_are_actions_and_become_pythons() -> None:
    for answer in (np.int64(1), np.uint8(1), True, 1):
        agent = Answers(answer)
        trial = run_trial(agent, IGNORE_REWARDS, steps=3, seed=0)
        assert (trial.outcome, trial.total_reward) == ("ok", 2)
        assert [type(action) for action in agent.taken[::2]] == [int, int]


def test_an_interruption_is_an_exception_where_no_keyboard_reaches() -> None:
    def tired(history: History, n_actions: int, n_observations: int) -> int:
        if len(history.actions) == 3:
            raise KeyboardInterrupt
        return 0

    trial = run_trial(FunctionAgent(tired), IGNORE_REWARDS, steps=9, seed=0, keyboard=False)
    assert (trial.outcome, trial.total_reward, trial.played) == ("exception", 3, 4)
    assert trial.detail.startswith("KeyboardInterrupt (test_trial.py, line ")
    with pytest.raises(KeyboardInterrupt):
        run_trial(FunctionAgent(tired), IGNORE_REWARDS, steps=9, seed=0)


def test_a_trial_goes_through_json_as_it_is() -> None:
    for trial in (
        run_trial(ConstantAgent(5), IGNORE_REWARDS, steps=3, seed=0),
        Trial("A", True, 7, 9, 0.1 + 0.2, played=9),
    ):
        assert Trial.from_json(json.loads(json.dumps(trial.to_json()))) == trial


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total_reward": "4"}, "total_reward is '4', expected a finite number"),
        ({"outcome": "fine"}, "outcome is 'fine', expected one of 'ok', 'illegal action'"),
        ({"steps": 10**9}, "steps is 1000000000, expected a whole number from 1 to 10000000"),
        ({"totl_reward": 1}, r"there is no field 'totl_reward'; did you mean 'total_reward'\?"),
    ],
)
def test_a_trial_that_was_edited_is_refused_by_its_field(
    change: dict[str, object], message: str
) -> None:
    good = Trial("A", True, 7, 9, 2.0, played=9).to_json()
    with pytest.raises(InvalidFileError, match=f"^run, line 3: {message}"):
        Trial.from_json(good | change, "run, line 3")


USER = """
import random
import numpy as np

class Drawing:
    options = frozenset()
    def __init__(self, seed):
        if seed == 3:
            raise RuntimeError("not three")
        self.first = random.randrange(10**6)
    def begin(self, n_actions, n_observations, **options):
        return self
    def perceive(self, reward, observation): pass
    def take(self, action): pass
    def fork(self): return self
    def act(self):
        return int(np.random.random() < 0.5) if self.first % 2 else random.randrange(2)
"""


def named(agent: str, seed: int = 0, environment: str = "TemptingButton") -> Trial:
    return Trial.from_json(named_trial.play(agent, environment, False, 30, seed, "literal"))


def test_a_named_trial_is_the_same_trial() -> None:
    place, _ = find("TemptingButton")
    unnamed = run_trial(NaiveLearner(4), place, steps=30, seed=4)
    assert named("naive", 4) == unnamed


def test_users_draws_are_seeded_by_the_trial(tmp_path: Path, user_code: None) -> None:
    (tmp_path / "drawing.py").write_text(USER)
    agent = f"{tmp_path}/drawing.py:Drawing"
    first = [named(agent, seed) for seed in (0, 1, 2)]
    again = [named(agent, seed) for seed in (2, 1, 0)]
    assert first == again[::-1]
    assert len({trial.total_reward for trial in first}) > 1


def test_steps_counted_in_actions() -> None:
    """The authors' later library counts n actions and the rewards that they bring, not the first
    percept's. CryingBaby's first percept has the reward 1, and so has each one after it where the
    baby is an agent that always does 0: it laughs, whatever happens."""
    baby, _ = find("CryingBaby")
    fed = ConstantAgent()
    by_percepts = run_trial(fed, baby, steps=5, seed=0)
    by_actions = run_trial(fed, baby, steps=5, seed=0, step_counting="actions")
    assert (by_percepts.total_reward, by_percepts.played) == (1 + 4, 5)
    assert (by_actions.total_reward, by_actions.played) == (5, 6)
    ceiling, _ = find("IgnoreRewards")
    for n in (1, 2, 7):
        counted = run_trial(fed, ceiling, steps=n, seed=0, step_counting="actions")
        assert counted.total_reward == n
        assert run_trial(fed, ceiling, steps=n, seed=0).total_reward == n - 1
    for wrong in ({"step_counting": "turns"}, {"steps": 0}):
        with pytest.raises(InvalidParameterError, match=r"expected ('percepts' or|at least 1)"):
            run_trial(fed, baby, **({"steps": 5, "seed": 0} | wrong))
