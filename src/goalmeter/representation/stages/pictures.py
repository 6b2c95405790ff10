"""Some states to be looked at: the true grid beside the decoded one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalmeter._json import json_value
from goalmeter._types import BoolArray
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.text import symbols_at
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.representation.result_rows import StatePicture
from goalmeter.representation.rows import row_from
from goalmeter.representation.scenes import WALL, Shape
from goalmeter.representation.stages.captures import Captured
from goalmeter.representation.stages.worlds import DecodedWorlds, Decoding
from goalmeter.runs import Stages

# The share of moves that flip when a cell at a place is changed, by the shape of the world.
UsedPlaces = Mapping[Shape, Mapping[Cell, float]]
STATES = 8


def picture_stage(stages: Stages, decoding: Decoding, used: UsedPlaces) -> tuple[StatePicture, ...]:
    """Some states; those that know of no use are kept apart from those that do."""
    key = decoding.key("states")

    def made() -> Any:
        return json_value(_pictures(decoding.captures, decoding.worlds, used, decoding.seed))

    value = stages.value(f"{key}/used" if used else key, made)
    return tuple(row_from(StatePicture, row) for row in value)


def _pictures(
    captures: Captured, worlds: DecodedWorlds, used: UsedPlaces, seed: int
) -> tuple[StatePicture, ...]:
    """States of different grids, drawn at random: half where truth and decoded map disagree.

    Where they agree there is little to see, and where they disagree is no fair sample, so a page
    shows both.
    """
    scenes, maps = worlds.scenes, worlds.maps
    order = list(range(len(scenes)))
    Draws("states to be shown", seed).shuffle(order)
    differ = (scenes.optimal != maps.optimal).any(axis=1)
    chosen: list[int] = []
    for kind in (True, False):
        grids = {int(scenes.grids[number]) for number in chosen}
        wanted = STATES // 2 if kind else STATES
        for number in order:
            grid = int(scenes.grids[number])
            if differ[number] == kind and grid not in grids and len(chosen) < wanted:
                grids.add(grid)
                chosen.append(number)
    return tuple(_picture(captures, worlds, used, number) for number in chosen)


def _picture(
    captures: Captured, worlds: DecodedWorlds, used: UsedPlaces, number: int
) -> StatePicture:
    scenes, maps = worlds.scenes, worlds.maps
    sample = captures.samples[int(captures.rows[number])]
    world = scenes.worlds[number]
    rows, columns = world.shape
    places = used.get(world.shape, {})
    wall = maps.posterior[number, :rows, :columns, WALL]
    return StatePicture(
        sample.walk,
        sample.step,
        _drawn(world, scenes.states[number]),
        () if (inner := maps.worlds[number]) is None else _drawn(inner, State(inner.start)),
        tuple(tuple(round(float(p), 4) for p in row) for row in wall),
        tuple(
            tuple(places.get(Cell(row, column)) for column in range(columns)) for row in range(rows)
        ),
        scenes.actions[number],
        _actions(scenes.optimal[number]),
        _actions(maps.optimal[number]),
    )


def _drawn(world: GridWorld, state: State) -> tuple[str, ...]:
    return tuple("".join(row) for row in symbols_at(world, state))


def _actions(optimal: BoolArray) -> tuple[int, ...]:
    return tuple(action for action in range(len(ACTIONS)) if optimal[action])
