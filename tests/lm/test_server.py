"""Against a server on loopback: failures, retries, budgets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")

import anyio
from lm.stubbed import Stubbed

from goalmeter.navigation import Trajectory, suite
from goalmeter.navigation.inspect.models import Budget, BudgetReachedError, Server
from goalmeter.navigation.inspect.run import LOGS, ask, spent_in
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import load
from goalmeter.runs import read_run

MODEL = "openai-api/stub/model"
MAZES: dict[str, Any] = {"sizes": [7], "complexities": [1], "grids": 3, "trajectories": 2}
CONNECTIONS = 4


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_API_KEY", "none")


def walked(stub: Stubbed, folder: Path, model: str = MODEL, **options: Any) -> list[Trajectory]:
    server = Server(base_url=stub.url, max_connections=CONNECTIONS)
    settings = {"asking": Asking(max_tokens=20), "server": server}
    return ask(model, "maze", folder, **settings | MAZES | options)


def told(stub: Stubbed) -> int:
    """Tokens that the server has counted."""
    counts = stub.counts()
    return int(counts["input_tokens"] + counts["output_tokens"])


@pytest.mark.parametrize(
    ("model", "outcome", "why"),
    [
        ("broken", "server error", "out of memory"),
        ("slow", "timeout", "Timeout"),
        ("none", "server error", "no choices"),
        ("null", "server error", "has null content"),
        ("long", "context overflow", "the prompt and --max-tokens"),
    ],
)
def test_a_server_that_misbehaves(model: str, outcome: str, why: str, tmp_path: Path) -> None:
    message: list[str] = []
    with Stubbed() as stub:
        server = Server(stub.url, max_retries=0, timeout=1 if model == "slow" else 60)
        options: dict[str, Any] = {"rounds": 0, "progress": message.append, "cap": 4, "grids": 1}
        asking = Asking(options={"max_retries": 0})
        name = f"openai-api/stub/{model}"
        walks = walked(stub, tmp_path, name, server=server, asking=asking, **options)
    assert {(t.outcome, t.steps) for t in walks} == {(outcome, ())}
    expected = suite("maze", **(MAZES | {"grids": 1})).walks()
    assert sorted(t.trajectory for t in walks) == [number for _, number in expected]
    # Failures are on record as tries; an overflow ends the walk. Both count in every table.
    is_try = outcome != "context overflow"
    assert all(key.endswith(", failed 1") == is_try for key in read_run(tmp_path).values)
    assert list(load(tmp_path).trajectories) == walks
    assert why in message[-1] and "messages" not in message[-1]


@pytest.mark.parametrize(
    "budget",
    [
        {"tokens": 6000},
        pytest.param(
            {"usd": 0.02, "price_in": 3.0, "price_out": 40.0}, marks=pytest.mark.slow, id="usd"
        ),
    ],
)
def test_a_budget_ends_a_run_that_a_larger_one_resumes(
    budget: dict[str, Any], tmp_path: Path
) -> None:
    with Stubbed(error=0.3) as stub:
        whole = walked(stub, tmp_path / "whole")
        needed = told(stub)
        with pytest.raises(BudgetReachedError) as reached:
            walked(stub, tmp_path / "run", budget=Budget(**budget))
        spent = told(stub) - needed
        # What the run reports is what the server counts; answers under way may exceed the limit.
        assert reached.value.spent["tokens"] == spent < needed
        if "tokens" in budget:
            assert 6000 <= spent < 6000 + CONNECTIONS * 1000
        else:
            assert reached.value.spent["usd"] >= 0.02
        with pytest.raises(BudgetReachedError):
            walked(stub, tmp_path / "run", budget=Budget(**budget))
        assert told(stub) - needed == spent
        done = walked(stub, tmp_path / "run")
        assert [each.to_json() for each in done] == [each.to_json() for each in whole]
        assert spent_in(tmp_path / "run" / LOGS)["tokens"] == told(stub) - needed


def test_failures_of_the_server_are_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors, rate limits, dropped connections and garbage change no walk."""
    from inspect_ai.model import _retry

    async def shortly(seconds: float) -> None:
        await anyio.sleep(0.01)

    monkeypatch.setattr(_retry, "_sleep", shortly)
    monkeypatch.setattr("goalmeter.navigation.inspect.run.WAIT", 0.01)
    with Stubbed(error=0.3) as sound, Stubbed(error=0.3, failing=0.2, retry_after=0.01) as failing:
        expected = walked(sound, tmp_path / "sound")
        walks = walked(failing, tmp_path / "failing")
        assert failing.counts()["500"] and failing.counts()["429"]
    assert [each.to_json() for each in walks] == [each.to_json() for each in expected]
