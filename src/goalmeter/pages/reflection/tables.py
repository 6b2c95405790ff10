"""Tables of self-reflection: of a report on many agents, and of the command that measures one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

from goalmeter.pages.prose import prose
from goalmeter.pages.reflection.pairs import Group, Pair, all_early, labels
from goalmeter.reflection import Comparison, Reflection
from goalmeter.reflection.environments.registry import opposite
from goalmeter.reflection.result import (
    TOO_FEW,
    doubt,
    early_in_words,
    failures_in_words,
    readings_in_words,
    seeds_in_words,
)
from goalmeter.reflection.trial import OK, TIMEOUT
from goalmeter.report import Table
from goalmeter.report.numbers import DASH, between, number, percent, plus
from goalmeter.report.table_of import ColumnOf, column, grouped, summary_table, table_of, words
from goalmeter.statistics.welch import FEWEST

say = partial(prose, "reflection")  # the texts of `prose.toml`
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
            *say("agents")["notes"],
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
        notes=(_FEW,) if _few([pair.inner for pair in pairs]) else (),
        **say("pairs"),
    )


def gains_table(pairs: Sequence[Pair], group: Group) -> Table:
    """In which environments each reality check gains and loses."""

    def counted(pair: Pair, side: int) -> str | None:
        names = pair.told()[side]
        return f"{len(names)} of {len(pair.by_environment())}" if pair.seeds >= FEWEST else None

    def named(pair: Pair, side: int) -> str:
        differences = pair.by_environment()
        most = pair.told()[side][:_SHOWN]
        texts = [f"{name} {plus(float(differences[name].mean()), 2)}" for name in most]
        return ", ".join(texts) or DASH

    return table_of(
        pairs,
        (
            words("agent", lambda pair: pair.label),
            *grouped(
                "gains",
                column("in", lambda pair: counted(pair, 0)),
                words("most in", lambda pair: named(pair, 0)),
            ),
            *grouped(
                "loses",
                column("in", lambda pair: counted(pair, 1)),
                words("most in", lambda pair: named(pair, 1)),
            ),
        ),
        caption=_of("In which environments?", group),
        **say("gains"),
    )


def environments_table(group: Group) -> Table:
    """Reward per step in each environment and its opposite, for each agent."""
    results = group.results
    averages = [result.by_environment() for result in results]
    ended = [Counter((t.environment, t.opposite) for t in result.failures) for result in results]

    def reward(i: int, label: str) -> ColumnOf[tuple[str, bool]]:
        def cell(key: tuple[str, bool]) -> str:
            early = f" ({ended[i][key]} of {len(results[i].by_seed)} ended early)"
            return plus(averages[i][key], 3) + early * (key in ended[i])

        return column(label, cell)

    return table_of(
        sorted(averages[0], key=lambda key: key[1]),
        (
            words("environment", lambda key: opposite(key[0]) if key[1] else key[0]),
            *(reward(i, label) for i, label in enumerate(labels(results))),
        ),
        caption=_of("Reward per step, by environment", group),
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


# --- One agent, as `goalmeter reflect` shows it ---------------------------------------------------
def rewards_table(result: Reflection, less: Reflection | None = None) -> Table:
    """Reward per step in each environment and its opposite, with its spread over seeds.

    Args:
        result: of the agent.
        less: of the agent it is compared with.
    """
    # An environment may have been played in one way only; the cells of the other are dashes.
    averages, spreads = result.by_environment(), result.spread()
    compared = less.by_environment() if less is not None else {}
    ended = Counter(trial.environment for trial in result.failures)

    def way(group: str, is_opposite: bool) -> tuple[ColumnOf[str], ...]:
        def key(name: str) -> tuple[str, bool]:
            return name, is_opposite

        return grouped(
            group,
            column("mean", lambda name: averages.get(key(name)), lambda mean: plus(mean, 3)),
            column("sd", lambda name: spreads.get(key(name)), lambda sd: number(sd, 3)),
            *([column("less", lambda name: above(key(name)))] if less is not None else []),
        )

    def above(key: tuple[str, bool]) -> str | None:
        return plus(averages[key] - compared[key], 3) if key in averages else None

    against = f"; “less” says by how much it is above {less.agent}" if less is not None else ""
    return table_of(
        dict.fromkeys(name for name, _ in averages),
        (
            words("environment", lambda name: name),
            *way("reward", False),
            *way("opposite", True),
            *([column("ended early", lambda name: ended[name])] if ended else []),
        ),
        **say("rewards", result=result, seeds=seeds_in_words(result), against=against),
    )


def measure_table(
    result: Reflection,
    against: Reflection | None,
    comparison: Comparison | None,
    baselines: dict[str, Reflection],
) -> Table:
    """The measure and everything that defends it, as names and numbers."""
    rows = result.summary()
    rows += [(f"baseline: {name}", _with_error(baseline)) for name, baseline in baselines.items()]
    if against is not None and comparison is not None:
        rows += [(against.agent, _with_error(against)), *comparison.summary()]
    texts = say("measure", agent=result.agent)
    notes = [*texts.pop("notes")]
    if math.isnan(result.interval[0]):
        notes.append(f"No interval: {TOO_FEW}.")
    if result.readings:
        notes.append(f"Not as published: {readings_in_words(result)}.")
    if baselines and len(first := next(iter(baselines.values())).seeds) < len(result.seeds):
        notes.append(f"The baselines were played with {len(first)} of the seeds.")
    both = [result] if against is None else [result, against]
    notes += [f"{r.agent}: {early}." for r in both if (early := failures_in_words(r))]
    if any(TIMEOUT in r.outcomes for r in both):
        notes.append("A trial is given more time with --timeout, in a new run (0: no limit).")
    return summary_table(rows, notes=notes, **texts)


def early_text(result: Reflection, against: Reflection | None) -> str:
    """A line for each agent with trials that ended early, to be read before any number."""
    both = [result] if against is None else [result, against]
    return "\n".join(f"{r.agent}: {early}{doubt(r)}" for r in both if (early := early_in_words(r)))


def _with_error(result: Reflection) -> str:
    early = f", {ended}" if (ended := early_in_words(result)) else ""
    return f"{plus(result.measure, 6)} ± {number(result.stderr, 6)}{early}{doubt(result)}"
