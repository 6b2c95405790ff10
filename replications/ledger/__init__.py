"""The ledger: the published numbers of the papers beside ours, with the difference named.

`ledger.toml` holds the rows and, for each kind of number, the margin within which two count as
equal. `recompute` does the cheap ones again; a row whose recomputed value is further from `ours`
than `tolerance` is stale, and the tests fail until it is mended.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any

from goalmeter import InvalidFileError
from goalmeter.commands.replicate import REPLICATIONS
from goalmeter.statistics import Verdict, difference, reach, verdict, words
from replications.common import FEWEST, TOO_FEW, Interval, Texts

say = Texts("ledger")
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
    command: str  # empty where no command gives ours yet
    cost: str
    remark: str
    interval: Interval | None = None
    error: float = 0.0  # of an estimate: the standard error of ours
    seeds: int = 0  # of an estimate: the runs behind ours; of a reference: the grids
    published_interval: Interval | None = None
    published_error: float = 0.0  # of an estimate; its printed spread may be something else
    published_seeds: int = 0
    # The number that the authors' own data give, where the printed one is a mistake; ours is
    # compared with it, and apart from that with the print.
    corrected: float | None = None
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
            "not_yet": self.cost == NOT_YET and (self.ran or bool(self.command)),
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

    def difference_interval(self, theirs: float) -> Interval | None:
        """The 95% interval of ours less theirs, of a reference of theirs less ours; or None."""
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


PATH = Path(__file__).with_name("ledger.toml")


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
        for name in entry.keys() & {"interval", "published_interval"}:
            fields[name] = tuple(entry[name])
        margin = next((margin for margin in known if entry["id"].startswith(margin.rows)), None)
        rows.append(Number(**fields, margin=margin))
    return tuple(rows)


@cache
def _file() -> dict[str, list[dict[str, Any]]]:
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
        f"recomputed {values[row.id]:.8g}; mend the code, or the row and its remark"
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
