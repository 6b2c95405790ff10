"""Report of self-reflection: findings, figures and sections for any list of measured agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from goalmeter.pages import reflection_tables as tables
from goalmeter.pages.part import Part, without
from goalmeter.pages.reflection_tables import AgentGroup, Pair, groups, say
from goalmeter.reflection import Reflection
from goalmeter.reflection import load as load
from goalmeter.reflection.result import failures_in_words, seeds_in_words
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.numbers import between, percent, plus
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import FEWEST

_Averages = Mapping[tuple[str, bool], float]  # by environment, and whether it is the opposite
_TITLES = ("environments", "their opposites")


def environments_map(group: AgentGroup, name: str) -> Figure | None:
    """Draw the reward per step by agent and environment; early ends are hatched."""
    averages = {label: result.by_environment() for label, result in group.named}
    failed = [
        (_TITLES[trial.opposite], label, trial.environment)
        for label, result in group.named
        for trial in result.failures
    ]
    hatched = " In a hatched cell at least one trial ended early." if failed else ""
    return _heat("environments_map", name, averages, failed, hatched=hatched)


def _heat(
    texts: str,
    name: str,
    values: Mapping[str, _Averages],
    failed: Sequence[tuple[str, str, str]] = (),
    **more: object,
) -> Figure | None:
    """Agents by environments, and by their opposites; hatched where trials failed."""
    cells = [
        (_TITLES[opposite], agent, environment, value)
        for way in (False, True)
        for agent, average in values.items()
        for (environment, opposite), value in average.items()
        if opposite == way
    ]
    environments = list(dict.fromkeys(environment for _, _, environment, _ in cells))
    more |= {"agents": len(values), "columns": len(environments)}
    more["extremes"] = " ".join(_extremes(label, average) for label, average in values.items())
    return say.heat(texts, name, cells, list(values), environments, failed, **more)


def _extremes(label: str, average: _Averages) -> str:
    """Where an agent does best and worst, environments and opposites taken together."""
    both = {
        name: float(np.mean([value for key, value in average.items() if key[0] == name]))
        for name in dict.fromkeys(name for name, _ in average)
    }
    best, worst = max(both, key=both.__getitem__), min(both, key=both.__getitem__)
    return (
        f"{label}: most in {best} ({plus(both[best], 2)} with its opposite), least in "
        f"{worst} ({plus(both[worst], 2)})."
    )


def pairs_chart(pairs: Sequence[Pair], name: str) -> Figure:
    """Draw each agent, its reality check and the difference, with intervals."""
    rows = [
        {
            "pair": pair,
            "agent": Estimate(pair.inner.measure, pair.inner.interval, 0, 0),
            "checked": Estimate(pair.checked.measure, pair.checked.interval, 0, 0),
            "change": Estimate(pair.comparison.difference, pair.comparison.interval, 0, 0),
        }
        for pair in pairs
    ]
    few = f" (none for fewer than {FEWEST})" if any(p.seeds < FEWEST for p in pairs) else ""
    return say.dots("pairs_chart", name, [pair.label for pair in pairs], rows, few=few)


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
    out = []
    for group in groups(results):
        end, names = f"-{group.number}" if group.number > 1 else "", {"suffix": group.suffix}
        agents, *checks = _tables(group)
        points = _failures(group.named, 10)
        out.append(say.section("agents_section", agents, points=points, **names))
        picture = environments_map(group, f"reflection-environments{end}")
        out.append(say.section("environments_section", picture, **names))
        if checks:
            changes = {pair.label: pair.comparison.by_environment for pair in group.pairs}
            differences = _heat("differences_map", f"reflection-differences{end}", changes)
            chart = pairs_chart(group.pairs, f"reflection-pairs{end}")
            out.append(say.section("reality_checks", checks, chart, differences, **names))
        out.append(say.section("all_section", tables.table(group, "environments"), **names))
    if notes := tables.pairs(results)[1]:
        out.append(say.section("not_compared", points=notes))
    return out


def short_tables(results: Sequence[Reflection]) -> tuple[Table, ...]:
    """Return the tables for a terminal: agents and, if there are any, reality checks."""
    return tuple(table for group in groups(results) for table in _tables(group))


def _tables(group: AgentGroup) -> list[Table]:
    names = ("agents", "pairs", "gains") if group.pairs else ("agents",)
    return [tables.table(group, name) for name in names]


def findings(results: Sequence[Reflection]) -> list[Finding]:
    """Return the findings, first the failures."""
    lines = []
    for group in groups(results):
        start = f"{group.title[0].upper()}{group.title[1:]}: " if group.title else ""
        ranked = [(label, result) for label, result in group.named if not tables.all_early(result)]
        ranked.sort(key=lambda item: -item[1].measure)
        if ranked:
            ends = dict(ranked[:1] + ranked[-1:])
            most, *least = [_measured(label, result) for label, result in ends.items()]
            text = f"{start}Self-reflection: {most}."
            if least:
                text = f"{start}Most self-reflection: {most}; least: {least[0]}."
            row_anchor = tables.table(group, "agents").row_anchor
            links = tuple(Link(label, row_anchor(label)) for label in ends)
            lines.append(Finding(text=text, links=links))
        if group.pairs:
            links = (Link("each difference", group.anchor("pairs")),)
            lines.append(Finding(text=f"{start}{thesis(group.pairs)}", links=links))
    trials = (Link("trials", "reflection-1-agents"),)
    return [*(Finding(text=line, links=trials) for line in ended_early(results)), *lines]


def ended_early(results: Sequence[Reflection]) -> list[str]:
    """Return sentences on trials that ended early and agents that are not ranked."""
    named = list(zip(tables.labels(results), results, strict=True))
    failed = _failures(named, 2)
    if not failed:
        return []
    ended = sum(len(result.failures) for result in results)
    total = sum(len(result.trials) for result in results)
    lines = [
        f"{ended} of {total} trials ended early; they count with the reward that they had. "
        f"{' '.join(failed)}"
    ]
    if broken := [label for label, result in named if tables.all_early(result)]:
        lines.append(f"Not ranked, since every trial ended early: {', '.join(broken)}.")
    return lines


def thesis(compared: Sequence[Pair]) -> str:
    """Return the sentence on which agents' measure the reality check raises or lowers."""
    parts = []
    for verdict, text in say("thesis").items():
        members = [
            pair.label + f" ({plus(pair.comparison.difference, 3)})" * (verdict != tables.SAME)
            for pair in compared
            if pair.verdict == verdict
        ]
        # The thesis is that it raises; so that it lowers is answered even where it is "none".
        if members or verdict == tables.LOWERS:
            parts.append(f"{text} {', '.join(members) or 'none'}")
    return f"The reality check {'; '.join(parts)}."


def _measured(label: str, result: Reflection) -> str:
    error = f"{seeds_in_words(result)}, too few for an interval"
    if len(result.by_seed) >= FEWEST:
        error = f"{percent(result.confidence, 0)} interval {between(result.interval, 3)}"
    if result.failures:
        error += f"; {len(result.failures)} of {len(result.trials)} trials ended early"
    return f"{label} with {plus(result.measure, 3)} ({error})"


def _failures(named: Sequence[tuple[str, Reflection]], most: int) -> list[str]:
    """What ended trials early, agent by agent, of so many agents at most."""
    lines = [f"{label}: {failures_in_words(r)}." for label, r in named if r.failures]
    left = len(lines) - most
    more = [f"{left} more agent{'s' * (left != 1)} had trials that ended early."]
    return lines[:most] + (more if left > 0 else [])
