"""What is known of a goal-directedness that was measured by running a world."""

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

NO_MAXIMUM = "no maximum: actions are continuous"  # what stands in the place of a maximum
NOT_DETERMINED = "not determined"  # and in the place of an end that says nothing


# Fields without a JSON value of their own; `value` is called "meg".
_NOT_IN_JSON = ("value", "utility_function", "measurement")


def _json(value: Any) -> Any:
    if isinstance(value, float):
        return json_number(value)
    if isinstance(value, Mapping):
        return {name: _json(each) for name, each in value.items()}
    return [_json(each) for each in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True)
class SimulatorResult:
    """MEG of an agent in a world that can only be run: an interval, and what it assumes.

    Attributes:
        value: the point estimate, nats; nothing is promised of it. Where there is none
            (`estimated` is False) it is the lower end.
        interval: MEG lies between these, nats, but for a probability of 1 - `level`, if what
            `assumes` says is true.
        level: of the interval, over both of its ends, all utilities and rationalities tried.
        maximum: nats that a fully predictable agent would score: log A for each decision that it
            makes, on average (an estimate, so an upper end may lie above it). A table leaves out
            decisions that can change nothing, which sampling cannot tell. None where actions are
            continuous: there is no most.
        rationality: beta at which the lower end was proven, in inverse units of the utility.
        utility: name of the utility.
        world: name of the simulator.
        method: how the ends were obtained, in words.
        steps: what the simulator's steps were spent on, by purpose.
        binding: which bound gave each end: "lower" and "upper".
        episodes: of the agent, which were fitted to or bounded with.
        notes: plain statements a reader of the numbers needs.
        weights: of the utilities, by name, where this is a combination of several.
        stopped: "interrupt" if the measurement was ended early, "budget" or "precision".
        reference: what the agent's actions are compared with, in words.
        fitted_episodes: that a learnt utility was fitted to, the reference's among them; no bound
            rests on them.
        utility_function: a learnt utility, as a function of (observation, info).
        rests_on_assumption: whether the interval assumes that the utility stays within what was
            seen, since no bounds were given; a note says what that was.
        estimated: whether `value` is an estimate and no end of the interval.
        chance: where the world's chance comes from, as declared: "generator", "none" or "unknown".
        exceeds: by another utility, how much more MEG is towards this one at least, nats, as the
            differences in the same episodes say; see `less`.
        measurement: names the call that gave this result; another call has another name.
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
        """The lower end, nats."""
        return self.interval[0]

    @property
    def upper_bound(self) -> float:
        """The upper end, nats; inf where there is none."""
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
        """How much more MEG is towards this utility than towards another of the same measurement.

        The difference of the estimates, nats, and its interval at `level`: what the two intervals
        leave of it and, where states are known, the differences in the same episodes. All intervals
        of one call, of utilities and of differences, hold together with that probability.
        """
        if not self.measurement or self.measurement != other.measurement:
            raise InvalidParameterError(
                f"the results towards {self.utility!r} and {other.utility!r} are of different "
                f"measurements; give both utilities to one call, by name"
            )
        low = max(self.interval[0] - other.interval[1], self.exceeds.get(other.utility, -math.inf))
        less = max(other.interval[0] - self.interval[1], other.exceeds.get(self.utility, -math.inf))
        high = max(-less, low)
        return min(max(self.value - other.value, low), high), (low, high)

    def to_json(self) -> dict[str, Any]:
        """Return the fields and what follows from them as JSON values."""
        names = [each.name for each in fields(self) if each.name not in _NOT_IN_JSON]
        derived = ("upper_bound", "fraction", "signed", "assumes", "not_determined")
        values = {name: _json(getattr(self, name)) for name in (*names, *derived)}
        return {"meg": self.value} | values

    def to_pandas(self) -> Any:
        """Return the single numbers and texts of `to_json` as a data frame of one row."""
        return one_row(self.to_json() | {"rationality": self.rationality})

    def summary(self) -> list[tuple[str, str]]:
        """Everything that defends the number, as names and texts."""
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
        """What the interval assumes of the world and the utility, in words."""
        seen = " and the utility stays within what was seen" if self.rests_on_assumption else ""
        return ASSUMED[self.chance] + seen

    @property
    def not_determined(self) -> tuple[str, ...]:
        """The ends that say nothing: "lower" at 0, "upper" at the maximum or at infinity."""
        low, high = self.interval
        most = math.inf if self.maximum is None else self.maximum * (1 - 1e-9)
        # Both ends of an interval that is a point are known.
        point = high - low <= 1e-3 * low
        vacuous = {"lower": low <= 0 and high > 0, "upper": high >= most and not point}
        return tuple(end for end, holds in vacuous.items() if holds)

    def ends_in_words(self, number: Callable[[float], str]) -> str:
        """The interval, with "not determined" for the ends that say nothing."""
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
    """Where a measurement is."""

    utility: str  # name of the utility
    steps: int  # of the simulator so far
    value: float  # the estimate so far, nats
    # About where the lower end is, nats: from the part of the episodes that chooses what is
    # bounded, so not yet proven
    lower: float

    def __str__(self) -> str:
        low = f"about {general(self.lower, 4)}" if self.lower > 0 else NOT_DETERMINED
        return (
            f"{self.steps:,} steps: MEG towards {self.utility}: lower end {low}, estimate "
            f"{general(self.value, 4)} nats"
        )


class SimulatorInterrupted(KeyboardInterrupt):
    """A measurement was interrupted at the keyboard; `results` holds what was proven by then."""

    def __init__(self, results: Mapping[str, SimulatorResult]) -> None:
        ends = "; ".join(
            f"{name}: {each.ends_in_words(general)} nats" for name, each in results.items()
        )
        super().__init__(f"interrupted; proven so far, in the attribute `results`: {ends}")
        self.results = results
        self.measurement: Any = None  # `measure.Measurement`, where it was asked for by names
