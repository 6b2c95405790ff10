"""Environments from users' files: what they are called, how they are played, what is refused."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from reflection.simple_agents import last_sign
from reflection.test_environments import interact
from test_plugins import install

from goalmeter import _names
from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidParameterError
from goalmeter.agents.scripted import ConstantAgent, NaiveLearner
from goalmeter.reflection import measure
from goalmeter.reflection.environments import Run, find
from goalmeter.reflection.trial import run_trial

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "src/goalmeter/reflection/environments/README.md"
USER = '''
"""Mine: always the same.

Idea: none."""
import numpy as np
from goalmeter.reflection.environments import Run

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

class Lacking(Run):
    def begin(self):
        return 0, 0

thing = 3
'''


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    path = tmp_path / "my world (v2).py"
    path.write_text(USER)
    return str(path)


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
        ("(1, 4)", "(1, 4)"),
        ("(1, 0.5)", "(1, 0.5)"),
        ("(float('nan'), 0)", "(nan, 0)"),
        ("('much', 0)", "('much', 0)"),
    ],
)
def test_what_is_no_percept_is_an_outcome(user: str, gives: str, message: str) -> None:
    Path(user).write_text(USER.replace("gives = None", f"gives = {gives}"))
    environment, _ = find(f"{user}:Odd")
    trial = run_trial(ConstantAgent(), environment, steps=10, seed=0)
    assert (trial.outcome, trial.played) == ("exception", 1)
    assert trial.detail == (
        f"InvalidParameterError: Odd.react returned {message}, expected a finite reward and an "
        f"observation from 0 to 3"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Min", r"has no environment 'Min'; did you mean .*v2\)\.py:Mine\?"),
        ("thing", r"environment .*:thing: expected a class derived from goalmeter\.refl.*got int"),
        ("Lacking", r"environment .*:Lacking does not define react"),
        ("Mine(pay=much)", r"Mine: pay is 'much', expected 'one' or 'half'"),
        ("Mine(x=1)", r"Mine has no option 'x'; it has: pay"),
    ],
)
def test_what_is_refused(user: str, name: str, message: str) -> None:
    for spelled in (f"{user}:{name}", f"opposite({user}:{name})"):
        with pytest.raises((InvalidFileError, InvalidParameterError), match=message):
            find(spelled)


PACKAGE = '''"""Environments of another package."""

from goalmeter.reflection.environments import Run


class Button(Run):
    """Button: pays for action 1."""

    def begin(self):
        return 0, 0

    def react(self, action):
        return self.sign * (action == 1), 0
'''


def install_buttons(site: Path, entries: str) -> None:
    install(site, "buttons", f"[goalmeter.environments]\n{entries}\n", {"buttons": PACKAGE})


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder where this process, and those that it starts, look for packages."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    _names.plugins.cache_clear()
    yield tmp_path
    sys.modules.pop("buttons", None)
    _names.plugins.cache_clear()


def test_it_is_found_by_the_name_of_its_entry_point(site: Path) -> None:
    install_buttons(site, "PressOne = buttons:Button")
    environment, is_opposite = find("opposite(PressOne)")
    assert (environment.name, environment.base, is_opposite) == ("PressOne", "Button", True)
    assert environment.idea == "pays for action 1." and issubclass(environment.run, Run)
    # 1 for each of the nine actions that are paid, and −1 in the opposite.
    assert run_trial(ConstantAgent(1), environment, steps=10, seed=0).total_reward == 9
    trial = run_trial(ConstantAgent(1), environment, opposite=True, steps=10, seed=0)
    assert trial.total_reward == -9
    with pytest.raises(GoalmeterError, match="did you mean 'PressOne'"):
        find("PressOn")


@pytest.mark.parametrize(
    ("entry", "name", "message"),
    [
        (
            "PressOne = buttons:Botton",
            "PressOne",
            r"buttons 1\.2 registers 'PressOne' .*cannot",
        ),
        ("DejaVu = buttons:Button", "Nowhere", "registers 'DejaVu' .* a name of goalmeter's own"),
    ],
)
def test_what_is_registered_wrongly_is_refused(
    site: Path, entry: str, name: str, message: str
) -> None:
    install_buttons(site, entry)
    with pytest.raises(GoalmeterError, match=message):
        find(name)
