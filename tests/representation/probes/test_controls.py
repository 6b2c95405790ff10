"""Controls: exchanges between grids, tasks that can only be learnt by heart, all in one table."""

from __future__ import annotations

import numpy as np
import pytest
from representation.planted import Plant, planted

from goalmeter.representation.probes.comparison import (
    CONTROL_TASK,
    LINKS,
    SHUFFLED,
    UNCERTAIN,
    by_size,
    compare,
    control_task,
    cross_fitted,
    exchanged,
)
from goalmeter.representation.probes.protocol import Reading
from goalmeter.representation.probes.registry import Bilinear, Ridge, Schedule
from goalmeter.representation.scenes import folds, split

MADE = planted(Plant(grids=120, size=5, dimensions=32, noise=0.5), seed=0)
READING = Reading(MADE.activations, MADE.believed_scenes)
SPLIT = split(READING.scenes, seed=0)


def test_an_exchange_leaves_no_scene_in_its_grid() -> None:
    scenes = READING.scenes
    for seed in range(3):
        donors = exchanged(scenes, seed=seed)
        assert sorted(donors.tolist()) == list(range(len(scenes)))
        assert (scenes.grids[donors] != scenes.grids).all()
    assert not (exchanged(scenes, seed=0) == exchanged(scenes, seed=1)).all()


def test_a_control_task_gives_all_scenes_of_a_grid_another_grid_s_map() -> None:
    scenes = READING.scenes
    task = control_task(scenes, SPLIT, seed=0)
    fitted, held, scored = (set(part.tolist()) for part in task.split)
    assert not fitted & scored and held == scored
    assert fitted | scored == set(SPLIT.train.tolist())
    assert task.scored == "other states of the same grids"
    for grid in np.unique(scenes.grids[SPLIT.train]):
        rows = SPLIT.train[scenes.grids[SPLIT.train] == grid]
        given = {(task.scenes.worlds[i], task.scenes.states[i]) for i in rows}
        assert len(given) == 1
        (world, _) = given.pop()
        assert world not in {scenes.worlds[i] for i in rows}


def test_a_probe_stands_beside_all_its_controls() -> None:
    nothing = np.random.default_rng(0).normal(size=(len(READING.scenes), 8)).astype(np.float32)
    table = compare(Ridge(), READING, SPLIT, alternatives={"random weights": nothing}, seed=0)
    names = [None, "position only", "majority", SHUFFLED, "random weights", CONTROL_TASK]
    assert [row.control for row in table.rows] == names
    ours = table.row().score(UNCERTAIN, "wall")
    assert ours.auroc is not None and ours.auroc.value > 0.95
    assert ours.gain_bits.interval is not None and ours.gain_bits.interval[0] > 0.3
    # Nothing is to be read where activations are of other grids, or of nothing.
    for control in (SHUFFLED, "random weights"):
        none = table.row(control).score(UNCERTAIN, "wall")
        assert none.auroc is not None and none.auroc.interval is not None
        assert none.auroc.interval[0] < 0.5 < none.auroc.interval[1]
        assert abs(none.gain_bits.value) < 0.1
    position = table.row("position only")
    assert position.parameters == 0 and position.score().gain_bits.value == 0.0
    # Of all cells most are known by where they are; of links that is not so.
    assert position.score().accuracy.value > table.row("majority").score().accuracy.value
    assert position.score().accuracy.value > position.score(LINKS).accuracy.value
    assert table.selectivity(UNCERTAIN, "wall") > 0.3
    (agent, goal) = table.row().places
    assert (agent.label, goal.label) == ("agent", "goal")
    assert agent.exact.value > table.row(SHUFFLED).places[0].exact.value
    json = table.row(SHUFFLED).to_json()
    assert json["control"] == SHUFFLED and json["probe"] == "ridge"


def test_cross_fitted_posteriors_are_of_fits_that_saw_nothing_of_the_grid() -> None:
    parts = folds(READING.scenes, 3, seed=0)
    posterior = cross_fitted(Ridge(), READING, parts)
    for part in parts:
        train, validation, test = (READING.where(rows) for rows in part)
        fitted = Ridge().fit(train, validation, seed=0)
        expected = fitted.posterior(test.activations, test.scenes.shapes)
        assert (posterior[part.test] == expected).all()


def test_few_directions_hold_little_of_many_walls() -> None:
    pytest.importorskip("torch")
    schedule = Schedule(epochs=15)
    probes = [Bilinear(rank, schedule) for rank in (1, 16)]
    rows = by_size(probes, READING, SPLIT, seed=0)
    assert [row.probe for row in rows] == ["bilinear(1)", "bilinear(16)"]
    assert rows[0].parameters < rows[1].parameters
    gains = [row.score(UNCERTAIN).gain_bits for row in rows]
    assert gains[0].interval is not None and gains[1].interval is not None
    assert gains[0].interval[1] < gains[1].interval[0]
