"""Findings of the page: sentences derived from the numbers and their intervals.

The sentences are templates of `representation.toml`, in the entries "found_…"; those of a verdict
have its name.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from goalmeter.pages.representation import claims
from goalmeter.pages.representation.claims import (
    ABOVE,
    BELOW,
    ShownModel,
    row_place,
    say,
    what_moved,
    with_dose,
)
from goalmeter.report import Finding, Link, Table
from goalmeter.report.numbers import nats, number, percent
from goalmeter.representation.probes.comparison import SHUFFLED
from goalmeter.representation.replay import BEFORE
from goalmeter.representation.use.causal_use import ANSWERING, MARGIN, PROMPT
from goalmeter.representation.use.patching import CARRIES
from goalmeter.representation.use.trials import CONFIRM
from goalmeter.statistics.clusters import Estimate

MISSING = "representation-missing"


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


def findings(shown: ShownModel, summaries: Mapping[str, Table | None]) -> list[Finding]:
    """Return all that there is to say about a model; `summaries` are tables of all models."""
    kinds = {
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
    out = []
    for kind, sentences in kinds.items():
        summary = summaries.get(kind)
        anchor = f"{shown.prefix}-{kind}" if summary is None else summary.row_anchor(shown.name)
        for lead, text in sentences(shown):
            lead, text = (f"{shown.name}: {lead}", text) if lead else ("", f"{shown.name}: {text}")
            out.append(Finding(lead=lead, text=text, links=(Link("numbers", anchor),)))
    if lines := missing(shown):
        names = ", ".join(name for name, _ in lines)
        text = f"{shown.name}: {names} {'is' if len(lines) == 1 else 'are'} not in these results."
        out.append(Finding(text=text, links=(Link("why", MISSING),)))
    return out


# Each is a lead, which may be empty, and a text.
_Lines = Iterator[tuple[str, str]]


def _best_in_words(named: Mapping[str, Estimate | None], form: str) -> str:
    """The largest number and its name, put into a text; "" where none is known."""
    highest = claims.best(named)
    return "" if highest is None else form.format(highest[0], percent(highest[1]))


def _read(shown: ShownModel) -> _Lines:
    ours = shown.probe
    if ours is None:
        return
    rivals = "no control stands beside it"
    if (highest := shown.best_rival) is not None:
        rivals = (
            f"the best of {len(shown.rivals)} controls, {highest[0]}, has {number(highest[1], 2)}"
        )
    if SHUFFLED in shown.result.left_out:
        rivals += f", and {SHUFFLED} could not be made"
    texts = say(
        "found_read",
        place=row_place(ours),
        probe=ours.probe,
        auroc="–" if ours.auroc is None else number(ours.auroc, 2),
        rivals=rivals,
        gain=number(ours.gain_bits, 2),
    )
    yield texts[claims.read_above(shown)], texts["text"]


def _used(shown: ShownModel) -> _Lines:
    row = claims.confirmed(shown.result)
    if row is None:
        return
    null = "" if row.null_flips is None else f"; the highest null flips {percent(row.null_flips)}"
    texts = say(
        "found_used",
        place=f"{with_dose(row)}, {row_place(row)}",
        cells=f"{row.cells} {'cell' if row.cells == 1 else 'cells'}",
        flips=percent(row.flips),
        unneeded=percent(row.unneeded_flips),
        null=null,
    )
    yield texts[claims.use_of(shown.result)], texts["text" if row.cells else "no_cells"]


def _believed(shown: ShownModel) -> _Lines:
    rows = {row.name: row for row in claims.worlds(shown.result.believed)}
    true, inner = (rows.get(claims.WORLDS[key]) for key in ("meg_true", "meg_believed"))
    if true is None or inner is None:
        return
    if reason := shown.unbelieved:
        yield "", f"nothing is said of a world that it believes in: {reason}."
        return
    difference = ""
    if inner.less_true is not None:
        has_interval = inner.less_true.interval is not None
        difference = number(inner.less_true, 2) if has_interval else nats(inner.less_true.value)
        difference = f"; the difference is {difference}"
    texts = say(
        "found_believed",
        inner=number(inner.nats, 2),
        true=number(true.nats, 2),
        difference=difference,
    )
    controls = [(row.name, row.believed_less) for row in rows.values() if row.is_control]
    known = {name: each for name, each in controls if each is not None}
    # An agent that knows the true map, or follows a compass, is above controls too, so this is said
    # together with the difference only.
    beyond = f" {texts['controls_' + claims.signs(known)]}" if known and difference else ""
    yield texts[claims.sign(inner.less_true)], texts["text"] + beyond


def _looked_up(shown: ShownModel) -> _Lines:
    rows = [row for row in shown.result.spans if row.span != ANSWERING]
    texts = [
        f"hidden only {claims.SPANS.get(row.span, row.span)}, needed cells flip "
        f"{percent(row.flips)} of moves (another cell: {percent(row.other_flips)})"
        for row in rows
        if claims.compare(row.flips, [row.other_flips]) == ABOVE
    ]
    reading = next((row for row in rows if row.span == PROMPT), None)
    if texts and reading is not None and _is_low(reading.flips):
        texts.append(f"hidden from the prompt’s own tokens, {percent(reading.flips)}")
    if texts:
        yield "", f"{'; '.join(texts)}."


def _is_low(flips: Estimate) -> bool:
    ends = claims.ends(flips)
    return ends is not None and ends[1] < MARGIN


def _followed(shown: ShownModel) -> _Lines:
    rows = shown.result.moved
    for row in (row for row in rows if row.chosen and row.half == CONFIRM):
        ceiling = next((r.flips for r in rows if r.is_ceiling and r.moved == row.moved), None)
        if claims.compare(row.flips, [row.null_flips]) == ABOVE:
            kind = "follow"
        elif _is_low(row.flips) and claims.compare(ceiling, [row.flips]) == ABOVE:
            kind = "follow_question"
        else:
            continue
        texts = say(
            "found_moved",
            what=what_moved(row),
            place=row_place(row),
            flips=percent(row.flips),
            null=percent(row.null_flips),
            ceiling="" if ceiling is None else percent(ceiling),
        )
        yield "", texts[kind]


def _carried(shown: ShownModel) -> _Lines:
    for row in (row for row in shown.result.subspaces if row.verdict == CARRIES):
        where = angle = ""
        if row.degrees is not None and len(row.chance) == 3:
            low, _, high = row.chance
            where = "no nearer to" if row.degrees <= high else "farther from"
            where = "nearer to" if row.degrees < low else where
            angle = f"{number(row.degrees, 0)} degrees; by chance {claims.chance(row)}"
        texts = say(
            "found_carried",
            rank=row.rank,
            place=row_place(row),
            moved=row.moved,
            flips=percent(row.flips),
            random=percent(row.random_flips),
            whole=percent(row.whole_flips),
            where=where,
            angle=angle,
        )
        yield "", texts["text"] + (f" {texts['angle']}" if angle else "")


def _explained(shown: ShownModel) -> _Lines:
    name = claims.MEASURES["explained_errors"]
    for measure in claims.measures(shown.result.explained):
        if measure.name.startswith(name) and not math.isnan(measure.value.value):
            texts = say(
                "found_explained",
                where=measure.name.removeprefix(name).replace(", ", " in "),
                share=percent(measure.value),
                control=_best_in_words(measure.controls, " ({}: {})"),
            )
            yield "", f"{texts['text']} {texts[claims.signs(measure.beyond)]}"


def _planned(shown: ShownModel) -> _Lines:
    for reader in claims.best_readers(shown):
        first = reader.rows[0]
        if first.n != 1 or math.isnan(first.prefix.value):
            continue
        baselines = claims.simple_baselines(first)
        highest = {name: values.get(claims.PREFIX) for name, values in baselines.items()}
        texts = say(
            "found_planned",
            when="before" if reader.position.startswith(f"{BEFORE}/") else "after",
            share=percent(first.prefix),
            place=reader.place,
            control=_best_in_words(highest, ", {} in {}"),
            horizon=reader.horizon,
        )
        kind = ("open", "one")[reader.horizon] if reader.horizon < 2 else "several"
        below = claims.above_simple(first) == BELOW
        yield "", f"{texts['text']} {texts['below' if below else kind]}"


def _decided(shown: ShownModel) -> _Lines:
    rows = claims.along_reasoning(shown, 1)
    if not rows:
        return
    first = None
    for row in reversed(rows):
        if claims.sign(row.beyond) != ABOVE:
            break
        first = row
    share, position = ("", "") if first is None else (percent(first.accuracy), first.position)
    texts = say("found_decided", share=share, position=position)
    yield "", texts["nowhere" if first is None else "text"]
