"""The bound by states: for simulators that can return to a state and know which states are the same.

The states that can be reached are tried action by action; what was seen leaves a set of possible
worlds (`confidence`), and the highest soft value among them (`possible_worlds`) is above the true
one. It is so for every utility and rationality at once, so these may be chosen freely. What the
agent collects comes from its own fresh episodes, each beside the soft value of the state in which
it began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.acting import Actor
from goalmeter.meg.simulator.confidence import ConfidenceSet
from goalmeter.meg.simulator.ends import (
    LOWER,
    UPPER,
    WORLD,
    Ends,
    entropies,
    fitted_and_fresh,
    largest_concave,
    without_planning,
)
from goalmeter.meg.simulator.exploration import Exploration
from goalmeter.meg.simulator.lines import Line, highest
from goalmeter.meg.simulator.possible_worlds import AS_SEEN, LEAST, MOST, PossibleWorlds
from goalmeter.meg.simulator.protocol import Episodes, Simulator
from goalmeter.meg.simulator.utilities import Range
from goalmeter.statistics.betting import lower_limit, upper_limit

METHOD = "table of states with a confidence set of worlds"
# Of the budget: the first episodes, and what exploring may take before anything is bounded.
_FIRST_EPISODES, _FIRST_STATES = 0.04, 0.6
# Each round spends so much of what was spent before.
_GROWTH = 0.6
# Multiples of the rationality that fits best, at which a lower end is tried on the fitting half.
_TRIED = (0.35, 0.5, 0.65, 0.8, 1.0, 1.2)
# Multiples at which policies are evaluated for the upper end.
_POLICIES = (0.0, 0.25, 0.5, 0.8, 1.0, 1.25, 2.0, 8.0, 1024.0)


@dataclass(frozen=True)
class Towards:
    """What is known so far of one utility.

    Attributes:
        value: the point estimate, nats.
        rationality: at which the lower end is bounded, with its sign.
        ends: the interval.
    """

    value: float
    rationality: float
    ends: Ends


@dataclass
class StatesMeasure:
    """A measurement that goes on round by round until its budget is spent.

    Attributes:
        simulator: the world.
        actor: the agent.
        horizon: H.
        error: 1 - level.
        seed: of all draws of exploring.
        budget: steps in all.
        precision: it ends early when the lower end is known to this share of the estimate.
    """

    simulator: Simulator
    actor: Actor
    horizon: int
    error: float
    seed: int
    budget: int
    precision: float
    episodes: Episodes = field(init=False)
    exploration: Exploration = field(init=False)
    _chunks: int = field(init=False, default=0)
    _rationality: dict[int, float] = field(init=False, default_factory=dict)
    _scales: dict[int, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.exploration = Exploration(self.simulator, self.seed)
        self.episodes = self.simulator.play(self.actor, self.horizon, 0)
        self._chunks = 1

    @property
    def steps(self) -> int:
        """Steps that were taken so far."""
        return self.episodes.steps + self.exploration.steps

    def run(self, tell: Callable[[StatesMeasure, list[Towards]], None]) -> str:
        """Measure until the budget is spent or the ends are close; what ended it."""
        self._play(int(_FIRST_EPISODES * self.budget))
        self._expand(int(_FIRST_STATES * self.budget))
        while True:
            worlds = self.worlds()
            fitted, _ = fitted_and_fresh(self.episodes)
            gain = np.zeros(len(worlds.worlds.total))
            lost, rough = 0.0, []
            for which in range(len(self.simulator.utilities.names)):
                towards, width, missing = self._fit(worlds, fitted, which)
                rough.append(towards)
                # The utility that is known worst decides where the steps go.
                if missing + width.sum() >= lost:
                    lost, gain, noise = missing + width.sum(), width, missing
            tell(self, rough)
            close = all(t.ends.low >= (1 - self.precision) * t.value for t in rough)
            left = self.budget - self.steps
            if left < self.simulator.chunk or close:
                return "precision" if close and left > 0 else "budget"
            self._spend(min(left, int(_GROWTH * self.steps) + 1), gain, noise, worlds)

    def worlds(self) -> PossibleWorlds:
        """What the draws so far leave possible."""
        arrays = self.exploration.table.arrays()
        return PossibleWorlds(
            ConfidenceSet(arrays, WORLD * self.error),
            self.simulator.n_actions,
            self.horizon,
            self._ranges(arrays.paid),
        )

    def ends(self) -> list[Towards]:
        """The interval of each utility, from the episodes that nothing was chosen with."""
        worlds = self.worlds()
        fitted, fresh = fitted_and_fresh(self.episodes)
        count = len(self.simulator.utilities.names)
        plain = without_planning(
            fresh, self.simulator.n_actions, self.horizon, UPPER * self.error / 2
        )
        out = []
        for which in range(count):
            towards, _, _ = self._fit(worlds, fitted, which)
            beta = towards.rationality
            low = self._lower(worlds, fresh, which, beta, LOWER * self.error / count)
            by_policies = self._upper(worlds, fresh, which, beta, UPPER * self.error / 2 / count)
            high_by = "policies" if by_policies < plain.high else plain.high_by
            ends = Ends(
                max(low, 0.0),
                max(min(by_policies, plain.high), low, 0.0),
                "the table of states" if low > 0 else "zero",
                high_by,
            )
            out.append(Towards(min(max(towards.value, ends.low), ends.high), beta, ends))
        return out

    # --- One utility ------------------------------------------------------------------------------

    def _fit(
        self, worlds: PossibleWorlds, fitted: Episodes, which: int
    ) -> tuple[Towards, FloatArray, float]:
        """A rationality for a utility, from what may be chosen with; what the widths cost."""
        everything = float(self.episodes.returns[:, which].mean())
        one = self._one(which)

        def evidence(b: float) -> float:
            value = worlds.soft_plan(b * one, AS_SEEN).value[0]
            return b * everything - float(value[self.episodes.starts].mean())

        scale = self._scales.get(which) or 1.0 / max(
            float(np.ptp(self.episodes.returns[:, which])),
            worlds.ranges[which].high - worlds.ranges[which].low,
            1e-12,
        )
        up = largest_concave(evidence, scale)
        down = largest_concave(lambda b: evidence(-b), scale) if up[1] <= 0 else (0.0, 0.0)
        best, value = up if up[1] >= down[1] else (-down[0], down[1])
        self._scales[which] = abs(best) or scale
        error = LOWER * self.error / len(self.simulator.utilities.names)
        tried = [
            (self._lower(worlds, fitted, which, factor * best, error), factor * best)
            for factor in _TRIED
        ]
        low, beta = max(tried) if best else (0.0, 0.0)
        plan = worlds.soft_plan(beta * one, MOST)
        starts = np.bincount(self.episodes.starts, minlength=worlds.n_states)
        visits = worlds.visits(plan, starts / starts.sum())
        width = (visits * plan.slack).sum(axis=0)
        exact = beta * float(fitted.returns[:, which].mean())
        exact -= float(plan.value[0][fitted.starts].mean())
        noise = max(exact - low, 0.0)
        ends = Ends(max(low, 0.0), np.inf, "the table of states", "")
        return Towards(max(value, 0.0), beta, ends), width, noise

    def _lower(
        self, worlds: PossibleWorlds, episodes: Episodes, which: int, beta: float, error: float
    ) -> float:
        """Lower limit of beta * return less the highest soft value of the start, nats."""
        most = worlds.soft_plan(beta * self._one(which), MOST).value[0]
        low, high = worlds.ranges[which].scaled(beta).of_episode(self.horizon)
        started = most[episodes.starts]
        evidence = beta * episodes.returns[:, which] - started
        return lower_limit(
            evidence,
            low=low - float(started.max()),
            high=high - float(started.min()),
            error=error,
        )

    def _upper(
        self, worlds: PossibleWorlds, episodes: Episodes, which: int, beta: float, error: float
    ) -> float:
        """The height of the lowest line of policies, of either sign of the rationality, nats."""
        one = self._one(which)
        size = abs(beta) or self._scales[which]
        known = len(np.unique(episodes.starts)) == 1
        low, high = worlds.ranges[which].of_episode(self.horizon)
        collected = episodes.returns[:, which]
        # Each line needs two limits: of what the agent collects beyond it, and of its height.
        each = error / (4 * len(_POLICIES))
        out = 0.0
        for sign in (1.0, -1.0):
            lines = []
            for factor in _POLICIES:
                policy = worlds.soft_plan(sign * factor * size * one, AS_SEEN).policy
                at_least = worlds.evaluate(policy, sign * one, LEAST)[episodes.starts]
                cost = entropies(policy)
                nothing = np.zeros_like(one)
                heights = worlds.evaluate(policy, nothing, MOST, cost)[episodes.starts]
                ends = sorted((sign * low, sign * high))
                slope = upper_limit(
                    sign * collected - at_least,
                    low=ends[0] - float(at_least.max()),
                    high=ends[1] - float(at_least.min()),
                    error=each,
                )
                most = float(cost.max(axis=(1,)).sum()) if cost.size else 0.0
                height = (
                    float(heights[0])
                    if known
                    else upper_limit(np.minimum(heights, most), low=0, high=most, error=each)
                )
                lines.append(Line(slope, height))
            out = max(out, highest(lines, max(high - low, 1e-300)))
        return out

    # --- Steps ------------------------------------------------------------------------------------

    def _play(self, budget: int) -> None:
        """More episodes, until they have taken so many steps."""
        limit = self.episodes.steps + budget
        parts = [self.episodes]
        taken = self.episodes.steps
        while taken < limit:
            parts.append(self.simulator.play(self.actor, self.horizon, self._chunks))
            self._chunks += 1
            # An episode that is over before it begins takes no step, and must not go on for ever.
            taken += max(parts[-1].steps, 1)
        columns = zip(*(part.columns for part in parts), strict=True)
        self.episodes = Episodes(*map(np.concatenate, columns))

    def _expand(self, budget: int) -> None:
        starts = np.unique(self.episodes.starts)
        self.exploration.expand(starts.tolist(), budget)

    def _spend(
        self, steps: int, gain: FloatArray, noise: float, worlds: PossibleWorlds
    ) -> None:
        """One more round, shared out between the agent's episodes and the world's states."""
        total = worlds.worlds.total
        states = (gain.sum() * np.sqrt(max(total.sum(), 1.0))) ** (2 / 3)
        agent = (noise * np.sqrt(max(self.episodes.steps, 1))) ** (2 / 3)
        share = states / (states + agent) if states + agent > 0 else 0.5
        if steps * (1 - share) >= 1:
            self._play(int(steps * (1 - share)))
        before = self.exploration.steps
        self._expand(int(steps * share))
        gain = np.append(gain, np.zeros(len(self.exploration.table.pairs) - len(gain)))
        total = np.append(total, np.zeros(len(gain) - len(total)))
        # Pairs that were never drawn are met by `expand`, not here.
        gain[total == 0] = 0.0
        self.exploration.refine(
            gain, total, int(steps * share) - (self.exploration.steps - before)
        )

    def _one(self, which: int) -> FloatArray:
        out = np.zeros(len(self.simulator.utilities.names))
        out[which] = 1.0
        return out

    def _ranges(self, paid: FloatArray) -> tuple[Range, ...]:
        utilities = self.simulator.utilities
        return tuple(
            utilities.bounds.get(name)
            or Range(float(paid[..., i].min()), float(paid[..., i].max()), assumed=True)
            for i, name in enumerate(utilities.names)
        )
