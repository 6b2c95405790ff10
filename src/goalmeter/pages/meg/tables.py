"""Goal-directedness as tables: of one result, and of policies in one world; and their glossary."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from goalmeter.meg.causal.result import CausalMeg
from goalmeter.meg.result import MegResult
from goalmeter.pages.prose import prose
from goalmeter.report import Table
from goalmeter.report.numbers import gap, nats, number, rationality
from goalmeter.report.table_of import column, grouped, share_bar, summary_table, table_of, words

say = partial(prose, "meg")  # the texts of `prose.toml`
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
        if isinstance(result, CausalMeg)
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
