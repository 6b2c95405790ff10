from __future__ import annotations

import csv
import io
import pickle
import random
import re
import subprocess
import sys
from dataclasses import replace
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

import pytest
from scipy.stats import t, ttest_ind

from goalmeter import GoalmeterError
from replications import ledger
from replications.ledger import page as ledger_page
from replications.ledger import published_mazes

ROOT = Path(__file__).resolve().parents[2]
ROWS = ledger.load()
CHEAP = [row for row in ROWS if row.cost == "cheap"]


def page(rows: list[ledger.Number]) -> str:
    return ledger_page.markdown(rows, ledger.margins())


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.slow if kind.startswith("lm-") else ())
        for kind in sorted({row.id.rpartition("/")[0] for row in CHEAP})
    ],
)
def test_no_cheap_row_is_stale(kind: str) -> None:
    rows = [row for row in CHEAP if row.id.startswith(f"{kind}/")]
    assert ledger.stale(rows, ledger.recompute(rows)) == []


ESTIMATE = next(row for row in ROWS if row.relation == "estimate")


def test_estimates_are_compared_by_welchs_interval() -> None:
    row = replace(
        ESTIMATE,
        published="+0.10 ± 0.01",
        published_error=0.03,
        published_seeds=10,
        ours=0.2,
        error=0.04,
        seeds=10,
    )
    assert row.z == pytest.approx(2.0)  # 0.1 / 0.05
    # 0.0025² / ((0.0016² + 0.0009²) / 9) = 16.7 degrees of freedom; t at 97.5% by SciPy's oracle.
    assert row.limit == pytest.approx(t.ppf(0.975, 0.0025**2 * 9 / (0.0016**2 + 0.0009**2)))
    # 0.1 ± 2.11 * 0.05 has 0 inside, and would not, were 1.96 the limit.
    assert row.difference_interval(0.1) == pytest.approx((-0.0056, 0.2056), abs=1e-4)
    assert row.verdict == "inconclusive" and within(row, 0.21).verdict == "equal within 0.21"
    assert replace(row, ours=0.21).verdict == "above"
    assert replace(row, ours=-0.01).verdict == "below"
    assert replace(row, ours=0.0).z == pytest.approx(-2.0)
    # A misprint is not what ours is compared with, and stands beside.
    misprint = replace(row, ours=0.21, corrected=0.2)
    assert (misprint.verdict, misprint.verdict_on_print) == ("inconclusive", "above")
    assert row.verdict_on_print == ""
    assert replace(row, ours=float("nan"), seeds=0).verdict == "not run"


def within(row: ledger.Number, size: float) -> ledger.Number:
    """The row with another margin."""
    return replace(row, margin=ledger.Margin(rows="", within=size, unit="", reason=""))


def test_welchs_test_is_scipys() -> None:
    rng = random.Random(3)
    for n in (5, 8, 10):
        ours = [rng.gauss(0.0, 1.0) for _ in range(n)]
        theirs = [rng.gauss(1.1, 0.4) for _ in range(10)]
        errors = [stdev(values) / sqrt(len(values)) for values in (ours, theirs)]
        row = replace(
            ESTIMATE, corrected=mean(theirs), published_error=errors[1], published_seeds=10
        )
        row = replace(row, ours=mean(ours), error=errors[0], seeds=n)
        oracle = ttest_ind(ours, theirs, equal_var=False)
        assert row.z == pytest.approx(oracle.statistic)
        assert row.limit == pytest.approx(t.ppf(0.975, oracle.df))
        assert row.difference_interval(row.theirs) == pytest.approx(
            tuple(oracle.confidence_interval(0.95))
        )
        side = "above" if mean(ours) > mean(theirs) else "below"
        assert within(row, 0.0).verdict == ("inconclusive" if oracle.pvalue >= 0.05 else side)


def test_a_verdict_compares_to_the_printed_digits() -> None:
    row = replace(ROWS[0], relation="equal", published="21.4", ours=21.367)
    assert row.verdict == "equal as printed"  # 21.367 rounds to 21.4
    assert replace(row, ours=21.344).verdict == "below"
    assert replace(row, ours=21.46).verdict == "above"
    # The printed spread leaves open whether they are the same: it shows neither.
    assert replace(row, published="21.4 ± 0.1", ours=21.31).verdict == "inconclusive"
    assert replace(row, published="21.4 ± 0.1", ours=21.2).verdict == "below"
    bound = replace(row, relation="lower bound", published="32.1 ± 0.5", ours=32.2)
    assert bound.verdict == "bound holds"
    assert replace(bound, ours=31.7).verdict == "inconclusive"
    assert replace(bound, ours=31.5).verdict == "bound violated"


def test_an_average_over_runs_is_judged_by_its_interval() -> None:
    row = replace(next(row for row in ROWS if row.relation == "average"), published="0.5", ours=0.2)
    # ±0.1 around 0.5: the same average, by intervals of four kinds.
    for interval, verdict in (
        ((0.1, 0.3), "below"),
        ((-0.2, 0.55), "inconclusive"),
        ((0.42, 0.58), "equal within 0.1"),
        ((0.55, 0.8), "above"),
    ):
        ours = sum(interval) / 2
        assert replace(row, ours=ours, interval=interval).verdict == verdict
    with pytest.raises(GoalmeterError, match="an average needs an interval of ours"):
        replace(row, interval=None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"published": "about 3"}, "published is 'about 3', expected a number as printed"),
        ({"relation": "near"}, "relation is 'near', expected one of"),
        ({"cost": "free"}, "cost is 'free', expected one of"),
        ({"relation": "estimate"}, "an estimate needs published_error above 0, published_seeds"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(change: dict[str, str], message: str) -> None:
    with pytest.raises(GoalmeterError, match=re.escape(message)):
        replace(ROWS[0], **change)  # type: ignore[arg-type]


SAME_MAZES = next(row for row in ROWS if row.relation == "same mazes")


def test_agents_in_the_same_mazes_are_compared_by_answers_and_by_mazes() -> None:
    row = replace(
        SAME_MAZES,
        published="90.0",
        cells=20,
        errors=(1, 2, 3, 2),
        ours_by_maze=(80.0, 70.0, 75.0, 75.0),
        ours=75.0,
    )
    # 72 of 80 answers: Wilson's interval by hand, z = 1.96: (0.924 ± 0.066) / 1.048.
    low, high = row.sampled_interval
    assert (low, high) == (pytest.approx(81.48, abs=0.01), pytest.approx(94.85, abs=0.01))
    assert row.difference_interval(90.0) == (pytest.approx(low - 75), pytest.approx(high - 75))
    assert row.verdict == "above the reference" and replace(row, ours=97.0).verdict.startswith(
        "below"
    )
    # By maze: 95, 90, 85, 90 less 80, 70, 75, 75, mean 15, deviation √(50/3), t = 3.182.
    half = t.ppf(0.975, 3) * sqrt(50 / 3) / 2
    assert row.on_new_mazes == (pytest.approx(15 - half), pytest.approx(15 + half))
    half = t.ppf(0.975, 3) * sqrt(50 / 3) / 2
    assert row.published_interval == (pytest.approx(90 - half), pytest.approx(90 + half))
    with pytest.raises(GoalmeterError, match="same mazes need cells"):
        replace(row, errors=(1, 2, 3))


def test_published_errors_give_the_published_share() -> None:
    for row in ROWS:
        if row.relation == "same mazes":
            wrong = sum(row.errors) / (row.cells * len(row.errors))
            assert abs(100 * (1 - wrong) - row.published_value) <= row.rounding, row.id
            assert row.ours == pytest.approx(mean(row.ours_by_maze), abs=0.005)


def test_a_share_varies_no_more_than_its_mean_allows() -> None:
    # By hand: √(0.7 · 0.3 / 100) = 0.0458, times t = 1.984.
    low, high = ledger.widest_interval(70, 100)
    assert (low, high) == (pytest.approx(60.91, abs=0.01), pytest.approx(79.09, abs=0.01))
    # No sample of shares in [0, 1] with this mean varies more than one of zeros and ones.
    assert stdev([0.0] * 30 + [1.0] * 70) == pytest.approx(sqrt(0.21), rel=0.01)


def test_what_prevents_a_verdict_is_told_from_an_exact_number_of_ours() -> None:
    row = replace(ESTIMATE, published="0.1", published_seeds=10, ours=0.105, seeds=10)
    row = within(replace(row, published_error=0.002, error=0.02), 0.02)
    assert (row.verdict, row.undecided) == ("inconclusive", ledger.OURS)
    row = replace(row, published_error=0.02)
    assert row.undecided == ledger.PRINT and row.if_exact.error == 0
    assert replace(row, seeds=4).undecided == "too few seeds"
    assert replace(row, ours=0.5).undecided == ""


def test_every_row_has_a_verdict_or_states_what_it_needs() -> None:
    undecided = [row for row in ROWS if row.undecided]
    assert len(undecided) <= 25
    for row in ROWS:
        # The published spread prevents a verdict, or the row states the time and memory it takes.
        needy = not row.ran or row.undecided == ledger.OURS
        assert row.undecided in ("", ledger.PRINT, ledger.NO_SPREAD, ledger.OURS), row.id
        assert bool(row.needs) == needy, row.id
        assert not needy or re.search(
            r"\d+ (minutes|hours).*\d+ GB|\d+ GB.*\d+ (minutes|hours)", row.needs
        )


def test_the_page_in_docs_is_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "replications.ledger.page", str(tmp_path)],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    for name in (ledger_page.PAGE, ledger_page.DATA):
        shown = (ROOT / "docs" / name).read_text(encoding="utf-8")
        hint = "run: python -m replications.ledger.page docs"
        assert shown == (tmp_path / name).read_text(encoding="utf-8"), hint


def test_the_page_is_short_and_has_every_row() -> None:
    lines = page(ROWS).splitlines()
    prose, folded = [], False
    for line in lines:
        folded = folded or line.startswith("<details>")
        prose += [] if folded or line.startswith("|") else line.split()
        folded = folded and line != "</details>"
    assert len(prose) <= 2500
    numbered = [line for line in lines if re.match(r"\| \d+ \| .* \| .* \| .* \| .* \|", line)]
    assert {int(line.split(" | ")[0][2:]) for line in numbered} == set(range(1, len(ROWS) + 1))


def test_the_data_beside_the_page_have_every_row() -> None:
    data = list(csv.DictReader(io.StringIO(ledger_page.csv_text(ROWS))))
    assert [row["id"] for row in data] == [row.id for row in ROWS]
    for given, row in zip(data, ROWS, strict=True):
        assert given["verdict"] == row.verdict and given["command"] == row.command
        assert float(given["ours"]) == row.ours if row.ran else given["ours"] == ""
    some = replace(SAME_MAZES, errors=(1, 2), ours_by_maze=(1.5, 2.0), cells=9)
    (given,) = csv.DictReader(io.StringIO(ledger_page.csv_text([some])))
    assert (given["errors"], given["ours_by_maze"]) == ("1 2", "1.5 2")


# --- The mazes of the release ---------------------------------------------------------------------
class Environment:
    """What the release pickles, in a class of this test that must not be imported on reading."""

    def __init__(self, **state: object) -> None:
        self.__dict__.update(state)


def release(folder: Path, *, cells: int) -> Path:
    """A release with one maze, of which the model answered one cell wrongly, twice."""
    kinds = {"#": "wall", "G": "goal"}
    drawing = ["#####", "#__G#", "#_#_#", "#___#", "#####"]
    tiles = [Environment(type=kinds[c]) if c in kinds else None for row in drawing for c in row]
    grid = Environment(width=5, height=5, grid=tiles)
    maze = Environment(grid=grid, agent_pos=(1, 3), goal_pos=(3, 1))
    for path in (published_mazes.MAZES.parent, published_mazes.ANSWERS):
        (folder / path).mkdir(parents=True)
    names = ["grid_size5_complexity0.40_0000", "grid_size5_complexity0.40_0001"]
    (folder / published_mazes.MAZES).write_bytes(pickle.dumps(dict.fromkeys(names, maze)))
    head = "grid_id,grid_size,complexity,total_cells,errors\n"
    lines = "".join(f"{name},5,0.4,{cells},1\n" for name in names)
    answers = folder / published_mazes.ANSWERS / "policy_comparison_results_1.csv"
    answers.write_text(head + lines, encoding="utf-8")
    return folder


def test_the_compass_is_evaluated_in_the_mazes_of_the_release(tmp_path: Path) -> None:
    folder = release(tmp_path, cells=7)
    maze = published_mazes.read_mazes(folder)["grid_size5_complexity0.40_0000"]
    assert str(maze).split() == ["#####", "#__G#", "#_#_#", "#A__#", "#####"]
    (values,) = published_mazes.row_values(folder).values()
    # In a ring every step that comes nearer is optimal, and both ways are from the far corner.
    assert values == {
        "ours": "100",
        "cells": "7",
        "errors": "[1, 1]",
        "ours_by_maze": "[100.0, 100.0]",
    }


def test_mazes_and_answers_of_different_commits_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GoalmeterError, match="has 7 open cells, expected 8 as in the answers"):
        published_mazes.row_values(release(tmp_path, cells=8))


def test_reading_the_mazes_imports_nothing(tmp_path: Path) -> None:
    folder = release(tmp_path, cells=7)
    path = folder / published_mazes.MAZES
    # Were the class imported, reading would fail: there is no such module.
    path.write_bytes(path.read_bytes().replace(b"test_ledger", b"test_absent"))
    assert len(published_mazes.read_mazes(folder)) == 2
