"""Environments from users' files: what they are called, how they are played, what is refused."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from reflection.simple_agents import last_sign
from reflection.test_environments import interact

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.scripted import ConstantAgent, NaiveLearner
from goalmeter.reflection import measure
from goalmeter.reflection.environments import Environment, Run, find
from goalmeter.reflection.trial import run_trial

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "src/goalmeter/reflection/environments/README.md"
USER = '''
"""Mine: always the same.

Idea: none."""
import numpy as np
from goalmeter.reflection.environments import IgnoreRewards, Run

class Mine(Run):
    """Pays for action 1, shown by the last observation."""
    n_actions = 3
    n_observations = 4
    options = {"pay": ("one", "half")}

    def __init__(self, source, draws, sign, pay="one"):
        super().__init__(source, draws, sign)
        self.pay = 1 if pay == "one" else 0.5

    def begin(self):
        return 0, 0

    def react(self, action):
        return self.sign * self.pay * (action == 1), np.int64(action)

class Odd(Mine):
    gives = None
    def react(self, action):
        return self.gives

class Failing(Mine):
    def begin(self):
        return 1 // 0

class Lacking(Run):
    def begin(self):
        return 0, 0

class Silent(Mine):
    n_actions = 0

thing = 3
'''.replace("import IgnoreRewards, Run", "import Run")


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    path = tmp_path / "my world (v2).py"
    path.write_text(USER)
    return str(path)


def test_its_name_is_that_of_the_file_and_the_class(user: str) -> None:
    environment, is_opposite = find(f"{user}:Mine")
    assert (environment.name, environment.base, is_opposite) == (f"{user}:Mine", "Mine", False)
    assert (environment.n_actions, environment.n_observations) == (3, 4)
    assert environment.idea == "always the same." and not environment.in_battery
    environment, is_opposite = find(f" opposite({user}:Mine(pay=half)) ")
    assert (environment.name, is_opposite) == (f"{user}:Mine(pay=half)", True)
    assert environment.options == (("pay", "half"),)


def test_it_is_played_like_any_other(user: str) -> None:
    environment, _ = find(f"{user}:Mine")
    trial = run_trial(ConstantAgent(1), environment, steps=10, seed=0)
    assert (trial.total_reward, trial.outcome) == (9, "ok")
    for reading in ("literal", "unnegated"):
        trial = run_trial(
            ConstantAgent(1), environment, opposite=True, steps=10, seed=0, opposite_reading=reading
        )
        assert trial.total_reward == -9
    half, _ = find(f"{user}:Mine(pay=half)")
    assert run_trial(ConstantAgent(1), half, steps=10, seed=0).total_reward == 4.5


def test_it_is_measured_here_and_in_workers(user: str, tmp_path: Path) -> None:
    names = [f"{user}:Mine", f"opposite({user}:Mine(pay=half))", "DejaVu"]
    in_this_process = measure(NaiveLearner(0), 20, [0], environments=names)
    there = measure("naive", 20, [0], environments=names, on="processes:2", out=tmp_path / "run")
    assert in_this_process.trials == there.trials
    assert [trial.environment for trial in in_this_process.trials][2:4] == [
        f"{user}:Mine(pay=half)",
        "DejaVu",
    ]
    assert all(trial.outcome == "ok" for trial in in_this_process.trials)
    Path(user).write_text(USER + "\n# another\n")
    with pytest.raises(InvalidParameterError, match=r"content of .*v2\).py \(sha256\) is"):
        measure("naive", 20, [0], environments=names, out=tmp_path / "run")


def test_the_example_of_the_readme_agrees_with_its_definition(user: str, tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    (tmp_path / "hindsight.py").write_text(code)
    environment, _ = find(f"{tmp_path}/hindsight.py:Hindsight")
    assert environment.idea == "act as if every reward had come two turns late."
    # The copy plays 0 at first, then by the rewards of two turns ago: 0, 0, 0 and r_2 = 1, ...
    #   y   0   1   0   1 ...      copy   0   0   0   1 ...     reward   1  -1   1   1
    x, _ = interact(environment, "itself", last_sign.steps, last_sign.steps, 0, 5)
    assert [reward for reward, _ in x] == [0, 1, -1, 1, 1]
    # Whoever ignores rewards agrees with a copy that is told of other ones.
    assert run_trial(ConstantAgent(), environment, steps=30, seed=0).total_reward == 29
    assert run_trial(NaiveLearner(1), environment, steps=300, seed=0).total_reward < 250


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        ("3", "3"),
        ("(1, 4)", "(1, 4)"),
        ("(1, -1)", "(1, -1)"),
        ("(1, 0.5)", "(1, 0.5)"),
        ("(float('nan'), 0)", "(nan, 0)"),
        ("(float('inf'), 0)", "(inf, 0)"),
        ("('much', 0)", "('much', 0)"),
        ("(1, 0, 0)", "(1, 0, 0)"),
    ],
)
def test_what_is_no_percept_is_an_outcome(user: str, gives: str, message: str) -> None:
    Path(user).write_text(USER.replace("gives = None", f"gives = {gives}"))
    environment, _ = find(f"{user}:Odd")
    trial = run_trial(ConstantAgent(), environment, steps=10, seed=0)
    assert (trial.outcome, trial.played) == ("exception", 1)
    assert trial.detail == (
        f"InvalidParameterError: Odd.react gives {message}, expected a finite reward and an "
        f"observation from 0 to 3"
    )


def test_an_environment_that_fails_is_an_outcome(user: str) -> None:
    environment, _ = find(f"{user}:Failing")
    trial = run_trial(ConstantAgent(), environment, steps=10, seed=0)
    assert (trial.outcome, trial.played, trial.total_reward) == ("exception", 0, 0)
    assert "ZeroDivisionError" in trial.detail and "(my world (v2).py, line 31)" in trial.detail


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Min", r"has no environment 'Min'; did you mean .*v2\)\.py:Mine\?"),
        ("zzz", r"has no environment 'zzz'; define it there"),
        ("thing", r"environment .*:thing: expected a class derived from goalmeter\.refl.*got int"),
        ("Lacking", r"environment .*:Lacking: define react, which it lacks"),
        ("Silent", r"environment .*:Silent: n_actions is 0, expected a whole number, at least 1"),
        ("Mine(pay=much)", r"Mine: pay is 'much', expected 'one' or 'half'"),
        ("Mine(x=1)", r"Mine has no option 'x'; it has: pay"),
        ("Mine(x)", r"'x' is no option, expected name=value"),
    ],
)
def test_what_is_refused(user: str, name: str, message: str) -> None:
    for spelled in (f"{user}:{name}", f"opposite({user}:{name})"):
        with pytest.raises((InvalidFileError, InvalidParameterError), match=message):
            find(spelled)


def test_files_that_are_not_there_or_not_named_whole(user: str) -> None:
    with pytest.raises(InvalidFileError, match=r"there is no file no\.py; the path of an environm"):
        find("no.py:Mine")
    with pytest.raises(InvalidParameterError, match=r"is a file; say which of its environments: "):
        find(user)
    Path(user).write_text("x = 1 / 0")
    with pytest.raises(
        InvalidFileError, match="fails when it is run, in line 1: ZeroDivisionError"
    ):
        find(f"{user}:Mine")


def test_a_class_needs_no_file() -> None:
    class Plain(Run):
        def begin(self) -> tuple[float, int]:
            return 0, 0

        def react(self, action: int) -> tuple[float, int]:
            return 1, 0

    result = measure("constant", 5, 1, environments=[Environment(Plain)])
    assert [trial.total_reward for trial in result.trials] == [4, 4]
