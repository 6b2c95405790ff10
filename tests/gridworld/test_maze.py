"""Mazes: the published rules, the same grid for ever, starts and goals as asked for."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from goalmeter.gridworld.generators import Draws, carved, maze

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
def test_complexity_1_is_a_perfect_maze_and_0_an_empty_room(size: int) -> None:
    for seed in range(5):
        perfect = carved(size, 1.0, Draws(seed))
        assert networkx.is_tree(open_graph(perfect))
        assert not perfect[1::2, 1::2].any() and perfect[::2, ::2].all()
        assert not carved(size, 0.0, Draws(seed))[1:-1, 1:-1].any()


@pytest.mark.parametrize("complexity", COMPLEXITIES)
@pytest.mark.parametrize("size", SIZES)
def test_how_many_walls_are_kept(size: int, complexity: float) -> None:
    """Section 1.1 of the facts: of the w inner walls of the maze floor((1 - c) w) are opened."""
    lattice = ((size - 1) // 2) ** 2
    inner = (size - 2) ** 2 - (2 * lattice - 1)
    walls = carved(size, complexity, Draws(3))
    assert walls[1:-1, 1:-1].sum() == inner - int((1 - complexity) * inner)
    assert walls[0].all() and walls[-1].all() and walls[:, 0].all() and walls[:, -1].all()


def test_published_wall_densities() -> None:
    """0.32, 0.37, 0.40, 0.41 and 0.43 at complexity 1."""
    for size, density in zip(SIZES[1:], (0.32, 0.37, 0.40, 0.41, 0.43), strict=True):
        inner = carved(size, 1.0, Draws(0))[1:-1, 1:-1]
        assert inner.mean() == pytest.approx(density, abs=0.005)


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
