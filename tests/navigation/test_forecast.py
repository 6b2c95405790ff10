"""What a language model's walks will cost, against counts made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalmeter._errors import json_text
from goalmeter.navigation.plan import CHARACTERS_A_TOKEN, forecast, plan_of
from goalmeter.navigation.prompts import Asking, template
from goalmeter.navigation.trajectories import Episode
from goalmeter.runs.forecast import Span

MODEL = "vllm/somebody/model"
SMALL = {"sizes": [7], "complexities": [1.0], "grids": 2, "trajectories": 3}


def test_calls_and_tokens_are_those_of_the_suite(tmp_path: Path) -> None:
    plan = plan_of(MODEL, "maze", asking=Asking(max_tokens=50, attempts=2), **SMALL)
    told = forecast(plan, out=tmp_path / "none", answer_tokens=7, connections=5, call_seconds=2.0)
    steps = [(3 * task.distance, 3 * task.cap) for task in plan.tasks.tasks]
    least, most = (sum(bound) for bound in zip(*steps, strict=True))
    assert told.trials == told.left == 6 and told.calls == Span(least, most)
    lengths = [
        len(template("plain/1").prompt(task.world, Episode(task).state)) / CHARACTERS_A_TOKEN
        for task in plan.tasks.tasks
    ]
    by_path = sum(count * tokens for (count, _), tokens in zip(steps, lengths, strict=True))
    assert told.prompt_tokens is not None
    assert told.prompt_tokens.least == pytest.approx(by_path)
    assert told.output_tokens == Span(7 * least, 7 * most)
    assert told.output_cap == most * 2 * 50
    assert told.hours == Span(least * 2 / 5 / 3600, most * 2 / 5 / 3600)
    assert told.usd is None and not (tmp_path / "none").exists()


def test_walks_that_are_kept_cost_nothing(tmp_path: Path) -> None:
    plan = plan_of(MODEL, "maze", asking=Asking(), **SMALL)
    every = list(plan.keys())
    kept = [json_text({"key": key, "value": None}) + "\n" for key in every[:4]]
    (tmp_path / "trials.jsonl").write_text("".join(kept))
    told = forecast(plan, out=tmp_path)
    assert (told.trials, told.kept, told.left) == (6, 4, 2)
    # Those that are left are walks through the second grid.
    task = plan.tasks.tasks[1]
    assert told.calls == Span(2 * task.distance, 2 * task.cap)
