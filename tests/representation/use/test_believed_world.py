"""Believed worlds of organisms by what they were made to see, on walks as they were meant to be."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np
import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld import GridWorld, State
from goalmeter.gridworld.maze import maze
from goalmeter.gridworld.world import Cell
from goalmeter.organisms import organism
from goalmeter.organisms.kinds import is_unseen
from goalmeter.representation.believed import WalkSteps
from goalmeter.representation.scenes import Scenes, Shape, uncertain_cells
from goalmeter.representation.use.believed_world import (
    believed_by_use,
    believed_worlds,
    usual_walls,
)
from goalmeter.representation.use.cells import TargetCell
from goalmeter.representation.use.outcomes import Outcome
from goalmeter.representation.use.used_cells import UsedCells, used_cells

SIZE, CAP = 7, 12


class Walked(NamedTuple):
    """Walks of an organism, and what is uncertain in its worlds."""

    scenes: Scenes
    steps: WalkSteps
    uncertain: dict[Shape, np.ndarray]

    @property
    def decoded(self) -> list[GridWorld]:
        """Maps without a mistake, on which the agent is where it is."""
        worlds = zip(self.scenes.worlds, self.scenes.states, strict=True)
        return [GridWorld(world.walls, state.cell, world.goal) for world, state in worlds]


def walked(name: str, grids: int = 40) -> Walked:
    random, kind = Random(0), organism(name)
    worlds, states, actions, walks, steps = [], [], [], [], []
    for number in range(grids):
        world = maze(SIZE, 0.6, seed=number).world
        at = State(world.start)
        for step in range(CAP):
            if at.cell == world.goal:
                break
            action = random.choices(range(4), kind.intended(world, at))[0]
            worlds.append(world)
            states.append(at)
            actions.append(action)
            walks.append(number)
            steps.append(step)
            after = at.cell.moved(action)
            at = at if world.walls[after] else State(after)
    scenes = Scenes.of(worlds, states, actions)
    caps = np.full(len(walks), CAP)
    return Walked(
        scenes, WalkSteps(np.array(walks), np.array(steps), caps), uncertain_cells(scenes)
    )


def of_rows(uncertain: np.ndarray, seen: bool | None) -> UsedCells:
    """Every uncertain cell tried six times; moves flip at those that are seen; None for nowhere."""
    outcomes = []
    for row, column in np.argwhere(uncertain).tolist():
        flips = seen is not None and (seen or not is_unseen(row))
        target = TargetCell(Cell(row, column), True, (1,), (3,))
        outcomes += [
            Outcome(f"walk {n}", 0, f"grid {n}", (SIZE, SIZE), target, 1, 3 if flips else 1)
            for n in range(6)
        ]
    return used_cells(outcomes)


def test_the_mole_believes_in_its_own_map() -> None:
    """What it does not act on is open; there it is more directed than in truth and on what is
    merely decoded.
    """
    walks = walked("mole")
    used = of_rows(walks.uncertain[SIZE, SIZE], seen=False)
    worlds = believed_worlds(walks.decoded, used, walks.uncertain)
    for world, believed in zip(walks.scenes.worlds, worlds, strict=True):
        assert believed is not None
        own = organism("mole").walls(world)
        expected = np.where(walks.uncertain[SIZE, SIZE], own, world.walls)
        assert (believed.walls == expected).all()
    result = believed_by_use(walks.scenes, walks.steps, walks.decoded, used, walks.uncertain)
    assert result.variant == "open" and result.changed > 0.5
    difference = result.confirmed.difference.interval
    assert difference is not None and difference[0] > 0
    beyond = result.confirmed.beyond["decoded"].interval
    assert beyond is not None and beyond[0] > 0
    assert result.screened["open"].value > result.screened["position"].value
    assert result.to_json()["confirmed"]["controls"]["decoded"]["nats"]["n"] > 0


def test_the_mouse_believes_in_the_true_map() -> None:
    walks = walked("mouse", 16)
    used = of_rows(walks.uncertain[SIZE, SIZE], seen=True)
    result = believed_by_use(walks.scenes, walks.steps, walks.decoded, used, walks.uncertain)
    assert result.changed == 0
    assert result.confirmed.difference.value == pytest.approx(0, abs=1e-6)


def test_nothing_of_the_moth_is_used() -> None:
    walks = walked("moth", 16)
    used = of_rows(walks.uncertain[SIZE, SIZE], seen=None)
    worlds = believed_worlds(walks.decoded, used, walks.uncertain)
    uncertain = walks.uncertain[SIZE, SIZE]
    assert all(world is not None and not world.walls[uncertain].any() for world in worlds)
    usual = usual_walls(walks.scenes)
    closed = believed_worlds(walks.decoded, used, walks.uncertain, usual)
    first, world = closed[0], walks.decoded[0]
    assert first is not None
    expected = np.where(uncertain, usual[SIZE, SIZE], world.walls)
    for thing in (world.start, world.goal):
        expected[thing] = False
    assert (first.walls == expected).all()


def test_unknown_cells_and_missing_maps_stay_as_they_are() -> None:
    walks = walked("mouse", 4)
    nothing = used_cells([])
    decoded: list[GridWorld | None] = [None, *walks.decoded[1:]]
    worlds = believed_worlds(decoded, nothing, walks.uncertain)
    assert worlds[0] is None
    assert all(
        (a.walls == b.walls).all()
        for a, b in zip(worlds[1:], decoded[1:], strict=True)
        if a is not None and b is not None
    )


def test_lists_of_other_lengths_and_empty_halves_are_refused() -> None:
    walks = walked("mouse", 1)
    arguments = (used_cells([]), walks.uncertain)
    with pytest.raises(InvalidParameterError, match="decoded worlds for"):
        believed_by_use(walks.scenes, walks.steps, walks.decoded[1:], *arguments)
    with pytest.raises(InvalidParameterError, match=r"a grid of the \w+ half; take more grids"):
        believed_by_use(walks.scenes, walks.steps, walks.decoded, *arguments)
