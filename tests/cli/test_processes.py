"""The command line in processes of its own: closed pipes, full disks, any locale."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from goalmeter import cli

SRC = Path(__file__).resolve().parents[2] / "src"
SHORT = ["--environment", "IgnoreRewards", "--steps", "9", "--seeds", "2"]


def start(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    """The command line in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(SRC), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "goalmeter", *map(str, arguments)]
    return subprocess.run(command, env=environment, **options)  # type: ignore[call-overload, no-any-return]


INTERRUPTED = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "goalmeter.cli":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
from goalmeter.__main__ import main
main()
"""


def test_an_interrupt_during_the_import_says_nothing() -> None:
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], env=environment, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (cli.INTERRUPTED, b"", b"")


def test_a_closed_pipe_is_no_traceback(files: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    arguments = ["meg", "mdp", files / "m.npz", "--policy", files / "p.npz", "--json"]
    done = start(*arguments, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert done.returncode == cli.PIPE_CLOSED
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[bytes]:
    """The command line as a shell starts it, with `goalmeter` for its name."""
    named = command.replace("goalmeter", f"{shlex.quote(sys.executable)} -m goalmeter", 1)
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    return subprocess.run(["sh", "-c", named], cwd=folder, env=environment, capture_output=True)


TALKS = """
def agent(history, n_actions, n_observations):
    print("x" * 9999)
    return 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("broken", [">&-", ">/dev/full"])
@pytest.mark.parametrize(
    "command", ["reflect naive --environment DejaVu --steps 9 --seeds 1", "--help"]
)
def test_a_result_that_cannot_be_written_is_an_error(
    tmp_path: Path, broken: str, command: str
) -> None:
    why = "it is closed" if broken == ">&-" else "No space left on device"
    for options in ("", " --json") if "reflect" in command else ("",):
        done = shell(tmp_path, f"goalmeter {command}{options} {broken}")
        assert done.returncode == cli.UNWRITTEN and done.stdout == b""
        errors = [line for line in done.stderr.decode().splitlines() if "goalmeter: " in line]
        assert errors == [f"goalmeter: the result cannot be written to standard output: {why}"]
        assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["2>&-", "2>/dev/full", "2>&- <&-"])
def test_progress_that_nobody_hears_is_dropped(tmp_path: Path, broken: str) -> None:
    (tmp_path / "talks.py").write_text(TALKS)
    for agent in ("naive", "talks.py:agent"):
        options = f"--environment DejaVu --steps 9 --seeds 1 --out {agent[:5]} --json {broken}"
        done = shell(tmp_path, f"goalmeter reflect {agent} {options}")
        assert done.returncode == 0 and done.stderr == b""
        assert json.loads(done.stdout)["outcomes"] == {"ok": 2}
        kept = (tmp_path / agent[:5] / "trials.jsonl").read_text().splitlines()
        assert [set(json.loads(line)) for line in kept] == [{"key", "value"}] * 2
    # Errors of ours, and of the library that reads the options.
    for arguments in ("reflect naif", "reflect --steps"):
        done = shell(tmp_path, f"goalmeter {arguments} {broken}")
        assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")
