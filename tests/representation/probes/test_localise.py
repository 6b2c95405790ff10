"""Where an object is read to be, against the literal errors of each scene."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import representation as oracle
from representation.scenery import PICTURES, certain, random_posterior, scenes_of, spelled

from goalmeter.representation.probes.scores import localisation
from goalmeter.representation.scenes import AGENT, CLASSES, GOAL, KEY

SCENES = scenes_of(*PICTURES)


@pytest.mark.parametrize("label", [AGENT, GOAL])
@pytest.mark.parametrize("seed", range(3))
def test_errors_agree_with_their_definition(label: int, seed: int) -> None:
    posterior = random_posterior(SCENES, seed)
    each = []
    for n in range(len(SCENES)):
        row, column = np.argwhere(SCENES.labels[n] == label)[0]
        place = (int(row), int(column))
        each.append(oracle.place_errors(spelled(posterior[n]), place, CLASSES[label]))
    seen = localisation(posterior, SCENES, label)
    assert seen is not None
    for name in ("exact", "distance", "expected", "classified"):
        expected = np.mean([errors[name] for errors in each])
        assert getattr(seen, name).value == pytest.approx(expected, abs=1e-12)
    blurs = [errors["blur"] for errors in each if errors["blur"] is not None]
    assert seen.blur.value == pytest.approx(np.mean(blurs) if blurs else np.nan, nan_ok=True)
    assert seen.missing.value == pytest.approx(1 - len(blurs) / len(each))


def test_the_truth_is_where_it_is() -> None:
    seen = localisation(certain(SCENES), SCENES, AGENT)
    assert seen is not None
    assert (seen.exact.value, seen.distance.value, seen.expected.value) == (1.0, 0.0, 0.0)
    assert (seen.classified.value, seen.blur.value, seen.missing.value) == (1.0, 0.0, 0.0)
    assert seen.to_json()["class"] == "agent"


def test_a_thing_that_no_scene_has_has_no_error() -> None:
    assert localisation(certain(SCENES), SCENES, KEY) is None
