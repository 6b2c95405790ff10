"""Batches in processes: answers whatever becomes of the processes, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.runs import Batch, JobResult, cores
from goalmeter.runs.backends import processes as process_module
from goalmeter.runs.backends import processes as processes_module
from goalmeter.runs.backends.processes import Processes
from goalmeter.runs.backends.registry import opened
from goalmeter.runs.jobs import call

SRC = Path(__file__).resolve().parents[3] / "src"
PLAY = "goalmeter.reflection.trial:play"
USER = """
import ctypes, os, signal, subprocess, sys, time

def good(history, *_):
    return len(history.actions) % 2

def prints(history, *_):
    print("{not json", flush=True)
    os.write(1, b"[]\\n")
    return 0

def reads(history, *_):
    return len(sys.stdin.read())

def exits(history, *_):
    os._exit(3)

def leaves(history, *_):
    sys.exit(4)

def interrupts(history, *_):
    raise KeyboardInterrupt

def segfaults(history, *_):
    os.kill(os.getpid(), signal.SIGSEGV)

def hangs(history, *_):
    while True:
        pass

def hangs_with_a_child(history, *_):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(f"{child.pid}\\n")
    time.sleep(600)

def forks_and_exits(history, *_):
    if os.fork() == 0:
        time.sleep(600)
    os._exit(5)

def fails(history, *_):
    return 1 // 0
"""


@pytest.fixture
def user(tmp_path: Path) -> Path:
    path = tmp_path / "user.py"
    path.write_text(USER)
    return path


def trial(agent: object, seed: int = 0) -> Batch:
    arguments = {"environment": "IgnoreRewards", "opposite": False, "steps": 4, "seed": seed}
    return Batch(PLAY, [arguments], {"agent": str(agent), "opposite_reading": "literal"})


def of(batches: list[Batch], workers: int = 1, timeout: float | None = None) -> list[JobResult]:
    """What came of batches of one call each; 0 workers are this process."""
    place = f"processes:{workers}" if workers else "here"
    with opened(place, trials=len(batches), timeout=timeout) as backend:
        answers = dict(backend.run(iter(batches)))
    assert sorted(answers) == list(range(len(batches)))
    every = [answers[number] for number in range(len(batches))]
    return [answer.lost or answer.results[0] for answer in every]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")  # a killed child of nobody's may stay as a zombie for a while
    return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")


def until(condition: Iterator[bool], seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    for is_so in condition:
        if is_so or time.monotonic() > end:
            return is_so
        time.sleep(0.02)
    return False


# --- Jobs -----------------------------------------------------------------------------------------


def test_a_job_is_a_public_function_of_goalmeter() -> None:
    for function in ("os:system", "goalmeter:x", "goalmeter.runs.jobs:_x", "goalmeter.x.:y", "x"):
        with pytest.raises(ValueError, match="expected a public function of goalmeter"):
            call(Batch(function, [{}]))
    refused, failed = of([trial("nobody"), Batch("goalmeter.runs.jobs:nothing", [{}])])
    assert refused == of([trial("nobody")], workers=0)[0]
    assert refused.outcome == "ok" and "no agent 'nobody'" in refused.value["detail"]
    assert failed.outcome == "exception" and failed.detail.startswith("AttributeError: ")


def test_errors_that_a_user_can_mend_are_told_apart() -> None:
    arguments: dict[str, Any] = {"agent": "n", "environments": [], "seed": 0}
    batch = Batch("goalmeter.reflection.trial:check", [arguments])
    for workers in (0, 1):
        (result,) = of([batch], workers)
        assert (result.outcome, result.error) == ("refused", "InvalidParameterError")
        assert result.detail.startswith("there is no agent 'n'")


def test_results_are_the_same_here_and_in_any_number_of_processes() -> None:
    jobs = [trial("rc(naive)", seed) for seed in range(12)]
    in_this_process = of(jobs, workers=0)
    assert all(result.outcome == "ok" for result in in_this_process)
    assert of(jobs, workers=1) == of(jobs, workers=3) == in_this_process


# --- What users' code does ------------------------------------------------------------------------


def test_nothing_that_users_code_does_harms_the_others(user: Path) -> None:
    names = ["good", "exits", "prints", "segfaults", "reads", "leaves", "interrupts", "fails"]
    done = dict(zip(names, of([trial(f"{user}:{name}") for name in names], workers=2), strict=True))
    ended = ("good", "prints", "reads", "leaves", "interrupts", "fails")
    played = {name: done[name].value for name in ended}
    assert played["good"]["outcome"] == "ok" and played["good"]["total_reward"] == 3
    assert played["prints"]["outcome"] == "ok" and played["reads"]["outcome"] == "ok"
    assert played["leaves"]["detail"] == "SystemExit: 4 (user.py, line 19)"
    assert played["fails"]["detail"].startswith("ZeroDivisionError: integer division or modulo by")
    assert played["interrupts"]["outcome"] == "exception"
    assert played["interrupts"]["detail"] == "KeyboardInterrupt (user.py, line 22)"
    assert done["exits"] == JobResult("crash", detail="the process ended with exit status 3")
    assert done["segfaults"] == JobResult("crash", detail="the process ended with signal SIGSEGV")


def test_a_job_that_takes_too_long_is_ended_with_all_that_it_started(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    jobs = [trial(f"{user}:{name}") for name in ("hangs", "good", "hangs_with_a_child", "good")]
    done = of(jobs, workers=2, timeout=6)
    assert done[0] == done[2] == JobResult("timeout", detail="no answer within 6 s")
    assert [done[1].outcome, done[3].outcome] == ["ok", "ok"]
    child = int((tmp_path / "notes").read_text())
    assert until(not alive(child) for _ in iter(int, 1))


def test_a_process_that_leaves_a_child_with_its_pipes_has_ended(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "_LOOK_EVERY", 0.1)
    exits, good = of([trial(f"{user}:forks_and_exits"), trial(f"{user}:good")])
    assert exits.detail == "the process ended with exit status 5" and good.outcome == "ok"


def test_workers_have_one_thread_and_a_seed_for_hashes(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "2")
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONHASHSEED")
    user.write_text(
        f"import os\ndef fails(history, *_):\n"
        f"    raise ValueError(' '.join(os.environ[name] for name in {names}))\n"
    )
    (result,) = of([trial(f"{user}:fails")])
    assert result.value["detail"] == "ValueError: 1 2 0 (user.py, line 3)"


# --- What becomes of workers ----------------------------------------------------------------------


def pids(pool: Processes) -> list[int]:
    return [worker.process.pid for worker in pool._workers]


def test_leaving_early_ends_all_workers(user: Path) -> None:
    jobs = [trial(f"{user}:good"), trial(f"{user}:hangs")]
    with Processes(2) as pool:
        started = pids(pool)
        for number, _ in pool.run(iter(jobs)):
            assert number == 0
            break
    assert not any(alive(pid) for pid in started)


def test_an_idle_worker_that_dies_costs_no_job(user: Path) -> None:
    def outcomes(pool: Processes, batches: list[Batch]) -> list[str]:
        return [answer.results[0].outcome for _, answer in pool.run(iter(batches))]

    with Processes(1) as pool:
        assert outcomes(pool, [trial(f"{user}:good")]) == ["ok"]
        for worker in pool._workers:
            worker.process.kill()
            worker.process.wait()
        jobs = [trial(f"{user}:good", seed) for seed in range(4)]
        assert outcomes(pool, jobs) == ["ok"] * 4


PARENT = """
import signal
import sys
# A shell's background job ignores the keyboard's signal, and so does all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
from goalmeter.runs import Batch
from goalmeter.runs.backends.processes import Processes
arguments = {"agent": sys.argv[1], "environment": "IgnoreRewards", "opposite": False, "steps": 4,
             "seed": 0, "opposite_reading": "literal"}
with Processes(2) as pool:
    print(*[worker.process.pid for worker in pool._workers], flush=True)
    for _ in pool.run(iter([Batch("goalmeter.reflection.trial:play", [arguments])] * 3)):
        print("one", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_process_that_started_them(
    user: Path, tmp_path: Path, number: int
) -> None:
    notes = tmp_path / "notes"
    hangs = "def hangs(history, *_):\n"
    user.write_text(USER.replace(hangs, f"{hangs}    open({str(notes)!r}, 'a').write('x')\n"))
    command = [sys.executable, "-c", PARENT, f"{user}:hangs"]
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert all(alive(pid) for pid in workers)
        in_the_users_code = (notes.exists() and notes.read_text() == "xx" for _ in iter(int, 1))
        assert until(in_the_users_code, seconds=100)
        parent.send_signal(number)
    assert until(not any(alive(pid) for pid in workers) for _ in iter(int, 1))


def test_a_worker_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    message = (
        "cannot be started: 6 attempts ended before they took a job, the last with exit status 1"
    )
    with pytest.raises(GoalmeterError, match=message):
        of([Batch("goalmeter.runs.jobs:in_a_line", [{}])])


def test_a_worker_that_is_killed_while_it_starts_is_started_again(
    user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As by a machine short of memory: the first two attempts die, the third takes the job.
    starts = tmp_path / "starts"
    starts.touch()
    dies = (
        f"import os, signal; file = open({str(starts)!r}, 'r+'); number = len(file.read()); "
        f"file.write('x'); file.close(); number < 2 and os.kill(os.getpid(), signal.SIGKILL); "
    )
    monkeypatch.setattr(process_module, "_PROGRAM", dies + process_module._PROGRAM)
    (done,) = of([trial(f"{user}:good")])
    assert done.outcome == "ok" and starts.read_text() == "xxx"
    starts.write_text("")
    monkeypatch.setattr(process_module, "_PROGRAM", dies.replace("number < 2", "True"))
    with pytest.raises(GoalmeterError, match=r"6 attempts .*, the last with signal SIGKILL; what"):
        of([trial(f"{user}:good")])


@pytest.mark.parametrize(
    ("workers", "timeout", "message"),
    [
        (-1, None, "workers is -1, expected at least 1"),
        (1, 0.0, "timeout is 0.0, expected a number of seconds above 0"),
        (1, float("nan"), "timeout is nan, expected"),
        (
            0,
            3.0,
            r"timeout is 3\.0 for trials in this process, which cannot",
        ),
    ],
)
def test_what_is_refused(workers: int, timeout: float | None, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        of([trial("constant"), trial("constant")], workers, timeout)


def test_a_batch_is_answered_call_by_call_and_lost_as_a_whole(user: Path) -> None:
    common = {"environment": "IgnoreRewards", "opposite": False, "opposite_reading": "literal"}
    good, exits = ({"agent": f"{user}:{name}", "steps": 4, "seed": 0} for name in ("good", "exits"))
    with Processes(1) as pool:
        batches = [Batch(PLAY, each, common) for each in ([good, good], [good, exits], [good])]
        first, second, third = (answer for _, answer in pool.run(iter(batches)))
    assert [result.value["total_reward"] for result in first.results] == [3, 3]
    assert first.lost is None and first.seconds > 0
    assert second.results == () and second.lost is not None and second.lost.outcome == "crash"
    assert [result.outcome for result in third.results] == ["ok"]  # by the worker that came after


def test_a_function_without_a_name_cannot_cross() -> None:
    with Processes(1) as pool, pytest.raises(ValueError, match="has no name by which a worker"):
        list(pool.run(iter([Batch(len, [{}])])))


def test_no_jobs_and_cores() -> None:
    assert of([]) == of([], workers=0) == []
    assert 1 <= cores() <= (os.cpu_count() or 1)
