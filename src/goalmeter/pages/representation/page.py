"""Report part about representation: findings, missing results, and all tables and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, in_a_line
from goalmeter.navigation.rollouts import load
from goalmeter.pages.part import Part
from goalmeter.pages.representation import estimates, maps, plans, use
from goalmeter.pages.representation import maps as worlds
from goalmeter.pages.representation.estimates import Shown, place_in_words, say, shown_of
from goalmeter.pages.representation.maps import state_figures
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.numbers import nats, number, percent
from goalmeter.representation.probes.comparison import SHUFFLED
from goalmeter.representation.replay import BEFORE, run_digest
from goalmeter.representation.result import RESULT, Representation, has_result
from goalmeter.representation.use.causal_use import MARGIN, NOT_USED, USED
from goalmeter.representation.use.look_ups import ANSWERING, PROMPT
from goalmeter.representation.use.subspace import CARRIES
from goalmeter.representation.use.trials import CONFIRM
from goalmeter.runs.progress import Tell

# --- Missing --------------------------------------------------------------------------------------
SECTION = "representation-missing"
# Field of the result -> in words, and the parts of a probe that it belongs to: where such a part
# was left out, its reason is that of the field.
PARTS = {
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


def missing(shown: Shown) -> list[tuple[str, str]]:
    """The name of each thing that is not there, with its reason."""
    result = shown.result
    reasons = dict(result.left_out)
    out: list[tuple[str, str]] = []
    told: set[str] = set()
    for field, (in_words, parts) in PARTS.items():
        if _has(result, field):
            continue
        known = next((name for name in (field, *parts) if name in reasons), None)
        told |= {name for name in (known,) if name is not None}
        out.append((in_words, reasons[known] if known is not None else ""))
    # A position that no decision has, a control that could not be made.
    out += [(name, reason) for name, reason in reasons.items() if name not in told]
    return out


def section(models: Sequence[Shown]) -> Section | None:
    """What is missing of each model; None where everything is there."""
    points = tuple(
        f"{shown.name}: {name}: {reason or 'it was not asked for.'}"
        for shown in models
        for name, reason in missing(shown)
    )
    if not points:
        return None
    return Section(anchor=SECTION, points=points, **say("missing"))


def _has(result: Representation, field: str) -> bool:
    return bool(getattr(result, field))


# --- Findings -------------------------------------------------------------------------------------
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
        estimates.ABOVE: "walls decode above every control.",
        estimates.BELOW: "walls do not decode above every control.",
        estimates.OPEN: "whether walls decode above every control cannot be told.",
    }[maps.read_above(shown)]
    highest = estimates.best({str(row.control): row.auroc for row in controls})
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
    row = estimates.confirmed(shown.result)
    table = use.summary_table(models)
    if row is None or table is None:
        return
    verdict = estimates.use_of(shown.result)
    lead = {
        USED: "what it reads of needed cells is used.",
        NOT_USED: "what it reads of needed cells is not used.",
    }.get(verdict, "whether it uses what it reads of needed cells cannot be told.")
    null = "" if row.null_flips is None else f"; the highest null flips {percent(row.null_flips)}"
    place = f"{use.with_dose(row)}, {place_in_words(row.layer, row.position)}"
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
        estimates.ABOVE: "more directed in the world that it believes in than in the true one.",
        estimates.BELOW: "less directed in the world that it believes in than in the true one.",
        estimates.OPEN: "whether it is more directed in the world that it believes in than in the "
        "true one cannot be told.",
    }[estimates.sign(inner.less_true)]
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
            estimates.ABOVE: " That is above every control.",
            estimates.BELOW: " But a control explains more.",
            estimates.OPEN: " Whether it is above every control cannot be told.",
        }[estimates.signs(known)]
    yield Finding(lead=f"{shown.name}: {lead}", text=text, links=links)


def _looked_up(shown: Shown) -> Iterator[Finding]:
    rows = [row for row in shown.result.spans if row.span != ANSWERING]
    above = [row for row in rows if use.look_up(row) == estimates.ABOVE]
    texts = [
        f"hidden only {use.describe_span(row)}, needed cells flip {percent(row.flips)} of moves "
        f"(another cell: {percent(row.other_flips)})"
        for row in above
    ]
    reading = next((row for row in rows if row.span == PROMPT), None)
    flips = None if reading is None else estimates.ends(reading.flips)
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
        where, flips = place_in_words(row.layer, row.position), estimates.ends(row.flips)
        ceiling = use.ceiling_of(shown, row)
        if estimates.beside(row.flips, [row.null_flips]) == estimates.ABOVE:
            text = (
                f"{percent(row.flips)} of moves follow it when its stream is put into {where} (an "
                f"unrelated one: {percent(row.null_flips)})."
            )
        elif (
            flips is not None
            and flips[1] < MARGIN
            and ceiling is not None
            and estimates.beside(ceiling.flips, [row.flips]) == estimates.ABOVE
        ):
            text = (
                f"{percent(ceiling.flips)} of moves follow it when it is asked, and "
                f"{percent(row.flips)} when its stream is put into {where}, which did best of the "
                f"places that were tried."
            )
        else:
            continue
        yield Finding(
            text=f"{shown.name}: with {use.describe_patch(row)} in another question, {text}",
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
            text += f" ({number(row.degrees, 0)} degrees; by chance {use.chance(row)})."
        links = (Link("numbers", f"{shown.prefix}-subspaces"),)
        yield Finding(text=f"{shown.name}: {text}", links=links)


def _explained(shown: Shown) -> Iterator[Finding]:
    for measure in worlds.measures(shown.result.explained):
        if not measure.name.startswith(worlds.MEASURES["explained_errors"]):
            continue
        if math.isnan(measure.value.value):
            continue
        where = measure.name.removeprefix(worlds.MEASURES["explained_errors"]).replace(", ", " in ")
        highest = estimates.best(measure.controls)
        beside = "" if highest is None else f" ({highest[0]}: {percent(highest[1])})"
        compared = {
            estimates.ABOVE: f"That is more than every control explains{beside}.",
            estimates.BELOW: f"A control explains more{beside}.",
            estimates.OPEN: f"Whether every control explains less cannot be told{beside}.",
        }[estimates.signs(measure.beyond)]
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
        highest = estimates.best(
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
            links=(Link("why", SECTION),),
        )


def _moves(cells: int) -> str:
    return f"Of the first moves at {cells} {'cell' if cells == 1 else 'cells'}"


def _as_far_as(horizon: int, first: str) -> str:
    """Up to how many actions a plan is read above every simple baseline."""
    if first == estimates.BELOW:
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


# --- Page -----------------------------------------------------------------------------------------
GLOSSARY: dict[str, str] = say("glossary")


def part_of_results(results: Sequence[Representation], tell: Tell) -> Part:
    """What the results of probes have to say, several models beside each other.

    Args:
        results: of the runs of some models, in the order in which they are to be shown.
        tell: told what is being drawn.
    """
    models = shown_of(results)
    for shown in models:
        tell(f"drawing what was read of {shown.name}")
    lines = [line for shown in models for line in findings(shown, models)]
    return Part(
        **say("part"),
        sections=sections(models),
        # What a model reads, uses and believes comes first, of every model.
        findings=[line for line in lines if line.lead] + [line for line in lines if not line.lead],
        glossary=GLOSSARY,
        tables=tuple(_present([maps.summary_table(models), use.summary_table(models)])),
        runs=[in_short(shown) for shown in models],
    )


def part_of_runs(runs: Sequence[str | Path], tell: Tell) -> Part | None:
    """What was read of the models of navigation runs; None if nothing was. See `pages.part`.

    The entries of `runs` are {"representation": ...}, and empty for a run that holds nothing.
    """
    probed = [run for run in runs if has_result(run)]
    if not probed:
        return None
    digests = [run_digest(load(run).trajectories) for run in probed]
    results = [Representation.load(run, of) for run, of in zip(probed, digests, strict=True)]
    try:
        part = part_of_results(results, tell)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as cause:
        raise InvalidFileError(
            f"{RESULT} of {', '.join(map(str, probed))} cannot be shown ({in_a_line(cause)}); if "
            f"it was edited, delete it and probe the run again"
        ) from cause
    entries = dict(zip(map(str, probed), part.runs, strict=True))
    more = [{"representation": entries[str(run)]} if str(run) in entries else {} for run in runs]
    return replace(part, runs=more)


def in_short(shown: Shown) -> dict[str, Any]:
    """What is said of one model as JSON values: its numbers without pictures, and verdicts.

    "unbelieved" is why nothing is said of a believed world, and empty where something is.
    """
    plain = shown.result.to_json()
    del plain["states"]
    verdicts = {"read": maps.read_above(shown), "used": estimates.use_of(shown.result)}
    return plain | verdicts | {"unbelieved": worlds.unbelieved_of(shown)}


def sections(models: Sequence[Shown]) -> list[Section]:
    """The body: what is read, what is used, what it explains, and what none of it shows."""
    wanted = (
        _reading(models),
        _states(models),
        _using(models),
        _looking(models),
        _following(models),
        _explaining(models),
        _believing(models),
        _planning(models),
        _deciding(models),
        _limits(models),
        section(models),
    )
    return [section for section in wanted if section is not None]


def _reading(models: Sequence[Shown]) -> Section | None:
    tables: list[Table | None] = [maps.summary_table(models)]
    figures: list[Figure | None] = []
    for shown in models:
        tables += [maps.controls_table(shown), maps.places_table(shown), maps.sizes_table(shown)]
        figures += [use.auroc_map(shown), use.gain_map(shown)]
    if not any(shown.result.maps or shown.result.places for shown in models):
        return None
    return Section(
        anchor="representation-maps",
        tables=tuple(_present(tables)),
        figures=tuple(_present(figures)),
        **say("reading"),
    )


def _states(models: Sequence[Shown]) -> Section | None:
    figures = tuple(figure for shown in models for figure in state_figures(shown))
    return (
        Section(anchor="representation-states", figures=figures, **say("states"))
        if figures
        else None
    )


def _using(models: Sequence[Shown]) -> Section | None:
    if not any(shown.result.use or shown.result.doses for shown in models):
        return None
    tables: list[Table | None] = [use.summary_table(models)]
    figures: list[Figure | None] = []
    for shown in models:
        tables.append(use.interventions_table(shown))
        figures += [use.flips_map(shown), *use.dose_figures(shown)]
    return Section(
        anchor="representation-use",
        tables=tuple(_present(tables)),
        figures=tuple(_present(figures)),
        **say("using"),
    )


def _looking(models: Sequence[Shown]) -> Section | None:
    tables = _present([use.spans_table(shown) for shown in models])
    if not tables:
        return None
    return Section(
        anchor="representation-spans",
        tables=tuple(tables),
        figures=tuple(_present([use.spans_figure(shown) for shown in models])),
        figures_first=True,
        **say("looking"),
    )


def _following(models: Sequence[Shown]) -> Section | None:
    tables: list[Table | None] = []
    for shown in models:
        tables += [use.moved_table(shown), use.subspace_table(shown)]
    if not _present(tables):
        return None
    return Section(
        anchor="representation-moved",
        tables=tuple(_present(tables)),
        figures=tuple(_present([use.moved_map(shown) for shown in models])),
        **say("following"),
    )


def _explaining(models: Sequence[Shown]) -> Section | None:
    tables = []
    for shown in models:
        tables += worlds.explained_tables(shown)
        tables += _present([worlds.positions_table(shown)])
    if not tables:
        return None
    return Section(anchor="representation-explained", tables=tuple(tables), **say("explaining"))


def _believing(models: Sequence[Shown]) -> Section | None:
    tables = _present([worlds.believed_table(shown) for shown in models])
    if not tables:
        return None
    return Section(
        anchor="representation-believed",
        tables=tuple(tables),
        figures=tuple(_present([worlds.believed_figure(models)])),
        **say("believing"),
    )


def _planning(models: Sequence[Shown]) -> Section | None:
    tables = _present([plans.plan_table(shown) for shown in models])
    if not tables:
        return None
    return Section(
        anchor="representation-plan",
        tables=tuple(tables),
        figures=tuple(figure for shown in models for figure in plans.plan_figures(shown)),
        figures_first=True,
        **say("planning"),
    )


def _deciding(models: Sequence[Shown]) -> Section | None:
    tables = _present(
        [table(shown) for shown in models for table in (plans.settled_table, plans.decided_table)]
    )
    if not tables:
        return None
    return Section(
        anchor="representation-decided",
        tables=tuple(tables),
        figures=tuple(figure for shown in models for figure in plans.decided_figures(shown)),
        figures_first=True,
        **say("deciding"),
    )


def _limits(models: Sequence[Shown]) -> Section:
    """A paragraph for each number that is there: what it does not show."""
    paragraphs = say("limits")
    title = paragraphs.pop("title")
    # By the name of the field whose numbers a paragraph is about.
    text = [
        paragraph
        for field, paragraph in paragraphs.items()
        if any(getattr(shown.result, field) for shown in models)
    ]
    return Section(anchor="representation-limits", title=title, text=tuple(text))


def _present(parts: Sequence[Any]) -> list[Any]:
    return [part for part in parts if part is not None]
