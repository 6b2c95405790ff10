"""Report of self-reflection: findings, figures and sections for any list of measured agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.pages import reflection_tables
from goalmeter.pages.part import Part
from goalmeter.pages.reflection_tables import (
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
    say,
)
from goalmeter.reflection import Reflection, load
from goalmeter.reflection.result import failures_in_words, seeds_in_words
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.canvas import INK, VERMILION
from goalmeter.report.charts import DotPanel, Dots, Panel, dot_chart, heat_map
from goalmeter.report.numbers import between, percent, plus
from goalmeter.statistics.verdicts import FEWEST, TOO_FEW

# --- Pictures -------------------------------------------------------------------------------------
_PANELS = ((False, "environments"), (True, "their opposites"))


def environments_map(group: Group, *, name: str) -> Figure:
    """Agents by environments: reward per step; trials that ended early are hatched."""
    results = group.results
    averages = [result.by_environment() for result in results]
    columns = list(dict.fromkeys(key[0] for average in averages for key in average))
    failed = [{(t.environment, t.opposite) for t in result.failures} for result in results]
    panels = [
        Panel(
            title=title,
            values=_values(averages, columns, opposite),
            hatched=frozenset(
                (row, column)
                for row, ended in enumerate(failed)
                for column, environment in enumerate(columns)
                if (environment, opposite) in ended
            ),
        )
        for opposite, title in _panels(averages)
    ]
    hatched = " In a hatched cell at least one trial ended early." if any(failed) else ""
    return Figure(
        svg=heat_map(
            name,
            panels,
            rows=labels(results),
            columns=columns,
            label="reward per step, average over seeds",
            # The same for every page, so that colours can be compared from page to page.
            limit=1.0,
        ),
        alt=f"Heat map of {len(results)} agents by {len(columns)} environments and their "
        "opposites, reward per step; the last table has every number. "
        + " ".join(_extremes(label, a) for label, a in zip(labels(results), averages, strict=True)),
        caption="Above: each agent in each environment. Below: in the opposite of each. The "
        f"measure of an agent is the average of its two means on the right.{hatched}",
        wide=True,
    )


def pairs_chart(pairs: Sequence[Pair], *, name: str) -> Figure:
    """Each agent and its reality check, and the difference, with intervals."""
    inner = [pair.inner for pair in pairs]
    checked = [pair.checked for pair in pairs]
    differences = [pair.comparison for pair in pairs]
    panels = [
        DotPanel(
            title="the agent and its reality check",
            x_label="self-reflection, reward per step",
            joined=True,
            series=(
                Dots(
                    label="agent",
                    values=[result.measure for result in inner],
                    intervals=[result.interval for result in inner],
                    colour=VERMILION,
                    marker="s",
                    hollow=True,
                ),
                Dots(
                    label="its reality check",
                    values=[result.measure for result in checked],
                    intervals=[result.interval for result in checked],
                ),
            ),
        ),
        DotPanel(
            title="what the reality check changes",
            x_label="paired difference, reward per step",
            series=(
                Dots(
                    label="difference",
                    values=[difference.difference for difference in differences],
                    intervals=[difference.interval for difference in differences],
                    colour=INK,
                    marker="D",
                ),
            ),
        ),
    ]
    few = f" (none for fewer than {FEWEST})" if any(p.seeds < FEWEST for p in pairs) else ""
    told = "; ".join(
        f"{pair.label}: {plus(pair.inner.measure, 3)}, checked "
        f"{plus(pair.checked.measure, 3)}, {pair.verdict}"
        for pair in pairs
    )
    return Figure(
        svg=dot_chart(name, [pair.label for pair in pairs], panels),
        alt=f"Dot chart of agents and their reality checks. {told}.",
        caption="Each agent with and without its reality check, and the paired difference, with "
        f"bootstrap intervals over seeds{few}. Where the difference lies right of 0, the reality "
        "check raises the measure.",
        wide=True,
    )


def differences_map(pairs: Sequence[Pair], *, name: str) -> Figure:
    """What the reality check changes in each environment and its opposite."""
    changes = [pair.comparison.by_environment for pair in pairs]
    columns = list(dict.fromkeys(key[0] for change in changes for key in change))
    panels = [
        Panel(title=title, values=_values(changes, columns, opposite))
        for opposite, title in _panels(changes)
    ]
    return Figure(
        svg=heat_map(
            name,
            panels,
            rows=[pair.label for pair in pairs],
            columns=columns,
            label="reality check minus agent, reward per step",
            # Rewards run from -1 to 1, so their differences from -2 to 2.
            limit=2.0,
        ),
        alt="Heat map of the difference that the reality check makes, agents by environments. "
        + " ".join(_extremes(p.label, c) for p, c in zip(pairs, changes, strict=True)),
        caption="Where the reality check gains and where it loses. What is gained in an "
        "environment and lost in its opposite does not change the measure.",
        wide=True,
    )


def _panels(averages: Sequence[dict[tuple[str, bool], float]]) -> list[tuple[bool, str]]:
    """Environments and opposites; an environment may have been played in one way only."""
    played = {opposite for average in averages for _, opposite in average}
    return [(opposite, title) for opposite, title in _PANELS if opposite in played]


def _values(
    averages: Sequence[dict[tuple[str, bool], float]], columns: Sequence[str], opposite: bool
) -> FloatArray:
    """[agents, environments]; NaN where an agent was not measured."""
    return np.array(
        [[average.get((column, opposite), np.nan) for column in columns] for average in averages]
    )


def _extremes(label: str, average: dict[tuple[str, bool], float]) -> str:
    """Where an agent does best and worst, environments and opposites taken together."""
    names = dict.fromkeys(name for name, _ in average)
    both = {
        name: float(np.mean([value for key, value in average.items() if key[0] == name]))
        for name in names
    }
    best, worst = max(both, key=both.__getitem__), min(both, key=both.__getitem__)
    return (
        f"{label}: most in {best} ({plus(both[best], 2)} with its opposite), least in "
        f"{worst} ({plus(both[worst], 2)})."
    )


# --- Page -----------------------------------------------------------------------------------------
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
        environments = environments_map(group, name=f"reflection-environments{suffix}")
        parts = [
            _agents(group, number),
            Section(title="In which environments?", figures=(environments,)),
        ]
        parts += [_reality_checks(compared, group, suffix, number)] if compared else []
        table = reflection_tables.environments_table(group)
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
        out.append(reflection_tables.agents_table(group))
        if compared:
            out += [
                reflection_tables.pairs_table(compared, group),
                reflection_tables.gains_table(compared, group),
            ]
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
    return replace(reflection_tables.agents_table(group), anchor=_anchor("agents", number))


def _agents(group: Group, number: int) -> Section:
    return Section(
        tables=(_agents_table(group, number),),
        points=_failures(group.results, _NAMED_FAILURES),
        **say("agents_section"),
    )


def _reality_checks(compared: Sequence[Pair], group: Group, suffix: str, number: int) -> Section:
    return Section(
        tables=(
            replace(
                reflection_tables.pairs_table(compared, group), anchor=_anchor("checks", number)
            ),
            reflection_tables.gains_table(compared, group),
        ),
        figures=(
            pairs_chart(compared, name=f"reflection-pairs{suffix}"),
            differences_map(compared, name=f"reflection-differences{suffix}"),
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
