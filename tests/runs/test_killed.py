"""Processes that somebody else ends: no trial is lost, made twice, or gets another result."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidFileError
from goalmeter.runs import Batch, JobResult, Study, carry_out
from goalmeter.runs.backends.processes import Processes
from goalmeter.runs.engine import Kills

PLAY = "goalmeter.reflection.trial:play"
# It notes each signal that it sends itself, so that a test knows how often.
USER = """
import os, pathlib, signal, sys, time

NOTES = pathlib.Path(__file__).with_name("notes")

def good(history, *_):
    return len(history.actions) % 2

def slow(history, *_):
    time.sleep(0.003)
    return len(history.actions) % 2

def sends(history, n_actions, n_observations):
    # Of these CensoredObservation alone has three observations.
    if n_observations == 3 and not history.actions:
        sent = len(NOTES.read_text()) if NOTES.exists() else 0
        if sent < int(NOTES.with_name("tries").read_text()):
            NOTES.write_text("x" * (sent + 1))
            os.kill(os.getpid(), int(NOTES.with_name("signal").read_text()))
            time.sleep(60)
    return len(history.actions) % 2

def closes(history, *_):
    os.closerange(3, 256)
    time.sleep(60)
"""
NAMES = ["IgnoreRewards", "CensoredObservation", "DejaVu", "CryingBaby"]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    (tmp_path / "user.py").write_text(USER)
    return tmp_path / "user.py"


def played(user: Path, name: str, seeds: int = 1, names: list[str] = NAMES) -> Study[Any]:
    return Study(
        name,
        PLAY,
        {
            f"{environment} seed {seed}": {"environment": environment, "seed": seed}
            for environment in names
            for seed in range(seeds)
        },
        common={
            "agent": f"{user}:{name}",
            "opposite": False,
            "steps": 4,
            "opposite_reading": "literal",
        },
        what={"kind": "test"},
        instead=lambda key, result: {"outcome": result.outcome, "detail": result.detail},
    )


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP", "SIGINT"])
def test_a_trial_whose_process_is_ended_from_outside_is_made_again(user: Path, name: str) -> None:
    user.with_name("signal").write_text(str(int(getattr(signal, name))))
    user.with_name("tries").write_text("2")
    results = carry_out(played(user, "sends"), on="processes:2")
    assert results == carry_out(played(user, "good"), on="processes:1")
    assert user.with_name("notes").read_text() == "xx"


def test_a_trial_that_is_ended_every_time_is_a_crash_that_says_so(user: Path) -> None:
    user.with_name("signal").write_text("9")
    user.with_name("tries").write_text("100")
    results = carry_out(played(user, "sends"), on="processes:2")
    assert [value["outcome"] for value in results.values()] == ["ok", "crash", "ok", "ok"]
    detail = "the process ended with signal SIGKILL, each of 6 times that it was made"
    assert results["CensoredObservation seed 0"]["detail"] == detail
    assert user.with_name("notes").read_text() == "x" * 6


def test_a_crash_of_the_trials_own_is_made_once(user: Path) -> None:
    user.with_name("signal").write_text(str(int(signal.SIGSEGV)))
    user.with_name("tries").write_text("100")
    results = carry_out(played(user, "sends"), on="processes:1")
    assert results["CensoredObservation seed 0"] == {
        "outcome": "crash",
        "detail": "the process ended with signal SIGSEGV",
    }
    assert user.with_name("notes").read_text() == "x"


def test_what_the_driver_ends_is_not_killed_from_outside(user: Path) -> None:
    # It lives on and cannot be heard any more, so that it is the driver who has to end it.
    study = played(user, "closes", names=["IgnoreRewards"])
    (result,) = carry_out(study, on="processes:1", timeout=3.0).values()
    assert result["outcome"] in ("timeout", "crash")
    (result,) = carry_out(study, on="processes:1").values()
    assert result["outcome"] == "crash"


def test_what_is_asked_first_is_asked_again_too(user: Path) -> None:
    user.with_name("signal").write_text("9")
    user.with_name("tries").write_text("2")
    common = {"agent": f"{user}:sends", "environment": "CensoredObservation", "opposite": False}
    check = Batch(PLAY, [common | {"steps": 4, "seed": 0, "opposite_reading": "literal"}])
    study = Study[Any]("s", "goalmeter.runs.progress:in_words", {"a": {"seconds": 1}}, check=check)
    assert carry_out(study, on="processes:1") == {"a": "1 s"}
    user.with_name("tries").write_text("100")
    with pytest.raises(InvalidFileError, match=r"s cannot be made: crash, .*each of 6 times"):
        carry_out(study, on="processes:1")


def test_kills_are_counted_trial_by_trial() -> None:
    kills, killed = Kills(), JobResult("killed", detail="gone")
    assert [kills.judged("a", killed) for _ in range(5)] == [None] * 5
    assert kills.judged("b", killed) is None
    sixth = kills.judged("a", killed)
    assert sixth == JobResult("crash", detail="gone, each of 6 times that it was made")
    crash = JobResult("crash", detail="exit status 3")
    assert kills.judged("c", crash) is crash


@contextmanager
def killed_at_random(pool: Processes, seed: int, kills: int) -> Iterator[list[int]]:
    """Ends workers of a pool at random moments, so many of them; the processes that it ended."""
    draws, ended, stop = random.Random(seed), list[int](), threading.Event()

    def end_some() -> None:
        while len(ended) < kills and not stop.wait(draws.expovariate(10)):
            # Those that start are left alone: six ends of one start are an error.
            ready = [worker for worker in tuple(pool._workers) if worker.ready]
            for worker in draws.sample(ready, min(len(ready), draws.choice([1, 1, 2, 3]))):
                with suppress(ProcessLookupError):
                    os.kill(worker.process.pid, draws.choice([signal.SIGKILL, signal.SIGTERM]))
                    ended.append(worker.process.pid)

    thread = threading.Thread(target=end_some)
    thread.start()
    try:
        yield ended
    finally:
        stop.set()
        thread.join()


# GOALMETER_KILLS makes it as long as somebody likes.
KILLS = int(os.environ.get("GOALMETER_KILLS", "12"))


def test_workers_that_are_ended_at_random_moments_change_nothing(
    user: Path, tmp_path: Path
) -> None:
    seeds = 12 * KILLS
    expected = carry_out(played(user, "good", seeds), on="processes:2", out=tmp_path / "whole")
    pool = Processes(3)
    with killed_at_random(pool, seed=1, kills=KILLS) as ended:
        study = played(user, "slow", seeds)
        begun = time.monotonic()
        results = carry_out(study, on=pool, out=tmp_path / "killed")
        seconds = time.monotonic() - begun
    assert len(ended) >= KILLS // 2, (len(ended), seconds)
    assert results == expected and list(results) == list(expected)
    lines = [
        sorted((tmp_path / name / "trials.jsonl").read_text().splitlines())
        for name in ("whole", "killed")
    ]
    assert lines[0] == lines[1] and len(lines[0]) == len(study.trials)
