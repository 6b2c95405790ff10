"""Models that are on this machine ask no network, and print nothing of their libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from lm.tiny_models import Models

pytestmark = pytest.mark.slow
pytest.importorskip("inspect_ai")
pytest.importorskip("transformers")

SRC = Path(__file__).resolve().parents[2] / "src"
# Every address that is looked up or connected to is written down, and refused. The commands share a
# process, since to import their libraries takes longer than to carry them out; what is printed goes
# where the process prints, whichever stream a library has kept.
WATCHED = """
import json, os, sys
from pathlib import Path

folder, commands = Path(sys.argv[1]), json.loads(sys.argv[2])

def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        with (folder / "asked").open("a") as file:
            file.write(f"{event} {arguments[-1] if event == 'socket.connect' else arguments[0]}\\n")
        raise OSError("the network was asked")

sys.addaudithook(watch)
for name, arguments in commands.items():
    for number, stream in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / f"{name}.{stream}", os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["goalmeter", *arguments]
    from goalmeter import cli
    try:
        cli.main()
    except SystemExit as stopped:
        (folder / f"{name}.code").write_text(str(stopped.code or 0))
    sys.stdout.flush()
"""


class Done(NamedTuple):
    """What a command printed, and its exit status."""

    code: str
    out: str
    err: str


MAZE = ["--sizes=5", "--complexities=1", "--grids=1", "--trajectories=2", "--cap=2", "--json"]
MODELS = ("mockllm/model", "goalmeter/greedy", "goalmeter/mouse", "goalmeter-local")


@pytest.fixture(scope="module")
def commands(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands that had no network, no cache and no home."""
    folder = tmp_path_factory.mktemp("alone")
    words = {}
    for model in MODELS:
        name = f"{model}/{models / 'speaking-llama'}" if model == "goalmeter-local" else model
        short = [] if model == "goalmeter/mouse" else ["--max-tokens=12"]
        words[model.replace("/", " ")] = ["navigate", name, *MAZE, *short]
    few = ["--steps=1", "--sizes=5", "--no-keys", "--workers=1", "--device=cpu", "--json"]
    words["training"] = ["train-organism", "moth", *few, "--out", str(folder / "trained")]
    env = {
        name: value for name, value in os.environ.items() if not name.startswith(("HF_", "INSP"))
    }
    env |= {"PYTHONPATH": str(SRC), "HOME": str(folder), "HF_HOME": str(folder / "hf")}
    env |= {"XDG_DATA_HOME": str(folder), "XDG_CACHE_HOME": str(folder), "TMPDIR": str(folder)}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", WATCHED, str(folder), json.dumps(words)],
        env=env,
        check=False,
        cwd=folder,
        timeout=300,
    )
    return folder


def done(folder: Path, name: str) -> Done:
    streams = (folder / f"{name}.{stream}" for stream in ("code", "out", "err"))
    return Done(*(stream.read_text() if stream.exists() else "" for stream in streams))


def test_no_command_asks_the_network(commands: Path) -> None:
    assert not (commands / "asked").exists()


@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_this_machine_is_quiet(model: str, commands: Path) -> None:
    code, out, err = done(commands, model.replace("/", " "))
    assert code == "0", err
    assert json.loads(out)["failed"] == {}
    # Progress is our own: no loading bars, and nothing that transformers says to programmers.
    lines = err.splitlines()
    assert lines and all(line.startswith((model, "reference agent: ")) for line in lines), lines


def test_a_training_is_quiet(commands: Path) -> None:
    code, out, err = done(commands, "training")
    assert (code, err) == ("0", "") and json.loads(out)
