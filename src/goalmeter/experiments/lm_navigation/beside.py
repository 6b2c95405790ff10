"""The published language model beside an agent of ours: the verdict, and what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from goalmeter.experiments import ledger
from goalmeter.experiments.lm_navigation.compute import COMPASS, LEDGER_PREFIX, Estimates
from goalmeter.report.numbers import plus
from goalmeter.statistics.clustered import Estimate
from goalmeter.statistics.verdicts import Interval, Verdict

Agents = Mapping[str, Estimates]


def published() -> dict[str, ledger.Number]:
    """The published numbers, by quantity; those with a standard error of their own first."""
    # A quantity has a row for each agent of ours that it stands beside; the first one is kept.
    out: dict[str, ledger.Number] = {}
    for row in sorted(ledger.load(LEDGER_PREFIX), key=lambda row: row.relation != "estimate"):
        _, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
        out.setdefault(quantity, row)
    out["key-no-door/towards_key"] = out["key-no-door/towards_key_chance"]
    return out


def beside(number: ledger.Number, ours: Estimate) -> ledger.Number:
    """A published share as a row beside what an agent of ours has, in percent.

    The interval of the published share is the ledger's, of this run only ours is.
    """
    interval = ours.interval
    return replace(
        number,
        relation="reference",
        ours=100 * ours.value,
        interval=None if interval is None else (100 * interval[0], 100 * interval[1]),
        seeds=ours.clusters,
    )


def beside_the_compass(references: Agents, quantities: Iterable[str]) -> list[ledger.Number]:
    """The published shares beside those of the compass."""
    theirs = published()
    return [beside(theirs[name], references[COMPASS][name]) for name in quantities]


def counted(rows: Iterable[ledger.Number]) -> str:
    """How many verdicts of each kind, in words: "above in 2, below in 1, ... of 6"."""
    count = Counter(row.counted.removesuffix(" the reference") for row in rows)
    return (
        f"above it in {count[Verdict.ABOVE]}, below it in {count[Verdict.BELOW]}, equal within 5 "
        f"points in {count[Verdict.EQUAL]}, and in {count[Verdict.UNTOLD]} it cannot be told"
    )


def difference_points(row: ledger.Number) -> str:
    """The published share less ours, points, with its interval."""
    value = row.theirs - row.ours
    return with_interval(value, row.difference_interval(row.theirs))


def with_interval(value: float, interval: Interval | None) -> str:
    """A difference in points with its interval, as tables print it."""
    if interval is None:
        return plus(value, 1)
    return f"{plus(value, 1)} [{', '.join(plus(end, 1) for end in interval)}]"
