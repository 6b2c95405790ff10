"""Commands on what nobody meant: the faults that were found by trying, one test each."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import MissingExtraError
from goalmeter.agents.stable_baselines import StableBaselinesAgent
from goalmeter.commands import agents
from goalmeter.reflection import measure
from robustness.cases import Ended, run

SMALL = ("--steps", "3", "--seeds", "2", "--environment", "IgnoreRewards")
SPEAKS = """
def agent(history, *_):
    raise ValueError("caf\\udce9 \\u202e \\x1b[31m")

def good(history, *_):
    return 0
"""


def refused(ended: Ended) -> str:
    """The one line of a refusal."""
    assert ended.status == 2 and ended.complaints() == [], (ended.status, ended.err)
    (line,) = [line for line in ended.err.splitlines() if line.startswith("goalmeter: ")]
    return line


# --- Text of others -------------------------------------------------------------------------------
def test_an_agents_error_in_half_a_character_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / "speaks.py").write_text(SPEAKS)
    command = ["reflect", "speaks.py:agent", *SMALL, "--out", "run", "--json"]
    for _ in ("played", "continued"):
        ended = run(command, tmp_path)
        assert ended.status == 3 and ended.complaints() == [], ended.err
        assert json.loads(ended.out)["outcomes"] == {"exception": 4}
    kept = (tmp_path / "run" / "trials.jsonl").read_text(encoding="utf-8")
    assert "ValueError: caf\\\\udce9 \\\\u202e \\\\x1b[31m (speaks.py, line 3)" in kept
    ended = run(["report", "run"], tmp_path)
    assert ended.status == 0 and ended.complaints() == [], ended.err
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "caf\\udce9 \\u202e \\x1b[31m" in page and "\u202e" not in page


# --- Numbers without an end -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("navigate greedy --sizes 999999999999999999999", "size is 999999999999999999999, exp"),
        ("navigate greedy --complexities nan", "complexity is nan, expected a number from 0 to 1"),
        ("navigate greedy --grids 9999 --trajectories 999", "walks, expected at most 1000000"),
        (f"navigate greedy --distance 0-{'9' * 5000}", "expected at most 100000"),
        (f"reflect {'rc(' * 3000}naive{')' * 3000}", "too many reality checks rc(...), expected"),
        (f"reflect constant({'9' * 5000})", "K of constant(K) is '9"),
    ],
)
def test_numbers_have_an_upper_end(tmp_path: Path, arguments: str, message: str) -> None:
    assert message in refused(run(arguments.split(), tmp_path))
    assert list(tmp_path.iterdir()) == []


# --- Places ---------------------------------------------------------------------------------------


# --- Trials that all fail -------------------------------------------------------------------------


@pytest.fixture
def without_stable_baselines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As if it were not installed, in this process and in its workers."""
    (tmp_path / "stable_baselines3.py").write_text(
        "raise ModuleNotFoundError('no module', name='stable_baselines3')"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in os.sys.modules if name.startswith("stable_baselines3")]:
        monkeypatch.delitem(os.sys.modules, name)
    yield tmp_path


def test_a_missing_extra_is_found_out_once_and_first(without_stable_baselines: Path) -> None:
    line = refused(
        run(["reflect", "rc(a2c)", "--seeds", "3", "--out", "run"], without_stable_baselines)
    )
    assert "'stable_baselines3', which is not installed; install it with: pip install" in line
    assert "'goalmeter[sb3]' (in a checkout: pip install -c constraints.txt -e '.[sb3]')" in line
    assert (without_stable_baselines / "run" / "trials.jsonl").read_bytes() == b""
    with pytest.raises(MissingExtraError):
        measure(StableBaselinesAgent("dqn"), 5, 1)


# --- The last resort ------------------------------------------------------------------------------
def test_a_fault_is_a_line_and_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Any:
        raise ZeroDivisionError("by \x1b zero")

    monkeypatch.setattr(agents, "catalogue", fails)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.delenv("GOALMETER_TRACEBACK", raising=False)
    ended = run(["reflect", "--list"], tmp_path)
    assert ended.status == 1 and ended.out == "" and ended.err.count("\n") == 1
    result = re.fullmatch(
        r"goalmeter: internal error, ZeroDivisionError: by \\x1b zero; please report it with the "
        r"file (\S+)\n",
        ended.err,
    )
    assert result is not None, ended.err
    kept = Path(result[1]).read_text()
    assert "goalmeter reflect --list" in kept and "Traceback (most recent call last)" in kept
    monkeypatch.setenv("GOALMETER_TRACEBACK", "1")
    shown = run(["reflect", "--list"], tmp_path).err
    assert "Traceback (most recent call last)" in shown and "\x1b" not in shown


# --- What every command has -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("navi", ["navigate"]),
        ("navigate --suite key-", ["key-door", "key-no-door"]),
        ("reflect --environment opposite(Cry", ["opposite(CryingBaby)", "opposite(CryingBaby2)"]),
        ("replicate cal", ["calibration"]),
    ],
)
def test_shells_complete_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, offered: list[str]
) -> None:
    monkeypatch.setenv("_GOALMETER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"goalmeter {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    assert run([], tmp_path).out.split() == offered
