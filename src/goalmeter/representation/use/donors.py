"""The residual streams of other questions, each read once however many patches are made of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from goalmeter.representation.network import Network
from goalmeter.representation.replay import digest_of

if TYPE_CHECKING:
    import torch

MOST_BYTES = 2 << 30


class Donors:
    """Streams of sequences of tokens at some layers, kept until they take too much memory.

    Args:
        network: that reads them.
        layers: all that will be asked for, so that one pass does for all of them.
        most_bytes: of streams that are kept; the sequence that was asked for longest ago goes
            first.

    Raises:
        InvalidParameterError: there is no such layer.
    """

    def __init__(
        self, network: Network, layers: Sequence[int], most_bytes: int = MOST_BYTES
    ) -> None:
        self._network = network
        self._layers = network.check_layers(layers)
        self._most = most_bytes
        self._kept: OrderedDict[str, dict[int, torch.Tensor]] = OrderedDict()
        self._bytes = 0

    def streams(self, ids: Sequence[int], layers: Sequence[int]) -> dict[int, torch.Tensor]:
        """The residual stream of some tokens at some of the layers, each [T, D]."""
        name = digest_of(ids)
        if name not in self._kept:
            self._kept[name] = self._network.streams(ids, self._layers)
            self._bytes += _size(self._kept[name])
        self._kept.move_to_end(name)
        found = {layer: self._kept[name][layer] for layer in layers}
        while self._bytes > self._most:
            self._bytes -= _size(self._kept.popitem(last=False)[1])
        return found


def _size(streams: dict[int, torch.Tensor]) -> int:
    return sum(stream.nbytes for stream in streams.values())
