"""Process pool: results whatever becomes of the processes, and nothing left behind."""

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
from runs.backends.places import played, user_file

from goalmeter._errors import GoalmeterError
from goalmeter.runs import Batch, Study, carry_out
from goalmeter.runs.backends import processes as processes_module
from goalmeter.runs.backends.processes import Processes
from goalmeter.runs.jobs import JobResult, calls

ONE = ["CensoredObservation"]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    return user_file(tmp_path)


def alive(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")  # a killed child of nobody's may stay as a zombie for a while
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def until(condition: Callable[[], bool], seconds: float = 100.0) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def outcomes(study: Study[Any], on: str | Processes = "processes:2", **more: Any) -> list[str]:
    results = carry_out(study, on=on, **more).values()
    return [value["outcome"] for value in results]


def test_a_job_is_a_public_function_of_goalmeter() -> None:
    for function in ("os:system", "goalmeter:x", "goalmeter.runs.jobs:_x", "goalmeter.x.:y", "x"):
        ((result, _),) = calls(Batch(function, [{}]))
        assert "expected goalmeter.module:function" in result.detail
    with Processes("1", trials=9, timeout=None) as pool:
        ((_, made),) = pool.run(iter([Batch("os:system", [{}, {}])]))
    assert [result.error for result in made.results] == ["ValueError", "ValueError"]


def test_in_a_batch_only_the_guilty_call_fails(user: Path) -> None:
    study = played(user, "mixed")
    with Processes("1", trials=9, timeout=None) as pool:
        ((_, made),) = pool.run(iter([study.batch(list(study.trials))]))
    assert made.results[1] == JobResult("crash", detail="the process ended with exit status 3")
    values = [result.value for result in made.results if result.outcome == "ok"]
    assert len(values) == 3 and made.seconds > 0


def test_a_trial_that_takes_too_long_is_ended_with_all_that_it_started(user: Path) -> None:
    results = carry_out(played(user, "hangs"), on="processes:2", timeout=1.5)
    assert results["CensoredObservation seed 0"] == {
        "outcome": "timeout",
        "detail": "no answer within 1.5 s",
    }
    assert [value["outcome"] for value in results.values()].count("ok") == 3
    child = int(user.with_name("child").read_text())
    assert until(lambda: not alive(child))


def test_a_process_that_forks_and_exits_is_replaced(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_module, "_CHECK_EVERY", 0.1)
    assert outcomes(played(user, "forks_and_exits", names=ONE), "processes:1") == ["crash"]


def test_workers_have_one_thread_and_a_seed_for_hashes(
    user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    monkeypatch.setenv("MKL_NUM_THREADS", "2")
    (result,) = carry_out(played(user, "tells", names=ONE), on="processes:1").values()
    assert result["detail"].startswith("ValueError: 1 2 0 (user.py, line ")


# --- Processes that are ended from outside --------------------------------------------------------
def sent(user: Path, number: int, times: int) -> None:
    user.with_name("signal").write_text(f"{int(number)} {times}")


def test_a_trial_whose_process_is_ended_from_outside_is_made_again(user: Path) -> None:
    sent(user, signal.SIGKILL, 2)
    assert carry_out(played(user, "sends"), on="processes:2") == carry_out(played(user, "good"))
    assert user.with_name("notes").read_text() == "xx"


@pytest.mark.parametrize(
    ("number", "times", "detail"),
    [
        pytest.param(
            signal.SIGKILL,
            6,
            "signal SIGKILL, each of 6 times that it was made",
            marks=pytest.mark.slow,
        ),
        (signal.SIGSEGV, 1, "signal SIGSEGV"),
    ],
)
def test_a_trial_that_always_ends_its_process_is_a_crash(
    user: Path, number: int, times: int, detail: str
) -> None:
    sent(user, number, 100)
    results = carry_out(played(user, "sends"), on="processes:2")
    assert [value["outcome"] for value in results.values()] == ["ok", "crash", "ok", "ok"]
    assert results["CensoredObservation seed 0"]["detail"] == f"the process ended with {detail}"
    assert len(user.with_name("notes").read_text()) == times


# --- Workers --------------------------------------------------------------------------------------


PARENT = """
import signal, sys
from pathlib import Path
# A shell's background job ignores the keyboard's signal, and so does all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
from goalmeter.runs import carry_out
from runs.backends.places import played
carry_out(played(Path(sys.argv[1]), "hangs"), on="processes:2")
"""


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_workers_end_with_the_process_that_started_them(user: Path, number: int) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(user)], env=environment, stderr=subprocess.DEVNULL
    ) as parent:
        children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
        assert until(user.with_name("hanging").exists)
        tasks = Path(f"/proc/{parent.pid}/task").glob("*/children")
        workers = [int(pid) for task in tasks for pid in task.read_text().split()]
        assert workers and children.exists()
        parent.send_signal(number)
    assert until(lambda: not any(map(alive, workers)))


def test_a_worker_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    message = "cannot be started: 6 attempts .*, the last with exit status 1"
    study = Study[Any]("s", "goalmeter.runs.progress:in_words", {"a": {"seconds": 1}})
    with pytest.raises(GoalmeterError, match=message):
        carry_out(study, on="processes:1")
