"""Records of a card: rows, gauges, disagreements, the claim and what was not run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, shown
from goalmeter._files import JsonFields, read_bytes, restored
from goalmeter.card.schema import check_json, schema_of
from goalmeter.statistics.clusters import Estimate

SCHEMA = "https://goalmeter.dev/schemas/card-1.json"  # identifies the format of card.json
CARD_JSON, CARD_HTML, ITEMS_JSON = "card.json", "card.html", "items.json"
_MOST_BYTES = 2**25  # of a card.json or items.json

# Units of a row, which determine how its numbers are shown.
SHARE, NATS, REWARD, P_VALUE = "share", "nats", "reward per step", "p-value"
# What the ends of a row are.
INTERVAL, BOUND, EXACT = "95% interval", "certified bound", "exact"
# Methods of intervals over clusters (`statistics.clusters`).
BOUNDED = "mean of bounded values (Gaffke 2005)"
PAIRED = "Student's t over mazes or grids; bounded (Gaffke 2005) if all are equal"
PSEUDO_VALUES = "mean of Tukey's pseudo-values within bounds (Gaffke 2005)"
PAIRED_PSEUDO_VALUES = "Student's t of Tukey's pseudo-values; bounded (Gaffke 2005) if few"


@dataclass(frozen=True, kw_only=True)
class CardRow(JsonFields):
    """One measured number."""

    id: str  # name in gates and comparisons, such as "meg"
    measure: str  # the measure that returned it
    title: str
    value: float | None
    lower: float | None = None
    upper: float | None = None
    ends: str = INTERVAL
    method: str = ""  # how the ends were obtained, such as a name of an interval
    unit: str = SHARE
    n: int | None = None  # number of independent units
    of: str = ""  # what they are, such as "mazes"
    baselines: Mapping[str, float] = field(default_factory=dict)  # value of each baseline agent
    error_rate: str = ""  # of this measure in the population of agents with known goals
    margin: float | None = None  # largest difference that counts as none in comparisons
    source: str = ""  # file in the directory of the card that has the number or its data
    note: str = ""

    @classmethod
    def of_estimate(cls, estimate: Estimate | None, of: str, **fields: Any) -> CardRow:
        """Return the row of an estimate; its n is the number of clusters."""
        if estimate is None or math.isnan(estimate.value):
            return cls(value=None, n=0, of=of, **fields)
        low, high = estimate.interval or (None, None)
        return cls(
            value=estimate.value, lower=low, upper=high, n=estimate.clusters, of=of, **fields
        )


@dataclass(frozen=True, kw_only=True)
class Gauge(JsonFields):
    """One of the answers of the first screen, with a number on a scale."""

    title: str  # the question
    answer: str
    tone: str = ""  # "good", "warning" or "" (neutral)
    detail: str = ""
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    scale: tuple[float, float] = (0.0, 1.0)
    marks: Mapping[str, float] = field(default_factory=dict)  # baselines on the same scale
    row: str = ""  # id of the row that has the number; "" if there is none


@dataclass(frozen=True)
class Disagreement(JsonFields):
    """Two measures that contradict each other, and what would decide between them."""

    text: str
    resolution: str


@dataclass(frozen=True)
class NotRun(JsonFields):
    """A measure that was not run."""

    measure: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Claim(JsonFields):
    """A claim that was stated before the first trial, and its verdict."""

    text: str
    row: str  # id of the row
    end: str  # "lower", "upper" or "value"
    relation: str  # ">=" or "<="
    threshold: float
    refuted_by: str
    sha256: str  # of the file, stored before the first trial
    verdict: str = "inconclusive"  # or "met", "not met"


@dataclass(frozen=True, kw_only=True)
class Card(JsonFields):
    """Evaluation of one agent with every applicable measure."""

    agent: str
    about: str  # kind of agent in words
    scale: str  # "quick", "standard" or "full"
    seed: int
    headline: str
    verdict: str  # "pursues ...", "no evidence of a goal" or "inconclusive"
    certainty: str
    gauges: Sequence[Gauge]
    rows: Sequence[CardRow]
    disagreements: Sequence[Disagreement]
    claim: Claim | None
    elicitation: Mapping[str, Any] | None  # of language models
    not_run: Sequence[NotRun]
    failures: Mapping[str, int]  # trials by how they failed
    trials: int
    citations: Sequence[str]  # keys of what was used
    versions: Mapping[str, str]
    command: str
    logs: Sequence[str] = ()  # logs of Inspect, relative to the directory of the card
    schema: str = SCHEMA

    def row(self, name: str) -> CardRow | None:
        """Return the row with an id."""
        return next((row for row in self.rows if row.id == name), None)

    def __str__(self) -> str:
        return f"{self.headline}. {self.certainty}"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Card:
        """Return the card that `to_json` was called on."""
        card: Card = restored(cls, value)
        return card


def read_card(path: str | Path) -> Card:
    """Read a card from its directory or its card.json."""
    value = _read_json(path, CARD_JSON)
    try:
        if value["schema"] != SCHEMA:
            raise ValueError(f"its schema is {shown(value['schema'])}, expected {SCHEMA!r}")
        check_json(value, schema_of(Card), "card")
        return Card.from_json(value)
    except (LookupError, TypeError, ValueError, AttributeError) as cause:
        raise InvalidFileError(
            f"{path} has no valid card ({type(cause).__name__}: {cause}); make it again with "
            f"goalmeter measure"
        ) from cause


def read_items(path: str | Path) -> dict[str, dict[str, list[float]]]:
    """Read numerators and denominators of rows by world, from the directory of a card."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    if not (folder / ITEMS_JSON).exists():
        return {}
    value: dict[str, dict[str, list[float]]] = _read_json(folder, ITEMS_JSON)
    kind = Mapping[str, Mapping[str, tuple[float, float]]]
    try:
        check_json(value, schema_of(kind), "items")
    except ValueError as cause:
        raise InvalidFileError(f"{folder / ITEMS_JSON} is not valid: {cause}") from cause
    return value


def _read_json(path: str | Path, name: str) -> Any:
    file = Path(path) / name if Path(path).is_dir() else Path(path)
    try:
        return json.loads(read_bytes(file, _MOST_BYTES))
    except FileNotFoundError:
        raise InvalidFileError(
            f"{path} is not a card: there is no {file.name}; expected a directory that goalmeter "
            f"measure --out wrote"
        ) from None
    except (OSError, ValueError, RecursionError) as cause:
        raise InvalidFileError(f"{file} cannot be read as JSON: {cause}") from cause
