"""The map on which an agent acts: agents that see all walls, some of them, or look at none."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.walk_measures import right_on_one_map

from goalmeter.agents.grid_agents import Navigator, navigator
from goalmeter.agents.user_agents import navigator_of
from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.planner import State
from goalmeter.navigation.acted_maps import (
    ANOTHER_MAP,
    THE_WORLD,
    MovesOnMaps,
    OpenedMap,
    acted_map,
    mapped,
)
from goalmeter.navigation.agent_walks import walk_plan, walker_of
from goalmeter.navigation.measure import Navigation, navigation_of
from goalmeter.navigation.rollouts import play_all

MAZES = {"sizes": (7,), "complexities": (0.5, 1.0), "grids": 12, "trajectories": 1, "seed": 3}


def walked(walker: Navigator, name: str) -> Navigation:
    return navigation_of(play_all(walk_plan(name, "maze", **MAZES), walker=walker))


def test_a_map_without_the_walls_of_a_row_is_recognised() -> None:
    acted = acted_map([walked(walker_of("ideal-mole"), "ideal-mole")])
    assert acted.verdict == ANOTHER_MAP
    assert str(acted.candidate) == "without the inner walls of row 2"
    assert acted.follows is not None and acted.follows.interval is not None
    # The interval can be recomputed from the counts of each grid.
    shares = [right / both for right, both in acted.counts.values() if both]
    assert acted.follows.value == pytest.approx(np.mean(shares))


def test_an_agent_that_sees_all_walls_acts_on_the_true_map() -> None:
    acted = acted_map([walked(walker_of("ideal-mouse"), "ideal-mouse")])
    assert acted.verdict == THE_WORLD and acted.words == ""


def test_even_moves_fit_any_map_by_half() -> None:
    """Half is the value of an agent without a goal, though it runs into walls as well."""

    def even(world: GridWorld, state: State) -> list[float]:
        return [0.25, 0.25, 0.25, 0.25]

    acted = acted_map([walked(navigator_of(even, "even"), "even")])
    assert acted.follows is not None and acted.follows.interval is not None
    assert acted.verdict == "inconclusive"
    low, high = acted.follows.interval
    assert low < 0.5 < high


@pytest.mark.parametrize("opened", [OpenedMap(rows=frozenset({2})), OpenedMap(every=True)])
def test_moves_count_for_the_map_on_which_they_are_right(opened: OpenedMap) -> None:
    seen = walked(navigator("epsilon-optimal(0.5)"), "epsilon-optimal(0.5)").seen
    moves = MovesOnMaps([seen])
    expected = np.zeros((len(moves.names), 2))
    for walk, grid in zip(seen.trajectories, seen.grid, strict=True):
        picture = str(mapped(walk.world, opened)).splitlines()
        expected[grid] += right_on_one_map(walk.to_json(), picture)
    assert expected.sum() > 0
    np.testing.assert_array_equal(moves.sides(opened), expected)


def test_opened_maps_lack_inner_walls_only() -> None:
    world = GridWorld.from_text("#####\n#A#_#\n#_#_#\n#__G#\n#####")
    opened = mapped(world, OpenedMap(rows=frozenset({1})))
    assert not opened.walls[1, 1:-1].any() and opened.walls[2, 2]
    assert opened.walls[0].all() and opened.walls[:, 0].all()
    assert not mapped(world, OpenedMap(every=True)).walls[1:-1, 1:-1].any()
