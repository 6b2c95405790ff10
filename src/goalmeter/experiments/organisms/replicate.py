"""`goalmeter replicate organisms`: how good the shipped organisms are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._files import write_text
from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.experiments.organisms.grading import TARGETS, Row, grades
from goalmeter.experiments.organisms.parts import ANSWERS, KEY_DOOR, KEY_NO_DOOR, WALKS, amounts
from goalmeter.experiments.organisms.tables import card, reached_table, shares_table, worlds_table
from goalmeter.organisms import organism, organism_names
from goalmeter.organisms.keeping import SETTINGS, read_settings
from goalmeter.organisms.lessons import SIZES
from goalmeter.organisms.shipped import weights_of
from goalmeter.report.markdown import in_markdown
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.runs.forecast import Forecast, unmeasured

# Mazes of each size and complexity that are walked through.
GRIDS = 10
_KEY_SIZE = 9
# The longest ones first, so that no process has one left when the others are through.
_PARTS = (
    *((kind, size) for size in sorted(SIZES, reverse=True) for kind in (WALKS, ANSWERS)),
    *((kind, _KEY_SIZE) for kind in (KEY_DOOR, KEY_NO_DOOR)),
)


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
    agents: str | None = None,
) -> Outcome:
    """Ask the organisms on grids whose contents no recipe teaches, at the paper's temperature.

    Args:
        out: folder for results.json, and, as Markdown, for tables.md and a model card of each.
        seeds: mazes of each size and complexity that are walked through; None for 10. Sixteen
            times as many are asked about, and there are twelve times as many worlds with a door and
            six times as many without.
        seed: of grids and answers.
        on: where they are asked, as `runs` spells it; the numbers do not depend on it.
        progress: told what is finished.
        agents: names of organisms, or NAME=FOLDER for weights trained elsewhere, with commas
            between them; None for all that are shipped.
    """
    count = _checked(seeds)
    places = dict(_named(agents or ",".join(organism_names())))
    rows = _rows(places, count, seed, on, progress)
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
            write_text(Path(out) / "cards" / f"{name}.md", card(organism(name), marks, recipe))
    tables = (reached_table(graded), shares_table(graded), worlds_table(graded))
    write_text(Path(out) / "tables.md", in_markdown(tables))
    file = write_text(Path(out) / "results.json", json_text(result) + "\n")
    return Outcome(tables=tables, json=result | {"results": str(file.resolve())})


def forecasts(
    out: Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    agents: str | None = None,
) -> list[Forecast]:
    """What `replicate` with these arguments will do."""
    count = _checked(seeds)
    places = dict(_named(agents or ",".join(organism_names())))
    answers, walks = amounts(count)
    return [
        unmeasured(
            _study(places, count, seed),
            "how many steps a walk has, and how long an answer takes, is not known before: both "
            "depend on the maze; nothing is kept before the last part is finished",
            on=on,
            counted={"answers": len(places) * answers, "walks": len(places) * walks},
        )
    ]


def _checked(seeds: int | None) -> int:
    """How many mazes of each size and complexity, if it can be so many."""
    count = GRIDS if seeds is None else seeds
    if count < 2:
        raise InvalidParameterError(f"seeds is {count}, expected at least 2, for an interval")
    return count


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
    places: dict[str, Path],
    grids: int,
    seed: int,
    on: str,
    progress: Callable[[str], None] | None,
) -> dict[str, dict[tuple[str, int], list[Row]]]:
    """What came of every part of every organism."""
    parts = [(name, kind, size) for name in places for kind, size in _PARTS]
    results = carry_out(_study(places, grids, seed), on=on, progress=progress)
    rows = dict(zip(parts, results.values(), strict=True))
    order = sorted(_PARTS, key=lambda part: part[1])
    return {name: {part: rows[name, *part] for part in order} for name in places}


def _study(places: dict[str, Path], grids: int, seed: int) -> Study[list[Row]]:
    return Study[list[Row]](
        "organisms",
        "goalmeter.experiments.organisms.parts:part",
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
