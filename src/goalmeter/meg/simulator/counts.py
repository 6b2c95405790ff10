"""MEG of a world that is known by counts of its steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from goalmeter._types import BoolArray, FloatArray, IntArray


# --- Counts ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class CountTable:
    """Counted steps of S * A pairs of a state and an action (pair s * A + a), and of starts."""

    after: IntArray  # next state of each outcome; S for the end and for unused entries, [P, K]
    paid: FloatArray  # payoff of each utility, [P, K, U]
    counts: FloatArray  # number of times each outcome was drawn; 0 for unused entries, [P, K]
    certain: BoolArray  # whether a pair is known to be deterministic, [P]
    starts: FloatArray  # number of episodes that began in each state, [S]
    n_actions: int
    horizon: int

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return len(self.starts)

    @cached_property
    def total(self) -> FloatArray:
        """Number of draws of each pair, [P]."""
        return np.asarray(self.counts.sum(axis=1))

    @cached_property
    def random(self) -> IntArray:
        """Pairs with draws that are not known to be deterministic."""
        return np.asarray(np.flatnonzero(~self.certain & (self.total > 0)))


@dataclass(frozen=True)
class AgentRecord:
    """What is known of an agent: its policy, or an estimate with corrections by its N episodes."""

    policy: FloatArray | None  # [T, S, A]; None if it is not needed
    began: IntArray | None = None  # state in which each episode began, [N]
    # Return of each utility that each episode has beyond that of the policy, [N, U]; None if the
    # policy is known. Their means correct the policy's return.
    corrections: FloatArray | None = None
    # Standard deviation of the corrections by states that no episode visited and by rare answers,
    # [U], which `corrections` lack; None if answers in the same state at the same time differed.
    missing: FloatArray | None = None
    # Whether no episode visited a state at a time, [H, S].
    unvisited: BoolArray | None = None


# --- Models ---------------------------------------------------------------------------------------
# MEG is the maximum over the weights w of w E[sum u] - E W_0(start), with the soft value
# W_t(s) = log 1/A sum_a exp(E[w u + W_{t+1}(s')]). It is concave. Its gradient is the return
# of the agent minus that of the soft-optimal policy, its negative Hessian the covariance that this
# policy accumulates. An action without draws in its state is excluded from all choices.
class Optimum(NamedTuple):
    """MEG and its weights for R models."""

    value: FloatArray  # nats, [R]
    weights: FloatArray  # rationality times the weights of the F payoffs, [F, R]


class Influence(NamedTuple):
    """First-order effect of each part of the data on MEG."""

    outcomes: FloatArray  # of each outcome of each pair, [P, K]
    starts: FloatArray  # of each start, [S]
    visits: FloatArray  # expected visits of each state by the agent and by the soft plan, [S, 2]


# Multiples of the best weights at which soft values give lower bounds of MEG.
MULTIPLES = np.append(4.0 ** np.arange(-6, 6), -(4.0 ** np.arange(-2, 5)))
# Largest weights of payoffs that differ by 1, damping at which a search ends, and number of steps.
_FARTHEST, _MOST_DAMPING, _MOST_STEPS = 1e6, 1e8, 200


class Models:
    """The model of the observed frequencies, R = 1, or R = n models of resampled counts.

    They have the outcomes of one table, and each has the agent's policy in it.
    """

    def __init__(
        self, table: CountTable, agent: AgentRecord, n: int = 0, seed: int | Sequence[int] = 0
    ) -> None:
        generator = np.random.default_rng(seed)

        def shares(counts: FloatArray) -> FloatArray:
            """Shares of counts [I, K], or resampled ones: [K, I, R]."""
            total = counts.sum(axis=1)
            rates = counts / np.maximum(total, 1.0)[:, None]
            if not n:
                return np.asarray(rates.T[..., None])
            drawn = generator.multinomial(total.astype(int), rates, size=(n, len(total)))
            return np.asarray(drawn.T / np.maximum(total, 1.0)[:, None])

        self.table, self.agent, self.n = table, agent, max(n, 1)
        self._shape = table.n_states, table.n_actions
        outcomes = (table.counts / np.maximum(table.total, 1.0)[:, None]).T
        outcomes = np.repeat(outcomes[..., None], self.n, axis=2)
        outcomes[:, table.random] = shares(table.counts[table.random])
        starts, self.policy = shares(table.starts[None])[:, 0], None
        self._corrections = np.zeros((table.paid.shape[2], 1))
        self.tried = (table.total > 0).reshape(self._shape)[..., None]
        # A state without tried actions has free choice among actions that pay nothing.
        self._usable = self.tried | ~self.tried.any(axis=1, keepdims=True)
        if agent.policy is not None:
            kept = agent.policy[..., None] * self.tried
            total = kept.sum(axis=2, keepdims=True)
            kept = np.divide(kept, total, out=np.zeros_like(kept), where=total > 0)
            self.policy = np.broadcast_to(kept, (*kept.shape[:3], self.n))  # [T, S, A, R]
        if agent.corrections is not None and agent.began is not None:
            # The start of an episode and its correction are resampled together.
            weights = shares(np.ones((1, len(agent.corrections))))[:, 0]
            self._corrections = agent.corrections.T @ weights  # [U, R]
            starts = np.zeros_like(starts)
            np.add.at(starts, agent.began, weights)
        self.starts = np.broadcast_to(starts, (table.n_states, self.n))
        # Outcomes by their place k: pairs that have one, its next state, and its share.
        self._parts = []
        for k in range(table.counts.shape[1]):
            rows = np.flatnonzero((outcomes[k] > 0).any(axis=1))
            self._parts.append((rows, table.after[rows, k], outcomes[k, rows]))
        self.payoff = np.einsum("kpr,pku->pur", outcomes, table.paid)

    def expect(self, values: FloatArray) -> FloatArray:
        """Return the expectation of values [S + 1, ..., R] after each pair, [P, ..., R]."""
        out = np.zeros((self.tried.size, *values.shape[1:]))
        for rows, after, shares in self._parts:
            where = slice(None) if len(rows) == len(out) else rows
            shares = shares.reshape(len(rows), *[1] * (values.ndim - 2), self.n)
            out[where] += shares * values[after]
        return out

    def _choose(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the soft value [S, R] and policy [S, A, R] of scores [S, A, R]."""
        scores = np.where(self._usable, scores, -np.inf)
        peak = scores.max(axis=1)
        policy = np.exp(scores - peak[:, None])
        total = policy.sum(axis=1)
        value = peak + np.log(total / self._usable.sum(axis=1))
        return value, policy / total[:, None]

    def _soft_return(
        self, payoff: FloatArray, weights: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the soft value [R], return [F, R] and covariance [F, F, R] of a start."""
        # Payoffs are [P, F, R], weights [F, R]. Columns: value, returns, covariances.
        n_payoffs, n = weights.shape
        paid, mean, rest = (payoff * weights).sum(axis=1), slice(1, 1 + n_payoffs), 1 + n_payoffs
        values = np.zeros((self.table.n_states + 1, rest + n_payoffs**2, n))
        for _ in range(self.table.horizon):
            q = self.expect(values)
            q[:, 0] += paid
            q[:, mean] += payoff
            q = q.reshape(*self._shape, -1, n)
            values[:-1, 0], policy = self._choose(q[:, :, 0])
            values[:-1, mean] = np.einsum("sar,safr->sfr", policy, q[:, :, mean])
            apart = q[:, :, mean] - values[:-1, None, mean]
            q[:, :, rest:] += (apart[:, :, :, None] * apart[:, :, None]).reshape(
                *self._shape, -1, n
            )
            values[:-1, rest:] = np.einsum("sar,sacr->scr", policy, q[:, :, rest:])
        value = np.einsum("sr,scr->cr", self.starts, values[:-1])
        return value[0], value[mean], value[rest:].reshape(n_payoffs, n_payoffs, n)

    def agent_values(self, payoff: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the payoffs that the agent's policy expects, the last step first.

        They are those of actions, [S, A, F, R], and of states, [S + 1, F, R].
        """
        assert self.policy is not None, "the agent's policy is unknown"
        values = np.zeros((self.table.n_states + 1, *payoff.shape[1:]))
        for t in reversed(range(self.table.horizon)):
            q = (self.expect(values) + payoff).reshape(*self._shape, -1, self.n)
            values = np.zeros_like(values)
            chosen = self.policy[min(t, len(self.policy) - 1)]
            values[:-1] = np.einsum("sar,safr->sfr", chosen, q)
            yield q, values

    def collected(self, directions: FloatArray) -> FloatArray:
        """Return the agent's expected return of combinations [U, F] of utilities, [F, R]."""
        payoff = np.einsum("pur,uf->pfr", self.payoff, directions)
        *_, (_, values) = self.agent_values(payoff)
        computed = np.einsum("sr,sfr->fr", self.starts, values[:-1])
        return np.asarray(computed + directions.T @ self._corrections)

    def maximise(
        self,
        directions: FloatArray,
        near: FloatArray | None = None,
        tolerance: float = 1e-11,
        collected: FloatArray | None = None,
    ) -> Optimum:
        """Return MEG towards the best weights of combinations [U, F] of utilities.

        With one combination this is MEG towards it at its best rationality. `near` [F] are weights
        to begin with; a search ends when a Newton step promises less than `tolerance` nats. The
        return may be that of another agent, `collected` [F, R].
        """
        payoff = np.einsum("pur,uf->pfr", self.payoff, directions)
        # Payoffs that differ by as much give similar weights.
        size = np.maximum(np.abs(payoff).max(axis=(0, 2)), 1e-290)
        unit = 1.0 / np.maximum(np.ptp(payoff, axis=(0, 2)), 1e-9 * size)
        collected = (self.collected(directions) if collected is None else collected) * unit[:, None]
        payoff = payoff * unit[:, None]
        rounding = 1e-13 * self.table.horizon * (size * unit)[:, None]

        def evaluate(weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            soft, mean, covariance = self._soft_return(payoff, weights)
            # A difference that rounding could produce is none.
            slope = np.where(np.abs(collected - mean) > rounding, collected - mean, 0.0)
            return (weights * collected).sum(axis=0) - soft, slope, covariance

        weights = np.zeros((len(unit), self.n))
        if near is not None:
            weights += (near / unit)[:, None]
        current: tuple[FloatArray, ...] = (weights, *evaluate(weights))
        damping, ends = np.zeros(self.n), np.zeros(self.n, dtype=bool)
        for _ in range(_MOST_STEPS):
            weights, value, slope, covariance = current
            # With full damping a step is at most as large as the weights, if there is no curvature.
            flat = np.linalg.norm(slope, axis=0) / (1.0 + np.linalg.norm(weights, axis=0))
            size = (np.einsum("ffr->fr", covariance) + flat + 1e-14) * (damping + 1e-12)
            matrix = covariance + np.eye(len(unit))[..., None] * size
            step = np.linalg.solve(matrix.T, slope.T[..., None])[..., 0].T
            there = np.clip(weights + step, -_FARTHEST, _FARTHEST)
            promised = (slope * (there - weights)).sum(axis=0)
            ends |= (promised <= tolerance) | (damping > _MOST_DAMPING)
            if ends.all():
                break
            new = (there, *evaluate(there))
            better = ~ends & (new[1] - value >= 0.1 * promised)
            current = tuple(np.where(better, *each) for each in zip(new, current, strict=True))
            damping = np.where(better, 0.1 * damping, np.maximum(4.0 * damping, 1e-2))
        # What a last Newton step would gain, to second order.
        value = value + np.where(promised <= tolerance, 0.5 * np.maximum(promised, 0.0), 0.0)
        return Optimum(np.maximum(value, 0.0), weights * unit[:, None])

    def gains(self) -> tuple[FloatArray, FloatArray]:
        """Return what actions gain over the agent's policy, [H, S, A, U], and values of starts.

        Values are [S, U]; R = 1. Actions without draws gain nothing.
        """
        gains = []
        for q, values in self.agent_values(self.payoff):
            gains.append(np.where(self.tried, (q - values[:-1, None])[..., 0], 0.0))
        return np.array(gains[::-1]), values[:-1, :, 0]

    def extremes(self, weights: FloatArray) -> FloatArray:
        """Return the correction of an episode with the least and the largest payoff, [2, U].

        These are the sums of what actions gain over the policy, by outcomes that were seen, or
        less, so that the return with this correction is one of these outcomes.
        """
        table, states, out = self.table, np.arange(self.table.n_states), []
        is_start, steps = table.starts > 0, self.gains()[0][::-1]
        mean, seen = float(self.collected(weights[:, None])[0, 0]), table.counts > 0
        for sign in (-1.0, 1.0):
            paid = sign * (table.paid @ weights)
            scores, sums = np.zeros((2, len(states) + 1)), np.zeros((len(states) + 1, len(weights)))
            for gains in steps:
                total = np.where(seen, paid + scores[1][table.after], -np.inf)
                most = total.max(axis=1).reshape(self._shape).max(axis=1)
                outcome = np.where(seen, scores[0][table.after], -np.inf).argmax(axis=1)
                after = table.after[np.arange(len(outcome)), outcome].reshape(self._shape)
                each = sign * (gains @ weights) + scores[0][after]
                each[~self._usable[..., 0]] = -np.inf
                action = each.argmax(axis=1)
                scores[:, :-1] = each[states, action], np.where(np.isfinite(most), most, 0.0)
                sums[:-1] = gains[states, action] + sums[after[states, action]]
            start = np.where(is_start, scores[0, :-1], -np.inf).argmax()
            limit = scores[1, :-1][is_start].max() - sign * mean
            out.append(sums[start] * min(1.0, limit / max(scores[0, start], 1e-300)))
        return np.array(out)

    def completions(self, weights: FloatArray) -> FloatArray:
        """Return the least and the largest return of the agent by its unknown answers, [2, U].

        These are the answers in states at times that no episode visited.
        """
        policy, unvisited = self.policy, self.agent.unvisited
        assert policy is not None and unvisited is not None
        out = []
        for sign in (-1.0, 1.0):
            values = np.zeros((self.table.n_states + 1, len(weights), 1))
            for t in reversed(range(self.table.horizon)):
                q = (self.expect(values) + self.payoff).reshape(*self._shape, -1)
                best = np.where(self._usable[..., 0], sign * (q @ weights), -np.inf).argmax(axis=1)
                rows = np.where(unvisited[t, :, None], np.eye(q.shape[1])[best], policy[t, ..., 0])
                values[:-1] = np.einsum("sa,sau->su", rows, q)[..., None]
            out.append(self.starts[:, 0] @ values[:-1, :, 0])
        return np.array(out)

    def evidence(self, weights: FloatArray) -> FloatArray:
        """Return lower bounds of MEG at multiples `MULTIPLES` of weights [U], [B, R]."""
        payoff, soft = np.einsum("pur,u->pr", self.payoff, weights), []
        for multiple in MULTIPLES:
            ((values, _),) = deque(self._soft_plan(multiple * payoff), maxlen=1)
            soft.append((self.starts * values[:-1]).sum(axis=0))
        return np.asarray(MULTIPLES[:, None] * self.collected(weights[:, None]) - np.array(soft))

    def information(self, weights: FloatArray) -> FloatArray:
        """Return the agent's relative entropy to free choice, which bounds its MEG, [R].

        Decisions that cannot change a payoff at weights [U] do not count. If the policy is an
        estimate, decisions count as deterministic ones.
        """
        assert self.policy is not None, "the agent's policy is unknown"
        each = np.log(self._usable.sum(axis=1)) + np.zeros((len(self.policy), 1, 1))
        if self.agent.corrections is None:
            each = each - entr(self.policy).sum(axis=2)
        table, values = self.table, np.zeros((self.table.n_states + 1, self.n))

        def is_constant(outcomes: FloatArray | IntArray) -> BoolArray:
            """Whether all outcomes [P, K] of a state that were seen are equal, [S]."""
            rows, seen = (x.reshape(table.n_states, -1) for x in (outcomes, table.counts > 0))
            largest = np.where(seen, rows, -np.inf).max(axis=1)
            return np.asarray(largest <= np.where(seen, rows, np.inf).min(axis=1))

        pointless = is_constant(table.paid @ weights)  # at the last step
        for t in reversed(range(table.horizon)):
            now = min(t, len(self.policy) - 1)
            later = self.expect(values).reshape(*self._shape, self.n)
            gained = np.where(pointless[:, None], 0.0, each[now])
            values[:-1] = gained + (self.policy[now] * later).sum(axis=1)
            if t == table.horizon - 1:
                certain = table.certain.reshape(self._shape).all(axis=1)
                pointless &= certain & is_constant(table.after)
        return np.asarray((self.starts * values[:-1]).sum(axis=0))

    def _soft_plan(self, paid: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield soft values [S + 1, R] and policies [S, A, R] of payoffs, the last step first."""
        values = np.zeros((self.table.n_states + 1, self.n))
        for _ in range(self.table.horizon):
            q = (self.expect(values) + paid).reshape(*self._shape, self.n)
            values = np.zeros_like(values)
            values[:-1], policy = self._choose(q)
            yield values, policy

    def soft_policies(self, paid: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return soft values [H + 1, S + 1, R] and policies [H, S, A, R] of payoffs [P, R]."""
        values, policies = zip(*self._soft_plan(paid), strict=True)
        return np.array([*values[::-1], np.zeros_like(values[0])]), np.array(policies[::-1])

    def influence(
        self, weights: FloatArray, after: IntArray | None = None, paid: FloatArray | None = None
    ) -> Influence:
        """Return the effect of each part of the data on MEG at weights [U]; R = 1.

        The outcomes are those of the table by default, otherwise `after` [P, K], `paid` [P, K, U].
        """
        after = self.table.after if after is None else after
        pays = (self.table.paid if paid is None else paid) @ weights
        payoff = np.einsum("pur,u->pr", self.payoff, weights)
        soft, plan = self.soft_policies(payoff)
        values = np.zeros_like(soft)
        values[:-1] = [value[:, 0] for _, value in self.agent_values(payoff[:, None])][::-1]
        outcomes, policy = np.zeros(after.shape), self.policy
        assert policy is not None, "the agent's policy is unknown"
        here = np.repeat(self.starts, 2, axis=1)  # visits by the agent and by the soft plan
        visits = np.zeros_like(here)
        for t in range(self.table.horizon):
            visits += here
            rows = policy[min(t, len(policy) - 1)]
            flow = (np.concatenate([rows, plan[t]], axis=2) * here[:, None]).reshape(-1, 2)
            outcomes += flow[:, :1] * (pays + values[t + 1, after, 0])
            outcomes -= flow[:, 1:] * (pays + soft[t + 1, after, 0])
            here = self.move(flow)
        return Influence(outcomes, values[0, :-1, 0] - soft[0, :-1, 0], visits)

    def move(self, flow: FloatArray) -> FloatArray:
        """Return the expected number of arrivals in each state, [S, R], of a flow [P, R]."""
        out = np.zeros((self.table.n_states + 1, flow.shape[-1]))
        for rows, after, shares in self._parts:
            np.add.at(out, after, flow[rows] * shares)
        return out[:-1]


def variances(models: Models, effect: Influence, weights: FloatArray) -> tuple[FloatArray, float]:
    """Return the variance of MEG per draw of each pair, [P], and per episode; weights [U]."""
    table, agent = models.table, models.agent
    pairs = np.where(table.certain, 0.0, _variance(table.counts, effect.outcomes))
    if agent.corrections is None:
        return pairs, float(_variance(table.starts[None], effect.starts[None])[0])
    each = agent.corrections @ weights + effect.starts[agent.began]
    if agent.missing is not None:
        return pairs, float(np.var(each) + (np.abs(weights) @ agent.missing) ** 2)
    # With the extremes, rare returns that have not occurred have a variance as well.
    return pairs, float(np.var([*each, *(each.mean() + models.extremes(weights) @ weights)]))


def _variance(counts: FloatArray, values: FloatArray) -> FloatArray:
    """Return the variance of values [I, K] by counts [I, K], [I]."""
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    apart = values - (shares * values).sum(axis=1, keepdims=True)
    return np.asarray((shares * apart**2).sum(axis=1))
