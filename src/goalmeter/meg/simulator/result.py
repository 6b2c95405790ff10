"""Results of MEG measurements in simulators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, cast, get_args, get_origin, get_type_hints

from goalmeter._errors import InvalidParameterError, shown
from goalmeter.meg.result import json_number
from goalmeter.meg.simulator.states import ASSUMED, UNDECLARED
from goalmeter.report.numbers import general, nats, percent, rationality
from goalmeter.report.tables import html_table, one_row

NO_MAXIMUM = "no maximum: actions are continuous"  # shown instead of a maximum
NO_ESTIMATE = "no estimate"  # shown instead of an estimate
NOT_DETERMINED = "not determined"  # shown instead of a vacuous end of an interval

# --- JSON -----------------------------------------------------------------------------------------
_NOT_STORED = {"stored": ""}  # metadata of fields without a JSON value


def json_fields(record: Any) -> dict[str, str]:
    """Return the name in JSON of each field of a record that has one."""
    names = {each.name: each.metadata.get("stored", each.name) for each in fields(record)}
    return {name: stored for name, stored in names.items() if stored}


def json_values(value: Any) -> Any:
    """Return a value as JSON values: records as their `to_json`, infinity as a string."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: json_values(each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return [json_values(each) for each in value]
    return json_number(value) if isinstance(value, float) else value


class JsonRecord:
    """Dataclass whose JSON form has its fields."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        names = json_fields(self).items()
        return {stored: json_values(getattr(self, name)) for name, stored in names}


def from_json_values(kind: Any, value: Any) -> Any:
    """Convert JSON values, which may have been edited, to a type; the inverse of `json_values`."""
    if is_dataclass(kind):
        hints, stored, record = get_type_hints(kind), json_fields(kind).items(), cast(type, kind)
        return record(**{name: from_json_values(hints[name], value[s]) for name, s in stored})
    inner = get_args(kind)
    if type(None) in inner:
        return None if value is None else from_json_values(inner[0], value)
    if get_origin(kind) is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(from_json_values(*each) for each in zip(kinds, value, strict=True))
    if inner:
        return {str(name): from_json_values(inner[1], each) for name, each in value.items()}
    expected = {float: int | float | str, str: str}.get(kind, object)
    if not isinstance(value, expected) or (kind is float and isinstance(value, bool)):
        raise TypeError(f"{shown(value)} is not a {'number' if kind is float else 'string'}")
    return kind(value)


# --- Results --------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class SimulatorResult(JsonRecord):
    """MEG of an agent in a simulator: an estimate, its interval, and their assumptions.

    Attributes:
        value: estimate in nats; the lower end of `guaranteed` without an estimate (`estimated`).
        interval: asymptotic confidence interval in nats; 0 and the maximum (or infinity) where
            nothing valid can be stated. Without an estimate it is `guaranteed`.
        guaranteed: finite-sample bounds in nats, if requested; None otherwise. They hold with
            probability `level` jointly over all utilities if the statement in `assumes` is true.
        level: confidence level of each interval.
        maximum: nats of a fully predictable agent: the mean of log A per decision (an estimate, so
            an upper end may exceed it). A table excludes decisions without effect, which sampling
            cannot recognise. None for continuous actions, which have no maximum.
        rationality: beta with the largest value, in inverse units of the utility.
        utility: name of the utility.
        world: name of the simulator.
        method: description of the estimator.
        steps: number of simulator steps by purpose.
        episodes: number of episodes of the agent.
        steps_to_halve: number of further steps that would halve the width of the interval; None if
            the interval has no width or is not determined.
        binding: names of the bounds that gave the "lower" and "upper" end of `guaranteed`.
        notes: statements that a reader of the numbers needs.
        weights: weights of the utilities by name, for a combination of several.
        stopped: why the measurement stopped: "budget" or "interrupt".
        reference: description of the policy with which the agent's actions are compared.
        fitted_episodes: number of episodes, including those of the reference, to which a learnt
            utility was fitted; nothing else uses them.
        utility_function: learnt utility as a function of (observation, info).
        rests_on_assumption: whether the guarantee assumes that the utility stays within its
            observed range, since no bounds were given; a note states the range.
        chance: declared source of randomness: "generator", "none" or "unknown".
        estimated: whether `value` is an estimate.
        differences: interval of the MEG towards this utility minus that towards another one, by its
            name, in nats, from the same resamples; see `less`.
        measurement: unique name of the call that returned this result.
    """

    value: float = field(metadata={"stored": "meg"})
    interval: tuple[float, float]
    level: float
    maximum: float | None
    rationality: float
    utility: str
    world: str
    method: str
    steps: Mapping[str, int]
    episodes: int
    guaranteed: tuple[float, float] | None = None
    steps_to_halve: int | None = None
    binding: Mapping[str, str] = field(default_factory=lambda: {"lower": "", "upper": ""})
    notes: tuple[str, ...] = ()
    weights: Mapping[str, float] | None = None
    stopped: str = "budget"
    reference: str = "free choice"
    fitted_episodes: int = 0
    utility_function: Callable[[Any, Any], float] | None = field(default=None, metadata=_NOT_STORED)
    rests_on_assumption: bool = False
    chance: str = UNDECLARED
    estimated: bool = True
    differences: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    measurement: str = field(default="", repr=False, compare=False, metadata=_NOT_STORED)

    @property
    def lower(self) -> float:
        """Lower end of the interval in nats."""
        return self.interval[0]

    @property
    def upper_bound(self) -> float:
        """Upper end of the interval in nats; inf if there is none."""
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

        The result is the difference of the estimates in nats and its interval at `level`: from the
        same resamples where states are tabulated, otherwise from the ends of both intervals.
        """
        if not self.measurement or self.measurement != other.measurement:
            raise InvalidParameterError(
                f"the results towards {self.utility!r} and {other.utility!r} are from different "
                f"measurements; pass both utilities to one call, by name"
            )
        apart = self.interval[0] - other.interval[1], self.interval[1] - other.interval[0]
        return self.value - other.value, self.differences.get(other.utility, apart)

    def to_json(self) -> dict[str, Any]:
        """Return the fields and derived values as JSON values."""
        derived = ("upper_bound", "fraction", "signed", "assumes", "not_determined")
        return super().to_json() | {name: json_values(getattr(self, name)) for name in derived}

    def to_pandas(self) -> Any:
        """Return the scalar values of `to_json` as a data frame of one row."""
        return one_row(self.to_json() | {"rationality": self.rationality})

    def summary(self) -> list[tuple[str, str]]:
        """Return the interval and all details of the measurement as pairs of name and text."""
        level = percent(self.level, 0)
        rows = [
            ("MEG, nats", nats(self.value) if self.estimated else NO_ESTIMATE),
            (f"interval at {level}, nats", self.ends_in_words(nats)),
        ]
        if self.maximum is None or self.fraction is None:
            rows += [("maximum", NO_MAXIMUM), ("relative to", self.reference)]
        else:
            rows.append(("maximum", f"{nats(self.maximum)} nats"))
            rows.append(("share of maximum", percent(self.fraction)))
        rows += [("rationality β", rationality(self.rationality)), ("assumes that", self.assumes)]
        if self.guaranteed is not None:
            rows.append((f"guaranteed at {level}, nats", self.guaranteed_in_words(nats)))
            rows += [(f"guaranteed {end} end by", by) for end, by in self.binding.items()]
        if self.steps_to_halve is not None:
            rows.append(("further steps to halve the interval", f"{self.steps_to_halve:,}"))
        rows += [(f"steps, {purpose}", f"{count:,}") for purpose, count in self.steps.items()]
        return [*rows, ("method", self.method)]

    @property
    def assumes(self) -> str:
        """Assumption of the interval about the world and the utility."""
        seen = " and the utility stays in its observed range" if self.rests_on_assumption else ""
        return ASSUMED[self.chance] + seen

    @property
    def not_determined(self) -> tuple[str, ...]:
        """Ends of the interval that state nothing: "lower" at 0, "upper" at the maximum or inf."""
        return self._vacuous(self.interval)

    def _vacuous(self, ends: tuple[float, float]) -> tuple[str, ...]:
        low, high = ends
        most = math.inf if self.maximum is None else self.maximum * (1 - 1e-9)
        # A degenerate interval determines both ends.
        point = high - low <= 1e-3 * low
        vacuous = {"lower": low <= 0 and high > 0, "upper": high >= most and not point}
        return tuple(end for end, holds in vacuous.items() if holds)

    def ends_in_words(self, number: Callable[[float], str]) -> str:
        """Return the interval as text, with "not determined" for vacuous ends."""
        return self._in_words(self.interval, number)

    def guaranteed_in_words(self, number: Callable[[float], str]) -> str:
        """Return the guaranteed bounds as text; "" if they were not requested."""
        return "" if self.guaranteed is None else self._in_words(self.guaranteed, number)

    def _in_words(self, ends: tuple[float, float], number: Callable[[float], str]) -> str:
        if len(unknown := self._vacuous(ends)) == 2:
            return NOT_DETERMINED
        low, high = (
            NOT_DETERMINED if end in unknown else number(at)
            for end, at in zip(("lower", "upper"), ends, strict=True)
        )
        return f"[{low}, {high}]"

    def _repr_html_(self) -> str:
        heading = f"Goal-directedness towards {self.utility}"
        return html_table(heading, ("", ""), self.summary(), self.notes)

    def __str__(self) -> str:
        level = percent(self.level, 0)
        value = f"{general(self.value)} nats" if self.estimated else NO_ESTIMATE
        if self.maximum is None or self.fraction is None:
            share = f"{NO_MAXIMUM}, relative to the {self.reference}"
        else:
            share = f"{percent(self.fraction)} of the maximum {general(self.maximum)}"
        lines = [f"MEG {value}, interval {self.ends_in_words(general)} at {level}; {share}"]
        if self.guaranteed is not None:
            binding = ", ".join(f"{end} end by {by}" for end, by in self.binding.items())
            lines.append(f"guaranteed {self.guaranteed_in_words(general)} at {level}: {binding}")
        steps = ", ".join(f"{count:,} {purpose}" for purpose, count in self.steps.items())
        lines += [
            f"assumes that {self.assumes}",
            f"towards {self.utility} in {self.world}, rationality {general(self.rationality)}",
            f"{self.episodes:,} episodes; steps: {steps}; {self.method}",
        ]
        if self.steps_to_halve is not None:
            lines.append(f"{self.steps_to_halve:,} further steps would halve the interval")
        return "\n  ".join([*lines, *(f"note: {note}" for note in self.notes)])


@dataclass(frozen=True)
class SimulatorProgress(JsonRecord):
    """Progress of a measurement."""

    utility: str  # name of the utility
    steps: int  # number of simulator steps so far
    value: float  # current estimate in nats
    lower: float  # current lower end of the interval in nats

    def __str__(self) -> str:
        return (
            f"{self.steps:,} steps: MEG towards {self.utility} {general(self.value, 4)} nats, "
            f"lower end {general(self.lower, 4)}"
        )


class SimulatorInterrupted(KeyboardInterrupt):
    """Interruption of a measurement at the keyboard; `results` has the estimates so far."""

    def __init__(self, results: Mapping[str, SimulatorResult]) -> None:
        ends = "; ".join(
            f"{name}: {each.ends_in_words(general)} nats" for name, each in results.items()
        )
        super().__init__(f"interrupted; intervals so far, in the attribute `results`: {ends}")
        self.results = results
        self.measurement: Any = None  # `measure.Measurement`, where it was asked for by names
