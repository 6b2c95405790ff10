"""Verdicts on representation: what tables, figures and findings of its report share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from math import isnan, nan
from operator import attrgetter
from typing import Any, NamedTuple

from goalmeter.pages import Texts
from goalmeter.report import Finding, Link, Table
from goalmeter.report.numbers import DASH, between, nats, number
from goalmeter.representation.activations import EMBEDDINGS, RANDOM_WEIGHTS
from goalmeter.representation.beliefs.believed import unbelieved
from goalmeter.representation.probes.comparison import CONTROL_TASK, SHUFFLED
from goalmeter.representation.probes.protocol import Majority, PositionOnly
from goalmeter.representation.replay import AFTER, BEFORE
from goalmeter.representation.result import Representation
from goalmeter.representation.result_rows import DecidedRow, MapRow, PlanRow
from goalmeter.representation.use import causal_use
from goalmeter.representation.use.patching import CARRIES
from goalmeter.representation.use.trials import CONFIRM
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import Verdict, verdict

MISSING = "representation-missing"  # id of the section on what a result lacks
POSITION, MAJORITY = PositionOnly.name, Majority.name
_UNBELIEVED = "the true world without walls at unused places (not known to be believed)"
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
        "reading": lambda row: row.control or f"the probe: {row.probe}",
        "rival": lambda best: f"{number(best[1], 2)}, {best[0]}" if best else DASH,
        "beside": lambda verdict: say("beside_names")[verdict],
        "span": lambda row: say("span_names").get(row.span, row.span),
        "moved": lambda row: say("moved_names").get(row.moved, row.moved),
        # Where the angle of random directions lies in 95 of 100 draws, in degrees.
        "chance": lambda row: between(row.chance[::2], 0) if len(row.chance) == 3 else DASH,
        "difference": lambda less: number(less, 2) if less.interval else nats(less.value),
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
        rows = in_order(row for row in result.maps_of() if map_place(row) == self.chosen)
        self.probe = probe = next((row for row in rows if row.control is None), None)
        self.readings = [] if probe is None else rows
        # AUROC of its controls on the same grids. The control task can only be memorised.
        self.rivals = {
            row.control: row.auroc
            for row in self.readings
            if row.control not in (None, CONTROL_TASK)
        }
        self.best_rival = best(self.rivals)
        self.read = compare(probe.auroc if probe else None, self.rivals.values())
        # Why nothing is said about a believed world; "" where something is.
        gain = probe.gain_bits if probe else None
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

    def maps(self) -> list[MapRow]:
        """The rows of the probe whose maps were decoded, and of its controls, at every place."""
        return in_order(row for row in self.result.maps_of() if row.probe == self.chosen[2])

    def sizes(self) -> Iterator[tuple[MapRow, dict[Any, Estimate | None]]]:
        """The probes of several sizes at the chosen place, with the gains of their controls."""
        maps = in_order(self.result.maps_of())
        rows = [row for row in maps if (row.layer, row.position) == self.chosen[:2]]
        probes = [row for row in rows if row.control is None]
        if len({row.probe for row in probes}) < 2:
            return
        # Gains are over position alone, and a majority has no size.
        without = (None, POSITION, MAJORITY)
        names = dict.fromkeys(row.control for row in rows if row.control not in without)
        gains = {(row.probe, row.control): row.gain_bits for row in rows}
        for row in sorted(probes, key=lambda row: row.parameters):
            yield row, {name: gains.get((row.probe, name)) for name in names}

    def places(self) -> list[tuple[Any, dict[str, Any]]]:
        """Agent and goal at the place whose maps are decoded, by control."""
        by_control: dict[Any, dict[str, Any]] = {}
        for row in self.result.places:
            if map_place(row) == self.chosen:
                by_control.setdefault(say.shown(row, "reading"), {})[row.label] = row
        return list(by_control.items())

    def measures(self) -> list[tuple[str, Mapping[str, Any]]]:
        """JSON values of every share that maps explain, in all states, then in detour states."""
        explained = self.result.explained
        parts = {"": explained, ", detour states": explained.get("detour") or {}}
        return [
            (f"{name}{where}", states[key])
            for where, states in parts.items()
            for key, name in say("measure_names").items()
            if states.get(key) is not None
        ]

    def positions(self) -> Iterator[tuple[Any, ...]]:
        """What the maps of each position explain, the chosen one first; none for one position."""
        others = self.result.explained.get("other_positions") or {}
        positions = {str(self.chosen[1]): self.result.explained} if others else {}
        positions |= {name: others[name] for name in sorted(others, key=position_rank)}
        for position, states in positions.items():
            shares = {name: states.get(key) for key, name in say("measure_names").items()}
            errors = states.get("explained_errors") or {}
            highest = best(estimates_of(errors.get("controls")))
            yield position, shares, highest and highest[1], states.get("invalid")

    def worlds(self) -> dict[str, dict[str, Any]]:
        """JSON values of the worlds in which the same walks were judged, controls last."""
        believed = self.result.believed
        differences = {"meg_decoded": "decoded_difference", "meg_believed": "difference"}
        out = {
            key: believed[key] | {"name": name, "less_true": believed.get(differences.get(key, ""))}
            for key, name in say("world_names").items()
            if believed.get(key)
        }
        # Tables in Markdown have no notes, so the row itself claims no belief.
        if self.unbelieved and "meg_believed" in out:
            out["meg_believed"]["name"] = _UNBELIEVED
        beyond = believed.get("beyond") or {}
        for name, fit in (believed.get("controls") or {}).items():
            out[name] = fit | {"name": f"{name} (control)", "believed_less": beyond.get(name)}
        return out


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
ABOVE, BELOW, OPEN = Verdict.ABOVE, Verdict.BELOW, Verdict.UNTOLD


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


def signs(*differences: Estimate | None) -> str:
    """Return `ABOVE` if the interval of every difference lies above 0, `BELOW` if one is below."""
    found = {verdict(ends(each), margin=0) for each in differences}
    return BELOW if BELOW in found else ABOVE if found == {ABOVE} else OPEN


def best(named: Mapping[Any, Estimate | None]) -> tuple[Any, Estimate] | None:
    """Return the largest known number with its name."""
    known = [(k, e) for k, e in named.items() if e is not None and not isnan(e.value)]
    return max(known, key=lambda entry: entry[1].value, default=None)


def is_low(flips: Estimate) -> bool:
    """Whether so few moves flip that nothing is used."""
    return ends(flips)[1] < causal_use.MARGIN


# --- Plans ----------------------------------------------------------------------------------------
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
        return signs(*(values["beyond"] for values in baselines))
    return compare(row.prefix, [values.get("prefix") for values in baselines])


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


# --- Findings -------------------------------------------------------------------------------------
# Sentences derived from the numbers and their intervals. They are templates of
# `representation.toml`, in the entries "found_…"; those of a verdict have its name. Each finding of
# a kind is a lead, which may be empty, and a text.
_Lines = Iterator[tuple[str, str]]


def missing(shown: ShownModel) -> list[tuple[str, str]]:
    """Return the name of each missing result, with the reason that the run gives."""
    reasons = dict(shown.result.left_out)
    out: list[tuple[str, str]] = []
    used: set[str] = set()
    # Field of the result: in words, and the parts of a probe whose reason is that of the field.
    for field, (in_words, *parts) in say("missing_names").items():
        if not getattr(shown.result, field):
            known = next((name for name in (field, *parts) if name in reasons), "")
            used.add(known)
            out.append((in_words, reasons.get(known, "")))
    # A position that no decision has, a control that could not be made.
    return out + [(name, reason) for name, reason in reasons.items() if name not in used]


def _read(shown: ShownModel) -> _Lines:
    if shown.probe is not None:
        rivals = {"n": len(shown.rivals), "highest": shown.best_rival}
        failed = SHUFFLED if SHUFFLED in shown.result.left_out else ""
        texts = say("found_read", row=shown.probe, failed=failed, **rivals)
        yield texts[shown.read], texts["text"]


def _used(shown: ShownModel) -> _Lines:
    if row := shown.confirmed:
        texts = say("found_used", row=row, several=row.cells != 1)
        yield texts[shown.use], texts["text" if row.cells else "no_cells"]


def _believed(shown: ShownModel) -> _Lines:
    worlds = shown.worlds()
    true, inner = worlds.get("meg_true"), worlds.get("meg_believed")
    if true is None or inner is None:
        return
    less = inner["less_true"] and Estimate.from_json(inner["less_true"])
    texts = say("found_believed", inner=inner, true=true, less=less, reason=shown.unbelieved)
    if shown.unbelieved:
        yield "", texts["unbelieved"]
        return
    beyond = estimates_of(shown.result.believed.get("beyond")).values()
    # An agent that knows the true map, or follows a compass, is above controls too, so this is said
    # together with the difference only.
    controls = f" {texts[f'controls_{signs(*beyond)}']}" if beyond and less is not None else ""
    yield texts[signs(less)], texts["text"] + controls


def _looked_up(shown: ShownModel) -> _Lines:
    rows = [row for row in shown.result.spans if row.span != causal_use.ANSWERING]
    above = [row for row in rows if compare(row.flips, [row.other_flips]) == ABOVE]
    low = [row for row in rows if row.span == causal_use.PROMPT and is_low(row.flips)][:1]
    if above:
        texts = [say.sentence("found_looked_up", row=row) for row in above]
        texts += [say.sentence("found_looked_up", "reading", row=row) for row in low]
        yield "", f"{'; '.join(texts)}."


def _followed(shown: ShownModel) -> _Lines:
    rows = shown.result.moved
    for row in (row for row in rows if row.chosen and row.half == CONFIRM):
        ceiling = next((r.flips for r in rows if r.is_ceiling and r.moved == row.moved), None)
        follows = compare(row.flips, [row.null_flips]) == ABOVE
        if follows or (is_low(row.flips) and compare(ceiling, [row.flips]) == ABOVE):
            kind = "follow" if follows else "follow_question"
            yield "", say.sentence("found_moved", kind, row=row, ceiling=ceiling)


def _carried(shown: ShownModel) -> _Lines:
    for row in (row for row in shown.result.subspaces if row.verdict == CARRIES):
        where = ""
        if row.degrees is not None and len(row.chance) == 3:
            low, _, high = row.chance
            where = "no nearer to" if row.degrees <= high else "farther from"
            where = "nearer to" if row.degrees < low else where
        yield "", say.sentence("found_carried", row=row, where=where)


def _explained(shown: ShownModel) -> _Lines:
    errors = say("measure_names")["explained_errors"]
    for name, states in shown.measures():
        share = Estimate.from_json(states)
        if name.startswith(errors) and not isnan(share.value):
            where = name.removeprefix(errors).replace(", ", " in ")
            highest = best(estimates_of(states.get("controls")))
            texts = say("found_explained", where=where, share=share, highest=highest)
            beyond = estimates_of(states.get("beyond")).values()
            yield "", f"{texts['text']} {texts[signs(*beyond)]}"


def _planned(shown: ShownModel) -> _Lines:
    for reader in best_readers(shown):
        first, horizon = reader.rows[0], reader.horizon
        if first.n == 1 and not isnan(first.prefix.value):
            baselines = simple_baselines(first).items()
            highest = best({name: each.get("prefix") for name, each in baselines})
            when = "before" if reader.position.startswith(f"{BEFORE}/") else "after"
            texts = say("found_planned", when=when, first=first, reader=reader, highest=highest)
            kind = ("open", "one")[horizon] if horizon < 2 else "several"
            kind = "below" if above_simple(first) == BELOW else kind
            yield "", f"{texts['text']} {texts[kind]}"


def _decided(shown: ShownModel) -> _Lines:
    rows = along_reasoning(shown, 1)
    above = [*takewhile(lambda row: signs(row.beyond) == ABOVE, reversed(rows))]
    if rows:
        kind = "text" if above else "nowhere"
        yield "", say.sentence("found_decided", kind, first=above[-1] if above else None)


# Table that a finding leads to -> its leads and texts.
_KINDS = {
    "read": _read,
    "used": _used,
    "believed": _believed,
    "spans": _looked_up,
    "moved": _followed,
    "subspaces": _carried,
    "explained": _explained,
    "plan": _planned,
    "decided": _decided,
}


def findings(shown: ShownModel, summaries: Mapping[str, Table]) -> list[Finding]:
    """Return all that there is to say about a model; `summaries` are tables of all models."""
    out = []
    for kind, sentences in _KINDS.items():
        summary = summaries.get(kind)
        anchor = f"{shown.prefix}-{kind}" if summary is None else summary.row_anchor(shown.name)
        for lead, text in sentences(shown):
            lead, text = (f"{shown.name}: {lead}", text) if lead else ("", f"{shown.name}: {text}")
            out.append(Finding(lead=lead, text=text, links=(Link("numbers", anchor),)))
    if names := [name for name, _ in missing(shown)]:
        texts = {"model": shown.name, "names": ", ".join(names), "several": len(names) > 1}
        out.append(say.finding("found_missing", to=MISSING, words="why", **texts))
    return out
