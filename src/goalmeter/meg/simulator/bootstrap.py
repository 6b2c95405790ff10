"""Confidence interval of MEG of a world that is known by counts of its steps."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from goalmeter._types import BoolArray, FloatArray
from goalmeter.meg.simulator.counts import (
    MULTIPLES,
    AgentRecord,
    CountTable,
    Influence,
    Models,
    variances,
)

# Percentiles of MEG over resampled counts, shifted by twice the bias of the bootstrap: resampling
# repeats the bias that the estimate itself has. MEG does not depend on the scale of the utility: if
# actions differ by less than their sampling errors, the rationality that these errors fit is of the
# order of their inverse, and MEG of the estimate has an error that no number of steps reduces.
# Limits at fixed rationalities, which are valid there as well, then extend the interval.

RESAMPLES = 200
MOST_UNTRIED = 0.01  # share of decisions in untried actions above which there is no interval
MOST_UNPAID = 0.02  # share of resamples without any payoff from which on there is no interval
_CHUNK = 2**23  # number of resampled shares that are held at once
_ROUNDING = 1e-9  # size of corrections that rounding errors explain, in largest payoffs
_RESOLUTION = 1e-4  # searches end when a Newton step promises fewer nats
_DETERMINED = 3.0  # most that resamples change a rationality that is determined by the counts
# From this multiple of the best rationality on, soft plans are almost greedy. Among equal actions,
# the bootstrap has the share sqrt(2) - 1 of the bias of the largest estimate: the error of a
# percentile is 2 + sqrt(2) times the bias of the bootstrap instead of twice.
_GREEDY, _TIES = 16.0, math.sqrt(2.0)
_UNSEEN = 3.0  # an outcome that did not occur in n draws has a probability below 3 / n (95%)


@dataclass(frozen=True)
class CountEstimate:
    """MEG of counted steps with its interval, in nats."""

    value: float  # corrected for bias; at the rationality with the largest lower limit if it moved
    interval: tuple[float, float] | None  # None if too much is untried or unpaid
    weights: FloatArray  # of the utilities, times the rationality, [U]
    plain: float  # MEG of the observed frequencies
    resampled: FloatArray  # MEG of resampled counts, [R]
    paid: BoolArray  # whether resampled counts have any payoff, [R]
    standard_error: float  # by the influence function
    untried: tuple[float, float]  # share of decisions of the agent and of the soft plan
    beyond: tuple[float, float]  # how much what was not sampled moves each end outwards
    # How much only returns and states that the agent's episodes lack would move them.
    lacking: tuple[float, float]
    # How much rationalities that resamples do not exclude moved each end.
    undetermined: tuple[float, float]
    steps_to_halve: float  # number of further steps that would halve the width
    ceiling: float  # largest MEG of any agent

    def minus(self, other: CountEstimate, level: float) -> tuple[float, float]:
        """Return the interval of the difference to MEG towards another utility."""
        assert self.interval and other.interval, "there is no interval"
        difference = self.resampled - other.resampled
        low, high = shifted(self.plain - other.plain, difference, level, self.paid & other.paid)[1]
        low -= self.lacking[0] + other.lacking[1]
        high += self.lacking[1] + other.lacking[0]
        # Resamples are common, but ends that other rationalities moved are not resampled.
        if self.undetermined[0] or other.undetermined[1]:
            low = min(low, self.interval[0] - other.interval[1])
        if self.undetermined[1] or other.undetermined[0]:
            high = max(high, self.interval[1] - other.interval[0])
        ends = np.clip([low, high], -self.ceiling, self.ceiling).tolist()
        return ends[0], ends[1]


class _Limits(NamedTuple):
    """Limits of MEG by fixed rationalities."""

    value: float  # at the rationality with the largest lower limit
    low: float  # that limit; 0 if the agent's return may be that of free choice
    high: float  # largest upper limit at a rationality that is not the best one


class Bootstrap:
    """Models of resampled counts, shared by all utilities.

    `length` is the mean number of steps of an episode of the agent if pairs are drawn one by one;
    0 if all counts come from episodes.
    """

    def __init__(
        self,
        table: CountTable,
        agent: AgentRecord,
        seed: int,
        length: float = 0.0,
        resamples: int = RESAMPLES,
    ) -> None:
        self._base, self._length, self._seed = Models(table, agent), length, seed
        smallest = _ROUNDING * np.abs(table.paid).max(initial=0.0)
        is_exact = agent.corrections is None or np.ptp(agent.corrections) <= smallest
        known = is_exact and (table.starts > 0).sum() == 1
        self._n = 0 if known and not table.random.size else resamples

    def measure(self, directions: FloatArray, level: float) -> CountEstimate:
        """Return MEG towards the best weights of combinations [U, F] of utilities."""
        table = self._base.table
        best = self._base.maximise(directions)
        plain, weights = float(best.value[0]), directions @ best.weights[:, 0]
        resampled, paid = np.array([plain]), np.array([True])
        # Weights are compared in units of the largest payoffs.
        parts, square = [], np.abs(table.paid).max(axis=(0, 1)) ** 2 * weights
        for models in self._models():
            more = models.maximise(directions, best.weights[:, 0], _RESOLUTION)
            is_paid = (more.value > 0) | models.collected(directions).any(axis=0)
            scale = square @ directions @ more.weights / max(square @ weights, 1e-300)
            fixed = models.evidence(weights), models.information(weights)
            parts.append((more.value, is_paid, scale, *fixed))
        if parts:
            resampled, paid, multiples, evidence, information = (
                np.concatenate(part, axis=-1) for part in zip(*parts, strict=True)
            )
        value, ends = shifted(plain, resampled, level, paid)
        low, high = ends
        if parts and weights.any():
            other = self._other_rationalities(weights, level, paid, evidence, directions.shape[1])
            least, most = np.quantile(multiples[paid] if paid.any() else multiples, _tails(level))
            if other.low < low and (least < 1 / _DETERMINED or most > _DETERMINED):
                value, low = min(value, other.value), other.low
            # The agent's relative entropy to free choice bounds every MEG.
            high = max(low, min(max(high, other.high), information.max()))
            value = min(value, high)
        undetermined = ends[0] - low, max(high - ends[1], 0.0)
        errors, rare = [value - low, high - value], self._rare_returns(directions, weights, plain)
        known = np.hypot(errors, rare)
        beyond, lacking = np.hypot(known, self._unseen(weights)) - errors, known - errors
        # A sampled return may exceed what the model can give, but no policy has more than this.
        ceiling = table.horizon * float(np.log(table.n_actions))
        low, high = np.clip([low - beyond[0], high + beyond[1]], 0.0, ceiling).tolist()
        effect = self._base.influence(weights)
        pairs, episode = variances(self._base, effect, weights)
        error = (pairs / np.maximum(table.total, 1.0)).sum() + episode / table.starts.sum()
        untried = self._untried(effect)
        is_determined = max(untried) <= MOST_UNTRIED and np.mean(~paid) < MOST_UNPAID
        # The error decreases with the square root of draws and episodes, if they matter at all.
        steps = table.total[table.random].sum() + self._length * table.starts.sum() * (episode > 0)
        return CountEstimate(
            min(max(value, 0.0), ceiling),
            (low, high) if is_determined else None,
            weights,
            plain,
            resampled,
            paid,
            float(np.sqrt(error)),
            untried,
            (float(beyond[0]), float(beyond[1])),
            (float(lacking[0]), float(lacking[1])),
            undetermined,
            3.0 * float(steps),
            ceiling,
        )

    def _models(self) -> Iterator[Models]:
        """Yield the models of resampled counts, as many at a time as fit into memory."""
        table, agent = self._base.table, self._base.agent
        part = max(1, _CHUNK // table.counts.size)
        for start in range(0, self._n, part):
            yield Models(table, agent, min(part, self._n - start), (self._seed, start))

    def _other_rationalities(
        self,
        weights: FloatArray,
        level: float,
        paid: BoolArray,
        resampled: FloatArray,
        n_weights: int,
    ) -> _Limits:
        """Return limits of MEG by resampled evidence [B, R] at multiples of the weights [U]."""
        base = self._base.evidence(weights)[:, 0]
        fixed = [shifted(*each, level, paid) for each in zip(base, resampled, strict=True)]
        values, ends = (np.array(part) for part in zip(*fixed, strict=True))
        lower, higher = ends.T
        higher += np.where(MULTIPLES >= _GREEDY, _TIES * (values - base), 0.0)
        # MEG is above 0 only if the agent's returns differ from those of free choice. At a small
        # rationality it is proportional to the difference along the weights, which are chosen
        # among `n_weights` directions.
        least = int(np.argmin(np.abs(MULTIPLES)))
        limit = math.sqrt(chdtri(n_weights, 1.0 - level)) * resampled[least].std(ddof=1)
        best = int(np.argmax(lower))
        positive = base[least] > limit and lower[best] > 0
        value, low = (max(values[best], 0.0), lower[best]) if positive else (0.0, 0.0)
        return _Limits(float(value), float(low), float(higher[MULTIPLES != 1].max()))

    def _rare_returns(
        self, directions: FloatArray, weights: FloatArray, plain: float
    ) -> tuple[float, float]:
        """Return how far returns that the agent's episodes may lack move MEG, down and up.

        By the rule of three their mean is then closer to an extreme. An agent that always gave the
        same answer in a state at a time may give others in states that no episode visited. A known
        policy lacks none.
        """
        base, agent = self._base, self._base.agent
        if agent.corrections is None:
            return 0.0, 0.0
        along = weights if weights.any() else directions.sum(axis=1)
        mean, count = base.collected(np.eye(len(along))), len(agent.corrections)
        if agent.missing is None:
            shifts = _UNSEEN / (count + _UNSEEN) * base.extremes(along)
        else:
            shifts = base.completions(along) - mean[:, 0]
            size = np.maximum(np.abs(shifts @ along), 1e-300)
            error = np.abs(along) @ agent.missing / math.sqrt(count)
            shifts *= np.minimum(error / size, 1.0)[:, None]
        lower, higher = (
            base.maximise(directions, collected=directions.T @ (mean + shift[:, None]))
            for shift in shifts
        )
        low, high = float(lower.value[0]), float(higher.value[0])
        # If MEG increases again towards the lower return, a return between has the least.
        opposite = float(shifts[0] @ (directions @ lower.weights[:, 0])) > 0
        return plain - (0.0 if opposite else min(low, plain)), max(low, high, plain) - plain

    def _untried(self, effect: Influence) -> tuple[float, float]:
        """Return the share of decisions in untried actions of the agent and of the soft plan."""
        free, policy = ~self._base.tried[..., 0], self._base.agent.policy
        assert policy is not None, "the agent's policy is unknown"
        untried = np.stack([(policy.mean(axis=0) * free).sum(axis=1), free.mean(axis=1)], axis=1)
        shares = (untried * effect.visits).sum(axis=0)
        shares /= np.maximum(effect.visits.sum(axis=0), 1e-300)
        return float(shares[0]), float(shares[1])

    def _unseen(self, weights: FloatArray) -> float:
        """Return the largest effect if a pair had an outcome of another action of its state."""
        table, random = self._base.table, self._base.table.random
        if not random.size:
            return 0.0
        # Outcomes of all actions of the state of each pair.
        state, size = np.arange(len(table.certain)) // table.n_actions, (table.n_states, -1)
        after, used = table.after.reshape(size)[state], table.counts.reshape(size)[state] > 0
        paid = table.paid.reshape(*size, table.paid.shape[2])[state]
        effect, used = self._base.influence(weights, after, paid).outcomes[random], used[random]
        spread = np.where(used, effect, -np.inf).max(axis=1)
        spread = spread - np.where(used, effect, np.inf).min(axis=1)
        return float((spread * np.minimum(_UNSEEN / table.total[random], 1.0)).max())


def _tails(level: float) -> FloatArray:
    """Return the two quantiles between which a share `level` lies."""
    return np.array([0.5 - level / 2, 0.5 + level / 2])


def shifted(
    plain: float, resampled: FloatArray, level: float, paid: BoolArray
) -> tuple[float, tuple[float, float]]:
    """Return an estimate and its interval from resampled values, corrected for bias."""
    # A payoff that was sampled a few times is missing in some resamples. They have no MEG and would
    # make the correction for bias as large as the estimate.
    resampled = resampled[paid] if paid.any() else resampled
    ends = np.quantile(resampled, _tails(level))
    # A resampled return beyond what its model can give has a very large MEG.
    common = resampled[(resampled >= ends[0]) & (resampled <= ends[1])]
    bias = float(common.mean()) - plain
    low, high = ends - 2 * bias
    return plain - bias, (float(low), float(high))
