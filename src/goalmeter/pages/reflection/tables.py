"""Tables of a report on self-reflection: agents, reality checks, environments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from goalmeter.pages.reflection.groups import Group, all_early, labels
from goalmeter.pages.reflection.pairs import Pair
from goalmeter.reflection import Reflection
from goalmeter.reflection.trial import OK
from goalmeter.report import Column, Table
from goalmeter.report.numbers import DASH, between, number, percent, plus
from goalmeter.report.table_of import column, grouped, table_of, words
from goalmeter.statistics.welch import FEWEST

_SHOWN = 3  # environments named where a reality check gains and loses
_NOTHING = "Where every trial ended early, the measure says nothing."
_FEW = f"With fewer than {FEWEST} seeds there is no interval, and nothing is concluded."


def agents_table(group: Group) -> Table:
    """The measure of each agent with its errors, and the trials that ended early."""
    results = group.results
    blind = " An agent that acts blindly gets about 0." if group.both_ways else ""
    return table_of(
        list(zip(labels(results), results, strict=True)),
        (
            words("agent", lambda row: row[0]),
            column("measure", lambda row: plus(row[1].measure, 4), answer=True),
            column("standard error", lambda row: number(row[1].stderr, 4)),
            column(
                _interval_head(result.confidence for result in results),
                lambda row: between(row[1].interval, 3),
            ),
            column("the paper's “StdErr”", lambda row: number(row[1].published_stderr, 4)),
            column("steps", lambda row: row[1].steps),
            column("seeds", lambda row: len(row[1].by_seed)),
            column("trials", lambda row: len(row[1].trials)),
            column("ended early", lambda row: early(row[1])),
        ),
        caption=_of("Self-reflection of each agent", group),
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
    return table_of(
        pairs,
        (
            words("agent", lambda pair: pair.label),
            words("the reality check", lambda pair: pair.verdict, answer=True),
            *grouped(
                "measure",
                column("alone", lambda pair: plus(pair.inner.measure, 4)),
                column("with the check", lambda pair: plus(pair.checked.measure, 4)),
            ),
            *grouped(
                "in pairs",
                column("difference", lambda pair: plus(pair.comparison.difference, 4)),
                column("standard error", lambda pair: number(pair.comparison.stderr, 4)),
                column(level, lambda pair: between(pair.comparison.interval, 3)),
            ),
        ),
        caption=_of("Does the reality check raise the measure?", group),
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
            most = [f"{name} {plus(differences[name], 2)}" for name in names[:_SHOWN]]
            cells += [
                f"{len(names)} of {len(differences)}" if pair.seeds >= FEWEST else DASH,
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
            text = plus(average[key], 3)
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


def _interval_head(confidences: Iterable[float]) -> str:
    different = set(confidences)
    return f"{percent(different.pop(), 0)} interval" if len(different) == 1 else "interval"


def _few(results: Iterable[Reflection]) -> bool:
    return any(len(result.by_seed) < FEWEST for result in results)


def _of(caption: str, group: Group) -> str:
    return f"{caption} ({group.title})" if group.title else caption


def _played(group: Group) -> str:
    if group.both_ways:
        return "all environments and their opposites"
    return "all that was played, opposites of some only"
