"""Measured agents as a report shows them: by label, in groups that compare, beside their checks.

Agents stand beside those that played the same environments for the same steps by the same readings,
and an agent is paired with its reality check.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.reflection import Comparison, Reflection, compare
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.environments.registry import opposite
from goalmeter.reflection.trial import OK
from goalmeter.statistics.welch import FEWEST, TOO_FEW, reach

_NAMED = 3  # environments that are named in a heading; of more their number
RAISES, LOWERS, UNTOLD, SAME = "raises", "lowers", "no clear difference", "changes nothing"


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
        # An average over other environments, lengths or rules is another quantity.
        key = (_played(result), result.steps, frozenset(result.readings.items()))
        members.setdefault(key, []).append(result)
    sets = list(members.values())
    many_sets = len({_played(agents[0]) for agents in sets}) > 1
    many_lengths = len({agents[0].steps for agents in sets}) > 1
    titles = [in_words(agents[0], environments=many_sets, steps=many_lengths) for agents in sets]
    titles = _numbered([t or "as published" * (len(sets) > 1) for t in titles], "{}, {}")
    return [
        Group(tuple(agents), title, readings_in_words(agents[0]))
        for agents, title in zip(sets, titles, strict=True)
    ]


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
        # Folders differ from machine to machine, and say nothing of the agent.
        parts = [re.sub(r"[^()]*[/\\](?=[^/\\]+\.py:)", "", result.agent)]
        if by_steps:
            parts.append(f"{result.steps} steps")
        if by_readings and result.readings:
            parts.append(readings_in_words(result))
        names.append(", ".join(parts))
    return _numbered(names, "{} ({})")


def _numbered(names: Sequence[str], form: str) -> list[str]:
    """The names, those that are there several times with a number."""
    return [
        form.format(name, names[: i + 1].count(name)) if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


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


# --- Reality checks -------------------------------------------------------------------------------
@dataclass(frozen=True)
class Pair:
    """An agent and its reality check on the same trials; labels are those of the report."""

    inner: Reflection
    checked: Reflection
    label: str
    checked_label: str
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
        if rewards[0] == rewards[1]:
            return SAME
        return verdict(self.comparison.interval)

    def by_environment(self) -> dict[str, FloatArray]:
        """Environment -> difference for each seed, [seeds], averaged over it and its opposite."""
        before, after = _by_seed(self.inner), _by_seed(self.checked)
        return {name: after[name] - before[name] for name in before}

    def told(self) -> tuple[list[str], list[str]]:
        """Environments where it gains and where it loses, most first: 95% t intervals without 0.

        An environment and its opposite count as one, since what is gained in one alone by acting
        blindly is lost in the other. None are told of fewer than 5 seeds.
        """
        differences = self.by_environment()
        n = self.seeds
        if n < FEWEST:
            return [], []
        width = reach([1.0], [n]) / math.sqrt(n)
        clear = {
            name: float(values.mean())
            for name, values in differences.items()
            # What is left of a difference in rounding is none.
            if abs(values.mean()) > max(width * values.std(ddof=1), 1e-12)
        }
        order = sorted(clear, key=lambda name: (-abs(clear[name]), name))
        gains = [name for name in order if clear[name] > 0]
        return gains, [name for name in order if clear[name] < 0]


def verdict(interval: tuple[float, float]) -> str:
    """What an interval of a difference says; there is none of too few seeds."""
    low, high = interval
    if math.isnan(low):
        return TOO_FEW
    if low == high == 0:
        return SAME
    return RAISES if low > 0 else LOWERS if high < 0 else UNTOLD


def pairs(results: Sequence[Reflection]) -> tuple[list[Pair], list[str]]:
    """Every agent with its reality check, and a sentence for those that cannot be compared.

    They are compared where both were measured in the same environments for the same steps and
    seeds, by the same readings, and played something to the end.
    """
    named = labels(results)
    out, notes = [], []
    for checked, checked_label in zip(results, named, strict=True):
        inner = inner_name(checked.agent)
        compared, reasons = [], []
        for result, label in zip(results, named, strict=True):
            if result.agent.strip() != inner:
                continue
            reason, comparison = _compared(result, checked, label, checked_label)
            if comparison is None:
                reasons.append(f"{label} and {checked_label} are not compared: {reason}.")
            else:
                compared.append(Pair(result, checked, label, checked_label, comparison))
        # Of an agent that was measured in many ways, one is enough.
        out += compared
        notes += [] if compared else reasons
    return out, notes


def _compared(
    inner: Reflection, checked: Reflection, label: str, checked_label: str
) -> tuple[str, Comparison | None]:
    """The comparison, or why there is none."""
    for result, name in ((inner, label), (checked, checked_label)):
        if all_early(result):
            return f"every trial of {name} ended early", None
    try:
        return "", compare(inner, checked)
    except InvalidParameterError:
        return "they differ in environments, steps, seeds or readings", None


def inner_name(agent: str) -> str | None:
    """X of "rc(X)"; None for an agent that is no reality check."""
    match = re.fullmatch(r"\s*rc\((.+)\)\s*", agent, re.DOTALL)
    return match[1].strip() if match else None


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
