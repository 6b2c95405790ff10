"""A network with random weights is the trained one but for its weights, and leaves no trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("transformers")

import torch
from representation.tiny import ANSWER, ARCHITECTURES, CORRIDOR, REASONING, ROOM, sample

from goalmeter.representation.activations import (
    EMBEDDINGS,
    RANDOM_WEIGHTS,
    alternatives_of,
    capture,
    untrained,
)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_everything_but_the_weights_is_the_same(networks: dict[str, Any], name: str) -> None:
    network = networks[name]
    before, drawn = network.revision, torch.random.get_rng_state()
    made = untrained(network, seed=3)
    assert torch.equal(torch.random.get_rng_state(), drawn)
    ours, theirs = (each.local.model.state_dict() for each in (network, made))
    assert {key: value.shape for key, value in ours.items()} == {
        key: value.shape for key, value in theirs.items()
    }
    # Biases begin as zeros, of experts as of others.
    matrices = [key for key, value in theirs.items() if value.ndim > 1 and value.any()]
    assert len(matrices) > 8 and not any(torch.equal(ours[key], theirs[key]) for key in matrices)
    assert made.pinned == network.pinned and made.local.tokenizer is network.local.tokenizer
    assert not made.local.model.training and made.local.model is not network.local.model
    # A revision is kept once it is known, so the weights themselves are looked at again.
    assert type(network)(network.name, network.local).revision == before


def test_weights_are_those_of_the_seed(networks: dict[str, Any]) -> None:
    network = networks["llama"]
    torch.manual_seed(1)
    first = untrained(network, seed=5)
    torch.manual_seed(2)
    again, other = untrained(network, seed=5), untrained(network, seed=6)
    assert first.revision == again.revision != other.revision
    assert first.name == f"{network.name} with random weights (seed 5)"
    # As its library draws them: with the spread that its configuration asks for.
    spread = first.local.model.get_input_embeddings().weight.detach().std()
    assert float(spread) == pytest.approx(network.local.model.config.initializer_range, rel=0.05)


def test_alternatives_stand_beside_the_same_rows(networks: dict[str, Any], tmp_path: Path) -> None:
    network = networks["llama"]
    samples = [
        sample(network, picture, answer=answer, step=step)
        for step, (picture, answer) in enumerate(
            [(ROOM, REASONING + ANSWER), (CORRIDOR, ANSWER), (CORRIDOR, REASONING + ANSWER)]
        )
    ]
    options = {"layers": [0, 2], "positions": ["pre/agent", "post/end"]}
    ours = capture(samples, network, tmp_path / "ours", **options)
    random = capture(samples, untrained(network, seed=0), tmp_path / "random", **options)
    kept = np.array([0, 2])
    found = alternatives_of(ours, 2, "post/end", random=random, rows=kept)
    assert list(found) == [EMBEDDINGS, RANDOM_WEIGHTS]
    words = network.local.model.get_input_embeddings().weight.detach().numpy()
    tokens = ours.tokens("post/end")[kept]
    np.testing.assert_array_equal(found[EMBEDDINGS], words[tokens].reshape(2, -1))
    np.testing.assert_array_equal(
        found[RANDOM_WEIGHTS], random.at(2, "post/end")[kept].reshape(2, -1)
    )
    assert list(alternatives_of(ours, 2, "pre/agent")) == [EMBEDDINGS]
    assert not np.isnan(alternatives_of(ours, 2, "pre/agent")[EMBEDDINGS]).any()
