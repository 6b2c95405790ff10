"""Tables of goal-directedness: single results, policies, causal models, interventions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._names import listed
from goalmeter.meg.result import MegResult
from goalmeter.pages import Texts
from goalmeter.report import Table
from goalmeter.report.numbers import nats, number, utility
from goalmeter.report.tables import share_bar, summary_table

if TYPE_CHECKING:
    from goalmeter.meg.causal.interventions import Interventions
    from goalmeter.meg.causal.result import CausalMeg, Goal
    from goalmeter.meg.causal.sensitivity import Sensitivity, SensitivityRow

say = Texts("meg")
GLOSSARY: dict[str, str] = say("glossary")
# Longer tables are cut, and more notes than these are not written out; JSON has everything.
GOAL_ROWS, SENSITIVITY_ROWS, _NOTES = 24, 60, 3


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
    """Return the table of one result, beside the MEG of baseline policies, nats."""
    rows: dict[str, Any] = dict(result.summary())
    if "share of maximum" in rows:
        rows["share of maximum"] = share_bar(math.copysign(result.fraction, result.signed))
    rows |= {f"baseline: {b} policy": f"{nats(v)} nats" for b, v in (baselines or {}).items()}
    # In a causal model there is no episode, only decisions.
    kind = "decisions" if hasattr(result, "by_decision") else "episodes"
    meaning = say.sentence("result", kind, reference=result.reference)
    return summary_table(rows.items(), caption=result.heading, meaning=meaning, notes=result.notes)


def policy_table(
    caption: str,
    rows: Sequence[PolicyRow],
    meaning: str,
    *,
    notes: tuple[str, ...] = (),
    digits: int = 1,
) -> Table:
    """Return the table of both measures of each policy; `digits` are of the expected return."""
    shares = [math.copysign(row.known.fraction, row.known.signed) for row in rows]
    returns = [number(row.mean_return, digits) for row in rows]
    lines = zip(rows, returns, shares, strict=True)
    return say.table("policies", lines, before=notes, caption=caption, meaning=meaning)


def goal_table(goal: Goal, result: CausalMeg) -> Table | None:
    """Return the table of the best utility, best outcome first; None if it is constant."""
    rows = goal.rows()
    known = [value for _, value in rows if not np.isnan(value)]
    if not known or max(known) == min(known):
        return None
    unknown, left = len(known) < len(rows), max(len(rows) - GOAL_ROWS, 0)
    if left:
        rows = [*rows[: GOAL_ROWS // 2], *rows[-GOAL_ROWS // 2 :]]
    lines = [(dict(zip(goal.variables, outcome, strict=True)), value) for outcome, value in rows]
    is_infinite = math.isinf(result.rationality)
    return say.table("goal", lines, unknown=unknown, left=left, is_infinite=is_infinite)


def sensitivity_table(table: Sensitivity, *, caption: str = "") -> Table:
    """Return the table of MEG towards each set of targets, with implications of the graph."""
    from goalmeter.meg.causal.result import do_text

    shown = table.rows[:SENSITIVITY_ROWS]
    world = f" under {do_text(table.do)}" if table.do else ""
    texts: dict[str, Any] = {
        "theorem": say.sentence("theorem") if any(r.at_most or r.equal_to for r in shown) else "",
        "left": len(table.rows) - len(shown),
        "caption": caption or f"MEG of {listed(table.decisions)} towards sets of targets{world}",
    }
    rows = [
        (", ".join(row.targets), row, row.upper_bound - row.value, _best_goal(row)) for row in shown
    ]
    return say.table("sensitivity", rows, notes=_row_notes(shown), **texts)


def intervention_table(table: Interventions, *, caption: str = "") -> Table:
    """Return the table of MEG in each world and the evidence of the original goal there."""
    from goalmeter.meg.causal.result import do_text

    about = f"{listed(table.decisions)} towards {table.target}"
    rows = [(do_text(row.do), row) for row in table.rows]
    caption = caption or f"{about}, in the original world and others"
    return say.table("intervention", rows, caption=caption)


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
