"""`goalmeter replicate organism-use`: which cells each organism uses, by intervention."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "organism-use")

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import representation
from goalmeter.gridworld import Cell, Draws, State, compact
from goalmeter.navigation import Task, suite
from goalmeter.report import Table
from goalmeter.representation import Network, Sample, Use
from goalmeter.runs import Study, carry_out
from replications.common import Outcome, StudyOptions, Texts, write_tables

say = Texts("organism_use")

# --- Questions ------------------------------------------------------------------------------------
#     seen      inner walls of rows that every organism sees
#     unseen    inner walls of rows 2, 6, 10, which the mole takes for open
#     far       cells that the agent does not stand beside, which a habit has no use for
# A model that goes by its map uses all of them; the mole only the seen ones, the moth no far one.

Wanted = Callable[[Sample, Cell], bool]  # whether a question is about a cell of a decision
SEEN, UNSEEN, FAR = "seen", "unseen", "far"
COMPLEXITIES = (0.4, 0.6, 0.8)
# Cells of each kind that some hundred interventions are screened on; the best meet all the others.
SCREEN_CELLS = 24
SIZES, GRIDS = (7, 9, 11), 60
LAYER = 3  # of four blocks, the one behind which maps decode best
# What is written along directions is asked on small mazes alone: it takes as long as all the rest.
WRITE_SIZE, DOSES = 7, (1.0, 2.0, 4.0)
KNOCKS, WRITES = ("knock-out", "patch"), ("write", "ablate", "open")


@dataclass(frozen=True)
class CellQuestion:
    """An organism and the cells that it is asked about."""

    organism: str  # its name, or that of any model of this machine that answers the same prompt
    cells: str  # "seen", "unseen" or "far"
    used: bool | None = None  # whether it was made to act on them; None of a model of others

    @property
    def model(self) -> str:
        """As an agent is named."""
        return self.organism if "/" in self.organism else f"goalmeter/{self.organism}"


QUESTIONS = tuple(CellQuestion(**asked) for asked in say.declared("questions")["list"])
Asked = tuple[CellQuestion, int, tuple[str, ...]]  # size of mazes, and families of interventions


def _asked(agents: str | None) -> list[Asked]:
    """The questions to some models; None for those to the organisms."""
    questions = list(QUESTIONS)
    if agents is not None:
        known = {(question.model, question.cells): question for question in QUESTIONS}
        asked = [CellQuestion(n.strip(), of) for n in agents.split(",") for of in (SEEN, UNSEEN)]
        questions = [known.get((each.model, each.cells), each) for each in asked]
    return [
        (question, size, families)
        for families, sizes in ((KNOCKS, SIZES), (WRITES, (WRITE_SIZE,)))
        for size in sizes
        for question in questions
        if families == KNOCKS or question.cells != FAR
    ]


def wanted(cells: str) -> Wanted:
    """Return which cells of a decision a question is about."""

    def wants(sample: Sample, cell: Cell) -> bool:
        at = sample.state.cell
        if cells == FAR:
            return abs(at.row - cell.row) + abs(at.column - cell.column) > 1
        return (cell.row % 4 == 2) == (cells == UNSEEN)

    return wants


def mazes(size: int, grids: int, seed: int) -> tuple[Task, ...]:
    """Return mazes of each complexity that no organism learnt in."""
    return suite(
        "maze", sizes=[size], complexities=COMPLEXITIES, grids=grids, seed=seed, held_out=True
    ).tasks


def question_at(task: Task, state: State) -> Sample:
    """Return what an organism is asked in some state, without tokens and without an answer."""
    question = compact(task.world, state)
    return Sample(task.name, 0, task.world, state, None, (), question, (), ())


def with_tokens(network: Network, sample: Sample) -> Sample:
    """Return a question with the tokens by which a network reads it."""
    ids = network.local.ids([{"role": "user", "content": sample.question}])
    return replace(sample, prompt=ids)


def decisions(
    network: Network, wants: Wanted, size: int, grids: int, seed: int, *, walls: bool = False
) -> list[Sample]:
    """Return a decision in each maze where a shortest way from some place needs a wanted cell."""
    tasks = mazes(size, grids, seed)
    worlds = [task.world for task in tasks]
    starts = [State(world.start) for world in worlds]
    scenes = representation.Scenes.of(worlds, starts, [None] * len(worlds))
    uncertain = representation.uncertain_cells(scenes)
    samples = []
    for task in tasks:
        world = task.world
        states = [State(cell) for cell in world.open_cells if cell != world.goal]
        Draws("where the agent stands", seed, task.name).shuffle(states)

        def needs(state: State, targets: Sequence[Any], task: Task = task) -> bool:
            sample, unclear = question_at(task, state), uncertain[task.world.shape]
            return any(t.needed and unclear[t.cell] and wants(sample, t.cell) for t in targets)

        able = [s for s in states if needs(s, representation.target_cells(world, s))]
        both = (s for s in able if walls and needs(s, representation.target_walls(world, s)))
        if able:
            samples.append(with_tokens(network, question_at(task, next(both, able[0]))))
    return samples


def answer(question: CellQuestion, size: int, grids: int, seed: int, families: list[str]) -> Use:
    """Return what a model does with some cells of mazes of a size."""
    network, wants = Network.open(question.model), wanted(question.cells)
    return representation.causal_use(
        decisions(network, wants, size, grids, seed, walls="open" in families),
        network,
        cells=wants,
        screen_cells=SCREEN_CELLS,
        families=families,
        doses=DOSES if "write" in families else (),
        seed=seed,
    )


TRAINED_WEIGHTS, POSITION, RANDOM_WEIGHTS = "the model", "position only", "random weights"
_END = "pre/end"


def decoding(
    network: Network, cells: str, *, layer: int, size: int, grids: int, seed: int
) -> dict[str, Any]:
    """Return the AUROC of walls of some cells, read from the last tokens of prompts."""
    samples = [
        with_tokens(network, question_at(task, State(task.world.start)))
        for task in mazes(size, grids, seed)
    ]
    scenes = representation.scenes_of(samples)
    parts = representation.split(scenes, seed=seed)
    tested, wants = scenes.where(parts.test), wanted(cells)
    mask = representation.scored_cells(scenes.where(parts.train), tested)["uncertain"]
    for number, row, column in np.argwhere(mask).tolist():
        mask[number, row, column] = wants(samples[parts.test[number]], Cell(row, column))

    def auroc(posterior: Any, position: Any) -> dict[str, Any] | None:
        rows = representation.scores(posterior, position, tested, {"asked": mask})
        walls = [row.auroc for row in rows if (row.cells, row.label) == ("asked", "wall")]
        return walls[0].to_json() if walls and walls[0] is not None else None

    out: dict[str, Any] = {}
    untrained = representation.untrained(network, seed=seed)
    for name, source in ((TRAINED_WEIGHTS, network), (RANDOM_WEIGHTS, untrained)):
        with tempfile.TemporaryDirectory() as folder:
            read = representation.capture(
                samples, source, Path(folder), layers=[layer], positions=[_END]
            ).at(layer, _END)
        reading = representation.Reading(read.reshape(len(samples), -1), scenes)
        result = representation.compare(representation.probe("ridge"), reading, parts, seed=seed)
        out[name] = auroc(result.posterior, result.position)
        out[POSITION] = auroc(result.position, result.position)
    return out


Answer = Mapping[str, Any]  # JSON values of `Use`, with the question


def all_tables(asked: Sequence[Asked], answers: Sequence[Answer]) -> tuple[Table, ...]:
    """Tabulate what is used, what can be written, and how places are told apart."""
    rows: list[dict[str, Any]] = [
        {
            **use,
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
        {"answer": row, **family["row"]}
        | {
            kind: next((n for n in family["nulls"] if n["intervention"].endswith(kind)), None)
            for kind in ("random", "other")
        }
        for row in writers
        for family in row["families"]
    ]
    pairs = []
    # One is known to use its cells, and the other is the mole that does not.
    for first, second in product(knocked, knocked):
        known = first["organism"], first["cells"], second["organism"], second["used"]
        if known == ("mouse", "seen", "mole", False) and first["size"] == second["size"]:
            uses = [
                list(map(representation.PlaceUse.from_json, of["places"])) for of in (first, second)
            ]
            places = " and ".join(str(len(of)) for of in uses)
            area = representation.told_apart(*uses)
            pairs.append({"used": first, "unused": second, "places": places, "area": area})
    return (
        say.table("what_organisms_act_on", knocked),
        *([say.table("what_can_be_written", written)] if writers else []),
        *([say.table("used_places_told_from_unused_ones", pairs)] if pairs else []),
    )


def _row(rows: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((r for r in rows if (r["intervention"], r["layer"]) == (name, "all")), None)


OPTIONS = ("agents",)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Change what organisms, or the models `agents`, read of cells, and see whether they move.

    Seeds are mazes of each size and complexity, 60 by default.
    """
    grids, asked = options.count(GRIDS, least=2), _asked(options.agents)
    common = {"grids": grids, "seed": options.seed}
    what = {"kind": "organism-use", **common}
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
        common=common,
        noun="question",
        what=what if options.agents is None else what | {"agents": options.agents},
    )
    values = carry_out(study, on=options.on, out=out / "answers", progress=options.progress)
    answers = [
        {"organism": q.organism, "cells": q.cells, "size": size, "families": [], **use}
        for (q, size, _), use in zip(asked, values.values(), strict=True)
    ]
    return write_tables(out, all_tables(asked, answers), {"seeds": grids, "answers": answers})


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    mazes = options.count(GRIDS, least=2) * len(COMPLEXITIES)
    return {"questions": len(_asked(options.agents)), "mazes of a question": mazes}


def part(
    name: str, cells: str, size: int, families: list[str], grids: int, seed: int
) -> dict[str, Any]:
    """Return the answer to a question, as JSON values; a trial."""
    question = CellQuestion(name, cells)
    use = answer(question, size, grids, seed, families=families)
    read = {}
    # What decodes is asked once of each organism, size and kind of cells.
    if tuple(families) == KNOCKS:
        network = Network.open(question.model)
        read = decoding(network, cells, layer=LAYER, size=size, grids=4 * grids, seed=seed)
    places = representation.used_cells([*use.outcomes_of_screen, *use.outcomes]).to_json()
    return use.to_json() | {"read": read, "places": places["places"]}
