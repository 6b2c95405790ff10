"""A study with a user's code in it, for every backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goalmeter._files import digest
from goalmeter.runs import Study

# `sends` notes each signal that it sends itself, so that a test knows how often.
USER = """
import os, pathlib, signal, subprocess, sys, time

HERE = pathlib.Path(__file__).parent

def good(history, *_):
    return len(history.actions) % 2

def slow(history, *_):
    time.sleep(0.004)
    return len(history.actions) % 2

def mixed(history, n_actions, n_observations):
    print("{not json", flush=True)
    os.write(1, b"[]\\n")
    assert not sys.stdin.read()
    if n_observations == 3:  # CensoredObservation
        os._exit(3)
    if n_observations == 1:  # CryingBaby has more
        raise ValueError("not for me")
    return 0

def hangs(history, n_actions, n_observations):
    if n_observations == 3:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        (HERE / "child").write_text(str(child.pid))
        (HERE / "hanging").touch()
        time.sleep(600)
    return 0

def sends(history, n_actions, n_observations):
    if n_observations == 3 and not history.actions:
        notes = HERE / "notes"
        number, times = map(int, (HERE / "signal").read_text().split())
        sent = len(notes.read_text()) if notes.exists() else 0
        if sent < times:
            notes.write_text("x" * (sent + 1))
            os.kill(os.getpid(), number)
            time.sleep(60)
    return len(history.actions) % 2

def leaves(history, *_):
    sys.exit(4)

def interrupts(history, *_):
    raise KeyboardInterrupt

def forks_and_exits(history, *_):
    if os.fork() == 0:
        time.sleep(20)
    os._exit(5)

def tells(history, *_):
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "PYTHONHASHSEED")
    raise ValueError(" ".join(os.environ[name] for name in names))
"""
NAMES = ("IgnoreRewards", "CensoredObservation", "DejaVu", "CryingBaby")


def user_file(folder: Path) -> Path:
    path = folder / "user.py"
    path.write_text(USER)
    return path


def played(user: Path, name: str, seeds: int = 1, names: Sequence[str] = NAMES) -> Study[Any]:
    """Trials of a user's agent, whatever comes of them."""
    return Study(
        "user",
        "goalmeter.reflection.trial:play",
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
        files={str(user): digest(user)},
        what={"kind": "test"},
        instead=lambda key, result: {"outcome": result.outcome, "detail": result.detail},
    )


def kept(folder: Path) -> tuple[bytes, list[bytes]]:
    """What a run directory holds, whatever the order in which its trials ended."""
    lines = (folder / "trials.jsonl").read_bytes().splitlines()
    return (folder / "run.json").read_bytes(), sorted(lines)
