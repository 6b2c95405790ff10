"""Tables of goal-directedness: single results, policies, causal models, interventions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._names import listed
from goalmeter.meg.result import MegResult
from goalmeter.pages import prose
from goalmeter.report import Column, Table
from goalmeter.report.numbers import gap, nats, nats_of_search, number, rationality, utility
from goalmeter.report.tables import column, grouped, share_bar, summary_table, table_of, words

if TYPE_CHECKING:
    from goalmeter.meg.causal import Interventions
    from goalmeter.meg.causal.result import CausalMeg, Goal
    from goalmeter.meg.causal.sensitivity import Sensitivity, SensitivityRow

# --- Tables ---------------------------------------------------------------------------------------
say = partial(prose, "meg")  # the texts of the page
GLOSSARY: dict[str, str] = say("glossary")


class PolicyRow(NamedTuple):
    """One policy: its name, expected return in reward units, and both measures."""

    name: str
    mean_return: float
    known: MegResult
    unknown: MegResult

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {
            "policy": self.name,
            "expected_return": self.mean_return,
            "known_utility": self.known.to_json(),
            "unknown_utility": self.unknown.to_json(),
        }


def result_table(result: MegResult, baselines: dict[str, float] | None = None) -> Table:
    """Everything that defends one MEG, as a table of names and numbers.

    Args:
        result: the measure.
        baselines: name of a policy -> its MEG in nats.
    """
    # In a causal model there is no episode, only decisions.
    explained = (
        "decisions the goal explains"
        if hasattr(result, "by_decision")
        else "behaviour's decisions the goal explains, over an episode"
    )
    return summary_table(
        [
            *(
                (name, share_bar(_signed_share(result)) if name == "share of maximum" else text)
                for name, text in result.summary()
            ),
            *((f"baseline: {b} policy", f"{nats(v)} nats") for b, v in (baselines or {}).items()),
        ],
        caption=result.heading,
        meaning=f"MEG is how many nats of the {explained}; the {result.reference} scores 0, a "
        "fully predictable agent the maximum.",
        notes=result.notes,
    )


def _signed_share(result: MegResult) -> float:
    return math.copysign(result.fraction, result.signed)


def policy_table(
    caption: str,
    rows: Sequence[PolicyRow],
    meaning: str,
    *,
    notes: tuple[str, ...] = (),
    digits: int = 1,
) -> Table:
    """Known and unknown utility of each policy with gaps, shares and rationalities.

    `digits` is the number of decimals of the expected return.
    """
    return table_of(
        rows,
        (
            words("policy", lambda row: row.name),
            column("expected return", lambda row: number(row.mean_return, digits)),
            *grouped(
                "known utility",
                column("MEG, nats", lambda row: row.known.signed, nats),
                column("proven gap", lambda row: row.known.gap, gap),
                column("share of maximum", lambda row: _signed_share(row.known), share_bar),
                column("rationality β", lambda row: row.known.rationality, rationality),
            ),
            *grouped(
                "unknown utility",
                column("MEG, nats", lambda row: row.unknown.value, nats),
                column("proven gap", lambda row: row.unknown.gap, gap),
                column("share of maximum", lambda row: row.unknown.fraction, share_bar),
            ),
        ),
        caption=caption,
        meaning=meaning,
        notes=(*notes, *say("policies")["notes"]),
    )


# --- Causal tables --------------------------------------------------------------------------------
# Longer tables are cut; JSON has every row.
GOAL_ROWS, SENSITIVITY_ROWS = 24, 60
# More notes than these are not written out below a table.
_NOTES = 3

THEOREM_NOTE = (
    "Theorem 4.1 (on pseudo-terminal goals), in the column of that name: “≤ {A}” means that A "
    "d-separates the decisions from the targets, so MEG towards A is proven to be at least as "
    "high. “= {A}” means that A is a part of the set that separates the decisions from the rest; "
    "then both are equal, and were worked out once."
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
        notes.append(
            f"{left} outcomes between the best and the worst are left out; --json has them."
        )
    if math.isinf(result.rationality):
        notes += say("goal_at_infinity")["notes"]
    return Table(
        columns=(*(Column(x, numeric=False) for x in goal.variables), "utility"),
        rows=tuple(
            (*map(str, outcome), "–" if np.isnan(value) else utility(value))
            for outcome, value in rows
        ),
        notes=tuple(notes),
        **say("goal"),
    )


def sensitivity_table(table: Sensitivity, *, caption: str = "", most: int | None = None) -> Table:
    """MEG towards every set of targets, with what the graph implies about it.

    Args:
        table: the measured sets.
        caption: default names the decisions.
        most: rows to show, default 60.
    """
    from goalmeter.meg.causal.result import do_text

    shown = table.rows[: most or SENSITIVITY_ROWS]
    left = len(table.rows) - len(shown)
    notes = [THEOREM_NOTE] if any(row.at_most or row.equal_to for row in shown) else []
    if left:
        notes.append(f"{left} more sets, whose MEG is no higher, are left out; --json has them.")
    notes += _row_notes(shown)
    world = f" under {do_text(table.do)}" if table.do else ""
    return table_of(
        shown,
        (
            words("targets", lambda row: row.targets, ", ".join),
            column("MEG, nats", lambda row: row.value, nats_of_search),
            column("gap to the bound", lambda row: row.upper_bound - row.value, gap),
            column("share of maximum", lambda row: row.fraction, share_bar),
            column("rationality β", lambda row: row.rationality, rationality),
            words("Theorem 4.1", lambda row: row.theorem_text()),
            words("best goal", _best_goal),
        ),
        caption=caption or f"MEG of {listed(table.decisions)} towards sets of targets{world}",
        notes=notes,
        **say("sensitivity"),
    )


def intervention_table(table: Interventions, *, caption: str = "") -> Table:
    """MEG in each world, beside the evidence of the original world's goal there."""
    from goalmeter.meg.causal.result import do_text

    return table_of(
        table.rows,
        (
            words("world", lambda row: do_text(row.do)),
            column("MEG there, nats", lambda row: row.result.signed, nats_of_search),
            column("share of maximum", lambda row: row.result.fraction, share_bar),
            column("original goal, nats", lambda row: row.transferred, nats),
            column("the same, β refitted", lambda row: row.refitted, nats_of_search),
            column("gap", lambda row: row.gap, nats),
        ),
        caption=caption
        or f"{listed(table.decisions)} towards {table.target}, in the original world and others",
        **say("intervention"),
    )


def _best_goal(row: SensitivityRow) -> str:
    """The ends of a goal, its best and its worst outcome; "" where it says nothing new."""
    if row.goal is None or row.equal_to or row.value < 1e-9:
        return ""
    outcomes = [pair for pair in row.goal.rows() if not np.isnan(pair[1])]
    ends = outcomes if len(outcomes) <= 2 else [outcomes[0], outcomes[-1]]
    texts = [f"{'/'.join(map(str, outcome))} {utility(value)}" for outcome, value in ends]
    return (" … " if len(outcomes) > 2 else ", ").join(texts)


def _row_notes(rows: Sequence[SensitivityRow]) -> list[str]:
    """Each note of some row once, behind the sets that it is about."""
    from goalmeter.meg.causal.sensitivity import set_text

    sets: dict[str, list[str]] = {}
    for row in rows:
        if row.note and row.equal_to is None:
            sets.setdefault(row.note, []).append(set_text(row.targets))
    out = [f"{listed(names)}: {note}." for note, names in sets.items()]
    more = len(out) - _NOTES
    return [*out[:_NOTES], f"{more} more notes are left out; --json has them."] if more > 0 else out
