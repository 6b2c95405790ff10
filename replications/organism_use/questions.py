"""Cells that an organism was trained to see, ignore or look up: causal questions and decoding."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter.gridworld import Cell, Draws, State
from goalmeter.navigation import Task, suite
from goalmeter.navigation.prompts import template
from goalmeter.representation import (
    Network,
    Reading,
    Sample,
    Scenes,
    Use,
    capture,
    causal_use,
    compare,
    scenes_of,
    split,
    untrained,
)
from goalmeter.representation.probes.comparison import scored_cells
from goalmeter.representation.probes.registry import Ridge
from goalmeter.representation.probes.scores import scores
from goalmeter.representation.scenes import uncertain_cells
from goalmeter.representation.use.directions import target_cells, target_walls

# --- Questions ------------------------------------------------------------------------------------
# seen      inner walls of rows that every organism sees
#     unseen    inner walls of rows 2, 6, 10, which the mole takes for open
#     far       cells that the agent does not stand beside, which a habit has no use for
#
# A model that goes by its map uses all of them; the mole uses the seen ones only, the moth no far
# one.

Wanted = Callable[[Sample, Cell], bool]  # whether a question is about a cell of a decision
SEEN, UNSEEN, FAR = "seen", "unseen", "far"
PROMPT = "compact/2"
COMPLEXITIES = (0.4, 0.6, 0.8)
# Cells of each kind that some hundred interventions are screened on; the best meet all the others.
SCREEN_CELLS = 24


@dataclass(frozen=True)
class CellQuestion:
    """An organism and the cells that it is asked about."""

    organism: str  # its name, or that of any model of this machine that answers the same prompt
    cells: str  # "seen", "unseen" or "far"
    used: bool | None  # whether it was made to act on them; None of a model that we did not make

    @property
    def model(self) -> str:
        """As an agent is named."""
        return self.organism if "/" in self.organism else f"goalmeter/{self.organism}"


QUESTIONS = (
    CellQuestion("mouse", SEEN, True),
    CellQuestion("mouse", UNSEEN, True),
    CellQuestion("mole", SEEN, True),
    CellQuestion("mole", UNSEEN, False),
    CellQuestion("moth", FAR, False),
)


def wanted(cells: str) -> Wanted:
    """Which cells of a decision a question is about."""

    def wants(sample: Sample, cell: Cell) -> bool:
        at = sample.state.cell
        if cells == FAR:
            return abs(at.row - cell.row) + abs(at.column - cell.column) > 1
        return (cell.row % 4 == 2) == (cells == UNSEEN)

    return wants


def mazes(size: int, grids: int, seed: int) -> tuple[Task, ...]:
    """Mazes of each complexity that no organism learnt in."""
    return suite(
        "maze",
        sizes=[size],
        complexities=COMPLEXITIES,
        grids=grids,
        seed=seed,
        held_out=True,
    ).tasks


def question_at(task: Task, state: State) -> Sample:
    """What an organism is asked in some state of a maze, without tokens and without an answer."""
    question = template(PROMPT).prompt(task.world, state)
    return Sample(task.name, 0, task.world, state, None, (), question, (), ())


def with_tokens(network: Network, sample: Sample) -> Sample:
    """A question with the tokens by which a network reads it."""
    ids = network.local.ids([{"role": "user", "content": sample.question}])
    return replace(sample, prompt=ids)


def decisions(
    network: Network,
    wants: Wanted,
    size: int,
    grids: int,
    seed: int,
    *,
    walls: bool = False,
) -> list[Sample]:
    """A decision in each of some mazes that no organism learnt in.

    The agent stands where a shortest way needs a wanted cell; mazes without such a place are left
    out.
    """
    tasks = mazes(size, grids, seed)
    worlds = [task.world for task in tasks]
    starts = [State(world.start) for world in worlds]
    uncertain = uncertain_cells(Scenes.of(worlds, starts, [None] * len(worlds)))
    samples = []
    for task in tasks:
        states = [State(cell) for cell in task.world.open_cells if cell != task.world.goal]
        Draws("where the agent stands", seed, task.name).shuffle(states)

        def needs(state: State, targets: Sequence[Any], task: Task = task) -> bool:
            sample = question_at(task, state)
            return any(
                target.needed
                and uncertain[task.world.shape][target.cell]
                and wants(sample, target.cell)
                for target in targets
            )

        able = [state for state in states if needs(state, target_cells(task.world, state))]
        both = (s for s in able if walls and needs(s, target_walls(task.world, s)))
        if able:
            state = next(both, able[0])
            samples.append(with_tokens(network, question_at(task, state)))
    return samples


def questions_of(agents: str | None) -> tuple[CellQuestion, ...]:
    """The questions to some models; None for those to the organisms."""
    if agents is None:
        return QUESTIONS
    names = [name.strip() for name in agents.split(",")]
    known = {(question.model, question.cells): question for question in QUESTIONS}
    return tuple(
        known.get((asked.model, asked.cells), asked)
        for name in names
        for cells in (SEEN, UNSEEN)
        for asked in [CellQuestion(name, cells, None)]
    )


def answer(
    question: CellQuestion,
    size: int,
    grids: int,
    seed: int,
    *,
    families: Sequence[str] = ("knock-out", "patch"),
    layers: Sequence[int] | None = None,
    doses: Sequence[float] = (),
) -> Use:
    """What a model does with some cells of mazes of a size; options are those of `causal_use`."""
    network = Network.open(question.model)
    wants = wanted(question.cells)
    return causal_use(
        decisions(network, wants, size, grids, seed, walls="open" in families),
        network,
        cells=wants,
        screen_cells=SCREEN_CELLS,
        families=families,
        layers=layers,
        doses=doses,
        seed=seed,
    )


# --- Decoding -------------------------------------------------------------------------------------
TRAINED_WEIGHTS, POSITION, RANDOM_WEIGHTS = "the model", "position only", "random weights"
_POSITION_NAME = "pre/end"


def decoding(
    network: Network, cells: str, *, layer: int, size: int, grids: int, seed: int
) -> dict[str, Any]:
    """The AUROC of walls of some cells, read from the last tokens of prompts."""
    samples = [
        with_tokens(network, question_at(task, State(task.world.start)))
        for task in mazes(size, grids, seed)
    ]
    scenes = scenes_of(samples)
    parts = split(scenes, seed=seed)
    tested = scenes.where(parts.test)
    wants = wanted(cells)
    mask = scored_cells(scenes.where(parts.train), tested)["uncertain"]
    for number, place in enumerate(parts.test.tolist()):
        for row, column in np.argwhere(mask[number]).tolist():
            mask[number, row, column] = wants(samples[place], Cell(row, column))
    out: dict[str, Any] = {}
    for name, source in (
        (TRAINED_WEIGHTS, network),
        (RANDOM_WEIGHTS, untrained(network, seed=seed)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            read = capture(
                samples, source, Path(folder), layers=[layer], positions=[_POSITION_NAME]
            ).at(layer, _POSITION_NAME)
        reading = Reading(read.reshape(len(samples), -1), scenes)
        result = compare(Ridge(), reading, parts, seed=seed)
        out[name] = _auroc(result.posterior, result.position, tested, mask)
        out[POSITION] = _auroc(result.position, result.position, tested, mask)
    return out


def _auroc(posterior: Any, position: Any, scenes: Any, mask: Any) -> dict[str, Any] | None:
    rows = scores(posterior, position, scenes, {"asked": mask})
    walls = [row.auroc for row in rows if (row.cells, row.label) == ("asked", "wall")]
    return walls[0].to_json() if walls and walls[0] is not None else None
