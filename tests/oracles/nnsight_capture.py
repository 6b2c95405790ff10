"""The residual stream as nnsight reads it: a second way to the same numbers.

nnsight (Fiotto-Kaufman et al. 2025) is what many who look into networks use; it finds blocks and
their outputs by itself. That both ways agree says that ours looks where it says it does.

Importing nnsight gives every object of the process a method `save` and changes
`torch.Tensor.backward`; so it is imported only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from goalmeter._errors import require
from goalmeter.representation.network import Network, padded

if TYPE_CHECKING:
    import torch


def read_by_nnsight(
    network: Network,
    rows: Sequence[Sequence[int]],
    layers: Sequence[int],
    see: Callable[[int, torch.Tensor], None],
) -> None:
    """One pass over a batch of rows, which shows the residual stream [B, T, D] of some layers.

    Args:
        network: the model.
        rows: ids of tokens, filled up on the right with explicit positions.
        layers: in rising order; 0 for the embedding, k for what block k passes on.
        see: is shown each of them.
    """
    nnsight = require("nnsight", extra="nnsight", feature="Reading activations with nnsight")
    import torch

    model = network.local.model.base_model
    inputs = padded(rows, network.local.model.device)
    seen: dict[int, Any] = {}
    with torch.inference_mode(), _as_before(model):
        traced = nnsight.NNsight(model)
        blocks = [_envoy(traced, model, block) for block in network.blocks]
        with traced.trace(**inputs, use_cache=False):
            # Values have to be asked for in the order in which the pass comes to them.
            for layer in layers:
                value = blocks[0].input if layer == 0 else blocks[layer - 1].output
                seen[layer] = nnsight.save(value)
    for layer, value in seen.items():
        # Some blocks pass on the stream alone, others a tuple with attention behind it.
        see(layer, value[0] if isinstance(value, tuple) else value)


@contextmanager
def _as_before(model: Any) -> Iterator[None]:
    """Take away what nnsight leaves in the modules of a model: a `forward` of its own in each."""
    before = [(module.__dict__, dict(module.__dict__)) for module in model.modules()]
    try:
        yield
    finally:
        for now, then in before:
            for name in now.keys() - then.keys():
                del now[name]
            if "forward" in then:
                now["forward"] = then["forward"]


def _envoy(traced: Any, model: Any, block: Any) -> Any:
    """What stands for a block in nnsight's tree of modules."""
    name = next(name for name, module in model.named_modules() if module is block)
    return traced.get(name)
