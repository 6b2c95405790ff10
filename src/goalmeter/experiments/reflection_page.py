"""The parts of a report on self-reflection, for any list of measured agents."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments import reflection_pictures as pictures
from goalmeter.experiments import reflection_tables as tables
from goalmeter.experiments.reflection_pairs import LOWERS, RAISES, SAME, UNTOLD, Pair, labels, pairs
from goalmeter.reflection import Reflection
from goalmeter.reflection.result import failures_in_words
from goalmeter.report import Section, Table

GLOSSARY = {
    "Extended environment": "An environment that can ask what the agent would do at any history, "
    "also one that never happened, and may let rewards depend on the answer.",
    "Self-reflection": "An agent's average reward per step over a battery of extended "
    "environments and their opposites, from −1 to 1. It asks: does the agent do well where it "
    "matters what it would have done?",
    "Opposite": "The same environment with every reward multiplied by −1. What an agent gains by "
    "acting blindly in one it loses in the other.",
    "Reality check, rc(agent)": "The agent made to watch itself: where some past action is not "
    "what it would have done, it does for ever what it would do at the first percept.",
    "Paired difference": "Two agents compared in the same environments with the same seeds, so "
    "that the luck they share cancels.",
    "The paper's “StdErr”": "The standard deviation over seeds divided by their number, as in the "
    "published table; a standard error divides by the root of the number.",
}

_NAMED_FAILURES = 10


def sections(results: Sequence[Reflection]) -> list[Section]:
    """What to show of agents that were measured, in the order given.

    An agent X and rc(X) with the same trials are compared. Agents may have been measured in
    different environments, and for different numbers of steps.
    """
    found, notes = pairs(results)
    out = [_agents(results), _environments(results)]
    if found or notes:
        out.append(_reality_checks(found, notes))
    out.append(
        Section(
            title="Every agent in every environment",
            tables=(tables.environments_table(results),),
        )
    )
    return out


def short_tables(results: Sequence[Reflection]) -> tuple[Table, ...]:
    """The tables for a terminal: agents, and reality checks where there are some."""
    found, _ = pairs(results)
    checks = (tables.pairs_table(found), tables.gains_table(found)) if found else ()
    return (tables.agents_table(results), *checks)


def findings(results: Sequence[Reflection]) -> list[str]:
    """The page in a few sentences, from the numbers."""
    named = sorted(zip(labels(results), results, strict=True), key=lambda item: -item[1].measure)
    lines = [f"Self-reflection: {_measured(*named[0])}."]
    if len(named) > 1:
        lines = [f"Most self-reflection: {_measured(*named[0])}; least: {_measured(*named[-1])}."]
    found, _ = pairs(results)
    if found:
        lines.append(thesis(found))
    ended = sum(len(result.failures) for result in results)
    if ended:
        total = sum(len(result.trials) for result in results)
        lines.append(f"{ended} of {total} trials ended early; they count with what they had.")
    return lines


def thesis(found: Sequence[Pair]) -> str:
    """For which agents the reality check raises the measure, and for which it lowers it."""
    words = {
        RAISES: "raises the measure of",
        LOWERS: "lowers that of",
        UNTOLD: "has no effect that could be told on",
        SAME: "changes nothing about",
    }
    parts = []
    for said, text in words.items():
        members = [
            pair.label
            if said == SAME
            else f"{pair.label} ({tables.signed_plus(pair.comparison.difference, 3)})"
            for pair in found
            if pair.verdict == said
        ]
        if members or said == LOWERS:
            parts.append(f"{text} {', '.join(members) or 'none'}")
    return f"The reality check {'; '.join(parts)}."


def _measured(label: str, result: Reflection) -> str:
    text = f"{label} with {tables.signed_plus(result.measure, 3)}"
    if len(result.by_seed) > 1:
        text += f" ({result.confidence:.0%} interval {tables.interval(result.interval, 2)})"
    return text


def _agents(results: Sequence[Reflection]) -> Section:
    return Section(
        title="Self-reflection",
        text=(
            "Extended environments ask what the agent would do: had its rewards been others, had "
            "it forgotten, were there a button in the room. An agent does well in many of them "
            "only if what it does agrees with what it would do, so the average reward over a "
            "battery of them, and of their opposites, measures self-reflection.",
        ),
        tables=(tables.agents_table(results),),
        points=_failures(results),
    )


def _environments(results: Sequence[Reflection]) -> Section:
    return Section(
        title="In which environments?",
        figures=(pictures.environments_map(results, name="reflection-environments"),),
    )


def _reality_checks(found: Sequence[Pair], notes: Sequence[str]) -> Section:
    if not found:
        return Section(title="With and without reality check", points=tuple(notes))
    return Section(
        title="With and without reality check",
        text=(
            "The reality check compares every past action with what the agent would have done, "
            "and freezes where they differ. The paper's thesis is that it raises the "
            "self-reflection of an agent that is intelligent but reflects little. Both play "
            "the same environments with the same seeds, so the difference is taken in pairs.",
        ),
        tables=(tables.pairs_table(found), tables.gains_table(found)),
        figures=(
            pictures.pairs_chart(found, name="reflection-pairs"),
            pictures.differences_map(found, name="reflection-differences"),
        ),
        points=tuple(notes),
    )


def _failures(results: Sequence[Reflection]) -> tuple[str, ...]:
    """What ended trials early, agent by agent."""
    lines = [
        f"{label}: {failures_in_words(result)}."
        for label, result in zip(labels(results), results, strict=True)
        if result.failures
    ]
    if len(lines) > _NAMED_FAILURES:
        left = len(lines) - _NAMED_FAILURES
        lines = [*lines[:_NAMED_FAILURES], f"{left} more agents had trials that ended early."]
    return tuple(lines)
