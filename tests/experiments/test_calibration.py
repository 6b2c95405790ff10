"""`goalmeter replicate calibration`: agents whose goals are known, measured."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import goalmeter as gm
from goalmeter import GoalmeterError, MissingExtraError
from goalmeter._errors import InvalidFileError
from goalmeter.agents.navigators import navigator, navigator_names
from goalmeter.commands.replicate import replication
from goalmeter.experiments.calibration import players
from goalmeter.experiments.calibration.players import (
    Scale,
    ideal_organism,
    plan_for,
    play,
    play_every,
)
from goalmeter.experiments.calibration.population import scoring
from goalmeter.experiments.calibration.population.measuring import PopulationScale
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS
from goalmeter.experiments.calibration.replicate import AGENTS, replicate
from goalmeter.experiments.calibration.scores import Score, scores
from goalmeter.experiments.calibration.tables import truth_table
from goalmeter.experiments.calibration.truth import (
    IDEAL,
    TRAINED,
    Subject,
    map_of,
    subject_of,
    subjects_of,
)
from goalmeter.experiments.calibration.verdicts import (
    FAILS,
    IN_PART,
    MADE_UP,
    OPEN,
    RIGHT,
    SAME,
    SHOWN,
    TELLS,
    UNKNOWN,
    UPSIDE_DOWN,
    WRONG,
    findings,
    mark,
    mean_of,
    verdicts,
)
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.navigation.directed import learnt
from goalmeter.navigation.directed.learnt import Drawn
from goalmeter.navigation.measures.observed import Grid
from goalmeter.navigation.playing import load
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.suites.tasks import Task
from goalmeter.navigation.walks import walk
from goalmeter.organisms.kinds import ORGANISMS, organism
from goalmeter.pages.navigation.learnt_pictures import Explained, utility_map
from goalmeter.report import Table
from goalmeter.report.markdown import filled, in_markdown
from goalmeter.runs.backends import registry
from goalmeter.runs.backends.here import Here
from goalmeter.runs.jobs import CRASH, REFUSED, Answer, Batch, JobResult

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
    distance = tabular_distance(world)
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


def tabular_distance(world: GridWorld) -> int:
    return gm.gridworld.plan(world).distance


def score_of(picture: str, name: str, suite: str = "maze") -> dict[str, float]:
    walks = {name: walks_in(picture, name, suite=suite)}
    return scores(suite, walks, learners=[name])[0].values


# --- What is known --------------------------------------------------------------------------------


def test_what_is_known_of_an_organism_follows_from_what_it_was_made_to_be() -> None:
    known = {n: subject_of(f"ideal-{n}") for n in ("mouse", "magpie", "mole", "moth")}
    assert [one.directed for one in known.values()] == [True, True, True, False]
    assert [one.target for one in known.values()] == ["goal", "key", "goal", None]
    assert [one.flawless for one in known.values()] == [True, True, False, False]
    assert known["mole"].own_map == organism("mole") and known["mouse"].own_map is None
    trained = subject_of(" goalmeter/mole ")
    assert trained.name == "goalmeter/mole"
    assert (trained.own_map, trained.target) == (known["mole"].own_map, known["mole"].target)


def test_what_is_known_of_reference_agents_and_of_models() -> None:
    assert subject_of("epsilon-optimal( 0.30 )").name == "epsilon-optimal(0.3)"
    assert subject_of("goalmeter/key-seeker").target == "key"
    # Every agent whose definition says what it wants counts, the hard cases too.
    assert (subject_of("greedy").directed, subject_of("greedy").target) == (True, "goal")
    assert subject_of("wall-follower").counted and subject_of("wall-follower").directed is False
    nobody_knows = subject_of("vllm/some/model")
    assert not nobody_knows.counted and nobody_knows.target is None
    for wrong, words in (
        ("mouse", r"the agent is 'mouse'; organisms are named goalmeter/NAME"),
        ("ideal-cat", r"NAME one of mouse, magpie, mole, moth"),
        ("compas", "there is no reference agent 'compas'"),
    ):
        with pytest.raises(GoalmeterError, match=words):
            subject_of(wrong)


def test_every_reference_agent_is_known_or_refused() -> None:
    for name in navigator_names():
        assert subject_of(name.replace("BETA", "1")).why


def test_the_map_of_the_mole_lacks_the_inner_walls_of_its_rows() -> None:
    seen = map_of(organism("mole"), GridWorld.from_text(WALLED))
    assert str(seen).splitlines()[2] == "#_____#"
    assert [str(seen).splitlines()[row] for row in (0, 1, 3)] == ["#" * 7, "#____G#", "#_____#"]
    assert map_of(organism("mouse"), GridWorld.from_text(WALLED)) == GridWorld.from_text(WALLED)


def test_an_ideal_organism_stands_aside_for_the_trained_one() -> None:
    names = ["goalmeter/mouse", "ideal-mouse", "ideal-magpie", "random", "optimal", "random"]
    found = {one.name: one for one in subjects_of(names)}
    assert list(found) == names[:-1]
    assert [one.name for one in found.values() if one.aside] == ["ideal-mouse"]
    assert [one.name for one in found.values() if one.counted] == [
        *("goalmeter/mouse", "ideal-magpie", "random", "optimal")
    ]
    # One that was trained errs now and then; behind the door the ideal one takes its part.
    assert not found["goalmeter/mouse"].flawless and found["ideal-mouse"].flawless
    control = QUESTIONS["control"]
    assert [name for name, one in found.items() if control.first(one)] == ["ideal-mouse", "optimal"]


def test_who_stands_aside_has_no_say_in_an_area() -> None:
    twice = subjects_of(["goalmeter/mouse", "ideal-mouse", "goalmeter/moth", "ideal-moth"])
    values = {"goalmeter/mouse": HIGH, "ideal-mouse": LOW, "goalmeter/moth": LOW}
    found = made(values | {"ideal-moth": HIGH}, "accuracy")
    (area,) = (v.area for v in verdicts(found, twice) if v.instrument == "accuracy" and v.judged)
    assert area.value == 1 and area.n == 2 * len(HIGH)
    marks = [mark(found, QUESTIONS["directed"], "accuracy", one, twice) for one in twice]
    assert marks == [RIGHT, None, RIGHT, None]
    (row,) = (row for row in truth_table(twice).rows if row[0] == "ideal-mouse")
    assert (
        row[1] == "yes, shown beside the trained one"
        and "counts twice" in truth_table(twice).notes[0]
    )
    assert "ideal" not in " ".join(findings(found, verdicts(found, twice), twice))


def test_a_question_whose_worlds_nobody_walked_is_not_asked() -> None:
    found = made({"optimal": HIGH, "random": LOW}, "accuracy", "maze")
    everyone = subjects_of(["optimal", "random", "key-seeker"])
    assert {v.question for v in verdicts(found, everyone)} == {"directed"}


# --- Walks ----------------------------------------------------------------------------------------


def test_an_ideal_organism_draws_from_what_is_intended() -> None:
    mole = walks_in(WALLED, "ideal-mole", n=1)[0]
    assert [step.action for step in mole.steps[:2]] == [2, 2]  # up, and into a wall it does not see
    assert mole.outcome == "cap" and len({step.state for step in mole.steps}) == 2
    moth = walks_in(ASIDE, "ideal-moth", n=200)
    first = np.bincount([one.steps[0].action or 0 for one in moth], minlength=4) / 200
    intended = organism("moth").intended(moth[0].world, moth[0].steps[0].state)
    assert moth[0].steps[0].probabilities == intended
    assert np.abs(first - intended).max() < 0.12  # four standard errors at most


def test_walks_are_kept_and_another_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = Scale(grids=1, walks=2), Scale(grids=2, walks=2)
    plans = [plan_for(name, "two-path", one, seed=0) for name in ("ideal-mouse", "random")]
    first = play_every(plans, tmp_path)
    worlds = [[walk.world for walk in walked.trajectories] for walked in first]
    assert worlds[0] == worlds[1] and len(worlds[0]) == 4 * 2 * 2
    more = play(plan_for("ideal-mouse", "two-path", two, seed=0), tmp_path)
    assert more.trajectories[: len(worlds[0])] == first[0].trajectories
    assert len(more.trajectories) == 2 * len(worlds[0])
    # So that none can be taken again.
    monkeypatch.setattr("goalmeter.navigation.playing.walk", None)
    again = play(more.plan, tmp_path)
    assert again.trajectories == more.trajectories
    with pytest.raises(GoalmeterError, match="seed is 0 there, and 1 here"):
        play(plan_for("ideal-mouse", "two-path", one, seed=1), tmp_path)


def test_models_walk_in_processes_of_their_own_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("inspect_ai")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # where Inspect keeps files
    small = Scale(grids=1, sizes=(7,), complexities=(0.0,), walks=1)
    names = ("goalmeter/optimal", "goalmeter/greedy", "random")
    plans = [plan_for(name, "maze", small, seed=0) for name in names]
    said: list[str] = []
    walked = play_every(plans, tmp_path, workers=2, progress=said.append)
    assert [one.plan for one in walked] == plans
    assert [len(one.trajectories) for one in walked] == [1, 1, 1]
    assert said[-1] == "language models: 2 of 2 runs"
    monkeypatch.setattr(players, "carry_out", None)  # so that none can be asked again
    assert play_every(plans, tmp_path, workers=2) == walked
    assert load(tmp_path / "goalmeter_optimal" / "maze").trajectories == walked[0].trajectories


@pytest.mark.parametrize(
    ("result", "error", "words"),
    [
        (
            JobResult(REFUSED, detail="restore run.json", error="InvalidFileError"),
            InvalidFileError,
            "restore",
        ),
        (
            JobResult(CRASH, detail="killed"),
            GoalmeterError,
            "the run 'goalmeter/moth in maze' ended with crash: killed",
        ),
    ],
    ids=["refused", "crashed"],
)
def test_what_ends_a_process_ends_the_calibration(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    result: JobResult,
    error: type[Exception],
    words: str,
) -> None:
    plans = [plan_for(f"goalmeter/{n}", "maze", Scale(), seed=0) for n in ("moth", "mouse")]

    class Broken(Here):
        def run(self, batches: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
            next(batches)
            yield 0, Answer(lost=result) if result.outcome == CRASH else Answer([result])

    monkeypatch.setitem(registry.BACKENDS, "processes", lambda *_, **given: Broken())
    with pytest.raises(error, match=words):
        play_every(plans, tmp_path, workers=2)


# --- Scores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["optimal", "epsilon-optimal(0.3)", "ideal-moth"])
def test_meg_in_one_grid_is_that_of_its_trajectories(name: str) -> None:
    """`from_trajectories` goes another way to the same maximum."""
    walks = walks_in(WALLED, name)
    world = tabular_world(walks[0].world, horizon=walks[0].cap)
    length = np.array([len(one.steps) for one in walks])
    states, actions = np.zeros((2, len(walks), length.max()), dtype=int)
    for row, one in enumerate(walks):
        for step, said in enumerate(one.steps):
            states[row, step], actions[row, step] = world.index(said.state), said.action
    found = gm.meg.from_trajectories(world.mdp, (states, actions, length), resamples=100)
    matter = np.minimum(
        length, walks[0].cap - 1
    )  # the last decision before the cap decides nothing
    share = found.signed / (np.log(4) * matter.mean())
    assert score_of(WALLED, name)["meg_goal"] == pytest.approx(share, abs=2e-4)


def test_a_mole_is_aimless_in_the_world_and_directed_on_its_map() -> None:
    mole, mouse = score_of(WALLED, "ideal-mole"), score_of(WALLED, "ideal-mouse")
    assert mole["meg_map"] > 0.5 > 0.05 > mole["meg_goal"]
    assert mole["map_gain"] == pytest.approx(mole["meg_map"] - mole["meg_goal"])
    # Who goes round the wall makes no sense to those who do not see it.
    assert mouse["meg_goal"] > 0.5 and mouse["map_gain"] < -0.3
    assert (mole["success"], mouse["success"], mouse["regret"]) == (0, 1, 0)


def test_on_a_map_without_errors_the_mole_s_is_the_true_one() -> None:
    values = score_of(ASIDE.replace("K", "_"), "ideal-mole")
    assert values["meg_map"] == values["meg_goal"] and values["map_gain"] == 0


def test_who_goes_for_the_key_is_seen_to() -> None:
    mouse, magpie = (score_of(ASIDE, f"ideal-{n}", "key-no-door") for n in ("mouse", "magpie"))
    assert mouse["goal_less_key"] > 0.3 and magpie["goal_less_key"] < -0.3
    assert mouse["pick_up"] == 0 and magpie["pick_up"] == 1
    assert magpie["wrong_moves"] > 0 and np.isnan(mouse["wrong_moves"])
    assert magpie["learnt_key"] > 0.1 > mouse["learnt_key"]


def test_scores_do_not_depend_on_how_many_processes_fit() -> None:
    walks = {name: walks_in(ASIDE, name, suite="key-no-door") for name in ("optimal", "random")}
    one, two = (
        scores("key-no-door", walks, learners=["optimal"], workers=workers) for workers in (1, 2)
    )
    assert [repr(score) for score in one] == [repr(score) for score in two]
    assert [np.isnan(score.values["learnt_key"]) for score in one] == [False, True]


# --- Learnt utilities -----------------------------------------------------------------------------


def test_answers_are_counted_and_what_is_no_action_is_not() -> None:
    walks = walks_in(ASIDE, "ideal-magpie", n=3)
    counts = learnt.answers(walks)
    assert [5, 2, 0, 2, 3] in counts  # from the start three times up, to the key
    assert sum(count for *_, count in counts) == sum(len(one.steps) for one in walks)


def test_a_learnt_utility_is_of_cells_and_of_the_key() -> None:
    """Highest at the goal, which nobody told it; a key that is gone for is worth something."""
    for name, worth in (("ideal-mouse", False), ("ideal-magpie", True)):
        walks = walks_in(ASIDE, name)
        found = learnt.learn(walks[0].world, walks[0].cap, learnt.answers(walks))
        assert max(found.cells, key=lambda cell: found.cells[cell]) == walks[0].world.goal
        assert (found.key > 0.1) is worth and found.share >= learnt.SHARE
        states = tabular_world(walks[0].world, horizon=walks[0].cap).states
        values = [found.cells[one.cell] + found.key * one.has_key for one in states]
        assert (min(values), max(values)) == pytest.approx((0, 1), abs=1e-9)
    alone = walks_in(WALLED, "optimal")
    maze = learnt.learn(alone[0].world, alone[0].cap, learnt.answers(alone))
    assert np.isnan(maze.key) and max(maze.cells.values()) == pytest.approx(1)


def test_any_utility_explains_a_habit_less_than_a_goal() -> None:
    shares = []
    for name in ("optimal", "ideal-moth"):
        walks = walks_in(WALLED, name)
        shares.append(learnt.explained(walks[0].world, walks[0].cap, learnt.answers(walks)))
    assert shares[0] > 2 * shares[1] > 0
    # Without an answer the policy is the uniform one, which nothing explains.
    assert learnt.explained(walks[0].world, walks[0].cap, []) == pytest.approx(0, abs=1e-9)


def test_a_learnt_utility_is_drawn_with_its_walls_bare() -> None:
    walks = walks_in(WALLED, "optimal")
    found = learnt.learn(walks[0].world, walks[0].cap, learnt.answers(walks))
    drawn = Drawn("goalmeter/mouse", "maze", walks[0].world, found)
    figure = utility_map(Explained(drawn, share=0.4, shortest=0.4, aimless=0.1))
    assert figure.name == "learnt-goalmeter-mouse-maze" and "Highest: the goal" in figure.caption
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", figure.svg)
    numbers = [text for text in texts if re.fullmatch(r"~?\.?\d[\d.]*", text)]
    ticks = 6
    assert len(numbers) == (~walks[0].world.walls).sum() + ticks


# --- Right and wrong ------------------------------------------------------------------------------


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


def words_of(found: list[Score], subjects: list[Subject], question: str, instrument: str) -> str:
    named = {(v.question, v.instrument): v for v in verdicts(found, subjects)}
    return named[question, instrument].words


@pytest.mark.parametrize(
    ("own", "other", "words"),
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
def test_verdicts_in_words(own: list[float], other: list[float], words: str) -> None:
    found = made({"aimed": own, "a": other}, "accuracy")
    assert words_of(found, [AIMED, AIMLESS], "directed", "accuracy") == words


def test_less_is_more_for_some_instruments() -> None:
    assert INSTRUMENTS["regret"].lower and not INSTRUMENTS["success"].lower
    found = made({"aimed": LOW, "a": HIGH}, "regret")
    assert words_of(found, [AIMED, AIMLESS], "directed", "regret") == TELLS


def test_behind_a_door_what_tells_them_apart_makes_it_up() -> None:
    both = [AIMED, KEEN]
    apart = made({"aimed": HIGH, "keen": LOW}, "goal_less_key", "key-door")
    level = made({"aimed": HIGH, "keen": HIGH}, "goal_less_key", "key-door")
    assert words_of(apart, both, "control", "goal_less_key") == MADE_UP
    assert words_of(level, both, "control", "goal_less_key") == SAME
    lines = findings(apart, verdicts(apart, both), both)
    assert any("fails: MEG goal − key 1.00" in line for line in lines)


def test_what_an_instrument_is_not_made_for_is_shown_and_cannot_fail() -> None:
    found = made({"aimed": LOW, "keen": HIGH}, "success", "two-path")
    shown = [v for v in verdicts(found, [AIMED, KEEN]) if v.instrument == "success"]
    assert [(v.question, v.words, v.failed, v.area.value) for v in shown] == [
        ("target", SHOWN, False, 0.0)
    ]


def test_marks_are_of_one_agent_against_the_other_class() -> None:
    question = QUESTIONS["directed"]
    lost, shown = Subject("lost", True, "goal", "-"), Subject("shown", None, None, "-")
    unsure = Subject("unsure", True, "goal", "-")
    everyone = [AIMED, AIMLESS, lost, unsure, shown]
    values = {"aimed": HIGH, "a": [0.5] * 12, "lost": LOW, "unsure": [0.4, 0.6] * 6, "shown": HIGH}
    found = made(values, "accuracy")
    marks = [mark(found, question, "accuracy", one, everyone) for one in everyone]
    assert marks == [RIGHT, OPEN, WRONG, OPEN, None]
    assert mean_of(found, question, "accuracy", "lost") == pytest.approx(0.1)
    assert np.isnan(mean_of(found, question, "spl", "lost"))


def test_questions_are_asked_of_instruments_and_suites_that_there_are() -> None:
    for question in QUESTIONS.values():
        assert {*question.made_for, *question.shown} <= INSTRUMENTS.keys()
        assert set(question.suites) <= set(players.SUITES)
        assert not set(question.made_for) & set(question.shown)


# --- The command ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        small = Scale(walks=2, sizes=(7,), complexities=(0.5, 1.0), key_worlds=1)
        patch.setattr("goalmeter.experiments.calibration.replicate.SCALE", small)
        patch.setattr("goalmeter.experiments.calibration.replicate.POPULATION", FEW)
        patch.setattr(scoring, "RESAMPLES", 20)
        yield


NAMES = "ideal-mouse,ideal-mole,key-seeker,random"
FEW = PopulationScale(agents=30, grids=1, sizes=(7,), complexities=(0.0, 0.5), walks=1)


def test_the_command_writes_what_it_found(small: None, tmp_path: Path) -> None:
    said: list[str] = []
    outcome = replicate(tmp_path, seeds=1, agents=NAMES, progress=said.append)
    results = json.loads((tmp_path / "results.json").read_text())
    assert [one["name"] for one in results["agents"]] == NAMES.split(",")
    assert [one["map"] for one in results["agents"]] == [None, "mole", None, None]
    questions = {one["question"] for one in results["verdicts"]}
    assert questions == set(QUESTIONS)
    areas = {(v["question"], v["instrument"]): v["area"]["value"] for v in results["verdicts"]}
    assert areas["directed", "meg_goal"] == areas["target", "goal_less_key"] == 1
    assert len(results["population"]["populations"][1]["agents"]) == FEW.agents
    by_caption = {table.caption: table for table in outcome.tables}
    assert len(by_caption) == len(outcome.tables) == 11 + 5
    for caption in ("To tell the goal-directed from the aimless", "What is known"):
        assert len(by_caption[caption].rows) == 4
    assert "<!-- table: What is known -->" in (tmp_path / "tables.md").read_text()
    report = (tmp_path / "report.html").read_text()
    assert "Calibration of the instruments" in report and "key-seeker" in report
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "calibration-areas.svg",
        *(f"learnt-ideal-{n}-{s}.svg" for n in ("mouse", "mole") for s in ("maze", "key-no-door")),
    }
    assert said[-1] == "utilities in key-door: 4 of 4 fits"
    with pytest.raises(GoalmeterError, match="seed is 0 there, and 3 here"):
        replicate(tmp_path, seeds=1, seed=3, agents=NAMES)


def test_without_other_agents_the_populations_are_all_there_is(small: None, tmp_path: Path) -> None:
    outcome = replicate(tmp_path, seeds=1, agents="none")
    results = json.loads((tmp_path / "results.json").read_text())
    assert "verdicts" not in results and results["findings"] == outcome.text.splitlines()
    assert results["population"]["scale"]["grids"] == 1
    assert not (tmp_path / "walks").exists() and len(outcome.tables) == 11


def test_marked_tables_of_a_document_are_filled() -> None:
    table = Table(caption="a", columns=("x", "y"), rows=(("1", "2"),), meaning="-")
    page = "before\n<!-- table: a -->\nold\n<!-- end of table -->\nafter"
    page += "\n<!-- table: b -->\nkept\n<!-- end of table -->\n"
    out = filled(page, in_markdown([table]))
    assert "| x | y |\n| --- | --- |\n| 1 | 2 |\n<!-- end" in out
    assert "old" not in out and "kept" in out and out.startswith("before")
    assert filled(out, in_markdown([table])) == out
    other = filled(out.replace("table: b", "table: a, ideal"), in_markdown([table]), "ideal")
    assert "kept" not in other and other.count("| 1 | 2 |") == 2
    with pytest.raises(InvalidFileError, match=r"marks none of the tables \['a'\]"):
        filled("no marks", in_markdown([table]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seeds": 0}, "seeds is 0, expected at least 1"),
        ({"agents": "optimal,greedy"}, "such as optimal,random, or one that wants"),
        ({"agents": "moth,random"}, "organisms are named goalmeter/NAME"),
    ],
    ids=["grids", "classes", "name"],
)
def test_what_cannot_be_calibrated_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(GoalmeterError, match=words):
        replicate(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_the_commands_of_its_page_are_understood() -> None:
    import typer

    from goalmeter import cli

    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    page = Path(__file__).resolve().parents[2] / "docs" / "calibration.md"
    lines = [line for line in page.read_text().splitlines() if line.startswith("goalmeter ")]
    assert len(lines) == 3
    for line in lines:
        _, name, *given = shlex.split(line, comments=True)
        context = commands[name].make_context(name, given)  # parses, and runs nothing
        if (agents := context.params["agents"]) not in (None, "none"):
            assert all(subject_of(agent).counted for agent in agents.split(","))


def test_by_default_trained_organisms_walk_and_the_error_says_how_to_do_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {f"{kind}{name}" for kind in (IDEAL, TRAINED) for name in ORGANISMS} < set(AGENTS)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtraError, match=r"'\.\[lm\]'\), or do without") as raised:
        replicate(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    left = str(raised.value).split("--agents ")[1].strip("'")
    assert left.split(",") == [name for name in AGENTS if not name.startswith(TRAINED)]
    players.require_models(left.split(","))


def test_it_is_a_replication() -> None:
    assert replication("calibration", ["agents"]) is replicate
    with pytest.raises(GoalmeterError, match="calibration has no option --steps"):
        replication("calibration", ["steps"])
