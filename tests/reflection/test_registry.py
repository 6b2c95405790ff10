"""Agents by name and from files: what each name means, and what is said of those that mean none."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from reflection.histories import answers, random_history

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.histories import (
    ConstantAgent,
    NaiveLearner,
    QLearner,
    RandomAgent,
    RealityCheck,
    agent,
    agent_names,
    register,
    registry,
)
from goalmeter.agents.histories.adapters import FunctionAgent

USER_FILE = """
from __future__ import annotations
from dataclasses import dataclass
from helper_of_the_user import WHAT

def last_action(history, n_actions, n_observations):
    return history.actions[-1] if history.actions else WHAT

number = 3

class NoAgent:
    pass

@dataclass
class Learner:
    seed: int
    options: frozenset[str] = frozenset()
    def begin(self, n_actions, n_observations, **options):
        return ("mind", self.seed)

made = Learner(99)

class Difficult:
    def __init__(self): pass
    def begin(self, n_actions, n_observations, **options): pass
"""


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    (tmp_path / "helper_of_the_user.py").write_text("WHAT = 1\n")
    path = tmp_path / "my agents (v2).py"
    path.write_text(USER_FILE)
    return path


# --- Names ----------------------------------------------------------------------------------------


def test_names_stand_for_agents_with_their_seed() -> None:
    assert agent("random", 4) == RandomAgent(4)
    assert agent("constant") == ConstantAgent(0)
    assert agent("constant(12)") == ConstantAgent(12)
    assert agent("naive") == NaiveLearner(0)
    assert agent("naive-true-average", 4) == NaiveLearner(4, true_average=True)
    assert agent(" q-learner ", 4) == QLearner(4)


def test_reality_checks_are_of_anything_also_of_each_other(user_file: Path) -> None:
    checked = agent("rc( rc(constant(1)))", 4)
    assert isinstance(checked, RealityCheck) and isinstance(checked.inner, RealityCheck)
    assert checked.inner.inner == ConstantAgent(1)
    assert agent("rc(naive)", 4).inner == NaiveLearner(4)
    assert isinstance(agent(f"rc({user_file}:last_action)").inner, FunctionAgent)


def test_every_name_that_is_listed_makes_agents_that_act() -> None:
    history = random_history(Random(1), 8)
    assert list(agent_names())[:3] == ["random", "constant", "naive"]
    assert all(agent_names().values())
    for name in ("random", "constant", "naive", "naive-true-average", "q-learner"):
        assert name in agent_names()
        assert set(answers(agent(name).begin(2, 2), history)) <= {0, 1}


def test_an_agent_can_be_given_a_name_and_be_imported_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", registry._ENTRIES.copy())
    register("heavy", registry.later("a_heavy_module", "make"), "needs much")
    assert agent_names()["heavy"] == "needs much"
    with pytest.raises(ModuleNotFoundError, match="a_heavy_module"):
        agent("heavy")
    module = ModuleType("a_heavy_module")
    module.make = ConstantAgent  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_heavy_module", module)
    assert agent("rc(heavy)", seed=5).inner == ConstantAgent(5)
    with pytest.raises(InvalidParameterError, match="the name 'heavy' is taken; choose another"):
        register("heavy", ConstantAgent, "again")
    for odd in ("Heavy", "rc(x)", "a.py:b", ""):
        with pytest.raises(InvalidParameterError, match="cannot name an agent; expected small"):
            register(odd, ConstantAgent, "odd")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("naiv", r"no agent 'naiv'; did you mean 'naive'\? Known are random, constant, naive,"),
        ("rc(Q_learner)", r"no agent 'Q_learner'; did you mean 'q-learner'\?"),
        ("zzz", r"no agent 'zzz'; known are random, constant, naive,"),
        ("rc()", r"no agent 'rc\(\)'.*rc\(NAME\) and FILE.py:NAME"),
        ("constant(-1)", r"in constant\(K\), K is a whole number, 0 or more"),
        ("rc(naive", r"no agent 'rc\(naive': a bracket is missing"),
        ("mine.txt:agent", r"'mine.txt' is no Python file; expected a file that ends in .py"),
        ("rc(mine.txt:agent)", r"'mine.txt' is no Python file; expected a file that ends in"),
        ("", r"no agent ''"),
        ("mine.py", r"mine.py is a file; say which of its agents: mine.py:NAME"),
    ],
)
def test_unknown_names_give_the_nearest(name: str, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        agent(name)


# --- Files ----------------------------------------------------------------------------------------


def test_a_function_of_the_history_in_a_file(user_file: Path) -> None:
    """Its folder is searched for what it imports, after everything else."""
    history = random_history(Random(1), 8)
    mine = agent(f"{user_file}:last_action")
    assert answers(mine.begin(2, 2), history) == [1, *history.actions]
    assert sys.path[-1] == str(user_file.parent)


def test_an_agent_that_learns_step_by_step_in_a_file(user_file: Path) -> None:
    """A class is called with the seed, an object is taken as it is."""
    assert agent(f"{user_file}:Learner", seed=7).begin(2, 1) == ("mind", 7)
    assert agent(f"{user_file}:made", seed=7).begin(2, 1) == ("mind", 99)


def test_a_file_is_run_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "counting.py"
    path.write_text(
        "seen = []\ndef agent(history, *_):\n    seen.append(1)\n    return len(seen)\n"
    )
    history = random_history(Random(1), 1)
    for _ in range(2):
        assert answers(agent(f"{path}:agent").begin(9, 2), history) == [1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("last_acton", r"has no agent 'last_acton'; did you mean .*\.py:last_action\?"),
        ("zzz", r"has no agent 'zzz'; define it there"),
        ("number", r"number is 3, expected a function \(history, n_actions, n_observations\)"),
        ("NoAgent", r"NoAgent is a class without the method 'begin', expected a function"),
        ("Difficult", r"Difficult\(0\) fails: TypeError: .*called with the seed alone"),
    ],
)
def test_files_without_such_an_agent(user_file: Path, name: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        agent(f"{user_file}:{name}")


def test_files_that_are_not_there() -> None:
    with pytest.raises(InvalidFileError, match=r"there is no file nowhere/mine.py; the path of an"):
        agent("nowhere/mine.py:agent")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = x / 0\n", r"bad.py fails when it is run, in line 2: ZeroDivisionError: div"),
        ("import no_such_module_here\n", r"in line 1: ModuleNotFoundError: No module named"),
        ("def agent(:\n", r"bad.py fails when it is run: SyntaxError: .*line 1.*try: python"),
        ("import sys\nsys.exit(3)\n", r"bad.py fails when it is run, in line 2: SystemExit: 3"),
    ],
)
def test_files_that_fail_when_they_are_run(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(text)
    before = set(sys.modules)
    with pytest.raises(InvalidFileError, match=message):
        agent(f"{path}:agent")
    assert set(sys.modules) == before
