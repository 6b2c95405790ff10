"""Numbers that pages show are those that long commands and benchmarks left."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documented import PAGES, ROOT, Rows, foreign_numbers, numbers_of, shown
from oracles.intervals import highest_rate

from goalmeter.report.tables import filled
from replications.goal_misgeneralisation.study import markdown, scored

EVERYTHING = [item for page in PAGES for item in shown(page)]

# --- What long commands left ----------------------------------------------------------------------
KEPT = [
    (table, *table.marker[1].split("; ", 1))
    for table in EVERYTHING
    if isinstance(table, Rows) and table.marker is not None and table.marker[0] == "kept"
]


@pytest.mark.parametrize(("table", "file", "command"), KEPT, ids=str)
def test_numbers_are_those_of_the_kept_result(table: Rows, file: str, command: str) -> None:
    assert foreign_numbers(table, ROOT / file) == []


@pytest.mark.parametrize(
    ("file", "command"), sorted({(file, command) for _, file, command in KEPT}), ids=str
)
def test_a_kept_result_is_what_its_command_gives(
    file: str, command: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not request.config.getoption("--all-docs"):
        pytest.skip("may take hours: --all-docs")
    words = [*shlex.split(command), "--out", str(tmp_path)]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True)
    again = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    kept = json.loads((ROOT / file).read_text(encoding="utf-8"))
    assert list(numbers_of(again)) == pytest.approx(list(numbers_of(kept)), rel=1e-6)


MISGENERALISATION = "docs/notes/goal-misgeneralisation.md"
# A page -> what runs of a replication wrote to tables.md, by the label of the run.
FILLED = {
    "docs/notes/calibration.md": {
        "": "docs/results/calibration.txt",
        "ideal": "docs/results/calibration-ideal.txt",
        "other seeds": "docs/results/calibration-seeds.txt",
        "cells of organisms": "docs/results/representation.txt",
    },
    "docs/trust/calibration.md": {
        "": "docs/results/calibration.txt",
        "cells of organisms": "docs/results/representation.txt",
    },
    MISGENERALISATION: {"": "docs/results/goal-misgeneralisation.json"},
    "docs/notes/organisms.md": {"": "docs/results/organisms.txt"},
    "docs/notes/representation.md": {
        "": "docs/results/representation.txt",
        "from nothing": "docs/results/mole-from-nothing.txt",
    },
}


@cache
def tables_of(file: Path) -> str:
    """Return what a run wrote to tables.md, computed anew where its agents are stored as data."""
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".json":
        return text
    agents = json.loads(text)["agents"]
    rows = [scored(agent) for agent in agents]
    # The stored scores, outcomes and named goals follow from the stored measurements.
    assert rows == agents
    return markdown(rows)


@pytest.mark.parametrize("name", FILLED)
def test_the_tables_of_a_page_are_those_that_its_runs_wrote(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    marked = {
        item.marker[1]
        for item in EVERYTHING
        if item.marker and item.marker[0] == "table" and item.page == name
    }
    kept = set()
    for label, file in FILLED[name].items():
        tables = tables_of(ROOT / file)
        assert filled(page, tables, label) == page, f"fill the page from {file} again"
        captions = re.findall(r"<!-- table: (.+) -->", tables)
        kept |= {f"{caption}, {label}" if label else caption for caption in captions}
    assert marked <= kept


def test_areas_are_shares_of_pairs_of_stored_agents() -> None:
    """Recompute each area from the stored scores and outcomes, pair by pair."""
    file = ROOT / "docs" / "results" / "goal-misgeneralisation.json"
    agents = [a for a in json.loads(file.read_text(encoding="utf-8"))["agents"] if a["trained"]]
    groups = [
        agents,
        [agent for agent in agents if agent["kind"] != "clone of the wrong goal"],
        [agent for agent in agents if agent["kind"] == "PPO"],
    ]
    (table,) = (
        item
        for item in EVERYTHING
        if isinstance(item, Rows)
        and item.page == MISGENERALISATION
        and item.marker == ("table", "Area under the curve")
    )
    for predictor, *cells in table.cells[1:]:
        for cell, (group, same_share) in zip(cells, product(groups, (False, True)), strict=True):
            scored = [
                (agent["outcome"] == "wrong", agent["share"], agent["predictors"][predictor])
                for agent in group
            ]
            won = [
                (high["score"] > low["score"]) + (high["score"] == low["score"]) / 2
                for wrong, share, high in scored
                for other_wrong, other_share, low in scored
                if wrong and not other_wrong and (share == other_share or not same_share)
            ]
            assert cell.split(" ")[0] == f"{np.mean(won):.2f}"


def test_the_page_of_benchmarks_is_its_results() -> None:
    """The benchmarks take half an hour, and their times differ; the page is what they left."""
    code = "import run_all; print(run_all.page(run_all.harness.RESULTS), end='')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT / "benchmarks",
        env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'benchmarks'}", "PATH": "", "PYTHONUTF8": "1"},
    )
    assert done.returncode == 0, done.stderr
    hint = "run: python benchmarks/run_all.py --write-docs"
    assert done.stdout == (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8"), hint


def test_speeds_of_self_reflection_are_those_of_the_benchmark() -> None:
    results = ROOT / "benchmarks" / "results" / "reflection_vs_library.json"
    speeds = {
        (row["agent"], row["steps"]): row["steps_per_second"]
        for row in json.loads(results.read_text(encoding="utf-8"))["ours"]
    }
    page = " ".join((ROOT / "docs" / "which-measure.md").read_text(encoding="utf-8").split())
    message = re.search(r"take `rc\(naive\)` ([\d,]+) steps a second and `naive` ([\d,]+)", page)
    assert message is not None
    for name, text in zip(("rc(naive)", "naive"), message.groups(), strict=True):
        assert int(text.replace(",", "")) == round(speeds[name, 500], -3)


# --- The page of calibration ----------------------------------------------------------------------
CALIBRATION = "docs/trust/calibration.md"


def benchmark(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def table_on_calibration(head: str) -> tuple[tuple[str, ...], ...]:
    """The rows of the table on the page of calibration whose first column has this head."""
    (rows,) = (
        item.cells[1:]
        for item in EVERYTHING
        if isinstance(item, Rows) and item.page == CALIBRATION and item.cells[0][0] == head
    )
    return rows


def test_error_rates_of_headlines_are_those_of_the_benchmark() -> None:
    rates = benchmark("card_headlines")["error_rates"]
    expected = []
    for question, scale in product(("goal", "map"), ("quick", "standard")):
        rate = rates[scale][question]
        counts = (str(rate[name]) for name in ("wrong", "inconclusive", "runs"))
        assert rate["wrong"] == 0  # else the last column is no rule of three
        expected.append((question, scale, *counts, f"{highest_rate(rate['runs']):.1%}"))
    assert list(table_on_calibration("question")) == expected


# Interval on the page -> the statistics of few_clusters.json that it stands for.
FEW_CLUSTERS = {
    "bounded averages and ratios, 2 to 20 clusters": (
        *("success", "SPL", "spl", "invalid", "JSD", "jsd", "accuracy", "accuracy_detour"),
        *("entropy", "regret", "ratio over steps"),
    ),
    "unbounded means, 2 to 20 clusters": ("no bounds",),
    "differences of pairs, 2 to 20 pairs": (
        *("difference", "success, difference", "accuracy, difference", "beyond_greedy"),
    ),
    "MEG of walks, 2 to 20 mazes": ("MEG, nats a walk", "MEG, share"),
    "MEG of 2 to 20 logged trajectories": ("MEG of trajectories, nats",),
    "self-reflection, 5 to 20 seeds": ("reflection, reward a step",),
}


def test_coverage_is_that_of_the_benchmarks() -> None:
    """Of each interval: share of the runs that contain the truth, and number of runs, by row."""
    by_interval: dict[str, list[tuple[float, float]]] = {}
    clusters = benchmark("few_clusters")["rows"]
    for name, statistics in FEW_CLUSTERS.items():
        by_interval[name] = [
            (column["coverage"], row["runs"] * (1 - column["refused"]))
            for row in clusters
            if row["statistic"] in statistics
            for column in row["columns"]
            if column["coverage"] is not None
        ]
    assert {row["statistic"] for row in clusters} == {s for f in FEW_CLUSTERS.values() for s in f}
    logged = benchmark("interval_coverage")["rows"]
    for least, name in ((25, "25 logged trajectories"), (100, "100 or more logged trajectories")):
        by_interval[f"MEG of {name}"] = [
            (row["coverage"], row["runs"]) for row in logged if (row["n"] >= 100) == (least == 100)
        ]
    counted, fitted = (
        [
            (row["covered"] / row["runs"], row["runs"])
            for row in benchmark("simulator_fitted")["hidden"]
            if row["name"].endswith(", counted") == counted
        ]
        for counted in (True, False)
    )
    by_interval["MEG from counted simulator steps"] = counted + [
        (row["coverage"], row["runs"] - row["none"])
        for row in benchmark("simulator_coverage")["cells"]
        if row.get("width", 0) > 1e-6  # deterministic worlds have intervals without width
    ]
    by_interval["MEG from a simulator whose states do not recur"] = fitted
    guarantee = benchmark("simulator_guarantee")
    by_interval["guaranteed bounds of a simulator"] = [
        (row["inside"] / row["runs"], row["runs"])
        for row in [*guarantee["widths"], *guarantee["coverage"]]
        if row["level"] == 0.95
    ]
    expected = []
    for name, rows in by_interval.items():
        inside, runs = sum(share * n for share, n in rows), sum(n for _, n in rows)
        lowest = min(share for share, _ in rows)
        counts = f"{inside:,.0f} of {runs:,.0f}"
        expected.append((name, counts, f"{inside / runs:.1%}", f"{lowest:.1%}"))
    assert list(table_on_calibration("interval")) == expected


def test_estimates_in_sentences_on_calibration_are_in_the_kept_results() -> None:
    results = ("calibration.txt", "calibration-seeds.txt", "goal-misgeneralisation.json")
    kept = "".join(tables_of(ROOT / "docs" / "results" / name) for name in results)
    text = (ROOT / CALIBRATION).read_text(encoding="utf-8")
    sentences = " ".join(line for line in text.splitlines() if not line.startswith("|"))
    numbers = re.findall(r"\d+\.\d+%? \[[^\]]+\]", sentences)
    assert len(numbers) >= 5
    assert [number for number in numbers if f" {number}" not in kept] == []


def test_areas_in_sentences_are_those_of_the_stored_agents() -> None:
    kept = tables_of(ROOT / FILLED[MISGENERALISATION][""])
    text = (ROOT / MISGENERALISATION).read_text(encoding="utf-8")
    part = text.partition("## Results")[2].partition("\n## ")[0]
    sentences = " ".join(line for line in part.splitlines() if not line.startswith(("|", "- ")))
    numbers = re.findall(r"−?\d\.\d\d \[−?\d\.\d\d, −?\d\.\d\d\]", sentences)
    assert len(numbers) >= 2
    assert [number for number in numbers if f" {number}" not in kept] == []


def test_a_number_that_is_not_in_the_kept_result_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "results.json"
    kept.write_text(json.dumps({"share": {"value": 0.9876, "interval": [0.95, 1.0]}, "n": 30}))
    cells = (("agent", "share", "n"), ("mouse", "98.8% [95, 100]", "30"), ("mole", "97.8%", "30"))
    assert foreign_numbers(Rows("page", 1, cells, None), kept) == ["mole: 97.8"]
