"""Frames: relabelled answers, tests of pairs, and agents that mind a frame or do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from navigation.walked import taken, task, walked
from scipy.stats import ttest_1samp, wilcoxon

from goalmeter.gridworld import TRANSFORMS
from goalmeter.navigation import Task, Trajectory
from goalmeter.navigation.frames import frames, invariance
from goalmeter.statistics.verdicts import holm

LEFT, RIGHT, UP, DOWN = range(4)
MANY: dict[str, Any] = {"sizes": (7,), "complexities": (0.5, 1), "grids": 8, "trajectories": 4}


def transformed(original: Task, name: str) -> Task:
    return replace(original, transform=name, world=TRANSFORMS[name](original.world))


def test_agreement_by_hand() -> None:
    original = task(["#####", "#A_G#", "#####"], cap=8)
    mirror = transformed(original, "reflect")
    at = [taken(original, RIGHT, RIGHT), taken(original, RIGHT, LEFT, RIGHT, RIGHT, index=1)]
    there = [
        taken(mirror, LEFT, None, LEFT),
        taken(mirror, UP, LEFT, LEFT, index=1),
        taken(mirror, LEFT, LEFT, index=2),
    ]
    (measured,) = frames([*at, *there]).frames
    # Start: right 3 of 3; there left (which is right) 3 of 4 and up. In the middle: right 2 and
    # left 1; there left 3 and none.
    across = [(3 * 3) / (3 * 4), (2 * 3) / (3 * 4)]
    within = [(1 + (3 * 2) / (4 * 3)) / 2, ((2 * 1) / (3 * 2) + (3 * 2) / (4 * 3)) / 2]
    assert measured.agreement is not None and measured.agreement.value == pytest.approx(
        np.mean(across)
    )
    assert measured.self_agreement is not None
    assert measured.self_agreement.value == pytest.approx(np.mean(within))
    assert measured.shortfall is not None
    assert measured.shortfall.value == pytest.approx(np.mean(within) - np.mean(across))


def test_invariance_by_hand() -> None:
    original = task(["#####", "#A_G#", "#####"], cap=8)
    mirror, turned = (transformed(original, name) for name in ("reflect", "rotate"))
    walks = [taken(original, RIGHT, RIGHT), taken(original, RIGHT, LEFT, RIGHT, RIGHT, index=1)]
    walks += [taken(mirror, LEFT, None, LEFT), taken(mirror, UP, LEFT, LEFT, index=1)]
    # The start is at the bottom, and UP is what RIGHT was.
    walks += [taken(turned, *[DOWN] * 8), taken(turned, UP, UP, index=1)]
    changes = invariance(walks)
    assert {len(by_grid) for by_grid in changes.values()} == {1}
    (success,), (accuracy,), _, (shortfall,) = (each.values() for each in changes.values())
    assert success == pytest.approx(((1 + 1) / 2 + (0 + 1) / 2) / 2 - 1)
    assert accuracy == pytest.approx(((2 / 3 + 2 / 3) / 2 + (0 + 1) / 2) / 2 - (1 + 3 / 4) / 2)
    reflect, rotate = frames(walks).frames
    assert reflect.shortfall is not None and rotate.shortfall is not None
    mean = (reflect.shortfall.value + rotate.shortfall.value) / 2
    assert shortfall == pytest.approx(mean)


def literally(walks: list[Trajectory], name: str) -> tuple[float, float]:
    """Agreement across and within, by counting pairs of answers in each state."""
    transform = TRANSFORMS[name]
    answers: dict[Any, dict[Any, tuple[list[Any], list[Any]]]] = defaultdict(
        lambda: defaultdict(lambda: ([], []))
    )
    for walk in walks:
        if walk.transform not in (None, name):
            continue
        for step in walk.steps:
            cell, action = step.state.cell, step.action
            if walk.transform is None:
                cell = transform.cell(cell, walk.world.shape)
                action = None if action is None else transform.action(action)
            state = answers[walk.seed, walk.complexity][cell, step.state.layer]
            state[walk.transform is not None].append(action)

    def equal(pairs: Iterable[tuple[Any, Any]]) -> float:
        return float(np.mean([x == y and x is not None for x, y in pairs]))

    across, within = [], []
    for states in answers.values():
        both = [pair for pair in states.values() if min(map(len, pair)) >= 2]
        if both:
            across.append(np.mean([equal(product(*pair)) for pair in both]))
            alone = [[equal(permutations(each, 2)) for each in pair] for pair in both]
            within.append(np.mean(alone))
    return float(np.mean(across)), float(np.mean(within))


@pytest.mark.parametrize("agent", ["unreliable", "wall-follower"])
def test_agreement_is_its_definition(agent: str) -> None:
    walks = walked(agent, "isometries", **MANY)
    for measured in frames(walks).frames:
        if measured.isometry:
            across, within = literally(walks, measured.transform)
            assert measured.agreement is not None and measured.self_agreement is not None
            assert measured.agreement.value == pytest.approx(across)
            assert measured.self_agreement.value == pytest.approx(within)
        else:
            assert measured.transform == "swap"
            assert measured.agreement is measured.self_agreement is measured.shortfall is None


def test_tests_are_those_of_means_of_grids() -> None:
    walks = walked("greedy", "isometries", **MANY)
    grids: dict[Any, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for walk in walks:
        right = np.mean([step.is_optimal for step in walk.steps])
        grids[walk.transform][walk.complexity, walk.seed].append(float(right))
    base = grids[None]
    measured = frames(walks, margin=0.04)
    assert measured.margin == 0.04
    published, equal = [], []
    for frame in measured.frames:
        second = grids[frame.transform]
        differences = np.array([np.mean(second[g]) - np.mean(base[g]) for g in base])
        comparison = frame.comparisons[1]
        assert comparison.metric == "accuracy" and frame.pairs == len(base) == 16
        assert comparison.difference.value == pytest.approx(differences.mean())
        assert comparison.base == pytest.approx(np.mean([np.mean(v) for v in base.values()]))
        differences = np.round(differences, 12)
        assert comparison.test.p_value == pytest.approx(wilcoxon(differences).pvalue)
        below = ttest_1samp(differences, 0.04, alternative="less").pvalue
        above = ttest_1samp(differences, -0.04, alternative="greater").pvalue
        assert comparison.equivalence.p_value == pytest.approx(max(below, above))
        published.append(comparison.test.p_value)
        equal.append(comparison.equivalence.p_value)
    assert [f.comparisons[1].test_corrected for f in measured.frames] == holm(published)
    assert [f.comparisons[1].equivalence_corrected for f in measured.frames] == holm(equal)
