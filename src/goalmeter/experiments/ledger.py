"""The ledger: every published number we recompute, beside ours, with the difference named.

`ledger.toml` holds the rows. `recompute` does the cheap ones again; a row whose recomputed
value is further from `ours` than `tolerance` is stale, and the tests fail until it is mended.
`python -m goalmeter.experiments.ledger` prints the ledger as docs/ledger.md.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from itertools import groupby

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.experiments.welch import FEWEST, LEVEL, TOO_FEW, reach

_PRINTED = re.compile(r"(?P<value>[+-]?\d+(?:\.(?P<digits>\d+))?)(?: ± (?P<spread>\d+(?:\.\d+)?))?")
RELATIONS = ("equal", "lower bound", "estimate", "reference")
COSTS = ("cheap", "slow")
NOT_RUN, AGREES, DIFFERS = "not run", "agrees", "differs"


@dataclass(frozen=True, kw_only=True)
class Number:
    """One published number and ours.

    Attributes:
        id: experiment/quantity/setting.
        quantity: what is measured, with its unit.
        setting: for what.
        published: as printed, such as "34.3 ± 2.6".
        source: paper, appendix and table.
        relation: "equal" if ours should be the same number, "lower bound" if theirs bounds
            ours from below, "estimate" if both are averages over runs, with standard errors,
            "reference" if ours is what a reference agent has where theirs is of another agent.
        ours: what `command` gave when the row was last checked; NaN for an estimate not run yet.
        tolerance: how far a recomputation may be from `ours`; NaN where there is none.
        command: gives ours.
        cost: "cheap" (recomputed by every test run) or "slow".
        remark: the difference, named; by hand.
        error: of an estimate: the standard error of ours.
        seeds: of an estimate: the runs behind ours.
        published_error: of an estimate: the standard error of the published number, which its
            printed spread may not be.
        corrected: the number that the authors' own data give, where the printed one is a mistake;
            ours is compared with it.
        published_seeds: of an estimate: the runs behind the published number.
        found: what the runs said of the difference, written with the numbers.
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
    error: float = 0.0
    seeds: int = 0
    published_error: float = 0.0
    corrected: float | None = None
    published_seeds: int = 0
    found: str = ""

    def __post_init__(self) -> None:
        if not _PRINTED.fullmatch(self.published):
            raise InvalidFileError(
                f"{self.id}: published is {self.published!r}, expected a number as printed, "
                f"such as '34.3' or '34.3 ± 2.6'"
            )
        for name, value, known in (
            ("relation", self.relation, RELATIONS),
            ("cost", self.cost, COSTS),
        ):
            if value not in known:
                raise InvalidFileError(f"{self.id}: {name} is {value!r}, expected one of {known}")
        whole = self.published_error > 0 and self.published_seeds > 1
        if self.relation == "estimate" and not (whole and (self.seeds > 1 or not self.ran)):
            raise InvalidFileError(
                f"{self.id}: an estimate needs published_error above 0, published_seeds above 1, "
                f"and seeds above 1 or ours nan; got {self.published_error:g}, "
                f"{self.published_seeds}, {self.seeds} and {self.ours:g}"
            )

    @property
    def published_value(self) -> float:
        """The published number itself."""
        return float(self._printed["value"])

    @property
    def published_spread(self) -> float:
        """Its published ±, or 0."""
        return float(self._printed["spread"] or 0.0)

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
        """Of an estimate: |z| above it comes up once in 20 where both estimate the same number."""
        return reach((self.error, self.published_error), (self.seeds, self.published_seeds))

    @property
    def verdict(self) -> str:
        """How ours and theirs compare, in two or three words."""
        if self.relation == "estimate":
            if not self.ran:
                return NOT_RUN
            if self.seeds < FEWEST:
                return TOO_FEW
            return AGREES if abs(self.z) <= self.limit else DIFFERS
        rounding = 0.5 * 10.0 ** -len(self._printed["digits"] or "")
        slack = max(self.published_spread, rounding) * (1 + 1e-9)
        excess = self.published_value - self.ours
        if self.relation == "reference":
            if abs(excess) <= 0.5 * 10.0 ** -len(self._printed["digits"] or "") * (1 + 1e-9):
                return "level with it"
            return "above the reference" if excess > 0 else "below the reference"
        if self.relation == "lower bound":
            return "bound holds" if excess <= slack else "bound violated"
        return "same" if abs(excess) <= slack else DIFFERS

    @property
    def _printed(self) -> re.Match[str]:
        match = _PRINTED.fullmatch(self.published)
        assert match is not None, "checked at construction"
        return match


def load(prefix: str = "") -> list[Number]:
    """The rows whose id starts with a prefix, in the order of the file.

    Raises:
        InvalidFileError: a row of ledger.toml that lacks a field or has an unknown one.
    """
    text = files("goalmeter.experiments").joinpath("ledger.toml").read_text(encoding="utf-8")
    rows = []
    for number, entry in enumerate(tomllib.loads(text)["number"], start=1):
        try:
            rows.append(Number(**entry))
        except TypeError as cause:
            name = entry.get("id", f"row {number}")
            raise InvalidFileError(f"ledger.toml, {name}: {cause}") from cause
    return [row for row in rows if row.id.startswith(prefix)]


def recompute(rows: Iterable[Number]) -> dict[str, float]:
    """The value of each cheap row, computed again: id -> value.

    Raises:
        InvalidParameterError: a row that no experiment knows, or that is not cheap.
    """
    from goalmeter.experiments.lm_navigation import compute as lm_navigation
    from goalmeter.experiments.meg_cliffworld import compute as meg_cliffworld
    from goalmeter.experiments.reflection_table_1 import compute as reflection_table_1

    experiments = {
        "meg-cliffworld": meg_cliffworld.recompute,
        "reflection-table-1": reflection_table_1.recompute,
        "lm-navigation": lm_navigation.recompute,
    }
    out = {}
    for experiment, group in groupby(rows, key=lambda row: row.id.partition("/")[0]):
        members = list(group)
        if experiment not in experiments or any(row.cost != "cheap" for row in members):
            raise InvalidParameterError(
                f"rows of {experiment!r} cannot be recomputed here, expected cheap rows of "
                f"{', '.join(experiments)}; run the command of the row instead"
            )
        out.update(experiments[experiment]([row.id for row in members]))
    return out


def stale(rows: Iterable[Number], values: dict[str, float]) -> list[str]:
    """A sentence for every row that a recomputed value contradicts."""
    return [
        f"{row.id}: the ledger says {row.ours:g} (tolerance {row.tolerance:g}), "
        f"recomputed {values[row.id]:.8g}; mend the code, or the row and its remark"
        for row in rows
        if not abs(values[row.id] - row.ours) <= row.tolerance
    ]


def markdown(rows: Iterable[Number]) -> str:
    """The ledger as a page of documentation."""
    lines = [
        "# Published numbers and ours",
        "",
        "Made from `src/goalmeter/experiments/ledger.toml` by "
        "`python -m goalmeter.experiments.ledger > docs/ledger.md`; do not edit by hand.",
        "",
        "A row is *stale* when its command no longer gives our value to within the tolerance. "
        "Cheap rows are recomputed by every run of the tests, slow ones by hand. "
        "*Same* means that the published number is ours to the digits or within the spread it "
        "was printed with; *bound holds* that the published number, a lower bound, is not "
        "above ours; *agrees* that two estimates differ by no more than what comes up in "
        f"{LEVEL:.0%} of cases by luck, by Welch's t test; z is the difference in its standard "
        f"errors. Fewer than {FEWEST} seeds of ours are too few for either. *Above* and *below the "
        "reference* say where a published agent stands beside a reference agent of ours.",
    ]

    def head(row: Number) -> tuple[str, str, str, bool]:
        return row.quantity, row.source, row.command, row.relation == "estimate"

    for (quantity, source, command, estimate), group in groupby(rows, key=head):
        lines += [
            "",
            f"## {quantity[0].upper()}{quantity[1:]}",
            "",
            f"Source: {source}. Command: `{command}`.",
            "",
            *(_estimates if estimate else _numbers)(group),
        ]
    return "\n".join(lines) + "\n"


def _numbers(rows: Iterable[Number]) -> list[str]:
    return [
        "| setting | published | ours | tolerance | cost | verdict | remark |",
        "|---|---:|---:|---:|---|---|---|",
        *(
            f"| {row.setting} | {row.published} | {row.ours:g} | {row.tolerance:g} "
            f"| {row.cost} | {row.verdict} | {row.remark} |"
            for row in rows
        ),
    ]


def _estimates(rows: Iterable[Number]) -> list[str]:
    lines = [
        "| setting | published, as printed | standard error | ours | standard error | seeds "
        "| tolerance | cost | verdict | remark |",
        "|---|---:|---:|---:|---:|---:|---:|---|---|---|",
    ]
    for row in rows:
        ours, tolerance = "– | – | –", "–"
        if row.ran:
            ours = f"{row.ours:+.6f} | {row.error:.6f} | {row.seeds}"
            tolerance = f"{row.tolerance:g}"
        printed = row.published
        if row.corrected is not None:
            printed += f" (their data: {row.corrected:+.6f})"
        judged = not math.isnan(row.z)
        verdict = f"{row.verdict}, z = {row.z:+.2f}" if judged else row.verdict
        lines.append(
            f"| {row.setting} | {printed} | {row.published_error:.6f} | {ours} "
            f"| {tolerance} | {row.cost} | {verdict} | {f'{row.remark} {row.found}'.strip()} |"
        )
    return lines


if __name__ == "__main__":
    import sys

    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # whatever the locale is
    sys.stdout.write(markdown(load()))
