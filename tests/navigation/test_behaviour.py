"""Behaviour: by hand, against its literal definition, exact values and the mixed model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from navigation.walked import ended, taken, task, walked
from oracles import navigation as agents
from oracles import walk_measures as oracle
from scipy.stats import t

from goalmeter.agents.grid_agents import Memoryless, navigator
from goalmeter.gridworld import GridWorld, key_door, key_no_door, maze, plan, two_paths
from goalmeter.navigation import Trajectory, suite
from goalmeter.navigation.behaviour import behaviour, exact, mixed_model
from goalmeter.navigation.frames import frames
from goalmeter.navigation.keys import keys, two_path_table

LEFT, RIGHT, UP, DOWN = range(4)
CORRIDOR = ["######", "#A__G#", "######"]
SMALL: dict[str, Any] = {"sizes": (5, 7), "complexities": (0.5, 1), "grids": 3, "trajectories": 3}


def test_by_hand() -> None:
    """Two grids of one cell: one walk in the first, two in the second."""
    first, second = (task(CORRIDOR, seed=s, cap=6) for s in (0, 1))
    walks = [
        taken(first, RIGHT, RIGHT, RIGHT),
        taken(second, RIGHT, LEFT, RIGHT, None, RIGHT, RIGHT),
        taken(second, LEFT, LEFT, LEFT, LEFT, LEFT, LEFT, index=1),
    ]
    table = behaviour(walks)
    (row,) = table.cells
    assert (row.size, row.complexity, row.grids, row.trajectories) == (3, 1.0, 2, 3)
    assert row.outcomes == {"arrived": 2, "cap": 1}
    assert row.success.value == pytest.approx((1 + (1 + 0) / 2) / 2)
    assert row.spl.value == pytest.approx((1 + (3 / 6 + 0) / 2) / 2)
    assert row.accuracy.value == pytest.approx((1 + (4 / 6 + 0) / 2) / 2)
    assert row.accuracy_pooled.value == pytest.approx((3 + 4 + 0) / 15)
    # In the second walk one step back costs two and an answer that is none costs one; each of the
    # bumps of the third costs one.
    assert row.regret.value == pytest.approx((0 + (3 + 6) / 2) / 2)
    assert row.invalid.value == pytest.approx(1 / 15)
    assert row.accuracy_detour.n == 0 and np.isnan(row.accuracy_detour.value)
    # States of the second grid: at the start twice right, six times left; then left, none, and
    # right; then right.
    cells = [(2 / 8, 6 / 8), (1 / 3, 1 / 3, 1 / 3), (1.0,)]
    entropies = [-sum(p * np.log2(p) for p in c) for c in cells]
    assert row.entropy_plug_in.value == pytest.approx((0 + np.mean(entropies)) / 2)
    added = [more / (2 * n * np.log(2)) for more, n in ((1, 8), (2, 3), (0, 1))]
    assert row.entropy.value == pytest.approx((0 + np.mean(np.add(entropies, added))) / 2)
    assert row.mass.value == pytest.approx((1 + np.mean([0.25, 1 / 3, 1])) / 2)
    assert row.success.n == 3 and row.success.clusters == 2
    assert row.accuracy_pooled.n == 15 and row.mass.n == 6
    assert table.calibration is None and table.suite == "maze"
    assert [(r.distance, r.accuracy.value) for r in table.by_distance] == [
        (1, 1),
        (2, 2 / 4),
        (3, pytest.approx(3 / 9)),
    ]
    assert [r.accuracy.n for r in table.by_distance] == [2, 4, 9]
    assert [r.greedy.value for r in table.by_distance] == [1, 1, 1]


@pytest.mark.parametrize("agent", ["unreliable", "wall-follower"])
def test_every_measure_is_its_definition(agent: str) -> None:
    walks = walked(agent, **SMALL)
    plain = [walk.to_json() for walk in walks]
    table = behaviour(walks)
    (overall,) = table.overall
    for name, expected in oracle.table(plain).items():
        measured = getattr(overall, name)
        assert measured.value == pytest.approx(expected, nan_ok=True), name
    for row in table.cells:
        at = [w for w in plain if (w["size"], w["complexity"]) == (row.size, row.complexity)]
        for name, expected in oracle.table(at).items():
            assert getattr(row, name).value == pytest.approx(expected, nan_ok=True), name
    for row in table.by_size:
        at = [w for w in plain if w["size"] == row.size]
        assert row.accuracy.value == pytest.approx(oracle.table(at)["accuracy"])
    for row in table.by_complexity:
        at = [w for w in plain if w["complexity"] == row.complexity]
        assert row.jsd.value == pytest.approx(oracle.table(at)["jsd"])


@pytest.mark.parametrize("agent", ["unreliable", "optimal"])
def test_calibration_is_its_definition(agent: str) -> None:
    walks = walked(agent, **SMALL)
    plain = [walk.to_json() for walk in walks]
    known = [{**w, "steps": [s for s in w["steps"] if "probabilities" in s]} for w in plain]
    error, brier = oracle.calibration(known)
    measured = behaviour(walks).calibration
    assert measured is not None
    assert measured.error.value == pytest.approx(error)
    assert measured.brier.value == pytest.approx(brier)
    steps = sum(len(w["steps"]) for w in plain)
    assert measured.steps + measured.unknown == steps
    assert (measured.unknown > 0) == (agent == "unreliable")
    assert sum(b.steps for b in measured.bins) == measured.steps == measured.error.n
    gaps = sum(b.steps * abs(b.confidence - b.accuracy) for b in measured.bins)
    assert measured.error.value == pytest.approx(gaps / measured.steps)
    assert measured.error.interval is not None and measured.brier.interval is not None


def test_a_run_in_which_everything_failed_at_once_is_a_table_too() -> None:
    everywhere = [ended(t, "server error") for t in suite("two-path", grids=3).tasks]
    written = behaviour(everywhere).to_json()
    assert written["cells"][0]["success"] == 0 and written["cells"][0]["accuracy"] is None
    assert written["cells"][0]["outcomes"] == {"server error": 3}
    (measured,) = keys(everywhere)
    assert measured.pick_up.rate.value == 0 and measured.pick_up.excess.value == -0.5
    assert two_path_table(everywhere)[0].success_difference.value == 0
    framed = suite("isometries", sizes=[5], complexities=[1], grids=2).tasks
    first = frames([ended(t, "timeout") for t in framed]).frames[0]
    assert first.comparisons[0].base == 0 and np.isnan(first.comparisons[1].base)
    assert first.agreement is not None and first.agreement.clusters == 0
    json.dumps(first.to_json(), allow_nan=False)


def test_intervals_come_from_grids() -> None:
    """Repeating every walk of a grid tells nothing new."""
    walks = walked("greedy", sizes=(7,), complexities=(1,), grids=6, trajectories=2)
    again: list[Trajectory] = [*walks, *walks]
    for name in ("success", "accuracy", "accuracy_pooled", "accuracy_detour", "mass"):
        first, second = (getattr(behaviour(w).cells[0], name) for w in (walks, again))
        assert first.interval == pytest.approx(second.interval), name
        assert first.clusters == second.clusters
    wide = behaviour(walks, confidence=0.99).cells[0].accuracy.interval
    narrow = behaviour(walks, confidence=0.5).cells[0].accuracy.interval
    assert wide is not None and narrow is not None and wide[0] < narrow[0] < narrow[1] < wide[1]


WORLDS = {
    **{f"maze {c}": maze(7, c, 3).world for c in (0, 0.4, 1)},
    "key door": key_door(0),
    "key no door": key_no_door(3),
    "neutral": key_no_door(3).with_(key=None, neutral=key_no_door(3).key),
    "two paths": two_paths(1).world,
    "closed cell": GridWorld.from_text(["######", "#A_G##", "####_#", "######"]),
}


def policy(name: str, world: GridWorld) -> np.ndarray:
    agent = navigator(name)
    assert isinstance(agent, Memoryless)
    return agent.policy(plan(world))


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("name", ["greedy", "key-seeker", "boltzmann(1.5)"])
def test_against_the_definition(name: str, world: GridWorld) -> None:
    picture, agent = str(world).splitlines(), agents.AGENTS[name]
    measured = exact(policy(name, world), plan(world), cap=8)
    accuracy, detour = agents.whole_grid(picture, agent)
    assert measured.accuracy == pytest.approx(accuracy)
    assert measured.accuracy_detour == pytest.approx(detour, nan_ok=True)
    arrived, key = agents.chances(picture, agent, 8)
    assert measured.success == pytest.approx(arrived)
    if world.thing is None:
        assert np.isnan(measured.key)
    else:
        assert measured.key == pytest.approx(key)


def test_what_was_put_in_comes_out() -> None:
    """Corridors of different lengths, and answers that are wrong more often in longer ones."""
    pytest.importorskip("statsmodels")
    rng = np.random.default_rng(0)
    walks, spread = [], []
    for seed in range(40):
        length = int(rng.integers(2, 12))
        corridor = ["#" * (length + 3), "#A" + "_" * (length - 1) + "G#", "#" * (length + 3)]
        alone = rng.normal(0, 0.08)
        spread.append(alone)
        for index in range(4):
            share = 0.9 - 0.04 * length + alone + rng.normal(0, 0.03)
            wrong = round(length * (1 / share - 1))
            walks.append(
                taken(
                    task(corridor, seed=seed, cap=500, complexity=float(seed % 2)),
                    *[UP] * wrong,
                    *[RIGHT] * length,
                    index=index,
                )
            )
    measured = mixed_model(walks)
    terms = {term.name: term for term in measured.terms}
    assert list(terms) == ["intercept", "complexity", "distance"]  # all grids have three rows
    slope = terms["distance"]
    assert abs(slope.coefficient + 0.04) < 4 * slope.stderr and slope.stderr < 0.008
    assert slope.interval[0] < -0.04 < slope.interval[1] and slope.p_value < 1e-9
    assert abs(terms["complexity"].coefficient) < 4 * terms["complexity"].stderr
    assert measured.between_grids == pytest.approx(np.std(spread), rel=0.25)
    assert (measured.walks, measured.grids) == (160, 40)
    written = measured.to_json()
    assert json.loads(json.dumps(written)) == written
    # 40 grids and three terms.
    reach = t.ppf(0.975, 37) * slope.stderr
    assert slope.interval == pytest.approx((slope.coefficient - reach, slope.coefficient + reach))
