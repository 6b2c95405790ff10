"""Grid worlds in Gymnasium: its checkers, the planner's steps, tables, and MiniGrid's pictures."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from gridworld.in_gymnasium import CORRIDOR, OPTIONS, WORLDS, made, walk
from oracles import grid_world as oracle

from goalmeter import _gymnasium_ids as gymnasium_ids
from goalmeter._errors import MissingExtraError
from goalmeter.gridworld.conversions import tabular_world
from goalmeter.gridworld.generators import key_door, key_no_door, maze, two_paths
from goalmeter.gridworld.planner import plan

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("minigrid")
gymnasium_ids.register()


# --- Registration ---------------------------------------------------------------------------------
MAKE = "print(gymnasium.make('goalmeter/KeyDoor-v0', seed=0).unwrapped.world)"
IDS = "import sys; from goalmeter import _gymnasium_ids as ids"


@pytest.mark.parametrize(
    "program",
    [
        f"import gymnasium; {IDS}; ids.register(); ids.register(); {MAKE}",
        # To ask whether it is there imports nothing, and does not use the registration up.
        f"{IDS}; ids.register(); ids.register(); from importlib.util import find_spec;"
        f"assert find_spec('gymnasium') and 'gymnasium' not in sys.modules;"
        f"import gymnasium; {MAKE};"
        f"assert not any(type(f).__module__ == ids.__name__ for f in sys.meta_path)",
        "import gymnasium; "
        + MAKE.replace("'goal", "'goalmeter.gridworld.gymnasium_worlds:goal", 1),
    ],
    ids=["after", "before", "module in the id"],
)
@pytest.mark.slow
def test_ids_are_known_in_a_fresh_interpreter(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True
    )
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


@pytest.mark.parametrize(
    ("reward", "expected"),
    [("minigrid", [0, 0, 0, 0, 1 - 0.9 * 5 / 9]), ("sparse", [0, 0, 0, 0, 1]), ("step", [-1] * 5)],
)
def test_rewards(reward: str, expected: list[float]) -> None:
    env = made("GridWorld", world=CORRIDOR, reward=reward, max_steps=9)
    env.reset()
    outcomes = [env.step(1) for _ in range(5)]
    assert [out[1] for out in outcomes] == pytest.approx(expected, abs=1e-12)
    assert [out[2:4] for out in outcomes] == [(False, False)] * 4 + [(True, False)]


def test_an_episode_is_truncated_at_its_last_step_unless_it_arrives_then() -> None:
    env = made("GridWorld", world=CORRIDOR, max_steps=5)
    env.reset()
    assert [env.step(a)[2:4] for a in (0, 1, 2, 1, 1)] == [(False, False)] * 4 + [(False, True)]
    for after in (env, made("GridWorld").unwrapped):
        with pytest.raises(gymnasium.error.ResetNeeded, match="call reset"):
            after.step(0)
    env.reset()
    assert [env.step(1)[2:4] for _ in range(5)][-1] == (True, False)


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


def test_without_minigrid_states_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid.core.grid", None)
    made("KeyDoor", seed=0, observation="state").reset()
    with pytest.raises(MissingExtraError, match=r"pip install 'goalmeter\[worlds\]'"):
        made("KeyDoor", seed=0).reset()
