"""What all commands share, and those that have no file of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from card.example_cards import card, write

import goalmeter as gm
from goalmeter.card.evaluate import CardPlan
from goalmeter.card.records import Card

Run = Callable[..., Any]


def test_version_and_help(run: Run) -> None:
    assert run("--version") == (0, f"goalmeter {gm.__version__}\n", "")
    for command in (
        "",
        "meg",
        "meg mdp",
        "meg causal",
        "meg simulator",
        "measure",
        "compare",
        "card",
        "cite",
        "demo",
        "reflect",
        "report",
        "replicate",
    ):
        done = run(*command.split(), "--help")
        assert done.status == 0 and "Usage" in done.out and done.err == ""
    names = ("meg", "demo", "reflect", "report", "replicate")
    assert all(name in run("--help").out for name in names)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["assess", "greedy"], "The measures are meg, reflect, navigate and probe"),
        (["navgate"], "Did you mean 'navigate'?"),
        (["meg", "mdq"], "Did you mean 'mdp'?"),
        (["./folder"], "A command comes first, such as goalmeter report or navigate ./folder."),
        (["navigate", "./folder"], "'./folder' is a path, expected an agent name: goalm"),
        (["navigate", "rooms:Rooms"], "expected a file that ends in .py, as in rooms.py:Rooms"),
        (["reflect", "naive", "--environment", "rooms:Rooms"], "as in rooms.py:Rooms"),
        (["meg", "sweep", "rooms:Rooms", "--policy", "optimal"], "as in rooms.py:Rooms"),
    ],
)
def test_what_was_meant_is_suggested(run: Run, arguments: list[str], hint: str) -> None:
    done = run(*arguments)
    assert done.status == 2 and done.out == "" and hint in done.err


def test_the_demo_ends_with_the_path_of_the_comparison(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What a card measures is tested in tests/card."""
    seeds = []

    def carry_out(plan: CardPlan) -> Card:
        seeds.append(plan.settings.seed)
        made = card(plan.subject.name, headline=f"{plan.subject.name} pursues the goal")
        write(plan.settings.out, made)
        return made

    monkeypatch.setattr("goalmeter.commands.demo.carry_out_plan", carry_out)
    done = run("demo", "--out", tmp_path / "new", "--seed", "3", "--on", "here")
    report = (tmp_path / "new" / "report.html").resolve()
    assert done.status == 0 and report.is_file() and seeds == [3] * 4
    lines = done.out.splitlines()
    mole = tmp_path / "new" / "mole" / "card.html"
    assert lines[0] == f"- goalmeter/mole pursues the goal: {mole}" and lines[-1] == str(report)


@pytest.mark.slow
def test_an_organism_is_trained_from_a_shell(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    few = ("--steps", 3, "--rate", 0.01, "--from", "nothing", "--sizes", "5", "--no-keys")
    command = ("train-organism", "moth", *few, "--workers", 1, "--out", tmp_path / "moth")
    done = run(*command, "--json")
    assert done.status == 0
    result = json.loads(done.out)
    assert result["organism"] == "moth" and result["weights"] == str((tmp_path / "moth").resolve())
    kept = json.loads((tmp_path / "moth" / "training.json").read_text())
    assert kept["rounds"] == result["rounds"] == [[3, 0.01]] and kept["sizes"] == [5]
    assert (tmp_path / "moth" / "model.safetensors").exists()
    again = run(*command)
    assert again.status == 0 and "goalmeter replicate organisms --agents moth=" in again.out
    reseeded = run(*command, "--seed", 1)
    assert reseeded.status == 2 and "contains another training" in reseeded.err
