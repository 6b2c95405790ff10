"""Measured agents as a report shows them: by label, and in pairs with their reality checks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.reflection import Comparison, Reflection, compare

RAISES, LOWERS, UNTOLD, SAME = "raises", "lowers", "no difference told", "changes nothing"


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
        """What the reality check does to the measure; one seed tells no difference."""
        rewards = [[t.total_reward for t in r.trials] for r in (self.inner, self.checked)]
        if rewards[0] == rewards[1]:
            return SAME
        return verdict(self.comparison.interval) if self.seeds > 1 else UNTOLD

    def by_environment(self) -> dict[str, FloatArray]:
        """Environment -> difference for each seed, [seeds], averaged over it and its opposite."""
        before, after = _by_seed(self.inner), _by_seed(self.checked)
        return {name: after[name] - before[name] for name in before}

    def told(self) -> tuple[list[str], list[str]]:
        """Environments where it gains and where it loses, most first: 95% t intervals without 0.

        An environment and its opposite count as one, since what is gained in one alone by acting
        blindly is lost in the other.
        """
        differences = self.by_environment()
        n = self.seeds
        if n < 2:
            return [], []
        from scipy.stats import t

        width = float(t.ppf(0.975, n - 1)) / np.sqrt(n)
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
    """What an interval of a difference says."""
    low, high = interval
    if low == high == 0:
        return SAME
    return RAISES if low > 0 else LOWERS if high < 0 else UNTOLD


def labels(results: Sequence[Reflection]) -> list[str]:
    """A name for each: the agent's, with the steps or a number where names alone would not do.

    Of a user's agent the file is named without its folder.
    """
    by_steps = len({result.steps for result in results}) > 1
    agents = [re.sub(r"[^()]*[/\\](?=[^/\\]+\.py:)", "", result.agent) for result in results]
    names = [
        f"{agent}, {result.steps} steps" if by_steps else agent
        for agent, result in zip(agents, results, strict=True)
    ]
    total, seen = Counter(names), Counter[str]()
    out = []
    for name in names:
        seen[name] += 1
        out.append(f"{name} ({seen[name]})" if total[name] > 1 else name)
    return out


def pairs(results: Sequence[Reflection]) -> tuple[list[Pair], list[str]]:
    """Every agent with its reality check, and a sentence for those that cannot be compared.

    They are compared where both were measured in the same environments for the same steps and
    seeds.
    """
    named = labels(results)
    out, notes = [], []
    for checked, checked_label in zip(results, named, strict=True):
        inner = inner_name(checked.agent)
        found = [
            (result, label)
            for result, label in zip(results, named, strict=True)
            if result.agent.strip() == inner and result.steps == checked.steps
        ]
        for result, label in found:
            try:
                comparison = compare(result, checked)
            except InvalidParameterError as error:
                notes.append(f"{label} and {checked_label} are not compared: {error}.")
                continue
            out.append(Pair(result, checked, label, checked_label, comparison))
    return out, notes


def inner_name(agent: str) -> str | None:
    """X of "rc(X)"; None for an agent that is no reality check."""
    found = re.fullmatch(r"\s*rc\((.+)\)\s*", agent, re.DOTALL)
    return found[1].strip() if found else None


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
