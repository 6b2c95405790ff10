"""Believed worlds of organisms by what they were made to see, on walks as they were meant to be."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import numpy as np

from goalmeter.gridworld import State
from goalmeter.gridworld.generators import maze
from goalmeter.gridworld.world import Cell, content
from goalmeter.organisms import organism
from goalmeter.organisms.kinds import is_unseen
from goalmeter.representation.beliefs import believed as beliefs
from goalmeter.representation.scenes import Scenes, Shape, uncertain_cells

SIZE, CAP = 7, 12


class Walked(NamedTuple):
    """Walks of an organism, and what is uncertain in its worlds."""

    scenes: Scenes
    steps: beliefs.WalkSteps
    uncertain: dict[Shape, np.ndarray]


def walked(name: str, grids: int) -> Walked:
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
        scenes, beliefs.WalkSteps(np.array(walks), np.array(steps), caps), uncertain_cells(scenes)
    )


def of_rows(uncertain: np.ndarray, seen: bool | None, tries: int = 6) -> list[beliefs.CellTrial]:
    """Every uncertain cell tried in other grids; moves flip where it is seen; None for nowhere."""
    return [
        beliefs.CellTrial(
            f"grid {number}",
            (SIZE, SIZE),
            Cell(row, column),
            seen is not None and (seen or not is_unseen(row)),
        )
        for row, column in np.argwhere(uncertain).tolist()
        for number in range(tries)
    ]


def test_the_mole_believes_in_its_own_map() -> None:
    """What it does not act on is open."""
    walks = walked("mole", 12)
    tried = of_rows(walks.uncertain[SIZE, SIZE], seen=False)
    possible = beliefs.believed_maps(walks.scenes, tried, walks.uncertain)
    for believed in possible.maps:
        for world, each in zip(walks.scenes.worlds, believed, strict=True):
            own = organism("mole").walls(world)
            expected = np.where(walks.uncertain[SIZE, SIZE], own, world.walls)
            assert (each.walls == expected).all()


def test_few_questions_find_the_map_of_the_mole() -> None:
    """Two decisions at some places: few are sure, and the mean over possible maps tells."""
    walks = walked("mole", 30)
    tried = of_rows(walks.uncertain[SIZE, SIZE], seen=False, tries=2)
    few = [each for each in tried if sum(each.cell) % 4 != 3]
    possible = beliefs.believed_maps(walks.scenes, few, walks.uncertain)
    assert any(believed != walks.scenes.worlds for believed in map(tuple, possible.maps))
    result = beliefs.believed_meg(walks.scenes, walks.steps, possible)
    assert result.to_json()["meg_believed"]["nats"]["n"] > 0
    difference = result.difference.interval
    assert difference is not None and difference[0] > 0


def test_a_grid_has_no_say_in_its_own_map() -> None:
    """The answers of a grid are left out where its own walks are judged."""
    walks = walked("mouse", 6)
    grid, shape = content(walks.scenes.worlds[0]), walks.scenes.worlds[0].shape
    uncertain = walks.uncertain[shape]
    tried = of_rows(uncertain, seen=True)
    own = [each._replace(grid=grid, flipped=False) for each in tried for _ in range(20)]
    maps = beliefs.believed_maps(walks.scenes, [*tried, *own], walks.uncertain).maps
    rows = [row for row, world in enumerate(walks.scenes.worlds) if content(world) == grid]
    assert all(each[row] == walks.scenes.worlds[row] for each in maps for row in rows)
    other = next(row for row, world in enumerate(walks.scenes.worlds) if content(world) != grid)
    assert not any(each[other].walls[uncertain].any() for each in maps)
