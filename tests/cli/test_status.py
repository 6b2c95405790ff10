"""`goalmeter status` and `goalmeter runs`: tables and JSON, whatever the folders are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from goalmeter import cli
from goalmeter.commands.declare import Command
from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.commands.runs import status
from goalmeter.reflection import measure
from goalmeter.runs import Study, carry_out


def cells(outcome: Outcome, caption: str) -> dict[str, list[str]]:
    (table,) = (table for table in outcome.tables if table.caption.startswith(caption))
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.cells}


def small(folder: Path, keys: str = "ab") -> None:
    trials = {key: {"key": key} for key in keys}
    what = {"kind": "test", "agent": "nobody"}
    carry_out(Study("nobody", lambda key: key, trials, what=what), out=folder)


def test_a_finished_run_of_reflection(tmp_path: Path) -> None:
    measure("constant", steps=3, seeds=2, environments="IgnoreRewards", out=tmp_path / "run")
    (tmp_path / "run" / "status.json").unlink()  # as an earlier version left it
    outcome = status([tmp_path / "run"])
    rows = cells(outcome, "Run ")
    assert rows["state"] == ["finished"] and rows["done"] == ["4 of 4 (100%)"]
    assert rows["kind"] == ["reflection"] and rows["agent"] == ["constant"]
    assert outcome.text == f"{tmp_path / 'run'}: it is finished: 4 of 4 trials"
    (told,) = json.loads(json_text(outcome.json))["runs"]
    assert (told["done"], told["total"], told["state"]) == (4, 4, "finished")


def test_the_commands(run: Callable[..., Any], tmp_path: Path) -> None:
    small(tmp_path / "run")
    done = run("status", tmp_path / "run", "--json")
    assert done.status == 0 and json.loads(done.out)["runs"][0]["done"] == 2
    assert run("status", tmp_path / "run", "--watch").status == 0  # nobody fills it
    assert "1 run" not in run("runs", tmp_path).err
    nothing = run("status", tmp_path)
    assert nothing.status == 2 and nothing.out == ""
    assert nothing.err == f"goalmeter: {tmp_path} is not a run, and holds 1 of them, such as run\n"
    assert run("status", tmp_path, tmp_path / "run").status == 3
    assert run("runs", tmp_path / "none").status == 2


def test_watching_looks_until_nobody_fills_them(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter(["running", "running", "running", "finished"])
    texts = iter(["1 of 3", "1 of 3", "2 of 3", "3 of 3"])

    def look(*_: object) -> Outcome:
        return Outcome(tables=(), text=next(texts), json={"runs": [{"state": next(states)}]})

    monkeypatch.setattr("goalmeter.commands.runs.status", Command(status.record, look))
    monkeypatch.setattr(cli, "_EVERY", 0.0)
    done = run("status", tmp_path, "--watch")
    assert done.status == 0 and done.out.split("\n") == ["1 of 3", "2 of 3", "3 of 3", "", ""]
