"""Results of goal-directedness measures, and the progress of the fits behind them."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._types import FloatArray
from goalmeter.meg.behaviour import ROUNDING_SHARE
from goalmeter.report.numbers import gap, general, nats, number, percent, rationality
from goalmeter.report.tables import html_table, one_row

PESSIMISES = (
    "the rationality is negative: the behaviour does worse than the reference at this utility, "
    "so MEG is shown with a minus sign (`signed`); `value` is the absolute value"
)
# What is said where the correction for bias would have led below 0.
FLOORED = (
    "the estimate less its bias is below 0 and is given as 0, which MEG cannot fall below: over "
    "small true values such estimates are too high on average; `unfloored` has no floor"
)
# Certified is what is known to this share of the maximum at least, whatever the tolerance.
CERTIFIED_SHARE = 1e-3
_JSON_ENTRIES = 10_000  # longer arrays are left out of JSON; Python has them
# Fields and properties in JSON, after "meg".
_IN_JSON: tuple[str, ...] = (
    *("upper_bound", "maximum", "fraction", "rationality", "method", "target", "reference"),
    *("signed", "ceiling", "certified", "bound_size", "bound_measure", "stopped"),
    *("by_step", "by_state", "utility", "notes"),
)


@dataclass(frozen=True, kw_only=True, eq=False)
class MegResult:
    """Maximum entropy goal-directedness of one behaviour.

    Attributes:
        value: MEG in nats; never negative.
        upper_bound: proven bound on the same quantity, in nats, never above `maximum`; equal to
            `value` up to `tolerance` where the optimum is certified, larger where `value` is a
            lower bound.
        maximum: nats that a fully predictable agent would score: the expected sum of
            log |A| over the decisions that can matter (of -log of the least likely action's
            reference probability where the reference is not uniform).
        ceiling: nats that no utility of any class could exceed for this behaviour: `maximum`
            less the behaviour's own entropy in those decisions.
        rationality: beta, in inverse units of `utility`; +-inf for an optimum at infinity.
        target: what goal-directedness was measured towards, in words.
        method: how the number was obtained, in words.
        tolerance: largest difference between bound and value that counts as certified, nats.
        by_step: share of the value of each decision step, [H] nats (may be negative where the
            hypothesis predicts worse than the reference); [1] for the infinite problem.
        by_state: share of the value of each state, [S] nats.
        utility: the maximising utility in a scale of its own (0 to 1 where it was found rather
            than given), shaped like a reward; None where there is no single MDP.
        reference: what 0 nats means, in words.
        notes: plain statements a reader of the number needs.
        stopped: "timeout" or "interrupt" where one of them ended the search: `value` is then the
            best so far and `upper_bound` what was proven by then; None where it ran to its end.
        bound_size: `upper_bound` holds for all utilities of the class up to this size, taken at
            their rationality: a thousand times that of the best one reached; inf if for all.
        bound_measure: what that size is: "range", the largest entry of a utility less its smallest
            (for the utility shown, which has the range 1, this is `rationality`), or "weights",
            the sum of a utility's absolute weights; "none" where `bound_size` is inf.
    """

    _JSON = _IN_JSON

    value: float
    upper_bound: float
    maximum: float
    ceiling: float
    rationality: float
    target: str
    method: str
    tolerance: float
    by_step: FloatArray = field(repr=False)
    by_state: FloatArray = field(repr=False)
    utility: FloatArray | None = field(repr=False, default=None)
    reference: str = "uniform policy"
    notes: tuple[str, ...] = ()
    stopped: str | None = None
    bound_size: float = math.inf
    bound_measure: str = "none"

    @property
    def fraction(self) -> float:
        """Value / maximum, in [0, 1], McFadden's pseudo-R2; 0 where no decision can matter."""
        return min(self.value / self.maximum, 1.0) if self.maximum > 0 else 0.0

    @property
    def signed(self) -> float:
        """Value with the sign of the rationality: negative if it pessimises (paper, footnote 4)."""
        return math.copysign(self.value, self.rationality) if self.rationality else 0.0

    @property
    def _sign(self) -> float:
        """-1 where the behaviour does worse than the reference, else 1: of all texts."""
        return -1.0 if self.rationality < 0 else 1.0

    @property
    def _of_absolute(self) -> str:
        return " of the absolute value" if self.rationality < 0 else ""

    @property
    def gap(self) -> float:
        """upper_bound - value, nats."""
        return self.upper_bound - self.value

    @property
    def certified(self) -> bool:
        """Whether the optimum is proven to within `tolerance` and a thousandth of the maximum."""
        # An absolute tolerance alone would certify a number that is all tolerance.
        return self.gap <= min(self.tolerance, CERTIFIED_SHARE * self.maximum)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; an infinite rationality as "inf" or "-inf"."""
        fields = {name: _json(getattr(self, name)) for name in self._JSON}
        return {"meg": self.value} | fields | {"by_step": self.by_step.tolist()}

    def to_pandas(self) -> Any:
        """Return the single numbers and texts of `to_json` as a data frame of one row."""
        return one_row(self.to_json() | {"rationality": self.rationality})

    @property
    def heading(self) -> str:
        """Heading of the table of the result."""
        return f"Goal-directedness towards {self.target}"

    def headline(self) -> list[tuple[str, str]]:
        """Return the value and its bounds as pairs of name and text."""
        return [
            ("MEG", f"{nats(self._sign * self.value)} nats"),
            ("proven gap to the bound", f"{gap(self.gap)} nats"),
        ]

    def summary(self) -> list[tuple[str, str]]:
        """Return all details of the result as pairs of name and text."""
        return [
            *self.headline(),
            (f"upper bound{self._of_absolute}", f"{nats(self.upper_bound)} nats"),
            *([("stopped by", f"the {self.stopped}")] if self.stopped else []),
            ("maximum", f"{nats(self.maximum)} nats"),
            ("share of maximum", percent(self._sign * self.fraction)),
            ("rationality β", rationality(self.rationality)),
            ("method", self.method),
        ]

    def _repr_html_(self) -> str:
        return html_table(self.heading, ("", ""), self.summary(), self.notes)

    def __str__(self) -> str:
        bound = (
            f"certified to {general(max(self.gap, 0.0), 1)}"
            if self.certified
            else f"upper bound{self._of_absolute} {general(self.upper_bound)}"
        )
        lines = [
            f"MEG {general(self._sign * self.value)} nats ({bound}), "
            f"{percent(self._sign * self.fraction)} of "
            f"{general(self.maximum)}",
            f"  towards {self.target}, against the {self.reference}",
            f"  rationality {general(self.rationality)}; {self.method}",
            *(f"  note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


def reference_name(given: bool) -> str:
    """What scores 0, in words."""
    return "given reference policy" if given else "uniform policy"


def json_number(value: float) -> float | str:
    """A float as JSON can hold it: infinities as the strings "inf" and "-inf"."""
    return str(value) if math.isinf(value) else value


def _json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist() if value.size <= _JSON_ENTRIES else None
    if isinstance(value, tuple):
        return list(value)
    return json_number(value) if isinstance(value, float) else value


@dataclass(frozen=True, kw_only=True, eq=False)
class TrajectoryMeg(MegResult):
    """MEG estimated from trajectories: `value` is the maximised sample average (`raw`).

    Attributes:
        n: number of trajectories.
        corrected: `raw` less its first-order bias, at least 0, nats; the estimate to quote.
        unfloored: the same without the floor at 0, nats; to average over many estimates.
        standard_error: of `corrected`, nats.
        interval: bootstrap interval over trajectories for the behaviour's MEG, nats, widened for
            fewer than ten; of fewer than five it is 0 to the maximum.
        confidence: nominal coverage of the interval.
        likelihood_ratio: 2 n raw, the statistic of the test of rationality 0.
        degrees_of_freedom: of that test's chi-square.
        p_value: probability of so large a statistic if actions were drawn from the reference.
        held_out: cross-fitted evidence, nats a trajectory: each is scored by the model fitted to
            the others, mixed with one part in (decisions fitted + 1) of the reference. Far below
            `raw` where a rich class only overfits; NaN for a single trajectory.
    """

    _COUNTED = "trajectories"  # what one observation is called in a table
    _JSON = (
        *_IN_JSON,
        *("n", "raw", "corrected", "unfloored", "standard_error", "interval", "confidence"),
        *("likelihood_ratio", "degrees_of_freedom", "p_value", "held_out"),
    )

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
    def raw(self) -> float:
        """Maximised sample average, nats per trajectory; biased upwards."""
        return self.value

    def _signed_interval(self) -> list[float]:
        return sorted(self._sign * end for end in self.interval)

    def headline(self) -> list[tuple[str, str]]:
        """Return the estimate, its interval, its test and the number of observations."""
        low, high = self._signed_interval()
        unfloored = ("the same without a floor at 0", f"{number(self.unfloored, 4)} nats")
        return [
            ("MEG, estimate", f"{nats(self._sign * self.corrected)} nats"),
            *([unfloored] if self.unfloored < 0 else []),
            (f"{percent(self.confidence, 0)} interval", f"{nats(low)} to {nats(high)} nats"),
            (self._COUNTED, str(self.n)),
            ("held out", f"{number(self.held_out, 4)} nats"),
            ("p, against the reference", general(self.p_value, 3)),
            ("sample average, biased away from 0", f"{nats(self._sign * self.value)} nats"),
        ]

    def __str__(self) -> str:
        low, high = self._signed_interval()
        floor = "" if self.unfloored >= 0 else f" (0 for {general(self.unfloored, 3)})"
        lines = [
            f"MEG {general(self._sign * self.raw)} nats raw, "
            f"{general(self._sign * self.corrected)} corrected for bias"
            f"{floor}, {percent(self.confidence, 0)} interval "
            f"[{general(low)}, {general(high)}]",
            f"  from {self.n} trajectories; raw is {percent(self._sign * self.fraction)} of "
            f"{general(self.maximum)}; held out {general(self.held_out)}",
            f"  towards {self.target}, against the {self.reference}",
            f"  test of rationality 0: p = {general(self.p_value, 3)} (likelihood ratio "
            f"{general(self.likelihood_ratio, 4)}, {general(self.degrees_of_freedom, 3)} df)",
            f"  rationality {general(self.rationality)}; {self.method}",
            *(f"  note: {note}" for note in self.notes),
        ]
        return "\n".join(lines)


# --- Watch ----------------------------------------------------------------------------------------
# A search tells its `Watch` of every step; the watch keeps the best so far, passes progress on,
# and raises `TimeIsUp` from within the search's own loops once the time is over.

# A terminal is told of a search that lasts, at most so often, seconds.
FIRST_WORD, NEXT_WORD = 5.0, 5.0

_BOUND_FROM = 0.1  # from this part of a timeout on, a search also looks for bounds on its way

# What ended a search, as a note says it.
STOPPED_BY = {"timeout": "the timeout", "interrupt": "an interrupt"}


@dataclass(frozen=True)
class Reached:
    """Where a search ended, or is so far."""

    value: float  # evidence of the best model
    upper_bound: float  # proven for every utility up to the size `bound_size`, nats
    bound_size: float  # B of the certificate; 0 where the bound holds for all utilities
    bound_by_range: bool  # whether B is of the utility's range, not of the sum of its weights
    steps: int = 0  # Newton steps taken
    # Whether the weights were still growing where the search ended, so that the optimum may lie at
    # infinity without that being shown.
    growing: bool = False
    error: float = 0.0  # rounding error of the value, nats; see `UtilitySearch.checked`

    @property
    def gap(self) -> float:
        """What bound and value differ by, nats."""
        return self.upper_bound - self.value

    @property
    def doubt(self) -> float:
        """Distance between value and bound, whichever is larger, plus the error, nats."""
        return abs(self.gap) + self.error

    def closes(self, tolerance: float) -> bool:
        """Whether value and bound agree within the tolerance or a small rounding error."""
        resolved = self.error <= max(tolerance, ROUNDING_SHARE * self.upper_bound)
        return resolved and abs(self.gap) <= max(tolerance, self.error)


Best = TypeVar("Best", bound=Reached)


@dataclass(frozen=True)
class Progress:
    """Progress of a search."""

    stage: str  # what is being done, in words
    step: int  # steps of this stage so far
    value: float  # the best value so far, nats; a lower bound on MEG
    upper_bound: float  # the bound so far, nats; proven
    elapsed: float  # seconds since the search began
    # Seconds that it may still take at most: until the timeout, or until the last step that this
    # stage may take at the pace so far
    left: float

    def __str__(self) -> str:
        return (
            f"{self.stage}, step {self.step}: MEG {self.value:.6g} nats so far, at most "
            f"{self.upper_bound:.6g}; {duration(self.elapsed)} gone, "
            f"{duration(self.left)} left at most"
        )


Listener = Callable[[Progress], None]


class TimeIsUp(Exception):
    """Ends a search whose time is over; nobody outside this room sees it."""


class FitInterrupted(KeyboardInterrupt):
    """A search was interrupted at the keyboard; `result` is the best so far, with its bound.

    It is a `KeyboardInterrupt`, so a loop over many policies ends as well unless it is caught.
    """

    def __init__(self, result: MegResult) -> None:
        super().__init__(
            f"interrupted; the best so far is in the attribute `result`: MEG at least "
            f"{result.value:.6g} nats and at most {result.upper_bound:.6g}"
        )
        self.result = result


class Watch(Generic[Best]):
    """The time, the listener (None for silence) and the best so far of one search."""

    # After the timeout, in seconds from now, `check` raises; without one never.

    def __init__(self, progress: Listener | None = None, timeout: float | None = None) -> None:
        number = isinstance(timeout, (int, float)) and not isinstance(timeout, bool)
        if timeout is not None and not (number and timeout > 0):
            raise InvalidParameterError(
                f"timeout is {shown(timeout)}, expected a positive number of seconds, or None"
            )
        self.best: Best | None = None
        self._progress = progress
        self._begun = time.monotonic()
        self._deadline = math.inf if timeout is None or timeout > 1e9 else self._begun + timeout
        self._stage, self._stage_begun = "", self._begun

    @property
    def elapsed(self) -> float:
        """Seconds since the search began."""
        return time.monotonic() - self._begun

    @property
    def left(self) -> float | None:
        """Seconds until the timeout, negative after it; None without one."""
        return None if math.isinf(self._deadline) else self._deadline - time.monotonic()

    @property
    def bound_is_due(self) -> bool:
        """Whether a bound on the way is worth its time: the search may be ended or is told of."""
        if math.isfinite(self._deadline):
            return self.elapsed > _BOUND_FROM * (self._deadline - self._begun)
        return self._progress is not None and self.elapsed > FIRST_WORD

    def check(self) -> None:
        """Raise `TimeIsUp` if it is; called from the innermost loops, so it must cost nothing."""
        if time.monotonic() > self._deadline:
            raise TimeIsUp

    def end(self) -> None:
        """The search is over: what is worked out of its best is not to be interrupted any more."""
        self._deadline = math.inf

    def tell(self, best: Best, *, stage: str, step: int, of: int) -> None:
        """Keep what the search would return if it ended here, and tell the listener."""
        # `step` steps of the stage are done, `of` it may take at most. A search that begins anew is
        # not better than what came before until its value is.
        if self.best is None or best.value >= self.best.value:
            self.best = best
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._stage_begun = stage, now
        if self._progress is not None:
            pace = (now - self._stage_begun) / max(step, 1)
            left = max(min(pace * (of - step), self._deadline - now), 0.0)
            elapsed = now - self._begun
            value, bound = self.best.value, self.best.upper_bound
            self._progress(Progress(stage, step, value, bound, elapsed, left))


def listener(progress: Listener | bool | None) -> Listener | None:
    """What a caller's `progress` argument means (see `goalmeter.meg.unknown_utility`)."""
    # Nobody reads a log while it is written: at a terminal or in a notebook somebody does.
    if progress is None:
        progress = sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules)
    if progress is False:
        return None
    if progress is True:
        return slowly(lambda line: print(line, file=sys.stderr, flush=True))
    if not callable(progress):
        raise InvalidParameterError(
            f"progress is {shown(progress)}, expected a function of one argument, True or False"
        )
    return progress


def slowly(tell: Callable[[str], None]) -> Listener:
    """A listener that tells a line now and then, and nothing of a search that is soon over."""
    due = FIRST_WORD

    def hear(progress: Progress) -> None:
        nonlocal due
        if progress.elapsed >= due:
            due = progress.elapsed + NEXT_WORD
            tell(str(progress))

    return hear


def duration(seconds: float) -> str:
    """Seconds in words that a waiting person can use."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
