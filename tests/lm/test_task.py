"""The Inspect task, asked by mocks: what is recorded, what is retried, and how each walk ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import Task, eval
from inspect_ai.model import ContentReasoning, ContentText, ModelOutput
from lm.mocks import best, mock, output

from goalmeter.agents.grid_agents import navigator
from goalmeter.navigation import Trajectory, suite, walk
from goalmeter.navigation.inspect.eval_log import trajectories
from goalmeter.navigation.inspect.task import navigation

ONE = {"sizes": 7, "complexities": 1, "grids": 1, "trajectories": 1}


def run(task: Task, model: Any, **options: Any) -> tuple[Any, list[Trajectory]]:
    """The log of a run, and the walks in it."""
    options = {"log_realtime": False, "display": "none", "max_retries": 0} | options
    (log,) = eval(task, model=model, **options)
    return log, trajectories(log.location)


def written(path: Path) -> list[Trajectory]:
    """The walks in the file that a task wrote."""
    return [Trajectory.from_json(json.loads(line)) for line in path.read_text().splitlines()]


def test_the_record(tmp_path: Path) -> None:
    out = tmp_path / "walks.jsonl"
    asked: list[Any] = []

    def answer(prompt: str, config: Any) -> ModelOutput:
        asked.append(config)
        return output([ContentReasoning(reasoning="Hm."), ContentText(text=best(prompt))])

    task = navigation("maze", **(ONE | {"trajectories": 2}), out=str(out), cap_factor=2)
    log, walks = run(task, mock(answer))
    assert log.status == "success" and len(walks) == 2
    for index, done in enumerate(sorted(walks, key=lambda t: t.trajectory)):
        made = suite("maze", sizes=[7], complexities=[1], grids=1, cap_factor=2).tasks[0]
        assert (done.outcome, done.trajectory) == ("arrived", index)
        assert (done.world, done.cap, done.distance) == (made.world, made.cap, made.distance)
        assert done.condition == {"prompt": "plain/1"} and len(done.steps) == done.distance
        for step in done.steps:
            assert (step.reasoning, step.attempts, step.prompt_tokens) == ("Hm.", 1, 10)
            assert step.is_optimal and step.probabilities is None
            assert step.raw == best(step.prompt or "")
        # There is one way through a perfect maze.
        assert done.states() == walk(navigator("optimal"), made).states()
    # What the run wrote, what the log says, and what a line of JSON keeps are the same.
    assert sorted(map(repr, written(out))) == sorted(map(repr, walks))
    assert all(Trajectory.from_json(json.loads(json.dumps(t.to_json()))) == t for t in walks)
    # The paper's sampling, and a seed for each question.
    assert {(c.temperature, c.top_p, c.max_tokens) for c in asked} == {(0.7, 0.95, 10_000)}
    assert len({c.seed for c in asked}) == len(asked) == sum(len(t.steps) for t in walks)
    scores = {s.name: s.metrics["mean"].value for s in log.results.scores}
    assert scores == {"success": 1, "accuracy": 1, "invalid": 0}


def test_seeds_are_of_the_run_the_walk_the_step_and_the_attempt() -> None:
    def seeds(**options: Any) -> list[int | None]:
        seen: list[int | None] = []
        model = mock(lambda prompt, config: seen.append(config.seed) or "?")
        run(navigation("maze", **ONE, cap=2, **options), model)
        return seen

    first = seeds()
    assert len(set(first)) == 6 and all(s is not None and 0 <= s < 2**31 for s in first)
    assert not set(seeds(seed=1)) & set(first)
    assert seeds(seeded=False) == [None] * 6


@pytest.mark.parametrize(
    ("text", "stop", "why"),
    [
        ("", "stop", "an empty answer"),
        ("Up, I think", "stop", 'no JSON object with the key "action"'),
        ("<think>up", "max_tokens", "token cap: no answer after the reasoning"),
        ("", "content_filter", "withheld: an empty answer"),
    ],
)
def test_an_answer_that_cannot_be_read_is_an_invalid_step(text: str, stop: str, why: str) -> None:
    task = navigation("maze", **ONE, cap=2, attempts=2)
    log, (done,) = run(task, mock(lambda *_: output(text, stop=stop)))
    assert log.status == "success" and done.outcome == "cap" and len(done.steps) == 2
    for step in done.steps:
        assert (step.action, step.attempts, step.raw, step.invalid) == (None, 2, text, why)
    scores = {s.name: s.metrics["mean"].value for s in log.results.scores}
    assert scores == {"success": 0, "accuracy": 0, "invalid": 1}


def test_asked_once_at_temperature_0() -> None:
    asked: list[str] = []

    def answer(prompt: str, config: Any) -> str:
        asked.append(prompt)
        return best(prompt)

    options = ONE | {"trajectories": 4}
    _, cold = run(navigation("maze", **options), mock(answer), temperature=0)
    assert len(asked) == len(set(asked)) == cold[0].distance
    assert len({t.steps for t in cold}) == 1 and len(cold) == 4
    asked.clear()
    run(navigation("maze", **options, once=False), mock(answer), temperature=0)
    assert len(asked) == 4 * cold[0].distance


@pytest.mark.slow
def test_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "walks.jsonl"
    words = ["eval", "goalmeter/key-no-door", "--model", "goalmeter/key-seeker"]
    words += ["--log-dir", "logs", "-Tgrids=2", "-Tprompt=plain/1,keys/1", f"-Tout={out}"]
    command = [sys.executable, "-m", "inspect_ai", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    walks = trajectories(tmp_path / "logs")
    assert sorted(map(repr, walks)) == sorted(map(repr, written(out)))
    assert sorted(t.condition["prompt"] for t in walks) == ["keys/1"] * 2 + ["plain/1"] * 2
    # It goes for the key, whose place it sees under either prompt.
    assert all(t.arrived and t.states()[-1].has_key for t in walks)
