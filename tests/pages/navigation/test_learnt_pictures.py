"""Learnt utilities on a page: with the share that they explain, grey where that is small."""

from __future__ import annotations

import math
import re

import pytest

from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.world import Cell
from goalmeter.navigation.goal_directedness import Drawn, Learnt, answers, explained, learn
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rollouts import play_all
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.pages import navigation_goals
from goalmeter.pages.navigation_goals import Explained, explain

WORLD = GridWorld.from_text("#####\n#A_K#\n#__G#\n#####")
LEFT, RIGHT = 0, 1
CELLS = {Cell(1, 1): 0.0, Cell(1, 2): 0.2, Cell(1, 3): 0.4, Cell(2, 1): 0.1, Cell(2, 2): 0.3}


def drawn(agent: str = "x/mouse", *, key: float = math.nan, best: Cell = WORLD.goal) -> Drawn:
    return Drawn(agent, "key-no-door", WORLD, Learnt({**CELLS, best: 1.0}, key, 0.9))


def walks(agent: str) -> tuple[Trajectory, ...]:
    plan = plan_of(agent, "maze", sizes=[5], complexities=[1.0], grids=1, trajectories=3)
    return play_all(plan).trajectories


def test_the_share_is_that_of_the_maximum_and_random_walks_are_faint() -> None:
    of = {agent: walks(agent) for agent in ("optimal", "random")}
    world = of["optimal"][0].world
    utilities = [
        Drawn(agent, "maze", world, learn(world, taken[0].cap, answers(taken)))
        for agent, taken in of.items()
    ]
    best, worst = explain(utilities, {"maze": of}, shortest="optimal", aimless="random")
    any_explains = explained(world, of["optimal"][0].cap, answers(of["optimal"]))
    assert best.share == pytest.approx(best.drawn.learnt.share * any_explains)
    assert 0.9 * any_explains <= best.share == best.shortest <= any_explains
    assert worst.share == worst.aimless == best.aimless < best.share
    assert not best.faint and worst.faint
    bare = {"maze": {"optimal": of["optimal"]}}
    (alone,) = explain(utilities[:1], bare, shortest="optimal", aimless="random")
    # Without anybody to compare with, nothing is enough.
    assert math.isnan(alone.aimless) and alone.faint


def test_a_faint_utility_draws_no_conclusion() -> None:
    little = navigation_goals.utility_map(Explained(drawn(key=0.3), 0.24, 0.4, 0.1))
    assert little.caption == (
        "x/mouse, key-no-door: explains 24% of the maximum (the same fit, of random moves 10%, of "
        "shortest ways 40%), too little for any statement."
    )
    assert "explains little" in little.svg
    row = navigation_goals.table([Explained(drawn(key=0.3), 0.24, 0.4, 0.1)]).cells[0]
    assert row[2].text == "grey"


def test_half_way_to_shortest_ways_is_enough_and_the_key_is_beside() -> None:
    much = navigation_goals.utility_map(Explained(drawn(key=-0.25), 0.25, 0.4, 0.1))
    assert much.caption.endswith("shortest ways 40%). Having the key is worth −0.25 everywhere.")
    assert "having K" in much.svg and "−.25" in much.svg
    without = navigation_goals.utility_map(Explained(drawn(), 0.25, 0.4, 0.1))
    assert "having K" not in without.svg and "worth" not in without.caption


def test_all_maps_share_one_scale() -> None:
    low = Drawn("x/low", "maze", WORLD, Learnt(dict.fromkeys(CELLS, 0.25), math.nan, 0.9))
    for utility in (drawn(), low):
        svg = navigation_goals.utility_map(Explained(utility, 0.4, 0.4, 0.1)).svg
        assert re.search(r">\s*1\.0\s*<", svg), "the scale ends at 1"


def test_the_threshold_is_stated_with_its_reason() -> None:
    section = navigation_goals.learnt_section([Explained(drawn(), 0.25, 0.4, 0.1)])
    (table,) = section.tables
    assert "Below 50% of the way" in table.notes[0] and "no yardstick" in table.notes[0]
    assert "A grey map explains less and supports no statement." in section.text[2]


def test_no_map_says_which_goal_an_agent_pursues() -> None:
    """The map of an agent that pursues the key can be highest at the goal."""
    shown = [
        Explained(drawn(key=0.5, best=best), 0.25, 0.4, 0.1) for best in (WORLD.goal, Cell(1, 3))
    ]
    section = navigation_goals.learnt_section(shown)
    said = [*section.text, section.title, *(figure.caption for figure in section.figures)]
    assert "highest utility" not in section.tables[0].heads
    assert not any("Highest" in text or "seem to want" in text for text in said)
    assert "cannot show which goal an agent pursues" in section.text[1]


def test_utilities_are_on_the_stated_scale_where_the_key_is_worth_less_than_nothing() -> None:
    """The cell of the key is never without it, so its utility is that of having the key there."""
    world = GridWorld.from_text("#######\n#A_K_G#\n#######")
    # Back and forth at the start: the key is kept away from.
    counts = [[1, 1, 0, RIGHT, 5], [1, 2, 0, LEFT, 5]]
    learnt = learn(world, 12, counts)
    assert learnt.key < -0.01
    assert min(learnt.cells.values()) == 0 and max(learnt.cells.values()) == 1
