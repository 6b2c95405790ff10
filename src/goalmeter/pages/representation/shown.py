"""What every table and picture of this part shares: the models' names, their place, the prose."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from goalmeter.pages.navigation.conditions import INTERVALS
from goalmeter.pages.prose import prose
from goalmeter.representation.positions import AFTER, BEFORE
from goalmeter.representation.probes.comparison import CONTROL_TASK, SHUFFLED
from goalmeter.representation.probes.position import Majority, PositionOnly
from goalmeter.representation.result import Representation
from goalmeter.representation.result_rows import MapRow
from goalmeter.representation.untrained import EMBEDDINGS, RANDOM_WEIGHTS
from goalmeter.statistics.clustered import Estimate

POSITION, MAJORITY = PositionOnly.name, Majority.name
# Positions beside the shares of the reasoning, on the same scale of time.
TIMES = {f"{BEFORE}/end": -0.2, f"{AFTER}/end": 1.0, f"{AFTER}/answer": 1.2}
# The texts of `prose.toml`.
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
