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
    compare,
    is_low,
    say,
)
from goalmeter.report import Finding, Link, Table
from goalmeter.report.numbers import percent
from goalmeter.representation.probes.comparison import SHUFFLED
from goalmeter.representation.replay import BEFORE
from goalmeter.representation.use.look_ups import ANSWERING, PROMPT
from goalmeter.representation.use.subspace import CARRIES
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


# Each is a lead, which may be empty, and a text.
_Lines = Iterator[tuple[str, str]]


def _best_in_words(named: Mapping[str, Estimate | None], form: str) -> str:
    """The largest number and its name, put into a text; "" where none is known."""
    highest = claims.best(named)
    return "" if highest is None else form.format(highest[0], percent(highest[1]))


def _read(shown: ShownModel) -> _Lines:
    if shown.probe is None:
        return
    highest = shown.best_rival
    kind = "rivals" if highest else "alone"
    rivals = say.sentence("found_read", kind, n=len(shown.rivals), highest=highest)
    if SHUFFLED in shown.result.left_out:
        rivals += f", and {SHUFFLED} could not be made"
    lead = say.sentence("found_read", shown.read)
    yield lead, say.sentence("found_read", row=shown.probe, rivals=rivals)


def _used(shown: ShownModel) -> _Lines:
    if (row := shown.confirmed) is None:
        return
    null = "" if row.null_flips is None else f"; the highest null flips {percent(row.null_flips)}"
    texts = say("found_used", row=row, cells="cell" + "s" * (row.cells != 1), null=null)
    yield texts[shown.use], texts["text" if row.cells else "no_cells"]


def _believed(shown: ShownModel) -> _Lines:
    rows = {row.name: row for row in claims.worlds(shown.result.believed)}
    true, inner = rows.get(claims.TRUE), rows.get(claims.BELIEVED)
    if true is None or inner is None:
        return
    if reason := shown.unbelieved:
        yield "", f"nothing is said of a world that it believes in: {reason}."
        return
    less = inner.less_true
    text = say.sentence("found_believed", inner=inner.nats, true=true.nats)
    if less is not None:
        kind = "difference" if less.interval is not None else "difference_alone"
        text += say.sentence("found_believed", kind, less=less)
    text += "."
    beyond = [row.believed_less for row in rows.values() if row.believed_less is not None]
    # An agent that knows the true map, or follows a compass, is above controls too, so this is said
    # together with the difference only.
    if beyond and less is not None:
        text += " " + say.sentence("found_believed", f"controls_{claims.signs(beyond)}")
    yield say.sentence("found_believed", claims.sign(less)), text


def _looked_up(shown: ShownModel) -> _Lines:
    rows = [row for row in shown.result.spans if row.span != ANSWERING]
    texts = [
        say.sentence("found_looked_up", row=row)
        for row in rows
        if compare(row.flips, [row.other_flips]) == ABOVE
    ]
    reading = next((row for row in rows if row.span == PROMPT), None)
    if texts and reading is not None and is_low(reading.flips):
        texts.append(say.sentence("found_looked_up", "reading", row=reading))
    if texts:
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
        text = say.sentence("found_carried", row=row)
        if row.degrees is not None and len(row.chance) == 3:
            low, _, high = row.chance
            where = "no nearer to" if row.degrees <= high else "farther from"
            where = "nearer to" if row.degrees < low else where
            text += " " + say.sentence("found_carried", "angle", row=row, where=where)
        yield "", text


def _explained(shown: ShownModel) -> _Lines:
    errors = claims.MEASURES["explained_errors"]
    for name, states in claims.measures(shown.result.explained):
        share = Estimate.from_json(states)
        if not name.startswith(errors) or math.isnan(share.value):
            continue
        controls = claims.estimates_of(states.get("controls"))
        where = name.removeprefix(errors).replace(", ", " in ")
        control = _best_in_words(controls, " ({}: {})")
        texts = say("found_explained", where=where, share=share, control=control)
        beyond = claims.estimates_of(states.get("beyond")).values()
        yield "", f"{texts['text']} {texts[claims.signs(beyond)]}"


def _planned(shown: ShownModel) -> _Lines:
    for reader in claims.best_readers(shown):
        first = reader.rows[0]
        if first.n != 1 or math.isnan(first.prefix.value):
            continue
        baselines = claims.simple_baselines(first)
        highest = {name: values.get(claims.PREFIX) for name, values in baselines.items()}
        when = "before" if reader.position.startswith(f"{BEFORE}/") else "after"
        control = _best_in_words(highest, ", {} in {}")
        texts = say("found_planned", when=when, first=first, reader=reader, control=control)
        kind = ("open", "one")[reader.horizon] if reader.horizon < 2 else "several"
        below = claims.above_simple(first) == BELOW
        yield "", f"{texts['text']} {texts['below' if below else kind]}"


def _decided(shown: ShownModel) -> _Lines:
    rows = claims.along_reasoning(shown, 1)
    first = None
    for row in reversed(rows):
        if claims.sign(row.beyond) != ABOVE:
            break
        first = row
    if rows:
        yield "", say.sentence("found_decided", "text" if first else "nowhere", first=first)


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


def findings(shown: ShownModel, summaries: Mapping[str, Table | None]) -> list[Finding]:
    """Return all that there is to say about a model; `summaries` are tables of all models."""
    out = []
    for kind, sentences in _KINDS.items():
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
