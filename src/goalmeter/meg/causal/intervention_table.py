"""`Interventions`: one policy and its goal in a world and in changed ones, as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._names import listed
from goalmeter.meg.causal.result import CausalMeg, do_text
from goalmeter.meg.result import json_number
from goalmeter.report.notebook import data_frame, html_table
from goalmeter.report.numbers import nats, nats_of_search, number, percent


@dataclass(frozen=True)
class InterventionRow:
    """One world.

    Attributes:
        do: what was set; empty for the original world.
        result: MEG of the policy there.
        transferred: evidence of the original goal there, nats; negative where it predicts
            worse than chance, -inf where it rules out what the agent does; NaN where the goal
            has no rationality (a gap, without sufficient recall) and cannot be planned for.
        refitted: evidence of the original utility with the best rationality there, nats.
    """

    do: dict[str, object]
    result: CausalMeg
    transferred: float
    refitted: float

    @property
    def gap(self) -> float:
        """What the best goal of that world explains beyond the original one, nats."""
        return self.result.value - self.transferred

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "do": dict(self.do),
            "meg": self.result.value,
            "transferred": json_number(self.transferred),
            "refitted": json_number(self.refitted),
            "gap": json_number(self.gap),
            "result": self.result.to_json(),
        }


@dataclass(frozen=True)
class Interventions:
    """The original world and every changed one.

    Attributes:
        decisions: the candidate decisions.
        target: what goal-directedness was measured towards, in words.
        rows: the original world first.
    """

    decisions: tuple[str, ...]
    target: str
    rows: tuple[InterventionRow, ...]

    @property
    def largest_gap(self) -> float:
        """The largest gap of all changed worlds, nats; 0 if there are none, NaN if one is."""
        gaps = [row.gap for row in self.rows[1:]]
        return float(np.max(gaps)) if gaps else 0.0

    def to_json(self) -> dict[str, Any]:
        """The table as JSON values."""
        return {
            "decisions": list(self.decisions),
            "target": self.target,
            "largest_gap": json_number(self.largest_gap),
            "rows": [row.to_json() for row in self.rows],
        }

    def to_pandas(self) -> Any:
        """The table as a pandas data frame, one row a world.

        Columns: `do` (text), `meg`, `upper_bound`, `maximum` in nats, `fraction`, and in nats
        `transferred`, `refitted` and `gap`, see `InterventionRow`.
        """
        return data_frame(
            [
                {
                    "do": do_text(row.do),
                    "meg": row.result.value,
                    "upper_bound": row.result.upper_bound,
                    "maximum": row.result.maximum,
                    "fraction": row.result.fraction,
                    "transferred": row.transferred,
                    "refitted": row.refitted,
                    "gap": row.gap,
                }
                for row in self.rows
            ]
        )

    def _repr_html_(self) -> str:
        heads = ("MEG there, nats", "upper bound", "share of maximum", "original goal, nats")
        return html_table(
            f"{listed(self.decisions)} towards {self.target}, in the original world and others",
            ("world", *heads, "the same, β refitted", "gap"),
            [
                (
                    do_text(row.do),
                    nats_of_search(row.result.signed),
                    nats(row.result.upper_bound),
                    percent(row.result.fraction),
                    nats(row.transferred),
                    nats_of_search(row.refitted),
                    nats(row.gap),
                )
                for row in self.rows
            ],
        )

    def __str__(self) -> str:
        lines = [f"{listed(self.decisions)} towards {self.target}, nats"]
        names = [do_text(row.do) for row in self.rows]
        width = max(len(name) for name in names)
        for name, row in zip(names, self.rows, strict=True):
            lines.append(
                f"  {name:<{width}}  MEG {number(row.result.signed, 4)}, original goal "
                f"{number(row.transferred, 4)} (refitted {number(row.refitted, 4)}), "
                f"gap {number(row.gap, 4)}"
            )
        return "\n".join(lines)
