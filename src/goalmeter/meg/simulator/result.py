"""Results of MEG measurements in simulators, and stored measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any
from uuid import uuid4

from goalmeter._errors import IncompleteRunError, InvalidFileError, InvalidParameterError
from goalmeter._files import JsonFields, restored, strict_values
from goalmeter.meg.simulator.states import ASSUMED, UNDECLARED
from goalmeter.report.numbers import general, nats, percent, rationality
from goalmeter.report.tables import html_table, one_row
from goalmeter.statistics.verdicts import Verdict, verdict

NO_MAXIMUM = "no maximum: actions are continuous"  # shown instead of a maximum
NOT_DETERMINED = "not determined"  # shown instead of a vacuous end of an interval
# Name of the best combination of all utilities in the results.
COMBINATION = "best combination"


# --- Results --------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class SimulatorResult(JsonFields):
    """MEG of an agent in a simulator: an estimate, its interval, and their assumptions."""

    value: float  # estimate in nats
    # Asymptotic confidence interval in nats; 0 and the maximum (or infinity) where nothing valid
    # can be stated.
    interval: tuple[float, float]
    level: float  # confidence level of each interval
    # Nats of a fully predictable agent: the mean of log A per decision (an estimate, so an upper
    # end may exceed it). A table excludes decisions without effect, which sampling cannot
    # recognise. None for continuous actions, which have no maximum.
    maximum: float | None
    rationality: float  # beta with the largest value, in inverse units of the utility
    utility: str  # name of the utility
    world: str  # name of the simulator
    method: str  # description of the estimator
    steps: Mapping[str, int]  # number of simulator steps by purpose
    episodes: int  # number of episodes of the agent
    # Finite-sample bounds in nats, if requested. They hold with probability `level` jointly over
    # all utilities if the statement in `assumes` is true.
    guaranteed: tuple[float, float] | None = None
    # Further steps that would halve the width of the interval; None if it has none or is vacuous.
    steps_to_halve: int | None = None
    # Names of the bounds that gave the "lower" and "upper" end of `guaranteed`.
    binding: Mapping[str, str] = field(default_factory=lambda: {"lower": "", "upper": ""})
    notes: tuple[str, ...] = ()  # statements that a reader of the numbers needs
    weights: Mapping[str, float] | None = None  # of the utilities, for a combination of several
    reference: str = "free choice"  # policy with which the agent's actions are compared
    # Number of episodes, including those of the reference, to which a learnt utility was fitted;
    # nothing else uses them. The fit is a function of (observation, info).
    fitted_episodes: int = 0
    utility_function: Callable[[Any, Any], float] | None = None
    # Whether the guarantee assumes that the utility stays within its observed range.
    rests_on_assumption: bool = False
    chance: str = UNDECLARED  # declared source of randomness: "generator", "none" or "unknown"
    # Interval of the MEG towards this utility minus that towards another one, by its name, in nats,
    # from the same resamples; see `less`.
    differences: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # Unique name of the call that returned this result.
    measurement: str = field(default="", repr=False, compare=False)

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
        """Return the fields and derived values as JSON values; `value` is named "meg"."""
        derived = ("upper_bound", "fraction", "signed", "assumes", "not_determined")
        values = super().to_json() | {name: getattr(self, name) for name in derived}
        for name in ("utility_function", "measurement"):
            del values[name]
        return dict(strict_values({"meg": values.pop("value"), **values}))

    def to_pandas(self) -> Any:
        """Return the scalar values of `to_json` as a data frame of one row."""
        return one_row(self.to_json() | {"rationality": self.rationality})

    def summary(self) -> list[tuple[str, str]]:
        """Return the interval and all details of the measurement as pairs of name and text."""
        level, bound = percent(self.level, 0), self.guaranteed
        most, share, more = self.maximum, self.fraction, self.steps_to_halve
        rows = [
            ("MEG, nats", nats(self.value)),
            (f"interval at {level}, nats", self.ends_in_words(nats)),
            ("maximum", NO_MAXIMUM if most is None else f"{nats(most)} nats"),
            ("relative to", self.reference)
            if share is None
            else ("share of maximum", percent(share)),
            ("towards", f"{self.utility} in {self.world}"),
            ("rationality β", rationality(self.rationality)),
            ("assumes that", self.assumes),
            (f"guaranteed at {level}, nats", bound and self.ends_in_words(nats, bound)),
            *((f"guaranteed {end} end by", by) for end, by in self.binding.items()),
            ("further steps to halve the interval", more and f"{more:,}"),
            ("steps", ", ".join(f"{count:,} {purpose}" for purpose, count in self.steps.items())),
            ("episodes", f"{self.episodes:,}"),
            ("method", self.method),
        ]
        return [(name, text) for name, text in rows if text]

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
        if high - low <= 1e-3 * low or high <= 0:
            return ()
        vacuous = {"lower": low <= 0, "upper": high >= most}
        return tuple(end for end, holds in vacuous.items() if holds)

    def ends_in_words(
        self, number: Callable[[float], str], ends: tuple[float, float] | None = None
    ) -> str:
        """Return the interval, or other ends, as text, with "not determined" for vacuous ones."""
        ends = ends or self.interval
        unknown = self._vacuous(ends)
        low, high = (
            NOT_DETERMINED if end in unknown else number(at)
            for end, at in zip(("lower", "upper"), ends, strict=True)
        )
        return NOT_DETERMINED if len(unknown) == 2 else f"[{low}, {high}]"

    def _repr_html_(self) -> str:
        heading = f"Goal-directedness towards {self.utility}"
        return html_table(heading, ("", ""), self.summary(), self.notes)

    def __str__(self) -> str:
        interval = f"interval {self.ends_in_words(general)} at {percent(self.level, 0)}"
        if self.maximum is None or self.fraction is None:
            share = f"{NO_MAXIMUM}, relative to the {self.reference}"
        else:
            share = f"{percent(self.fraction)} of the maximum {general(self.maximum)}"
        details = [f"{name} {text}" for name, text in self.summary()[4:]]
        notes = [f"note: {note}" for note in self.notes]
        first = f"MEG {general(self.value)} nats, {interval}; {share}"
        return "\n  ".join([first, *details, *notes])


@dataclass(frozen=True)
class SimulatorProgress(JsonFields):
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


# --- Stored measurements --------------------------------------------------------------------------
# Kind of runs with a measurement, and key of their only trial.
KIND, KEY = "simulator", "measurement"


@dataclass(frozen=True)
class Difference(JsonFields):
    """Difference of the MEG towards two utilities."""

    towards: str
    than: str
    value: float
    interval: tuple[float, float]
    verdict: Verdict  # by the interval


@dataclass(frozen=True)
class Measurement(JsonFields):
    """Results of one call of `from_simulator`."""

    agent: str
    horizon: int
    budget: int
    seed: int
    utilities: tuple[SimulatorResult, ...]
    tightening: tuple[SimulatorProgress, ...] = ()

    @property
    def differences(self) -> list[Difference]:
        """Differences of all pairs of utilities in order, without the best combination."""
        plain = [result for result in self.utilities if result.utility != COMBINATION]
        out = []
        for one, other in combinations(plain, 2):
            value, interval = one.less(other)
            names = one.utility, other.utility
            out.append(Difference(*names, value, interval, verdict(interval, 0.0)))
        return out

    def to_json(self) -> dict[str, Any]:
        """Return the first result as JSON values, with all results and their differences."""
        differences = strict_values([each.to_json() for each in self.differences])
        return self.utilities[0].to_json() | super().to_json() | {"differences": differences}

    @classmethod
    def from_json(cls, values: Any, where: str) -> Measurement:
        """Read the output of `to_json`; `where` names the file in errors."""
        try:
            call = uuid4().hex  # the results belong to one call and to no other file
            found = [
                {"value": each["meg"], "measurement": call, **each} for each in values["utilities"]
            ]
            out: Measurement = restored(cls, values | {"utilities": found})
            # An edited file is refused here rather than while its page is rendered.
            out.to_json()
            return out
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as cause:
            raise InvalidFileError(
                f"{where} contains no measurement in a simulator "
                f"({type(cause).__name__}: {cause}); measure again into another folder"
            ) from cause


def load(run: str | Path) -> Measurement:
    """Read the stored run of a measurement."""
    from goalmeter.runs.reading import another_kind, read_run

    stored = read_run(run)
    if stored.what.get("kind") != KIND:
        raise another_kind(run, stored.what.get("kind"), KIND)
    if KEY not in stored.values:
        raise IncompleteRunError(run, stored.what, "1 of 1 measurements")
    return Measurement.from_json(stored.values[KEY], str(run))
