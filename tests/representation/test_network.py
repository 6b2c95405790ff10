"""The residual stream that is read is the one that transformers computes."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from representation.tiny import ARCHITECTURES, sample


def streams(network: Any, rows: list[Any], layers: range) -> dict[int, Any]:
    """What is read at some layers while some rows are passed through."""
    read: dict[int, Any] = {}

    def reader(layer: int) -> Any:
        return lambda stream: read.__setitem__(layer, stream.clone())

    with network.changed({layer: reader(layer) for layer in layers}):
        network.forward(rows)
    return read


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_stream_is_that_of_plain_transformers(networks: dict[str, Any], name: str) -> None:
    """transformers gives the embedding, each block's output, and the last one normalised."""
    import torch

    network = networks[name]
    ids = list(sample(network).ids)
    count = len(network.blocks)
    read = streams(network, [ids], range(count + 1))
    with torch.inference_mode():
        plain = network.local.model(torch.tensor([ids]), output_hidden_states=True, use_cache=False)
    assert count == network.local.model.config.num_hidden_layers
    for layer in range(count):
        torch.testing.assert_close(read[layer], plain.hidden_states[layer], rtol=0, atol=0)
    with torch.inference_mode():
        logits = network.local.model.get_output_embeddings()(network.forward([ids])[0])
    # Nothing is left of the hooks, and the pass without its head is the same pass.
    torch.testing.assert_close(logits, plain.logits, rtol=0, atol=0)
    assert network.width == read[0].shape[-1]


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("layer", [0, 1])
def test_a_change_of_the_stream_goes_on(networks: dict[str, Any], name: str, layer: int) -> None:
    """A stream that is put in the place of another decides what follows, and what came before does
    not change."""
    network = networks[name]
    ids = list(sample(network).ids)
    donor = streams(network, [ids[::-1]], range(layer, layer + 1))[layer]
    read: dict[int, Any] = {}
    with (
        network.changed({layer: lambda stream: donor}),
        network.changed({2: lambda stream: read.__setitem__(2, stream.clone())}),
    ):
        network.forward([ids])
    import torch

    expected = streams(network, [ids[::-1]], range(2, 3))[2]
    torch.testing.assert_close(read[2], expected, rtol=0, atol=0)
