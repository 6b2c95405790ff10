"""Report of self-reflection: findings, figures and sections for any list of measured agents."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from goalmeter.pages import Content, Part, Texts, value_at, without
from goalmeter.reflection import Comparison, Reflection
from goalmeter.reflection import load as load
from goalmeter.reflection import reality_checks as reality_checks
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.environments.registry import opposite
from goalmeter.reflection.reality_checks import Pair, describe_readings, labels, pairs
from goalmeter.reflection.result import TOO_FEW as NO_INTERVAL
from goalmeter.reflection.result import (
    all_early,
    doubt,
    early_in_words,
    failures_in_words,
    model_notes,
    readings_in_words,
    seeds_in_words,
)
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.numbers import number, plus
from goalmeter.report.tables import summary_table
from goalmeter.runs.jobs import OK, TIMEOUT
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import FEWEST


def _early(result: Reflection) -> str:
    """How many trials ended early, and how."""
    how = ", ".join(f"{n} {outcome}" for outcome, n in result.outcomes.items() if outcome != OK)
    return f"{len(result.failures)} ({how})" if how else "0"


say = Texts(
    "reflection",
    {"early": _early, "length": lambda values: str(len(values)), "seeds": seeds_in_words},
)


# --- Groups ---------------------------------------------------------------------------------------
class AgentGroup(NamedTuple):
    """Agents measured in the same environments with equal steps and readings."""

    agents: list[tuple[str, Reflection]]  # with their labels
    pairs: list[Pair]  # with their reality checks
    title: str  # how it differs from other groups of a page, and what is not as published
    number: int  # of the group on the page, from 1

    def gains(self) -> Iterator[list[str | None]]:
        """The environments where each reality check gains and loses."""
        for pair in self.pairs:
            changes = pair.by_environment
            row: list[str | None] = [pair.label]
            for names in pair.told():
                most = [f"{name} {plus(float(changes[name].mean()), 2)}" for name in names[:3]]
                count = None if pair.has_few_seeds else f"{len(names)} of {len(changes)}"
                row += [count, ", ".join(most) or None]
            yield row

    def environments(self) -> list[tuple[str, dict[str, str]]]:
        """Each environment, then each opposite, with the reward of each agent."""
        rows: dict[tuple[str, bool], dict[str, str]] = {}
        for label, result in self.agents:
            ended = Counter((t.environment, t.opposite) for t in result.failures)
            for key, value in result.by_environment().items():
                early = f" ({ended[key]} of {len(result.by_seed)} ended early)" * (key in ended)
                rows.setdefault(key, {})[label] = plus(value, 3) + early
        order = sorted(rows, key=itemgetter(1))
        return [(opposite(name) if way else name, rows[name, way]) for name, way in order]


def groups(results: Sequence[Reflection]) -> list[AgentGroup]:
    """Group results that can be compared, in the order of their first agents."""
    members: dict[tuple[_Played, int, object], list[Reflection]] = {}
    for result in results:
        # An average over other environments, lengths or rules is another quantity.
        key = (_played(result), result.steps, frozenset(result.readings.items()))
        members.setdefault(key, []).append(result)
    many_sets, many_lengths = (len(set(map(itemgetter(n), members))) > 1 for n in (0, 1))
    titles = []
    for (played, steps, _), (first, *_) in members.items():
        parts = [
            _environments(played) * many_sets,
            f"{steps} step{'s' * (steps > 1)}" * many_lengths,
            describe_readings(first),
        ]
        titles.append(", ".join(filter(None, parts)) or "as published" * (len(members) > 1))
    named = zip(members.values(), reality_checks.numbered(titles, "{}, {}"), strict=True)
    return [
        AgentGroup([*zip(labels(agents), agents, strict=True)], pairs(agents)[0], title, number)
        for number, (agents, title) in enumerate(named, start=1)
    ]


_Played = frozenset[tuple[str, bool]]  # environments, and whether their opposites are meant


def _played(result: Reflection) -> _Played:
    return frozenset((trial.environment, trial.opposite) for trial in result.trials)


def _environments(played: _Played) -> str:
    """What was played: all of the battery, up to three names, or how many there are."""
    if played == {(e.name, way) for e in BATTERY for way in (False, True)}:
        return f"the battery of {len(BATTERY)} and their opposites"
    both = sorted(name for name, way in played if not way and (name, True) in played)
    alone = sorted(opposite(name) if way else name for name, way in played if name not in both)
    if len(both) + len(alone) <= 3:
        return " and ".join([*(f"{name} with its opposite" for name in both), *alone])
    if not alone:
        return f"{len(both)} environments and their opposites"
    return f"{len(both) + len(alone)} environments, {len(alone)} of them in one way only"


# --- Tables ---------------------------------------------------------------------------------------
def table(group: AgentGroup, name: str) -> Table:
    """Return a table of a group: "agents", "pairs", "gains" or "environments", with such rows."""
    results = [result for _, result in group.agents]
    played = _played(results[0])
    compared = [pair.inner for pair in group.pairs] if name == "pairs" else results
    levels = {result.confidence for result in results}
    return say.table(
        name,
        value_at(group, name),
        number=group.number,
        title=group.title,
        level=levels.pop() if len(levels) == 1 else None,
        both=all((environment, not way) in played for environment, way in played),
        readings=describe_readings(results[0]),
        few=any(len(result.by_seed) < FEWEST for result in compared) and FEWEST,
        meaningless=any(map(all_early, results)),
    )


# --- One agent, as `goalmeter reflect` shows it ---------------------------------------------------
def rewards_table(result: Reflection, less: Reflection | None = None) -> Table:
    """Return the table of reward per step and its spread over seeds, beside another agent's."""
    averages, spreads = result.by_environment(), result.spread()
    compared = {} if less is None else less.by_environment()
    ended = Counter(trial.environment for trial in result.failures)
    # An environment may have been played in one way only; the cells of the other are dashes.
    numbers = {
        key: {"mean": mean, "sd": spreads[key], "less": less and mean - compared[key]}
        for key, mean in averages.items()
    }
    rows = []
    for name in dict.fromkeys(name for name, _ in averages):
        ways = (numbers.get((name, way)) for way in (False, True))
        rows.append((name, *ways, ended[name] if ended else None))
    return say.table("rewards", rows, result=result, against=less.agent if less else "")


def measure_table(
    result: Reflection,
    against: Reflection | None,
    comparison: Comparison | None,
    baselines: dict[str, Reflection],
) -> Table:
    """Return the table of the measure and its errors, as names and numbers."""
    rows = result.summary()
    rows += [(f"baseline: {name}", _with_error(baseline)) for name, baseline in baselines.items()]
    if against is not None and comparison is not None:
        rows += [(against.agent, _with_error(against)), *comparison.summary()]
    first = next(iter(baselines.values()), result)
    both = [result] if against is None else [result, against]
    texts = say(
        "measure",
        agent=result.agent,
        no_interval=NO_INTERVAL if math.isnan(result.interval[0]) else "",
        readings=readings_in_words(result),
        fewer=len(first.seeds) if len(first.seeds) < len(result.seeds) else 0,
    )
    notes = _failures([(r.agent, r) for r in both], 2)
    notes += [f"{note}." for r in both for note in model_notes(r)]
    if any(TIMEOUT in r.outcomes for r in both):
        notes.append("A trial is given more time with --timeout, in a new run (0: no limit).")
    return summary_table(rows, notes=(*texts.pop("notes"), *notes), **texts)


def early_text(results: Iterable[Reflection]) -> str:
    """Return a line for each agent with trials that ended early."""
    return "\n".join(f"{r.agent}: {early_in_words(r)}{doubt(r)}" for r in results if r.failures)


def _with_error(result: Reflection) -> str:
    early = f", {early_in_words(result)}" * bool(result.failures) + doubt(result)
    return f"{plus(result.measure, 6)} ± {number(result.stderr, 6)}{early}"


# --- Page -----------------------------------------------------------------------------------------
_Averages = Mapping[tuple[str, bool], float]  # by environment, and whether it is the opposite
_Named = tuple[str, Reflection]  # with a label
_TITLES = ("environments", "their opposites")


def _heat(
    texts: str, name: str, values: Mapping[str, _Averages], results: Iterable[_Named] = ()
) -> Figure | None:
    """Agents by environments, and by their opposites; hatched where trials of results failed."""
    failed = [
        (_TITLES[trial.opposite], label, trial.environment)
        for label, result in results
        for trial in result.failures
    ]
    cells = [
        (_TITLES[opposite], agent, environment, value)
        for agent, average in values.items()
        for (environment, opposite), value in average.items()
    ]
    cells.sort(key=lambda cell: _TITLES.index(cell[0]))
    extremes = []
    for label, average in values.items():
        # Environments and opposites taken together.
        both = {
            name: float(np.mean([value for key, value in average.items() if key[0] == name]))
            for name, _ in average
        }
        most, least = (end(both.items(), key=itemgetter(1)) for end in (max, min))
        extremes.append(say.sentence("extremes", label=label, most=most, least=least))
    counts = {"agents": len(values), "columns": len({cell[2] for cell in cells})}
    counts |= {"hatched": len(failed)}
    return say.heat(texts, name, cells, failed, **counts, extremes=" ".join(extremes))


GLOSSARY: dict[str, str] = say("glossary")


def part_of(results: Sequence[Reflection], tell: Tell | None = None) -> Part:
    """Return the page part of measured agents."""
    return Part(
        **say("part", fewest=FEWEST),
        sections=sections(results),
        findings=findings(results),
        glossary=GLOSSARY,
        tables=short_tables(results),
        runs=[without(result.to_json(), "environments") for result in results],
    )


def sections(results: Sequence[Reflection]) -> list[Section]:
    """Return the sections of measured agents, group by group; X and rc(X) are compared."""
    out: list[Section] = []
    for group in groups(results):
        end, title = f"-{group.number}" if group.number > 1 else "", group.title
        agents, *checks = _tables(group)
        averages = {label: result.by_environment() for label, result in group.agents}
        picture = f"reflection-environments{end}"
        content: dict[str, Sequence[Content | Sequence[Content]]] = {
            "agents_section": [
                agents,
                _failures(group.agents, 10)
                + [f"{note}." for _, result in group.agents for note in model_notes(result)],
            ],
            "environments_section": [_heat("environments_map", picture, averages, group.agents)],
        }
        if checks:
            changes = {pair.label: pair.comparison.by_environment for pair in group.pairs}
            differences = _heat("differences_map", f"reflection-differences{end}", changes)
            rows = [
                {
                    "pair": pair,
                    "agent": Estimate(pair.inner.measure, pair.inner.interval, 0, 0),
                    "checked": Estimate(pair.checked.measure, pair.checked.interval, 0, 0),
                    "change": Estimate(pair.comparison.difference, pair.comparison.interval, 0, 0),
                }
                for pair in group.pairs
            ]
            few = any(pair.has_few_seeds for pair in group.pairs) and FEWEST
            chart = say.dots("pairs_chart", f"reflection-pairs{end}", [*changes], rows, few=few)
            content["reality_checks"] = [checks, chart, differences]
        content["all_section"] = [table(group, "environments")]
        out += say.sections(content, title=title)
    return out + say.sections({"not_compared": pairs(results)[1]})


def short_tables(results: Sequence[Reflection]) -> tuple[Table, ...]:
    """Return the tables for a terminal: agents and, if there are any, reality checks."""
    return tuple(table for group in groups(results) for table in _tables(group))


def _tables(group: AgentGroup) -> list[Table]:
    return [table(group, name) for name in ("agents", "pairs", "gains")[: 3 if group.pairs else 1]]


def findings(results: Sequence[Reflection]) -> list[Finding]:
    """Return the findings, first the failures."""
    links = (Link("trials", "reflection-1-agents"),)
    lines = [Finding(text=text, links=links) for text in ended_early(results)]
    for group in groups(results):
        start = group.title[:1].upper() + group.title[1:] + ": " * bool(group.title)
        ranked = [(label, result) for label, result in group.agents if not all_early(result)]
        ranked.sort(key=lambda item: -item[1].measure)
        if ends := dict(ranked[:1] + ranked[-1:]):
            measured = [
                say("measured", label=label, of=r, failures=len(r.failures))[
                    "interval" if len(r.by_seed) >= FEWEST else "few"
                ]
                for label, r in ends.items()
            ]
            least = measured[-1] if len(ends) > 1 else ""
            text = say.sentence("found", start=start, most=measured[0], least=least)
            row_anchor = table(group, "agents").row_anchor
            places = tuple(Link(label, row_anchor(label)) for label in ends)
            lines.append(Finding(text=text, links=places))
        if group.pairs:
            links = (Link("each difference", f"reflection-{group.number}-pairs"),)
            lines.append(Finding(text=start + thesis(group.pairs), links=links))
    return lines


def ended_early(results: Sequence[Reflection]) -> list[str]:
    """Return sentences on trials that ended early and agents that are not ranked."""
    named = list(zip(labels(results), results, strict=True))
    failed = _failures(named, 2)
    if not failed:
        return []
    broken = ", ".join(label for label, result in named if all_early(result))
    counts = {"ended": sum(len(result.failures) for result in results)}
    counts["trials"] = sum(len(result.trials) for result in results)
    texts = say("ended_early", **counts, failed=" ".join(failed), broken=broken)
    return [text for text in texts.values() if text]


def thesis(compared: Sequence[Pair]) -> str:
    """Return the sentence on which agents' measure the reality check raises or lowers."""
    parts = []
    for kind, text in say("thesis").items():
        members = [
            pair.label + f" ({plus(pair.comparison.difference, 3)})" * (kind != reality_checks.SAME)
            for pair in compared
            if pair.verdict == kind
        ]
        # The thesis is that it raises; so that it lowers is answered even where it is "none".
        if members or kind == reality_checks.LOWERS:
            parts.append(f"{text} {', '.join(members) or 'none'}")
    return f"The reality check {'; '.join(parts)}."


def _failures(named: Sequence[_Named], most: int) -> list[str]:
    """What ended trials early, agent by agent, of so many agents at most."""
    lines = [f"{label}: {failures_in_words(r)}." for label, r in named if r.failures]
    if (left := len(lines) - most) > 0:
        lines[most:] = [f"{left} more agent{'s' * (left != 1)} had trials that ended early."]
    return lines
