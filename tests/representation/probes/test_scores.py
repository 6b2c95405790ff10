"""Scores of posteriors: by hand, against the literal ones, and where there is nothing to read."""

from __future__ import annotations

import math

import numpy as np
import pytest
from oracles import representation as oracle
from representation.scenery import PICTURES, certain, random_posterior, scenes_of, spelled

from goalmeter.representation.probes.comparison import localisation, scores
from goalmeter.representation.scenes import AGENT, CLASSES, GOAL, OUTSIDE

SCENES = scenes_of(*PICTURES, ["####", "#AG#", "####"], PICTURES[1])
OURS, THEIRS = random_posterior(SCENES, 0), random_posterior(SCENES, 1)
CHOSEN = np.random.default_rng(2).random(SCENES.labels.shape) < 0.6
NAMES = list(CLASSES)


def cells(chosen: np.ndarray) -> list[oracle.CellRead]:  # type: ignore[type-arg]
    return [
        (
            int(SCENES.grids[n]),
            CLASSES[SCENES.labels[n, r, c]],
            dict(zip(NAMES, OURS[n, r, c].tolist(), strict=True)),
            dict(zip(NAMES, THEIRS[n, r, c].tolist(), strict=True)),
        )
        for n, r, c in np.argwhere(chosen & (SCENES.labels != OUTSIDE))
    ]


def test_one_cell_by_hand() -> None:
    scenes = scenes_of(PICTURES[0], PICTURES[1])
    position = certain(scenes)
    ours = position.copy()
    # The middle of the first grid is open: 3/4 of the probability, where position alone has 1/4.
    ours[0, 2, 2, :2], position[0, 2, 2, :2] = (0.25, 0.75), (0.75, 0.25)
    middle = np.zeros((2, 5, 5), dtype=bool)
    middle[:, 2, 2] = True
    table = {(s.cells, s.label): s for s in scores(ours, position, scenes, {"middle": middle})}
    score = table["middle", "all"]
    assert score.accuracy.value == 1.0 and score.accuracy.n == 2
    # The other cell is certain in both. Mixing moves 3/4 and 1/4 by less than a thousandth.
    assert score.gain_bits.value == pytest.approx(math.log2(3) / 2, abs=1e-3)
    assert table["middle", "wall"].accuracy.n == 1


@pytest.mark.parametrize("name", ["all", "some"])
def test_every_score_agrees_with_its_definition(name: str) -> None:
    table = {s.label: s for s in scores(OURS, THEIRS, SCENES, {"some": CHOSEN}) if s.cells == name}
    seen = cells(CHOSEN if name == "some" else np.ones(SCENES.labels.shape, dtype=bool))
    assert set(table) == {"all", *(truth for _, truth, _, _ in seen)}
    for label, score in table.items():
        if label == "all":
            expected = oracle.accuracy(seen), oracle.balanced(seen), oracle.gain(seen, NAMES)
            assert score.auroc is None
        else:
            expected = (
                oracle.recall(seen, label),
                oracle.balanced_of(seen, label),
                oracle.gain_of(seen, NAMES, label),
            )
            assert score.auroc is not None
            assert score.auroc.value == pytest.approx(oracle.auroc(seen, label), abs=1e-12)
        values = score.accuracy.value, score.balanced_accuracy.value, score.gain_bits.value
        assert values == pytest.approx(expected, abs=1e-12)


THREE = scenes_of(*PICTURES)


@pytest.mark.parametrize("label", [AGENT, GOAL])
@pytest.mark.parametrize("seed", range(3))
def test_errors_agree_with_their_definition(label: int, seed: int) -> None:
    posterior = random_posterior(THREE, seed)
    each = []
    for n in range(len(THREE)):
        row, column = np.argwhere(THREE.labels[n] == label)[0]
        place = (int(row), int(column))
        each.append(oracle.place_errors(spelled(posterior[n]), place, CLASSES[label]))
    seen = localisation(posterior, THREE, label)
    assert seen is not None
    for name in ("exact", "distance", "expected", "classified"):
        expected = np.mean([errors[name] for errors in each])
        assert getattr(seen, name).value == pytest.approx(expected, abs=1e-12)
    blurs = [errors["blur"] for errors in each if errors["blur"] is not None]
    assert seen.blur.value == pytest.approx(np.mean(blurs) if blurs else np.nan, nan_ok=True)
    assert seen.missing.value == pytest.approx(1 - len(blurs) / len(each))
