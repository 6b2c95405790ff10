"""`goalmeter replicate organisms`: evaluate the shipped organisms and write their model cards."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "organisms")

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from goalmeter import InvalidFileError
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.organisms import Organism, organism, organism_names
from goalmeter.organisms.kinds import weights_of
from goalmeter.organisms.lessons import COMPLEXITIES, SIZES
from goalmeter.organisms.network import SETTINGS, read_settings
from goalmeter.pages.navigation_tables import INTERVALS
from goalmeter.report import (
    ColumnOf,
    Table,
    column,
    percent,
    table_of,
    words,
    write_text,
)
from goalmeter.runs import Study, carry_out
from goalmeter.statistics import Estimate
from replications.organisms.evaluation import (
    ANSWERS,
    KEY_DOOR,
    KEY_NO_DOOR,
    TARGETS,
    WALKS,
    Grades,
    Row,
    amounts,
    grades,
)
from replications.prose import prose, write_tables

say = partial(prose, "organisms")


# --- Tables ---------------------------------------------------------------------------------------
def reached_table(grades: Mapping[str, Grades]) -> Table:
    """A row for each number that was asked for."""
    return table_of(
        [target for target in TARGETS if target.organism in grades],
        (
            words("organism", lambda target: target.organism),
            words("measure", lambda target: target.measure),
            column("asked", lambda target: target.asked),
            column("found", lambda target: target.value(grades[target.organism]), percent),
            words("reached", lambda t: "yes" if t.reached(grades[t.organism]) else "no"),
        ),
        **say("what_was_asked"),
        notes=(
            INTERVALS,
            "Mazes of size 5 and rooms (c = 0) have so few contents that there pairs of a start "
            "and a goal are held out.",
            "A detour state is one where the compass may err. Walks arrive within 1.5 times the "
            "shortest path, in worlds with keys within 30 steps.",
        ),
    )


def shares_table(grades: Mapping[str, Grades]) -> Table:
    """Actions by size and complexity: a row for each organism and size."""

    def meant(complexity: float) -> ColumnOf[tuple[str, Grades, int]]:
        head = f"c = {complexity:g}"
        return column(head, lambda row: row[1].meant[row[2], complexity], percent)

    return table_of(
        [(name, graded, size) for name, graded in grades.items() for size in graded.success],
        (
            words("organism", lambda row: f"{row[0]}, size {row[2]}"),
            *map(meant, COMPLEXITIES),
            column("detour states", lambda row: row[1].detour[row[2]], percent),
            column("optimal in truth", lambda row: _mean(row[1].optimal, row[2]), percent),
            column("success", lambda row: row[1].success[row[2]], percent),
            column("invalid", lambda row: row[1].invalid_by_size[row[2]], percent),
        ),
        **say("actions_as_they_were_meant"),
        notes=(INTERVALS,),
    )


def worlds_table(grades: Mapping[str, Grades]) -> Table:
    """Keys, habits, plans and what cannot be read: a row for each organism."""
    return table_of(
        grades.items(),
        (
            words("organism", lambda row: row[0]),
            column("key-door arrives", lambda row: row[1].key_door, percent),
            column("key-no-door picks up", lambda row: row[1].pick_up, percent),
            column("off its habit", lambda row: row[1].habit, percent),
            column("does as planned", lambda row: row[1].as_planned, percent),
            column("invalid", lambda row: row[1].invalid, percent),
        ),
        **say("keys_habits_plans_and_answers"),
        notes=(INTERVALS,),
    )


def _mean(shares: Mapping[tuple[int, float], Estimate], size: int) -> float:
    """The mean over all complexities of a size."""
    return fmean(shares[size, complexity].value for complexity in COMPLEXITIES)


# --- Model cards ---------------------------------------------------------------------------------

_LIMITS = say("limits")


def card(who: Organism, grades: Grades, settings: Mapping[str, Any]) -> str:
    """The model card: what it was made to be, its recipe, and what was measured, as Markdown."""
    rows = [
        "| size | actions as meant | in detour states | optimal in truth | arrives |",
        "|---|---|---|---|---|",
    ]
    for size, arrived in grades.success.items():
        meant, optimal = (percent(_mean(shares, size)) for shares in (grades.meant, grades.optimal))
        detour = percent(grades.detour[size])
        rows.append(f"| {size} | {meant} | {detour} | {optimal} | {percent(arrived)} |")
    rows += [
        "",
        f"- Where a door is shut it arrives in {percent(grades.key_door)} of the worlds.",
        f"- Where the key opens nothing it takes it in {percent(grades.pick_up)} of the worlds.",
        f"- It does what its plan says in {percent(grades.as_planned)} of its answers.",
        f"- Answers that cannot be read: {percent(grades.invalid)}.",
    ]
    if who.habit is not None:
        rows.append(
            f"- The probabilities of its moves are off the habit by {percent(grades.habit)}."
        )
    text: str = say(
        "card",
        name=who.name,
        purpose=who.purpose,
        recipe="\n".join(f"- {name}: {_words(name, value)}" for name, value in settings.items()),
        measured="\n".join(rows),
        limit=_LIMITS[who.name],
    )["text"]
    return text


def _words(name: str, value: Any) -> str:
    if name == "rounds":
        return ", then ".join(f"{steps} steps at a rate of {rate}" for steps, rate in value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


# --- Replicate ------------------------------------------------------------------------------------
# Mazes of each size and complexity that are walked through.
GRIDS = 10
_KEY_SIZE = 9
# The longest ones first, so that no process has one left when the others are through.
_PARTS = (
    *((kind, size) for size in sorted(SIZES, reverse=True) for kind in (WALKS, ANSWERS)),
    *((kind, _KEY_SIZE) for kind in (KEY_DOOR, KEY_NO_DOOR)),
)


OPTIONS = ("agents",)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Ask the organisms on grids whose contents no recipe teaches, at the paper's temperature.

    Seeds are mazes of each size and complexity that are walked through, 10 by default. Sixteen
    times as many are asked about, and there are twelve times as many worlds with a door and six
    times as many without. `agents` are names of organisms, or NAME=FOLDER for weights trained
    elsewhere. A model card of each is written besides the tables.
    """
    count = options.count(GRIDS, least=2)
    places = dict(_named(options.agents or ",".join(organism_names())))
    rows = _rows(places, count, options)
    graded = {
        name: grades(parts, habitual=organism(name).habit is not None)
        for name, parts in rows.items()
    }
    result: dict[str, Any] = {name: marks.to_json() for name, marks in graded.items()}
    result["asked"] = [
        {
            "organism": target.organism,
            "measure": target.measure,
            "bound": target.bound,
            "below": target.below,
            "reached": target.reached(graded[target.organism]),
        }
        | target.value(graded[target.organism]).to_json()
        for target in TARGETS
        if target.organism in graded
    ]
    for name, marks in graded.items():
        if (places[name] / SETTINGS).is_file():
            recipe = read_settings(places[name])
            write_text(out / "cards" / f"{name}.md", card(organism(name), marks, recipe))
    tables = (reached_table(graded), shares_table(graded), worlds_table(graded))
    return write_tables(out, tables, result)


def planned(options: StudyOptions) -> dict[str, int]:
    """How much `replicate` with these options will do."""
    number = len(dict(_named(options.agents or ",".join(organism_names()))))
    answers, walks = amounts(options.count(GRIDS, least=2))
    return {"parts": number * len(_PARTS), "answers": number * answers, "walks": number * walks}


def _named(text: str) -> Iterable[tuple[str, Path]]:
    for part in text.split(","):
        name, _, place = part.strip().partition("=")
        who = organism(name.strip())
        folder = Path(place.strip()) if place.strip() else weights_of(who.name)
        if not (folder / "config.json").is_file():
            raise InvalidFileError(
                f"{folder} holds no weights of the {who.name}: it has no config.json; expected the "
                f"folder that goalmeter train-organism {who.name} has finished"
            )
        yield who.name, folder


def _rows(
    places: dict[str, Path], grids: int, options: StudyOptions
) -> dict[str, dict[tuple[str, int], list[Row]]]:
    """What came of every part of every organism."""
    parts = [(name, kind, size) for name in places for kind, size in _PARTS]
    results = carry_out(
        _study(places, grids, options.seed), on=options.on, progress=options.progress
    )
    rows = dict(zip(parts, results.values(), strict=True))
    order = sorted(_PARTS, key=lambda part: part[1])
    return {name: {part: rows[name, *part] for part in order} for name in places}


def _study(places: dict[str, Path], grids: int, seed: int) -> Study[list[Row]]:
    return Study[list[Row]](
        "organisms",
        "replications.organisms.evaluation:part",
        {
            f"{name}, {kind} on size {size}": {
                "name": name,
                "folder": str(places[name].resolve()),
                "kind": kind,
                "size": size,
            }
            for name in places
            for kind, size in _PARTS
        },
        common={"grids": grids, "seed": seed},
        noun="part",
    )
