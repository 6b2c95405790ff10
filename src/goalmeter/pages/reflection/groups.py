"""Measured agents as a report shows them: by label, and only beside those they compare with."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from goalmeter.reflection import Reflection
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.environments.registry import opposite
from goalmeter.reflection.trial import OK

_NAMED = 3  # environments that are named in a heading; of more their number


@dataclass(frozen=True)
class Group:
    """Agents that played the same environments for the same steps, by the same readings.

    Attributes:
        results: the agents.
        title: in what it differs from the other groups of a page, and what is not as published;
            "" if nothing.
        readings: what is not as published, in words, or "".
    """

    results: tuple[Reflection, ...]
    title: str
    readings: str

    @property
    def played(self) -> frozenset[tuple[str, bool]]:
        """Environments, and whether their opposites are meant."""
        return _played(self.results[0])

    @property
    def both_ways(self) -> bool:
        """Whether every environment was played with its opposite."""
        return all((name, not way) in self.played for name, way in self.played)


def groups(results: Sequence[Reflection]) -> list[Group]:
    """The results in groups that compare, in the order of their first agents."""
    members: dict[object, list[Reflection]] = {}
    for result in results:
        key = (_played(result), result.steps, frozenset(result.readings.items()))
        members.setdefault(key, []).append(result)
    sets = list(members.values())
    many_sets = len({_played(agents[0]) for agents in sets}) > 1
    many_lengths = len({agents[0].steps for agents in sets}) > 1
    words = [in_words(agents[0], environments=many_sets, steps=many_lengths) for agents in sets]
    total, seen = Counter(words), Counter[str]()
    out = []
    for agents, text in zip(sets, words, strict=True):
        seen[text] += 1
        if not text and len(sets) > 1:
            text = "as published"
        title = f"{text}, {seen[text]}" if total[text] > 1 else text
        out.append(Group(tuple(agents), title, readings_in_words(agents[0])))
    return out


def in_words(result: Reflection, *, environments: bool = True, steps: bool = True) -> str:
    """What was played, for a heading: environments, steps, and readings that are not published."""
    parts = [
        _environments(_played(result)) if environments else "",
        f"{result.steps} step{'s' * (result.steps > 1)}" if steps else "",
        readings_in_words(result),
    ]
    return ", ".join(part for part in parts if part)


def readings_in_words(result: Reflection) -> str:
    """What is not read as published, such as "opposite reading unnegated"; "" if all is."""
    return ", ".join(f"{name.replace('_', ' ')} {v}" for name, v in result.readings.items())


def all_early(result: Reflection) -> bool:
    """Whether no trial came to its end, so that the measure says nothing."""
    return all(trial.outcome != OK for trial in result.trials)


def labels(results: Sequence[Reflection]) -> list[str]:
    """A name for each: the agent's, with steps, readings or a number where names would not do.

    Of a user's agent the file is named without its folder.
    """
    by_steps = len({result.steps for result in results}) > 1
    by_readings = len({frozenset(result.readings.items()) for result in results}) > 1
    names = []
    for result in results:
        parts = [re.sub(r"[^()]*[/\\](?=[^/\\]+\.py:)", "", result.agent)]
        if by_steps:
            parts.append(f"{result.steps} steps")
        if by_readings and result.readings:
            parts.append(readings_in_words(result))
        names.append(", ".join(parts))
    total, seen = Counter(names), Counter[str]()
    out = []
    for name in names:
        seen[name] += 1
        out.append(f"{name} ({seen[name]})" if total[name] > 1 else name)
    return out


def _played(result: Reflection) -> frozenset[tuple[str, bool]]:
    return frozenset((trial.environment, trial.opposite) for trial in result.trials)


def _environments(played: frozenset[tuple[str, bool]]) -> str:
    """What was played: all of the battery, a few names, or how many there are."""
    if played == {(e.name, way) for e in BATTERY for way in (False, True)}:
        return f"the battery of {len(BATTERY)} and their opposites"
    both = sorted(name for name, way in played if not way and (name, True) in played)
    alone = sorted(opposite(name) if way else name for name, way in played if name not in both)
    if len(both) + len(alone) <= _NAMED:
        return " and ".join([*(f"{name} with its opposite" for name in both), *alone])
    if not alone:
        return f"{len(both)} environments and their opposites"
    return f"{len(both) + len(alone)} environments, {len(alone)} of them in one way only"
