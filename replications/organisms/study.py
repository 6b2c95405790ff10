"""`goalmeter replicate organisms`: evaluate the shipped organisms and write their model cards."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "organisms")

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

from goalmeter import InvalidFileError
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.organisms import Organism, organism, organism_names
from goalmeter.organisms.kinds import weights_of
from goalmeter.organisms.network import read_settings
from goalmeter.report import Table, percent, write_text
from goalmeter.runs import Study, carry_out
from goalmeter.statistics import Estimate
from replications.organisms.evaluation import (
    ANSWERS,
    COMPLEXITIES,
    KEY_DOOR,
    KEY_NO_DOOR,
    SIZES,
    TARGETS,
    WALKS,
    Grades,
    Row,
    amounts,
    grades,
    to_json,
)
from replications.prose import Texts, plain, write_tables

say = Texts("organisms")


# --- Tables ---------------------------------------------------------------------------------------
def tables(grades: Mapping[str, Grades]) -> tuple[Table, ...]:
    """Tabulate what was asked; actions by size and complexity; keys, habits, plans and answers."""
    asked = [
        vars(target)
        | {
            "asked": target.asked,
            "found": target.value(grades[target.organism]),
            "reached": "yes" if target.reached(grades[target.organism]) else "no",
        }
        for target in TARGETS
        if target.organism in grades
    ]
    shares = [
        {
            "name": f"{name}, size {size}",
            "meant": [marks["meant"][size, complexity] for complexity in COMPLEXITIES],
            "detour": marks["detour"][size],
            "optimal": _mean(marks["optimal"], size),
            "success": marks["success"][size],
            "invalid": marks["invalid_by_size"][size],
        }
        for name, marks in grades.items()
        for size in marks["success"]
    ]
    return (
        say.table("what_was_asked", asked),
        say.table("actions_as_they_were_meant", shares),
        say.table("keys_habits_plans_and_answers", grades.items()),
    )


def _mean(shares: Mapping[tuple[int, float], Estimate], size: int) -> float:
    """The mean over all complexities of a size."""
    return fmean(shares[size, complexity].value for complexity in COMPLEXITIES)


def card(who: Organism, grades: Grades, settings: Mapping[str, Any]) -> str:
    """Return the model card: what it was made to be, its recipe, and what was measured."""
    rows = [
        "| size | actions as meant | in detour states | optimal in truth | arrives |",
        "|---|---|---|---|---|",
    ]
    for size, arrived in grades["success"].items():
        meant, optimal = (percent(_mean(grades[name], size)) for name in ("meant", "optimal"))
        detour = percent(grades["detour"][size])
        rows.append(f"| {size} | {meant} | {detour} | {optimal} | {percent(arrived)} |")
    shares = {
        name: percent(grades[name])
        for name in ("key_door", "pick_up", "as_planned", "invalid", "habit")
    }
    rows += ["", *(line.format(**shares) for line in say.data("measured")["lines"])]
    if who.habit is not None:
        rows.append(say.data("measured")["habit"].format(**shares))
    text: str = say(
        "card",
        name=who.name,
        purpose=who.purpose,
        recipe="\n".join(f"- {name}: {_words(name, value)}" for name, value in settings.items()),
        measured="\n".join(rows),
        limit=say.data("limits")[who.name],
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
    result: dict[str, Any] = {name: to_json(marks) for name, marks in graded.items()}
    result["asked"] = [
        {name: getattr(target, name) for name in ("organism", "measure", "bound", "below")}
        | {"reached": target.reached(graded[target.organism])}
        | plain(target.value(graded[target.organism]))
        for target in TARGETS
        if target.organism in graded
    ]
    for name, marks in graded.items():
        if (places[name] / "training.json").is_file():
            recipe = read_settings(places[name])
            write_text(out / "cards" / f"{name}.md", card(organism(name), marks, recipe))
    return write_tables(out, tables(graded), result)


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
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
    study = Study[list[Row]](
        "organisms",
        "replications.organisms.evaluation:part",
        {
            f"{name}, {kind} on size {size}": {
                "name": name,
                "folder": str(places[name].resolve()),
                "kind": kind,
                "size": size,
            }
            for name, kind, size in parts
        },
        common={"grids": grids, "seed": options.seed},
        noun="part",
    )
    results = carry_out(study, on=options.on, progress=options.progress)
    rows = dict(zip(parts, results.values(), strict=True))
    order = sorted(_PARTS, key=lambda part: part[1])
    return {name: {part: rows[name, *part] for part in order} for name in places}
