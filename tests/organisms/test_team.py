"""Processes of a training: the death of one is an error in the other, at every point of a step."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.slow

# The first process is killed when the other is sure to wait for it.
KILLED = """
import os, signal, sys, time
from pathlib import Path

from goalmeter.organisms.training import in_team

def work(folder, team, progress):
    if team.rank:
        Path(folder, "helper").write_text(str(os.getpid()))
        team.wait()
    while not Path(folder, "helper").exists():
        time.sleep(0.01)
    time.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    in_team(work, (sys.argv[1],), workers=2)
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


# One process kills itself at a point of a step, the other one takes steps until it sees that. The
# gradients do not fit into a pipe: who sends them waits until the other one has read them.
DEATHS = """
import os, signal, struct, sys
from multiprocessing import Pipe
from types import SimpleNamespace

import torch

from goalmeter._errors import GoalmeterError
from goalmeter.organisms.training import Team

NUMBERS = 1_000_000

def model(rank):
    grad = torch.full((NUMBERS,), float(rank + 1))
    return SimpleNamespace(parameters=lambda: [SimpleNamespace(grad=grad)])

def half(team):  # as many bytes as a message has, of which half are sent
    pipe = team.pipe.fileno()
    os.write(pipe, struct.pack("!i", 4 * NUMBERS))
    left = bytes(2 * NUMBERS)
    while left:
        left = left[os.write(pipe, left):]

def starts_to_read(team):
    os.read(team.pipe.fileno(), 4)

# What each process does before it is killed, by its rank.
POINTS = {
    "at once": ([], []),
    "before it waits": ([Team.wait], [Team.wait]),
    "after a step": ([lambda team: team.add_up(model(0))], [lambda team: team.add_up(model(1))]),
    "while it sends": ([lambda team: team.pipe.recv_bytes(), half], [half]),
    "before it reads": (
        [],
        [lambda team: team.pipe.send_bytes(bytes(4 * NUMBERS))],
    ),
    "while it reads": (
        [starts_to_read],
        [lambda team: team.pipe.send_bytes(bytes(4 * NUMBERS)), starts_to_read],
    ),
}

for point, acts in POINTS.items():
    for killed in (0, 1):
        ends = Pipe()
        pid = os.fork()
        if not pid:
            signal.alarm(60)  # a process that outlives an error of this script
            ends[1 - killed].close()
            for act in acts[killed]:
                act(Team(killed, ends[killed]))
            os.kill(os.getpid(), signal.SIGKILL)
        ends[killed].close()
        team = Team(1 - killed, ends[1 - killed])
        steps = 0
        try:
            if point == "before it waits":
                team.wait()
            while True:
                one = model(team.rank)
                team.add_up(one)
                steps += 1
                assert one.parameters()[0].grad.unique().tolist() == [3.0]
        except GoalmeterError as error:
            assert "one of the 2 processes of the training has stopped" in str(error)
        assert steps == (point == "after a step"), (point, killed, steps)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
"""


def test_a_process_killed_at_any_point_of_a_step_is_an_error_in_the_other(tmp_path: Path) -> None:
    script = tmp_path / "deaths.py"
    script.write_text(DEATHS)
    subprocess.run([sys.executable, script], check=True, timeout=120)
