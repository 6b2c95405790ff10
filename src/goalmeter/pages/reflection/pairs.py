"""Agents in pairs with their reality checks, and what these change."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.pages.reflection.groups import all_early, labels
from goalmeter.reflection import Comparison, Reflection, compare
from goalmeter.statistics.welch import FEWEST, TOO_FEW, reach

RAISES, LOWERS, UNTOLD, SAME = "raises", "lowers", "no clear difference", "changes nothing"


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
        compared, own_notes = [], []
        for result, label in zip(results, named, strict=True):
            if result.agent.strip() != inner:
                continue
            reason, comparison = _compared(result, checked, label, checked_label)
            if comparison is None:
                own_notes.append(f"{label} and {checked_label} are not compared: {reason}.")
            else:
                compared.append(Pair(result, checked, label, checked_label, comparison))
        # Of an agent that was measured in many ways, one is enough.
        out += compared
        notes += [] if compared else own_notes
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
