"""Runs of local models from Python and from Inspect's command line, and their logs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("transformers")

from inspect_ai.log import read_eval_log, write_eval_log
from lm.tiny_models import Models

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.agents.local_models import LocalModel
from goalmeter.navigation.inspect.eval_log import trajectories, written
from goalmeter.navigation.inspect.run import ask
from goalmeter.navigation.prompts import Asking, understood

ONE: dict[str, Any] = {"sizes": [7], "complexities": [1], "grids": 1, "trajectories": 3, "cap": 4}


def test_gpt_oss_of_this_machine(models: Models, tmp_path: Path) -> None:
    walks = ask(
        f"goalmeter-local/{models / 'speaking-gpt-oss'}",
        "maze",
        tmp_path,
        asking=Asking(
            max_tokens=40,
            temperature=1.0,
            top_p=1.0,
            logprobs=True,
            reasoning_effort="low",
            options={"device": "cpu"},
        ),
        **(ONE | {"trajectories": 8}),
    )
    steps = [step for done in walks for step in done.steps]
    assert len(walks) == 8 and all(isinstance(step.prompt_tokens, tuple) for step in steps)
    # The text of an answer in channels has every token in it, so the ids spell it.
    spell = LocalModel(models / "speaking-gpt-oss", device="cpu").tokenizer.decode
    assert all(spell(step.answer_tokens) == step.raw for step in steps)
    thought = [step for step in steps if step.reasoning and step.action is not None]
    assert thought and all("<|channel|>analysis" in (s.raw or "") for s in thought)
    for step in steps:
        answer = understood(step.raw or "")
        assert (step.action, step.reasoning) == (answer.action, answer.reasoning or None)
        if step.action is not None:
            # The weights say so; the answer's last action decides.
            assert step.probabilities == pytest.approx((0.1, 0.4, 0.2, 0.3), abs=1e-3)


@pytest.mark.slow
def test_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "walks.jsonl"
    words = [
        "eval",
        "goalmeter/key-no-door",
        "--model",
        "goalmeter/key-seeker",
        "--log-dir",
        "logs",
    ]
    options = ["grids=2", "prompt=plain/1,keys/1", f"out={out}"]
    command = [sys.executable, "-m", "inspect_ai", *words, *(f"-T{option}" for option in options)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    walks = trajectories(tmp_path / "logs")
    assert sorted(map(repr, walks)) == sorted(map(repr, written(out)))
    assert sorted(t.condition["prompt"] for t in walks) == ["keys/1"] * 2 + ["plain/1"] * 2
    # It goes for the key, whose place it sees under either prompt.
    assert all(t.arrived and t.states()[-1].has_key for t in walks)


def a_log(folder: Path, model: str = "goalmeter/optimal") -> Path:
    assert len(ask(model, "maze", folder, **ONE)) == 3
    (path,) = folder.glob("inspect/*.eval")
    return path


def test_what_has_no_score_is_there_as_well(tmp_path: Path) -> None:
    path = a_log(tmp_path / "logs")
    log = read_eval_log(str(path))
    assert log.samples is not None
    log.samples[0].scores = None
    log.samples[1].scores = {}
    from inspect_ai.log import EvalError

    log.samples[1].error = EvalError(message="odd", traceback="", traceback_ansi="")
    write_eval_log(log, str(path))
    by = {t.trajectory: t for t in trajectories(path)}
    kept = [log.samples[n].metadata["walk"]["trajectory"] for n in range(3)]
    assert (by[kept[0]].outcome, by[kept[0]].steps) == ("interrupted", ())
    assert (by[kept[1]].outcome, by[kept[1]].steps) == ("error", ())
    assert by[kept[2]].arrived
    log.samples[2].scores["walked"].metadata["trajectory"]["cap"] = 0  # type: ignore[index]
    write_eval_log(log, str(path))
    with pytest.raises(InvalidTrajectoryError, match=r"sample .* cap is 0"):
        trajectories(path)
