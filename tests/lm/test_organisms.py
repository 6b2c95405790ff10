"""Organisms under Inspect: by name, from the command line, and served as any other model is."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

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

MAZE = ["--suite=maze", "--sizes=5", "--complexities=1", "--grids=2", "--trajectories=1"]


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
