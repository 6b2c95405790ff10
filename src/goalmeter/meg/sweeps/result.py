"""What a sweep measured: rows that can be looped over, summed up, and written as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.result import json_number
from goalmeter.meg.sweeps.columns import FAILED, OPEN, STATUSES, Columns, Measured, WorldFacts
from goalmeter.meg.sweeps.plan import SweepPlan
from goalmeter.meg.sweeps.records import column_names, records
from goalmeter.meg.sweeps.sources import Made
from goalmeter.meg.sweeps.summary import Group, by_policy_and_utility
from goalmeter.report.notebook import data_frame, html_table, text_table
from goalmeter.report.numbers import percent

# Longer tables are left out of JSON; files and Python have them.
JSON_ROWS = 10_000
# What failures say in as many words as this: in a note, and in JSON.
_SAID, _SAID_IN_JSON = 3, 100


@dataclass(frozen=True)
class SweepRow:
    """A policy in a world, measured towards a utility.

    Attributes:
        world: its name; all worlds of a sweep that are made by arguments have different ones.
        policy: what was measured.
        utility: towards what; "unknown state" for the best of all utilities over states.
        world_arguments, policy_arguments, utility_arguments: what they were made of.
        measured: the numbers, and how they were obtained; NaN where the row failed.
        facts: of the world; None where it could not be made.
    """

    world: str
    policy: str
    utility: str
    world_arguments: Mapping[str, Any]
    policy_arguments: Mapping[str, Any]
    utility_arguments: Mapping[str, Any]
    measured: Measured
    facts: WorldFacts | None


@dataclass(frozen=True, eq=False)
class Sweep:
    """MEG of policies × utilities × worlds.

    Attributes:
        plan: what was asked for.
        chunks: what was measured, in the order of the rows.
    """

    plan: SweepPlan
    chunks: Sequence[Columns] = field(repr=False)

    def __len__(self) -> int:
        return self.plan.rows

    @property
    def rows(self) -> Iterator[SweepRow]:
        """Every row in order: all of the first world, policy by policy and utility by utility."""
        plan = self.plan
        for chunk, columns in zip(plan.chunks, self.chunks, strict=True):
            worlds, _ = plan.part(chunk)
            for offset, measured in enumerate(columns.rows()):
                cell = plan.cell(chunk.first + offset)
                source, number = plan.place(cell.world)
                policy, utility = plan.policies[cell.policy], plan.utilities[cell.utility]
                yield SweepRow(
                    plan.sources[source].label(number),
                    policy.label,
                    utility.label,
                    plan.sources[source].arguments(number),
                    policy.arguments,
                    utility.arguments,
                    measured,
                    columns.worlds[cell.world - worlds.start],
                )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns; arguments are `world.NAME`, `policy.NAME`, ..."""
        return column_names(self.plan)

    def records(self) -> Iterator[dict[str, Any]]:
        """Every row of the table, by the names of `columns`; None where there is nothing to say."""
        return records(self.plan, self.chunks)

    def argument_values(self, column: str) -> list[Any]:
        """The values that the arguments in a column of the table take; none of another column."""
        prefix, _, name = column.partition(".")
        plan = self.plan
        if prefix == "world":
            values = [
                v for s in plan.sources if isinstance(s, Made) for v in s.grid.axes.get(name, ())
            ]
        else:
            choices = {"policy": plan.policies, "utility": plan.utilities}.get(prefix, ())
            values = [c.arguments[name] for c in choices if name in c.arguments]
        return values if name else []

    @cached_property
    def summary(self) -> list[Group]:
        """Means over worlds, for each policy and utility."""
        return by_policy_and_utility(self.plan, self.chunks)

    @cached_property
    def values(self) -> FloatArray:
        """The value of each row, [rows] nats; NaN of one that failed."""
        return np.concatenate([np.array(chunk.numbers("value")) for chunk in self.chunks])

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each status, in the order of `STATUSES`."""
        text = [chunk.record["status"] for chunk in self.chunks]
        return {name: sum(part.count(name[0]) for part in text) for name in STATUSES}

    def sentences(self, status: str) -> dict[str, int]:
        """What rows of a status say and how many say so, most often first."""
        counts: Counter[str] = Counter()
        for chunk in self.chunks:
            if status[0] in chunk.record["status"]:
                counts.update(
                    note
                    for note, is_it in zip(chunk.words("note"), chunk.statuses(), strict=True)
                    if is_it == status
                )
        return dict(counts.most_common())

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; `rows` is None where there are more than 10,000."""
        plan = self.plan
        return {
            "worlds": plan.worlds,
            "policies": [choice.label for choice in plan.policies],
            "utilities": [choice.label for choice in plan.utilities],
            "counts": {"rows": len(self), **self.counts},
            "failures": dict(islice(self.sentences(FAILED).items(), _SAID_IN_JSON)),
            "summary": [group.to_json() for group in self.summary],
            "rows": [_in_json(record) for record in self.records()]
            if len(self) <= JSON_ROWS
            else None,
        }

    def to_pandas(self) -> Any:
        """One row for each of `records`, as a pandas data frame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return data_frame(list(self.records()))

    @property
    def heading(self) -> str:
        """What was measured, as the heading of a table."""
        plan = self.plan
        return (
            f"MEG of {_count(len(plan.policies), 'policy', 'policies')} towards "
            f"{_count(len(plan.utilities), 'utility', 'utilities')} in "
            f"{_count(plan.worlds, 'world', 'worlds')}"
        )

    def _shown(self) -> tuple[Sequence[str], Sequence[Sequence[str]], list[str]]:
        """Heads, rows and notes of a table of the summary."""
        heads = ("policy", "utility", "worlds", "MEG, mean", "share of maximum", "failed")
        rows = [
            (
                group.policy,
                group.utility,
                str(group.measured),
                group.value_in_words(),
                percent(group.fraction.value),
                str(group.failed),
            )
            for group in self.summary
        ]
        return heads, rows, self.notes()

    def notes(self) -> list[str]:
        """What a reader of the means needs: rows below the reference, not certified, or failed."""
        out = []
        counts = self.counts
        below = sum(
            rationality < 0 and value > 1e-9
            for chunk in self.chunks
            for rationality, value in zip(
                *map(chunk.numbers, ("rationality", "value")), strict=True
            )
        )
        if below:
            out.append(
                f"{below} of {len(self)} rows have a negative rationality: the policy does worse "
                f"than the reference, and the means count the absolute value."
            )
        if counts[OPEN]:
            out.append(
                f"{counts[OPEN]} of {len(self)} rows are not certified: their value is a lower "
                f"bound, and counts as such."
            )
        if counts[FAILED]:
            said = [f"{times}: {text}" for text, times in self.sentences(FAILED).items()]
            left = len(said) - _SAID
            more = f"; and {left} other sentence{'s' * (left > 1)}" if left > 0 else ""
            words = "; ".join(said[:_SAID])
            out.append(f"{counts[FAILED]} of {len(self)} rows failed ({words}{more}).")
        return out

    def _repr_html_(self) -> str:
        """The summary as a notebook shows it; `to_pandas` has the rows."""
        return html_table(self.heading, *self._shown())

    def __str__(self) -> str:
        heads, rows, notes = self._shown()
        return "\n".join([text_table(self.heading, [heads, *rows]), *notes])


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _in_json(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: json_number(value) if isinstance(value, float) else value
        for name, value in record.items()
    }
