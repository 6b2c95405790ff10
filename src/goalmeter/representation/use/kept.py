"""What was read of a sequence of tokens, kept until all of it takes too much memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

MOST_BYTES = 2 << 30


class Kept(Generic[T]):
    """Things by name; what was asked for longest ago goes first.

    Args:
        size: bytes of one of them.
        most: bytes of all that are kept; what is asked for now is kept in any case.
    """

    def __init__(self, size: Callable[[T], int], most: int = MOST_BYTES) -> None:
        self._size = size
        self._most = most
        self._kept: OrderedDict[Hashable, T] = OrderedDict()
        self._bytes = 0

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """The thing of a name, made if it is not there."""
        if name not in self._kept:
            self._kept[name] = make()
            self._bytes += self._size(self._kept[name])
        self._kept.move_to_end(name)
        while self._bytes > self._most and len(self._kept) > 1:
            self._bytes -= self._size(self._kept.popitem(last=False)[1])
        return self._kept[name]
