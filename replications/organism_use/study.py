"""`goalmeter replicate organism-use`: which cells each organism uses, by intervention."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "organism-use")

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.report import Table
from goalmeter.representation import Network
from goalmeter.representation.beliefs.used_cells import PlaceUse, told_apart, used_cells
from goalmeter.runs import Study, carry_out
from replications.organism_use.questions import (
    COMPLEXITIES,
    FAR,
    CellQuestion,
    answer,
    decoding,
    questions_of,
)
from replications.prose import Texts, write_tables

say = Texts("organism_use")
Asked = tuple[CellQuestion, int, tuple[str, ...]]  # size of mazes, and families of interventions
Answer = Mapping[str, Any]  # JSON values of `Use`, with the question; see `answered`


# --- Tables ---------------------------------------------------------------------------------------
def answered(asked: Asked, use: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a question at a size, with what decodes and how places fare."""
    question, size, _ = asked
    asked_of = {"organism": question.organism, "cells": question.cells}
    return asked_of | {"size": size, "families": [], **use}


def all_tables(asked: Sequence[Asked], answers: Sequence[Answer]) -> tuple[Table, ...]:
    """Tabulate what is used, what can be written, and how places are told apart."""
    rows: list[dict[str, Any]] = [
        {
            **use,
            "where": f"{use['cells']}, size {use['size']}",
            "label": _label(use["confirmed"]),
            "other": _row(use["nulls"], "knock-out, other"),
            "end": _row(use["screened"], "patch, end"),
            "used": question.used,
            "tried": families,
            "made": {None: "not known", True: "yes", False: "no"}[question.used],
        }
        for (question, _, families), use in zip(asked, answers, strict=True)
    ]
    knocked, writers = (
        [row for row in rows if family in row["tried"]] for family in ("knock-out", "write")
    )
    written = [
        {"answer": row, "label": _label(family["row"]), **family["row"]}
        | {
            kind: next((n for n in family["nulls"] if n["intervention"].endswith(kind)), None)
            for kind in ("random", "other")
        }
        for row in writers
        for family in row["families"]
    ]
    pairs = [
        {
            "size": str(first["size"]),
            "used": f"{first['organism']}, {first['cells']}",
            "unused": f"{second['organism']}, {second['cells']}",
            "places": f"{len(first['places'])} and {len(second['places'])}",
            "area": told_apart(*([PlaceUse.from_json(p) for p in r["places"]] for r in pair)),
        }
        for pair in ((a, b) for a in knocked for b in knocked if _apart(a, b))
        for first, second in [pair]
    ]
    tables = (
        ("what_organisms_act_on", knocked),
        ("what_can_be_written", written),
        ("used_places_told_from_unused_ones", pairs),
    )
    shown = (True, bool(writers), bool(pairs))
    return tuple(say.table(*each) for each, show in zip(tables, shown, strict=True) if show)


def _row(rows: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """An intervention in all layers."""
    found = (r for r in rows if (r["intervention"], r["layer"]) == (name, "all"))
    return next(found, None)


def _apart(first: Answer, second: Answer) -> bool:
    """Whether one is known to use its cells, and the other is the mole that does not."""
    return (
        first["size"] == second["size"]
        and (first["organism"], first["cells"], first["used"]) == ("mouse", "seen", True)
        and (second["organism"], second["used"]) == ("mole", False)
    )


def _label(row: Mapping[str, Any]) -> str:
    return f"{row['intervention']}, layer {row['layer']}"


# --- Replicate ------------------------------------------------------------------------------------
SIZES, GRIDS = (7, 9, 11), 60
# Of four blocks, the one behind which maps decode best.
LAYER = 3
# What is written along directions is asked on small mazes alone: it takes as long as all the rest.
WRITE_SIZE, DOSES = 7, (1.0, 2.0, 4.0)
KNOCKS, WRITES = ("knock-out", "patch"), ("write", "ablate", "open")
OPTIONS = ("agents",)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Change what organisms read of cells, and see whether they move otherwise.

    Seeds are mazes of each size and complexity, 60 by default; `agents` are models to be asked
    instead of the organisms.
    """
    grids, asked = options.count(GRIDS, least=2), _asked(options.agents)
    what = {"kind": "organism-use", "grids": grids, "seed": options.seed}
    study = Study[dict[str, Any]](
        "organism-use",
        "replications.organism_use.study:part",
        {
            f"{families[0]}: {q.organism}, {q.cells} cells on size {size}": {
                "name": q.organism,
                "cells": q.cells,
                "size": size,
                "families": list(families),
            }
            for q, size, families in asked
        },
        common={"grids": grids, "seed": options.seed},
        noun="question",
        what=what if options.agents is None else what | {"agents": options.agents},
    )
    values = carry_out(study, on=options.on, out=out / "answers", progress=options.progress)
    answers = [answered(*each) for each in zip(asked, values.values(), strict=True)]
    tables = all_tables(asked, answers)
    return write_tables(out, tables, {"seeds": grids, "answers": answers})


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    mazes = options.count(GRIDS, least=2) * len(COMPLEXITIES)
    return {"questions": len(_asked(options.agents)), "mazes of a question": mazes}


def _asked(agents: str | None) -> list[Asked]:
    return [
        (question, size, families)
        for families, sizes in ((KNOCKS, SIZES), (WRITES, (WRITE_SIZE,)))
        for size in sizes
        for question in questions_of(agents)
        if families == KNOCKS or question.cells != FAR
    ]


def part(
    name: str, cells: str, size: int, families: list[str], grids: int, seed: int
) -> dict[str, Any]:
    """Return the answer to a question, as JSON values; a trial."""
    question = CellQuestion(name, cells, None)
    doses = DOSES if WRITES[0] in families else ()
    use = answer(question, size, grids, seed, families=families, doses=doses)
    read = {}
    # What decodes is asked once of each organism, size and kind of cells.
    if tuple(families) == KNOCKS:
        network = Network.open(question.model)
        read = decoding(network, cells, layer=LAYER, size=size, grids=4 * grids, seed=seed)
    places = used_cells([*use.outcomes_of_screen, *use.outcomes]).to_json()
    return use.to_json() | {"read": read, "places": places["places"]}
