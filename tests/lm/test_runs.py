"""Runs of local models from Python and from Inspect's command line, and their logs."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("transformers")

from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.log._recorders.file import FileRecorder
from lm.tiny_models import Models

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    InvalidTrajectoryError,
)
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


def test_the_same_seed_is_the_same_run(models: Models, tmp_path: Path) -> None:
    def run(name: str, **options: Any) -> list[Any]:
        walks = ask(
            f"goalmeter-local/{models / 'speaking-llama'}",
            "maze",
            tmp_path / name,
            asking=Asking(max_tokens=12, options={"device": "cpu"}),
            **(ONE | options),
        )
        walks.sort(key=lambda t: t.trajectory)
        return [[step.action for step in done.steps] for done in walks]

    first = run("a")
    assert run("b") == first and len(first) == 3
    # More walks, and so other batches, leave the first ones as they are.
    assert run("c", trajectories=6)[:3] == first and run("d", seed=1) != first


def test_a_model_is_loaded_once(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a folder of its own, since Inspect remembers models by their names.
    folder = shutil.copytree(models / "speaking-llama", tmp_path / "model")
    loaded: list[str] = []

    class Counted(LocalModel):
        def __init__(self, path: Any, **options: Any) -> None:
            loaded.append(str(path))
            super().__init__(path, **options)

    monkeypatch.setattr("goalmeter.agents.inspect_providers.LocalModel", Counted)
    asking = Asking(max_tokens=12, options={"device": "cpu"})
    ask(f"goalmeter-local/{folder}", "maze", tmp_path / "run", asking=asking, **ONE)
    assert loaded == [str(folder)]


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


def test_what_was_interrupted_later_does_not_replace_what_ended(tmp_path: Path) -> None:
    path = a_log(tmp_path / "logs")
    ended = trajectories(path)
    log = read_eval_log(str(path))
    assert log.samples is not None
    for sample in log.samples:
        sample.scores = None
    log.eval.created = "2100-01-01T00:00:00+00:00"
    later = path.with_name("2100-01-01T00-00-00-00-00_maze_x.eval")
    write_eval_log(log, str(later))
    assert {t.outcome for t in trajectories(later)} == {"interrupted"}
    assert trajectories(tmp_path / "logs") == ended


def test_several_logs(tmp_path: Path) -> None:
    each = a_log(tmp_path / "one")
    again = trajectories([each, each.parent])
    assert again == trajectories(each) and len(again) == 3
    a_log(tmp_path / "two", "goalmeter/greedy")
    with pytest.raises(InvalidParameterError, match="goalmeter/greedy, goalmeter/optimal"):
        trajectories([tmp_path / "one", tmp_path / "two"])


def test_what_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="does not exist"):
        trajectories(tmp_path / "none")
    with pytest.raises(InvalidFileError, match=r"holds no \.eval"):
        trajectories(tmp_path)
    path = tmp_path / "a.eval"
    path.write_text("no zip")
    with pytest.raises(InvalidFileError, match="not a valid archive"):
        trajectories(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("other.json", json.dumps({}))
    with pytest.raises(InvalidFileError, match="no log of Inspect"):
        trajectories(path)


def test_the_log_is_small_enough(tmp_path: Path) -> None:
    # Each walk is in it once as a record, and once as what was said.
    path = a_log(tmp_path / "logs")
    assert path.stat().st_size < 60_000


def test_a_folder_that_takes_no_logs_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as read_only:
        read_only.setattr(FileRecorder, "is_writeable", lambda self: False)
        with pytest.raises(GoalmeterError, match=r"cannot be asked: .*; the folder .*inspect has"):
            ask("goalmeter/greedy", "maze", tmp_path / "run", **ONE)
    assert len(ask("goalmeter/greedy", "maze", tmp_path / "run", **ONE)) == 3
