"""The ledger: the published numbers of the papers next to ours, with a verdict on each.

`ledger.toml` holds the rows and, for each kind of number, the margin within which two count as
equal. `recompute` computes the cheap rows again; a row whose recomputed value differs from `ours`
by more than `tolerance` is stale, and the tests fail until it is corrected.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from goalmeter import InvalidFileError
from goalmeter.commands.replicate import REPLICATIONS
from goalmeter.statistics import (
    Verdict,
    difference,
    estimate,
    reach,
    share_interval,
    verdict,
    words,
)
from replications.common import FEWEST, TOO_FEW, Interval, Texts

say = Texts("ledger")
_PRINTED = re.compile(r"(?P<value>[+-]?\d+(?:\.(?P<digits>\d+))?)(?: ± (?P<spread>\d+(?:\.\d+)?))?")
RELATIONS = (
    *("equal", "lower bound", "average", "estimate", "reference", "same mazes"),
    *("other protocol", "p-value"),
)
COSTS = ("cheap", "slow")
# Verdicts other than those of an interval.
NOT_RUN = "not run"
AS_PRINTED = "equal as printed"
HOLDS, VIOLATED = "bound holds", "bound violated"
# The relations of numbers that measure different things -> their verdict.
NOT_COMPARED = {
    "other protocol": "not compared: other protocol",
    "p-value": "not compared: p-value",
}
# What prevents a verdict, besides too few seeds.
PRINT, OURS, NO_SPREAD = "print", "ours", "no spread"


@dataclass(frozen=True, kw_only=True)
class Margin:
    """Which differences of a kind of number count as none; stated before any are looked at."""

    rows: str  # how the ids of the rows begin
    within: float  # the largest such difference
    unit: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Number:
    """One published number and ours; ledger.toml describes the fields."""

    id: str  # experiment/quantity/setting
    quantity: str
    setting: str
    published: str
    source: str
    relation: str
    ours: float
    tolerance: float
    command: str
    cost: str
    remark: str = ""
    interval: Interval | None = None
    needs: str = ""  # of a row that was not run: hours, memory and hardware
    notes: tuple[str, ...] = ()  # names of remarks that several rows share
    error: float = 0.0  # of an estimate: the standard error of ours
    seeds: int = 0  # of an estimate: the runs behind ours; of a reference: the grids
    published_interval: Interval | None = None
    published_error: float = 0.0  # of an estimate; its printed spread may be something else
    published_seeds: int = 0
    # The number that the authors' own data give, where the printed one is a mistake; ours is
    # compared with it, and apart from that with the print.
    corrected: float | None = None
    # Of "same mazes": open cells of each maze; the published agent's wrong answers and the accuracy
    # of ours (percent) in each maze.
    cells: int = 0
    errors: tuple[int, ...] = ()
    ours_by_maze: tuple[float, ...] = ()
    found: str = ""
    margin: Margin | None = None  # of its kind of number, put in by `load`
    # What `published` says: the number, its ± or 0, and half a unit of the last printed digit.
    published_value: float = field(init=False)
    published_spread: float = field(init=False)
    rounding: float = field(init=False)
    theirs: float = field(init=False)  # what ours is compared with: that number, or `corrected`

    def __post_init__(self) -> None:
        judgeable = self.published_error > 0 and self.published_seeds > 1
        enough = judgeable and (self.seeds > 1 or not self.ran)
        printed = _PRINTED.fullmatch(self.published)
        refused = {
            "published": printed is None,
            "relation": self.relation not in RELATIONS,
            "cost": self.cost not in COSTS,
            "command": not self.command,
            "mazes": self.relation == "same mazes"
            and not (self.cells and len(self.errors) == len(self.ours_by_maze) > 1),
            "estimate": self.relation == "estimate" and not enough,
            "average": self.relation == "average" and self.ran and self.interval is None,
        }
        for name in filter(refused.get, refused):
            known = {"relations": RELATIONS, "costs": COSTS}
            raise InvalidFileError(f"{self.id}: {say.sentence('refused', name, row=self, **known)}")
        value, digits, spread = printed.groups(default="") if printed else ("nan", "", "")
        parsed = {
            "published_value": float(value),
            "published_spread": float(spread or 0.0),
            # A little more, since 0.5 in the last digit is not exact as a float.
            "rounding": 0.5 * 10.0 ** -len(digits) * (1 + 1e-9),
            "theirs": float(value) if self.corrected is None else self.corrected,
        }
        for name, number in parsed.items():
            object.__setattr__(self, name, number)
        interval = self.published_interval
        if self.errors:
            # Without a spread between mazes the file has a wider one.
            interval = self._over_mazes([0.0] * len(self.errors)) or interval
        elif self.relation == "reference" and interval is None and self.published_seeds > 1:
            interval = widest_interval(self.theirs, self.published_seeds)
        if interval is not None:
            interval = (max(interval[0], 0.0), min(interval[1], 100.0))
        object.__setattr__(self, "published_interval", interval)

    @property
    def remarks(self) -> list[str]:
        """The remarks on this row: those it shares with others, and its own."""
        return [*(_file()["notes"][note] for note in self.notes), *filter(None, [self.remark])]

    @property
    def ran(self) -> bool:
        """Whether there is a number of ours."""
        return not math.isnan(self.ours)

    @property
    def z(self) -> float:
        """Of an estimate: ours less theirs, in standard errors of that; NaN of too few seeds."""
        if self.relation != "estimate" or self.seeds < FEWEST:
            return math.nan
        return (self.ours - self.theirs) / math.hypot(self.error, self.published_error)

    @property
    def limit(self) -> float:
        """Of an estimate: how many standard errors its 95% interval reaches, by Welch."""
        return reach((self.error, self.published_error), (self.seeds, self.published_seeds))

    @property
    def verdict(self) -> str:
        """How ours stands to theirs; of a reference, how the published agent stands to ours."""
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

    @property
    def on_new_mazes(self) -> Interval | None:
        """Of "same mazes": the 95% interval of theirs less ours over mazes of the kind, paired."""
        return self._over_mazes(self.ours_by_maze) if self.errors else None

    def _over_mazes(self, less: Sequence[float]) -> Interval | None:
        accuracies = (100 * (1 - wrong / self.cells) for wrong in self.errors)
        return estimate([a - b for a, b in zip(accuracies, less, strict=True)]).interval

    @property
    def sampled_interval(self) -> Interval:
        """Of "same mazes": the 95% interval of theirs on these mazes, whose answers are drawn."""
        answers = self.cells * len(self.errors)
        low, high = share_interval(answers - sum(self.errors), answers)
        return (100 * low, 100 * high)

    @property
    def undecided(self) -> str:
        """What prevents a verdict: PRINT if an exact number of ours would too; else empty."""
        if self.verdict == TOO_FEW:
            return TOO_FEW
        if self.verdict != Verdict.UNTOLD:
            return ""
        if self.difference_interval(self.theirs) is None:
            return NO_SPREAD
        return PRINT if self.if_exact.verdict == Verdict.UNTOLD else OURS

    @property
    def if_exact(self) -> Number:
        """This row if ours were without error."""
        return replace(self, error=0.0, interval=self.interval and (self.ours, self.ours))

    def difference_interval(self, theirs: float) -> Interval | None:
        """The 95% interval of ours less theirs, of a reference of theirs less ours; or None."""
        if self.relation == "same mazes":
            return difference(theirs, self.sampled_interval, self.ours, (self.ours, self.ours))
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
            return NOT_RUN
        if self.relation in NOT_COMPARED:
            return NOT_COMPARED[self.relation]
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
        is_reference = self.relation in ("reference", "same mazes")
        if is_reference and judged in (Verdict.ABOVE, Verdict.BELOW):
            return f"{judged} the reference"
        return words(judged, within, unit)


PATH = Path(__file__).with_name("ledger.toml")
_TUPLES = {"interval", "published_interval", "errors", "ours_by_maze", "notes"}


def widest_interval(percent: float, n: int) -> Interval:
    """Return the widest 95% interval that a mean of n shares can have, percent.

    The deviation of a share with mean p is at most √(p (1 - p)), by Bhatia and Davis, A better
    bound on the variance (2000).
    """
    from scipy.stats import t

    share = percent / 100
    half = 100 * float(t.ppf(0.975, n - 1)) * math.sqrt(share * (1 - share) / n)
    return (percent - half, percent + half)


def margins() -> list[Margin]:
    """Return the margin of each kind of number, in the order of the file."""
    return [Margin(**entry) for entry in _file()["margin"]]


def load(prefix: str = "") -> list[Number]:
    """Return the rows whose id starts with a prefix, in the order of the file."""
    return [row for row in _rows() if row.id.startswith(prefix)]


# Pages ask for rows by the hundred, and the file does not change while a process runs.
@cache
def _rows() -> tuple[Number, ...]:
    known, rows = margins(), []
    for entry in _file()["number"]:
        fields: dict[str, Any] = dict(entry)
        for name in entry.keys() & _TUPLES:
            fields[name] = tuple(entry[name])
        margin = next((margin for margin in known if entry["id"].startswith(margin.rows)), None)
        rows.append(Number(**fields, margin=margin))
    return tuple(rows)


@cache
def _file() -> dict[str, Any]:
    return tomllib.loads(PATH.read_text(encoding="utf-8"))


# --- Recomputed -----------------------------------------------------------------------------------
_FOLDERS = REPLICATIONS | {"example-1": "example_one"}


def study_of(name: str) -> Any:
    """Return the module of a study; by name, because studies import the ledger."""
    return import_module(f"replications.{_FOLDERS[name]}.study")


def recompute(rows: Iterable[Number]) -> dict[str, float]:
    """Return the value of each cheap row, computed again, by its id."""
    out: dict[str, float] = {}
    for name, group in groupby(rows, key=lambda row: row.id.partition("/")[0]):
        out |= study_of(name).recompute([row.id for row in group])
    return out


def stale(rows: Iterable[Number], values: dict[str, float]) -> list[str]:
    """Return a sentence for every row that a recomputed value contradicts."""
    return [
        f"{row.id}: the ledger says {row.ours:g} (tolerance {row.tolerance:g}), "
        f"recomputed {values[row.id]:.8g}; correct the code, or the row and its remark"
        for row in rows
        if not abs(values[row.id] - row.ours) <= row.tolerance
    ]


def in_percent(estimate: Mapping[str, Any] | None) -> dict[str, str] | None:
    """Return an estimate of a share as values of a row; None of one without an interval."""
    if estimate is None or estimate["interval"] is None:
        return None
    low, high = (100 * end for end in estimate["interval"])
    return {
        "ours": f"{100 * estimate['value']:.5g}",
        "interval": f"[{low:.2f}, {high:.2f}]",
        "seeds": str(estimate["clusters"]),
    }
