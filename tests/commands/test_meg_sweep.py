"""`goalmeter meg sweep` without the command line: files out, and one clear error for bad input."""

from __future__ import annotations

import csv
import json
from math import isinf
from pathlib import Path

import pytest

import goalmeter as gm
from goalmeter._errors import GoalmeterError, IncompleteRunError
from goalmeter.commands.meg_sweep import sweep_worlds
from goalmeter.commands.outcome import json_text
from goalmeter.commands.runs import how_to_continue, report_runs

SWEEP = """
[[worlds]]
generator = "cliff_world"
goal_length = [1, 2]
horizon = [5, 8]

[[policies]]
policy = "epsilon_greedy"
epsilon = [0, 0.1]

[[policies]]
policy = "mine.py:habit"
share = 0.7

[[utilities]]
utility = "reward"
"""
MINE = """
import numpy as np
import goalmeter as gm


def habit(mdp, share):
    rest = (1 - share) / (mdp.n_actions - 1)
    return np.tile([share] + [rest] * (mdp.n_actions - 1), (mdp.n_states, 1))


def world(n):
    return gm.cliff_world(n, horizon=3)


def broken(n):
    raise KeyError(n)


def several(n):
    yield gm.cliff_world(n)


def drawn():
    reward = np.random.default_rng().normal(size=2)
    return gm.TabularMDP([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], reward, horizon=2)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE, encoding="utf-8")
    Path("sweep.toml").write_text(SWEEP, encoding="utf-8")
    return tmp_path


def test_tables_hold_every_row_with_all_digits() -> None:
    outcome = sweep_worlds("sweep.toml", csv="rows.csv", parquet="rows.parquet", on="here")
    with Path("rows.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12 == outcome.json["counts"]["rows"]
    assert [row["world.goal_length"] for row in rows[::6]] == ["1", "2"]
    for row, record in zip(rows, outcome.json["rows"], strict=True):
        world = gm.cliff_world(int(row["world.goal_length"]), horizon=int(row["horizon"]))
        if row["policy.epsilon"]:
            behaviour = gm.epsilon_greedy(gm.optimal_policy(world), float(row["policy.epsilon"]))
            single = gm.meg.known_utility(world, behaviour)
            assert float(row["value"]) == pytest.approx(single.value, abs=1e-9)
            assert isinf(single.rationality) == (row["rationality"] == "inf")
        assert float(row["value"]) == record["value"] and row["status"] == "certified"
        assert row["policy.share"] == ("" if row["policy.epsilon"] else "0.7")
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.read_parquet("rows.parquet")
    assert list(frame.columns) == list(rows[0])
    assert frame["value"].tolist() == [float(row["value"]) for row in rows]
    json.loads(json_text(outcome.json))


def test_a_page_has_means_curves_and_failures() -> None:
    pytest.importorskip("matplotlib")
    more = SWEEP + '[[worlds]]\ngenerator = "cliff_world"\ngoal_length = 7\n'
    Path("sweep.toml").write_text(more, encoding="utf-8")
    sweep_worlds("sweep.toml", on="here", out="run")
    outcome = report_runs(["run"], "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert "MEG over many worlds" in page and "Of 15 rows, 3 failed and 0 are not certified" in page
    assert "MEG of epsilon_greedy policies over epsilon" in page
    assert "goal_length is 7, expected a whole number from 1 to 4" in page
    assert outcome.json["runs"][0]["counts"]["failed"] == 3


# --- Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worlds", "options", "message"),
    [
        ("sweep", {}, "'sweep' is no sweep, expected a file that ends in .toml, a folder"),
        ("mine.py:world", {"policies": ["uniform"]}, "world: missing a required argument: 'n'"),
        (
            "mine.py:broken",
            {"arguments": {"n": 4}},
            r"broken\(n=4\): mine.py:broken raises KeyError",
        ),
        ("mine.py:several", {"arguments": {"n": 1}}, "of type generator, expected one TabularMDP"),
        ("mine.py:drawn", {}, "gives another world when it is called again"),
        ("sweep.toml", {"arguments": {"n": 1}}, "expected FILE.py:NAME, which alone takes some"),
        ("sweep.toml", {"csv": "./sweep.toml"}, "is an input of the sweep"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_error(
    worlds: str, options: dict[str, object], message: str
) -> None:
    if worlds != "sweep.toml" and "asked" not in message and "policies" not in options:
        options = {**options, "policies": ["uniform"]}
    with pytest.raises(GoalmeterError, match=message.replace("?", r"\?").replace("{", r"\{")):
        sweep_worlds(worlds, **options)  # type: ignore[arg-type]


def test_a_sweep_that_is_not_finished_says_how_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    run = tmp_path / "run"
    sweep_worlds(tmp_path / "sweep.toml", out=run)
    (run / "trials.jsonl").write_text("")
    with pytest.raises(IncompleteRunError) as refused:
        report_runs([run], tmp_path / "page.html")
    assert how_to_continue(refused.value).endswith(
        f"make them with: the command that began it, with --out {run}"
    )
