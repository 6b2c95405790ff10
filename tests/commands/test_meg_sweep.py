"""`goalmeter meg sweep` without the command line: files out, and one clear error for bad input."""

from __future__ import annotations

import csv
import json
from math import isinf
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import goalmeter as gm
from goalmeter._errors import (
    GoalmeterError,
    IncompleteRunError,
    InvalidFileError,
    MissingExtraError,
)
from goalmeter.commands.meg import sweep_worlds
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


def test_parquet_without_pyarrow_is_one_sentence_before_anything_runs() -> None:
    missing = ModuleNotFoundError("no", name="pyarrow")
    with (
        mock.patch("goalmeter.meg.sweeps.table.import_module", side_effect=missing),
        pytest.raises(
            MissingExtraError, match=r"'pyarrow', which is not installed.*or write a CSV"
        ),
    ):
        sweep_worlds("sweep.toml", parquet="rows.parquet", out="run")
    assert not Path("run").exists()


def test_a_dry_run_says_how_much_there_is_and_makes_nothing() -> None:
    before = sorted(Path().rglob("*"))
    options: dict[str, Any] = {"dry_run": True, "out": "run", "csv": "rows.csv"}
    (told,) = sweep_worlds("sweep.toml", **options).json["forecasts"]
    assert told["counted"] == {"worlds": 4, "policies": 3, "utilities": 1, "rows": 12}
    assert (told["trials"], told["kept"], told["left"], told["noun"]) == (1, 0, 1, "chunk")
    assert told["slots"] == 1 and told["place"] == "here" and told["hours"]["most"] > 0
    assert sorted(Path().rglob("*")) == before
    sweep = sweep_worlds("sweep.toml", on="here", out="run")
    assert len(sweep.json["rows"]) == told["counted"]["rows"]
    assert len(Path("run/trials.jsonl").read_text("utf-8").splitlines()) == told["trials"]
    disk = sum(path.stat().st_size for path in Path("run").iterdir())
    assert disk / 2.5 < told["disk"]["most"] < 2.5 * disk
    (after,) = sweep_worlds("sweep.toml", **options).json["forecasts"]
    assert (after["kept"], after["left"], after["disk"]["most"]) == (1, 0, 0)
    assert after["hours"]["most"] == 0


def test_a_folder_and_a_function_need_no_toml() -> None:
    Path("mdps").mkdir()
    gm.cliff_world(1, horizon=3).to_npz("mdps/a.npz")
    by_folder = sweep_worlds("mdps", policies=["epsilon_greedy(0,0.1)"], on="here").json["rows"]
    by_function = sweep_worlds(
        "mine.py:world", arguments=["n=[1]"], policies=["epsilon_greedy(0,0.1)"], on="here"
    ).json["rows"]
    assert [row["value"] for row in by_folder] == [row["value"] for row in by_function]
    assert by_folder[0]["world_digest"] == by_function[0]["world_digest"]


def test_nothing_measured_is_incomplete() -> None:
    Path("mdps").mkdir()
    Path("mdps/a.npz").write_bytes(b"no archive")
    outcome = sweep_worlds("mdps", policies=["uniform"], on="here")
    assert outcome.incomplete.startswith("the only row failed, so nothing was measured")
    assert "mdps/a.npz" in outcome.incomplete


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
    ("old", "new", "message"),
    [
        ("[[worlds]]", "[[world]]", "sweep.toml: there is no key 'world'; did you mean 'worlds'?"),
        ("goal_length", "goal_lenght", r"\[\[worlds\]\] 1: cliff_world has no argument 'goal_leng"),
        ("goal_length", "goal_lenght", "did you mean 'goal_length'? expected goal_length, horizon"),
        ("cliff_world", "clif_world", "no generator 'clif_world'; did you mean 'cliff_world'?"),
        ("generator =", "generater =", "no key 'generater'; did you mean 'generator'?"),
        ('policy = "e', 'polcy = "e', r"\[\[policies\]\] 1: there is no key 'polcy'"),
        ("epsilon =", "epsilons =", "no argument 'epsilons'; did you mean 'epsilon'?"),
        ("[0, 0.1]", "[0, 2]", "epsilon of epsilon_greedy is 2, expected a probability"),
        ("[0, 0.1]", "[0, 0]", "epsilon has 0 twice"),
        ("[0, 0.1]", "[]", "epsilon is an empty list"),
        ("[0, 0.1]", "{ from = 1 }", "expected a value, a list of values, or a range"),
        ("epsilon_greedy", "greedy", "there is no policy 'greedy'"),
        ("mine.py:habit", "mine.py:habbit", "did you mean mine.py:habit?"),
        ("share =", "shares =", "mine.py:habit has no argument 'shares'; did you mean 'share'?"),
        ("share = 0.7", "", "mine.py:habit needs the argument 'share'"),
        ('utility = "reward"', 'utility = "no.npz"', "there is no file no.npz"),
        ('utility = "reward"', 'unknown = "states"', "did you mean 'state'?"),
        ("[1, 2]", "[1, 2", "sweep.toml is no TOML"),
        ("[1, 2]", "[1, 2" + 5000 * "0" + "]", "sweep.toml is no TOML"),
        ("[0, 0.1]", "1" + 400 * "0", r"epsilon_greedy is 10+\.\.\.0+, expected"),
    ],
)
def test_a_slip_in_the_file_is_named(old: str, new: str, message: str) -> None:
    assert old in SWEEP
    Path("sweep.toml").write_text(SWEEP.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(GoalmeterError, match=message.replace("?", r"\?")) as raised:
        sweep_worlds("sweep.toml", dry_run=True)
    assert "sweep.toml" in str(raised.value)


@pytest.mark.parametrize(
    ("worlds", "options", "message"),
    [
        ("sweep", {}, "'sweep' is no sweep, expected a file that ends in .toml, a folder"),
        ("no.toml", {}, "there is no file no.toml"),
        ("mine.py:world", {"arguments": ["n=[1]"]}, "no policy is asked for"),
        ("mine.py:world", {"policies": ["uniform"]}, "mine.py:world needs the argument 'n'"),
        ("mine.py:wrld", {"policies": ["uniform"]}, "did you mean mine.py:world?"),
        (
            "mine.py:broken",
            {"arguments": ["n=4"]},
            r"broken\(n=4\): mine.py:broken raises KeyError",
        ),
        ("mine.py:several", {"arguments": ["n=1"]}, "of type generator, expected one TabularMDP"),
        ("mine.py:drawn", {}, "gives another world when it is called again"),
        ("mine.py:world", {"arguments": ["1"]}, "--argument is '1', expected NAME=VALUE"),
        ("sweep.toml", {"arguments": ["n=1"]}, "expected FILE.py:NAME, which alone takes some"),
        ("sweep.toml", {"on": "here", "workers": 2}, "--on and --workers both say where"),
        ("sweep.toml", {"on": "elsewhere"}, "no place 'elsewhere'"),
        ("sweep.toml", {"csv": ".", "on": "here"}, "is a folder, expected a file"),
        ("sweep.toml", {"csv": "./sweep.toml"}, "is an input of the sweep"),
        ("sweep.toml", {"parquet": "mine.py"}, "mine.py is an input of the sweep"),
        ("mine.py:world", {"arguments": ["n=1" + 5000 * "0"]}, "n=10"),
        ("mine.py:world", {"arguments": ["n=1"], "policies": ["p-{m}.npz"]}, "has {m}, which"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_error(
    worlds: str, options: dict[str, object], message: str
) -> None:
    if worlds != "sweep.toml" and "asked" not in message and "policies" not in options:
        options = {**options, "policies": ["uniform"]}
    with pytest.raises(GoalmeterError, match=message.replace("?", r"\?").replace("{", r"\{")):
        sweep_worlds(worlds, **options)  # type: ignore[arg-type]


def test_a_device_is_no_world() -> None:
    toml = SWEEP.replace('generator = "cliff_world"', 'files = "/dev/zero"', 1)
    toml = toml.replace("goal_length = [1, 2]\nhorizon = [5, 8]\n", "", 1)
    Path("sweep.toml").write_text(toml, encoding="utf-8")
    outcome = sweep_worlds("sweep.toml", on="here")
    assert "/dev/zero is a device, expected a file" in outcome.incomplete


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("run.json", '"epsilon": 0.1', '"epsilon": null'),
        ("run.json", '"epsilon": 0.1', '"epsilon": "much"'),
        ("run.json", '"epsilon": 0.1', '"epsilon": 1' + 400 * "0"),
        ("trials.jsonl", '"worlds": [[', '"worlds": [[Infinity, '),
        ("run.json", '"rows of chunks": [', '"rows of chunks": [[1, 1000000000000], '),
        ("run.json", '"rows of chunks": [', '"rows of chunks": [[Infinity, 1], '),
    ],
)
def test_a_run_that_was_edited_is_one_clear_error(file: str, old: str, new: str) -> None:
    sweep_worlds("sweep.toml", on="here", out="run")
    path = Path("run", file)
    # JSON is written with an indentation, and lists take several lines.
    value = json.dumps(json.loads(path.read_text())) if file == "run.json" else path.read_text()
    assert old in value
    path.write_text(value.replace(old, new, 1))
    with pytest.raises(InvalidFileError, match=r"run/run\.json is of no sweep|trials\.jsonl"):
        report_runs(["run"], "page.html")


def test_an_empty_folder_is_an_error() -> None:
    Path("mdps").mkdir()
    with pytest.raises(InvalidFileError, match=r"the folder mdps holds no .npz file"):
        sweep_worlds("mdps", policies=["uniform"])


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
