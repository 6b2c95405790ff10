"""Findings of the page: sentences derived from the numbers and their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from goalmeter.pages.representation import claims
from goalmeter.pages.representation.claims import (
    ABOVE,
    BELOW,
    OPEN,
    ShownModel,
    row_place,
    what_moved,
    with_dose,
)
from goalmeter.pages.representation.tables import chance, read_table, used_table
from goalmeter.report import Finding, Link
from goalmeter.report.numbers import nats, number, percent
from goalmeter.representation.probes.comparison import SHUFFLED
from goalmeter.representation.replay import BEFORE
from goalmeter.representation.use.causal_use import MARGIN, NOT_USED, USED
from goalmeter.representation.use.look_ups import ANSWERING, PROMPT
from goalmeter.representation.use.subspace import CARRIES
from goalmeter.representation.use.trials import CONFIRM
from goalmeter.statistics.clusters import Estimate

MISSING = "representation-missing"
# Field of the result: in words, and the parts of a probe whose reason is that of the field.
_FIELDS = {
    "maps": ("what is read of cells", ("maps",)),
    "places": ("the places of agent and goal", ("maps",)),
    "states": ("pictures of states", ("maps",)),
    "explained": ("what decoded maps explain", ("maps",)),
    "use": ("interventions", ("use",)),
    "doses": ("doses", ("use",)),
    "spans": ("when cells are looked up", ("use",)),
    "moved": ("where goal and agent are read from", ("goal moved", "agent moved", "use")),
    "subspaces": (
        "dimensions that carry goal and agent",
        ("subspace of the goal", "subspace of the agent", "use"),
    ),
    "believed": ("the believed world", ("use", "maps")),
    "plan": ("the plan", ("plan",)),
    "decided": ("when it is decided", ("decided", "plan")),
}


def missing(shown: ShownModel) -> list[tuple[str, str]]:
    """Return the name of each missing result, with the reason that the run gives."""
    reasons = dict(shown.result.left_out)
    out: list[tuple[str, str]] = []
    used: set[str] = set()
    for field, (in_words, parts) in _FIELDS.items():
        if not getattr(shown.result, field):
            known = next((name for name in (field, *parts) if name in reasons), "")
            used.add(known)
            out.append((in_words, reasons.get(known, "")))
    # A position that no decision has, a control that could not be made.
    return out + [(name, reason) for name, reason in reasons.items() if name not in used]


def findings(shown: ShownModel, models: Sequence[ShownModel]) -> list[Finding]:
    """Return all that there is to say about one of the models."""
    kinds = (_read, _used, _believed, _looked_up, _followed, _carried, _explained, _planned)
    tables = {"read": read_table(models), "used": used_table(models)}
    out = []
    for lead, text, table in (line for kind in (*kinds, _decided) for line in kind(shown)):
        summary = tables.get(table)
        anchor = f"{shown.prefix}-{table}" if summary is None else summary.row_anchor(shown.name)
        name = f"{shown.name}: "
        out.append(
            Finding(
                lead=lead and f"{name}{lead}",
                text=text if lead else f"{name}{text}",
                links=(Link("numbers", anchor),),
            )
        )
    if lines := missing(shown):
        names = ", ".join(name for name, _ in lines)
        text = f"{shown.name}: {names} {'is' if len(lines) == 1 else 'are'} not in these results."
        out.append(Finding(text=text, links=(Link("why", MISSING),)))
    return out


# Each is a lead, which may be empty, a text, and the name of the table with its numbers.
_Lines = Iterator[tuple[str, str, str]]


def _read(shown: ShownModel) -> _Lines:
    ours, controls = shown.probe, shown.rivals
    if ours is None:
        return
    lead = {
        ABOVE: "walls decode above every control.",
        BELOW: "walls do not decode above every control.",
        OPEN: "whether walls decode above every control cannot be told.",
    }[claims.read_above(shown)]
    highest = claims.best({str(row.control): row.auroc for row in controls})
    rivals = (
        "no control stands beside it"
        if highest is None
        else f"the best of {len(controls)} controls, {highest[0]}, has {number(highest[1], 2)}"
    )
    if SHUFFLED in shown.result.left_out:
        rivals += f", and {SHUFFLED} could not be made"
    auroc = "–" if ours.auroc is None else number(ours.auroc, 2)
    text = (
        f"At {row_place(ours)}, the probe ({ours.probe}) tells walls of uncertain cells with an "
        f"AUROC of {auroc}; {rivals}. Over position alone it gains {number(ours.gain_bits, 2)} "
        f"bits a cell."
    )
    yield lead, text, "read"


def _used(shown: ShownModel) -> _Lines:
    row = claims.confirmed(shown.result)
    if row is None:
        return
    lead = {
        USED: "what it reads of needed cells is used.",
        NOT_USED: "what it reads of needed cells is not used.",
    }.get(
        claims.use_of(shown.result),
        "whether it uses what it reads of needed cells cannot be told.",
    )
    null = "" if row.null_flips is None else f"; the highest null flips {percent(row.null_flips)}"
    place = f"{with_dose(row)}, {row_place(row)}"
    text = (
        f"On the half of the grids that confirms, no question about a cell that every shortest way "
        f"needs was answered rightly before anything was changed, so nothing can flip under the "
        f"intervention that did best on the other half ({place})."
        if row.cells == 0
        else f"Of the first moves at {row.cells} {'cell' if row.cells == 1 else 'cells'} that "
        f"every shortest way needs, {percent(row.flips)} flip under the intervention that did best "
        f"on the other half of the grids ({place}). At cells that no shortest way needs it flips "
        f"{percent(row.unneeded_flips)}{null}."
    )
    yield lead, text, "used"


def _believed(shown: ShownModel) -> _Lines:
    rows = {row.name: row for row in claims.worlds(shown.result.believed)}
    true, inner = (rows.get(claims.WORLDS[key]) for key in ("meg_true", "meg_believed"))
    if true is None or inner is None:
        return
    if reason := shown.unbelieved:
        yield "", f"nothing is said of a world that it believes in: {reason}.", "believed"
        return
    lead = {
        ABOVE: "more directed in the world that it believes in than in the true one.",
        BELOW: "less directed in the world that it believes in than in the true one.",
        OPEN: "whether it is more directed in the world that it believes in than in the true one "
        "cannot be told.",
    }[claims.sign(inner.less_true)]
    text = (
        f"The wish for the goal explains {number(inner.nats, 2)} nats a walk in the world without "
        f"walls at places that it does not use, and {number(true.nats, 2)} in the true one"
    )
    if inner.less_true is None:
        yield lead, f"{text}.", "believed"
        return
    has_interval = inner.less_true.interval is not None
    difference = number(inner.less_true, 2) if has_interval else nats(inner.less_true.value)
    text += f"; the difference is {difference}."
    controls = [(row.name, row.believed_less) for row in rows.values() if row.is_control]
    known = {name: each for name, each in controls if each is not None}
    # An agent that knows the true map, or follows a compass, is above controls too, so this is said
    # together with the difference only.
    if known:
        text += {
            ABOVE: " That is above every control.",
            BELOW: " But a control explains more.",
            OPEN: " Whether it is above every control cannot be told.",
        }[claims.signs(known)]
    yield lead, text, "believed"


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
        yield "", f"{'; '.join(texts)}.", "spans"


def _is_low(flips: Estimate) -> bool:
    ends = claims.ends(flips)
    return ends is not None and ends[1] < MARGIN


def _followed(shown: ShownModel) -> _Lines:
    rows = shown.result.moved
    for row in (row for row in rows if row.chosen and row.half == CONFIRM):
        ceiling = next((r for r in rows if r.is_ceiling and r.moved == row.moved), None)
        if claims.compare(row.flips, [row.null_flips]) == ABOVE:
            text = (
                f"{percent(row.flips)} of moves follow it when its stream is put into "
                f"{row_place(row)} (an unrelated one: {percent(row.null_flips)})."
            )
        elif (
            _is_low(row.flips)
            and ceiling is not None
            and claims.compare(ceiling.flips, [row.flips]) == ABOVE
        ):
            text = (
                f"{percent(ceiling.flips)} of moves follow it when it is asked, and "
                f"{percent(row.flips)} when its stream is put into {row_place(row)}, which did "
                f"best of the places that were tried."
            )
        else:
            continue
        yield "", f"with {what_moved(row)} in another question, {text}", "moved"


def _carried(shown: ShownModel) -> _Lines:
    for row in (row for row in shown.result.subspaces if row.verdict == CARRIES):
        text = (
            f"{row.rank} dimensions at {row_place(row)} carry where the {row.moved} is: "
            f"{percent(row.flips)} of moves follow them alone (random ones: "
            f"{percent(row.random_flips)}; the whole stream: {percent(row.whole_flips)})."
        )
        if row.degrees is not None and len(row.chance) == 3:
            low, _, high = row.chance
            where = "no nearer to" if row.degrees <= high else "farther from"
            where = "nearer to" if row.degrees < low else where
            text += (
                f" A probe’s directions lie {where} them than random ones do "
                f"({number(row.degrees, 0)} degrees; by chance {chance(row)})."
            )
        yield "", text, "subspaces"


def _explained(shown: ShownModel) -> _Lines:
    name = claims.MEASURES["explained_errors"]
    for measure in claims.measures(shown.result.explained):
        if not measure.name.startswith(name) or math.isnan(measure.value.value):
            continue
        where = measure.name.removeprefix(name).replace(", ", " in ")
        highest = claims.best(measure.controls)
        control = "" if highest is None else f" ({highest[0]}: {percent(highest[1])})"
        compared = {
            ABOVE: f"That is more than every control explains{control}.",
            BELOW: f"A control explains more{control}.",
            OPEN: f"Whether every control explains less cannot be told{control}.",
        }[claims.signs(measure.beyond)]
        errors = f"of its errors{where}, {percent(measure.value)} are optimal on the decoded map."
        yield "", f"{errors} {compared}", "explained"


def _planned(shown: ShownModel) -> _Lines:
    for reader in claims.best_readers(shown):
        first = reader.rows[0]
        if first.n != 1 or math.isnan(first.prefix.value):
            continue
        when = "before" if reader.position.startswith(f"{BEFORE}/") else "after"
        baselines = claims.simple_baselines(first)
        highest = claims.best({name: v.get(claims.PREFIX) for name, v in baselines.items()})
        control = "" if highest is None else f", {highest[0]} in {percent(highest[1])}"
        if claims.above_simple(first) == BELOW:
            compared = "A simple baseline is above that."
        elif reader.horizon == 0:
            compared = "Whether that is above every simple baseline cannot be told."
        elif reader.horizon == 1:
            compared = "That is above every simple baseline."
        else:
            compared = f"Up to {reader.horizon} actions it is above every simple baseline."
        text = (
            f"{when} it reasons, the first action is read right in {percent(first.prefix)} of "
            f"walks ({reader.place}){control}. {compared}"
        )
        yield "", text, "plan"


def _decided(shown: ShownModel) -> _Lines:
    rows = claims.along_reasoning(shown, 1)
    if not rows:
        return
    first = None
    for row in reversed(rows):
        if claims.sign(row.beyond) != ABOVE:
            break
        first = row
    text = (
        "from no point of the reasoning on is it shown that the first action is read above "
        "position alone."
        if first is None
        else f"from {first.position} on, to the end of the reasoning, the first action is read "
        f"above position alone; there it is right in {percent(first.accuracy)} of walks."
    )
    yield "", text, "decided"
