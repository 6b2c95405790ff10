"""Commands that are killed again and again: python -m faults, or make soak.

A command is started, the command or one of its workers is killed at a random moment, and the same
command is given until it ends with a result; its run must then have the bytes of one that nothing
disturbed. The exit status is 1 if anything was wrong; the folders are then kept.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from random import Random, SystemRandom

SMALL = ("--steps", "40", "--seeds", "12", "--environment", "IgnoreRewards", "--timeout", "60")
GRIDS = ("--sizes", "5,7", "--complexities", "1", "--grids", "20", "--trajectories", "4")
KINDS = {
    "reflect": ("reflect", "q-learner", *SMALL, "--json", "--out", "run"),
    "navigate": ("navigate", "boltzmann(2)", *GRIDS, "--json", "--out", "run"),
}
PLACES = ["here", "processes:1", "processes:3"]
_FIRST = 3.0  # seconds until the first imports are over
_LONG = 600.0  # seconds after which a command hangs


def main() -> None:
    """Read the options, and try until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--tries", type=int, default=10**6, help="end after so many")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    options = parser.parse_args()
    places = PLACES + ["ray:local,cpus=2"] * (find_spec("ray") is not None)
    places += ["slurm:cluster=local,jobs=2"] * (find_spec("submitit") is not None)
    top = Path(tempfile.mkdtemp(prefix="goalmeter-soak-"))
    draws, end = Random(options.seed), time.monotonic() + 60 * options.minutes
    print(f"seed {options.seed}, {options.minutes:g} minutes, {top}", flush=True)
    expected = {kind: _undisturbed(kind, top / kind) for kind in KINDS}
    kills, wrong = Counter[str](), 0
    for number in range(options.tries):
        if time.monotonic() > end:
            break
        kind, place = draws.choice([*KINDS]), draws.choice(places)
        folder = top / f"{number} {kind} {place.partition(':')[0]}"
        for _ in range(draws.randint(1, 3)):
            kills[place] += _killed(kind, place, folder, draws)
        status = _command(kind, place, folder).wait(_LONG)
        if status != 0 or _contents(folder) != expected[kind]:
            wrong += 1
            print(f"WRONG {folder}: ended with {status}", flush=True)
        else:
            shutil.rmtree(folder)
    print(f"kills: {dict(kills)}, wrong: {wrong}")
    if wrong:
        sys.exit(1)
    shutil.rmtree(top)


def _command(kind: str, place: str, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    words = [*KINDS[kind], "--on", place]
    with (folder / "out").open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "goalmeter", *words], cwd=folder, stdout=out, stderr=out
        )


def _undisturbed(kind: str, folder: Path) -> object:
    assert _command(kind, "here", folder).wait(_LONG) == 0
    return _contents(folder)


def _killed(kind: str, place: str, folder: Path, draws: Random) -> bool:
    """Start a command and kill it or one of its processes; whether a living one was met."""
    command = _command(kind, place, folder)
    time.sleep(draws.uniform(0.0, 2 * _FIRST))
    met = command.poll() is None
    workers = _children(command.pid)
    with suppress(ProcessLookupError):
        if workers and draws.random() < 0.5:
            os.kill(draws.choice(workers), signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                command.wait(draws.uniform(0.0, _FIRST))
        command.kill()
    command.wait(_LONG)
    return met


def _children(pid: int) -> list[int]:
    found = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in file.read_text().split()]
    return found


def _contents(folder: Path) -> object:
    run = folder / "run"
    lines = (run / "trials.jsonl").read_bytes().splitlines(keepends=True)
    return (run / "run.json").read_bytes(), sorted(lines)


if __name__ == "__main__":
    main()
