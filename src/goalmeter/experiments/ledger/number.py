"""A published number beside ours, and how the two compare."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property

from goalmeter._errors import InvalidFileError
from goalmeter.statistics.verdicts import Interval, Verdict, difference, verdict, words
from goalmeter.statistics.welch import FEWEST, TOO_FEW, reach

_PRINTED = re.compile(r"(?P<value>[+-]?\d+(?:\.(?P<digits>\d+))?)(?: ± (?P<spread>\d+(?:\.\d+)?))?")
RELATIONS = ("equal", "lower bound", "average", "estimate", "reference", "p-value")
COSTS = ("cheap", "slow", "not yet")
# Verdicts beside those of an interval.
NOT_RUN, NOT_YET = "not run", "not yet"
AS_PRINTED = "equal as printed"
HOLDS, VIOLATED = "bound holds", "bound violated"
NOT_COMPARED = "p-values are not compared"


@dataclass(frozen=True, kw_only=True)
class Margin:
    """Which differences of a kind of number count as none; stated before any are looked at.

    The ids of the rows begin with `rows`; `within` is the largest such difference, printed with
    `unit`, and `reason` says why this one.
    """

    rows: str
    within: float
    unit: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Number:
    """One published number and ours.

    Attributes:
        id: experiment/quantity/setting.
        quantity: what is measured, with its unit.
        setting: for what.
        published: as printed, such as "34.3 ± 2.6".
        source: paper, appendix and table.
        relation: what ours is to theirs.
            "equal": both are exact, and should be the same number;
            "lower bound": theirs bounds ours from below;
            "average": ours is an average over runs, theirs is what it should tend to;
            "estimate": both are averages over runs, with standard errors;
            "reference": theirs is of a published agent, ours of a reference agent;
            "p-value": of two tests of different agents, which cannot be compared.
        ours: what `command` gave when the row was last checked; NaN where there is none.
        tolerance: how far a recomputation may be from `ours`; NaN where there is none.
        command: gives ours; empty where no command does yet.
        cost: "cheap" (recomputed by every test run), "slow", or "not yet" (by no command).
        remark: the difference, named; by hand.
        interval: of an average or a reference: the 95% interval of ours.
        error: of an estimate: the standard error of ours.
        seeds: of an estimate: the runs behind ours; of a reference: the grids.
        published_interval: of a reference: the 95% interval of the published number, where what
            it was taken from tells one.
        published_error: of an estimate: the standard error of the published number, which its
            printed spread may not be.
        published_seeds: of an estimate: the runs behind the published number; of a reference: the
            grids.
        corrected: the number that the authors' own data give, where the printed one is a mistake;
            ours is compared with it, and apart from that with the print.
        found: what the runs said of the difference, written with the numbers.
        margin: of its kind of number, put in by `load`.
    """

    id: str
    quantity: str
    setting: str
    published: str
    source: str
    relation: str
    ours: float
    tolerance: float
    command: str
    cost: str
    remark: str
    interval: Interval | None = None
    error: float = 0.0
    seeds: int = 0
    published_interval: Interval | None = None
    published_error: float = 0.0
    published_seeds: int = 0
    corrected: float | None = None
    found: str = ""
    margin: Margin | None = None

    def __post_init__(self) -> None:
        if not _PRINTED.fullmatch(self.published):
            raise InvalidFileError(
                f"{self.id}: published is {self.published!r}, expected a number as printed, "
                f"such as '34.3' or '34.3 ± 2.6'"
            )
        for name, known in (("relation", RELATIONS), ("cost", COSTS)):
            if (value := getattr(self, name)) not in known:
                raise InvalidFileError(f"{self.id}: {name} is {value!r}, expected one of {known}")
        if self.cost == NOT_YET and (self.ran or self.command):
            raise InvalidFileError(
                f"{self.id}: not computed yet, expected ours nan and no command, got "
                f"{self.ours:g} and {self.command!r}"
            )
        judgeable = self.published_error > 0 and self.published_seeds > 1
        if self.relation == "estimate" and not (judgeable and (self.seeds > 1 or not self.ran)):
            raise InvalidFileError(
                f"{self.id}: an estimate needs published_error above 0, published_seeds above 1, "
                f"and seeds above 1 or ours nan; got {self.published_error:g}, "
                f"{self.published_seeds}, {self.seeds} and {self.ours:g}"
            )
        if self.relation == "average" and self.ran and self.interval is None:
            raise InvalidFileError(f"{self.id}: an average needs an interval of ours")

    @property
    def published_value(self) -> float:
        """The published number itself."""
        return float(self._printed["value"])

    @property
    def published_spread(self) -> float:
        """Its published ±, or 0."""
        return float(self._printed["spread"] or 0.0)

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit."""
        # A little more, since 0.5 in the last digit is not exact as a float.
        return 0.5 * 10.0 ** -len(self._printed["digits"] or "") * (1 + 1e-9)

    @property
    def theirs(self) -> float:
        """What ours is compared with: the published number, or the corrected one."""
        return self.published_value if self.corrected is None else self.corrected

    @property
    def ran(self) -> bool:
        """Whether there is a number of ours."""
        return not math.isnan(self.ours)

    @property
    def z(self) -> float:
        """Of an estimate: ours less theirs, in standard errors of that.

        NaN where not run, or from so few seeds that the standard error tells nothing.
        """
        if self.seeds < FEWEST:
            return math.nan
        return (self.ours - self.theirs) / math.hypot(self.error, self.published_error)

    @property
    def limit(self) -> float:
        """Of an estimate: how many standard errors its 95% interval reaches, by Welch."""
        return reach((self.error, self.published_error), (self.seeds, self.published_seeds))

    @property
    def verdict(self) -> str:
        """How ours and theirs compare, in a few words.

        Of a reference: how the published agent stands to the reference agent; else how our number
        stands to the published one.
        """
        return self._judged(self.theirs)

    @property
    def verdict_on_print(self) -> str:
        """The same against the number that was printed, where that is a mistake; else empty."""
        return "" if self.corrected is None else self._judged(self.published_value)

    @property
    def counted(self) -> str:
        """The verdict as summaries count it: without the margin, and without the reference."""
        text = self.verdict
        return str(Verdict.EQUAL) if text.startswith(f"{Verdict.EQUAL} within") else text

    def difference_interval(self, theirs: float) -> Interval | None:
        """The 95% interval of what the verdict is on; None where there is none.

        Of a reference it is the published number less ours, else ours less theirs.
        """
        if self.relation == "average":
            return difference(self.ours, self.interval, theirs, (theirs, theirs))
        if self.relation == "reference":
            return difference(theirs, self.published_interval, self.ours, self.interval)
        half = self.published_spread + self.rounding
        if self.relation == "estimate":
            half = self.limit * math.hypot(self.error, self.published_error)
            if math.isnan(half):
                return None
        return (self.ours - theirs - half, self.ours - theirs + half)

    def _judged(self, theirs: float) -> str:
        if not self.ran:
            return NOT_YET if self.cost == NOT_YET else NOT_RUN
        if self.relation == "p-value":
            return NOT_COMPARED
        # Of so few seeds the spread says too little.
        if self.relation == "estimate" and self.seeds < FEWEST:
            return TOO_FEW
        if self.relation == "lower bound":
            # The bound as it was printed; within its spread it could be either.
            if theirs <= self.ours + self.rounding:
                return HOLDS
            beyond = theirs - self.published_spread > self.ours + self.rounding
            return VIOLATED if beyond else str(Verdict.UNTOLD)
        if self.relation == "equal" and abs(self.ours - theirs) <= self.rounding:
            return AS_PRINTED
        # Of exact numbers only the digits that were printed can be asked for.
        margin = self.margin
        within, unit = (self.rounding, "") if margin is None else (margin.within, margin.unit)
        judged = verdict(self.difference_interval(theirs), within)
        if self.relation == "reference" and judged in (Verdict.ABOVE, Verdict.BELOW):
            return f"{judged} the reference"
        return words(judged, within, unit)

    @cached_property
    def _printed(self) -> re.Match[str]:
        match = _PRINTED.fullmatch(self.published)
        assert match is not None, "checked at construction"
        return match
