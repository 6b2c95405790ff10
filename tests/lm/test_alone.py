"""Models that are on this machine ask no network, and print nothing of their libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("transformers")

SRC = Path(__file__).resolve().parents[2] / "src"
# Every address that is looked up or connected to is written down, and refused.
WATCHED = """
import sys
from pathlib import Path

asked = Path(sys.argv.pop(1))

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        with asked.open("a") as file:
            file.write(f"{event} {arguments[-1] if event == 'socket.connect' else arguments[0]}\\n")
        raise OSError("the network was asked")

sys.addaudithook(watch)
from goalmeter import cli
cli.main()
"""


def alone(arguments: list[str], folder: Path) -> tuple[subprocess.CompletedProcess[str], str]:
    """A command without a network, a cache or a home; and the addresses that it asked for."""
    asked = folder / "asked"
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("HF_", "INSP"))
    }
    env |= {"PYTHONPATH": str(SRC), "HOME": str(folder), "HF_HOME": str(folder / "hf")}
    env |= {"XDG_DATA_HOME": str(folder), "XDG_CACHE_HOME": str(folder), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WATCHED, str(asked), *arguments],
        capture_output=True,
        text=True,
        env=env,
        check=False,
        cwd=folder,
        timeout=300,
    )
    return done, asked.read_text() if asked.exists() else ""


MAZE = ["--sizes=5", "--complexities=1", "--grids=1", "--trajectories=2", "--cap=2", "--json"]


@pytest.mark.parametrize(
    "model", ["mockllm/model", "goalmeter/greedy", "goalmeter/mouse", "goalmeter-local"]
)
def test_a_model_of_this_machine_asks_no_network_and_is_quiet(
    model: str, models: Path, tmp_path: Path
) -> None:
    name = f"goalmeter-local/{models / 'speaking-llama'}" if model == "goalmeter-local" else model
    short = [] if model == "goalmeter/mouse" else ["--max-tokens=12"]
    done, asked = alone(["navigate", name, *MAZE, *short], tmp_path)
    assert done.returncode == 0, done.stderr
    assert asked == ""
    assert json.loads(done.stdout)["failed"] == {}
    # Progress is our own: no loading bars, and nothing that transformers says to programmers.
    lines = done.stderr.splitlines()
    assert lines and all(line.startswith((model, "reference agent: ")) for line in lines), lines


def test_a_training_asks_no_network_and_is_quiet(tmp_path: Path) -> None:
    few = ["--steps=1", "--sizes=5", "--no-keys", "--workers=1", "--device=cpu", "--json"]
    done, asked = alone(["train-organism", "moth", *few, "--out", str(tmp_path / "out")], tmp_path)
    assert done.returncode == 0, done.stderr
    assert (done.stderr, asked) == ("", "")
