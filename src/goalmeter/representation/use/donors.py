"""The residual streams of other questions, each read once however many patches are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from goalmeter.representation.network import Network
from goalmeter.representation.replay import digest_of
from goalmeter.representation.use.kept import MOST_BYTES, Kept

if TYPE_CHECKING:
    import torch


class Donors:
    """Streams of sequences of tokens at some layers.

    Args:
        network: that reads them.
        layers: all that will be asked for, so that one pass does for all of them.
        most_bytes: of streams that are kept; the sequence that was asked for longest ago goes
            first.
    """

    def __init__(
        self, network: Network, layers: Sequence[int], most_bytes: int = MOST_BYTES
    ) -> None:
        self._network = network
        self._layers = network.check_layers(layers)
        self._kept: Kept[dict[int, torch.Tensor]] = Kept(_bytes, most_bytes)

    def streams(self, ids: Sequence[int], layers: Sequence[int]) -> dict[int, torch.Tensor]:
        """The residual stream of some tokens at some of the layers, each [T, D]."""
        read = self._kept.get(digest_of(ids), lambda: self._network.streams(ids, self._layers))
        return {layer: read[layer] for layer in layers}


def _bytes(streams: dict[int, torch.Tensor]) -> int:
    return sum(stream.nbytes for stream in streams.values())
