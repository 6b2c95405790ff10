"""Who works on what, as another thread sees it while batches are made."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from goalmeter.runs import Batch
from goalmeter.runs.backends.processes import Processes
from goalmeter.runs.backends.registry import Here
from goalmeter.runs.jobs import Working


def test_this_process_works_on_a_batch_while_it_is_made() -> None:
    here = Here()
    seen: list[list[Working]] = []

    def look() -> None:
        # By another thread, as the watcher is one.
        thread = threading.Thread(target=lambda: seen.append(list(here.working())))
        thread.start()
        thread.join()

    assert list(here.working()) == []
    for _, _ in here.run(Batch(look, [{}]) for _ in range(3)):
        assert list(here.working()) == []  # between two batches
    assert seen == [[Working(f"process {os.getpid()}", number)] for number in range(3)]


def test_processes_tell_which_batch_each_of_them_has(tmp_path: Path) -> None:
    # An agent that waits until both of its processes are at work.
    agent = tmp_path / "user.py"
    agent.write_text(
        "import pathlib, os, time\n"
        "def waits(history, *_):\n"
        f"    here = pathlib.Path({str(tmp_path)!r})\n"
        "    (here / f'{os.getpid()}.pid').touch()\n"
        "    while not (here / 'seen').exists():\n"
        "        time.sleep(0.01)\n"
        "    return 0\n"
    )
    arguments = {"environment": "IgnoreRewards", "opposite": False, "steps": 2, "seed": 0}
    common = {"agent": f"{agent}:waits", "opposite_reading": "literal"}
    seen: list[list[Working]] = []

    def watch(pool: Processes) -> None:
        end = time.monotonic() + 30
        while len(list(tmp_path.glob("*.pid"))) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        seen.append(list(pool.working()))
        (tmp_path / "seen").touch()

    with Processes(2) as pool:
        watcher = threading.Thread(target=watch, args=(pool,))
        watcher.start()
        batches = [Batch("goalmeter.reflection.trial:play", [arguments], common)] * 2
        assert sorted(number for number, _ in pool.run(iter(batches))) == [0, 1]
        watcher.join()
        assert list(pool.working()) == []
    assert sorted(working.batch for working in seen[0]) == [0, 1]
    at_work = {f"process {path.stem}" for path in tmp_path.glob("*.pid")}
    assert {working.worker for working in seen[0]} == at_work


def test_a_process_that_died_works_no_more() -> None:
    with Processes(1) as pool:
        (_, answer), *_ = pool.run(iter([Batch("os:system", [{}])]))
        assert answer.lost is not None  # the worker refused to name what is not goalmeter's
        assert list(pool.working()) == []
