"""Environments that another package registers: picked up by name, played, and refused if wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_plugins import install

from goalmeter import _names
from goalmeter._errors import GoalmeterError
from goalmeter.agents.scripted import ConstantAgent
from goalmeter.reflection import measure
from goalmeter.reflection.environments import Run, find
from goalmeter.reflection.trial import run_trial

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


def test_it_is_measured_in_another_process_and_kept(site: Path) -> None:
    install_buttons(site, "PressOne = buttons:Button")
    settings = {"steps": 10, "seeds": 1, "environments": ["PressOne"], "out": site / "run"}
    measured = measure("constant(1)", **settings)
    assert [trial.total_reward for trial in measured.trials] == [9, -9]
    assert {trial.outcome for trial in measured.trials} == {"ok"}
    assert measure("constant(1)", **settings).trials == measured.trials


@pytest.mark.parametrize(
    ("entry", "name", "message"),
    [
        (
            "PressOne = buttons:Botton",
            "PressOne",
            r"buttons 1\.2 registers 'PressOne' .*cannot",
        ),
        ("PressOne = buttons:Run.begin", "PressOne", "expected a class derived from"),
        ("DejaVu = buttons:Button", "Nowhere", "registers 'DejaVu' .* a name of goalmeter's own"),
    ],
)
def test_what_is_registered_wrongly_is_refused(
    site: Path, entry: str, name: str, message: str
) -> None:
    install_buttons(site, entry)
    with pytest.raises(GoalmeterError, match=message):
        find(name)
