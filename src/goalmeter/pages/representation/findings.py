"""What the results come to, in sentences that claim no more than their intervals carry."""

from __future__ import annotations

import math
from collections.abc import Iterator

from goalmeter.pages.representation import claims, maps, moved, plans, spans, uses, worlds
from goalmeter.pages.representation.missing import SECTION as MISSING
from goalmeter.pages.representation.missing import missing
from goalmeter.pages.representation.shown import Shown, place_in_words
from goalmeter.report import Finding, Link
from goalmeter.report.numbers import nats, number, percent
from goalmeter.representation.positions import BEFORE
from goalmeter.representation.probes.comparison import SHUFFLED
from goalmeter.representation.use.causal_use import MARGIN, NOT_USED, USED
from goalmeter.representation.use.halves import CONFIRM
from goalmeter.representation.use.spans import ANSWERING, PROMPT
from goalmeter.representation.use.subspace import CARRIES


def findings(shown: Shown, models: list[Shown]) -> list[Finding]:
    """All that there is to say of one model, first what is read and whether it is used."""
    return [
        *_read(shown, models),
        *_used(shown, models),
        *_believed(shown),
        *_looked_up(shown),
        *_followed(shown),
        *_carried(shown),
        *_explained(shown),
        *_planned(shown),
        *_decided(shown),
        *_missing(shown),
    ]


def _read(shown: Shown, models: list[Shown]) -> Iterator[Finding]:
    ours, _ = shown.at_chosen()
    controls = shown.rivals()
    table = maps.summary_table(models)
    if ours is None or table is None:
        return
    lead = {
        claims.ABOVE: "walls decode above every control.",
        claims.BELOW: "walls do not decode above every control.",
        claims.OPEN: "whether walls decode above every control cannot be told.",
    }[maps.read_above(shown)]
    highest = claims.best({str(row.control): row.auroc for row in controls})
    beside = (
        "no control stands beside it"
        if highest is None
        else f"the best of {len(controls)} controls, {highest[0]}, has {number(highest[1], 2)}"
    )
    if SHUFFLED in shown.result.left_out:
        beside += f", and {SHUFFLED} could not be made"
    auroc = "–" if ours.auroc is None else number(ours.auroc, 2)
    text = (
        f"At {place_in_words(ours.layer, ours.position)}, the probe ({ours.probe}) tells walls of "
        f"uncertain cells with an AUROC of {auroc}; {beside}. Over position alone it gains "
        f"{number(ours.gain_bits, 2)} bits a cell."
    )
    links = (Link("numbers", table.row_anchor(shown.name)),)
    yield Finding(lead=f"{shown.name}: {lead}", text=text, links=links)


def _used(shown: Shown, models: list[Shown]) -> Iterator[Finding]:
    row = claims.confirmed(shown.result)
    table = uses.summary_table(models)
    if row is None or table is None:
        return
    verdict = claims.use_of(shown.result)
    lead = {
        USED: "what it reads of needed cells is used.",
        NOT_USED: "what it reads of needed cells is not used.",
    }.get(verdict, "whether it uses what it reads of needed cells cannot be told.")
    null = "" if row.null_flips is None else f"; the highest null flips {percent(row.null_flips)}"
    place = f"{uses.with_dose(row)}, {place_in_words(row.layer, row.position)}"
    text = (
        f"On the half of the grids that confirms, no question about a cell that every shortest way "
        f"needs was answered rightly before anything was changed, so nothing can flip under the "
        f"intervention that did best on the other half ({place})."
        if row.cells == 0
        else f"{_moves(row.cells)} that every shortest way needs, {percent(row.flips)} flip under "
        f"the intervention that did best on the other half of the grids ({place}). At cells that "
        f"no shortest way needs it flips {percent(row.unneeded_flips)}{null}."
    )
    links = (Link("numbers", table.row_anchor(shown.name)),)
    yield Finding(lead=f"{shown.name}: {lead}", text=text, links=links)


def _believed(shown: Shown) -> Iterator[Finding]:
    rows = {row.name: row for row in worlds.worlds(shown.result.believed)}
    true, inner = (rows.get(worlds.WORLDS[key]) for key in ("meg_true", "meg_believed"))
    if true is None or inner is None:
        return
    links = (Link("numbers", f"{shown.prefix}-believed"),)
    if reason := worlds.unbelieved_of(shown):
        text = f"nothing is said of a world that it believes in: {reason}."
        yield Finding(text=f"{shown.name}: {text}", links=links)
        return
    lead = {
        claims.ABOVE: "more directed in the world that it believes in than in the true one.",
        claims.BELOW: "less directed in the world that it believes in than in the true one.",
        claims.OPEN: "whether it is more directed in the world that it believes in than in the "
        "true one cannot be told.",
    }[claims.sign(inner.less_true)]
    text = (
        f"The wish for the goal explains {number(inner.nats, 2)} nats a walk in the world without "
        f"walls at places that it does not use, and {number(true.nats, 2)} in the true one"
    )
    text += f"; the difference is {_nats(inner)}." if inner.less_true is not None else "."
    controls = {row.name: row.believed_less for row in rows.values() if row.is_control}
    known = {name: each for name, each in controls.items() if each is not None}
    # An agent that knows the true map, or follows a compass, is above controls too, so this is said
    # beside the difference only.
    if known and inner.less_true is not None:
        text += {
            claims.ABOVE: " That is above every control.",
            claims.BELOW: " But a control explains more.",
            claims.OPEN: " Whether it is above every control cannot be told.",
        }[claims.signs(known)]
    yield Finding(lead=f"{shown.name}: {lead}", text=text, links=links)


def _looked_up(shown: Shown) -> Iterator[Finding]:
    rows = [row for row in shown.result.spans if row.span != ANSWERING]
    above = [row for row in rows if spans.look_up(row) == claims.ABOVE]
    texts = [
        f"hidden only {spans.in_words(row)}, needed cells flip {percent(row.flips)} of moves "
        f"(another cell: {percent(row.other_flips)})"
        for row in above
    ]
    reading = next((row for row in rows if row.span == PROMPT), None)
    flips = None if reading is None else claims.ends(reading.flips)
    if texts and reading is not None and flips is not None and flips[1] < MARGIN:
        texts.append(f"hidden from the prompt’s own tokens, {percent(reading.flips)}")
    if texts:
        links = (Link("numbers", f"{shown.prefix}-spans"),)
        yield Finding(text=f"{shown.name}: {'; '.join(texts)}.", links=links)


def _followed(shown: Shown) -> Iterator[Finding]:
    links = (Link("numbers", f"{shown.prefix}-moved"),)
    for row in shown.result.moved:
        if not (row.chosen and row.half == CONFIRM):
            continue
        where, flips = place_in_words(row.layer, row.position), claims.ends(row.flips)
        ceiling = moved.ceiling_of(shown, row)
        if claims.beside(row.flips, [row.null_flips]) == claims.ABOVE:
            text = (
                f"{percent(row.flips)} of moves follow it when its stream is put into {where} (an "
                f"unrelated one: {percent(row.null_flips)})."
            )
        elif (
            flips is not None
            and flips[1] < MARGIN
            and ceiling is not None
            and claims.beside(ceiling.flips, [row.flips]) == claims.ABOVE
        ):
            text = (
                f"{percent(ceiling.flips)} of moves follow it when it is asked, and "
                f"{percent(row.flips)} when its stream is put into {where}, which did best of the "
                f"places that were tried."
            )
        else:
            continue
        yield Finding(
            text=f"{shown.name}: with {moved.in_words(row)} in another question, {text}",
            links=links,
        )


def _carried(shown: Shown) -> Iterator[Finding]:
    for row in shown.result.subspaces:
        if row.verdict != CARRIES:
            continue
        text = (
            f"{row.rank} dimensions at {place_in_words(row.layer, row.position)} carry where the "
            f"{row.moved} is: {percent(row.flips)} of moves follow them alone (random ones: "
            f"{percent(row.random_flips)}; the whole stream: {percent(row.whole_flips)})."
        )
        if row.degrees is not None and len(row.chance) == 3:
            low, _, high = row.chance
            nearer = "nearer to" if row.degrees < low else "farther from"
            text += (
                f" A probe’s directions lie {nearer} them than random ones do"
                if not low <= row.degrees <= high
                else " A probe’s directions lie no nearer to them than random ones do"
            )
            text += f" ({number(row.degrees, 0)} degrees; by chance {moved.chance(row)})."
        links = (Link("numbers", f"{shown.prefix}-subspaces"),)
        yield Finding(text=f"{shown.name}: {text}", links=links)


def _explained(shown: Shown) -> Iterator[Finding]:
    for measure in worlds.measures(shown.result.explained):
        if not measure.name.startswith(worlds.MEASURES["explained_errors"]):
            continue
        if math.isnan(measure.value.value):
            continue
        where = measure.name.removeprefix(worlds.MEASURES["explained_errors"]).replace(", ", " in ")
        highest = claims.best(measure.controls)
        beside = "" if highest is None else f" ({highest[0]}: {percent(highest[1])})"
        compared = {
            claims.ABOVE: f"That is more than every control explains{beside}.",
            claims.BELOW: f"A control explains more{beside}.",
            claims.OPEN: f"Whether every control explains less cannot be told{beside}.",
        }[claims.signs(measure.beyond)]
        yield Finding(
            text=f"{shown.name}: of its errors{where}, {percent(measure.value)} are optimal on the "
            f"decoded map. {compared}",
            links=(Link("numbers", f"{shown.prefix}-explained"),),
        )


def _planned(shown: Shown) -> Iterator[Finding]:
    for reader in plans.best_readers(shown):
        first = reader.rows[0]
        if first.n != 1 or math.isnan(first.prefix.value):
            continue
        when = "before" if reader.position.startswith(f"{BEFORE}/") else "after"
        horizon = plans.horizon(reader)
        highest = claims.best(
            {name: v.get(plans.PREFIX) for name, v in plans.simple(first).items()}
        )
        beside = "" if highest is None else f", {highest[0]} in {percent(highest[1])}"
        told = _as_far_as(horizon, plans.beside_simple(first))
        yield Finding(
            text=f"{shown.name}: {when} it reasons, the first action is read right in "
            f"{percent(first.prefix)} of walks ({reader.place}){beside}. {told}",
            links=(Link("numbers", f"{shown.prefix}-plan"),),
        )


def _decided(shown: Shown) -> Iterator[Finding]:
    rows = plans.along(shown, 1)
    if not rows:
        return
    first = plans.decided_from(shown, 1)
    text = (
        "from no point of the reasoning on is it shown that the first action is read above "
        "position alone."
        if first is None
        else f"from {first.position} on, to the end of the reasoning, the first action is read "
        f"above position alone; there it is right in {percent(first.accuracy)} of walks."
    )
    links = (Link("numbers", f"{shown.prefix}-decided"),)
    yield Finding(text=f"{shown.name}: {text}", links=links)


def _missing(shown: Shown) -> Iterator[Finding]:
    lines = missing(shown)
    if lines:
        yield Finding(
            text=f"{shown.name}: {', '.join(name for name, _ in lines)} "
            f"{'is' if len(lines) == 1 else 'are'} not in these results.",
            links=(Link("why", MISSING),),
        )


def _moves(cells: int) -> str:
    return f"Of the first moves at {cells} {'cell' if cells == 1 else 'cells'}"


def _as_far_as(horizon: int, first: str) -> str:
    """Up to how many actions a plan is read above every simple baseline."""
    if first == claims.BELOW:
        return "A simple baseline is above that."
    if horizon == 0:
        return "Whether that is above every simple baseline cannot be told."
    if horizon == 1:
        return "That is above every simple baseline."
    return f"Up to {horizon} actions it is above every simple baseline."


def _nats(world: worlds.World) -> str:
    """The difference from the true world with its interval."""
    assert world.less_true is not None
    if world.less_true.interval is None:
        return nats(world.less_true.value)
    return number(world.less_true, 2)
