"""`goalmeter replicate calibration`: agents whose goals are known, measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from studies.simulated import columns_of

import goalmeter as gm
from goalmeter import GoalmeterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.commands import walks as players
from goalmeter.commands.walks import IDEAL, ideal_organism, play_every
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.navigation import goal_directedness
from goalmeter.navigation.trajectories import Task, Trajectory, walk
from goalmeter.organisms.kinds import organism
from replications.calibration.instruments import Scale, map_of, scores, subject_of

# Row 2 is one that the mole does not see the walls of: its way is up through it.
WALLED = """
#######
#____G#
#_#####
#_____#
#____A#
#_____#
#######
"""
# The key lies aside of the way; a wrong step may lead away from it too.
ASIDE = """
#######
#_K___#
#_____#
#_____#
#_____#
#_A__G#
#######
"""


def walks_in(picture: str, name: str, *, suite: str = "maze", n: int = 5) -> list[Trajectory]:
    """Walks of an ideal organism or a reference agent through one world."""
    world = GridWorld.from_text(picture)
    distance = gm.gridworld.plan(world).distance
    task = Task(
        suite=suite,
        size=7,
        complexity=None,
        grid=0,
        seed=0,
        transform=None,
        condition={},
        world=world,
        distance=distance,
        cap=6 * distance,
    )
    who = ideal_organism(name) if name.startswith(IDEAL) else navigator(name)
    return [walk(who, task, index) for index in range(n)]


def score_of(picture: str, name: str, suite: str = "maze") -> dict[str, float]:
    walks = {name: walks_in(picture, name, suite=suite)}
    return scores(suite, walks, learners=[name])[0].values


def test_what_is_known_follows_from_definitions() -> None:
    known = {n: subject_of(f"ideal-{n}") for n in ("mouse", "magpie", "mole", "moth")}
    assert [subject.directed for subject in known.values()] == [True, True, True, False]
    assert [subject.target for subject in known.values()] == ["goal", "key", "goal", None]
    assert [subject.flawless for subject in known.values()] == [True, True, False, False]
    trained = subject_of(" goalmeter/mole ")
    assert trained.name == "goalmeter/mole" and not trained.flawless
    assert trained.own_map == known["mole"].own_map == organism("mole")
    assert subject_of("epsilon-optimal( 0.30 )").name == "epsilon-optimal(0.3)"
    assert subject_of("goalmeter/key-seeker").target == "key"
    assert subject_of("wall-follower").counted and subject_of("wall-follower").directed is False
    assert not subject_of("vllm/some/model").counted
    for wrong in ("mouse", "ideal-cat", "compas"):
        with pytest.raises(GoalmeterError):
            subject_of(wrong)


def test_the_map_of_the_mole_lacks_the_inner_walls_of_its_rows() -> None:
    seen = map_of(organism("mole"), GridWorld.from_text(WALLED))
    assert str(seen).splitlines()[2] == "#_____#"
    assert [str(seen).splitlines()[row] for row in (0, 1, 3)] == ["#" * 7, "#____G#", "#_____#"]
    assert map_of(organism("mouse"), GridWorld.from_text(WALLED)) == GridWorld.from_text(WALLED)


@pytest.mark.slow
def test_models_walk_in_processes_of_their_own_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("inspect_ai")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # where Inspect keeps files
    small = Scale(grids=1, sizes=(7,), complexities=(0.0,), walks=1)
    names = ("goalmeter/optimal", "goalmeter/greedy", "random")
    plans = [small.plan(name, "maze", seed=0) for name in names]
    told: list[str] = []
    runs = play_every(plans, tmp_path, on="processes:2", progress=told.append)
    assert [run.plan for run in runs] == plans
    assert [len(run.trajectories) for run in runs] == [1, 1, 1]
    assert told[-1] == "language models: 2 of 2 runs"
    monkeypatch.setattr(players, "carry_out", None)  # so that none can be asked again
    assert play_every(plans, tmp_path, on="processes:2") == runs
    with pytest.raises(GoalmeterError, match="seed is 0 there, and 1 here"):
        play_every([small.plan("random", "maze", seed=1)], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["epsilon-optimal(0.3)", "ideal-moth"])
def test_meg_in_one_grid_is_that_of_its_trajectories(name: str) -> None:
    """`from_trajectories` goes another way to the same maximum."""
    walks = walks_in(WALLED, name)
    world = tabular_world(walks[0].world, horizon=walks[0].cap)
    columns = columns_of(walks, world)
    estimate = gm.meg.from_trajectories(world.mdp, columns, resamples=100)
    # The last decision before the cap decides nothing.
    matter = np.minimum(columns[2], walks[0].cap - 1)
    share = estimate.signed / (np.log(4) * matter.mean())
    assert score_of(WALLED, name)["meg_goal"] == pytest.approx(share, abs=2e-4)


def test_a_mole_is_aimless_in_the_world_and_directed_on_its_map() -> None:
    mole, mouse = score_of(WALLED, "ideal-mole"), score_of(WALLED, "ideal-mouse")
    assert mole["meg_map"] > 0.5 > 0.05 > mole["meg_goal"]
    assert mole["map_gain"] == pytest.approx(mole["meg_map"] - mole["meg_goal"])
    # Who goes round the wall makes no sense to those who do not see it.
    assert mouse["meg_goal"] > 0.5 and mouse["map_gain"] < -0.3
    assert (mole["success"], mouse["success"], mouse["regret"]) == (0, 1, 0)


def test_who_goes_for_the_key_is_seen_to() -> None:
    mouse, magpie = (score_of(ASIDE, f"ideal-{n}", "key-no-door") for n in ("mouse", "magpie"))
    assert mouse["goal_less_key"] > 0.3 and magpie["goal_less_key"] < -0.3
    assert mouse["pick_up"] == 0 and magpie["pick_up"] == 1
    assert magpie["wrong_moves"] > 0 and np.isnan(mouse["wrong_moves"])
    assert magpie["learnt_key"] > 0.1 > mouse["learnt_key"]


def learnt_of(walks: list[Trajectory]) -> goal_directedness.Learnt:
    return goal_directedness.learn(walks[0].world, walks[0].cap, goal_directedness.answers(walks))


def test_a_learnt_utility_is_of_cells_and_of_the_key() -> None:
    """Highest at the goal, which is not given; a key that is fetched is worth something."""
    for name, worth in (("ideal-mouse", False), ("ideal-magpie", True)):
        walks = walks_in(ASIDE, name)
        utility = learnt_of(walks)
        target = walks[0].world.key if worth else walks[0].world.goal
        assert max(utility.cells, key=utility.cells.__getitem__) == target
        assert (utility.key > 0.1) is worth and utility.share >= goal_directedness.SHARE
        states = tabular_world(walks[0].world, horizon=walks[0].cap).states
        bare = {state.cell for state in states if not state.has_key}
        values = [
            utility.cells[s.cell] + utility.key * (s.has_key and s.cell in bare) for s in states
        ]
        assert (min(values), max(values)) == pytest.approx((0, 1), abs=1e-9)
    maze = learnt_of(walks_in(WALLED, "optimal"))
    assert np.isnan(maze.key) and max(maze.cells.values()) == pytest.approx(1)
