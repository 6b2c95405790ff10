"""A table of policies in one world: what each earns, and how goal-directed it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from goalmeter.meg.result import MegResult
from goalmeter.pages.meg.tables import gap, share
from goalmeter.report import Column, Table
from goalmeter.report.numbers import nats, rationality, signed

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
    return Table(
        caption=caption,
        columns=(
            Column("policy", numeric=False),
            "expected return",
            Column("MEG, nats", group="known utility"),
            Column("proven gap", group="known utility"),
            Column("share of maximum", group="known utility"),
            Column("rationality β", group="known utility"),
            Column("MEG, nats", group="unknown utility"),
            Column("proven gap", group="unknown utility"),
            Column("share of maximum", group="unknown utility"),
        ),
        rows=tuple(
            (
                row.name,
                signed(row.mean_return, digits),
                nats(row.known.value),
                gap(row.known),
                share(row.known),
                rationality(row.known.rationality),
                nats(row.unknown.value),
                gap(row.unknown),
                share(row.unknown),
            )
            for row in rows
        ),
        meaning=meaning,
        notes=(*notes, GAP_NOTE),
    )
