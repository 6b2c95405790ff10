"""The rows of a sweep as flat records: what a table of it has, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from goalmeter.meg.sweeps.columns import FAILED, NUMBERS, Columns
from goalmeter.meg.sweeps.grids import spelled
from goalmeter.meg.sweeps.plan import SweepPlan

# Columns in front of the arguments, and behind them.
_NAMES = ("row", "world", "policy", "utility")
_FACTS = ("states", "actions", "horizon", "discount")
_MEASURED = (
    *("value", "upper_bound", "maximum", "fraction", "rationality", "bound_size"),
    *("status", "method", "notes", "world_digest"),
)


def column_names(plan: SweepPlan) -> tuple[str, ...]:
    """The columns of a sweep's table; arguments are `world.NAME`, `policy.NAME`, `utility.NAME`."""
    each = (
        # Every world of a source has the same arguments.
        ("world", [source.arguments(0) for source in plan.sources]),
        ("policy", [choice.arguments for choice in plan.policies]),
        ("utility", [choice.arguments for choice in plan.utilities]),
    )
    arguments = [
        f"{prefix}.{name}"
        for prefix, several in each
        for name in dict.fromkeys(key for item in several for key in item)
    ]
    return (*_NAMES, *arguments, *_FACTS, *_MEASURED)


def records(plan: SweepPlan, chunks: Sequence[Columns]) -> Iterator[dict[str, Any]]:
    """A record for each row, in order, by the names of the columns.

    None is where there is nothing to say, such as for the numbers of a row that failed. Lists and
    other arguments that are no plain value are text.
    """
    blank: dict[str, Any] = dict.fromkeys(column_names(plan))
    chosen = [
        [
            {"policy": policy.label, "utility": utility.label}
            | _arguments("policy", policy.arguments)
            | _arguments("utility", utility.arguments)
            for utility in plan.utilities
        ]
        for policy in plan.policies
    ]
    row = 0
    for chunk, columns in zip(plan.chunks, chunks, strict=True):
        worlds, policies = plan.part(chunk)
        measured = _measured(columns)
        for world, facts in zip(worlds, columns.worlds, strict=True):
            source, number = plan.place(world)
            of_world = blank | {"world": plan.sources[source].label(number)}
            of_world |= _arguments("world", plan.sources[source].arguments(number))
            if facts is not None:
                of_world |= {name: getattr(facts, name) for name in _FACTS}
                of_world["world_digest"] = facts.digest
            for policy in policies:
                for names in chosen[policy]:
                    yield {**of_world, **names, **next(measured), "row": row}
                    row += 1


def _measured(columns: Columns) -> Iterator[dict[str, Any]]:
    """What was measured of each row of a chunk."""
    numbers = [columns.numbers(name) for name in NUMBERS]
    words = (columns.words("method"), columns.words("note"))
    for status, method, note, *values in zip(columns.statuses(), *words, *numbers, strict=True):
        said = {"status": status, "notes": note or None}
        if status == FAILED:
            yield said
            continue
        out = dict(zip(NUMBERS, values, strict=True))
        value, maximum = out["value"], out["maximum"]
        share = min(value / maximum, 1.0) if maximum > 0 else 0.0
        yield {**out, **said, "method": method, "fraction": share}


def _arguments(prefix: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        f"{prefix}.{name}": value
        if isinstance(value, (int, float, str)) or value is None
        else spelled(value)
        for name, value in arguments.items()
    }
