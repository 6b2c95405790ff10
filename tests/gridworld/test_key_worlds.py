"""Worlds with a key: what the published rules say of them, for many seeds."""

from __future__ import annotations

import networkx
import pytest

from goalmeter.gridworld.generators import key_door, two_paths
from goalmeter.gridworld.planner import plan
from goalmeter.gridworld.world import GridWorld

SEEDS = range(60)


def graph(world: GridWorld, *shut: object) -> networkx.Graph:
    out = networkx.Graph()
    for cell in world.open_cells:
        if cell not in shut:
            out.add_node(cell)
    for cell in list(out):
        for action in (1, 3):
            if cell.moved(action) in out:
                out.add_edge(cell, cell.moved(action))
    return out


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
    assert len(seen) == 6


def test_a_seed_gives_the_same_world_for_ever() -> None:
    assert str(key_door(0)).replace("\n", "/") == (
        "#########/#AK_#___#/#_______#/#___#___#/#####D###/#___#___#/#__G#___#/#_______#/#########"
    )
    assert str(two_paths(5).world).splitlines()[3:6] == [
        "##_______##",
        "##K#####_##",
        "#A_#####_G#",
    ]
