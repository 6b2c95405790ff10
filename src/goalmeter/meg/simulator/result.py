"""Results of MEG measurements in simulators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.meg.result import json_number
from goalmeter.meg.simulator.states import ASSUMED, UNDECLARED
from goalmeter.report.numbers import general, nats, percent, rationality
from goalmeter.report.tables import html_table, one_row

NO_MAXIMUM = "no maximum: actions are continuous"  # shown instead of a maximum
NOT_DETERMINED = "not determined"  # shown instead of a vacuous end of an interval


# Fields without a JSON value of their own; `value` is stored as "meg".
_NOT_IN_JSON = ("value", "utility_function", "measurement")


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {name: _json(each) for name, each in value.items()}
    return [_json(each) for each in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True)
class SimulatorResult:
    """MEG of an agent in a simulator: an interval and its assumptions.

    Attributes:
        value: point estimate in nats, without a guarantee; the lower bound if there is no estimate
            (`estimated` is False).
        interval: bounds of MEG in nats; they hold with probability `level` if the statement in
            `assumes` is true.
        level: confidence level over both bounds, all utilities and all rationalities tried.
        maximum: nats of a fully predictable agent: the mean of log A per decision (an estimate, so
            an upper bound may exceed it). A table excludes decisions without effect, which sampling
            cannot recognise. None for continuous actions, which have no maximum.
        rationality: beta at which the lower bound was proven, in inverse units of the utility.
        utility: name of the utility.
        world: name of the simulator.
        method: description of how the bounds were obtained.
        steps: number of simulator steps by purpose.
        binding: name of the bound that gave each end: "lower" and "upper".
        episodes: number of episodes of the agent used for fits or bounds.
        notes: statements that a reader of the numbers needs.
        weights: weights of the utilities by name, for a combination of several.
        stopped: why the measurement stopped: "interrupt", "budget" or "precision".
        reference: description of the policy with which the agent's actions are compared.
        fitted_episodes: number of episodes, including those of the reference, to which a learnt
            utility was fitted; no bound uses them.
        utility_function: learnt utility as a function of (observation, info).
        rests_on_assumption: whether the interval assumes that the utility stays within its observed
            range, since no bounds were given; a note states the range.
        estimated: whether `value` is an estimate rather than a bound of the interval.
        chance: declared source of randomness: "generator", "none" or "unknown".
        exceeds: lower bound of the MEG towards this utility minus that towards another one, by its
            name, in nats, from differences in the same episodes; see `less`.
        measurement: unique name of the call that returned this result.
    """

    value: float
    interval: tuple[float, float]
    level: float
    maximum: float | None
    rationality: float
    utility: str
    world: str
    method: str
    steps: Mapping[str, int]
    binding: Mapping[str, str]
    episodes: int
    notes: tuple[str, ...] = ()
    weights: Mapping[str, float] | None = None
    stopped: str = "budget"
    reference: str = "free choice"
    fitted_episodes: int = 0
    utility_function: Callable[[Any, Any], float] | None = None
    rests_on_assumption: bool = False
    estimated: bool = True
    chance: str = UNDECLARED
    exceeds: Mapping[str, float] = field(default_factory=dict)
    measurement: str = field(default="", repr=False, compare=False)

    @property
    def lower(self) -> float:
        """Lower bound in nats."""
        return self.interval[0]

    @property
    def upper_bound(self) -> float:
        """Upper bound in nats; inf if there is none."""
        return self.interval[1]

    @property
    def fraction(self) -> float | None:
        """Value / maximum, in [0, 1]; None without a maximum."""
        if self.maximum is None:
            return None
        return min(self.value / self.maximum, 1.0) if self.maximum > 0 else 0.0

    @property
    def signed(self) -> float:
        """Value with the sign of the rationality (MEG paper, footnote 4)."""
        return math.copysign(self.value, self.rationality) if self.rationality else 0.0

    def less(self, other: SimulatorResult) -> tuple[float, tuple[float, float]]:
        """Return the MEG towards this utility minus that towards another of the same measurement.

        The result is the difference of the estimates in nats and its interval at `level`, from both
        intervals and, if states are known, from differences in the same episodes. All intervals of
        utilities and differences of one call hold together with that probability.
        """
        if not self.measurement or self.measurement != other.measurement:
            raise InvalidParameterError(
                f"the results towards {self.utility!r} and {other.utility!r} are from different "
                f"measurements; pass both utilities to one call, by name"
            )
        low = max(self.interval[0] - other.interval[1], self.exceeds.get(other.utility, -math.inf))
        less = max(other.interval[0] - self.interval[1], other.exceeds.get(self.utility, -math.inf))
        high = max(-less, low)
        return min(max(self.value - other.value, low), high), (low, high)

    def to_json(self) -> dict[str, Any]:
        """Return the fields and derived values as JSON values."""
        names = [each.name for each in fields(self) if each.name not in _NOT_IN_JSON]
        derived = ("upper_bound", "fraction", "signed", "assumes", "not_determined")
        values = {name: _json(getattr(self, name)) for name in (*names, *derived)}
        return {"meg": self.value} | values

    def to_pandas(self) -> Any:
        """Return the scalar values of `to_json` as a data frame of one row."""
        return one_row(self.to_json() | {"rationality": self.rationality})

    def summary(self) -> list[tuple[str, str]]:
        """Return the interval and all details of the measurement as pairs of name and text."""
        return [
            (f"MEG at {percent(self.level, 0)}, nats", self.ends_in_words(nats)),
            ("estimate, nats", nats(self.value) if self.estimated else "none"),
            ("assumes that", self.assumes),
            ("lower end by", self.binding["lower"]),
            ("upper end by", self.binding["upper"]),
            *self._of_maximum(),
            ("rationality β", rationality(self.rationality)),
            *((f"steps, {purpose}", f"{count:,}") for purpose, count in self.steps.items()),
            ("method", self.method),
        ]

    @property
    def assumes(self) -> str:
        """Assumption of the interval about the world and the utility."""
        seen = " and the utility stays in its observed range" if self.rests_on_assumption else ""
        return ASSUMED[self.chance] + seen

    @property
    def not_determined(self) -> tuple[str, ...]:
        """Vacuous ends: "lower" at 0, "upper" at the maximum or infinity."""
        low, high = self.interval
        most = math.inf if self.maximum is None else self.maximum * (1 - 1e-9)
        # A degenerate interval determines both ends.
        point = high - low <= 1e-3 * low
        vacuous = {"lower": low <= 0 and high > 0, "upper": high >= most and not point}
        return tuple(end for end, holds in vacuous.items() if holds)

    def ends_in_words(self, number: Callable[[float], str]) -> str:
        """Return the interval as text, with "not determined" for vacuous ends."""
        if len(unknown := self.not_determined) == 2:
            return NOT_DETERMINED
        ends = zip(("lower", "upper"), self.interval, strict=True)
        low, high = (NOT_DETERMINED if end in unknown else number(at) for end, at in ends)
        return f"[{low}, {high}]"

    def _of_maximum(self) -> list[tuple[str, str]]:
        if self.maximum is None or self.fraction is None:
            return [("maximum", NO_MAXIMUM), ("relative to", self.reference)]
        return [
            ("maximum", f"{nats(self.maximum)} nats"),
            ("share of maximum", percent(self.fraction)),
        ]

    def _repr_html_(self) -> str:
        heading = f"Goal-directedness towards {self.utility}"
        return html_table(heading, ("", ""), self.summary(), self.notes)

    def __str__(self) -> str:
        steps = ", ".join(f"{count:,} {purpose}" for purpose, count in self.steps.items())
        estimate = f"estimate {general(self.value)}" if self.estimated else "no estimate"
        if self.maximum is None or self.fraction is None:
            share = f"; {NO_MAXIMUM}, relative to the {self.reference}"
        elif self.estimated:
            share = f", {percent(self.fraction)} of the maximum {general(self.maximum)}"
        else:
            share = f"; maximum {general(self.maximum)}"
        lines = [
            f"MEG {self.ends_in_words(general)} nats at {percent(self.level, 0)}; "
            f"{estimate}{share}",
            f"  assumes that {self.assumes}",
            f"  towards {self.utility} in {self.world}, rationality {general(self.rationality)}",
            f"  lower end by {self.binding['lower']}, upper end by {self.binding['upper']}",
            f"  {self.episodes:,} episodes; steps: {steps}; {self.method}",
            *(f"  note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class SimulatorProgress:
    """Progress of a measurement."""

    utility: str  # name of the utility
    steps: int  # number of simulator steps so far
    value: float  # current estimate in nats
    # Approximate lower bound in nats, unproven: it uses the episodes that choose the bound.
    lower: float

    def __str__(self) -> str:
        low = f"about {general(self.lower, 4)}" if self.lower > 0 else NOT_DETERMINED
        return (
            f"{self.steps:,} steps: MEG towards {self.utility}: lower end {low}, estimate "
            f"{general(self.value, 4)} nats"
        )


class SimulatorInterrupted(KeyboardInterrupt):
    """Interruption of a measurement at the keyboard; `results` has the bounds proven so far."""

    def __init__(self, results: Mapping[str, SimulatorResult]) -> None:
        ends = "; ".join(
            f"{name}: {each.ends_in_words(general)} nats" for name, each in results.items()
        )
        super().__init__(f"interrupted; proven so far, in the attribute `results`: {ends}")
        self.results = results
        self.measurement: Any = None  # `measure.Measurement`, where it was asked for by names
