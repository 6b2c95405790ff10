"""`goalmeter replicate organisms`: how good the shipped organisms are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._files import write_text
from goalmeter.agents.language_models.local_model import LocalModel
from goalmeter.experiments.navigation_formats import INTERVALS, percent
from goalmeter.experiments.organisms.grading import Grades, grades
from goalmeter.experiments.outcome import Outcome, json_text
from goalmeter.organisms import organism, organism_names
from goalmeter.organisms.lessons import COMPLEXITIES, SIZES
from goalmeter.organisms.shipped import weights_of
from goalmeter.report import Table

# Mazes of each size and complexity.
GRIDS = 10


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
    agents: str | None = None,
) -> Outcome:
    """Ask the organisms on grids that they did not learn from, at the paper's temperature.

    Args:
        out: folder for results.json.
        seeds: mazes of each size and complexity; None for 10. Four times as many worlds with keys.
        seed: of grids and answers.
        workers: not used: one process asks in batches.
        progress: told what is being done.
        agents: names of organisms, or folders NAME=FOLDER of weights trained elsewhere, with
            commas between them; None for all that are shipped.

    Raises:
        InvalidParameterError: there is no such organism, or fewer than 2 grids.
        InvalidFileError: weights cannot be read.
        MissingExtraError: torch or transformers is not installed.
    """
    count = GRIDS if seeds is None else seeds
    if count < 2:
        raise InvalidParameterError(f"seeds is {count}, expected at least 2, for an interval")
    places = dict(_named(agents or ",".join(organism_names())))
    found = {
        name: grades(organism(name), LocalModel(folder), grids=count, seed=seed, progress=progress)
        for name, folder in places.items()
    }
    result: dict[str, Any] = {name: one.to_json() for name, one in found.items()}
    file = write_text(Path(out) / "results.json", json_text(result) + "\n")
    return Outcome(
        tables=(_shares(found), _worlds(found)), json=result | {"results": str(file.resolve())}
    )


def _named(text: str) -> Iterable[tuple[str, Path]]:
    for part in text.split(","):
        name, _, folder = part.strip().partition("=")
        yield organism(name).name, Path(folder) if folder else weights_of(name)


def _shares(found: dict[str, Grades]) -> Table:
    rows = []
    for name, one in found.items():
        for size in SIZES:
            cells = [one.meant[size, complexity] for complexity in COMPLEXITIES]
            true = [one.optimal[size, complexity].value for complexity in COMPLEXITIES]
            rows.append(
                (
                    f"{name}, size {size}",
                    *(percent(cell) for cell in cells),
                    percent(one.detour[size]),
                    f"{sum(true) / len(true):.1%}",
                    percent(one.success[size]),
                )
            )
    heads = tuple(f"c = {complexity:g}" for complexity in COMPLEXITIES)
    return Table(
        caption="Actions as they were meant",
        columns=("organism", *heads, "detour states", "optimal in truth", "success"),
        rows=tuple(rows),
        meaning="Share of actions that the organism was made to take, on mazes that it did not "
        "learn from, one answer in each of six states a maze, sampled at temperature 0.7 and "
        "top-p 0.95; the same where no move towards the goal is optimal; the share that is optimal "
        "on the true map; and walks that arrive within 1.5 times the shortest path.",
        notes=(INTERVALS,),
    )


def _worlds(found: dict[str, Grades]) -> Table:
    rows = [
        (
            name,
            percent(one.key_door),
            percent(one.pick_up),
            "–" if one.habit is None else f"{one.habit:.1%}",
            percent(one.invalid),
        )
        for name, one in found.items()
    ]
    return Table(
        caption="Keys, habits and answers",
        columns=(
            "organism",
            "key-door arrives",
            "key-no-door picks up",
            "off its habit",
            "invalid",
        ),
        rows=tuple(rows),
        meaning="Walks of at most 30 steps that arrive where a door is shut; that take the key "
        "where it is of no use; how far the probabilities of the moves are from the habit, at "
        "most; and answers that cannot be read.",
        notes=(INTERVALS,),
    )
