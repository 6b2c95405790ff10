"""What can be measured: names, functions, objects and classes; anything else is refused at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import goalmeter as gm
from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidParameterError
from goalmeter.agents.scripted import ConstantAgent, NaiveLearner
from goalmeter.agents.user_agents import agent_of, check_mind
from goalmeter.reflection import FunctionAgent, History, RealityCheck, compare, measure

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


def test_the_reality_check_of_a_function_and_of_an_object_without_options() -> None:
    results = [
        measure(RealityCheck(inner), 12, 1, environments=NAMES)
        for inner in (turns, FunctionAgent(turns), Turns())
    ]
    assert results[0].trials == results[1].trials == results[2].trials
    assert results[0].outcomes == {"ok": 6}
    assert gm.reflection.RealityCheck is RealityCheck
    assert compare(results[0], results[1]).difference == 0


def test_a_file_may_give_an_object_without_options(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Mind:\n"
        "    def perceive(self, reward, observation): pass\n"
        "    def act(self): return 0\n"
        "    def take(self, action): pass\n"
        "    def fork(self): return self\n"
        "class Agent:\n"
        "    def __init__(self, seed): pass\n"
        "    def begin(self, n_actions, n_observations): return Mind()\n"
    )
    for name in (f"{tmp_path}/mine.py:Agent", f"rc({tmp_path}/mine.py:Agent)"):
        result = measure(name, 9, 1, environments=NAMES)
        assert result.trials == measure(ConstantAgent(), 9, 1, environments=NAMES).trials


class NoBegin:
    pass


class OddBegin:
    def begin(self, n_actions: int) -> TurnsMind:
        return TurnsMind(n_actions, 0)


class Mindless:
    def begin(self, n_actions: int, n_observations: int) -> None:
        pass


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
    (None, f"the agent is None, {EXPECTED}"),
    (3, f"the agent is 3, {EXPECTED}"),
    (b"naive", "the agent is b'naive', expected"),
    (NoBegin, f"the agent is a class without the method 'begin', {EXPECTED}"),
    (NoBegin(), "the agent is <.*>, expected"),
    (int, "the agent is a class without"),
    (lambda history: 0, r"<lambda>\(history\) cannot be called as it will be: too many pos"),
    (
        lambda a, b, c, d: 0,
        r"<lambda>\(a, b, c, d\) cannot be .*: missing a required argument: 'd'",
    ),
    (lambda a, b, c, *, d: 0, r"missing a required (keyword-only )?argument: 'd'; expected a func"),
    (
        OddBegin(),
        r"OddBegin.begin\(n_actions\) cannot be called .* begin\(n_actions, n_observations",
    ),
    (Mindless(), "Mindless gives None, which lacks perceive, act, take, fork; expected a mind"),
    (HalfMinded(), "HalfMinded gives .*, which lacks take, fork; expected a mind"),
    (
        Unseeded,
        r"Unseeded\(0\) fails: TypeError: .*; a class of agents is called with the seed alone",
    ),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_is_no_agent_is_refused_and_nothing_is_played(given: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        measure(given, 5, 1, environments=NAMES)


def test_minds_inside_a_reality_check_are_looked_at_too() -> None:
    with pytest.raises(InvalidParameterError, match="lacks take, fork"):
        measure(RealityCheck(RealityCheck(HalfMinded())), 5, 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameterError, match="the agent is 3, expected a function"):
        RealityCheck(3)  # type: ignore[arg-type]


def test_an_agent_that_fails_to_begin_is_left_to_its_trials() -> None:
    class Shy:
        def begin(self, n_actions: int, n_observations: int) -> TurnsMind:
            raise RuntimeError("not here")

    check_mind(agent_of(Shy(), 0, "it"), "it")
    shy: Any = Shy()
    result = measure(shy, 5, 1, environments=NAMES)
    assert result.outcomes == {"exception": 6}
    assert "RuntimeError: not here" in result.trials[0].detail


@pytest.mark.parametrize("name", ["{}/bad.py:short", "rc({}/bad.py:short)", "{}/bad.py:Mindless"])
def test_a_file_is_checked_before_anything_is_played(tmp_path: Path, name: str) -> None:
    (tmp_path / "bad.py").write_text(
        "def short(history):\n    return 0\n"
        "class Mindless:\n"
        "    def __init__(self, seed): pass\n"
        "    def begin(self, n_actions, n_observations): pass\n"
    )
    told: list[str] = []
    with pytest.raises(
        GoalmeterError, match=r"short\(history\) cannot|gives None, which lacks"
    ) as e:
        measure(name.format(tmp_path), 5, 1, out=tmp_path / "run", progress=told.append)
    assert isinstance(e.value, InvalidFileError) or "Mindless" in name
    assert told == [] and (tmp_path / "run" / "trials.jsonl").read_text() == ""
