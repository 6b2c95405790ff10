"""Against a server on loopback that misbehaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")

from lm.stubbed import Stubbed

from goalmeter.navigation import Trajectory, suite
from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.inspect.run import ask
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import load
from goalmeter.runs.reading import read_run

MAZES: dict[str, Any] = {"sizes": [7], "complexities": [1], "grids": 1, "trajectories": 2, "cap": 4}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubbed]:
    monkeypatch.setenv("STUB_API_KEY", "none")
    with Stubbed() as server:
        yield server


def through_mazes(stub: Stubbed, model: str, folder: Path, **options: Any) -> list[Trajectory]:
    server = Server(base_url=stub.url, **options.pop("reached", {}))
    return ask(f"openai-api/stub/{model}", "maze", folder, server=server, **MAZES | options)


def all_there(walks: list[Trajectory], name: str = "maze", **options: Any) -> bool:
    """Whether each walk of a suite is there once."""
    made = suite(name, **(options or MAZES))
    expected = [(str(task.world), n) for task, n in made.walks()]
    return sorted((str(t.world), t.trajectory) for t in walks) == sorted(expected)


@pytest.mark.parametrize(
    ("model", "outcome", "why"),
    [
        ("broken", "server error", "out of memory"),
        ("refuses", "request refused", "no such thing"),
        ("slow", "timeout", "Timeout"),
        ("none", "server error", "no choices"),
        ("null", "server error", "null as its content"),
    ],
)
def test_a_server_that_misbehaves(
    model: str, outcome: str, why: str, stub: Stubbed, tmp_path: Path
) -> None:
    message: list[str] = []
    reached = {"max_retries": 0, "timeout": 1 if model == "slow" else 60}
    asking = Asking(options={"max_retries": 0})
    options: dict[str, Any] = {"rounds": 0, "progress": message.append, "asking": asking}
    walks = through_mazes(stub, model, tmp_path, reached=reached, **options)
    assert all_there(walks) and {(t.outcome, t.steps) for t in walks} == {(outcome, ())}
    # They are on record as tries, and count in every table.
    assert all(key.endswith(", failed 1") for key in read_run(tmp_path).values)
    assert list(load(tmp_path).trajectories) == walks
    assert why in message[-1] and "messages" not in message[-1]


def test_a_context_overflow_is_an_outcome_of_its_own(stub: Stubbed, tmp_path: Path) -> None:
    message: list[str] = []
    walks = through_mazes(stub, "long", tmp_path, progress=message.append)
    # It ends the walk, is no answer of the model, and is not repeated.
    assert all_there(walks)
    assert {(t.outcome, t.steps) for t in walks} == {("context overflow", ())}
    assert not any(", failed" in key for key in read_run(tmp_path).values)
    assert "2 walks ended with a context overflow: the prompt and --max-tokens" in message[-1]
