"""Tables of a report on self-reflection: agents, reality checks, environments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from goalmeter.pages.reflection.groups import Group, all_early, labels
from goalmeter.pages.reflection.pairs import Pair
from goalmeter.reflection import Reflection
from goalmeter.reflection.trial import OK
from goalmeter.report import Column, Table
from goalmeter.report.numbers import signed
from goalmeter.statistics.welch import FEWEST

_SHOWN = 3  # environments named where a reality check gains and loses
_NOTHING = "Where every trial ended early, the measure says nothing."
_FEW = f"With fewer than {FEWEST} seeds there is no interval, and nothing is concluded."


def agents_table(group: Group) -> Table:
    """The measure of each agent with its errors, and the trials that ended early."""
    results = group.results
    blind = " An agent that acts blindly gets about 0." if group.both_ways else ""
    return Table(
        caption=_of("Self-reflection of each agent", group),
        columns=(
            Column("agent", numeric=False),
            Column("measure", answer=True),
            "standard error",
            _interval_head(result.confidence for result in results),
            "the paper's “StdErr”",
            "steps",
            "seeds",
            "trials",
            "ended early",
        ),
        rows=tuple(
            (
                label,
                signed_plus(result.measure, 4),
                positive(result.stderr, 4),
                interval(result.interval),
                positive(result.published_stderr, 4),
                str(result.steps),
                str(len(result.by_seed)),
                str(len(result.trials)),
                early(result),
            )
            for label, result in zip(labels(results), results, strict=True)
        ),
        meaning=f"Average reward per step over {_played(group)}, from −1 to 1.{blind}",
        notes=(
            *([f"Not as published: {group.readings}."] if group.readings else []),
            "Standard error and interval are over seeds. The standard error is the standard "
            "deviation divided by the square root of the number of seeds, the interval is "
            "Student's t. The published table divides by the number itself, so its “StdErr” is "
            "too small; it is shown for comparison only.",
            *([_FEW] if _few(results) else []),
            "A trial that ended early counts with the reward that it had.",
            *([_NOTHING] if any(map(all_early, results)) else []),
        ),
    )


def pairs_table(pairs: Sequence[Pair], group: Group) -> Table:
    """What the reality check does to the measure of each agent."""
    level = _interval_head(pair.comparison.confidence for pair in pairs)
    return Table(
        caption=_of("Does the reality check raise the measure?", group),
        columns=(
            Column("agent", numeric=False),
            Column("the reality check", numeric=False, answer=True),
            Column("alone", group="measure"),
            Column("with the check", group="measure"),
            Column("difference", group="in pairs"),
            Column("standard error", group="in pairs"),
            Column(level, group="in pairs"),
        ),
        rows=tuple(
            (
                pair.label,
                pair.verdict,
                signed_plus(pair.inner.measure, 4),
                signed_plus(pair.checked.measure, 4),
                signed_plus(pair.comparison.difference, 4),
                positive(pair.comparison.stderr, 4),
                interval(pair.comparison.interval),
            )
            for pair in pairs
        ),
        meaning="The difference is the measure of the agent's reality check minus that of the "
        "agent itself, in pairs of the same environment and seed. The check raises or lowers the "
        "measure if the interval of the difference does not hold 0.",
        notes=(_FEW,) if _few([pair.inner for pair in pairs]) else (),
    )


def gains_table(pairs: Sequence[Pair], group: Group) -> Table:
    """In which environments each reality check gains and loses."""
    columns = [Column("agent", numeric=False)]
    for side in ("gains", "loses"):
        columns += [Column("in", group=side), Column("most in", numeric=False, group=side)]
    rows = []
    for pair in pairs:
        differences = {name: float(v.mean()) for name, v in pair.by_environment().items()}
        cells = [pair.label]
        for names in pair.told():
            most = [f"{name} {signed_plus(differences[name], 2)}" for name in names[:_SHOWN]]
            cells += [
                f"{len(names)} of {len(differences)}" if pair.seeds >= FEWEST else "–",
                ", ".join(most) or "–",
            ]
        rows.append(tuple(cells))
    return Table(
        caption=_of("In which environments?", group),
        columns=tuple(columns),
        rows=tuple(rows),
        meaning="Environments in which the reality check earns more, or less, reward per step than "
        "the agent itself, averaged over the environment and its opposite, with a 95% t interval "
        "that does not hold 0. About 1 in 20 of the environments where nothing changes is named "
        "by luck.",
    )


def environments_table(group: Group) -> Table:
    """Reward per step in each environment and its opposite, for each agent."""
    results = group.results
    averages = [result.by_environment() for result in results]
    failed = [
        Counter((trial.environment, trial.opposite) for trial in result.failures)
        for result in results
    ]
    rows = []
    for key in sorted(averages[0], key=lambda k: k[1]):
        cells = []
        for result, average, ended in zip(results, averages, failed, strict=True):
            text = signed_plus(average[key], 3)
            if ended[key]:
                text += f" ({ended[key]} of {len(result.by_seed)} ended early)"
            cells.append(text)
        name, opposite = key
        rows.append((f"opposite({name})" if opposite else name, *cells))
    return Table(
        caption=_of("Reward per step, by environment", group),
        columns=(Column("environment", numeric=False), *labels(results)),
        rows=tuple(rows),
        meaning="The average over seeds; the measure is the average of a column.",
    )


def early(result: Reflection) -> str:
    """How many trials ended early, and how."""
    if not result.failures:
        return "0"
    how = ", ".join(f"{n} {outcome}" for outcome, n in result.outcomes.items() if outcome != OK)
    return f"{len(result.failures)} ({how})"


def signed_plus(value: float, digits: int) -> str:
    """A number with its sign; one that rounds to 0 has none, NaN is a dash."""
    if math.isnan(value):
        return "–"
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text.replace("-", "−")


def positive(value: float, digits: int) -> str:
    """A number that is never negative; NaN is a dash."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def interval(ends: tuple[float, float], digits: int = 3) -> str:
    """Both ends; a dash where too few seeds leave no interval."""
    if math.isnan(ends[0]):
        return "–"
    return f"{signed(ends[0], digits)} to {signed(ends[1], digits)}"


def _interval_head(confidences: Iterable[float]) -> str:
    different = set(confidences)
    return f"{different.pop():.0%} interval" if len(different) == 1 else "interval"


def _few(results: Iterable[Reflection]) -> bool:
    return any(len(result.by_seed) < FEWEST for result in results)


def _of(caption: str, group: Group) -> str:
    return f"{caption} ({group.title})" if group.title else caption


def _played(group: Group) -> str:
    if group.both_ways:
        return "all environments and their opposites"
    return "all that was played, opposites of some only"
