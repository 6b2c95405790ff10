"""Tables of models of behaviour: the numbers are those of the fits, and gaps are gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from goalmeter._errors import MissingExtraError
from goalmeter.navigation.behaviour import mixed_model
from goalmeter.navigation.measure import Navigation, navigation_of
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rollouts import play_all
from goalmeter.pages import navigation_tables

MAZES: dict[str, Any] = {"sizes": [7, 9], "complexities": [0.0, 1.0], "grids": 4, "trajectories": 2}


def result_of(agent: str, name: str = "maze", **options: Any) -> Navigation:
    return navigation_of(play_all(plan_of(agent, name, **(options or MAZES))))


def test_what_accuracy_is_lost_by() -> None:
    pytest.importorskip("statsmodels")
    greedy = result_of("greedy")
    # An agent that never errs leaves nothing to explain.
    table = navigation_tables.mixed_table([result_of("optimal"), greedy])
    assert table is not None and [row[0].text for row in table.cells] == ["greedy"]
    fit = mixed_model(greedy.seen)
    by_name = {term.name: term for term in fit.terms}
    heads = [head.full for head in table.heads]
    row = dict(zip(heads, (cell.text for cell in table.cells[0]), strict=True))
    points = 10 * by_name["complexity"].coefficient
    assert row["0.1 of complexity: points"].startswith(f"{points:.1f}".replace("-", "−"))
    assert points < -1 and row["0.1 of complexity: p"] == "<0.001"
    assert row["walks in grids"] == "32 in 16"
    assert row["spread, points: walks"] == f"{100 * fit.within_grids:.1f}"


def test_a_model_that_cannot_be_fitted_has_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("statsmodels")
    alone = result_of("random", sizes=[7], complexities=[1.0], grids=4, trajectories=1)
    assert navigation_tables.mixed_table([alone]) is None

    def missing(seen: object) -> None:
        raise MissingExtraError("statsmodels is not installed")

    monkeypatch.setattr(navigation_tables, "mixed_model", missing)
    assert navigation_tables.mixed_table([result_of("greedy")]) is None


def test_is_it_right_when_it_is_sure() -> None:
    seen = result_of("epsilon-optimal", sizes=[7], complexities=[1.0], grids=3, trajectories=2)
    table = navigation_tables.calibration_table([seen])
    calibration = seen.behaviour.calibration
    assert table is not None and calibration is not None
    (row,) = table.cells
    name, error, _, steps, unknown = (cell.text for cell in row)
    assert (name, steps, unknown) == ("epsilon-optimal", str(calibration.steps), "0")
    assert error.startswith(f"{calibration.error.value:.3f} [")
    # Reference agents alone are no reason for a table.
    silent = replace(seen, behaviour=replace(seen.behaviour, calibration=None))
    assert navigation_tables.calibration_table([silent, replace(seen, reference=True)]) is None
