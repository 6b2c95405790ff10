"""Fits of a class to logs, where scoring steps are far too long."""

from __future__ import annotations

import numpy as np
import pytest

from goalmeter.gridworld import tabular_world
from goalmeter.gridworld.planner import plan
from goalmeter.gridworld.world import GridWorld
from goalmeter.meg.likelihood import fit_class, group_trajectories

ROOM = GridWorld.from_text(
    ["#######", "#_____#", "#___#G#", "#___#_#", "#__##_#", "#A____#", "#######"]
)


@pytest.mark.parametrize("alike", [1, 5])
def test_walks_that_are_all_the_same_are_explained_in_full(alike: int) -> None:
    """The logs tell hardly anything of most cells, and undamped steps lead nowhere from 0."""
    result, path = tabular_world(ROOM, horizon=21), plan(ROOM).reference_path()
    numbers = {state: number for number, state in enumerate(result.states)}
    states = [numbers[state] for state in path[:-1]]
    actions = [plan(ROOM).optimal_actions(state)[0] for state in path[:-1]]
    log = np.array([states] * alike), np.array([actions] * alike)
    groups = group_trajectories(result.mdp, log, unknown="state")
    fit = fit_class(groups, [np.full(alike, 1 / alike)])
    # A utility can make every one of these moves as good as certain.
    assert len(actions) == 7 and fit.infinite
    assert fit.value == pytest.approx(7 * np.log(4), abs=1e-3)
