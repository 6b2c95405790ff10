"""Utilities over hidden states: planted features win, noise does not, and fits are maxima."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.navigation.rationality import JointWorld, evidence, fit_utility, summed_evidence
from goalmeter.navigation.steps import observed
from goalmeter.navigation.trajectories import Step
from goalmeter.representation import FeatureRow, hidden_utilities, hidden_utility
from goalmeter.representation.hidden_utilities import (
    ADDS,
    ADDS_NOTHING,
    HIDDEN,
    UNTRAINED,
    FeatureSet,
)

SIZES = np.array([-1.0, 0.0, 0.5, 3.0])


@lru_cache
def walked(agent: str, **options: Any) -> JointWorld:
    sizes = {"sizes": (7,), "complexities": (0.5, 1.0), "grids": 6, "trajectories": 1}
    return JointWorld.of(gm.navigation.measure(agent, beside=(), **sizes | options).seen)


def is_goal(joint: JointWorld) -> FloatArray:
    return np.array([float(place.state.cell == place.world.goal) for place in joint.places])


def compared(
    joint: JointWorld, hidden: FloatArray, controls: list[FeatureSet], dimensions: int
) -> FeatureRow:
    """The row of hidden states with these features, behind their controls."""
    sets = [*controls, FeatureSet(HIDDEN, 1, hidden)]
    *_, row = hidden_utilities.compare_features(joint, sets, dimensions, 0, lambda line: None)
    assert row.dimensions == dimensions
    assert set(row.beyond) == {each.name for each in controls}
    assert len(row.by_grid) == 12 and row.gap < 1e-3
    return row


def noise(joint: JointWorld, dimensions: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(len(joint.places), dimensions))


def test_features_that_contain_the_goal_win() -> None:
    joint = walked("boltzmann(3)")
    mixed = np.outer(is_goal(joint), np.linspace(-1, 1, 10)) + 0.1 * noise(joint, 10, seed=1)
    controls = hidden_utilities.cell_features(joint, 4, seed=0)
    controls.append(FeatureSet(UNTRAINED, 1, noise(joint, 10, seed=2)))
    row = compared(joint, mixed, controls, 4)
    assert row.verdict == ADDS
    assert row.held_out.value > 0.5
    assert all(each.value > 0.5 for each in row.beyond.values())


def test_noise_does_not_win_though_it_fits() -> None:
    joint = walked("boltzmann(3)")
    control = FeatureSet("noise", None, noise(joint, 4, seed=4))
    row = compared(joint, noise(joint, 24, seed=3), [control], 24)
    assert row.verdict == ADDS_NOTHING
    assert row.fitted > 0.25
    assert row.held_out.value < 0.1


def test_a_fit_is_the_certified_maximum_but_for_its_penalty() -> None:
    joint = walked("boltzmann(3)")
    every = np.ones(len(joint.part_of_walk), dtype=bool)
    features = noise(joint, 3, seed=3)
    fit = fit_utility(joint, features, every)
    whole = np.pad(features, ((0, len(joint.successors) - len(features)), (0, 0)))
    meg = gm.meg.unknown_utility(joint.mdp(every), joint.policy, features=whole)
    assert meg.certified and meg.maximum == pytest.approx(joint.maximum.mean())
    assert meg.fraction - 1e-2 < fit.share <= meg.fraction
    assert fit.gap < 1e-4


def test_evidence_in_the_joint_world_is_that_in_each_world() -> None:
    # The caps of these walks differ, and many are cut off: their worlds begin with waiting.
    joint = walked("random")
    cut = ~joint.seen.arrived
    assert cut.any() and len(set(joint.seen.caps[cut])) > 1
    mdp = joint.mdp(np.ones(len(cut), dtype=bool), is_goal(joint))
    ours = summed_evidence(mdp, joint.decisions, len(cut), SIZES)
    (alone,) = evidence([joint.seen], "goal", [SIZES])
    np.testing.assert_allclose(ours[cut], alone.whole[cut], atol=1e-9)
    np.testing.assert_allclose(joint.maximum[cut], alone.most[cut])


def test_invalid_answers_are_left_out() -> None:
    joint = walked("optimal")
    walks = list(joint.seen.trajectories)
    first = walks[0].steps[0]
    invalid = Step(first.state, None, first.optimal, invalid="no action")
    walks[0] = replace(walks[0], steps=(invalid, *walks[0].steps))
    for ours, theirs in zip(JointWorld.of(observed(walks)).decisions, joint.decisions, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_too_few_grids_are_refused() -> None:
    joint = walked("optimal", grids=1)
    with pytest.raises(InvalidParameterError, match="2 different grids, expected at least 4"):
        hidden_utilities.folds_of(joint, 0)


@pytest.mark.slow
def test_hidden_states_of_the_mouse(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    pytest.importorskip("inspect_ai")
    options = {"sizes": [7], "complexities": [1.0], "grids": 4, "trajectories": 1, "cap": 2}
    gm.navigation.measure("goalmeter/mouse", beside=[], out=tmp_path, **options)
    result = hidden_utility(tmp_path, layers=[1], dimensions=2)
    assert [row.layer for row in result.rows] == [None] * 4 + [1, 1]
    assert set(result.rows[-1].beyond) == {row.features for row in result.rows[1:-1]}
    assert len(json.loads(json.dumps(result.to_json()))["grids"]) == 4
    assert "hidden states, layer 1" in str(result) and "<table" in result._repr_html_()
