"""Whether a network gives finite numbers, and where the first come up that are not.

A weight that is no number, or a number type that overflows, spoils everything behind it. Layers in
front of that are finite nevertheless, although the model that they are of answers nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NoReturn

from goalmeter._errors import InvalidFileError
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample

if TYPE_CHECKING:
    import torch


def check_finite_pass(network: Network, sample: Sample) -> None:
    """Replay a decision alone, and look at every layer and at the logits of its last token."""
    if place := _first_not_finite(network, sample):
        _refuse(network, sample, place)


def refuse_rows(network: Network, sample: Sample) -> NoReturn:
    """Say where the numbers of a decision come from that were not finite in a batch."""
    _refuse(network, sample, _first_not_finite(network, sample) or "its rows in a batch")


def _first_not_finite(network: Network, sample: Sample) -> str:
    """The first place at which a number is not finite; "" where all of them are."""
    import torch

    finite: dict[int, bool] = {}

    def see(layer: int, stream: torch.Tensor) -> None:
        finite[layer] = bool(torch.isfinite(stream).all())

    layers = range(len(network.blocks) + 1)
    with network.changed({layer: partial(see, layer) for layer in layers}):
        last = network.forward([sample.ids]).last_hidden_state[:, -1:]
    for layer in layers:
        if not finite[layer]:
            return f"layer {layer}"
    head = network.local.model.get_output_embeddings()
    with torch.inference_mode():
        logits = last if head is None else head(last)
    return "" if torch.isfinite(logits).all() else "the logits"


def _refuse(network: Network, sample: Sample, place: str) -> NoReturn:
    import torch

    weights = network.local.model.state_dict().items()
    # Number types of eight bits cannot be asked themselves.
    spoilt = [name for name, weight in weights if not torch.isfinite(weight.float()).all()]
    dtype = network.pinned["dtype"]
    mend = (
        f"its weights {spoilt[0]} are not finite, so load a copy of it that is whole"
        if spoilt
        else f"they overflow in {dtype}, so save it in a number type of more range"
    )
    raise InvalidFileError(
        f"{network.name} gives numbers that are not finite, first at {place}, for step "
        f"{sample.step} of {sample.walk!r}: {mend}"
    )
