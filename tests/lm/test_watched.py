"""While a model is asked, the run says which walks are under way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")

from lm.stubbed import Stubbed

from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.inspect.run import ask
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import Keeper
from goalmeter.runs import status_of


def test_walks_under_way_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_API_KEY", "none")
    seen: list[Any] = []
    step = Keeper.step

    def look(self: Keeper) -> None:
        seen.append(self._results.progress.to_json())
        step(self)

    monkeypatch.setattr(Keeper, "step", look)
    with Stubbed() as stub:
        walks = ask(
            "openai-api/stub/model",
            "maze",
            tmp_path,
            asking=Asking(max_tokens=20),
            server=Server(base_url=stub.url),
            sizes=[7],
            complexities=[1],
            grids=2,
            trajectories=1,
        )
    assert len(walks) == 2
    for said in seen:
        (worker,) = said["working"]
        assert worker["worker"] == f"process {os.getpid()}"
        assert 1 <= worker["count"] <= 2 - said["done"]
        assert all(key.startswith("maze, size 7") for key in worker["trials"])
    assert max(said["steps"] for said in seen) > 0
    status = status_of(tmp_path)
    assert (status.done, status.total, status.noun) == (2, 2, "walk")
