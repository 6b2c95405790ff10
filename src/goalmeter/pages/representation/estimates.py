"""Labels, estimates, claims and values by layer, shared by all tables and figures."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.pages import prose
from goalmeter.pages.navigation_tables import INTERVALS
from goalmeter.report.charts import Panel, heat_map
from goalmeter.representation.capture import EMBEDDINGS, RANDOM_WEIGHTS
from goalmeter.representation.probes.comparison import CONTROL_TASK, SHUFFLED
from goalmeter.representation.probes.protocol import Majority, PositionOnly
from goalmeter.representation.replay import AFTER, BEFORE
from goalmeter.representation.result import Representation
from goalmeter.representation.result_rows import MapRow, UsedRow
from goalmeter.representation.use.causal_use import MARGIN, NOT_USED, UNKNOWN, USED
from goalmeter.representation.use.trials import CONFIRM
from goalmeter.statistics.clusters import Estimate

# --- Shown ----------------------------------------------------------------------------------------
POSITION, MAJORITY = PositionOnly.name, Majority.name
# Positions beside the shares of the reasoning, on the same scale of time.
TIMES = {f"{BEFORE}/end": -0.2, f"{AFTER}/end": 1.0, f"{AFTER}/answer": 1.2}
# The texts of the page.
say = partial(prose, "representation", INTERVALS=INTERVALS)
# Controls in the order in which they are shown; others come after them.
CONTROLS = (POSITION, MAJORITY, SHUFFLED, RANDOM_WEIGHTS, EMBEDDINGS, CONTROL_TASK)


@dataclass(frozen=True)
class Shown:
    """A result on the page.

    Attributes:
        result: the numbers.
        name: of the model, and of its run where another has the same name.
        prefix: of the ids of what is shown of it.
    """

    result: Representation
    name: str
    prefix: str

    @property
    def chosen(self) -> tuple[Any, Any, Any]:
        """Layer, position and probe whose maps were decoded; of the first row if none is said."""
        entries = self.result.chosen
        if all(key in entries for key in ("layer", "position", "probe")):
            return entries["layer"], entries["position"], entries["probe"]
        first = next(iter(self.result.maps), None)
        return (None, None, None) if first is None else _place(first)

    def rivals(self) -> tuple[MapRow, ...]:
        """The controls at that place which are scored on the same grids as the probe.

        That of random labels is not: it can only be learnt by heart, so it is scored on grids that
        it was fitted to, and says how selective a probe is.
        """
        return tuple(row for row in self.at_chosen()[1] if row.control != CONTROL_TASK)

    def at_chosen(self) -> tuple[MapRow | None, tuple[MapRow, ...]]:
        """How walls of uncertain cells are read at that place: by the probe, and by controls."""
        rows = [row for row in self.result.maps_of() if _place(row) == self.chosen]
        ours = next((row for row in rows if row.control is None), None)
        return ours, tuple(in_order([row for row in rows if row.control is not None]))


def shown_of(results: Sequence[Representation]) -> list[Shown]:
    """The results with names that tell them apart."""
    models = Counter(result.model for result in results)
    names = [
        result.model if models[result.model] == 1 else f"{result.model}, {result.run}"
        for result in results
    ]
    # Two folders of one name may hold runs of one model.
    twice = Counter(names)
    return [
        Shown(result, f"{name} ({number})" if twice[name] > 1 else name, f"representation-{number}")
        for number, (result, name) in enumerate(zip(results, names, strict=True), start=1)
    ]


def in_order(rows: Iterable[MapRow]) -> list[MapRow]:
    """Rows by their controls, those of the probe itself first."""
    return sorted(rows, key=lambda row: -1 if row.control is None else control_rank(row.control))


def control_rank(name: str) -> int:
    """Where a control stands among the others."""
    return CONTROLS.index(name) if name in CONTROLS else len(CONTROLS)


def place_in_words(layer: object, position: str) -> str:
    """A place of the network: "layer 2, pre/end"."""
    return f"{layers_in_words(layer)}, {position}"


def layers_in_words(layer: object) -> str:
    """Such as "layer 2", "layers 0-1" or "all layers"."""
    if layer == "all":
        return "all layers"
    return f"layers {layer}" if isinstance(layer, str) and "-" in layer else f"layer {layer}"


def estimate_of(value: Mapping[str, Any] | None) -> Estimate | None:
    """An estimate from its JSON; None where there is none."""
    return None if value is None else Estimate.from_json(value)


def estimates_of(values: Mapping[str, Any] | None) -> dict[str, Estimate]:
    """Estimates by name from their JSON."""
    return {name: Estimate.from_json(value) for name, value in (values or {}).items()}


def position_rank(position: str) -> tuple[int, float, str]:
    """Where a position stands among the others: in the order in which a model writes."""
    time = time_of(position)
    return position.startswith(f"{AFTER}/"), 2.0 if time is None else time, position


def time_of(position: str) -> float | None:
    """When a position is reached: from 0 to 1 along the reasoning; None where nobody knows.

    The end of the prompt is a little before that, and the token before the answer a little behind.
    """
    if position in TIMES:
        return TIMES[position]
    side, _, place = position.partition("/")
    try:
        share = float(place) if side == AFTER else math.nan
    except ValueError:
        return None
    return share if 0.0 <= share <= 1.0 else None


def _place(row: MapRow) -> tuple[Any, Any, Any]:
    return row.layer, row.position, row.probe


# --- Claims ---------------------------------------------------------------------------------------
ABOVE, BELOW, OPEN = "above", "below", "cannot be told"


def ends(estimate: Estimate | None) -> tuple[float, float] | None:
    """The interval of an estimate; None where there is none, or no number."""
    if estimate is None or estimate.interval is None or math.isnan(estimate.value):
        return None
    return None if any(map(math.isnan, estimate.interval)) else estimate.interval


def beside(ours: Estimate | None, others: Iterable[Estimate | None]) -> str:
    """`ABOVE` if the whole interval lies above each other one, `BELOW` if below one of them."""
    interval, controls = ends(ours), [ends(each) for each in others]
    if interval is None or not controls:
        return OPEN
    low, high = interval
    if any(control is not None and high < control[0] for control in controls):
        return BELOW
    # A control without an interval is one that nothing is known to be above.
    above = all(control is not None and control[1] < low for control in controls)
    return ABOVE if above else OPEN


def sign(difference: Estimate | None) -> str:
    """On which side of 0 the interval of a difference lies."""
    interval = ends(difference)
    if interval is None or interval[0] <= 0 <= interval[1]:
        return OPEN
    return ABOVE if interval[0] > 0 else BELOW


def signs(differences: Mapping[str, Estimate]) -> str:
    """`ABOVE` if every difference is, `BELOW` if one is."""
    all_signs = [sign(each) for each in differences.values()]
    if BELOW in all_signs:
        return BELOW
    return ABOVE if all_signs and set(all_signs) == {ABOVE} else OPEN


def best(named: Mapping[str, Estimate | None]) -> tuple[str, Estimate] | None:
    """The largest number of those that are known, with its name."""
    known = {k: e for k, e in named.items() if e is not None and not math.isnan(e.value)}
    return max(known.items(), key=lambda entry: entry[1].value) if known else None


def confirmed(result: Representation) -> UsedRow | None:
    """The intervention that was chosen on one half, as it did on the other."""
    return next((row for row in result.use if row.chosen and row.half == CONFIRM), None)


def use_of(result: Representation) -> str:
    """Whether cells are used, as far as both the verdict and the intervals say so."""
    row = confirmed(result)
    if row is None:
        return UNKNOWN
    nulls: Sequence[Estimate | None] = (row.unneeded_flips, row.null_flips)
    compared = [each for each in nulls if each is not None]
    if result.verdict == USED and beside(row.flips, compared) == ABOVE:
        return USED
    flips = ends(row.flips)
    if result.verdict == NOT_USED and flips is not None and flips[1] < MARGIN:
        return NOT_USED
    return UNKNOWN


# --- By layer -------------------------------------------------------------------------------------
AnyRow = TypeVar("AnyRow")


class Tried(Protocol):
    """A row of a result: what was done at a layer, and whether it was chosen."""

    @property
    def layer(self) -> int | str:
        """One layer by its number, several by what they are called."""

    @property
    def chosen(self) -> bool:
        """Whether it did best on the half that screens."""


TriedRow = TypeVar("TriedRow", bound=Tried)


def values_at(
    rows: Iterable[AnyRow],
    place: Callable[[AnyRow], tuple[Hashable, Hashable]],
    heads: tuple[Sequence[Hashable], Sequence[Hashable]],
    take: Callable[[AnyRow], Estimate | None],
) -> FloatArray:
    """The values of some rows, laid out; NaN where there is none.

    Args:
        rows: of a result.
        place: the heads of the row and of the column in which a row stands.
        heads: of all rows, [R], and of all columns, [C].
        take: its number.

    Returns:
        [R, C].
    """
    out = np.full((len(heads[0]), len(heads[1])), math.nan)
    for row in rows:
        row_head, column_head = place(row)
        if (value := take(row)) is not None:
            out[heads[0].index(row_head), heads[1].index(column_head)] = value.value
    return out


@dataclass(frozen=True)
class ByLayer(Generic[TriedRow]):
    """Rows of a result by name and layer.

    Attributes:
        rows: what was tried.
        named: how each is called.
        names: all of these names, from above.
    """

    rows: Sequence[TriedRow]
    named: Callable[[TriedRow], str]
    names: Sequence[str]

    @property
    def layers(self) -> list[int | str]:
        """Single layers in their order, then whatever is several of them."""
        listed = list(dict.fromkeys(row.layer for row in self.rows))
        single = sorted(layer for layer in listed if isinstance(layer, int))
        return [*single, *(layer for layer in listed if isinstance(layer, str))]

    def panel(
        self, title: str, take: Callable[[TriedRow], Estimate], *, hatched: bool = False
    ) -> Panel:
        """One number of every row; what was chosen is hatched if wanted."""
        layers = self.layers
        chosen = (row for row in self.rows if hatched and row.chosen)
        return Panel(
            title=title,
            values=values_at(
                self.rows, lambda row: (self.named(row), row.layer), (self.names, layers), take
            ),
            hatched=frozenset(
                (self.names.index(self.named(row)), layers.index(row.layer)) for row in chosen
            ),
        )

    def drawn(self, name: str, panels: Sequence[Panel], label: str) -> str:
        """Panels of shares as SVG.

        Args:
            name: of the drawing, which no other on the page has.
            panels: of these rows.
            label: of the scale.
        """
        return heat_map(
            name,
            panels,
            rows=self.names,
            columns=[layers_in_words(layer) for layer in self.layers],
            label=label,
            limit=1.0,
            signed=False,
            means=False,
        )


def has_numbers(panel: Panel) -> bool:
    """Whether there is anything to see."""
    return not bool(np.isnan(np.asarray(panel.values)).all())
