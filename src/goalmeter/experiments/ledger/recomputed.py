"""The cheap rows of the ledger, computed again."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from itertools import groupby

from goalmeter._errors import InvalidParameterError
from goalmeter.experiments.ledger.number import Number

# Experiment -> the module whose `recompute(ids)` gives its values. By name, because experiments
# know the ledger, in which they look up the numbers that they stand beside, and not it them.
RECOMPUTED = {
    "example-1": "goalmeter.experiments.example_one",
    "meg-cliffworld": "goalmeter.experiments.meg_cliffworld.compute",
    "reflection-table-1": "goalmeter.experiments.reflection_table_1.compute",
    "lm-navigation": "goalmeter.experiments.lm_navigation.compute",
}


def recompute(rows: Iterable[Number]) -> dict[str, float]:
    """The value of each cheap row, computed again: id -> value."""
    out = {}
    for experiment, group in groupby(rows, key=lambda row: row.id.partition("/")[0]):
        members = list(group)
        if experiment not in RECOMPUTED or any(row.cost != "cheap" for row in members):
            raise InvalidParameterError(
                f"rows of {experiment!r} cannot be recomputed here, expected cheap rows of "
                f"{', '.join(RECOMPUTED)}; run the command of the row instead"
            )
        module = import_module(RECOMPUTED[experiment])
        out.update(module.recompute([row.id for row in members]))
    return out


def stale(rows: Iterable[Number], values: dict[str, float]) -> list[str]:
    """A sentence for every row that a recomputed value contradicts."""
    return [
        f"{row.id}: the ledger says {row.ours:g} (tolerance {row.tolerance:g}), "
        f"recomputed {values[row.id]:.8g}; mend the code, or the row and its remark"
        for row in rows
        if not abs(values[row.id] - row.ours) <= row.tolerance
    ]
