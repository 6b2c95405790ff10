"""MEG in believed worlds: against navigation's in the true one, and against soft values by hand."""

from __future__ import annotations

import numpy as np
import pytest
from navigation.walked import walked
from oracles import representation as oracle

from goalmeter.gridworld import GridWorld, State
from goalmeter.navigation.rationality import directedness
from goalmeter.navigation.steps import observed
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.representation.beliefs.believed import WalkSteps, believed_meg
from goalmeter.representation.scenes import Scenes

TRUE = ["#####", "#A#_#", "#_#_#", "#__G#", "#####"]
WRONG = ["#####", "#A__#", "###_#", "#__G#", "#####"]
RIGHT, DOWN = 1, 3


def recorded(trajectories: list[Trajectory]) -> tuple[Scenes, WalkSteps]:
    each = [(w, n, s) for w, t in enumerate(trajectories) for n, s in enumerate(t.steps)]
    scenes = Scenes.of(
        [trajectories[w].world for w, _, _ in each],
        [s.state for _, _, s in each],
        [s.action for _, _, s in each],
    )
    caps = np.array([trajectories[w].cap for w, _, _ in each])
    return scenes, WalkSteps(np.array([e[0] for e in each]), np.array([e[1] for e in each]), caps)


def test_the_true_world_is_navigation_s() -> None:
    trajectories = walked(
        "epsilon-optimal", sizes=(7,), complexities=(0.8,), grids=4, trajectories=2
    )
    scenes, steps = recorded(trajectories)

    class Walks:
        agent, reference, seen = "some", False, observed(trajectories)

    (known,) = directedness([Walks()])
    result = believed_meg(scenes, steps, [w.with_(start=s.cell) for w, s in _pairs(scenes)])
    assert result.true.nats.value == pytest.approx(known.goal.nats.value, abs=1e-9)
    assert result.true.share.value == pytest.approx(known.goal.share.value, abs=1e-9)
    assert result.true.rationality == pytest.approx(known.goal.rationality)
    assert result.maximum == pytest.approx(known.goal.maximum)
    # Whoever believes what is so is as directed in either world.
    assert result.believed.nats.value == pytest.approx(result.true.nats.value, abs=1e-9)
    assert result.difference.value == 0.0 and result.missing == 0


def _pairs(scenes: Scenes) -> list[tuple[GridWorld, State]]:
    return list(zip(scenes.worlds, scenes.states, strict=True))


@pytest.mark.parametrize("action", [RIGHT, DOWN])
def test_a_decision_is_judged_by_the_plan_on_its_own_map(action: int) -> None:
    true, wrong = (GridWorld.from_text(picture) for picture in (TRUE, WRONG))
    scenes = Scenes.of([true], [State(true.start)], [action])
    # The third decision of eight: six are left.
    place = WalkSteps(np.array([5]), np.array([2]), np.array([8]))
    result = believed_meg(scenes, place, [wrong])
    tried = np.concatenate([-np.geomspace(0.002, 30, 400), np.geomspace(0.002, 30, 400)])
    for fit, picture in ((result.true, TRUE), (result.believed, WRONG)):
        nats = np.array([oracle.evidence(picture, action, b, 6) for b in tried])
        best = int(nats.argmax())
        assert fit.nats.value == pytest.approx(np.sign(tried[best]) * nats[best], abs=2e-3)
    # Alone, right is the way of the wrong map and down of the true one.
    assert np.sign(result.difference.value) == (1 if action == RIGHT else -1)


def test_steps_without_a_map_and_without_an_answer_explain_nothing() -> None:
    true = GridWorld.from_text(TRUE)
    scenes = Scenes.of([true] * 2, [State(true.start)] * 2, [None, DOWN])
    steps = WalkSteps(np.array([0, 0]), np.array([0, 1]), np.array([8, 8]))
    result = believed_meg(scenes, steps, [true, None])
    assert result.missing == 1 and result.believed.nats.value == 0.0
    assert result.true.nats.value > 0 and result.maximum == pytest.approx(2 * np.log(4))
