"""The tables of `goalmeter reflect`."""

from __future__ import annotations

import math
from collections import Counter

from goalmeter.reflection import Comparison, Reflection
from goalmeter.reflection.result import (
    TOO_FEW,
    doubt,
    early_in_words,
    failures_in_words,
    readings_in_words,
    seeds_in_words,
)
from goalmeter.reflection.trial import TIMEOUT
from goalmeter.report import Column, Table
from goalmeter.report.numbers import DASH, number, plus


def environments_table(result: Reflection, other: Reflection | None = None) -> Table:
    """Reward per step in each environment and its opposite, with its spread over seeds."""
    averages, spreads = result.by_environment(), result.spread()
    compared = other.by_environment() if other is not None else {}
    ended = Counter(trial.environment for trial in result.failures)
    columns = [Column("environment", numeric=False)]
    for group in ("reward", "opposite"):
        columns += [Column("mean", group=group), Column("sd", group=group)]
        columns += [Column("less", group=group)] if other is not None else []
    columns += [Column("ended early")] if ended else []
    rows = []
    for name in dict.fromkeys(name for name, _ in averages):
        cells = [name]
        for way in (False, True):
            key = (name, way)
            there = key in averages
            cells.append(plus(averages[key], 3) if there else DASH)
            cells.append(number(spreads[key], 3) if there else DASH)
            if other is not None:
                cells.append(plus(averages[key] - compared[key], 3) if there else DASH)
        if ended:
            cells.append(str(ended[name]))
        rows.append(tuple(cells))
    against = f"; “less” says by how much it is above {other.agent}" if other is not None else ""
    return Table(
        caption=f"Reward per step of {result.agent}, by environment",
        columns=tuple(columns),
        rows=tuple(rows),
        meaning=f"Mean and standard deviation over {seeds_in_words(result)} of {result.steps} "
        f"steps{against}.",
    )


def summary_table(
    result: Reflection,
    other: Reflection | None,
    comparison: Comparison | None,
    baselines: dict[str, Reflection],
) -> Table:
    """The measure and everything that defends it, as names and numbers."""
    rows = result.summary()
    rows += [(f"baseline: {name}", _with_error(baseline)) for name, baseline in baselines.items()]
    if other is not None and comparison is not None:
        rows += [(other.agent, _with_error(other)), *comparison.summary()]
    notes = [
        "Standard error and interval are over seeds. The paper's “StdErr” divides the standard "
        "deviation by their number instead of its root; it is for comparison only."
    ]
    if math.isnan(result.interval[0]):
        notes.append(f"No interval: {TOO_FEW}.")
    if result.readings:
        notes.append(f"Not as published: {readings_in_words(result)}.")
    if baselines and len(first := next(iter(baselines.values())).seeds) < len(result.seeds):
        notes.append(f"The baselines were played with {len(first)} of the seeds.")
    for agent in (result, other):
        if agent is not None and (words := failures_in_words(agent)):
            notes.append(f"{agent.agent}: {words}.")
    if any(TIMEOUT in agent.outcomes for agent in (result, other) if agent is not None):
        notes.append("A trial is given more time with --timeout, in a new run (0: no limit).")
    return Table(
        caption=f"Self-reflection of {result.agent}",
        columns=(Column("", numeric=False), Column("value", numeric=False)),
        rows=tuple(rows),
        meaning="The average reward per step over all environments, from −1 to 1. A trial that "
        "ended early counts with the reward that it had, which is 0 after a timeout or a crash.",
        notes=tuple(notes),
    )


def early_text(result: Reflection, other: Reflection | None) -> str:
    """A line for each agent with trials that ended early, to be read before any number."""
    both = [agent for agent in (result, other) if agent is not None]
    return "\n".join(
        f"{agent.agent}: {words}{doubt(agent)}"
        for agent in both
        if (words := early_in_words(agent))
    )


def _with_error(result: Reflection) -> str:
    early = f", {words}" if (words := early_in_words(result)) else ""
    return f"{plus(result.measure, 6)} ± {number(result.stderr, 6)}{early}{doubt(result)}"
