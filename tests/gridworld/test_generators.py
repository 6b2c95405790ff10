"""Mazes and key worlds: the published rules, and the same grid for ever."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from goalmeter.gridworld.generators import Draws, carved, key_door, maze, two_paths
from goalmeter.gridworld.planner import plan
from goalmeter.gridworld.world import Cell, GridWorld

SIZES = (5, 7, 9, 11, 13, 15)
COMPLEXITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def open_graph(walls: np.ndarray) -> networkx.Graph:
    out = networkx.Graph()
    for r, c in np.argwhere(~walls):
        out.add_node((r, c))
        for to in ((r + 1, c), (r, c + 1)):
            if not walls[to]:
                out.add_edge((r, c), to)
    return out


@pytest.mark.parametrize("size", SIZES)
def test_how_many_walls_are_kept(size: int) -> None:
    """Section 1.1 of the facts: of the w inner walls of the maze floor((1 - c) w) are opened."""
    assert networkx.is_tree(open_graph(carved(size, 1.0, Draws(3))))
    lattice = ((size - 1) // 2) ** 2
    inner = (size - 2) ** 2 - (2 * lattice - 1)
    for complexity in COMPLEXITIES:
        walls = carved(size, complexity, Draws(3))
        assert walls[1:-1, 1:-1].sum() == inner - int((1 - complexity) * inner)
        assert walls[0].all() and walls[-1].all() and walls[:, 0].all() and walls[:, -1].all()


@pytest.mark.slow
def test_published_path_lengths() -> None:
    """Mean shortest paths of a simulation: 3.4 and 8.5 in empty rooms of 7 and 15, 5.5 and 27.0 in
    perfect mazes; four standard errors of ours."""
    for size, complexity, mean in ((7, 0, 3.4), (15, 0, 8.5), (7, 1, 5.5), (15, 1, 27.0)):
        lengths = np.array([maze(size, complexity, seed).distance for seed in range(300)])
        assert lengths.mean() == pytest.approx(mean, abs=4 * lengths.std() / np.sqrt(300) + 0.05)


GOLDEN = {
    (7, 1.0, 0): """
        #######
        #A__G_#
        #_###_#
        #_#_#_#
        #_#_#_#
        #_#___#
        #######
    """,
    (5, 0.5, 3): """
        #####
        #_#_#
        #_AG#
        #___#
        #####
    """,
    (9, 0.4, 1): """
        #########
        #_______#
        #__###__#
        #_______#
        #_#_#___#
        #__A____#
        #_#_#__##
        #____G__#
        #########
    """,
}


@pytest.mark.parametrize(("size", "complexity", "seed"), GOLDEN)
def test_a_seed_gives_the_same_grid_for_ever(size: int, complexity: float, seed: int) -> None:
    assert str(maze(size, complexity, seed).world).split() == GOLDEN[size, complexity, seed].split()


@pytest.mark.parametrize("complexity", COMPLEXITIES)
def test_distances_and_detours_are_those_of_a_library(complexity: float) -> None:
    for seed in range(10):
        made = maze(11, complexity, seed)
        start, goal = made.world.start, made.world.goal
        length = networkx.shortest_path_length(open_graph(made.world.walls), start, goal)
        assert made.distance == length > 0
        assert made.detour == length - abs(start[0] - goal[0]) - abs(start[1] - goal[1])
        assert made.detour >= 0 and made.detour % 2 == 0
        assert made.detour == 0 if complexity == 0 else True


def test_choices_are_uniform_and_their_stream_is_fixed() -> None:
    draws = Draws("a", 1)
    assert [draws.below(1000) for _ in range(5)] == [161, 116, 247, 173, 937]
    counts = np.bincount([Draws(seed).below(3) for seed in range(3000)])
    assert np.abs(counts - 1000).max() < 4 * np.sqrt(3000 * 2 / 9)
    orders = []
    for seed in range(1200):
        items = [0, 1, 2]
        Draws("order", seed).shuffle(items)
        orders.append(tuple(items))
    assert len(set(orders)) == 6
    assert max(abs(orders.count(o) - 200) for o in set(orders)) < 4 * np.sqrt(1200 * 5 / 36)


SEEDS = range(20)


def graph(world: GridWorld, *shut: Cell) -> networkx.Graph:
    walls = world.walls.copy()
    for cell in shut:
        walls[cell] = True
    return open_graph(walls)


@pytest.mark.parametrize(("rooms", "size"), [(2, 9), (3, 13)])
def test_key_and_door(rooms: int, size: int) -> None:
    for seed in SEEDS:
        world = key_door(seed, rooms=rooms)
        assert world.shape == (size, size)
        assert world.door is not None and world.key is not None
        # Rooms of 3 x 3 in a tree of doorways: one fewer than rooms, each within a wall.
        inside = [c for c in world.open_cells if c.row % 4 and c.column % 4]
        assert len(inside) == 9 * rooms**2
        assert len(world.open_cells) - len(inside) == rooms**2 - 1
        assert world.door not in inside
        assert {world.start, world.goal, world.key} <= set(inside)
        assert networkx.is_connected(graph(world))
        shut = graph(world, world.door)
        assert not networkx.has_path(shut, world.start, world.goal)
        assert networkx.has_path(shut, world.start, world.key)
        assert plan(world).distance > 0


def test_two_paths() -> None:
    seen = set()
    for seed in SEEDS:
        made = two_paths(seed)
        world = made.world
        seen.add((made.layout, made.separation, world.key in made.key_route))
        assert world.shape == (11, 11)
        assert made.control == world.with_(key=None)
        assert world.key in made.key_route
        assert not made.key_route & made.other_route
        assert len(made.key_route) == len(made.other_route)
        ways = list(networkx.all_shortest_paths(graph(world), world.start, world.goal))
        assert (
            len(ways)
            == 2
            == len(list(networkx.all_simple_paths(graph(world), world.start, world.goal)))
        )
        # Each way holds one of the routes whole, and nothing of the other.
        routes = [frozenset(way) & (made.key_route | made.other_route) for way in ways]
        assert set(routes) == {made.key_route, made.other_route}
        # Both are open from the fork: neither is a step shorter.
        assert plan(world).distance == plan(made.control).distance == len(ways[0]) - 1
    assert len(seen) > 4


def test_a_seed_gives_the_same_world_for_ever() -> None:
    assert str(key_door(0)).replace("\n", "/") == (
        "#########/#AK_#___#/#_______#/#___#___#/#####D###/#___#___#/#__G#___#/#_______#/#########"
    )
    assert str(two_paths(5).world).splitlines()[3:6] == [
        "##_______##",
        "##K#####_##",
        "#A_#####_G#",
    ]
