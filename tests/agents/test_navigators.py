"""Reference agents: by hand, against their literal definitions, and by name."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from oracles import grid_world
from oracles import navigation as oracle

from goalmeter._errors import InvalidParameterError
from goalmeter.agents import play
from goalmeter.agents.grid_agents import Memoryless, navigator
from goalmeter.gridworld import State, key_door, key_no_door, maze, plan, two_paths
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, WITHOUT_KEY, planned
from goalmeter.gridworld.world import Cell, GridWorld

LEFT, RIGHT, UP, DOWN = range(4)
WORLDS = {
    **{f"maze {c} {s}": maze(7, c, s).world for c in (0, 0.5, 1) for s in range(2)},
    "maze of 9": maze(9, 0.8, 4).world,
    "key door": key_door(0),
    "key no door": key_no_door(3),
    "neutral": key_no_door(3).with_(key=None, neutral=key_no_door(3).key),
    "two paths": two_paths(1).world,
    "goal between": GridWorld.from_text(["######", "#AG_K#", "######"]),
    "closed cell": GridWorld.from_text(["######", "#A_G##", "####_#", "######"]),
}


def ours(state: grid_world.State) -> State:
    row, column, has_key, door_open = state
    layer = DOOR_OPEN if door_open else WITH_KEY if has_key else WITHOUT_KEY
    return State(Cell(row, column), layer)


def policy(name: str, world: GridWorld) -> Callable[[Cell], list[float]]:
    agent = navigator(name)
    assert isinstance(agent, Memoryless)
    rows, planned_ = agent.policy(plan(world)), plan(world)
    return lambda cell: rows[planned_.number(State(Cell(*cell)))].tolist()


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("name", oracle.AGENTS)
def test_policies_are_their_definitions(name: str, world: GridWorld) -> None:
    agent = navigator(name)
    assert isinstance(agent, Memoryless)
    picture, where = str(world).splitlines(), plan(world)
    rows = agent.policy(where)
    for state in grid_world.graph(picture):
        if oracle.at_goal(picture, state):
            continue
        expected = oracle.AGENTS[name](picture, state)
        assert rows[where.number(ours(state))] == pytest.approx(expected)


def test_by_hand() -> None:
    # The goal is one column to the right, behind a wall: a compass walks into the dead end.
    world = GridWorld.from_text(["#######", "#A__#G#", "#_#_#_#", "#_#_#_#", "#_____#", "#######"])
    compass, best = policy("greedy", world), policy("optimal", world)
    any_ = policy("random", world)
    assert compass((1, 1)) == [0, 1, 0, 0]  # right is nearer, down is farther
    assert best((1, 1)) == [0, 0.5, 0, 0.5]
    assert compass((1, 3)) == [0.5, 0, 0, 0.5]  # nothing is nearer: any open neighbour
    assert best((1, 3)) == [0, 0, 0, 1]
    assert compass((4, 1)) == [0, 0.5, 0.5, 0]
    assert any_((1, 2)) == [0.5, 0.5, 0, 0]
    assert policy("epsilon-optimal(0.2)", world)((1, 3)) == pytest.approx([0.1, 0, 0, 0.9])
    # Gaps at the top right of the dead end: left costs 2 steps, walls cost 1, down none.
    e = np.exp
    expected = np.array([e(-2), e(-1), e(-1), 1]) / (e(-2) + 2 * e(-1) + 1)
    assert policy("boltzmann(1)", world)((1, 3)) == pytest.approx(expected)
    assert policy("boltzmann(0)", world)((1, 3)) == [0.25] * 4
    assert policy("boltzmann(800)", world)((1, 3)) == [0, 0, 0, 1]


@pytest.mark.parametrize("name", ["maze 1 0", "maze 0.5 1", "two paths", "key door", "maze 0 0"])
def test_the_wall_follower_is_its_definition(name: str) -> None:
    world = WORLDS[name]
    picture, where = str(world).splitlines(), plan(world)
    walking = navigator("wall-follower").begin(world, Draws(0))
    walk = [(*world.start, False, False)]
    for _ in range(60):
        if oracle.at_goal(picture, walk[-1]):
            break
        decision = walking.act(ours(walk[-1]))
        assert decision.action == oracle.wall_follower(picture, walk)
        assert decision.action is not None and decision.probabilities is not None
        assert decision.probabilities[decision.action] == sum(decision.probabilities) == 1
        walk.append(grid_world.step(picture, walk[-1], decision.action))
        assert ours(walk[-1]) == where.step(ours(walk[-2]), decision.action)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("boltzmann", "boltzmann requires an inverse temperature: boltzmann(BETA), such as"),
        ("boltzmann(hot)", "the agent is 'boltzmann(hot)', expected boltzmann(BETA) with a number"),
        ("epsilon-optimal(1.5)", "epsilon is 1.5, expected a probability, 0 to 1"),
        ("optimal(2)", "the agent is 'optimal(2)', but optimal takes no argument"),
    ],
)
def test_errors(name: str, message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        navigator(name)
    assert message in str(caught.value)


def test_an_optimal_agent_takes_the_shortest_way() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("minigrid")
    env = gymnasium.make("goalmeter/Maze-v0", size=7, complexity=1.0, reward="step")
    episodes = play(navigator("optimal"), env, episodes=3, seed=4)
    assert len({episode.world for episode in episodes}) == 3
    for episode in episodes:
        assert episode.terminated
        assert len(episode.actions) == planned(episode.world).distance == -episode.total_reward


def test_an_agent_that_remembers_plays_through_wrappers_and_is_the_same_again() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    make = "goalmeter/KeyDoor-v0"
    env = gymnasium.wrappers.FlattenObservation(gymnasium.make(make, max_steps=30))
    first = play(navigator("wall-follower"), env, episodes=2, seed=1)
    assert first == play(navigator("wall-follower"), env, episodes=2, seed=1)
    assert all(episode.terminated or len(episode.actions) == 30 for episode in first)


def test_other_environments_are_refused() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    with pytest.raises(InvalidParameterError, match="is not a grid world for greedy, expected"):
        play(navigator("greedy"), gymnasium.make("FrozenLake-v1"))
