"""Runs on disk: nothing that was finished is lost, and nothing is mixed up."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.runs import RunStore, made_here, read_run
from goalmeter.runs import store as store_module

WHAT = {"kind": "test", "steps": 5, "seeds": [0, 1]}
SRC = Path(__file__).resolve().parents[2] / "src"


def fill(folder: Path, what: dict[str, Any] = WHAT, **trials: Any) -> dict[str, Any]:
    with RunStore(folder, what, grows=("seeds",)) as store:
        for key, value in trials.items():
            store.add(key, value)
        return dict(store.values)


def test_what_is_added_is_there_and_is_added_to(tmp_path: Path) -> None:
    fill(tmp_path / "new" / "run", a={"x": 0.1 + 0.2}, b=[1, None, "ä"])
    assert fill(tmp_path / "new" / "run", c=3) == {
        "a": {"x": 0.1 + 0.2},
        "b": [1, None, "ä"],
        "c": 3,
    }
    run = read_run(tmp_path / "new" / "run")
    assert run.what == WHAT and run.made_by == made_here()
    assert list(run.values) == ["a", "b", "c"]


def test_a_torn_last_line_is_dropped_and_written_over(tmp_path: Path) -> None:
    fill(tmp_path, a=1, b=2)
    trials = tmp_path / "trials.jsonl"
    whole = trials.read_bytes()
    for torn in (b'{"key": "c", "val', b'{"key": "c", "value": 3}', b"\xff"):
        trials.write_bytes(whole + torn)
        assert read_run(tmp_path).values == {"a": 1, "b": 2}
        assert trials.read_bytes() == whole + torn  # readers change nothing
        assert fill(tmp_path) == {"a": 1, "b": 2}
        assert trials.read_bytes() == whole
    assert fill(tmp_path, c=4)["c"] == 4


@pytest.mark.parametrize("line", ["{", "7", '{"key": "a"}', '{"key": [1], "value": 2}', "\0\0"])
def test_a_line_that_is_no_trial_is_named(tmp_path: Path, line: str) -> None:
    fill(tmp_path, a=1, b=2)
    lines = (tmp_path / "trials.jsonl").read_text().splitlines()
    (tmp_path / "trials.jsonl").write_text("\n".join([lines[0], line, lines[1]]) + "\n")
    with pytest.raises(InvalidFileError, match=r"trials\.jsonl, line 2: expected a trial, .* rem"):
        read_run(tmp_path)
    with pytest.raises(InvalidFileError, match="line 2"):
        fill(tmp_path, c=3)


def test_another_run_is_refused_and_says_what_differs(tmp_path: Path) -> None:
    fill(tmp_path, a=1)
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(InvalidParameterError) as refused:
        fill(tmp_path, {"kind": "test", "steps": 6, "seeds": [0], "reading": "x"})
    assert str(refused.value) == (
        f"{tmp_path} holds another run: steps is 5 there, and 6 here; reading is not given there, "
        f'and "x" here; choose another folder (--out), or use the same options'
    )
    assert (tmp_path / "run.json").read_bytes() == before
    assert read_run(tmp_path).values == {"a": 1}


def test_a_run_grows_by_seeds_and_keeps_those_it_had(tmp_path: Path) -> None:
    fill(tmp_path, a=1)
    assert fill(tmp_path, WHAT | {"seeds": [1, 2, 3]}) == {"a": 1}
    assert read_run(tmp_path).what["seeds"] == [0, 1, 2, 3]
    fill(tmp_path, WHAT | {"seeds": [2]})  # fewer than there are: nothing is taken away
    assert read_run(tmp_path).what["seeds"] == [0, 1, 2, 3]
    with pytest.raises(InvalidParameterError, match="seeds is \\[0, 1, 2, 3\\] there"):  # noqa: SIM117
        with RunStore(tmp_path, WHAT):  # grows was not said
            pass


def test_folders_that_hold_something_else_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InvalidFileError, match=r"holds 'thesis.tex' and no run.json, so it is not"):
        fill(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(InvalidFileError, match=r"thesis\.tex is a file; choose another folder"):
        fill(tmp_path / "thesis.tex")
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost" / "trials.jsonl").write_text('{"key": "a", "value": 1}\n')
    with pytest.raises(InvalidFileError, match=r"holds 'trials.jsonl' and no run.json"):
        fill(tmp_path / "lost")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n,", r"run.json is no JSON: .* line 2"),
        ("[" * 100_000, r"run.json is no JSON: "),
        ('{"what": ' + "1" * 5000 + "}", r"run.json is no JSON: "),
        ("[]", r"run.json does not say what the run is"),
        ('{"format": 1, "what": 3}', r"does not say what the run is"),
        ('{"format": 9, "what": {}, "made_by": {"v": "3"}}', r"format 9, expected 1; .*'v': '3'"),
    ],
)
def test_run_json_that_is_not_ours(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InvalidFileError, match=message):
        read_run(tmp_path)
    with pytest.raises(InvalidFileError, match=message):
        fill(tmp_path)


def test_a_run_is_filled_by_one_at_a_time_and_read_by_all(tmp_path: Path) -> None:
    with RunStore(tmp_path, WHAT) as store:
        store.add("a", 1)
        assert read_run(tmp_path).values == {"a": 1}
        with pytest.raises(InvalidParameterError, match=f"another process writes to {tmp_path}"):
            fill(tmp_path)
        store.add("b", 2)
    assert fill(tmp_path) == {"a": 1, "b": 2}


def test_a_full_disk_is_an_error_and_tears_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) > 20:
            return write(file, data[:20])
        raise OSError(errno.ENOSPC, "No space left on device")

    with RunStore(tmp_path, WHAT) as store:
        store.add("a", 1)
        monkeypatch.setattr(store_module.os, "write", full)
        with pytest.raises(
            InvalidFileError, match="cannot be written: No space left on device; wh"
        ):
            store.add("b", 2)
        monkeypatch.undo()
        assert store.values == {"a": 1}
        store.add("c", 3)
    assert read_run(tmp_path).values == {"a": 1, "c": 3}


FILLER = """
import sys
from goalmeter.runs import RunStore
with RunStore(sys.argv[1], {"kind": "test"}) as store:
    for number in range(10**9):
        store.add(str(number), "x" * 1000)
        if number >= 300:
            print(number, flush=True)
"""


def test_sigkill_loses_nothing_that_was_added(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FILLER, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as filler:
        assert filler.stdout is not None
        told = int(filler.stdout.readline())
        with pytest.raises(InvalidParameterError, match="another process writes to"):
            fill(tmp_path, {"kind": "test"})
        filler.send_signal(signal.SIGKILL)
        told = max([told, *map(int, filler.stdout.read().split())])
    kept = fill(tmp_path, {"kind": "test"}, last="x")
    assert list(kept) == [*map(str, range(len(kept) - 1)), "last"]
    assert len(kept) - 1 >= told + 1
    assert all(json.loads(line) for line in (tmp_path / "trials.jsonl").read_text().splitlines())
