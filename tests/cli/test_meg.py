"""`goalmeter meg` in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import goalmeter as gm

Run = Callable[..., Any]


def test_json_is_one_object_and_nothing_else(run: Run, files: Path) -> None:
    done = run("meg", "mdp", files / "m.npz", "--policy", files / "p.npz", "--json")
    assert done.status == 0
    result = json.loads(done.out)
    assert done.out.count("\n") == 1
    # log 2 - H(0.8) at rationality log 2 (the paper's Example 1).
    assert result["meg"] == pytest.approx(np.log(2) - 0.5004024, abs=1e-6)
    assert result["rationality"] == pytest.approx(np.log(2))
    assert result["maximum"] == pytest.approx(np.log(2))
    assert result["fraction"] == pytest.approx(result["meg"] / result["maximum"])
    assert result["upper_bound"] >= result["meg"] and isinstance(result["method"], str)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.npz", "--policy", "p.npz"], "none.npz: there is no such file"),
        (["m.npz", "--policy", "m.npz"], "m.npz: the array 'policy' is missing"),
        (["p.npz", "--policy", "p.npz"], "p.npz: the array 'reward' is missing"),
    ],
)
@pytest.mark.parametrize("json_too", [False, True])
def test_bad_input_is_one_line_on_standard_error(
    run: Run,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
    json_too: bool,
) -> None:
    monkeypatch.chdir(files)
    done = run("meg", "mdp", *arguments, *(["--json"] if json_too else []))
    assert done.status == 2
    assert done.out == "" and "Traceback" not in done.err
    errors = [line for line in done.err.splitlines() if line.startswith("goalmeter: ")]
    assert len(errors) == 1 and message in errors[0]


# --- meg causal -----------------------------------------------------------------------------------
HOSTILE = "\x1b[31m[red]<b>"


def test_names_of_a_file_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    network = gm.CausalBayesianNetwork(
        {"D": ["a", HOSTILE], HOSTILE: ["a", "b"]},
        {HOSTILE: ["D"]},
        {"D": [0.9, 0.1], HOSTILE: [[1, 0], [0, 1]]},
        name=HOSTILE,
    )
    network.to_bif(tmp_path / "m.bif")
    for goal in (["--target", HOSTILE], ["--sensitivity", "1"], ["--target", "no"]):
        done = run("meg", "causal", tmp_path / "m.bif", "--decision", "D", *goal)
        assert "\x1b" not in done.out + done.err
        assert "\\x1b[31m[red]<b>" in done.out + done.err
