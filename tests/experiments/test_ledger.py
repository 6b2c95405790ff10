from __future__ import annotations

import random
import re
import subprocess
import sys
from dataclasses import replace
from math import isnan, sqrt
from pathlib import Path
from statistics import mean, stdev

import pytest
from scipy.stats import t, ttest_ind

from goalmeter import GoalmeterError
from goalmeter.experiments import ledger

ROOT = Path(__file__).resolve().parents[2]
ROWS = ledger.load()
CHEAP = [row for row in ROWS if row.cost == "cheap"]


def test_every_published_number_of_appendix_d1_is_there_once() -> None:
    settings = [f"k={k}" for k in range(1, 5)] + [f"eps=0.{e}" for e in range(1, 10)]
    ids = [row.id for row in ROWS]
    assert len(set(ids)) == len(ids)
    for kind in ("known", "unknown"):
        assert {f"meg-cliffworld/{kind}/{s}" for s in settings} <= set(ids)


@pytest.mark.parametrize("kind", sorted({row.id.rpartition("/")[0] for row in CHEAP}))
def test_no_cheap_row_is_stale(kind: str) -> None:
    rows = [row for row in CHEAP if row.id.startswith(f"{kind}/")]
    assert ledger.stale(rows, ledger.recompute(rows)) == []


def test_every_row_says_what_it_needs_to() -> None:
    # Where in the paper the numbers of an experiment are.
    places = {"meg-cliffworld": "Appendix D.1", "reflection-table-1": "Table 1"}
    for row in ROWS:
        experiment = row.id.partition("/")[0]
        assert places.get(experiment, "") in row.source and len(row.source) > 20
        assert row.command.startswith(f"goalmeter replicate {experiment}")
        assert len(row.remark) > 10
        assert row.tolerance > 0 if row.ran else isnan(row.tolerance)
        if row.relation != "estimate":
            assert row.tolerance <= 0.01 * max(abs(row.ours), 0.01)


ESTIMATE = next(row for row in ROWS if row.relation == "estimate")


def test_estimates_are_compared_by_welchs_test() -> None:
    one = replace(
        ESTIMATE,
        published="+0.10 ± 0.01",
        published_error=0.03,
        published_seeds=10,
        ours=0.2,
        error=0.04,
        seeds=10,
    )
    assert one.z == pytest.approx(2.0)  # 0.1 / 0.05
    # 0.0025² / ((0.0016² + 0.0009²) / 9) = 16.7 degrees of freedom; t at 97.5% by SciPy's oracle.
    assert one.limit == pytest.approx(t.ppf(0.975, 0.0025**2 * 9 / (0.0016**2 + 0.0009**2)))
    assert one.verdict == "agrees"  # and would not, were 1.96 the limit
    assert replace(one, ours=0.21).verdict == "differs"
    assert replace(one, ours=0.0).z == pytest.approx(-2.0)
    # A misprint is not what ours is compared with.
    assert replace(one, ours=0.21, corrected=0.2).verdict == "agrees"
    assert replace(one, ours=float("nan"), seeds=0).verdict == "not run"


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
        assert row.verdict == ("agrees" if oracle.pvalue >= 0.05 else "differs")


@pytest.mark.parametrize("error", [0.0, 1e-9, 0.5])
def test_few_seeds_give_no_verdict_whatever_their_spread(error: float) -> None:
    few = replace(ESTIMATE, ours=0.9, error=error, seeds=4)
    assert few.verdict == "too few seeds" and isnan(few.z) and isnan(few.limit)
    (line,) = (line for line in ledger.markdown([few]).splitlines() if "RandomAgent" in line)
    assert "| too few seeds |" in line and "nan" not in line


def test_an_exact_number_is_judged_by_the_spread_of_the_other() -> None:
    exact = replace(ESTIMATE, corrected=0.0, published_error=0.1, ours=0.2, error=0.0, seeds=10)
    assert exact.limit == pytest.approx(t.ppf(0.975, 9)) and exact.verdict == "agrees"
    assert replace(exact, ours=0.23).verdict == "differs"


def test_a_verdict_compares_to_the_printed_digits() -> None:
    row = replace(ROWS[0], relation="equal", published="21.4", ours=21.367)
    assert row.verdict == "same"  # 21.367 rounds to 21.4
    assert replace(row, ours=21.344).verdict == "differs"
    assert replace(row, published="21.4 ± 0.1", ours=21.31).verdict == "same"
    bound = replace(row, relation="lower bound", published="32.1 ± 0.5", ours=31.7)
    assert bound.verdict == "bound holds"
    assert replace(bound, ours=31.5).verdict == "bound violated"


def test_the_remarks_on_the_published_numbers_are_true() -> None:
    known = {row.id.rpartition("/")[2]: row for row in ROWS if "cliffworld/known/" in row.id}
    unknown = {row.id.rpartition("/")[2]: row for row in ROWS if "cliffworld/unknown/" in row.id}
    # "The exact one divided by ten": rounded or cut off to the printed digits.
    for key, row in known.items():
        if key.startswith("eps"):
            digits = len(row.published.partition(".")[2])
            unit = 10.0**-digits
            assert -0.5 * unit <= row.ours / 10 - row.published_value < unit, row.id
            assert "divided by ten" in row.remark
    # Known-utility MEG cannot exceed that of a class with the utility: printed k = 1 breaks it.
    broken = [k for k in known if known[k].published_value > unknown[k].published_value]
    assert broken == ["k=1"] and "34.3" in known["k=1"].remark
    assert all(known[k].ours <= unknown[k].ours + 1e-3 for k in known)
    assert {key for key, row in known.items() if row.verdict == "same"} == {"k=2", "k=4"}
    assert all(row.verdict == "bound holds" for row in unknown.values())
    assert abs(unknown["eps=0.9"].ours / unknown["eps=0.9"].published_value - 10) < 0.5


def test_a_stale_row_is_named() -> None:
    row = ROWS[0]
    (line,) = ledger.stale([row], {row.id: row.ours + 1})
    assert row.id in line and "recomputed" in line
    assert ledger.stale([row], {row.id: float("nan")}) != []


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


def test_only_cheap_rows_of_known_experiments_are_recomputed() -> None:
    for row in (replace(ROWS[0], cost="slow"), replace(ROWS[0], id="nowhere/known/k=1")):
        with pytest.raises(GoalmeterError, match="run the command of the row instead"):
            ledger.recompute([row])
    with pytest.raises(GoalmeterError, match="SETTING one of k=1"):
        ledger.recompute([replace(ROWS[0], id="meg-cliffworld/known/k=9")])


def test_neural_rows_may_move_by_two_standard_errors() -> None:
    neural = [row for row in ROWS if "neural" in row.quantity]
    assert len(neural) == 16
    for row in neural:
        if row.ran:
            assert row.tolerance == pytest.approx(2 * row.error, abs=1e-6)


def test_what_the_runs_said_stands_after_the_remark() -> None:
    page = ledger.markdown([replace(ESTIMATE, remark="By hand.", found="By the runs.")])
    assert page.splitlines()[-1].endswith("| By hand. By the runs. |")


def test_the_page_in_docs_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "goalmeter.experiments.ledger"],
        capture_output=True,
        encoding="utf-8",
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
    hint = "run: python -m goalmeter.experiments.ledger > docs/ledger.md"
    assert page == done.stdout, hint
