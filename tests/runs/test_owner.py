"""Runs without locks: one process fills a run, and others are refused or take over what is left."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.runs import RunStore, read_run
from goalmeter.runs import lock as owner_module
from goalmeter.runs.lock import OtherOwnerError, Owner, is_alive

SRC = Path(__file__).resolve().parents[2] / "src"
WHAT = {"kind": "test"}


@pytest.fixture(autouse=True)
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", fails)
    monkeypatch.setattr(owner_module, "_WATCHED", 0.2)
    monkeypatch.setattr(owner_module, "_SETTLED", 0.02)


def record(folder: Path, **changes: Any) -> None:
    path = folder / "owner.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_second_one_is_refused_and_says_who_has_the_run(tmp_path: Path) -> None:
    with RunStore(tmp_path, WHAT) as store:
        store.add("a", 1)
        expected = rf"another process \({os.getpid()} on '.*'\) fills {tmp_path}; wait for it"
        with pytest.raises(InvalidParameterError, match=expected):
            RunStore(tmp_path, WHAT).__enter__()
        store.add("b", 2)
    assert read_run(tmp_path).values == {"a": 1, "b": 2}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "trials.jsonl"]
    with RunStore(tmp_path, WHAT) as store:
        assert store.values == {"a": 1, "b": 2}


def test_one_that_is_gone_is_taken_over_at_once(tmp_path: Path) -> None:
    Owner(tmp_path).claim()
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for change in ({"pid": gone.pid}, {"began": "of another process of this number"}):
        record(tmp_path, host=socket.gethostname(), **change)
        begun = time.monotonic()
        with RunStore(tmp_path, WHAT) as store:
            store.add("a", 1)
            Owner(tmp_path)  # nothing is claimed yet
        assert time.monotonic() - begun < 5
        Owner(tmp_path).claim()


def test_one_of_another_machine_counts_while_its_record_is_fresh(tmp_path: Path) -> None:
    Owner(tmp_path).claim()
    record(tmp_path, host="another", pid=1)
    with pytest.raises(OtherOwnerError, match=r"another process \(1 on 'another'\)"):
        Owner(tmp_path).claim()
    old = time.time() - 3600
    os.utime(tmp_path / "owner.json", (old, old))
    Owner(tmp_path).claim()  # an hour without a sign of life


def test_a_clock_that_jumped_does_not_take_a_run_from_who_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Owner(tmp_path).claim()
    record(tmp_path, host="another", pid=1)
    # As far as times tell the record is old, but it is renewed while it is watched.
    monkeypatch.setattr(Owner, "_age", lambda self: 1e6)
    monkeypatch.setattr(time, "sleep", lambda seconds: record(tmp_path, beats=time.monotonic()))
    with pytest.raises(OtherOwnerError):
        Owner(tmp_path).claim()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"host": 3, "pid": "x"}'])
def test_a_record_that_is_none_is_watched_too(tmp_path: Path, text: str) -> None:
    path = tmp_path / "owner.json"
    path.write_text(text)  # its owner may just be writing it
    with pytest.raises(OtherOwnerError):
        Owner(tmp_path).claim()
    os.utime(path, (0, 0))
    Owner(tmp_path).claim()


def test_who_stood_still_and_lost_the_run_writes_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunStore(tmp_path, WHAT) as first:
        first.add("a", 1)
        record(tmp_path, token="another's", pid=7, host="another")
        monkeypatch.setattr(owner_module, "_TRUSTED", 0.0)
        with pytest.raises(InvalidParameterError, match=r"another process \(7 on 'another'\) fil"):
            first.add("b", 2)
        monkeypatch.setattr(owner_module, "_TRUSTED", 1e6)
        first._beat()  # the heartbeat sees it too, and tells whoever adds next
        with pytest.raises(InvalidParameterError, match="another process"):
            first.add("c", 3)
    assert read_run(tmp_path).values == {"a": 1}
    assert json.loads((tmp_path / "owner.json").read_text())["pid"] == 7  # not ours to remove


def test_of_two_that_take_over_together_one_has_it(tmp_path: Path) -> None:
    first, second = Owner(tmp_path), Owner(tmp_path)
    first._write()
    second._write()  # a moment later
    with pytest.raises(OtherOwnerError):
        first.renew()
    second.renew()


def test_which_process_is_alive() -> None:
    assert is_alive(os.getpid())
    for pid in (0, -1, None, True, "1"):
        assert is_alive(pid) is None
    assert is_alive(2**22 + 1) is False and is_alive(10**30) is False


RACER = """
import fcntl, sys, time
def fails(*_):
    raise OSError(37, "No locks available")
if sys.argv[2] == "without":
    fcntl.flock = fails
from goalmeter._errors import InvalidParameterError
from goalmeter.runs import RunStore
while time.time() < float(sys.argv[3]):
    pass
try:
    with RunStore(sys.argv[1], {"kind": "test"}) as store:
        store.add("who", "x")
        time.sleep(2)
    print("filled")
except InvalidParameterError as error:
    print(error)
"""


@pytest.mark.parametrize("locks", ["with", "without"])
def test_of_five_commands_on_a_run_one_fills_it(tmp_path: Path, locks: str) -> None:
    start = str(time.time() + 4)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(tmp_path / "run"), locks, start],
            env=os.environ | {"PYTHONPATH": str(SRC)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(5)
    ]
    told = [racer.communicate(timeout=60)[0].strip() for racer in racers]
    assert told.count("filled") == 1
    assert sum("another process" in line and "fills" in line for line in told) == 4
    assert read_run(tmp_path / "run").values == {"who": "x"}
