"""Directions that tell where the goal is, where the truth can be seen in the embedding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

from representation.use.test_causal_use import decisions

from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located
from goalmeter.representation.use.patching import Place
from goalmeter.representation.use.subspace import place_directions


def projected(mouse: Network, samples: list[Any], kind: str) -> dict[Any, Any]:
    """The embeddings of the words of different cells, along the directions."""
    place = Place(f"pre/{kind}", (0,), 0)
    columns = place_directions(samples, mouse, place, kind, 6)
    assert columns is not None
    assert columns.shape[0] == mouse.width and 1 <= columns.shape[1] <= 6
    np.testing.assert_allclose(columns.T @ columns, np.eye(columns.shape[1]), atol=1e-9)
    out = {}
    for sample in samples:
        located = Located(sample, mouse.local.tokenizer)
        tokens = located.label("Goal:" if kind == "goal" else "Agent:")
        rows = mouse.streams(sample.prompt, [0])[0][list(tokens)]
        cell = sample.world.goal if kind == "goal" else sample.state.cell
        out[cell] = rows.double().mean(dim=0).numpy() @ columns
    return out


@pytest.mark.parametrize("kind", ["goal", "agent"])
def test_cells_lie_apart_along_the_directions(mouse: Network, kind: str) -> None:
    """Further than along random directions, in units of how far they lie apart in all."""
    samples = decisions(mouse, 12)
    along = np.array(list(projected(mouse, samples, kind).values()))
    assert len(along) > 3
    distances = np.linalg.norm(along[:, None] - along[None], axis=-1)[
        np.triu_indices(len(along), 1)
    ]
    assert distances.min() > 0
    place = Place(f"pre/{kind}", (0,), 0)
    first = place_directions(samples, mouse, place, kind, 1)
    more = place_directions(samples, mouse, place, kind, 3)
    assert first is not None and more is not None
    np.testing.assert_allclose(np.abs(first[:, 0] @ more), [1, 0, 0], atol=1e-9)


def test_where_nothing_differs_there_is_no_direction(mouse: Network) -> None:
    one = decisions(mouse, 1)
    place = Place("pre/goal", (0,), 0)
    assert place_directions(one, mouse, place, "goal", 4) is None
    assert place_directions([], mouse, place, "goal", 4) is None
