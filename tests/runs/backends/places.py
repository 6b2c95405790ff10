"""What is asked of every place: a study with users' code in it, and a run on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goalmeter._files import digest
from goalmeter.runs import Study

USER = """
import os, time

def good(history, *_):
    return len(history.actions) % 2

def slow(history, *_):
    time.sleep(0.004)
    return len(history.actions) % 2

def mixed(history, n_actions, n_observations):
    print("to be heard by nobody")
    if n_observations == 3:  # CensoredObservation
        os._exit(3)
    if n_observations == 1:  # CryingBaby has more
        raise ValueError("not for me")
    return 0

def hangs(history, n_actions, n_observations):
    if n_observations == 3:
        time.sleep(600)
    return 0
"""
NAMES = ("IgnoreRewards", "CensoredObservation", "DejaVu", "CryingBaby")


def user_file(folder: Path) -> Path:
    path = folder / "user.py"
    path.write_text(USER)
    return path


def played(user: Path, name: str, seeds: int = 1) -> Study[Any]:
    """Trials of a user's agent, whatever comes of them."""
    return Study(
        "user",
        "goalmeter.reflection.trial:play",
        {
            f"{environment} seed {seed}": {"environment": environment, "seed": seed}
            for environment in NAMES
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
    """What a run folder holds, whatever the order in which its trials ended."""
    lines = (folder / "trials.jsonl").read_bytes().splitlines()
    return (folder / "run.json").read_bytes(), sorted(lines)
