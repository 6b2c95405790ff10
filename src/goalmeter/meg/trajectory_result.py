"""`TrajectoryMeg`: a goal-directedness estimated from a sample, with what the sample supports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from goalmeter.meg.result import MegResult
from goalmeter.report.numbers import general, nats, number, percent

# What is said where the correction for bias would have led below 0.
FLOORED = (
    "the estimate less its bias is below 0 and is given as 0, which MEG cannot fall below: over "
    "small true values such estimates are too high on average; `unfloored` has no floor"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryMeg(MegResult):
    """MEG estimated from trajectories: `value` is the maximised sample average (`raw`).

    Attributes:
        n: number of trajectories.
        corrected: `raw` less its first-order bias, nats; the estimate to quote. MEG is not
            negative, so neither is this: where the bias is the larger one, it is 0. That makes it
            too high on average over small true values.
        unfloored: the same without that floor, nats; to average over many estimates.
        standard_error: of `corrected`, nats.
        interval: bootstrap interval over trajectories for the behaviour's MEG, nats; with that of
            Student's t for fewer than ten, and as far as that many may mislead where all give the
            same evidence. Of fewer than five it is 0 to the maximum.
        confidence: nominal coverage of the interval.
        likelihood_ratio: 2 n raw, the statistic of the test of rationality 0.
        degrees_of_freedom: of that test's chi-square.
        p_value: probability of so large a statistic if actions were drawn from the reference.
        held_out: cross-fitted evidence, nats a trajectory: each trajectory is scored by the
            model fitted to the others, mixed with one part in (decisions fitted + 1) of the
            reference. What the fitted goal predicts of trajectories it has not seen: far below
            `raw`, or below 0, where a rich class only overfits; NaN for a single trajectory.
    """

    # What one observation is called in a table; a subclass may count something else.
    _COUNTED = "trajectories"

    n: int
    corrected: float
    unfloored: float
    standard_error: float
    interval: tuple[float, float]
    confidence: float
    likelihood_ratio: float
    degrees_of_freedom: float
    p_value: float
    held_out: float

    @property
    def _floor(self) -> str:
        """In words, where the correction would have led below 0."""
        return "" if self.unfloored >= 0 else f" (0 for {general(self.unfloored, 3)})"

    @property
    def raw(self) -> float:
        """The maximised sample average, nats a trajectory; biased upwards."""
        return self.value

    def headline(self) -> list[tuple[str, str]]:
        """The estimate with its interval, its test, and what was observed."""
        low, high = self.interval
        return [
            ("MEG, estimate", f"{nats(self.corrected)} nats"),
            *(
                [("the same without a floor at 0", f"{number(self.unfloored, 4)} nats")]
                if self.unfloored < 0
                else []
            ),
            (f"{percent(self.confidence, 0)} interval", f"{nats(low)} to {nats(high)} nats"),
            (self._COUNTED, str(self.n)),
            ("held out", f"{number(self.held_out, 4)} nats"),
            ("p, against the reference", general(self.p_value, 3)),
            ("sample average, biased upwards", f"{nats(self.value)} nats"),
        ]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return super().to_json() | {
            "n": self.n,
            "raw": self.raw,
            "corrected": self.corrected,
            "unfloored": self.unfloored,
            "standard_error": self.standard_error,
            "interval": list(self.interval),
            "confidence": self.confidence,
            "likelihood_ratio": self.likelihood_ratio,
            "degrees_of_freedom": self.degrees_of_freedom,
            "p_value": self.p_value,
            "held_out": self.held_out,
        }

    def __str__(self) -> str:
        low, high = self.interval
        lines = [
            f"MEG {general(self.raw)} nats raw, {general(self.corrected)} corrected for bias"
            f"{self._floor}, {percent(self.confidence, 0)} interval "
            f"[{general(low)}, {general(high)}]",
            f"  from {self.n} trajectories; raw is {percent(self.fraction)} of "
            f"{general(self.maximum)}; held out {general(self.held_out)}",
            f"  towards {self.target}, against the {self.reference}",
            f"  test of rationality 0: p = {general(self.p_value, 3)} (likelihood ratio "
            f"{general(self.likelihood_ratio, 4)}, {general(self.degrees_of_freedom, 3)} df)",
            f"  rationality {general(self.rationality)}; {self.method}",
            *(f"  note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)
