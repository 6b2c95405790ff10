"""How far a run is, as another process sees it: running, finished, killed, damaged or no run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidFileError
from goalmeter.runs import Study, carry_out, keys_in, read_run
from goalmeter.runs import progress as progress_module
from goalmeter.runs.status import runs_below, status_of

SRC = Path(__file__).resolve().parents[2] / "src"
WHAT = {"kind": "test", "agent": "nobody"}


def study(
    function: Callable[[str], Any] = str.upper, keys: str = "abcd", **more: Any
) -> Study[Any]:
    trials = {key: {"key": key} for key in keys}
    return Study("nobody", lambda key: function(key), trials, noun="letter", what=WHAT, **more)


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "_EVERY", 0.02)


def until(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


# --- While it is filled ---------------------------------------------------------------------------
def test_a_run_that_is_filled_says_who_works_on_what(tmp_path: Path, fast: None) -> None:
    seen = []

    def slow(key: str) -> str:
        if key == "c":  # two are kept, and this one is at work
            assert until(lambda: any(w.trials == ("c",) for w in status_of(tmp_path).working))
            seen.append(status_of(tmp_path))
        return key

    carry_out(study(slow), out=tmp_path)
    (running,) = seen
    assert (running.state, running.kind, running.agent) == ("running", "test", "nobody")
    assert (running.total, running.done, running.failed, running.left) == (4, 2, 0, 2)
    assert running.rate is not None and running.left_seconds == pytest.approx(2 / running.rate)
    assert (running.pid, running.place) == (os.getpid(), "here")
    (worker,) = running.working
    assert (worker.worker, worker.count) == ("batch 2", 1)
    assert running.sentence.startswith(f"it is running on {running.host} as process ")
    finished = status_of(tmp_path)
    assert (finished.state, finished.done, finished.left) == ("finished", 4, 0)
    assert finished.working == () and finished.left_seconds is None
    assert finished.sentence == "it is finished: 4 of 4 letters"


FILLER = """
import signal, sys, time
from goalmeter.runs import Study, carry_out
def slow(key):
    if key == "c":
        print("at work", flush=True)
        time.sleep(600)
    return key
trials = {key: {"key": key} for key in "abcd"}
what = {"kind": "test", "agent": "nobody"}
# Where the tests run in the background of a shell, the keyboard's signal would be ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
carry_out(Study("nobody", lambda key: slow(key), trials, what=what), out=sys.argv[1])
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_run_whose_driver_was_ended(tmp_path: Path, number: int) -> None:
    command = [sys.executable, "-c", FILLER, str(tmp_path / "run")]
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as filler:
        assert filler.stdout is not None
        filler.stdout.readline()
        assert until((tmp_path / "run" / "status.json").exists)
        assert status_of(tmp_path / "run").state == "running"
        # The heartbeat's thread must not keep it from ending.
        filler.send_signal(number)
        try:
            filler.wait(timeout=60)
        finally:
            filler.kill()
    ended = status_of(tmp_path / "run")
    assert (ended.done, ended.left) == (2, 2)
    assert ended.state == ("killed" if number == signal.SIGKILL else "stopped")
    assert carry_out(study(), out=tmp_path / "run").keys() == set("abcd")


# --- What disturbs the watching disturbs nothing else ---------------------------------------------


# --- Folders --------------------------------------------------------------------------------------
def test_folders_that_are_no_run_say_so_in_a_sentence(tmp_path: Path) -> None:
    def sentence(folder: Path) -> str:
        status = status_of(folder)
        assert status.state == "unreadable"
        return status.sentence

    assert sentence(tmp_path / "none").endswith(
        "does not exist; expected the folder of a run, as --out named it"
    )
    (tmp_path / "empty").mkdir()
    assert sentence(tmp_path / "empty").endswith(
        "is empty, so it is not a run; expected a folder that --out made"
    )
    carry_out(study(), out=tmp_path / "runs" / "one")
    assert sentence(tmp_path / "runs").endswith("is not a run, and holds 1 of them, such as one")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "thesis.tex").touch()
    assert "is not a run: it has no run.json" in sentence(tmp_path / "foreign")
    (tmp_path / "foreign" / "run.json").write_text("{")
    assert "run.json is no JSON" in sentence(tmp_path / "foreign")
    trials = tmp_path / "runs" / "one" / "trials.jsonl"
    trials.write_text(trials.read_text().replace('{"key": "b"', '{"k": "b"'))
    assert "line 2: expected a trial" in sentence(tmp_path / "runs" / "one")
    trials.write_text(trials.read_text().replace('{"k": "b"', '{"key": "b"').replace('"B"', '"B'))
    assert "line 2: expected a trial" in sentence(tmp_path / "runs" / "one")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 99}', '{"format": 1, "total": -1, "rate": "x"}', "\xff"]
)
def test_a_damaged_status_is_as_none(tmp_path: Path, text: str) -> None:
    carry_out(study(), out=tmp_path)
    (tmp_path / "status.json").write_bytes(text.encode("latin-1"))
    status = status_of(tmp_path, total=lambda what: 4)
    assert (status.state, status.done, status.total) == ("finished", 4, 4)
    assert status_of(tmp_path).state == "incomplete"


def test_runs_below_a_folder_are_listed_and_damaged_ones_say_why(tmp_path: Path) -> None:
    carry_out(study(), out=tmp_path / "b" / "deep")
    carry_out(study(keys="xy"), out=tmp_path / "a")
    carry_out(study(), out=tmp_path / ".hidden")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "run.json").write_text("{")
    states = {Path(run.folder).name: run.state for run in runs_below(tmp_path)}
    assert states == {"a": "finished", "deep": "finished", "c": "unreadable"}
    with pytest.raises(InvalidFileError, match="cannot be searched: No such file"):
        runs_below(tmp_path / "none")
    with pytest.raises(InvalidFileError, match="cannot be searched: Not a directory"):
        runs_below(tmp_path / "c" / "run.json")


# --- Keys -----------------------------------------------------------------------------------------
def test_keys_are_those_of_the_lines_however_they_are_spelled(tmp_path: Path) -> None:
    keys = ["plain", 'with "quotes", "value": 3', "back\\slash", "ä\ud800", "a, failed 1", ""]
    trials = {key: {"key": key} for key in keys}
    every = Study("odd", lambda key: {"key": key}, trials, what=WHAT)
    carry_out(every, out=tmp_path)
    assert list(read_run(tmp_path).values) == keys
    with (tmp_path / "trials.jsonl").open("a") as file:
        file.write('{"value": 1, "key": "turned"}\n{"key":"plain","value":2}\n{"key": "to')
    assert keys_in(tmp_path) == {*keys, "turned"}
