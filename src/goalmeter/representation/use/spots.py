"""Where a direction towards a wall is written, in a prompt or an answer, and nulls of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from goalmeter.gridworld.world import Cell
from goalmeter.representation.positions import Located
from goalmeter.representation.use.cells import TargetCell
from goalmeter.representation.use.learning import Direction
from goalmeter.representation.use.written import When, Written


class Learnt(NamedTuple):
    """A decision that directions are learnt from.

    Attributes:
        located: with its tokens.
        answer: tokens of the model's own answer, unchanged.
        targets: cells of it that are tried.
    """

    located: Located
    answer: tuple[int, ...]
    targets: tuple[TargetCell, ...]


class Spot(NamedTuple):
    """Where one vector is added.

    Attributes:
        where: a place in the prompt, or a condition on the answer as it is written.
        layer: of the residual stream.
        direction: towards a wall.
    """

    where: int | When
    layer: int
    direction: Direction


# From a prompt and a cell, where a wall is written there: empty if it cannot be done.
Spots = Callable[[Located, Cell], list[Spot]]


@dataclass(frozen=True)
class Names:
    """The token at which an answer comes to a cell.

    Attributes:
        text: what is said there, such as "3,3:".
    """

    text: str

    def __call__(self, written: Written) -> bool:
        """Whether the token that is being read completes it; "3,3:" is no part of "13,3:"."""
        text = written.text
        begin = text.find(self.text, max(0, written.last - len(self.text) + 1))
        return begin >= 0 and not text[:begin][-1:].isdigit()


@dataclass(frozen=True, eq=False)
class Writing:
    """A kind of direction at some layers.

    Attributes:
        kind: as listed above.
        position: the tokens that are written to.
        at: for each layer, where a wall is written.
    """

    kind: str
    position: str
    at: Mapping[int, Spots]

    def spots(self, layers: Sequence[int]) -> Spots:
        """Where a wall is written at several layers at once."""
        known = [self.at[layer] for layer in layers if layer in self.at]
        return lambda located, cell: [spot for each in known for spot in each(located, cell)]


def at_random(spots: Spots, seed: int) -> Spots:
    """The same places with random directions, and gaps as wide: writes of equal norm."""

    def drawn(located: Located, cell: Cell) -> list[Spot]:
        # By content, so that a draw is the same in any order and any process.
        name = f"a random direction:{seed}:{located.sample.digest}:{cell}"
        rng = np.random.default_rng(list(sha256(name.encode()).digest()))
        out = []
        for spot in spots(located, cell):
            vector = rng.standard_normal(len(spot.direction.unit))
            unit = vector / np.linalg.norm(vector)
            out.append(spot._replace(direction=Direction(unit, spot.direction.gap)))
        return out

    return drawn


def at_other(spots: Spots, choose: Callable[[Located, Cell], Cell | None]) -> Spots:
    """What would be written to another cell of the same prompt."""

    def other(located: Located, cell: Cell) -> list[Spot]:
        chosen = choose(located, cell)
        return spots(located, chosen) if chosen is not None else []

    return other
