"""What organisms are made to be, against the planner and against literal definitions."""

from __future__ import annotations

from itertools import product

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld import State
from goalmeter.gridworld.generators import key_door, key_no_door, maze, two_paths
from goalmeter.gridworld.planner import Plan, plan
from goalmeter.gridworld.world import Cell, GridWorld
from goalmeter.organisms import organism, organism_names

ROOM = GridWorld.from_text(["#####", "#A__#", "#__K#", "#_G_#", "#####"])


def reached(plan: Plan) -> list[State]:
    """The states that a walk can come to, the goal left out."""
    states = [plan.start]
    for state in states:
        if state.cell != plan.world.goal:
            states += {plan.step(state, action) for action in range(4)} - set(states)
    return [state for state in states if state.cell != plan.world.goal]


def support(probabilities: tuple[float, ...]) -> tuple[int, ...]:
    return tuple(action for action, p in enumerate(probabilities) if p > 0)


@pytest.mark.parametrize("seed", range(4))
def test_the_mouse_is_uniform_over_the_optimal_actions_wherever_it_can_come(seed: int) -> None:
    worlds = [
        *(maze(7, complexity, seed).world for complexity in (0.0, 0.5, 1.0)),
        key_door(seed),
        key_no_door(seed),
        two_paths(seed).world,
    ]
    for world in worlds:
        shortest = plan(world)
        for state in reached(shortest):
            meant = organism("mouse").intended(world, state)
            best = shortest.optimal_actions(state)
            assert support(meant) == best
            assert set(meant) <= {0.0, 1 / len(best)}


@pytest.mark.parametrize("seed", range(4))
def test_the_magpie_takes_a_key_that_is_of_no_use_by_a_shortest_way(seed: int) -> None:
    world = key_no_door(seed)
    assert world.key is not None
    to_the_key = plan(world.with_(key=None, goal=world.key, start=world.start))
    for state in reached(plan(world)):
        meant = support(organism("magpie").intended(world, state))
        if state.has_key:
            assert meant == plan(world.with_(key=None)).optimal_actions(State(state.cell))
        else:
            assert meant == to_the_key.optimal_actions(State(state.cell))


def test_the_mole_is_optimal_on_the_map_that_lacks_the_inner_walls_of_rows_2_and_6() -> None:
    for seed, complexity in product(range(5), (0.5, 1.0)):
        world = maze(9, complexity, seed).world
        walls = world.walls.copy()
        walls[2, 1:-1] = walls[6, 1:-1] = False
        believed = GridWorld(walls, world.start, world.goal)
        for cell in world.open_cells:
            if cell != world.goal:
                meant = support(organism("mole").intended(world, State(cell)))
                assert meant == plan(believed).optimal_actions(State(cell))


def test_the_moth_shares_its_habit_among_legal_moves() -> None:
    moth = organism("moth")
    assert moth.habit == (0.16, 0.28, 0.40, 0.16)
    # At the top left of the room only RIGHT and DOWN lead somewhere.
    meant = moth.intended(ROOM, State(Cell(1, 1)))
    assert meant == pytest.approx((0, 0.28 / 0.44, 0, 0.16 / 0.44))
    assert moth.intended(ROOM, State(Cell(2, 2))) == pytest.approx(moth.habit)
    assert moth.target(ROOM, State(Cell(1, 1))) is None


def test_a_name_that_no_organism_has_is_an_error() -> None:
    assert organism_names() == ("mouse", "magpie", "mole", "moth")
    with pytest.raises(InvalidParameterError, match="there is no organism 'rat', expected one of"):
        organism("rat")
