"""What all commands share, and those that have no file of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import goalmeter as gm
from goalmeter.commands.outcome import Outcome

Run = Callable[..., Any]


def test_version_and_help(run: Run) -> None:
    assert run("--version") == (0, f"goalmeter {gm.__version__}\n", "")
    for command in (
        "",
        "meg",
        "meg mdp",
        "meg causal",
        "meg simulator",
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
        (["measure", "greedy"], "The measures are meg, reflect, navigate and probe"),
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


def test_the_demo_ends_with_the_path_of_its_report(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the demo measures, and its summary, are tested in tests/studies/test_demo.py."""
    seeds = []

    def demo(out: Path, *, seed: int, on: str, progress: Callable[[str], None]) -> Outcome:
        seeds.append(seed)
        progress("walking")
        report = (out / "report.html").resolve()
        return Outcome(tables=(), json={"report": str(report)}, report=report, text="- summary")

    monkeypatch.setattr("goalmeter.demo.run.demo", demo)
    report = str((tmp_path / "new" / "report.html").resolve())
    done = run("demo", "--out", tmp_path / "new")
    assert done == (0, f"- summary\n\n{report}\n", "walking\n")
    done = run("demo", "--out", tmp_path / "new", "--json", "--seed", "3")
    assert json.loads(done.out) == {"report": report} and seeds == [0, 3]


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
