"""`goalmeter replicate calibration`: agents whose goals are known, verdicts, and the command."""

from __future__ import annotations

import json
import math
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies.test_calibration_population import columns_of

import goalmeter as gm
from goalmeter import GoalmeterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.commands.replicate import replicate as run_study
from goalmeter.gridworld import Cell, GridWorld, tabular_world
from goalmeter.navigation.agent_walks import walker_of
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rollouts import play_all
from goalmeter.navigation.steps import Grid
from goalmeter.navigation.trajectories import Task, Trajectory, walk
from goalmeter.organisms.kinds import organism
from replications.calibration import instruments as learnt
from replications.calibration import study as command
from replications.calibration.instruments import (
    FAILS,
    IN_PART,
    MADE_UP,
    QUESTIONS,
    SAME,
    SHOWN,
    TELLS,
    UNKNOWN,
    UPSIDE_DOWN,
    Calibration,
    Scale,
    Score,
    Subject,
    scores,
    subject_of,
)
from replications.calibration.population import scores as population_scores
from replications.calibration.population.evidence import PopulationScale
from replications.calibration.population.scores import calibrate_population

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
    who = walker_of(name) or navigator(name)
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


def learnt_of(walks: list[Trajectory]) -> learnt.Learnt:
    return learnt.learn(walks[0].world, walks[0].cap, learnt.answers(walks))


def test_a_learnt_utility_is_of_cells_and_of_the_key() -> None:
    """Highest at the goal, which is not given; a key that is fetched is worth something."""
    for name, worth in (("ideal-mouse", False), ("ideal-magpie", True)):
        walks = walks_in(ASIDE, name)
        utility = learnt_of(walks)
        target = walks[0].world.key if worth else walks[0].world.goal
        assert max(utility.cells, key=utility.cells.__getitem__) == target
        assert (utility.key > 0.1) is worth and utility.share >= learnt.SHARE
        states = tabular_world(walks[0].world, horizon=walks[0].cap).states
        bare = {state.cell for state in states if not state.has_key}
        values = [
            utility.cells[s.cell] + utility.key * (s.has_key and s.cell in bare) for s in states
        ]
        assert (min(values), max(values)) == pytest.approx((0, 1), abs=1e-9)
    maze = learnt_of(walks_in(WALLED, "optimal"))
    assert np.isnan(maze.key) and max(maze.cells.values()) == pytest.approx(1)


def made(values: dict[str, list[float]], instrument: str, suite: str = "maze") -> list[Score]:
    """Scores of agents in as many grids as there are numbers."""
    return [
        Score(name, Grid(suite, 7, 0.0, seed), True, {instrument: value})
        for name, numbers in values.items()
        for seed, value in enumerate(numbers)
    ]


AIMED, AIMLESS = Subject("aimed", True, "goal", "-", flawless=True), Subject("a", False, None, "-")
KEEN = Subject("keen", True, "key", "-", flawless=True)
LOW, HIGH = [0.0, 0.1, 0.2, 0.1] * 3, [0.8, 0.9, 1.0, 0.7] * 3


def words_of(scores: list[Score], subjects: list[Subject], question: str, instrument: str) -> str:
    named = {(v.question, v.instrument): v for v in Calibration(subjects, scores).verdicts}
    return named[question, instrument].words


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (HIGH, LOW, TELLS),
        (LOW, HIGH, UPSIDE_DOWN),
        ([0.5] * 4, [0.5] * 4, FAILS),
        ([0.3, 0.4, 0.5, 0.6] * 4, [0.2, 0.35, 0.55, 0.1] * 4, IN_PART),
        (HIGH[:4], LOW[:4], UNKNOWN),
        (HIGH[:1], LOW[:1], UNKNOWN),
    ],
    ids=["tells", "upside-down", "fails", "in-part", "four-grids", "one-grid"],
)
def test_verdicts_in_words(first: list[float], second: list[float], words: str) -> None:
    scores = made({"aimed": first, "a": second}, "accuracy")
    assert words_of(scores, [AIMED, AIMLESS], "directed", "accuracy") == words


def test_controls_may_not_be_told_apart_and_what_is_shown_cannot_fail() -> None:
    both = [AIMED, KEEN]
    apart = made({"aimed": HIGH, "keen": LOW}, "goal_less_key", "key-door")
    level = made({"aimed": HIGH, "keen": HIGH}, "goal_less_key", "key-door")
    assert words_of(apart, both, "control", "goal_less_key") == MADE_UP
    assert words_of(level, both, "control", "goal_less_key") == SAME
    lines = Calibration(both, apart).findings()
    assert any("fails: MEG goal − key 1.00" in line for line in lines)
    scores = made({"aimed": LOW, "keen": HIGH}, "success", "two-path")
    shown = [v for v in Calibration(both, scores).verdicts if v.instrument == "success"]
    assert [(v.words, v.failed, v.area.value) for v in shown] == [(SHOWN, False, 0.0)]


replicate = partial(run_study, "calibration")


NAMES = "ideal-mouse,ideal-mole,key-seeker,random"
FEW = PopulationScale(agents=15, grids=1, sizes=(7,), complexities=(0.0, 0.5), walks=1)


@pytest.fixture(scope="module")
def small() -> Any:
    # The populations of a scale are made once, whatever the seed: no test compares them.
    calibrations = cache(lambda scale: calibrate_population(scale))
    with pytest.MonkeyPatch.context() as patch:
        scale = Scale(walks=2, sizes=(7,), complexities=(0.5, 1.0), key_worlds=1)
        patch.setattr(command, "SCALE", scale)
        patch.setattr(command, "POPULATION", FEW)
        patch.setattr(
            population_scores, "calibrate_population", lambda scale, _: calibrations(scale)
        )
        patch.setattr(population_scores, "RESAMPLES", 20)
        yield


@pytest.mark.slow
def test_the_command_writes_what_it_measured(small: None, tmp_path: Path) -> None:
    told: list[str] = []
    outcome = replicate(tmp_path, seeds=1, agents=NAMES, progress=told.append)
    results = json.loads((tmp_path / "results.json").read_text())
    assert [agent["name"] for agent in results["agents"]] == NAMES.split(",")
    assert [agent["map"] for agent in results["agents"]] == [None, "mole", None, None]
    assert {verdict["question"] for verdict in results["verdicts"]} == set(QUESTIONS)
    areas = {(v["question"], v["instrument"]): v["area"]["value"] for v in results["verdicts"]}
    assert areas["directed", "meg_goal"] == areas["target", "goal_less_key"] == 1
    assert len(results["population"]["populations"][1]["agents"]) == FEW.agents
    by_caption = {table.caption: table for table in outcome.tables}
    assert len(by_caption) == len(outcome.tables) == 11 + 5
    for caption in ("Distinguishing goal-directed from aimless agents", "What is known"):
        assert len(by_caption[caption].rows) == 4
    assert "<!-- table: What is known -->" in (tmp_path / "tables.md").read_text()
    report = (tmp_path / "report.html").read_text()
    assert "Calibration of the instruments" in report and "key-seeker" in report
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "calibration-areas.svg",
        *(f"learnt-ideal-{n}-{s}.svg" for n in ("mouse", "mole") for s in ("maze", "key-no-door")),
    }
    assert told[-1] == "utilities in key-door: 4 of 4 fits"
    with pytest.raises(GoalmeterError, match="seed is 0 there, and 3 here"):
        replicate(tmp_path, seeds=1, seed=3, agents=NAMES)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": 0}, "seeds is 0, expected at least 1"),
        ({"agents": "optimal,greedy"}, "such as optimal,random, or one that pursues"),
        ({"agents": "moth,random"}, "organisms are named goalmeter/NAME"),
    ],
    ids=["grids", "classes", "name"],
)
def test_what_cannot_be_calibrated_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(GoalmeterError, match=words):
        replicate(tmp_path / "run", **options)
    assert not list((tmp_path / "run").iterdir())


# --- Learnt utilities ---
WORLD = GridWorld.from_text("#####\n#A_K#\n#__G#\n#####")
MOVE_LEFT, MOVE_RIGHT = 0, 1
CELLS = {Cell(1, 1): 0.0, Cell(1, 2): 0.2, Cell(1, 3): 0.4, Cell(2, 1): 0.1, Cell(2, 2): 0.3}


def utility(*, key: float = math.nan) -> learnt.ExplainedUtility:
    values = learnt.Learnt({**CELLS, WORLD.goal: 1.0}, key, 0.9)
    return learnt.ExplainedUtility("x/mouse", "key-no-door", WORLD, values, 0.25, 0.4, 0.1)


def walks_in_maze(agent: str) -> tuple[Trajectory, ...]:
    plan = plan_of(agent, "maze", sizes=[5], complexities=[1.0], grids=1, trajectories=3)
    return play_all(plan).trajectories


def test_the_share_is_that_of_the_maximum_and_random_walks_are_faint() -> None:
    of = {agent: walks_in_maze(agent) for agent in ("optimal", "random")}
    world = of["optimal"][0].world
    places = [("maze", agent, world) for agent in of]
    best, worst = learnt.explain(places, {"maze": of})
    any_explains = learnt.explained(world, of["optimal"][0].cap, learnt.answers(of["optimal"]))
    assert best.share == pytest.approx(best.learnt.share * any_explains)
    assert 0.9 * any_explains <= best.share == best.shortest <= any_explains
    assert worst.share == worst.aimless == best.aimless < best.share
    assert not best.faint and worst.faint
    bare = {"maze": {"optimal": of["optimal"]}}
    (alone,) = learnt.explain(places[:1], bare)
    # Without anybody to compare with, nothing is enough.
    assert math.isnan(alone.aimless) and alone.faint


def test_half_way_to_shortest_ways_is_enough_and_the_key_is_beside() -> None:
    much = learnt.utility_map(utility(key=-0.25))
    assert much.caption.endswith("shortest paths 40%). Having the key is worth −0.25 everywhere.")
    assert "having K" in much.svg and "−.25" in much.svg
    without = learnt.utility_map(utility())
    assert "having K" not in without.svg and "worth" not in without.caption


def test_utilities_are_on_the_stated_scale_where_the_key_is_worth_less_than_nothing() -> None:
    """The cell of the key is never without it, so its utility is that of having the key there."""
    world = GridWorld.from_text("#######\n#A_K_G#\n#######")
    # Back and forth at the start: the key is kept away from.
    counts = [[1, 1, 0, MOVE_RIGHT, 5], [1, 2, 0, MOVE_LEFT, 5]]
    utility = learnt.learn(world, 12, counts)
    assert utility.key < -0.01
    assert min(utility.cells.values()) == 0 and max(utility.cells.values()) == 1
