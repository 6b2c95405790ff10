"""Compare agents with their reality checks: verdicts, and environments that gain or lose."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.reflection.result import Comparison, Reflection, all_early, compare
from goalmeter.statistics.verdicts import FEWEST, TOO_FEW, reach


# --- Names ----------------------------------------------------------------------------------------
def describe_readings(result: Reflection) -> str:
    """Describe unpublished readings, such as "opposite reading unnegated"; "" for none."""
    return ", ".join(f"{name.replace('_', ' ')} {v}" for name, v in result.readings.items())


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
    return numbered(names, "{} ({})")


def numbered(names: Sequence[str], form: str) -> list[str]:
    """The names, those that are there several times with a number."""
    return [
        form.format(name, names[: i + 1].count(name)) if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]


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
    def has_few_seeds(self) -> bool:
        """Whether there are too few pairs of runs for an interval."""
        return len(self.inner.by_seed) < FEWEST

    @property
    def verdict(self) -> str:
        """What the reality check does to the measure."""
        # An interval that holds 0 does not tell "changes nothing" from "inconclusive".
        rewards = [[t.total_reward for t in r.trials] for r in (self.inner, self.checked)]
        if rewards[0] == rewards[1] and not self.has_few_seeds:
            return SAME
        return verdict(self.comparison.interval)

    @cached_property
    def by_environment(self) -> dict[str, FloatArray]:
        """Environment -> difference for each seed, [seeds], averaged over it and its opposite."""
        before, after = _by_seed(self.inner), _by_seed(self.checked)
        return {name: after[name] - before[name] for name in before}

    def told(self) -> tuple[list[str], list[str]]:
        """Environments where it gains and where it loses, most first: 95% t intervals without 0."""
        # An environment and its opposite count as one, since what is gained in one alone by acting
        # blindly is lost in the other.
        if self.has_few_seeds:
            return [], []
        n = len(self.inner.by_seed)
        width = reach([1.0], [n]) / math.sqrt(n)
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
            reason = "they differ in environments, steps, seeds or readings"
            both = {label: inner, checked_label: checked}
            if unfinished := [name for name, result in both.items() if all_early(result)]:
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
    ways: dict[str, list[FloatArray]] = {}
    for (name, _), totals in result.totals().items():
        ways.setdefault(name, []).append(np.array(totals) / result.steps)
    return {name: np.mean(of_name, axis=0) for name, of_name in ways.items()}
