"""`--dry-run`: what a command will cost, and nothing is begun."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SMALL = ("--sizes", "7", "--complexities", "1", "--grids", "2", "--trajectories", "2")


@pytest.mark.parametrize(
    "arguments",
    [
        ("navigate", "greedy", "--sizes", "7,9", "--grids", "4", "--trajectories", "3"),
        ("reflect", "naive", "--steps", "5", "--seeds", "3", "--environment", "DejaVu"),
    ],
)
def test_what_is_told_is_what_is_made(
    run: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    command = (*arguments, "--out", tmp_path / "run", "--json")
    (told,) = json.loads(run(*command, "--dry-run").out)["forecasts"]
    assert list(tmp_path.iterdir()) == []
    assert run(*command).status == 0
    kept = (tmp_path / "run" / "trials.jsonl").read_bytes()
    assert len(kept.splitlines()) == told["trials"] == told["left"]
    # All lines from nine of them at most.
    assert len(kept) / 1.5 < told["disk"]["most"] < 1.5 * len(kept)
    (after,) = json.loads(run(*command, "--dry-run").out)["forecasts"]
    assert (after["kept"], after["left"]) == (told["trials"], 0)


def test_all_commands_tell_the_same_fields(run: Callable[..., Any], tmp_path: Path) -> None:
    sweep = tmp_path / "sweep.toml"
    world = '[[worlds]]\ngenerator = "cliff_world"\ngoal_length = [1, 2]\n'
    policy = '[[policies]]\npolicy = "uniform"\n[[utilities]]\nutility = "reward"\n'
    sweep.write_text(world + policy, encoding="utf-8")
    commands = (
        ("navigate", "greedy", *SMALL),
        ("navigate", "vllm/somebody/model", *SMALL),
        ("reflect", "naive", "--steps", "5", "--seeds", "1", "--environment", "DejaVu"),
        ("meg", "sweep", sweep, "--on", "processes:4"),
    )
    fields = [
        tuple(json.loads(run(*command, "--dry-run", "--json").out)["forecasts"][0])
        for command in commands
    ]
    assert len(set(fields)) == 1
    assert list(tmp_path.iterdir()) == [sweep]
    text = run(*commands[3], "--dry-run").out
    # One chunk needs one process.
    assert "1 (processes:4)" in text and "utilities" in text and "a trial is a" in text
