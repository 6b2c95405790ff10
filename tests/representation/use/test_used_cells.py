"""Places that are acted on, told from a handful of decisions each."""

from __future__ import annotations

import json

import numpy as np
import pytest

from goalmeter.gridworld.world import Cell
from goalmeter.representation.beliefs import believed as beliefs
from goalmeter.representation.result_rows import row_from
from goalmeter.representation.use.directions import TargetCell
from goalmeter.representation.use.trials import TrialOutcome

SHAPE = (7, 7)


def tried(cell: Cell, flips: int, decisions: int, *, needed: bool = True) -> list[TrialOutcome]:
    """Decisions that were right with RIGHT; those that flip go DOWN."""
    target = TargetCell(cell, needed, (1,), (3,) if needed else (1,))
    return [
        TrialOutcome(f"grid {n}", SHAPE, target, 1, 3 if n < flips else 1) for n in range(decisions)
    ]


def test_rows_that_are_not_seen() -> None:
    """A mole: all moves flip at cells of three rows, none at those of the second."""
    outcomes = [
        outcome
        for row in (1, 2, 3, 4)
        for column in (1, 3, 5)
        for outcome in tried(Cell(row, column), 0 if row == 2 else 4, 4)
    ]
    used = beliefs.used_cells(outcomes)
    assert {p.cell.row: p.verdict for p in used.places} == {
        row: "not used" if row == 2 else "used" for row in (1, 2, 3, 4)
    }
    trials = [
        beliefs.CellTrial(each.grid, SHAPE, each.cell.cell, each.flipped) for each in outcomes
    ]
    places, untried = beliefs.probably_used(trials)
    assert {place[1].row for place, share in places.items() if share == 0} == {2}
    assert sum(share == 1 for share in places.values()) == 9
    # What nobody tried is as likely used as places are: three quarters of them.
    assert 0.6 < untried < 0.9
    assert used.counts == {"used": 9, "not used": 3, "unknown": 0}
    place = used.places[3]
    assert (place.cell, place.decisions, place.flips, place.as_if_wall) == (Cell(2, 1), 4, 0, 0)
    assert place.interval[0] < place.rate < place.interval[1] < 0.5
    assert used.to_json()["places"][3]["verdict"] == "not used"
    assert row_from(beliefs.UsedCells, json.loads(json.dumps(used.to_json()))) == used


def test_the_posterior_of_one_place_by_numerical_integration() -> None:
    """Means and sizes on the grid, and the rate by a fine sum: no closed form."""
    place = beliefs.used_cells(tried(Cell(3, 3), 2, 3)).places[0]
    rates = (np.arange(20_000) + 0.5) / 20_000
    density = np.zeros_like(rates)
    for mean in (np.arange(40) + 0.5) / 40:
        for size in np.geomspace(0.05, 50.0, 24):
            a, b = mean * size, (1 - mean) * size
            prior = rates ** (a - 1) * (1 - rates) ** (b - 1)
            from scipy.special import beta

            density += prior / beta(a, b) * rates**2 * (1 - rates)
    density /= density.sum()
    assert place.rate == pytest.approx(float(density @ rates), abs=1e-3)
    assert place.above == pytest.approx(float(density[rates > 0.25].sum()), abs=1e-3)
    assert place.interval[0] == pytest.approx(
        float(rates[np.searchsorted(density.cumsum(), 0.025)]), abs=1e-3
    )


def test_used_and_unused_places_are_told_apart() -> None:
    mouse = beliefs.used_cells([o for c in (1, 3, 5) for o in tried(Cell(1, c), 3, 3)]).places
    mole = beliefs.used_cells([o for c in (1, 3, 5) for o in tried(Cell(2, c), 0, 3)]).places
    area = beliefs.told_apart(mouse, mole)
    assert area.value == 1.0 and area.clusters == 6
    assert area.interval is not None and area.interval[0] > 0.5
    assert beliefs.told_apart(mouse, mouse).value == 0.5
