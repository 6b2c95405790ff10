"""Estimate MEG where states do not recur: fitted soft values, checked by fresh episodes.

Two estimators of the soft value of the start must agree: a regression of recorded steps, and fresh
episodes of its soft policy (particles that follow it, if no step is random). Their steps are added
to the regression, which is repeated several times.

Source: docs/notes/mathematics.md, "Where states do not recur".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.agents.environment_agents import Actor, Distribution, actor_of_batch
from goalmeter.meg.simulator import protocol
from goalmeter.meg.simulator.checks import (
    ROUGH,
    Check,
    played_particles,
    pooled_value,
    spread_of_fits,
    upper_bounds,
)
from goalmeter.meg.simulator.environments import GymnasiumSimulator
from goalmeter.meg.simulator.protocol import ChosenAction, Episodes, Reference, episodes_until
from goalmeter.meg.simulator.soft_values import (
    ActionSet,
    KernelFeatures,
    RecordedSteps,
    Recorder,
    SoftValues,
)
from goalmeter.report.numbers import nats

# --- Estimate -------------------------------------------------------------------------------------
# Number of particles from each start; number of groups that are preferred to larger ones.
_LEAST_PARTICLES, _GROUPS = 8, 4
_ALIKE = 0.3  # most standard deviation of soft values of starts, in nats, that are alike
_FIRST = 2**42  # number of the first episode, so that no seed is shared with other parts
# Shares of the budget: the agent's first episodes; free choice; refinement of the fit. The rest is
# divided between the agent and the second estimator by their errors.
_AGENT, _FREE, _REFINE = 0.1, 0.05, 0.45
LEAST_EPISODES = 100  # number of episodes that the budget must allow
_ROUNDS = 4  # number of refinements
_LAST = 0.7, 0.3  # shares of the last two checks in what is left for them
_MOST = 12_000  # most steps of a regression
# Largest rationality at first, in inverse returns; least ratio of neighbouring ones.
_WIDEST, _FINEST = 200.0, 1.4
# Standard errors of a bound by episodes, and of one that an estimate should not exceed.
_ERRORS, _AGREE = 3.0, 1.5
_MULTIPLES = np.geomspace(0.25, 2.0, 61)  # of the best rationality, at which bounds are computed
_GAINED = 0.1  # least share of the agent's gain that shows that soft policies have learnt
_UNSEEN = 3  # number of episodes that 95% intervals allow for events that did not occur
_BY_AGENT = "agent"  # purpose of the agent's steps
_LEAST = 4  # number of the agent's last episodes, and of fresh episodes or groups of the last check


class _Fit(NamedTuple):
    """Fitted values of one utility, and what all rounds have found."""

    rationality: float  # the best one
    linear_map: FloatArray | None  # of inputs
    spread: float  # standard deviation of the last fresh episodes
    free: FloatArray  # returns of free choice
    checks: list[Check]  # all second estimates
    best: float  # largest return of any soft policy


# Receives the number of a utility, its current estimate, and that less what is unknown.
Report = Callable[[int, float, float], None]


class Fitting:
    """Estimation of MEG towards all utilities of a simulator with its actions."""

    def __init__(
        self,
        simulator: GymnasiumSimulator,
        actor: Actor,
        horizon: int,
        budget: int,
        seed: int,
        level: float,
    ) -> None:
        self._simulator, self._actor, self._horizon = simulator, actor, horizon
        self._budget, self._level = budget, level
        self._generator = np.random.default_rng(protocol.seeded(seed, protocol.FITTING))
        self._recorder = Recorder(simulator.environment.observation_space)
        self._actions = ActionSet(simulator.reference)
        self._parts: list[RecordedSteps] = []
        self._number = _FIRST  # number of the next episode
        self.steps = {_BY_AGENT: 0, simulator.reference.name: 0, "soft policies": 0}
        self.played: list[Episodes] = []  # of the agent
        simulator.record(self._recorder)

    @property
    def agent(self) -> Episodes:
        """Episodes of the agent so far."""
        return Episodes.of(self.played)

    def estimates(self, report: Report) -> list[dict[str, Any]]:
        """Return the fields of each utility's result; `report` gets its number and value."""
        count = len(self._simulator.utilities.names)
        first = self._play(self._actor, _AGENT * self._budget, _BY_AGENT)
        reference = self._simulator.reference.agent()
        free = self._play(reference, _FREE * self._budget, self._simulator.reference.name)
        fits = [
            self._refined(which, free.returns[:, which], _REFINE / count, report)
            for which in range(count)
        ]
        left = self._budget - sum(self.steps.values())
        spread = max(
            float(first.returns[:, which].std() * abs(fit.rationality))
            for which, fit in enumerate(fits)
        )
        other = max(fit.spread for fit in fits)
        share = min(max(spread / (spread + other + 1e-9), 0.1), 0.6)
        # The first episodes chose the rationality, so only new ones are used for the estimate.
        least = _LEAST * self._horizon
        agent = self._play(self._actor, max(share * left, least), _BY_AGENT)
        left = self._budget - sum(self.steps.values())
        out = []
        for which, fit in enumerate(fits):
            returns, b, last = agent.returns[:, which], fit.rationality, list[Check]()
            for share in _LAST:
                values = self._fit(which, np.array([b]), fit.linear_map)
                last.append(self._second(values, 0, which, share * left / count, _LEAST))
                if self._by_particles:
                    # Next where MEG is bounded worst, or else at half, where particles are better.
                    near, checks = b * _MULTIPLES, [*fit.checks, *last]
                    place = upper_bounds(checks, float(returns.mean()), near, _ERRORS).argmax()
                    b = float(near[place]) if 0 < place < len(near) - 1 else b / 2.0
            deviation = float(self.agent.returns[:, which].std(ddof=1))
            out.append(self._combined(fit, returns, last, deviation))
        return out

    @property
    def _by_particles(self) -> bool:
        return self._simulator.repeats >= _LEAST_PARTICLES

    def _valid(self, checks: Sequence[Check]) -> list[Check]:
        """Return the checks without particles if any step was random."""
        return [each for each in checks if self._by_particles or each.weights.shape[1] == 1]

    def _play(self, actor: Actor, steps: float, purpose: str) -> Episodes:
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
        checks: list[Check] = []
        most = float((sign * np.concatenate([agent, free])).max())
        ratio = 4.0
        for number in range(_ROUNDS + 1):
            values = self._fit(which, rationalities, linear_map)
            if not values.features.is_table:
                linear_map = values.map(self._sample(400))
                if number == 0:
                    values = self._fit(which, rationalities, linear_map)
            steps = share * self._budget / (_ROUNDS + 1) / len(rationalities)
            seconds = [self._second(values, c, which, steps) for c in range(len(rationalities))]
            checks = self._valid([*checks, *seconds])
            most = max(most, *(float((sign * each.returns).max()) for each in seconds))
            # Fitted values vary less between rationalities by chance than episodes do.
            smooth = [each.corrected if each.variance else each.fitted.mean() for each in seconds]
            collected = float(agent.mean())
            meg = rationalities * collected - np.array(smooth)
            excess = np.maximum(meg - upper_bounds(checks, collected, rationalities, _AGREE), 0.0)
            unknown = np.array([each.unknown for each in seconds]) + excess
            meg -= excess
            # MEG above the ceiling shows that the soft policies lack what the agent has found.
            doubt = np.maximum(unknown, meg - self._ceiling(_ERRORS))
            column = int(np.argmax(meg - doubt))
            report(which, float(meg[column]), max(float(meg[column] - unknown[column]), 0.0))
            best = _vertex(rationalities, meg, column)
            if number == _ROUNDS:
                break
            if 0 < column < len(rationalities) - 1:
                ratio = max(ratio**0.6, _FINEST)
            rationalities = best * np.geomspace(1.0 / ratio, ratio, 3)
        spread = float(seconds[column].values(rationalities[[column]]).std())
        return _Fit(best, linear_map, spread, free, checks, sign * most)

    def _ceiling(self, quantile: float) -> float:
        """Return the upper end of the relative entropy of the agent, which MEG does not exceed."""
        known: FloatArray = self.agent.information
        if np.isnan(known).any():
            if not self._simulator.n_actions:
                return math.inf
            known = math.log(self._simulator.n_actions) * self.agent.decisions.astype(np.float64)
        # Rare decisions with much information may be missing (rule of three).
        mean = np.mean([*known, *[known.max()] * _UNSEEN])
        return float(mean + quantile * known.std() / math.sqrt(len(known)))

    def _sample(self, most: int) -> RecordedSteps:
        steps = RecordedSteps(*map(np.concatenate, zip(*self._parts, strict=True)))
        self._parts = [steps]
        if len(steps.action) <= most:
            return steps
        return steps.subset(self._generator.choice(len(steps.action), most, replace=False))

    def _fit(
        self, which: int, rationalities: FloatArray, linear_map: FloatArray | None
    ) -> SoftValues:
        steps = self._sample(_MOST)
        # The actions of first observations are of no importance.
        inputs = self._actions.inputs(steps.seen, steps.action)
        starts = self._actions.inputs(steps.starts, steps.action[: len(steps.starts)])
        features = KernelFeatures(np.concatenate([inputs, starts]), linear_map, self._generator)
        return SoftValues(
            features,
            self._actions,
            steps,
            steps.paid[:, which],
            rationalities,
            self._horizon,
            self._generator,
        )

    def _second(
        self, values: SoftValues, column: int, which: int, steps: float, least: int = 1
    ) -> Check:
        """Estimate the soft value of the start by fresh episodes or groups of particles."""
        simulator, b = self._simulator, values.rationalities[column]
        episodes, most = steps / self._horizon, simulator.repeats
        starts = np.concatenate([part.starts for part in self._parts])
        every = values.start(starts[:: len(starts) // _MOST + 1])[..., column]
        pooled = self._by_particles and float(every.mean(axis=0).std()) < _ALIKE
        size = _LEAST_PARTICLES
        if pooled:
            size = min(max(int(episodes / _GROUPS), size), most)
        groups = min(most // size, math.ceil(episodes / size))
        policy = _soft_policy(values, column, self._recorder, simulator.reference)
        first, by_particles = len(self._parts), self._by_particles
        found, left = list[tuple[FloatArray, ...]](), steps
        while left > 0 or sum(len(each) for each, *_ in found) < least:
            if by_particles and not self._by_particles:
                # A step was random, so that the mean weight of particles estimates another value.
                return self._second(values, column, which, left, least)
            if by_particles:
                together = simulator.begun_together(self._number, max(groups, 1), size)
                self._number += 1
                found.append(
                    played_particles(
                        simulator, together, size, values, column, which, self._generator
                    )
                )
                self._parts.append(self._recorder.taken())
                self.steps["soft policies"] += len(self._parts[-1].action)
            else:
                played = self._play(policy, left, "soft policies")
                got = played.returns[:, which]
                value = b * got - played.information
                found.append((value[:, None], got[:, None], np.zeros(len(got))))
            left -= len(self._parts[-1].action)
        weights, returns, variances = map(np.concatenate, zip(*found, strict=True))
        # Starts differ by chance, by about as much as their fitted values.
        played_starts = np.concatenate([part.starts for part in self._parts[first:]])
        start_values = values.start(played_starts)[..., column].mean(axis=0)
        fitted = every.mean(axis=1)
        weights = weights + fitted.mean() - start_values.reshape(len(weights), -1)[:, :1]
        return Check(b, weights, returns, float(variances.mean()), fitted, pooled)

    def _combined(
        self, fit: _Fit, agent: FloatArray, last: Sequence[Check], deviation: float
    ) -> dict[str, Any]:
        """Combine the agent's return with both estimates of the soft value of the start.

        `agent` are the returns of its last episodes, `deviation` is that of all its returns.
        """
        from scipy.stats import t as student

        collected = float(agent.mean())
        # Few last episodes may be alike by chance; the first ones chose, but their spread is valid.
        agent_error = max(float(agent.std(ddof=1)), deviation) / math.sqrt(len(agent))
        last = self._valid(last)
        checks, estimates = [*self._valid(fit.checks), *last], []
        rationalities = np.array([each.rationality for each in checks])
        most = self._ceiling(_ERRORS)
        level = 0.5 * (1.0 + self._level)
        quantile = float(student.ppf(level, len(agent) - 1))
        for second in last:
            b = second.rationality
            soft, soft_error, count = (
                float(each[0]) for each in pooled_value(checks, np.array([b]))
            )
            soft += 0.5 * soft_error**2
            if not soft_error < ROUGH:
                soft, soft_error = second.corrected, second.estimate[1]
                count = float(len(second.weights))
                # Fresh episodes of one fit may all lack the same trajectories.
                soft_error = max(soft_error, spread_of_fits(checks, b))
            # The sum of errors of means of few and of many numbers (Welch 1947).
            freedom = np.array([len(agent) - 1.0, max(count - 1.0, 1.0)])
            squares = np.array([b * agent_error, soft_error]) ** 2 + 1e-30
            freedom = squares.sum() ** 2 / (squares**2 / freedom).sum()
            half = float(student.ppf(level, freedom)) * math.sqrt(squares.sum())
            value = b * collected - soft
            # An estimate above what others allow is wrong by at least the difference.
            allowed = float(upper_bounds(checks, collected, np.array([b]), _AGREE)[0])
            excess = max(value - min(allowed, most), 0.0)
            unknown = second.unknown + excess
            value -= excess
            estimates.append((value - half - unknown, value, half, unknown, b))
        low, value, half, unknown, b = map(float, max(estimates))
        notes = [
            "an estimate without a guarantee; MEG may be larger at rationalities that were not "
            "tried"
        ]
        if unknown > max(half, 0.05 * value):
            notes.append(
                f"the two estimates of the soft value of the start may differ by {nats(unknown)} "
                f"nats, which the lower end includes; a larger budget may help"
            )
        soft_returns = min(last, key=lambda each: abs(each.rationality - b)).mean_returns
        gain = collected - fit.free.mean()
        if abs(soft_returns.mean() - fit.free.mean()) < _GAINED * abs(gain):
            notes.append(
                "soft policies at this rationality gain no more than free choice: if they missed "
                "rare episodes with a high return, the estimate is too large"
            )
        error = quantile * agent_error
        near = fit.rationality * _MULTIPLES
        bound = float(upper_bounds(checks, collected, near, _ERRORS, error).max())
        # The rationality of any check may be better than the one that was found.
        far = float(upper_bounds(checks, collected, rationalities, _AGREE, error).max())
        high = max(value, bound, far)
        ceiling = self._ceiling(quantile)
        free_error = float(fit.free.std()) / math.sqrt(len(fit.free))
        least, towards = math.hypot(error, quantile * free_error), gain * math.copysign(1.0, b)
        if towards <= least:
            # Any rationality may be the best one.
            sign, gained = 1.0, [*agent, *[fit.best] * _UNSEEN]  # rule of three
            note = (
                f"the return of the agent does not differ significantly from that of "
                f"{self._simulator.reference.name}"
            )
            if towards < -least:
                sign, gained = -1.0, [*agent]
                note = (
                    "the agent's last episodes show a preference that is opposite to that of its "
                    "first ones, for which MEG was not estimated; a larger budget may help"
                )
            notes.append(note)
            upper = float(np.mean(gained)) + math.copysign(error, sign * b)
            bound = float(upper_bounds(checks, upper, sign * rationalities, _ERRORS).max())
            low, high = 0.0, max(high, bound)
        particles, episodes = "twisted sequential Monte Carlo", "fresh episodes of the soft policy"
        check = particles if self._by_particles else episodes
        return {
            "value": min(max(value, 0.0), ceiling),
            "interval": (min(max(low, 0.0), ceiling), min(max(high, 0.0), ceiling)),
            "rationality": b if value > 0 else 0.0,
            "method": f"fitted soft values, checked by {check}",
            "steps_to_halve": 3 * sum(self.steps.values()) if half > unknown else None,
            "notes": notes,
        }


def _vertex(rationalities: FloatArray, meg: FloatArray, column: int) -> float:
    """Return the maximum of the parabola through a column and its neighbours, if it has one."""
    best = float(rationalities[column])
    if not 0 < column < len(meg) - 1 or meg[column] < max(meg[column - 1], meg[column + 1]):
        return best
    b, y = (each[column - 1 : column + 2] for each in (rationalities / best, meg))
    square, linear, _ = np.polyfit(b, y, 2)
    return best * float(np.clip(-linear / (2.0 * square), b.min(), b.max())) if square < 0 else best


def _soft_policy(
    values: SoftValues, column: int, recorder: Recorder, reference: Reference
) -> Actor:
    """Return the policy of fitted values at one of their rationalities."""

    def batch(
        observations: Sequence[Any], decision: int, generator: np.random.Generator
    ) -> list[Distribution] | list[ChosenAction]:
        seen = np.stack([recorder.flattened(each) for each in observations])
        _, log_ratio, actions = values.policy(seen, decision, column, generator)
        share = np.exp(log_ratio)
        rows = [Distribution.of(row) for row in share / share.sum(axis=1, keepdims=True)]
        if actions.ndim == 2:
            return rows
        # The choice of a candidate has at least as much information as that of an action.
        return [
            reference.decision(candidates[generator.choice(len(row.row), p=row.row)])._replace(
                information=row.information
            )
            for candidates, row in zip(actions, rows, strict=True)
        ]

    return actor_of_batch(batch, "soft policy", is_function=True)
