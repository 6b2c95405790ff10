"""A table of policies in one world: what each earns, and how goal-directed it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from goalmeter.meg.result import MegResult
from goalmeter.report import Table
from goalmeter.report.numbers import gap, nats, number, rationality
from goalmeter.report.table_of import column, grouped, share_bar, table_of, words

GAP_NOTE = (
    "Proven gap: no rationality (known utility) and no utility over states (unknown utility) can "
    "score more than the value plus this. At 0 the value is exact up to rounding."
)


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
                column("MEG, nats", lambda row: row.known.value, nats),
                column("proven gap", lambda row: row.known.gap, gap),
                column("share of maximum", lambda row: row.known.fraction, share_bar),
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
        notes=(*notes, GAP_NOTE),
    )
