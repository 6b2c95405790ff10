"""What can be measured: names, functions, objects and classes; anything else is refused at once."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.scripted import NaiveLearner
from goalmeter.reflection import FunctionAgent, History, measure

NAMES = ["TemptingButton", "IgnoreRewards", "IncentivizeLearningRate"]


def turns(history: History, n_actions: int, n_observations: int) -> int:
    return len(history.actions) % n_actions


class Turns:
    """The same as a mind of its own, without `options`; it counts who was made with what."""

    seeds: list[int]

    def __init__(self, seed: int = 0) -> None:
        self.seeds.append(seed)

    def begin(self, n_actions: int, n_observations: int) -> TurnsMind:
        return TurnsMind(n_actions, 0)


class TurnsMind:
    def __init__(self, n_actions: int, turn: int) -> None:
        self.n_actions, self.turn = n_actions, turn

    def perceive(self, reward: float, observation: int) -> None:
        pass

    def act(self) -> int:
        return self.turn % self.n_actions

    def take(self, action: int) -> None:
        self.turn += 1

    def fork(self) -> TurnsMind:
        return TurnsMind(self.n_actions, self.turn)


@pytest.fixture(autouse=True)
def nobody_was_made_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Turns, "seeds", [], raising=False)
    monkeypatch.setattr(sys, "path", sys.path.copy())


def test_functions_objects_and_classes_of_one_agent_measure_the_same() -> None:
    forms: list[Any] = [turns, FunctionAgent(turns), Turns(), Turns]
    results = [measure(form, 12, 2, environments=NAMES) for form in forms]
    assert [form.agent for form in results] == [*["FunctionAgent(turns)"] * 2, "Turns", "Turns"]
    assert results[0].outcomes == {"ok": 12}
    assert results[0].trials == results[1].trials == results[2].trials == results[3].trials
    assert len({trial.total_reward for trial in results[0].trials}) > 2


def test_a_class_is_made_anew_with_the_seed_of_each_trial() -> None:
    measure(Turns, 3, [7, 4], environments="IgnoreRewards")  # type: ignore[arg-type]
    assert Turns.seeds == [7, *[7, 7], *[4, 4]]  # once to look at it
    plain: Any = NaiveLearner
    assert measure(plain, 30, 3).trials == measure("naive", 30, 3).trials


class NoBegin:
    pass


class OddBegin:
    def begin(self, n_actions: int) -> TurnsMind:
        return TurnsMind(n_actions, 0)


class HalfMinded:
    def begin(self, n_actions: int, n_observations: int) -> HalfMinded:
        return self

    def perceive(self, reward: float, observation: int) -> None:
        pass

    def act(self) -> int:
        return 0


class Unseeded:
    def begin(self, n_actions: int, n_observations: int) -> TurnsMind:
        return TurnsMind(n_actions, 0)


EXPECTED = (
    r"expected a function \(history, n_actions, n_observations\) -> int, an object with the method "
    r"'begin', or a class of such objects"
)
REFUSED: list[tuple[Any, str]] = [
    (3, f"the agent is 3, {EXPECTED}"),
    (NoBegin, f"the agent is a class without the method 'begin', {EXPECTED}"),
    (lambda history: 0, r"<lambda>\(history\) has the wrong parameters: too many pos"),
    (
        OddBegin(),
        r"OddBegin.begin\(n_actions\) has the wrong .* begin\(n_actions, n_observations",
    ),
    (HalfMinded(), "HalfMinded returned .*, without take, fork; expected a mind"),
    (
        Unseeded,
        r"Unseeded\(0\) fails: TypeError: .*; a class of agents is called with the seed only",
    ),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_is_no_agent_is_refused_and_nothing_is_played(given: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        measure(given, 5, 1, environments=NAMES)
