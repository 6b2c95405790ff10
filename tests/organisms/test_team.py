"""Processes of a training: none outlives the one that started it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

# The first process is killed when the other is sure to wait for it.
KILLED = """
import os, signal, sys, time
from pathlib import Path

from goalmeter.organisms.team import in_team

def work(folder, team, progress):
    if team.rank:
        Path(folder, "helper").write_text(str(os.getpid()))
        team.wait()
    while not Path(folder, "helper").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    in_team(work, (sys.argv[1],), workers=2, weights=1)
"""


def test_no_process_outlives_a_killed_training(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    ended = subprocess.run([sys.executable, script, tmp_path], timeout=120)
    assert ended.returncode == -signal.SIGKILL
    helper = Path("/proc", (tmp_path / "helper").read_text())
    until = time.monotonic() + 20
    while helper.exists() and time.monotonic() < until:
        time.sleep(0.02)
    assert not helper.exists(), "the other process waits for ever"
