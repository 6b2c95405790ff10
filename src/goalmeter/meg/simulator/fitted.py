"""Estimate MEG where states do not recur: fitted soft values, checked by fresh episodes.

MEG at rationality b is b times the return of the agent minus W, the expected soft value of the
start relative to free choice. Two estimators of W must agree:

1. Fitted soft values: backward induction over decisions with a kernel regression of the recorded
   steps, Q_t(s, a) = E[b u + W_{t+1}(s')] and W_t(s) = log mean_a exp Q_t(s, a).
2. Fresh episodes of the policy proportional to exp Q. The mean of b times the return minus the
   relative entropy is at most W, so it bounds MEG at b from above. If no step is random, particles
   that follow this policy (twisted sequential Monte Carlo) estimate exp W without bias.

Steps of the second estimator are added to the regression, which is repeated several times.

Source: docs/mathematics.md, "Where states do not recur".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator import protocol
from goalmeter.meg.simulator.agents import Distribution, SimulatorAgent, actor_of_batch
from goalmeter.meg.simulator.protocol import Episodes, episodes_until
from goalmeter.meg.simulator.references import FreeChoice
from goalmeter.meg.simulator.soft_values import (
    KernelFeatures,
    RecordedSteps,
    Recorder,
    SoftValues,
)
from goalmeter.report.numbers import nats

if TYPE_CHECKING:
    from goalmeter.meg.simulator.environments import GymnasiumSimulator, RunningEpisode

# --- Second estimator -----------------------------------------------------------------------------
_PARTICLES = 8  # number of particles from each start
_FIRST = 2**42  # number of the first episode, so that no seed is shared with other parts


class _Second(NamedTuple):
    """Estimates of the soft value by N fresh episodes or groups of particles."""

    values: FloatArray  # in expectation at most the soft value, [N]
    returns: FloatArray  # of the soft policy, [N]
    shortfall: float  # estimated amount by which the mean of the values is too low
    fitted: FloatArray  # mean fitted value of the same starts by each half, [2]

    @property
    def corrected(self) -> float:
        """Mean of the values plus the shortfall."""
        return float(self.values.mean()) + self.shortfall

    @property
    def smooth(self) -> float:
        """Estimate that varies little between rationalities by chance."""
        return self.corrected if self.shortfall else float(self.fitted.mean())

    @property
    def unknown(self) -> float:
        """Amount by which the corrected mean may be wrong besides its spread over episodes."""
        off = abs(float(self.fitted.mean()) - self.corrected)
        # Both estimators lack what was not learnt, so their difference is too small. The correction
        # of particles is itself an estimate.
        return min(off, 3.0 * self.shortfall) if self.shortfall else 2.0 * off


class _Particles:
    """Groups of particles in copies of a deterministic environment, each from one start."""

    def __init__(self, episodes: list[RunningEpisode], n_actions: int) -> None:
        count = len(episodes)
        self.episodes = episodes
        self.weight, self.value = np.zeros(count), np.zeros(count)
        self.log_ratio = np.zeros((count, n_actions))
        # Logarithm of the mean weight so far, and its relative variance.
        self.total, self.variance = (np.zeros(count // _PARTICLES) for _ in range(2))

    def play(
        self,
        simulator: GymnasiumSimulator,
        values: SoftValues,
        column: int,
        which: int,
        generator: np.random.Generator,
    ) -> FloatArray:
        """Play all episodes by a soft policy; return the weighted mean return of each group."""
        reference, recorder = simulator.reference_density, simulator.recorder
        assert isinstance(reference, FreeChoice) and recorder is not None
        b, episodes = values.rationalities[column], self.episodes
        for t in range(values.horizon):
            going = [i for i, each in enumerate(episodes) if not each.ended]
            if not going:
                break
            seen = np.stack([recorder.flattened(episodes[i].observation) for i in going])
            value = np.zeros(len(episodes))
            value[going], self.log_ratio[going] = values.policy(seen, t, column)
            self._move_to(value)
            self._resample(generator)
            noise = generator.gumbel(size=self.log_ratio.shape)
            chosen = (self.log_ratio + noise).argmax(axis=1)
            for i, (episode, action) in enumerate(zip(episodes, chosen.tolist(), strict=True)):
                if not episode.ended:
                    before = episode.total[which]
                    simulator.step(episode, reference.decision(action), values.horizon)
                    paid = episode.total[which] - before
                    self.weight[i] += b * paid - self.log_ratio[i, action]
        self._move_to(np.zeros(len(episodes)))
        totals = np.array([each.total[which] for each in episodes]).reshape(-1, _PARTICLES)
        shares = [self._average(group) for group in range(len(self.total))]
        return np.asarray((np.stack(shares) * totals).sum(axis=1))

    def _move_to(self, value: FloatArray) -> None:
        self.weight += value - self.value
        self.value = value

    def _average(self, group: int) -> FloatArray:
        """Add the mean weight of a group to its total; return its normalised weights."""
        rows = slice(group * _PARTICLES, (group + 1) * _PARTICLES)
        top = self.weight[rows].max()
        relative = np.exp(self.weight[rows] - top)
        self.total[group] += top + math.log(relative.mean())
        self.variance[group] += (relative / relative.mean()).var(ddof=1) / _PARTICLES
        self.weight[rows] = 0.0
        return np.asarray(relative / relative.sum())

    def _resample(self, generator: np.random.Generator) -> None:
        """Resample the groups with uneven weights."""
        for group in range(len(self.total)):
            rows = np.arange(group * _PARTICLES, (group + 1) * _PARTICLES)
            relative = np.exp(self.weight[rows] - self.weight[rows].max())
            if relative.sum() ** 2 >= (relative**2).sum() * _PARTICLES / 2:
                continue
            share = self._average(group)
            # Systematic resampling; particles that are chosen stay where they are.
            points = (np.arange(_PARTICLES) + generator.random()) / _PARTICLES
            chosen = np.minimum(np.searchsorted(np.cumsum(share), points), _PARTICLES - 1)
            counts = np.bincount(chosen, minlength=_PARTICLES)
            sources = rows[np.repeat(np.arange(_PARTICLES), np.maximum(counts - 1, 0))]
            for source, target in zip(sources, rows[counts == 0], strict=True):
                self.episodes[target] = self.episodes[source].copied()
                self.value[target] = self.value[source]
                self.log_ratio[target] = self.log_ratio[source]


# --- Estimate -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class FittedEstimate:
    """MEG towards one utility, in nats, from fitted soft values."""

    value: float
    interval: tuple[float, float]
    rationality: float  # in inverse units of the utility
    method: str
    steps_to_halve: int | None  # None if more steps would not halve it
    notes: tuple[str, ...]


# Shares of the budget: the agent's first episodes; free choice; refinement of the fit. The rest is
# divided between the agent and the second estimator by their errors.
_AGENT, _FREE, _REFINE = 0.1, 0.05, 0.45
LEAST_EPISODES = 100  # number of episodes that the budget must allow
_ROUNDS, _MOST = 4, 12_000  # number of refinements, and most steps of a regression
# Largest rationality at first, in inverse returns; least ratio of neighbouring ones.
_WIDEST, _FINEST = 200.0, 1.4
# Both estimators agree on a rationality within this share of MEG plus some nats.
_ALIKE, _ALIKE_NATS = 0.1, 0.5
_UNSEEN = 3  # number of episodes that 95% intervals allow for events that did not occur
_BY_AGENT = "agent"  # purpose of the agent's steps
_LEAST = 4  # number of fresh episodes or groups of particles of the last check
# Descriptions of both methods.
_ROLLOUTS = "fitted soft values, checked by fresh episodes of the soft policy"
_BY_PARTICLES = "fitted soft values, checked by twisted sequential Monte Carlo"


class _Fit(NamedTuple):
    """Fitted values of one utility, and what all rounds have found."""

    values: SoftValues  # at the best rationality
    spread: float  # standard deviation of the last fresh episodes
    curvature: float  # negative second derivative of MEG by the rationality
    free: FloatArray  # returns of free choice
    checks: FloatArray  # rationalities, and means of fresh episodes, of all checks [K, 2]
    best: float  # largest return of any soft policy


# Receives the number of a utility, its current estimate, and that less what is unknown.
Report = Callable[[int, float, float], None]


class Fitting:
    """Estimation of MEG towards all utilities of a simulator with discrete actions."""

    def __init__(
        self,
        simulator: GymnasiumSimulator,
        actor: SimulatorAgent,
        horizon: int,
        budget: int,
        seed: int,
        level: float,
    ) -> None:
        self._simulator, self._actor, self._horizon = simulator, actor, horizon
        self._budget, self._level = budget, level
        self._generator = np.random.default_rng(protocol.seeded(seed, protocol.FITTING))
        self._recorder = Recorder(simulator.environment.observation_space)
        self._parts: list[RecordedSteps] = []
        self._number = _FIRST  # number of the next episode
        self.steps = {_BY_AGENT: 0, simulator.reference: 0, "soft policies": 0}
        self.played: list[Episodes] = []  # of the agent
        simulator.record(self._recorder)

    @property
    def agent(self) -> Episodes:
        """Episodes of the agent so far."""
        return Episodes.of(self.played)

    def estimates(self, report: Report) -> list[FittedEstimate]:
        """Return the estimate of each utility; `report` gets its number, value and lower end."""
        count = len(self._simulator.utilities.names)
        self._play(self._actor, _AGENT * self._budget, _BY_AGENT)
        reference = self._simulator.free_choice()
        free = self._play(reference, _FREE * self._budget, self._simulator.reference)
        fits = [
            self._refined(which, free.returns[:, which], _REFINE / count, report)
            for which in range(count)
        ]
        left = self._budget - sum(self.steps.values())
        spread = max(
            float(self.agent.returns[:, which].std() * abs(fit.values.rationalities[0]))
            for which, fit in enumerate(fits)
        )
        other = max(fit.spread for fit in fits)
        share = min(max(spread / (spread + other + 1e-9), 0.1), 0.6)
        self._play(self._actor, share * left, _BY_AGENT)
        left = self._budget - sum(self.steps.values())
        out = []
        for which, fit in enumerate(fits):
            second = self._second(fit.values, 0, which, left / count, _LEAST)
            out.append(self._combined(which, fit, second))
        return out

    def _play(self, actor: SimulatorAgent, steps: float, purpose: str) -> Episodes:
        """Play episodes until a number of steps, and keep the steps for the regression."""
        parts = self.played if purpose == _BY_AGENT else []
        before = len(parts)
        for part in episodes_until(self._simulator, actor, self._horizon, steps, self._number):
            parts.append(part)
            self._number += len(part.returns)
            self.steps[purpose] += part.steps
        self._parts.append(self._recorder.taken())
        return Episodes.of(parts[before:])

    def _refined(self, which: int, free: FloatArray, share: float, report: Report) -> _Fit:
        """Fit soft values at rationalities around the best one, in several rounds."""
        agent = self.agent.returns[:, which]
        gain = float(agent.mean() - free.mean())
        # The best rationality has the sign of the gain; it is positive unless that is refuted.
        errors = [float(each.std()) / math.sqrt(len(each)) for each in (agent, free)]
        sign = -1.0 if gain < -3.0 * math.hypot(*errors) else 1.0
        scale = math.hypot(float(free.std()), gain) or 1.0
        rationalities = sign * np.geomspace(1.0, _WIDEST, 5) / scale
        linear_map: FloatArray | None = None
        checks: list[tuple[float, float]] = []
        most = float((sign * np.concatenate([agent, free])).max())
        ratio = 4.0
        for number in range(_ROUNDS + 1):
            values = self._fit(which, rationalities, linear_map)
            if not values.features.is_table:
                linear_map = values.map(self._sample(400).seen)
                if number == 0:
                    values = self._fit(which, rationalities, linear_map)
            steps = share * self._budget / (_ROUNDS + 1) / len(rationalities)
            seconds = [self._second(values, c, which, steps) for c in range(len(rationalities))]
            checks += [
                (float(b), float(each.values.mean()))
                for b, each in zip(rationalities, seconds, strict=True)
            ]
            most = max(most, *(float((sign * each.returns).max()) for each in seconds))
            smooth = np.array([each.smooth for each in seconds])
            meg = rationalities * float(agent.mean()) - smooth
            unknown = np.array([each.unknown for each in seconds])
            column = _agreed(meg, unknown, self._ceiling(3.0))
            report(which, float(meg[column]), max(float(meg[column] - unknown[column]), 0.0))
            best, curvature = _vertex(rationalities, meg, column)
            if number == _ROUNDS:
                break
            if 0 < column < len(rationalities) - 1:
                ratio = max(ratio**0.6, _FINEST)
            rationalities = best * np.geomspace(1.0 / ratio, ratio, 3)
        values = self._fit(which, np.array([best]), linear_map)
        spread = float(seconds[column].values.std())
        return _Fit(values, spread, curvature, free, np.array(checks), sign * most)

    def _ceiling(self, quantile: float) -> float:
        """Return the upper end of the relative entropy of the agent, which MEG does not exceed."""
        known: FloatArray = self.agent.information
        if np.isnan(known).any():
            known = math.log(self._simulator.n_actions) * self.agent.decisions.astype(np.float64)
        # Rare decisions with much information may be missing (rule of three).
        mean = np.mean([*known, *[known.max()] * _UNSEEN])
        return float(mean + quantile * known.std() / math.sqrt(len(known)))

    def _sample(self, most: int) -> RecordedSteps:
        steps = RecordedSteps.of(self._parts)
        self._parts = [steps]
        if len(steps.action) <= most:
            return steps
        return steps.subset(self._generator.choice(len(steps.action), most, replace=False))

    def _fit(
        self, which: int, rationalities: FloatArray, linear_map: FloatArray | None
    ) -> SoftValues:
        steps = self._sample(_MOST)
        seen = np.concatenate([steps.seen, steps.starts])
        features = KernelFeatures(seen, linear_map, self._generator)
        shape = self._horizon, self._simulator.n_actions
        return SoftValues(features, steps, steps.paid[:, which], rationalities, *shape)

    def _second(
        self, values: SoftValues, column: int, which: int, steps: float, least: int = 1
    ) -> _Second:
        """Estimate the soft value of the start by at least some fresh episodes or groups."""
        simulator, b = self._simulator, values.rationalities[column]
        groups = min(simulator.repeats // _PARTICLES, math.ceil(steps / self._horizon / _PARTICLES))
        policy = _soft_policy(values, column, self._recorder, f"soft policy at {b:.3g}")
        first = len(self._parts)
        totals, returns, variances = (np.zeros(0) for _ in range(3))
        left = steps
        while left > 0 or len(totals) < least:
            if simulator.repeats >= _PARTICLES:
                episodes = simulator.begun_together(self._number, max(groups, 1), _PARTICLES)
                self._number += 1
                particles = _Particles(episodes, simulator.n_actions)
                got = particles.play(simulator, values, column, which, self._generator)
                new, variance = particles.total, particles.variance
                self._parts.append(self._recorder.taken())
                self.steps["soft policies"] += len(self._parts[-1].action)
            else:
                played = self._play(policy, left, "soft policies")
                got = played.returns[:, which]
                new, variance = b * got - played.information, np.zeros(len(got))
            left -= len(self._parts[-1].action)
            totals, returns, variances = (
                np.concatenate(pair)
                for pair in ((totals, new), (returns, got), (variances, variance))
            )
        starts = np.concatenate([part.starts for part in self._parts[first:]])
        # The logarithm of an unbiased estimate is too low by half its relative variance.
        shortfall = 0.5 * float(variances.mean())
        return _Second(totals, returns, shortfall, values.start(starts)[:, column])

    def _combined(self, which: int, fit: _Fit, second: _Second) -> FittedEstimate:
        """Combine the agent's return with both estimates of the soft value of the start."""
        from scipy.stats import t as student

        b = float(fit.values.rationalities[0])
        agent = self.agent.returns[:, which]
        count = min(len(agent), len(second.values))
        value = b * float(agent.mean()) - second.corrected
        error = math.hypot(
            b * float(agent.std(ddof=1)) / math.sqrt(len(agent)),
            float(second.values.std(ddof=1)) / math.sqrt(len(second.values)),
        )
        quantile = float(student.ppf(0.5 * (1 + self._level), count - 1))
        half = quantile * error
        unknown = max(second.unknown, second.shortfall)
        notes = [
            "an estimate without a guarantee, at the rationality that was reached: MEG is at least "
            "as large"
        ]
        if unknown > max(half, 0.05 * value):
            notes.append(
                f"the two estimates of the soft value of the start may differ by {nats(unknown)} "
                f"nats, which the interval includes; a larger budget may help"
            )
        # Slope and curvature of MEG at b tell what other rationalities may add.
        slope = abs(float(agent.mean() - second.returns.mean()))
        more = slope * min(slope / max(2.0 * fit.curvature, 1e-300), (_FINEST - 1.0) * abs(b))
        ceiling = self._ceiling(quantile)
        low, high = value - half - unknown, value + half + second.shortfall + more
        spread = [float(each.std()) / math.sqrt(len(each)) for each in (agent, fit.free)]
        if abs(agent.mean() - fit.free.mean()) <= quantile * math.hypot(*spread):
            # Any rationality may be the best one. Three more episodes could have the best return
            # (rule of three).
            gained = [*agent, *[fit.best] * _UNSEEN]
            upper = float(np.mean(gained)) + math.copysign(quantile * spread[0], b)
            low, high = 0.0, max(high, float((fit.checks @ [upper, -1.0]).max()))
            notes.append("the return of the agent does not differ significantly from free choice")
        method = _BY_PARTICLES if self._simulator.repeats >= _PARTICLES else _ROLLOUTS
        return FittedEstimate(
            value=min(max(value, 0.0), ceiling),
            interval=(min(max(low, 0.0), ceiling), min(max(high, 0.0), ceiling)),
            rationality=b if value > 0 else 0.0,
            method=method,
            steps_to_halve=3 * sum(self.steps.values()) if half > unknown else None,
            notes=tuple(notes),
        )


def _agreed(meg: FloatArray, unknown: FloatArray, ceiling: float) -> int:
    """Return the rationality with the largest MEG of those on which both estimators agree.

    MEG above the ceiling shows that the soft policies lack something that the agent has found.
    """
    alike = np.maximum(unknown, meg - ceiling) <= _ALIKE * np.abs(meg) + _ALIKE_NATS
    # Rationalities are in the order of their absolute values.
    return int(np.argmax(np.where(alike, meg, -math.inf))) if alike.any() else 0


def _vertex(rationalities: FloatArray, meg: FloatArray, column: int) -> tuple[float, float]:
    """Return the maximum of the parabola through a column and its neighbours, and its curvature.

    Without two neighbours below it, the column is the best, with an unknown curvature (0).
    """
    best = float(rationalities[column])
    if not 0 < column < len(meg) - 1 or meg[column] < max(meg[column - 1], meg[column + 1]):
        return best, 0.0
    b, y = (each[column - 1 : column + 2] for each in (rationalities / best, meg))
    square, linear, _ = np.polyfit(b, y, 2)
    if square >= 0:
        return best, 0.0
    vertex = float(np.clip(-linear / (2.0 * square), b.min(), b.max()))
    return vertex * best, -2.0 * float(square) / best**2


def _soft_policy(values: SoftValues, column: int, recorder: Recorder, name: str) -> SimulatorAgent:
    def batch(
        observations: Sequence[Any], decision: int, generator: np.random.Generator
    ) -> list[Distribution]:
        seen = np.stack([recorder.flattened(each) for each in observations])
        _, log_ratio = values.policy(seen, decision, column)
        share = np.exp(log_ratio)
        return [Distribution.of(row) for row in share / share.sum(axis=1, keepdims=True)]

    return actor_of_batch(batch, name, is_function=True)
