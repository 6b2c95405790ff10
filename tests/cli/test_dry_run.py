"""`--dry-run`: what a command will cost, and nothing is begun."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SMALL = ("--sizes", "7", "--complexities", "1", "--grids", "2", "--trajectories", "2")


@pytest.mark.parametrize(
    ("arguments", "trials", "calls"),
    [
        (("navigate", "greedy", *SMALL), 4, False),
        (("navigate", "vllm/somebody/model", *SMALL), 4, True),
        (("reflect", "naive", "--steps", "5", "--seeds", "2", "--environment", "DejaVu"), 4, False),
    ],
)
def test_what_it_costs_is_told_and_no_folder_made(
    run: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...], trials: int, calls: bool
) -> None:
    done = run(*arguments, "--out", tmp_path / "run", "--dry-run", "--json")
    assert done.status == 0, done.err
    (told,) = json.loads(done.out)["forecasts"]
    assert (told["trials"], told["kept"], told["left"]) == (trials, 0, trials)
    # Disk is measured where trials can be run.
    assert (told["calls"] is not None) == calls == (told["disk"] is None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("navigate", "greedy", "--sizes", "7,9", "--grids", "4", "--trajectories", "3"),
        ("reflect", "naive", "--steps", "5", "--seeds", "3", "--environment", "DejaVu"),
        ("reflect", "naive", "--steps", "5", "--seeds", "3", "--on", "processes:2"),
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
        ("replicate", "organism-use", "--out", tmp_path / "none"),
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


def test_the_table_says_what_the_numbers_rest_on(run: Callable[..., Any]) -> None:
    done = run("navigate", "vllm/somebody/model", *SMALL, "--dry-run", "--call-seconds", "3")
    text = " ".join(done.out.split())
    assert "a call takes 3 s, and 10 are made at once" in text and "characters / 3" in text
    done = run(
        "reflect", "naive", "--steps", "5", "--seeds", "1", "--against", "random", "--dry-run"
    )
    assert done.status == 0 and "naive: a trial takes" in done.out and "random: " in done.out


def test_of_a_table_each_run_is_told(run: Callable[..., Any], tmp_path: Path) -> None:
    options = ("--steps", "500", "--agents", "random,naive", "--seeds", "2", "--dry-run", "--json")
    done = run("replicate", "reflection-table-1", "--out", tmp_path / "out", *options)
    assert done.status == 0, done.err
    told = json.loads(done.out)["forecasts"]
    assert [(each["name"], each["trials"]) for each in told] == [
        ("random, 500 steps", 100),
        ("naive, 500 steps", 100),
    ]
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_run_is_refused(run: Callable[..., Any]) -> None:
    for arguments, message in (
        (("navigate", "--dry-run"), "AGENT is missing"),
        (("navigate", "nobody", "--dry-run"), "no agent 'nobody'"),
        (("navigate", "greedy", "--sizes", "4", "--dry-run"), "expected an odd number"),
        (("reflect", "nobody", "--dry-run"), "no agent 'nobody'"),
        (("replicate", "calibration", "--agents", "nobody", "--dry-run"), "nobody"),
        (("replicate", "reflection-table-1", "--steps", "7", "--dry-run"), "steps is 7"),
    ):
        done = run(*arguments)
        assert done.status == 2 and done.out == "" and message in done.err, done.err


def test_prices_make_it_money(run: Callable[..., Any]) -> None:
    prices = ("--price-in", "1", "--price-out", "2", "--answer-tokens", "10")
    done = run("navigate", "vllm/somebody/model", *SMALL, *prices, "--dry-run", "--json")
    (told,) = json.loads(done.out)["forecasts"]
    for end in ("least", "most"):
        expected = (told["prompt_tokens"][end] + 2 * told["output_tokens"][end]) / 1e6
        assert told["usd"][end] == pytest.approx(expected)
