"""Results of the causal measures as tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from goalmeter._names import listed
from goalmeter.meg.causal import Interventions
from goalmeter.meg.causal.result import RECALLS, CausalMeg, Goal, signed
from goalmeter.meg.causal.sensitivity import Sensitivity, SensitivityRow
from goalmeter.pages.meg import tables as mdp_tables
from goalmeter.report import Cell, Column, Table
from goalmeter.report.numbers import nats, percent, rationality

# Longer tables are cut; JSON has every row.
GOAL_ROWS, SENSITIVITY_ROWS = 24, 60
# More sets or notes than these are not written out in a cell or below a table.
_SETS, _NOTES = 2, 3

THEOREM_NOTE = (
    "Theorem 4.1 (on pseudo-terminal goals), in the column of that name: “≤ {A}” means that A "
    "d-separates the decisions from the targets, so MEG towards A is proven to be at least as "
    "high. “= {A}” means that A is a part of the set that separates the decisions from the rest; "
    "then both are equal, and were worked out once."
)


def result_table(result: CausalMeg) -> Table:
    """Everything that defends one MEG in a causal model."""
    table = mdp_tables.result_table(result)
    rows = [("rows of the table", *row[1:]) if row[0] == "trajectories" else row
            for row in table.rows]  # fmt: skip
    rows.append(("what the graph says", RECALLS[result.recall]))
    if len(result.decisions) > 1:
        rows += [(f"share of {d}", f"{_nats(v)} nats") for d, v in result.by_decision.items()]
    world = f", under do({_pairs(result.do)})" if result.do else ""
    return replace(
        table,
        caption=f"Goal-directedness of {listed(result.decisions)} towards {result.target}{world}",
        rows=tuple(rows),
        meaning="MEG is how many nats of the decisions the goal explains; the "
        f"{result.reference} scores 0, a fully predictable agent the maximum.",
    )


def goal_table(goal: Goal, result: CausalMeg) -> Table | None:
    """The maximising utility, the best outcome first; None if it is the same for all outcomes."""
    rows = goal.rows()
    known = [value for _, value in rows if not np.isnan(value)]
    if not known or max(known) == min(known):
        return None
    notes = []
    if len(known) < len(rows):
        notes.append("A dash marks an outcome that the decisions cannot influence.")
    if len(rows) > GOAL_ROWS:
        left = len(rows) - GOAL_ROWS
        rows = [*rows[: GOAL_ROWS // 2], *rows[-GOAL_ROWS // 2 :]]
        notes.append(f"{left} outcomes between the best and the worst are left out; --json has "
                     "them.")  # fmt: skip
    if math.isinf(result.rationality):
        notes.append(
            "The value is approached by ever larger utilities; these are the differences that "
            "have to grow first."
        )
    return Table(
        caption="Best goal",
        columns=(*(Column(x, numeric=False) for x in goal.variables), "utility"),
        rows=tuple(
            (*map(str, outcome), "–" if np.isnan(value) else signed(value))
            for outcome, value in rows
        ),
        meaning="A utility of each outcome, the largest entry of size 1, for which the behaviour "
        "would be most reasonable. Other utilities may predict it as well.",
        notes=tuple(notes),
    )


def sensitivity_table(found: Sensitivity, *, caption: str = "", most: int | None = None) -> Table:
    """MEG towards every set of targets, with what the graph implies about it.

    Args:
        found: the measured sets.
        caption: default names the decisions.
        most: rows to show, default 60.
    """
    shown = found.rows[: most or SENSITIVITY_ROWS]
    left = len(found.rows) - len(shown)
    notes = [THEOREM_NOTE] if any(row.at_most or row.equal_to for row in shown) else []
    if left:
        notes.append(f"{left} more sets, whose MEG is no higher, are left out; --json has them.")
    notes += _row_notes(shown)
    world = f" under do({_pairs(found.do)})" if found.do else ""
    return Table(
        caption=caption or f"MEG of {listed(found.decisions)} towards sets of targets{world}",
        columns=(
            Column("targets", numeric=False),
            "MEG, nats",
            "gap to the bound",
            "share of maximum",
            "rationality β",
            Column("Theorem 4.1", numeric=False),
            Column("best goal", numeric=False),
        ),
        rows=tuple(_sensitivity_row(row) for row in shown),
        meaning="How many nats of the decisions are explained by the best of all utilities over "
        "the joint states of the targets; the uniform policy scores 0.",
        notes=tuple(notes),
    )


def intervention_table(found: Interventions, *, caption: str = "") -> Table:
    """MEG in each world, beside the evidence of the original world's goal there."""
    return Table(
        caption=caption
        or f"{listed(found.decisions)} towards {found.target}, in the original world and others",
        columns=(
            Column("world", numeric=False),
            "MEG there, nats",
            "share of maximum",
            "original goal, nats",
            "the same, β refitted",
            "gap",
        ),
        rows=tuple(
            (
                world_text(row.do),
                _nats(row.result.value),
                Cell(percent(row.result.fraction), share=row.result.fraction),
                evidence(row.transferred),
                _nats(row.refitted),
                evidence(row.gap),
            )
            for row in found.rows
        ),
        meaning="The policy stays as it is while the world changes. The original goal is fitted in "
        "the world of the first row, and scored as it is in the others: a true goal goes on "
        "predicting what the agent does, one that only went along with the true goal does not.",
        notes=(
            "The gap is how many nats the best goal of that world explains beyond the original "
            "goal. Where the original goal is below 0, it predicts worse than guessing; it is −∞ "
            "where it rules out what the agent does.",
        ),
    )


def world_text(do: dict[str, object]) -> str:
    """A world in words: do(X = x), or as it is."""
    return f"do({_pairs(do)})" if do else "as it is"


def evidence(value: float) -> str:
    """Nats that may be negative or infinite."""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"−{nats(-value)}" if value <= -1e-12 else nats(value)


def set_text(names: Sequence[str]) -> str:
    """A set of variables: {S, M}."""
    return f"{{{', '.join(names)}}}"


def theorem_text(row: SensitivityRow) -> str:
    """What Theorem 4.1 says about a set of the table."""
    if row.equal_to is not None:
        return f"= {set_text(row.equal_to)}"
    shown = ", ".join(set_text(names) for names in row.at_most[:_SETS])
    more = len(row.at_most) - _SETS
    return f"≤ {shown}{f' and {more} more' if more > 0 else ''}" if shown else ""


def _sensitivity_row(row: SensitivityRow) -> tuple[Cell | str, ...]:
    gap = max(row.upper_bound - row.value, 0.0)
    return (
        ", ".join(row.targets),
        _nats(row.value),
        f"{gap:.0e}" if gap else "0",
        Cell(percent(row.fraction), share=row.fraction),
        rationality(row.rationality),
        theorem_text(row),
        "" if row.goal is None or row.equal_to or row.value < 1e-9 else _short(row.goal),
    )


def _short(goal: Goal) -> str:
    """The ends of a goal: its best and its worst outcome."""
    rows = [(outcome, value) for outcome, value in goal.rows() if not np.isnan(value)]
    ends = rows if len(rows) <= 2 else [rows[0], rows[-1]]
    texts = [f"{'/'.join(map(str, outcome))} {signed(value)}" for outcome, value in ends]
    return (" … " if len(rows) > 2 else ", ").join(texts)


def _pairs(do: dict[str, object]) -> str:
    return ", ".join(f"{x} = {value}" for x, value in do.items())


def _nats(value: float) -> str:
    """Nats; what is below 1e-9 is rounding of the solver, and reads 0."""
    return nats(value) if abs(value) >= 1e-9 else "0"


def _row_notes(rows: Sequence[SensitivityRow]) -> list[str]:
    """Each note of some row once, behind the sets that it is about."""
    sets: dict[str, list[str]] = {}
    for row in rows:
        if row.note and row.equal_to is None:
            sets.setdefault(row.note, []).append(set_text(row.targets))
    out = [f"{listed(names)}: {note}." for note, names in sets.items()]
    more = len(out) - _NOTES
    return [*out[:_NOTES], f"{more} more notes are left out; --json has them."] if more > 0 else out
