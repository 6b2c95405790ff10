from __future__ import annotations

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


def test_the_page_in_docs_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "replications.ledger.page"],
        capture_output=True,
        encoding="utf-8",
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    shown = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    hint = "run: python -m replications.ledger.page > docs/ledger.md"
    assert shown == done.stdout, hint
