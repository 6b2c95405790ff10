"""Every probe of the registry: posteriors, seeds, refusals; and what each one computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oracles import representation as oracle
from representation.planted import Plant, planted
from representation.scenery import scenes_of

from goalmeter.representation.probes.protocol import (
    FittedHeads,
    Places,
    PositionOnly,
    Reading,
    Standard,
)
from goalmeter.representation.probes.registry import (
    PROBES,
    Bilinear,
    FittedPublished,
    Mlp,
    Published,
    Ridge,
    Schedule,
    probe,
)
from goalmeter.representation.scenes import AGENT, CLASSES, EMPTY, GOAL, WALL, split

pytest.importorskip("torch")
SMALL = planted(Plant(grids=40, size=5, dimensions=32, noise=0.4), seed=0)
READING = Reading(SMALL.activations, SMALL.believed_scenes)
TRAIN, VALIDATION, TEST = (READING.where(part) for part in split(READING.scenes, seed=0))
SHORT = Schedule(epochs=4)
QUICK: dict[str, Any] = {
    "ridge": Ridge(),
    "logistic": Bilinear(None, SHORT),
    "bilinear(32)": Bilinear(8, SHORT),
    "mlp(512)": Mlp(32, SHORT),
    "linear (as published)": Published(epochs=2),
    "MLP (as published)": Published(hidden=16, epochs=2),
}


@pytest.mark.parametrize("name", PROBES)
def test_every_probe_gives_a_posterior_and_its_seed_decides(name: str) -> None:
    chosen = QUICK.get(name, PROBES[name])
    assert probe(name).name == name
    before = TRAIN.activations.copy()
    fitted = chosen.fit(TRAIN, VALIDATION, seed=3)
    posterior = fitted.posterior(TEST.activations, TEST.scenes.shapes)
    assert posterior.shape == (*TEST.scenes.labels.shape, len(CLASSES))
    assert posterior.min() >= 0.0 and np.abs(posterior.sum(axis=-1) - 1).max() < 1e-9
    again = chosen.fit(TRAIN, VALIDATION, seed=3)
    assert (again.posterior(TEST.activations, TEST.scenes.shapes) == posterior).all()
    # Rows do not depend on each other, and what was given is as it was.
    last = fitted.posterior(TEST.activations[-1:], TEST.scenes.shapes[-1:])
    assert last == pytest.approx(posterior[-1:], abs=1e-9)
    assert (TRAIN.activations == before).all()
    assert (fitted.parameters == 0) == (name in ("position only", "majority"))


def test_things_are_in_one_cell_each_and_never_in_the_same() -> None:
    scenes = scenes_of(["####", "#AG#", "####"], ["####", "#GA#", "####"])
    places = Places.of(scenes)
    scores = np.random.default_rng(0).normal(size=(2, 13, 3)) * 3
    scores[:, -1, 1:] = -np.inf  # nowhere, where no scene has them
    posterior = places.classes(0, scores).reshape(2, 12, -1)
    for n in range(2):
        shares = np.exp(scores[n, :-1, 1:])
        shares /= shares.sum(axis=0)
        agent, goal = oracle.exclusive_places(*shares.T.tolist())
        assert posterior[n, :, AGENT] == pytest.approx(agent, abs=1e-12)
        assert posterior[n, :, GOAL] == pytest.approx(goal, abs=1e-12)
        odds = posterior[n, :, WALL] / (posterior[n, :, WALL] + posterior[n, :, EMPTY])
        assert odds == pytest.approx(1 / (1 + np.exp(-scores[n, :-1, 0])), abs=1e-9)


def test_position_alone_is_the_table_of_frequencies() -> None:
    fitted = PositionOnly().fit(TRAIN, VALIDATION, seed=0)
    (posterior,) = fitted.posterior(TEST.activations[:1], TEST.scenes.shapes[:1])
    labels = [[[CLASSES[k] for k in row] for row in scene] for scene in TRAIN.scenes.labels]
    table = oracle.position_table(labels)
    for (row, column), shares in table.items():
        for k, name in enumerate(CLASSES):
            # Half a scene is added to what was counted, and two objects never share a cell.
            assert posterior[row, column, k] == pytest.approx(shares.get(name, 0.0), abs=0.02)


def test_a_thing_that_may_be_absent_may_be_nowhere() -> None:
    there = ["#####", "#AGK#", "#####"]
    scenes = scenes_of(there, there, there, ["#####", "#AG_#", "#####"])
    fitted = PositionOnly().fit(Reading(np.zeros((4, 2)), scenes), READING, seed=0)
    (posterior,) = fitted.posterior(np.zeros((1, 2)), np.array([[3, 5]]))
    assert posterior[1, 3, CLASSES.index("key")] == pytest.approx(0.75, abs=0.1)
    assert posterior[1, 3, EMPTY] == pytest.approx(0.25, abs=0.1)
    assert posterior[1, 1, AGENT] > 0.9


@pytest.mark.parametrize("rows", [10, 60])
def test_ridge_is_ridge_in_either_product(rows: int) -> None:
    # 32 dimensions: by rows if there are fewer, by dimensions if there are more.
    part = TRAIN.where(np.arange(min(rows, len(TRAIN.scenes))))
    standard = Standard.of(part.activations)
    fitted = Ridge(penalties=(10.0,)).fit(part, VALIDATION, seed=0)
    slopes = fitted.slopes(0)  # type: ignore[misc]
    z = standard(part.activations)
    z = z - z.mean(axis=0)
    checked = 0
    for cell in np.flatnonzero(np.abs(slopes[:, :-1, 0]).sum(axis=0))[:3]:
        labels = part.scenes.labels.reshape(len(z), -1)[:, cell]
        free = (labels == WALL) | (labels == EMPTY)
        target = np.where(free, (labels == WALL) - (labels == WALL)[free].mean(), 0.0)
        weights = np.array(oracle.ridge(z.tolist(), target.tolist(), 10.0))
        cosine = weights @ slopes[:, cell, 0]
        cosine /= np.linalg.norm(weights) * np.linalg.norm(slopes[:, cell, 0])
        assert cosine == pytest.approx(1.0, abs=1e-9)
        checked += 1
    assert checked


@pytest.mark.parametrize("name", ["ridge", "logistic", "bilinear(32)"])
def test_a_wall_direction_is_how_its_odds_change(name: str) -> None:
    fitted: FittedHeads = QUICK[name].fit(TRAIN, VALIDATION, seed=0)
    directions = fitted.wall_directions((5, 5))
    assert directions is not None and fitted.wall_directions((7, 7)) is None
    row = TEST.activations[:1].astype(float)
    shape = TEST.scenes.shapes[:1]

    def odds(rows: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        posterior = fitted.posterior(rows, shape)[0, 1, 2]
        return np.log(posterior[WALL] / posterior[EMPTY])

    along = directions[1, 2]
    rise = odds(row + 1e-3 * along) - odds(row - 1e-3 * along)
    assert rise == pytest.approx(2e-3 * along @ along, rel=1e-4)


@pytest.mark.parametrize("hidden", [None, 8])
def test_the_published_probes_are_those_of_whole_rows(hidden: int | None) -> None:
    fitted: FittedPublished = Published(hidden, epochs=1).fit(TRAIN, VALIDATION, seed=0)
    posterior = fitted.posterior(TEST.activations[:2], TEST.scenes.shapes[:2])
    for scene, (row, column) in ((0, (1, 2)), (1, (3, 3))):
        z = fitted.standard(TEST.activations[scene])
        whole = np.concatenate([z, [row, column]])
        scores = fitted.weights[0] @ whole + fitted.weights[1]
        if hidden is not None:
            scores = fitted.weights[2] @ np.maximum(scores, 0) + fitted.weights[3]
        shares = np.exp(scores) / np.exp(scores).sum()
        assert posterior[scene, row, column, fitted.classes] == pytest.approx(shares, abs=1e-6)
