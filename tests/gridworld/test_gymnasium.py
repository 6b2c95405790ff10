"""Grid worlds in Gymnasium: its checkers, the planner's steps, tables, and MiniGrid's pictures."""

from __future__ import annotations

import copy
import subprocess
import sys
from typing import Any

import pytest
from gridworld.in_gymnasium import CORRIDOR, OPTIONS, WORLDS, made, walk
from oracles import grid_world as oracle

from goalmeter import _gymnasium_ids as gymnasium_ids
from goalmeter._errors import InvalidParameterError, MissingExtraError
from goalmeter.gridworld.conversions import tabular_world
from goalmeter.gridworld.generators import key_door, key_no_door, maze, two_paths
from goalmeter.gridworld.planner import plan
from goalmeter.tabular import TabularMDP, expected_return, optimal_policy

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
def test_ids_are_known_in_a_fresh_interpreter(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(key_door(0))


def test_every_id_names_a_class_and_has_its_test() -> None:
    assert {f"goalmeter/{name}-v0" for name in OPTIONS} == set(gymnasium_ids.IDS)
    for name, class_ in gymnasium_ids.IDS.items():
        env = made(name.removeprefix("goalmeter/").removesuffix("-v0"))
        assert type(env.unwrapped).__name__ == class_


def test_a_finder_that_finds_no_gymnasium_leaves_the_import_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    finder = gymnasium_ids._OnImport()
    monkeypatch.setattr(sys, "meta_path", [finder])
    assert finder.find_spec("gymnasium", None) is None
    assert finder.find_spec("numpy", None) is None


# --- The checkers ---------------------------------------------------------------------------------
@pytest.mark.parametrize("observation", ["grid", "state"])
@pytest.mark.parametrize("name", OPTIONS)
def test_gymnasium_s_checker_is_content(name: str, observation: str) -> None:
    from gymnasium.utils.env_checker import check_env

    seed = {"seed": 5} if observation == "state" and name != "GridWorld" else {}
    check_env(made(name, observation=observation, tile_size=4, **seed).unwrapped)


def test_stable_baselines_checker_is_content_with_states() -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(made("KeyDoor", seed=1, observation="state"))


def test_many_at_once_and_copies() -> None:
    envs = gymnasium.make_vec("goalmeter/KeyDoor-v0", num_envs=2, vectorization_mode="sync")
    images, infos = envs.reset(seed=[4, 5])
    assert images["image"].shape == (2, 9, 9, 3)
    assert infos["distance"].tolist() == [plan(key_door(s)).distance for s in (4, 5)]
    env = made("KeyDoor").unwrapped
    env.reset(seed=2)
    second = copy.deepcopy(env)
    assert env.step(1)[4] == second.step(1)[4] and env.reset()[1] == second.reset()[1]


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


def test_observations_are_the_user_s_own() -> None:
    env = made("KeyDoor", seed=0)
    first, _ = env.reset()
    kept = first["image"].copy()
    first["image"][:] = 0
    assert (env.reset()[0]["image"] == kept).all()


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


def test_each_reset_draws_another_grid_that_the_first_seed_determines() -> None:
    env = made("KeyDoor").unwrapped
    rounds = []
    for _ in range(2):
        env.reset(seed=6)
        worlds = [env.world]
        for _ in range(3):
            env.reset()
            worlds.append(env.world)
        rounds.append(worlds)
    assert rounds[0] == rounds[1] and len(set(rounds[0])) == 4


# --- Tables ---------------------------------------------------------------------------------------
TABLES = {
    "Maze": ({"size": 9, "seed": 2}, maze(9, 0.8, 2).world),
    "KeyDoor": ({"seed": 4}, key_door(4)),
    "KeyNoDoor": ({"seed": 1}, key_no_door(1)),
    "TwoPathKey": ({"seed": 0}, two_paths(0).world),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_table_s_optimal_values_are_those_of_tabular_world(name: str) -> None:
    """Ours pays 1 at each step in the goal, the environment 1 at it or -1 before it."""
    options, world = TABLES[name]
    table = tabular_world(world, horizon=40)
    ids = f"goalmeter/{name}-v0"
    steps = TabularMDP.from_gymnasium(
        ids, horizon=40, observation="state", reward="step", **options
    )
    assert steps.n_states == len(table.states)
    assert (steps.transition.to_dense() == table.mdp.transition.to_dense()).all()
    forever = {"horizon": None, "discount": 0.9}
    once = TabularMDP.from_gymnasium(
        ids, horizon=1, observation="state", reward="sparse", **options
    )
    policies = [
        optimal_policy(m)
        for m in (table.mdp, steps, table.mdp.replace(**forever), once.replace(**forever))
    ]
    for start in range(0, len(table.states), 7):
        if table.states[start].cell == world.goal:
            continue
        tabular, environment, endless, discounted = (
            expected_return(mdp.replace(initial=start, **changes), policy).mean
            for mdp, changes, policy in zip(
                (table.mdp, steps, table.mdp, once),
                ({}, {}, forever, forever),
                policies,
                strict=True,
            )
        )
        distance = plan(world).distance_from(table.states[start])
        assert tabular == pytest.approx(40 - distance, abs=1e-9)
        assert environment == pytest.approx(tabular - 40, abs=1e-9)
        # From the goal on 1 + 0.9 + ..., where the environment has paid 1 on the way in.
        assert endless == pytest.approx(discounted * 0.9 / (1 - 0.9), abs=1e-9)


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
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"observation": "pixels"}, "observation is 'pixels', expected one of 'grid', 'state'"),
        ({"reward": "dense"}, "reward is 'dense', expected one of 'minigrid', 'sparse', 'step'"),
        ({"observation": "state"}, "other states; give seed= to fix it"),
        ({"max_steps": 0}, "max_steps is 0, expected at least 1"),
        ({"tile_size": 0}, "tile_size is 0, expected at least 1"),
        ({"rooms": 1}, "rooms is 1"),
    ],
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        made("KeyDoor", **options)


def test_a_mode_that_is_not_there() -> None:
    from goalmeter.gridworld.gymnasium_worlds import KeyDoorEnv

    with pytest.raises(InvalidParameterError, match="render_mode is 'ansi', expected one of None"):
        KeyDoorEnv(render_mode="ansi")
    env = made("KeyDoor")
    env.reset()
    with pytest.warns(UserWarning, match="give render_mode="):
        assert env.unwrapped.render() is None


def test_an_action_that_is_not_there() -> None:
    env = made("KeyDoor", disable_env_checker=True)
    env.reset(seed=0)
    for action in (4, -1):
        with pytest.raises(InvalidParameterError, match=f"action is {action}, expected 0 to 3"):
            env.step(action)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": "step"}, "no one table of transitions; give seed="),
        ({"seed": 0}, "'minigrid' depends on how many steps.*reward='sparse' or reward='step'"),
    ],
)
def test_what_has_no_table_says_why(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        TabularMDP.from_gymnasium("goalmeter/KeyDoor-v0", horizon=9, **options)
    if "seed" not in options:
        with pytest.raises(InvalidParameterError, match=message):
            _ = made("KeyDoor").unwrapped.initial_state_distrib


def test_without_minigrid_states_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "minigrid.core.grid", None)
    made("KeyDoor", seed=0, observation="state").reset()
    with pytest.raises(MissingExtraError, match=r"pip install 'goalmeter\[worlds\]'"):
        made("KeyDoor", seed=0).reset()
