"""Soft planning against every world that is still possible.

With a uniform reference the soft value of a state is taken relative to free choice,

    W_t(s) = log 1/A sum_a exp(E[b u + W_{t+1}(s')]),    W = 0 after the last decision and the end,

so that a decision that is not made, or changes nothing, counts nothing, and MEG at rationality b is
b E[sum u] - E W_0(start). Expectations are replaced by their upper (lower) bounds over the
confidence set; since W grows with each of them, the recursion bounds W_0 of the true world.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.bounds.confidence import ConfidenceSet
from goalmeter.meg.simulator.utilities.named_utilities import Range

# Which of the possible worlds: the one as observed, or the most or least favourable.
AS_SEEN, MOST, LEAST = "as seen", "most", "least"


@dataclass(frozen=True)
class Plan:
    """A soft plan against a set of worlds.

    Attributes:
        value: W or its bound, [H + 1, S].
        policy: the plan's choices, [H, S, A].
        slack: how far each pair's expectation lies above that of the frequencies, [H, S * A].
    """

    value: FloatArray
    policy: FloatArray
    slack: FloatArray


@dataclass(frozen=True)
class PossibleWorlds:
    """The worlds of a confidence set, with a horizon and a range of utilities.

    Attributes:
        worlds: the set.
        n_actions: A.
        horizon: H.
        ranges: of each utility, [U].
    """

    worlds: ConfidenceSet
    n_actions: int
    horizon: int
    ranges: tuple[Range, ...]

    @property
    def n_states(self) -> int:
        """States that were met."""
        return len(self.worlds.arrays.certain) // self.n_actions

    def paid(self, weights: FloatArray) -> FloatArray:
        """What a weighted sum of the utilities pays with each outcome, [P, K]; weights [U]."""
        return np.asarray(self.worlds.arrays.paid @ weights)

    def most(self, weights: FloatArray) -> tuple[FloatArray, float]:
        """The most conceivable of a weighted sum from a decision on, [H + 1], and in one."""
        parts = [r.scaled(w) for r, w in zip(self.ranges, weights, strict=True) if w != 0]
        one = sum(part.high for part in parts)
        left = np.arange(self.horizon, -1, -1)
        total = np.zeros(left.shape)
        for part in parts:
            # An episode may end at any time, and then pays nothing more.
            total += np.maximum(np.minimum(part.high * left, part.most), 0.0)
        return total, float(one)

    def soft_plan(self, weights: FloatArray, which: str = AS_SEEN) -> Plan:
        """The soft-optimal plan for a weighted sum of the utilities, rationality 1.

        Args:
            weights: of the utilities, [U]; the rationality is part of them.
            which: the frequencies as they are, or the bound over all possible worlds.
        """
        paid = self.paid(weights)
        most, one = self.most(weights)
        least, least_one = self.most(-weights)
        after = self.worlds.arrays.after
        value = np.zeros((self.horizon + 1, self.n_states))
        policy = np.zeros((self.horizon, self.n_states, self.n_actions))
        slack = np.zeros((self.horizon, after.shape[0]))
        for t in reversed(range(self.horizon)):
            worth = paid + np.append(value[t + 1], 0.0)[after]
            high = one + most[t + 1]
            low = -(least_one + least[t + 1])
            if which == LEAST:
                q = self.worlds.lowest(worth, low)
            elif which == MOST:
                # What is listed cannot be worth more than what is conceivable.
                q = self.worlds.highest(np.minimum(worth, high), high)
                slack[t] = q - self.worlds.mean(worth, high)
            else:
                # Nothing is known of a pair without draws: it is as good as free choice.
                q = self.worlds.mean(worth, 0.0)
            choice = q.reshape(self.n_states, self.n_actions)
            best = choice.max(axis=1)
            soft = best + np.log(np.exp(choice - best[:, None]).sum(axis=1))
            policy[t] = np.exp(choice - soft[:, None])
            value[t] = soft - np.log(self.n_actions)
            if which != AS_SEEN:
                value[t] = np.clip(value[t], -least[t], most[t])
        return Plan(value, policy, slack)

    def evaluate(
        self, policy: FloatArray, weights: FloatArray, which: str, cost: FloatArray | None = None
    ) -> FloatArray:
        """Bound of what a policy collects of a weighted sum from each state at the start, [S].

        Args:
            policy: [H or 1, S, A].
            weights: of the utilities, [U].
            which: as of `soft_plan`.
            cost: of each decision, added to what is collected, [H or 1, S]; at least 0.
        """
        paid = self.paid(weights)
        most, one = self.most(weights)
        least, least_one = self.most(-weights)
        ceiling = 0.0 if cost is None else float(cost.max(initial=0.0))
        after = self.worlds.arrays.after
        value = np.zeros(self.n_states)
        for t in reversed(range(self.horizon)):
            worth = paid + np.append(value, 0.0)[after]
            left = ceiling * (self.horizon - t - 1)
            high, low = one + most[t + 1] + left, -(least_one + least[t + 1])
            if which == MOST:
                q = self.worlds.highest(np.minimum(worth, high), high)
            elif which == LEAST:
                q = self.worlds.lowest(np.maximum(worth, low), low)
            else:
                q = self.worlds.mean(worth, 0.0)
            chosen = policy[min(t, len(policy) - 1)]
            value = (q.reshape(self.n_states, self.n_actions) * chosen).sum(axis=1)
            if cost is not None:
                value = value + cost[min(t, len(cost) - 1)]
        return value

    def visits(self, plan: Plan, starts: FloatArray) -> FloatArray:
        """How often a plan makes each decision in the world as seen, [H, S * A].

        Args:
            plan: whose policy is followed.
            starts: probability of each state at the start, [S].
        """
        after, frequencies = self.worlds.arrays.after, self.worlds.frequencies
        out = np.zeros((self.horizon, after.shape[0]))
        here = starts
        for t in range(self.horizon):
            out[t] = (here[:, None] * plan.policy[t]).ravel()
            flow = out[t][:, None] * frequencies
            come = np.bincount(after.ravel(), flow.ravel(), minlength=self.n_states + 1)
            here = np.asarray(come[: self.n_states], dtype=np.float64)
        return out
