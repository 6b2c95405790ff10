"""The bound from the start alone: for simulators that are only reset and stepped.

By Jensen's inequality exp W_0 is at most E[exp(b R)] under free choice, R what an episode collects:
equal where nothing is left to chance, looser where much is. Episodes of free choice bound that
expectation, given the most that an episode can collect. What n episodes never showed may have a
probability of 9 / n or so, which holds the bound on MEG below log n; with nothing but `reset` and
`step` no method gets above the logarithm of its steps by more than a constant: see
docs/mathematics.md. The plain average of exp(b R) is no bound: it says 93.7 nats of an agent that
has 49.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from goalmeter.meg.simulator.agents.acting import Actor
from goalmeter.meg.simulator.bounds.ends import (
    LOWER,
    SOFT,
    UPPER,
    Ends,
    Towards,
    fitted_and_fresh,
    without_planning,
)
from goalmeter.meg.simulator.utilities.named_utilities import Range
from goalmeter.meg.simulator.worlds.protocol import Episodes, Simulator
from goalmeter.statistics.betting import lower_limit, upper_limit

# Of the steps: what the agent's own episodes take.
_AGENT = 0.35
_ROUNDS = 5
# Rationalities that are tried, in units of 1 / (what an episode may collect).
_TRIED = 2.0 ** np.arange(-4.0, 12.0)
# Numbers of the episodes of free choice, which share no seed with the agent's.
_FREE = 2**40


@dataclass
class StartMeasure:
    """A measurement by episodes of the agent and of free choice; see `StatesMeasure`.

    Attributes:
        simulator: the world.
        actor: the agent.
        horizon: H.
        error: 1 - level.
        budget: steps in all.
        before: steps that were taken from states.
        known: episodes of the agent that were played before, and how many chunks they came in.
        episodes: of the agent.
        free: of free choice.
    """

    simulator: Simulator
    actor: Actor
    horizon: int
    error: float
    budget: int
    before: int = 0
    known: tuple[Episodes, int] | None = None
    episodes: Episodes = field(init=False)
    free: Episodes = field(init=False)

    def __post_init__(self) -> None:
        self._chance = self.simulator.free_choice()
        self._played = [0, 0]

    @property
    def begun(self) -> bool:
        """Whether there are episodes of both that anything could be bounded with."""
        return all(self._played)

    @property
    def steps(self) -> dict[str, int]:
        """Steps that were taken so far, by purpose."""
        taken = {"agent": self.episodes.steps, self.simulator.reference: self.free.steps}
        return taken | ({"states": self.before} if self.before else {})

    def run(self, tell: Callable[[list[Towards]], None]) -> str:
        """Measure until the budget is spent; what ended it."""
        self.episodes, played = self.known or (self.simulator.play(self.actor, self.horizon, 0), 1)
        self.free = self.simulator.play(self._chance, self.horizon, _FREE)
        self._played = [played, 1]
        for part in range(1, _ROUNDS + 1):
            limit = self.budget * part / _ROUNDS
            self._more(0, limit * _AGENT)
            self._more(1, limit * (1 - _AGENT))
            if part < _ROUNDS:
                tell(self.ends())
        return "budget"

    def ends(self) -> list[Towards]:
        """The interval of each utility."""
        fitted, fresh = fitted_and_fresh(self.episodes)
        seen, unseen = fitted_and_fresh(self.free)
        most = self.simulator.most_information
        plain = without_planning(fresh, most, self.horizon, UPPER * self.error)
        out = []
        for which in range(len(self.simulator.utilities.names)):
            limits = self._range(which).of_episode(self.horizon)
            scale = max(limits[1] - limits[0], 1e-300)
            tried = [
                (self._lower(fitted, seen, which, sign * size / scale, limits), sign * size / scale)
                for size in _TRIED
                for sign in (1.0, -1.0)
            ]
            _, beta = max(tried)
            low = self._lower(fresh, unseen, which, beta, limits)
            ends = Ends(
                max(low, 0.0),
                max(plain.high, low),
                f"{self.simulator.reference} from the start" if low > 0 else "zero",
                plain.high_by,
            )
            out.append(Towards(ends.low, beta if low > 0 else 0.0, ends))
        return out

    def remarks(self) -> list[str]:
        """Nothing: no state and no agent has to be what it seems."""
        return []

    def assumed(self) -> list[str]:
        """What each interval rests on that nobody vouches for, as a sentence; "" for nothing."""
        ranges = map(self._range, range(len(self.simulator.utilities.names)))
        return [each.in_words() if each.assumed else "" for each in ranges]

    def _lower(
        self, agent: Episodes, free: Episodes, which: int, beta: float, limits: tuple[float, float]
    ) -> float:
        """Lower limit of beta * return less the log of its exponential under free choice, nats."""
        low, high = sorted((beta * limits[0], beta * limits[1]))
        count = len(self.simulator.utilities.names)
        collected = lower_limit(
            beta * agent.returns[:, which], low=low, high=high, error=LOWER * self.error / count
        )
        expected = upper_limit(
            np.exp(beta * free.returns[:, which] - high),
            low=math.exp(low - high),
            high=1.0,
            error=SOFT * self.error / count,
        )
        return collected - high - math.log(expected)

    def _range(self, which: int) -> Range:
        utilities = self.simulator.utilities
        name = utilities.names[which]
        if told := utilities.bounds.get(name):
            return told
        # What was seen of whole episodes stands in for what nobody says.
        seen = np.concatenate([self.episodes.returns[:, which], self.free.returns[:, which]])
        least, most = min(float(seen.min()), 0.0), max(float(seen.max()), 0.0)
        return Range(least, most, least, most, assumed=True)

    def _more(self, which: int, limit: float) -> None:
        """More episodes of the agent (0) or of free choice (1), until they took so many steps."""
        so_far = self.free if which else self.episodes
        actor, first = (self._chance, _FREE) if which else (self.actor, 0)
        parts, taken = [so_far], so_far.steps
        try:
            while taken < limit:
                parts.append(self.simulator.play(actor, self.horizon, first + self._played[which]))
                self._played[which] += 1
                # Episodes that are over before they begin take no step, and must end too.
                taken += max(parts[-1].steps, self.simulator.chunk)
        finally:
            # An interruption leaves whole episodes, and these bound as they are.
            if which:
                self.free = Episodes.of(parts)
            else:
                self.episodes = Episodes.of(parts)
