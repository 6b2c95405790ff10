"""`goalmeter replicate organism-use`: which cells each organism acts on, by changing them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goalmeter._arguments import whole
from goalmeter._files import write_text
from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.experiments.organism_use.decoding import decoding
from goalmeter.experiments.organism_use.questions import (
    COMPLEXITIES,
    FAR,
    Question,
    answer,
    questions_of,
)
from goalmeter.experiments.organism_use.tables import Answer, all_tables
from goalmeter.report.markdown import in_markdown
from goalmeter.representation.network import Network
from goalmeter.representation.use.used_cells import used_cells
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.runs.forecast import Forecast, unmeasured
from goalmeter.runs.progress import Tell

SIZES, GRIDS = (7, 9, 11), 60
# Of four blocks, the one behind which maps decode best.
LAYER = 3
# What is written along directions is asked on small mazes alone: it takes as long as all the rest.
WRITE_SIZE, DOSES = 7, (1.0, 2.0, 4.0)
KNOCKS, WRITES = ("knock-out", "patch"), ("write", "ablate", "open")
# The folder of what is kept of each question.
ANSWERS = "answers"
_TASK = "goalmeter.experiments.organism_use.replicate:part"


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Tell | None = None,
    agents: str | None = None,
) -> Outcome:
    """Change what organisms read of cells, and see whether they move otherwise.

    Args:
        out: folder for results.json and, as Markdown, for tables.md.
        seeds: mazes of each size and complexity; None for 60.
        seed: of grids and draws.
        on: where they are asked, as `runs` spells it; the numbers do not depend on it.
        progress: told what is finished.
        agents: names of models with commas between them, to be asked instead of the organisms.
    """
    grids, asked = _checked(seeds), _asked(agents)
    study = _study(asked, grids, seed, agents)
    values = carry_out(study, on=on, out=Path(out) / ANSWERS, progress=progress)
    answers = [
        Answer(question, size, families, value)
        for (question, size, families), value in zip(asked, values.values(), strict=True)
    ]
    tables = all_tables(answers)
    write_text(Path(out) / "tables.md", in_markdown(tables))
    result = {"seeds": grids, "answers": [answer.to_json() for answer in answers]}
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
    grids, asked = _checked(seeds), _asked(agents)
    return [
        unmeasured(
            _study(asked, grids, seed, agents),
            "how many answers a question takes, and how long, is not known before: what can be "
            "written is learnt from answers, and only what does best is asked of all mazes",
            on=on,
            out=out / ANSWERS,
            counted={"mazes of a question": grids * len(COMPLEXITIES)},
        )
    ]


def _checked(seeds: int | None) -> int:
    return whole(GRIDS if seeds is None else seeds, "seeds", least=2, most=10_000)


def _asked(agents: str | None) -> list[tuple[Question, int, tuple[str, ...]]]:
    return [
        (question, size, families)
        for families, sizes in ((KNOCKS, SIZES), (WRITES, (WRITE_SIZE,)))
        for size in sizes
        for question in questions_of(agents)
        if families == KNOCKS or question.cells != FAR
    ]


def _study(
    asked: Sequence[tuple[Question, int, tuple[str, ...]]],
    grids: int,
    seed: int,
    agents: str | None,
) -> Study[dict[str, Any]]:
    what = {"kind": "organism-use", "grids": grids, "seed": seed}
    return Study[dict[str, Any]](
        "organism-use",
        _TASK,
        {
            f"{families[0]}: {q.organism}, {q.cells} cells on size {size}": {
                "name": q.organism,
                "cells": q.cells,
                "size": size,
                "families": list(families),
            }
            for q, size, families in asked
        },
        common={"grids": grids, "seed": seed},
        noun="question",
        what=what if agents is None else what | {"agents": agents},
    )


def part(
    name: str, cells: str, size: int, families: list[str], grids: int, seed: int
) -> dict[str, Any]:
    """The answer to a question, as JSON values: what a worker process does."""
    question = Question(name, cells, None)
    doses = DOSES if WRITES[0] in families else ()
    use = answer(question, size, grids, seed, families=families, doses=doses)
    read = {}
    # What decodes is asked once of each organism, size and kind of cells.
    if tuple(families) == KNOCKS:
        network = Network.open(question.model)
        read = decoding(network, cells, layer=LAYER, size=size, grids=4 * grids, seed=seed)
    places = used_cells([*use.outcomes_of_screen, *use.outcomes]).to_json()
    return use.to_json() | {"read": read, "places": places["places"]}
