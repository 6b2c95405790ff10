"""What the reality check changes in Table 1: ours beside theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from goalmeter.experiments.reflection_table_1.compute import (
    PUBLISHED_NAMES,
    STEPS,
    Row,
    as_published,
)
from goalmeter.pages.reflection.pairs import LOWERS, RAISES, SAME, UNTOLD, verdict
from goalmeter.reflection import compare
from goalmeter.report.numbers import plus
from goalmeter.statistics.welch import TOO_FEW, reach


@dataclass(frozen=True)
class Estimate:
    """A number with its standard error and an interval, whose ends are NaN for too few seeds."""

    value: float
    error: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Effect:
    """What the reality check changes: ours, and theirs from the published numbers.

    `paired` says whether ours is of pairs of runs; where they were not run now it is the
    difference of two numbers of the ledger, as theirs is.
    """

    agent: str
    steps: int
    ours: Estimate
    theirs: Estimate
    paired: bool


def effects(rows: Sequence[Row]) -> list[Effect]:
    """What the reality check changes, for each agent and length that both have numbers for."""
    # An effect takes two rows: the agent's, and that of its reality check.
    by_key = {(row.agent, row.steps): row for row in rows}
    out = []
    for steps in STEPS:
        for agent in PUBLISHED_NAMES:
            inner, checked = by_key.get((agent, steps)), by_key.get((f"rc({agent})", steps))
            if inner is None or checked is None or not (has_ours(inner) and has_ours(checked)):
                continue
            a, b = inner.number, checked.number
            theirs = with_t_interval(
                b.theirs - a.theirs,
                (a.published_error, b.published_error),
                (a.published_seeds, b.published_seeds),
            )
            paired = _paired_estimate(inner, checked)
            ours = paired or with_t_interval(
                b.ours - a.ours, (a.error, b.error), (a.seeds, b.seeds)
            )
            out.append(Effect(agent, steps, ours, theirs, paired is not None))
    return out


def thesis(measured: Sequence[Effect]) -> str:
    """For which agents the reality check raises or lowers the measure, ours beside theirs."""
    parts = []
    for conclusion, text in (
        (RAISES, "raises the measure of"),
        (LOWERS, "lowers that of"),
        (UNTOLD, "has no effect that could be told on"),
        (SAME, "changes nothing about"),
        (TOO_FEW, "has been tried with too few seeds on"),
    ):
        members = [effect for effect in measured if verdict(effect.ours.interval) == conclusion]
        in_order = sorted(members, key=lambda effect: list(PUBLISHED_NAMES).index(effect.agent))
        names = [
            f"{PUBLISHED_NAMES[agent]} ({', '.join(map(_ours_and_theirs, group))})"
            for agent, group in groupby(in_order, key=lambda effect: effect.agent)
        ]
        if names or conclusion == LOWERS:
            parts.append(f"{text} {', '.join(names) or 'none'}")
    # What was tried with too few seeds goes neither way.
    told = [effect for effect in measured if verdict(effect.ours.interval) != TOO_FEW]
    if not told:
        return f"The reality check {'; '.join(parts)}."
    sides = [(_side_of_zero(effect.ours), _side_of_zero(effect.theirs)) for effect in told]
    both = [ours * theirs for ours, theirs in sides if ours and theirs]
    untold = len(sides) - len(both)
    return (
        f"The reality check {'; '.join(parts)}. By the published numbers, in square brackets, it "
        f"goes the same way in {both.count(1)} of {len(told)} comparisons and the other way in "
        f"{both.count(-1)}; in {untold} an interval has 0 inside, so that it cannot be told."
    )


def has_ours(row: Row) -> bool:
    """Whether there is a number of ours, from this run or the ledger."""
    return row.number.ran


def with_t_interval(value: float, errors: Sequence[float], seeds: Sequence[int]) -> Estimate:
    """An estimate with a 95% t interval, from the standard errors of its one or two terms."""
    error = math.hypot(*errors)
    # Welch's degrees of freedom; NaN for too few seeds, and then both ends are NaN.
    half = reach(errors, seeds) * error
    return Estimate(value, error, (value - half, value + half))


def _ours_and_theirs(effect: Effect) -> str:
    ours, theirs = (plus(e.value, 3) for e in (effect.ours, effect.theirs))
    return f"{ours} [{theirs}] at {effect.steps} steps"


def _side_of_zero(estimate: Estimate) -> int:
    """On which side of 0 the interval lies; 0 if it has 0 inside."""
    low, high = estimate.interval
    return (low > 0) - (high < 0)


def _paired_estimate(inner: Row, checked: Row) -> Estimate | None:
    """Ours from runs of this call, paired by environment and seed; None if one is missing."""
    if inner.result is None or checked.result is None:
        return None
    # In the paper's reading of the reality check, which keeps the learning rate to itself.
    published = replace(checked.result, by_seed=as_published(checked.result))
    comparison = compare(inner.result, published)
    rewards = [[t.total_reward for t in r.trials] for r in (inner.result, checked.result)]
    if rewards[0] == rewards[1]:
        # Every run was the same one twice, which is no matter of chance.
        return Estimate(0.0, 0.0, (0.0, 0.0))
    return Estimate(comparison.difference, comparison.stderr, comparison.interval)
