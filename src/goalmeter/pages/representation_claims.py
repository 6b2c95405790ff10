"""Verdicts on representation that tables, figures and findings of its report share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from math import isnan, nan
from operator import attrgetter
from typing import Any, NamedTuple

from goalmeter.pages import Texts
from goalmeter.report.numbers import DASH, between, number
from goalmeter.representation.activations import EMBEDDINGS, RANDOM_WEIGHTS
from goalmeter.representation.beliefs.believed import unbelieved
from goalmeter.representation.probes.comparison import CONTROL_TASK, SHUFFLED
from goalmeter.representation.probes.protocol import Majority, PositionOnly
from goalmeter.representation.replay import AFTER, BEFORE
from goalmeter.representation.result import Representation
from goalmeter.representation.result_rows import DecidedRow, MapRow, PlanRow
from goalmeter.representation.use import causal_use
from goalmeter.representation.use.trials import CONFIRM
from goalmeter.statistics.clusters import Estimate

POSITION, MAJORITY = PositionOnly.name, Majority.name
# Controls in the order in which they are shown; others come after them.
_CONTROLS = (None, POSITION, MAJORITY, SHUFFLED, RANDOM_WEIGHTS, EMBEDDINGS, CONTROL_TASK)
# Positions on the same scale as shares of the reasoning: the end of the prompt is a little before
# 0, and the token before the answer a little after 1.
_TIMES = {f"{BEFORE}/end": -0.2, f"{AFTER}/end": 1.0, f"{AFTER}/answer": 1.2}


# --- Names ----------------------------------------------------------------------------------------
def layers_in_words(layer: object) -> str:
    """Describe layers: "layer 2", "layers 0-1" or "all layers"."""
    if layer == "all":
        return "all layers"
    return f"layers {layer}" if isinstance(layer, str) and "-" in layer else f"layer {layer}"


def row_place(row: Any) -> str:
    """Describe the place of a row: "layer 2, pre/end"."""
    if getattr(row, "is_ceiling", False):
        return "the other question (ceiling)"
    return f"{layers_in_words(row.layer)}, {row.position}"


say: Texts = Texts(
    "representation",
    {
        "place": row_place,
        # An intervention, with its dose if it is a write.
        "dose": lambda row: row.intervention + ("" if row.dose is None else f", dose {row.dose:g}"),
        "role": lambda row: " (null)" if row.is_null else " (chosen)" if row.chosen else "",
        "layers": layers_in_words,
        "panel": lambda row: row.control or "the probe",
        "null": lambda row: " (null)" * row.is_null,
        "reading": lambda row: row.control or f"the probe: {row.probe}",
        "rival": lambda best: f"{number(best[1], 2)}, {best[0]}" if best else DASH,
        "beside": lambda verdict: say("beside_names")[verdict],
        "span": lambda row: say("span_names").get(row.span, row.span),
        "moved": lambda row: say("moved_names").get(row.moved, row.moved),
        # Where the angle of random directions lies in 95 of 100 draws, in degrees.
        "chance": lambda row: between(row.chance[::2], 0) if len(row.chance) == 3 else DASH,
        "from": lambda share: "nowhere" if share is None else f"{share:g}",
    },
)


def position_rank(position: str) -> tuple[int, float, str]:
    """Sort key of positions: the order in which a model writes."""
    time = time_of(position)
    return position.startswith(f"{AFTER}/"), 2.0 if time is None else time, position


def time_of(position: str) -> float | None:
    """Return the share of the reasoning at a position, from 0 to 1; None if it is unknown."""
    side, _, place = position.partition("/")
    if position in _TIMES or side != AFTER:
        return _TIMES.get(position)
    try:
        share = float(place)
    except ValueError:
        return None
    return share if 0.0 <= share <= 1.0 else None


# --- Models ---------------------------------------------------------------------------------------
class ShownModel:
    """A result on the page, by a unique name, and what it comes to; `prefix` is that of its ids."""

    def __init__(self, result: Representation, name: str, prefix: str) -> None:
        self.result, self.name, self.prefix = result, name, prefix
        place = [result.chosen.get(key) for key in ("layer", "position", "probe")]
        first = next(map(map_place, result.maps), (None, None, None))
        # Layer, position and probe whose maps were decoded.
        self.chosen: tuple[Any, ...] = first if None in place else tuple(place)
        # How the probe and then its controls read walls of uncertain cells at that place.
        rows = (row for row in result.maps_of() if map_place(row) == self.chosen)
        self.readings: list[MapRow] = in_order(rows)
        self.probe: MapRow | None = next(
            (row for row in self.readings if row.control is None), None
        )
        # AUROC of its controls on the same grids. The control task can only be memorised.
        rivals = [row for row in self.readings if row.control not in (None, CONTROL_TASK)]
        self.rivals = {str(row.control): row.auroc for row in rivals}
        self.best_rival = best(self.rivals)
        self.read = compare(self.probe.auroc, self.rivals.values()) if self.probe else OPEN
        gain = None if self.probe is None else self.probe.gain_bits
        # Why nothing is said about a believed world; "" where something is.
        self.unbelieved = unbelieved(gain, result.believed.get("places"))
        # The intervention chosen on one half, as it did on the other, and whether cells are used,
        # as far as both the verdict and the intervals say so.
        chosen = (row for row in result.use if row.chosen and row.half == CONFIRM)
        self.confirmed = confirmed = next(chosen, None)
        self.use = causal_use.UNKNOWN
        if confirmed is not None:
            nulls = [each for each in (confirmed.unneeded_flips, confirmed.null_flips) if each]
            is_used = compare(confirmed.flips, nulls) == ABOVE
            if result.verdict == causal_use.USED and is_used:
                self.use = causal_use.USED
            elif result.verdict == causal_use.NOT_USED and is_low(confirmed.flips):
                self.use = causal_use.NOT_USED


def shown_models(results: Sequence[Representation]) -> list[ShownModel]:
    """Return what each result comes to, by a unique name."""
    models = Counter(result.model for result in results)
    names = [r.model if models[r.model] == 1 else f"{r.model}, {r.run}" for r in results]
    # Two directories of one name may hold runs of one model.
    twice = Counter(names)
    return [
        ShownModel(result, name + f" ({n})" * (twice[name] > 1), f"representation-{n}")
        for n, (result, name) in enumerate(zip(results, names, strict=True), start=1)
    ]


map_place = attrgetter("layer", "position", "probe")


def in_order(rows: Iterable[MapRow]) -> list[MapRow]:
    """Sort rows by their controls, those of the probe itself first."""
    ranks = {name: rank for rank, name in enumerate(_CONTROLS)}
    return sorted(rows, key=lambda row: ranks.get(row.control, len(_CONTROLS)))


# --- Verdicts of intervals ------------------------------------------------------------------------
ABOVE, BELOW, OPEN = "above", "below", "cannot be told"


def estimates_of(values: Mapping[str, Any] | None) -> dict[str, Estimate]:
    """Read estimates by name."""
    return {name: Estimate.from_json(value) for name, value in (values or {}).items()}


def ends(estimate: Estimate | None) -> tuple[float, float]:
    """Return the interval of an estimate; NaN, which is nowhere, without one or a number."""
    if estimate is None or estimate.interval is None or isnan(estimate.value):
        return nan, nan
    return estimate.interval


def compare(ours: Estimate | None, others: Iterable[Estimate | None]) -> str:
    """Return `ABOVE` if the interval lies above each other one, `BELOW` if below one of them."""
    (low, high), controls = ends(ours), list(map(ends, others))
    if any(high < control[0] for control in controls):
        return BELOW
    # Nothing is known to be above a control without an interval.
    return ABOVE if controls and all(control[1] < low for control in controls) else OPEN


def sign(difference: Estimate | None) -> str:
    """Return the side of 0 on which the interval of a difference lies."""
    return compare(difference, [Estimate(0.0, (0.0, 0.0), 0, 0)])


def signs(differences: Iterable[Estimate]) -> str:
    """Return `ABOVE` if every difference is, `BELOW` if one is."""
    found = set(map(sign, differences))
    return BELOW if BELOW in found else ABOVE if found == {ABOVE} else OPEN


def best(named: Mapping[str, Estimate | None]) -> tuple[str, Estimate] | None:
    """Return the largest known number with its name."""
    known = [(k, e) for k, e in named.items() if e is not None and not isnan(e.value)]
    return max(known, key=lambda entry: entry[1].value, default=None)


def is_low(flips: Estimate) -> bool:
    """Whether so few moves flip that nothing is used."""
    return ends(flips)[1] < causal_use.MARGIN


# --- Decoded maps and believed worlds -------------------------------------------------------------
def measures(explained: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the JSON values of every share, in all states and then in detour states."""
    return [
        (f"{name}{where}", states[key])
        for where, states in (("", explained), (", detour states", explained.get("detour") or {}))
        for key, name in say("measure_names").items()
        if states.get(key) is not None
    ]


def worlds_of(believed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return JSON values of the worlds in which the same walks were judged, controls last."""
    differences = {"meg_decoded": "decoded_difference", "meg_believed": "difference"}
    out = {
        key: believed[key] | {"name": name, "less_true": believed.get(differences.get(key, ""))}
        for key, name in say("world_names").items()
        if believed.get(key)
    }
    beyond = believed.get("beyond") or {}
    for name, fit in (believed.get("controls") or {}).items():
        out[name] = fit | {"name": f"{name} (control)", "believed_less": beyond.get(name)}
    return out


# --- Plans ----------------------------------------------------------------------------------------
PREFIX, CONDITIONAL = "prefix", "conditional"
# Baselines that know more than a decoder has to. Of the first action, repeating what was read first
# is reading it.
_INFORMED, _REPEAT = ("optimal plan", "stated plan", "asked again"), "repeat the first"


class Reader(NamedTuple):
    """A decoder of plans at one place, with its rows by the number of actions."""

    position: str
    place: str  # the decoder and its place, in words
    rows: list[PlanRow]

    @property
    def horizon(self) -> int:
        """The number of actions up to which the prefix is above every simple baseline."""
        above = takewhile(lambda row: above_simple(row) == ABOVE, self.rows)
        return sum(1 for _ in takewhile(lambda each: each[0] == each[1].n, enumerate(above, 1)))


def best_readers(shown: ShownModel) -> list[Reader]:
    """Return, for each position, the layer and decoder that read most of the first action."""
    by_place: dict[tuple[str, str], list[PlanRow]] = {}
    for row in sorted(shown.result.plan, key=lambda row: row.n):
        place = row.position, f"{row.decoder}, {row_place(row)}"
        by_place.setdefault(place, []).append(row)
    readers = [Reader(*place, rows) for place, rows in by_place.items()]
    found: dict[str, Reader] = {}
    for reader in sorted(readers, key=lambda reader: -_mean([reader.rows[0].prefix])):
        found.setdefault(reader.position, reader)
    return [found[position] for position in sorted(found, key=position_rank)]


def simple_baselines(row: PlanRow) -> dict[str, Mapping[str, Estimate]]:
    """Return the baselines that know neither the map nor what the model says or did elsewhere."""
    return {
        name: values
        for name, values in row.baselines.items()
        if values is not None and name not in _INFORMED and not (name == _REPEAT and row.n == 1)
    }


def above_simple(row: PlanRow) -> str:
    """Compare the prefix with every simple baseline, by paired differences if they are known."""
    baselines = simple_baselines(row).values()
    if all("beyond" in values for values in baselines):
        return signs(values["beyond"] for values in baselines)
    return compare(row.prefix, [values.get(PREFIX) for values in baselines])


def along_reasoning(shown: ShownModel, step: int) -> list[DecidedRow]:
    """Return one action along the reasoning, at the layer that reads most of it."""
    by_layer: dict[int, list[DecidedRow]] = {}
    for row in shown.result.decided:
        if row.step == step and time_of(row.position) is not None:
            by_layer.setdefault(row.layer, []).append(row)
    rows = max(by_layer.values(), key=lambda rows: _mean([r.accuracy for r in rows]), default=[])
    return sorted(rows, key=lambda row: position_rank(row.position))


def _mean(values: Sequence[Estimate]) -> float:
    """The mean of the known values; -1 without any."""
    known = [each.value for each in values if not isnan(each.value)]
    return sum(known) / len(known) if known else -1.0
