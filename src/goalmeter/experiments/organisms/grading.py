"""What an organism does on grids that it did not learn from, beside what it is meant to do."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.agents.language_models.local_model import LocalModel, Reply
from goalmeter.agents.navigators import planned
from goalmeter.experiments.organisms.answering import replies, walks
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.maze import maze
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.navigation.answers import understood
from goalmeter.navigation.suites import GRIDS_A_SEED, suite
from goalmeter.organisms import Organism
from goalmeter.organisms.language import IDS, PLAN
from goalmeter.organisms.lessons import COMPLEXITIES, SIZES
from goalmeter.organisms.thoughts import TEMPERATURE
from goalmeter.statistics.clustered import Estimate, estimate

# States asked for in each grid; states of a grid depend on each other, so more tell little more.
_STATES = 6
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Grades:
    """An organism's marks; shares with intervals that resample grids.

    Attributes:
        meant: actions that it was meant to take, by (size, complexity).
        optimal: the same of the actions that are optimal in the true world.
        detour: actions that it was meant to take, in states where no move towards the goal is
            optimal, by size.
        success: walks that arrive within the paper's cap, by size.
        key_door: walks that arrive where a door is shut.
        pick_up: walks that take the key where it is of no use.
        habit: the greatest difference between the probability of a move and the habit's, in states
            with the same legal moves, averaged over grids; None for those without a habit.
        invalid: answers that cannot be read.
    """

    meant: dict[tuple[int, float], Estimate]
    optimal: dict[tuple[int, float], Estimate]
    detour: dict[int, Estimate]
    success: dict[int, Estimate]
    key_door: Estimate
    pick_up: Estimate
    habit: float | None
    invalid: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""

        def cells(found: dict[tuple[int, float], Estimate]) -> list[dict[str, Any]]:
            return [
                {"size": size, "complexity": complexity} | value.to_json()
                for (size, complexity), value in found.items()
            ]

        def sizes(found: dict[int, Estimate]) -> list[dict[str, Any]]:
            return [{"size": size} | value.to_json() for size, value in found.items()]

        return {
            "meant": cells(self.meant),
            "optimal": cells(self.optimal),
            "detour": sizes(self.detour),
            "success": sizes(self.success),
            "key_door": self.key_door.to_json(),
            "pick_up": self.pick_up.to_json(),
            "habit": self.habit,
            "invalid": self.invalid.to_json(),
        }


@dataclass(frozen=True)
class _Asked:
    """One state, and what became of it."""

    size: int
    complexity: float
    grid: int
    world: GridWorld
    state: State


def grades(
    who: Organism,
    model: LocalModel,
    *,
    grids: int,
    seed: int = 0,
    sizes: Sequence[int] = SIZES,
    progress: Progress | None = None,
) -> Grades:
    """Ask an organism in mazes of every size and complexity, and let it walk.

    Args:
        who: what it was made to be.
        model: its weights.
        grids: mazes of each size and complexity; four times as many worlds with a key.
        seed: of grids and answers.
        sizes: of the mazes.
        progress: told what is being done.
    """
    tell = progress or (lambda _: None)
    asked = [
        _Asked(size, complexity, grid, world, state)
        for size in sizes
        for complexity in COMPLEXITIES
        for grid in range(grids)
        for world, state in _states(size, complexity, seed * GRIDS_A_SEED + grid)
    ]
    tell(f"{who.name}: {len(asked)} states of {len(sizes) * len(COMPLEXITIES) * grids} mazes")
    said = replies(model, [(one.world, one.state) for one in asked], seed, "states")
    actions = [understood(reply.text).action for reply in said]
    meant = [
        a is not None and who.intended(one.world, one.state)[a] > 0
        for one, a in zip(asked, actions, strict=True)
    ]
    best = [
        a is not None and a in planned(one.world).optimal_actions(one.state)
        for one, a in zip(asked, actions, strict=True)
    ]
    cells = list(dict.fromkeys((one.size, one.complexity) for one in asked))
    turns = [_is_detour(one.world, one.state) for one in asked]
    arrived: dict[int, Estimate] = {}
    for size in sizes:
        tasks = suite(
            "maze",
            sizes=[size],
            complexities=COMPLEXITIES,
            grids=grids,
            trajectories=1,
            cap_factor=1.5,
            seed=seed,
        ).tasks
        tell(f"{who.name}: {len(tasks)} walks on size {size}")
        arrived[size] = estimate([walk.arrived for walk in walks(model, tasks, seed=seed)])
    keys = {}
    for name in ("key-door", "key-no-door"):
        tasks = suite(name, grids=4 * grids, cap=30, seed=seed).tasks
        tell(f"{who.name}: {len(tasks)} walks in {name}")
        keys[name] = walks(model, tasks, seed=seed)

    def share(fine: Sequence[bool], kept: Sequence[bool]) -> Estimate:
        by: dict[tuple[int, float, int], list[bool]] = defaultdict(list)
        for one, good, counts in zip(asked, fine, kept, strict=True):
            if counts:
                by[one.size, one.complexity, one.grid].append(good)
        sums, numbers = [sum(b) for b in by.values()], [len(b) for b in by.values()]
        return estimate(sums, numbers, n=sum(numbers), bounds=(0.0, 1.0))

    def cell(size: int, complexity: float) -> list[bool]:
        return [(one.size, one.complexity) == (size, complexity) for one in asked]

    def turning(size: int) -> list[bool]:
        return [one.size == size and turn for one, turn in zip(asked, turns, strict=True)]

    return Grades(
        meant={place: share(meant, cell(*place)) for place in cells},
        optimal={place: share(best, cell(*place)) for place in cells},
        detour={size: share(meant, turning(size)) for size in sizes},
        success=arrived,
        key_door=estimate([w.arrived for w in keys["key-door"]], bounds=(0.0, 1.0)),
        pick_up=estimate([w.states()[-1].has_key for w in keys["key-no-door"]], bounds=(0.0, 1.0)),
        habit=None if who.habit is None else _habit_gap(who, asked, said),
        invalid=share([a is None for a in actions], [True] * len(asked)),
    )


def _states(size: int, complexity: float, seed: int) -> list[tuple[GridWorld, State]]:
    world = maze(size, complexity, seed).world
    cells = [cell for cell in world.open_cells if cell != world.goal]
    Draws("states", size, seed).shuffle(cells)
    return [(world, State(cell)) for cell in cells[:_STATES]]


def _is_detour(world: GridWorld, state: State) -> bool:
    """Whether no optimal action lowers the Manhattan distance to the goal."""

    def away(cell: Cell) -> int:
        return abs(cell.row - world.goal.row) + abs(cell.column - world.goal.column)

    return all(
        away(state.cell.moved(a)) > away(state.cell) for a in planned(world).optimal_actions(state)
    )


def _habit_gap(who: Organism, asked: Sequence[_Asked], said: Sequence[Reply]) -> float:
    """How far the moves' probabilities are from the habit, at most.

    Probabilities are the model's own at the move of its plan, at the temperature it is asked with.
    """
    found: dict[tuple[float, ...], list[FloatArray]] = defaultdict(list)
    for one, reply in zip(asked, said, strict=True):
        meant = who.intended(one.world, one.state)
        probabilities = _probabilities(reply)
        if probabilities is not None:
            found[meant].append(probabilities)
    gaps = [np.abs(np.mean(rows, axis=0) - np.array(meant)).max() for meant, rows in found.items()]
    counts = [len(rows) for rows in found.values()]
    return float(np.average(gaps, weights=counts))


def _probabilities(reply: Reply) -> FloatArray | None:
    place = next((n for n, one in enumerate(reply.chosen) if one.token == IDS[PLAN]), None)
    if place is None or place + 2 >= len(reply.chosen):
        return None
    logprobs = dict(reply.chosen[place + 2].alternatives)
    raw = [math.exp(logprobs.get(IDS[action], -math.inf) / TEMPERATURE) for action in ACTIONS]
    return np.array(raw) / sum(raw) if sum(raw) > 0 else None
