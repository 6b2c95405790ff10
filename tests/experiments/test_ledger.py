from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

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
        assert len(row.remark) > 10 and row.tolerance > 0
        if row.relation != "estimate":
            assert row.tolerance <= 0.01 * max(abs(row.ours), 0.01)


def test_estimates_are_compared_by_their_standard_errors() -> None:
    row = next(row for row in ROWS if row.relation == "estimate")
    one = replace(row, published="+0.10 ± 0.01", published_error=0.03, ours=0.2, error=0.04)
    assert one.z == pytest.approx(2.0) and one.verdict == "differs"  # 0.1 / 0.05
    assert replace(one, ours=0.19).verdict == "agrees"
    assert replace(one, ours=0.0).z == pytest.approx(-2.0)
    # A misprint is not what ours is compared with.
    assert replace(one, corrected=0.2).verdict == "agrees"
    assert replace(one, ours=float("nan"), seeds=0).verdict == "not run"


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
        ({"relation": "estimate"}, "an estimate needs published_error above 0 and seeds above 1"),
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
