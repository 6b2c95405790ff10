"""Self-reflection as a part of a page, for any list of measured agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from goalmeter.pages.part import Part
from goalmeter.pages.reflection import pictures, tables
from goalmeter.pages.reflection.pairs import (
    LOWERS,
    RAISES,
    SAME,
    UNTOLD,
    Group,
    Pair,
    all_early,
    groups,
    labels,
    pairs,
)
from goalmeter.pages.reflection.tables import say
from goalmeter.reflection import Reflection, load
from goalmeter.reflection.result import failures_in_words, seeds_in_words
from goalmeter.report import Finding, Link, Section, Table
from goalmeter.report.numbers import between, percent, plus
from goalmeter.statistics.welch import FEWEST, TOO_FEW

GLOSSARY: dict[str, str] = say("glossary")

_NAMED_FAILURES = 10
_NAMED_IN_SHORT = 2


def part_of_runs(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    """What runs of `goalmeter reflect --out` have to say; see `pages.part`."""
    results = []
    for run in runs:
        tell(f"reading {run}")
        results.append(load(run))
    return part_of(results)


def part_of(results: Sequence[Reflection]) -> Part:
    """What measured agents have to say."""
    return Part(
        **say("part", fewest=FEWEST),
        sections=sections(results),
        findings=findings(results),
        glossary=GLOSSARY,
        tables=short_tables(results),
        runs=[
            {key: value for key, value in result.to_json().items() if key != "environments"}
            for result in results
        ],
    )


def sections(results: Sequence[Reflection]) -> list[Section]:
    """What to show of agents that were measured, in the order given.

    Agents stand beside those that played the same environments for the same steps by the same
    readings; where there are several such groups, each has its own parts, and headings say which.
    An agent X and rc(X) with the same trials are compared.
    """
    out = []
    for number, group in enumerate(groups(results), start=1):
        suffix = f"-{number}" if number > 1 else ""
        compared, _ = pairs(group.results)
        environments = pictures.environments_map(group, name=f"reflection-environments{suffix}")
        parts = [
            _agents(group, number),
            Section(title="In which environments?", figures=(environments,)),
        ]
        parts += [_reality_checks(compared, group, suffix, number)] if compared else []
        table = tables.environments_table(group)
        parts.append(Section(title="Every agent in every environment", tables=(table,)))
        out += [_headed(section, group) for section in parts]
    if notes := pairs(results)[1]:
        out.append(Section(title="Reality checks that are not compared", points=tuple(notes)))
    return out


def short_tables(results: Sequence[Reflection]) -> tuple[Table, ...]:
    """The tables for a terminal: agents, and reality checks where there are some."""
    out: list[Table] = []
    for group in groups(results):
        compared, _ = pairs(group.results)
        out.append(tables.agents_table(group))
        if compared:
            out += [tables.pairs_table(compared, group), tables.gains_table(compared, group)]
    return tuple(out)


def findings(results: Sequence[Reflection]) -> list[Finding]:
    """The page in a few sentences, from the numbers; first what went wrong."""
    lines = [
        Finding(text=line, links=(Link("trials", _anchor("agents", 1)),))
        for line in ended_early(results)
    ]
    for number, group in enumerate(groups(results), start=1):
        start = f"{group.title[0].upper()}{group.title[1:]}: " if group.title else ""
        named = [
            (label, result)
            for label, result in zip(labels(group.results), group.results, strict=True)
            if not all_early(result)
        ]
        named.sort(key=lambda item: -item[1].measure)
        if len(named) > 1:
            most, least = _measured(*named[0]), _measured(*named[-1])
            text = f"{start}Most self-reflection: {most}; least: {least}."
        elif named:
            text = f"{start}Self-reflection: {_measured(*named[0])}."
        if named:
            shown = dict.fromkeys((named[0][0], named[-1][0]))
            table = _agents_table(group, number)
            links = tuple(Link(label, table.row_anchor(label)) for label in shown)
            lines.append(Finding(text=text, links=links))
        compared, _ = pairs(group.results)
        if compared:
            links = (Link("each difference", _anchor("checks", number)),)
            lines.append(Finding(text=f"{start}{thesis(compared)}", links=links))
    return lines


def ended_early(results: Sequence[Reflection]) -> list[str]:
    """How many trials ended early and why, and what is not ranked for it."""
    failed = _failures(results, _NAMED_IN_SHORT)
    if not failed:
        return []
    ended = sum(len(result.failures) for result in results)
    total = sum(len(result.trials) for result in results)
    lines = [
        f"{ended} of {total} trials ended early; they count with the reward that they had. "
        f"{' '.join(failed)}"
    ]
    named = zip(labels(results), results, strict=True)
    if broken := [label for label, result in named if all_early(result)]:
        lines.append(f"Not ranked, since every trial ended early: {', '.join(broken)}.")
    return lines


def thesis(compared: Sequence[Pair]) -> str:
    """For which agents the reality check raises the measure, and for which it lowers it."""
    words = {
        RAISES: "raises the measure of",
        LOWERS: "lowers that of",
        UNTOLD: "makes no clear difference to",
        SAME: "changes nothing about",
        TOO_FEW: "has been tried with too few seeds on",
    }
    parts = []
    for verdict, text in words.items():
        members = [
            pair.label
            if verdict == SAME
            else f"{pair.label} ({plus(pair.comparison.difference, 3)})"
            for pair in compared
            if pair.verdict == verdict
        ]
        # The thesis is that it raises; so that it lowers is answered even where it is "none".
        if members or verdict == LOWERS:
            parts.append(f"{text} {', '.join(members) or 'none'}")
    return f"The reality check {'; '.join(parts)}."


def _measured(label: str, result: Reflection) -> str:
    error = f"{seeds_in_words(result)}, too few for an interval"
    if len(result.by_seed) >= FEWEST:
        error = f"{percent(result.confidence, 0)} interval {between(result.interval, 3)}"
    if result.failures:
        error += f"; {len(result.failures)} of {len(result.trials)} trials ended early"
    return f"{label} with {plus(result.measure, 3)} ({error})"


def _headed(section: Section, group: Group) -> Section:
    title = f"{section.title} ({group.title})" if group.title else section.title
    return replace(section, title=title)


def _anchor(name: str, number: int) -> str:
    """The id of a table of the group of that number."""
    return f"reflection-{number}-{name}"


def _agents_table(group: Group, number: int) -> Table:
    return replace(tables.agents_table(group), anchor=_anchor("agents", number))


def _agents(group: Group, number: int) -> Section:
    return Section(
        tables=(_agents_table(group, number),),
        points=_failures(group.results, _NAMED_FAILURES),
        **say("agents_section"),
    )


def _reality_checks(compared: Sequence[Pair], group: Group, suffix: str, number: int) -> Section:
    return Section(
        tables=(
            replace(tables.pairs_table(compared, group), anchor=_anchor("checks", number)),
            tables.gains_table(compared, group),
        ),
        figures=(
            pictures.pairs_chart(compared, name=f"reflection-pairs{suffix}"),
            pictures.differences_map(compared, name=f"reflection-differences{suffix}"),
        ),
        **say("reality_checks"),
    )


def _failures(results: Sequence[Reflection], most: int) -> tuple[str, ...]:
    """What ended trials early, agent by agent, of so many agents at most."""
    lines = [
        f"{label}: {failures_in_words(result)}."
        for label, result in zip(labels(results), results, strict=True)
        if result.failures
    ]
    if left := len(lines) - most if len(lines) > most else 0:
        more = f"{left} more agent{'s' * (left != 1)} had trials that ended early."
        lines = [*lines[:most], more]
    return tuple(lines)
