"""Means over the worlds of a sweep, with intervals: what its rows come to.

An interval speaks of worlds that were not drawn, so it rests on how many were: Student's t, and
none of a single world. Rows that failed are counted and in no mean; values without a certificate
are lower bounds and count as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.sweeps.columns import FAILED, OPEN, Columns
from goalmeter.meg.sweeps.plan import SweepPlan
from goalmeter.report.numbers import nats
from goalmeter.statistics.clustered import Estimate, estimate

# Worlds from which on an interval does without its random draws.
_CROWD = 1000


@dataclass(frozen=True)
class Group:
    """A policy and a utility, over worlds.

    Attributes:
        policy: its name.
        utility: its name.
        policy_arguments: what the policy was made of.
        value: MEG in nats, the mean over worlds.
        fraction: share of the maximum, the mean over worlds.
        measured: rows that have a value.
        open: those among them that are not certified.
        failed: rows that have none.
        at: the argument of the worlds and its value, of worlds that share it; None for all.
    """

    policy: str
    utility: str
    policy_arguments: Mapping[str, Any]
    value: Estimate
    fraction: Estimate
    measured: int
    open: int
    failed: int
    at: tuple[str, Any] | None = None

    def value_in_words(self) -> str:
        """The mean in nats with its interval in brackets, if it has one."""
        if np.isnan(self.value.value):
            return "–"
        text = nats(self.value.value)
        if self.value.interval is None:
            return text
        low, high = self.value.interval
        return f"{text} [{nats(low)}, {nats(high)}]"

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "policy": self.policy,
            "utility": self.utility,
            "value": self.value.to_json(),
            "fraction": self.fraction.to_json(),
            "measured": self.measured,
            "not_certified": self.open,
            "failed": self.failed,
        }


def by_policy_and_utility(plan: SweepPlan, chunks: Sequence[Columns]) -> list[Group]:
    """A group for each policy and utility, over all worlds."""
    table = _Table(plan, chunks)
    return [
        table.group(p, u, slice(None))
        for p in range(len(plan.policies))
        for u in range(len(plan.utilities))
    ]


def by_argument(plan: SweepPlan, chunks: Sequence[Columns], name: str) -> list[Group]:
    """A group for each policy, utility and value of an argument of the worlds.

    Args:
        plan: what was asked for.
        chunks: what was measured.
        name: of the argument; worlds that have none are left out.
    """
    table = _Table(plan, chunks)
    worlds: dict[Any, list[int]] = {}
    for world in range(plan.worlds):
        source, number = plan.place(world)
        arguments = plan.sources[source].arguments(number)
        if name in arguments:
            worlds.setdefault(arguments[name], []).append(world)
    return [
        table.group(p, u, members, (name, value))
        for p in range(len(plan.policies))
        for u in range(len(plan.utilities))
        for value, members in sorted(worlds.items())
    ]


class _Table:
    """Values, shares of the maximum and statuses of all rows, [worlds, policies, utilities]."""

    def __init__(self, plan: SweepPlan, chunks: Sequence[Columns]) -> None:
        self._plan = plan
        shape = (plan.worlds, len(plan.policies), len(plan.utilities))
        self._value = _joined(chunks, "value").reshape(shape)
        maximum = _joined(chunks, "maximum").reshape(shape)
        # Where no decision can matter, the share is 0, as in a single result.
        shares = np.divide(
            self._value, maximum, out=np.zeros(shape), where=(maximum > 0) | np.isnan(maximum)
        )
        self._share: FloatArray = np.minimum(shares, 1.0)
        letters = "".join(chunk.record["status"] for chunk in chunks)
        self._status = np.array(list(letters)).reshape(shape)

    def group(
        self, p: int, u: int, worlds: slice | list[int], at: tuple[str, Any] | None = None
    ) -> Group:
        plan, status = self._plan, self._status[worlds, p, u]
        there = status != FAILED[0]
        policy = plan.policies[p]
        shares = self._share[worlds, p, u][there]
        return Group(
            policy.label,
            plan.utilities[u].label,
            policy.arguments,
            _never_negative(estimate(self._value[worlds, p, u][there])),
            # What one more world at an end would do to the mean is nothing in a crowd, where it
            # would take gigabytes to draw: there Student's t says nearly the same.
            estimate(shares, bounds=(0.0, 1.0), paired=len(shares) > _CROWD),
            int(there.sum()),
            int((status == OPEN[0]).sum()),
            int((~there).sum()),
            at,
        )


def _never_negative(of: Estimate) -> Estimate:
    """An estimate of what cannot be below 0, which Student's t does not know."""
    if of.interval is None:
        return of
    low, high = of.interval
    return replace(of, interval=(max(low, 0.0), high))


def _joined(chunks: Sequence[Columns], name: str) -> FloatArray:
    return np.concatenate([np.array(chunk.numbers(name)) for chunk in chunks])
