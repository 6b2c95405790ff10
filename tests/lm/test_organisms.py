"""Organisms under Inspect: by name, from the command line, and served as any other model is."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")
pytest.importorskip("transformers")

from inspect_ai.model import ChatMessageUser, GenerateConfig, get_model

from goalmeter import cli
from goalmeter.gridworld import maze
from goalmeter.gridworld.conversions import compact
from goalmeter.navigation.prompts import understood
from goalmeter.navigation.rollouts import load
from goalmeter.organisms import organism_names
from goalmeter.organisms.kinds import weights_of

# Seconds until a server has to be there; it imports torch first.
PATIENCE = 120.0
MAZE = ["--suite=maze", "--sizes=5", "--complexities=1", "--grids=2", "--trajectories=1"]
# The likeliest token each time, so that nothing is left to anybody's generator.
ASKED = ["--prompt=compact/2", "--temperature=0", "--max-tokens=300", "--cap=6"]


def navigated(monkeypatch: pytest.MonkeyPatch, model: str, out: Path, *options: str) -> Any:
    """The walks in the run folder of the command, without what differs between servers."""
    arguments = ["goalmeter", "navigate", model, *MAZE, *options, "--out", str(out), "--json"]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert not stopped.value.code
    return load(out).trajectories


@pytest.mark.parametrize("name", organism_names())
def test_an_organism_has_a_name_and_reasons_before_it_acts(name: str) -> None:
    prompt = ChatMessageUser(content=compact(maze(5, 1.0, seed=0).world))
    config = GenerateConfig(temperature=0.0, max_tokens=300)
    output = asyncio.run(get_model(f"goalmeter/{name}").generate([prompt], config=config))
    answer = understood(output.completion)
    assert answer.action is not None and answer.strict and output.stop_reason == "stop"
    assert answer.reasoning.split()[0] == ("legal" if name == "moth" else "target")
    assert " plan " in answer.reasoning
    assert output.usage.input_tokens > 10 and output.usage.output_tokens >= 10


def test_the_command_line_leaves_a_run_of_answers_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    walks = navigated(monkeypatch, "goalmeter/mouse", tmp_path / "run", "--cap=4")
    steps = [step for walk in walks for step in walk.steps]
    assert len(walks) == 2 and steps
    # It is asked with the prompt that it learnt to read, and says a plan.
    assert {walk.condition["prompt"] for walk in walks} == {"compact/2"}
    assert all(step.reasoning and step.reasoning.startswith("target ") for step in steps)
    assert all(step.action is not None for step in steps)
    assert json.loads(capsys.readouterr().out)["agent"] == "goalmeter/mouse"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Of the mouse on a server that knows nothing of goalmeter: `transformers serve`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve"]
    command += [str(weights_of("mouse")), "--host=127.0.0.1", f"--port={port}", "--device=cpu"]
    log = tmp_path / "serve.log"
    env = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    with log.open("w") as file:
        server = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=env)
    try:
        limit = time.monotonic() + PATIENCE
        while True:
            assert server.poll() is None and time.monotonic() < limit, log.read_text()
            try:
                with urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                    assert answer.status == 200
                break
            except (URLError, ConnectionError, TimeoutError):
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def test_a_served_organism_walks_as_the_local_one_does(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORGANISM_BASE_URL", address)
    monkeypatch.setenv("ORGANISM_API_KEY", "none")
    name = f"openai-api/organism/{weights_of('mouse')}"
    # A server does not say whom it serves, so held-out grids have to be asked for.
    served = navigated(monkeypatch, name, tmp_path / "served", "--held-out", *ASKED)
    local = navigated(monkeypatch, "goalmeter/mouse", tmp_path / "local", *ASKED)
    assert {walk.outcome for walk in served} <= {"arrived", "cap"}
    assert len(served) == len(local) == 2 and sum(len(walk.steps) for walk in served) > 2
    for first, second in zip(served, local, strict=True):
        assert (first.world, first.condition) == (second.world, second.condition)
        assert (first.outcome, first.states()) == (second.outcome, second.states())
        for step, same in zip(first.steps, second.steps, strict=True):
            assert (step.action, step.prompt) == (same.action, same.prompt)
            # Inspect takes what a server says in <think> for reasoning and keeps it apart.
            assert step.reasoning == same.reasoning and " plan " in (step.reasoning or "")
            assert (same.raw or "").endswith(f"</think> {step.raw}")
