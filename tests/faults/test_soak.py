"""Commands that are killed, and every write that fails; `make soak` does the former for longer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SRC, TESTS = Path(__file__).resolve().parents[2] / "src", Path(__file__).resolve().parents[1]


def run(*arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SRC, TESTS, TESTS.parent)))}
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen in /proc")
def test_a_run_that_is_killed_ends_as_if_nothing_had_been() -> None:
    assert "wrong: 0" in run("faults", "--seed", "51", "--tries", "4")


@pytest.mark.slow
def test_every_write_may_fail() -> None:
    counts = re.findall(r": (\d+) faults, 0 wrong", run("faults.every_write"))
    assert len(counts) == 4 and min(map(int, counts)) >= 10
