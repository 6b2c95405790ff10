"""Report of self-reflection: findings, figures and sections for any list of measured agents."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.pages import Texts
from goalmeter.pages.part import Part, without
from goalmeter.reflection import Comparison, Reflection, compare
from goalmeter.reflection import load as load
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.environments.registry import opposite
from goalmeter.reflection.result import TOO_FEW as NO_INTERVAL
from goalmeter.reflection.result import (
    doubt,
    early_in_words,
    failures_in_words,
    readings_in_words,
    seeds_in_words,
)
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.numbers import between, number, percent, plus
from goalmeter.report.tables import summary_table
from goalmeter.runs.jobs import OK, TIMEOUT
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import FEWEST, TOO_FEW, reach


def _early(result: Reflection) -> str:
    """How many trials ended early, and how."""
    how = ", ".join(f"{n} {outcome}" for outcome, n in result.outcomes.items() if outcome != OK)
    return f"{len(result.failures)} ({how})" if how else "0"


say = Texts("reflection", {"early": _early, "length": lambda values: str(len(values))})


# --- Groups ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class AgentGroup:
    """Agents measured in the same environments with equal steps and readings."""

    results: tuple[Reflection, ...]
    title: str  # how it differs from other groups of a page, and what is not as published
    number: int  # of the group on the page, from 1

    @cached_property
    def named(self) -> list[tuple[str, Reflection]]:
        """Each agent with its label."""
        return list(zip(labels(self.results), self.results, strict=True))

    @cached_property
    def pairs(self) -> list[Pair]:
        """Agents with their reality checks."""
        return pairs(self.results)[0]

    @property
    def suffix(self) -> str:
        """The title behind that of a table or section."""
        return f" ({self.title})" if self.title else ""

    def anchor(self, table: str) -> str:
        """The id of a table."""
        return f"reflection-{self.number}-{table}"


def groups(results: Sequence[Reflection]) -> list[AgentGroup]:
    """Group results that can be compared, in the order of their first agents."""
    members: dict[object, list[Reflection]] = {}
    for result in results:
        # An average over other environments, lengths or rules is another quantity.
        key = (_played(result), result.steps, frozenset(result.readings.items()))
        members.setdefault(key, []).append(result)
    firsts = [agents[0] for agents in members.values()]
    many_sets, many_lengths = len(set(map(_played, firsts))) > 1, len({r.steps for r in firsts}) > 1
    titles = []
    for first in firsts:
        parts = [
            _environments(_played(first)) * many_sets,
            f"{first.steps} step{'s' * (first.steps > 1)}" * many_lengths,
            describe_readings(first),
        ]
        title = ", ".join(part for part in parts if part)
        titles.append(title or "as published" * (len(firsts) > 1))
    named = zip(members.values(), _numbered(titles, "{}, {}"), strict=True)
    return [
        AgentGroup(tuple(agents), title, number)
        for number, (agents, title) in enumerate(named, start=1)
    ]


def describe_readings(result: Reflection) -> str:
    """Describe unpublished readings, such as "opposite reading unnegated"; "" for none."""
    return ", ".join(f"{name.replace('_', ' ')} {v}" for name, v in result.readings.items())


def all_early(result: Reflection) -> bool:
    """Return whether all trials ended early, so that the measure is meaningless."""
    return len(result.failures) == len(result.trials)


def labels(results: Sequence[Reflection]) -> list[str]:
    """Give each result a unique name: the agent's, with steps, readings or a number if needed."""
    by_steps = len({result.steps for result in results}) > 1
    by_readings = len({frozenset(result.readings.items()) for result in results}) > 1
    names = []
    for result in results:
        # Of a user's file without its folder, which differs from machine to machine.
        name = re.sub(r"[^()]*[/\\](?=[^/\\]+\.py:)", "", result.agent)
        name += f", {result.steps} steps" * by_steps
        if by_readings and result.readings:
            name += f", {describe_readings(result)}"
        names.append(name)
    return _numbered(names, "{} ({})")


def _numbered(names: Sequence[str], form: str) -> list[str]:
    """The names, those that are there several times with a number."""
    return [
        form.format(name, names[: i + 1].count(name)) if names.count(name) > 1 else name
        for i, name in enumerate(names)
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


# --- Reality checks -------------------------------------------------------------------------------
RAISES, LOWERS, UNTOLD, SAME = "raises", "lowers", "no clear difference", "changes nothing"


@dataclass(frozen=True)
class Pair:
    """An agent and its reality check on the same trials, by the label of the agent."""

    inner: Reflection
    checked: Reflection
    label: str
    comparison: Comparison

    @property
    def seeds(self) -> int:
        """Pairs of runs behind the interval."""
        return len(self.inner.by_seed)

    @property
    def verdict(self) -> str:
        """What the reality check does to the measure."""
        if self.seeds < FEWEST:
            return TOO_FEW
        # An interval that holds 0 does not tell "changes nothing" from "cannot be told".
        rewards = [[t.total_reward for t in r.trials] for r in (self.inner, self.checked)]
        return SAME if rewards[0] == rewards[1] else verdict(self.comparison.interval)

    @cached_property
    def by_environment(self) -> dict[str, FloatArray]:
        """Environment -> difference for each seed, [seeds], averaged over it and its opposite."""
        before, after = _by_seed(self.inner), _by_seed(self.checked)
        return {name: after[name] - before[name] for name in before}

    def told(self) -> tuple[list[str], list[str]]:
        """Environments where it gains and where it loses, most first: 95% t intervals without 0."""
        # An environment and its opposite count as one, since what is gained in one alone by acting
        # blindly is lost in the other.
        if self.seeds < FEWEST:
            return [], []
        width = reach([1.0], [self.seeds]) / math.sqrt(self.seeds)
        clear = {
            name: float(values.mean())
            for name, values in self.by_environment.items()
            # What is left of a difference in rounding is none.
            if abs(values.mean()) > max(width * values.std(ddof=1), 1e-12)
        }
        order = sorted(clear, key=lambda name: (-abs(clear[name]), name))
        return [x for x in order if clear[x] > 0], [x for x in order if clear[x] < 0]


def verdict(interval: tuple[float, float]) -> str:
    """Return the verdict of an interval of a difference."""
    low, high = interval
    if math.isnan(low):
        return TOO_FEW
    if low == high == 0:
        return SAME
    return RAISES if low > 0 else LOWERS if high < 0 else UNTOLD


def pairs(results: Sequence[Reflection]) -> tuple[list[Pair], list[str]]:
    """Return agents with their reality checks, and sentences on those that are not compared."""
    named = list(zip(results, labels(results), strict=True))
    out, notes = [], []
    for checked, checked_label in named:
        match = re.fullmatch(r"\s*rc\((.+)\)\s*", checked.agent, re.DOTALL)
        compared, reasons = [], []
        for inner, label in named:
            if match is None or inner.agent.strip() != match[1].strip():
                continue
            both = {label: inner, checked_label: checked}
            unfinished = [name for name, result in both.items() if all_early(result)]
            reason = "they differ in environments, steps, seeds or readings"
            if unfinished:
                reason = f"every trial of {unfinished[0]} ended early"
            else:
                with suppress(InvalidParameterError):
                    compared.append(Pair(inner, checked, label, compare(inner, checked)))
                    continue
            reasons.append(f"{label} and {checked_label} are not compared: {reason}.")
        # Of an agent that was measured in many ways, one is enough.
        out += compared
        notes += [] if compared else reasons
    return out, notes


def _by_seed(result: Reflection) -> dict[str, FloatArray]:
    """Environment -> reward per step for each seed, averaged over it and its opposite."""
    totals: dict[str, dict[int, list[float]]] = {}
    for trial in result.trials:
        of_name = totals.setdefault(trial.environment, {})
        of_name.setdefault(trial.seed, []).append(trial.total_reward / result.steps)
    return {
        name: np.array([np.mean(values) for values in of_name.values()])
        for name, of_name in totals.items()
    }


# --- Tables ---------------------------------------------------------------------------------------
def table(group: AgentGroup, name: str) -> Table:
    """Return a table of a group: "agents", "pairs", "gains" or "environments"."""
    results, anchor, before, notes = group.results, "", [], []
    played = _played(results[0])
    both = all((environment, not way) in played for environment, way in played)
    if name in ("agents", "pairs"):
        anchor = group.anchor(name)
        compared = [pair.inner for pair in group.pairs] if name == "pairs" else results
        if any(len(result.by_seed) < FEWEST for result in compared):
            few = f"With fewer than {FEWEST} seeds there is no interval, and nothing is concluded."
            notes.append(few)
    if name == "agents":
        readings = describe_readings(results[0])
        before = [f"Not as published: {readings}."] * bool(readings)
        notes.append("A trial that ended early counts with the reward that it had.")
        if any(map(all_early, results)):
            notes.append("Where every trial ended early, the measure says nothing.")
    levels = {result.confidence for result in results}
    opposites = "all environments and their opposites"
    texts = {
        "title": group.suffix,
        "interval": f"{percent(levels.pop(), 0)} interval" if len(levels) == 1 else "interval",
        "played": opposites if both else "all that was played, opposites of some only",
        "blind": " An agent that acts blindly gets about 0." * both,
    }
    rows = _ROWS[name](group)
    return say.table(name, rows, anchor=anchor, before=before, notes=notes, **texts)


def _gains(group: AgentGroup) -> Iterator[list[str | None]]:
    """The environments where each reality check gains and loses."""
    for pair in group.pairs:
        changes = pair.by_environment
        row: list[str | None] = [pair.label]
        for names in pair.told():
            row.append(f"{len(names)} of {len(changes)}" if pair.seeds >= FEWEST else None)
            most = [f"{name} {plus(float(changes[name].mean()), 2)}" for name in names[:3]]
            row.append(", ".join(most) or None)
        yield row


def _by_way(group: AgentGroup) -> list[tuple[str, dict[str, str]]]:
    """Each environment, then each opposite, with the reward of each agent."""
    rows: dict[tuple[str, bool], dict[str, str]] = {}
    for label, result in group.named:
        ended = Counter((t.environment, t.opposite) for t in result.failures)
        for key, value in result.by_environment().items():
            early = f" ({ended[key]} of {len(result.by_seed)} ended early)" * (key in ended)
            rows.setdefault(key, {})[label] = plus(value, 3) + early
    order = sorted(rows, key=lambda key: key[1])
    return [(opposite(name) if way else name, rows[name, way]) for name, way in order]


_ROWS: dict[str, Callable[[AgentGroup], Iterable[Any]]] = {
    "agents": lambda group: group.named,
    "pairs": lambda group: group.pairs,
    "gains": _gains,
    "environments": _by_way,
}


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
        early = ended[name] if ended else None
        rows.append((name, numbers.get((name, False)), numbers.get((name, True)), early))
    against = f"; “less” says by how much it is above {less.agent}" if less is not None else ""
    seeds = seeds_in_words(result)
    return say.table("rewards", rows, result=result, seeds=seeds, against=against)


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
    texts = say("measure", agent=result.agent)
    notes = [*texts.pop("notes")]
    if math.isnan(result.interval[0]):
        notes.append(f"No interval: {NO_INTERVAL}.")
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
    """Return a line for each agent with trials that ended early."""
    both = [result] if against is None else [result, against]
    return "\n".join(f"{r.agent}: {early}{doubt(r)}" for r in both if (early := early_in_words(r)))


def _with_error(result: Reflection) -> str:
    early = f", {ended}" if (ended := early_in_words(result)) else ""
    return f"{plus(result.measure, 6)} ± {number(result.stderr, 6)}{early}{doubt(result)}"


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
    hatched = " In a hatched cell at least one trial ended early." if failed else ""
    cells = [
        (_TITLES[opposite], agent, environment, value)
        for way in (False, True)
        for agent, average in values.items()
        for (environment, opposite), value in average.items()
        if opposite == way
    ]
    environments = list(dict.fromkeys(environment for _, _, environment, _ in cells))
    more = {"agents": len(values), "columns": len(environments), "hatched": hatched}
    extremes = []
    for label, average in values.items():
        # Environments and opposites taken together.
        both = {
            name: float(np.mean([value for key, value in average.items() if key[0] == name]))
            for name in dict.fromkeys(name for name, _ in average)
        }
        best, worst = max(both, key=both.__getitem__), min(both, key=both.__getitem__)
        most, least = f"{best} ({plus(both[best], 2)} with", f"{worst} ({plus(both[worst], 2)})."
        extremes.append(f"{label}: most in {most} its opposite), least in {least}")
    more["extremes"] = " ".join(extremes)
    return say.heat(texts, name, cells, list(values), environments, failed, **more)


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
        averages = {label: result.by_environment() for label, result in group.named}
        name = f"reflection-environments{end}"
        picture = _heat("environments_map", name, averages, group.named)
        out.append(say.section("environments_section", picture, **names))
        if checks:
            changes = {pair.label: pair.comparison.by_environment for pair in group.pairs}
            differences = _heat("differences_map", f"reflection-differences{end}", changes)
            chart = pairs_chart(group.pairs, f"reflection-pairs{end}")
            out.append(say.section("reality_checks", checks, chart, differences, **names))
        out.append(say.section("all_section", table(group, "environments"), **names))
    if notes := pairs(results)[1]:
        out.append(say.section("not_compared", points=notes))
    return out


def short_tables(results: Sequence[Reflection]) -> tuple[Table, ...]:
    """Return the tables for a terminal: agents and, if there are any, reality checks."""
    return tuple(table for group in groups(results) for table in _tables(group))


def _tables(group: AgentGroup) -> list[Table]:
    return [table(group, name) for name in ("agents", "pairs", "gains")[: 3 if group.pairs else 1]]


def findings(results: Sequence[Reflection]) -> list[Finding]:
    """Return the findings, first the failures."""
    lines = []
    for group in groups(results):
        start = f"{group.title[0].upper()}{group.title[1:]}: " if group.title else ""
        ranked = [(label, result) for label, result in group.named if not all_early(result)]
        ranked.sort(key=lambda item: -item[1].measure)
        if ranked:
            ends = dict(ranked[:1] + ranked[-1:])
            most, *least = [_measured(label, result) for label, result in ends.items()]
            text = f"{start}Self-reflection: {most}."
            if least:
                text = f"{start}Most self-reflection: {most}; least: {least[0]}."
            row_anchor = table(group, "agents").row_anchor
            links = tuple(Link(label, row_anchor(label)) for label in ends)
            lines.append(Finding(text=text, links=links))
        if group.pairs:
            links = (Link("each difference", group.anchor("pairs")),)
            lines.append(Finding(text=f"{start}{thesis(group.pairs)}", links=links))
    trials = (Link("trials", "reflection-1-agents"),)
    return [*(Finding(text=line, links=trials) for line in ended_early(results)), *lines]


def ended_early(results: Sequence[Reflection]) -> list[str]:
    """Return sentences on trials that ended early and agents that are not ranked."""
    named = list(zip(labels(results), results, strict=True))
    failed = _failures(named, 2)
    if not failed:
        return []
    ended = sum(len(result.failures) for result in results)
    total = sum(len(result.trials) for result in results)
    lines = [
        f"{ended} of {total} trials ended early; they count with the reward that they had. "
        f"{' '.join(failed)}"
    ]
    if broken := [label for label, result in named if all_early(result)]:
        lines.append(f"Not ranked, since every trial ended early: {', '.join(broken)}.")
    return lines


def thesis(compared: Sequence[Pair]) -> str:
    """Return the sentence on which agents' measure the reality check raises or lowers."""
    parts = []
    for verdict, text in say("thesis").items():
        members = [
            pair.label + f" ({plus(pair.comparison.difference, 3)})" * (verdict != SAME)
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


def _failures(named: Sequence[tuple[str, Reflection]], most: int) -> list[str]:
    """What ended trials early, agent by agent, of so many agents at most."""
    lines = [f"{label}: {failures_in_words(r)}." for label, r in named if r.failures]
    left = len(lines) - most
    more = [f"{left} more agent{'s' * (left != 1)} had trials that ended early."]
    return lines[:most] + (more if left > 0 else [])
