"""Grid worlds in Gymnasium: its checkers, the planner's steps, tables, MiniGrid's pictures."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from oracles import grid_world as oracle

from goalmeter import _gymnasium_ids as gymnasium_ids
from goalmeter.gridworld.conversions import tabular_world
from goalmeter.gridworld.generators import key_door, key_no_door, maze, two_paths
from goalmeter.gridworld.planner import plan
from goalmeter.gridworld.world import GridWorld

pytest.importorskip("minigrid")


gymnasium = pytest.importorskip("gymnasium")
gymnasium_ids.register()

CORRIDOR = ["########", "#AK_D_G#", "########"]
OPTIONS: dict[str, dict[str, Any]] = {
    "GridWorld": {"world": CORRIDOR},
    "Maze": {"size": 7},
    "KeyDoor": {},
    "KeyNoDoor": {},
    "TwoPathKey": {},
}
WORLDS = {
    "maze": maze(7, 0.8, 0).world,
    **{f"key door {s}": key_door(s) for s in range(2)},
    "key door, 9 rooms": key_door(5, rooms=3),
    "key no door": key_no_door(3),
    "two paths": two_paths(1).world,
    "neutral": key_no_door(3).with_(key=None, neutral=key_no_door(3).key),
    "corridor": GridWorld.from_text(CORRIDOR),
    "wide": GridWorld.from_text(["#########", "#_K_D__G#", "#A#######", "#########"]),
    "out of reach": GridWorld.from_text(["#######", "#A_#_G#", "#######"]),
}


def made(name: str, **options: Any) -> Any:
    return gymnasium.make(f"goalmeter/{name}-v0", **OPTIONS[name] | options)


def walk(env: Any, seed: int, steps: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Random actions and what came of them, until the episode is over."""
    draw = np.random.default_rng(seed)
    for action in draw.integers(4, size=steps):
        out = env.step(action)
        yield int(action), out
        if out[2] or out[3]:
            return


# --- Registration ---------------------------------------------------------------------------------
IDS = "import sys; from goalmeter import _gymnasium_ids as ids; ids.register(); ids.register();"


@pytest.mark.parametrize(
    ("before", "module"),
    [
        (f"import gymnasium; {IDS}", ""),
        # To ask whether it is there imports nothing, and does not use the registration up.
        (f"{IDS} from importlib.util import find_spec; assert find_spec('gymnasium');", ""),
        ("", "goalmeter.gridworld.gymnasium_worlds:"),
    ],
    ids=["after", "before", "module in the id"],
)
@pytest.mark.slow
def test_ids_are_known_in_a_fresh_interpreter(before: str, module: str) -> None:
    make = f"gymnasium.make('{module}goalmeter/KeyDoor-v0', seed=0)"
    program = f"{before} import gymnasium; print({make}.unwrapped.world)"
    command = [sys.executable, "-W", "error", "-c", program.strip()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(key_door(0))


# --- The checkers ---------------------------------------------------------------------------------
@pytest.mark.parametrize("observation", ["grid", "state"])
@pytest.mark.parametrize("name", OPTIONS)
def test_gymnasium_s_checker_is_content(name: str, observation: str) -> None:
    from gymnasium.utils.env_checker import check_env

    seed = {"seed": 5} if observation == "state" and name != "GridWorld" else {}
    check_env(made(name, observation=observation, tile_size=4, **seed).unwrapped)


# --- Steps, observations, rewards -----------------------------------------------------------------


@pytest.mark.parametrize("name", WORLDS)
def test_walks_are_those_of_the_rules_and_of_the_planner(name: str) -> None:
    world = WORLDS[name]
    drawn = str(world).splitlines()
    planned, table = plan(world), tabular_world(world, horizon=1)
    env = made("GridWorld", world=world, reward="sparse")
    states = made("GridWorld", world=drawn, observation="state")
    assert env.unwrapped.max_steps == 4 * world.walls.size
    assert states.observation_space.n == len(table.states)
    assert states.unwrapped.states == table.states
    for seed in range(3):
        literal = (*world.start, False, False)
        seen, _ = env.reset()
        index, _ = states.reset()
        assert index == 0 and not (seen["has_key"] or seen["door_open"])
        for action, (seen, reward, terminated, _, info) in walk(env, seed, 200):
            literal = oracle.step(drawn, literal, action)
            at = env.unwrapped.state
            # A neutral object is no key.
            has_key = literal[2] and world.neutral is None
            assert (*seen["position"], seen["has_key"], seen["door_open"]) == (
                *literal[:2],
                has_key,
                literal[3],
            )
            assert (*at.cell, at.has_key, at.door_open) == literal
            assert terminated == (at.cell == world.goal) == (reward == 1.0)
            assert info == {
                "state": table.index(at),
                "optimal_actions": planned.optimal_actions(at),
                "distance": planned.distance_from(at),
            }
            number, *_, second = states.step(action)
            assert number == info["state"] and second == info


# --- Which grid -----------------------------------------------------------------------------------
def test_a_seed_names_the_grid() -> None:
    wishes = {"size": 9, "complexity": 0.4, "detour": (2, 9)}
    literal: dict[str, Any] = {
        "Maze": (wishes, lambda s: maze(9, 0.4, s, detour=(2, 9)).world),
        "KeyDoor": ({"rooms": 3}, lambda s: key_door(s, rooms=3)),
        "KeyNoDoor": ({}, key_no_door),
        "TwoPathKey": ({"key": False}, lambda s: two_paths(s).control),
    }
    for name, (options, world) in literal.items():
        fixed = made(name, seed=3, **options).unwrapped
        drawn = made(name, **options).unwrapped
        fixed.reset(seed=8)
        drawn.reset(seed=3)
        assert fixed.world == drawn.world == world(3)


# --- Tables ---------------------------------------------------------------------------------------


def test_the_table_is_what_steps_do() -> None:
    env = made("KeyDoor", seed=0, observation="state", reward="step").unwrapped
    assert env.initial_state_distrib.tolist() == [1.0] + [0.0] * (len(env.states) - 1)
    for seed in range(5):
        at, _ = env.reset()
        for action, (after, reward, terminated, _, _) in walk(env, seed, 300):
            assert env.P[at][action] == [(1.0, after, reward, terminated)]
            at = after
    goals = [i for i, state in enumerate(env.states) if state.cell == env.world.goal]
    assert goals and all(env.P[i][a] == [(1.0, i, 0.0, True)] for i in goals for a in range(4))


# --- Errors ---------------------------------------------------------------------------------------


def test_the_image_is_that_of_minigrid_s_own_wrapper() -> None:
    from minigrid.core.grid import Grid
    from minigrid.core.mission import MissionSpace
    from minigrid.core.world_object import Ball, Door, Goal, Key, Wall
    from minigrid.minigrid_env import MiniGridEnv
    from minigrid.wrappers import FullyObsWrapper

    class Literal(MiniGridEnv):  # type: ignore[misc]
        def _gen_grid(self, width: int, height: int) -> None:
            self.grid = Grid(width, height)
            self.agent_dir = 0
            for y, row in enumerate(picture):
                for x, symbol in enumerate(row):
                    if symbol == "A":
                        self.agent_pos = (x, y)
                    elif symbol == "D":
                        self.put_obj(Door("yellow", is_locked=True), x, y)
                    elif symbol != "_":
                        self.put_obj(objects[symbol](), x, y)

    objects = {"#": Wall, "G": Goal, "K": lambda: Key("yellow"), "N": lambda: Ball("blue")}

    for world in WORLDS.values():
        picture = str(world).splitlines()
        space = MissionSpace(lambda: "get to the goal")
        theirs = FullyObsWrapper(Literal(space, width=world.shape[1], height=world.shape[0]))
        env = made("GridWorld", world=world)
        assert (env.reset()[0]["image"] == theirs.reset()[0]["image"]).all()
        assert env.observation_space["image"] == theirs.observation_space["image"]
