"""The interventions that are tried on a cell: where it is knocked out or replaced, and nulls.

knock-out         the attention to the cell's own tokens is masked, in one block or in all
knock-out, other  the same for another open cell, drawn at random: a null
patch             the cell's own tokens, as in the same question with a wall there
patch, around     those and the tokens of its neighbours
patch, end        the last three tokens of the prompt, where the paper reads its maps
write, random     a random vector as long as the tokens' own stream, at the cell's tokens: a null
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.world import MOVES, Cell
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located
from goalmeter.representation.use.closing import closed_prompt
from goalmeter.representation.use.interventions import Intervention, knock_out, patch

ALL = "all"


@dataclass(frozen=True)
class Candidate:
    """One intervention at one place of the network.

    Attributes:
        name: of its kind, as listed above.
        layer: at which layer or in which block; "all" for every one.
        position: which tokens are changed.
        is_null: whether nothing is expected of it, wherever the cell lies.
        make: from a located sample and a cell, what is to be changed; None where it cannot be done.
    """

    name: str
    layer: int | str
    position: str
    is_null: bool
    make: Callable[[Located, Cell], Intervention | None]

    @property
    def label(self) -> str:
        """The name with its place."""
        return f"{self.name} at layer {self.layer}"


def candidates(network: Network, *, layers: Sequence[int], seed: int) -> list[Candidate]:
    """The interventions that a screen tries.

    Args:
        network: the model.
        layers: at which single layers; knocking out is tried in blocks, so not at layer 0.
        seed: of the random nulls.
    """
    every = range(1, len(network.blocks) + 1)
    listed: list[Candidate] = []
    windows: list[tuple[int | str, Sequence[int]]] = [(ALL, every)]
    windows += [(layer, [layer]) for layer in layers if layer > 0]
    for layer, blocks in windows:
        listed.append(
            Candidate("knock-out", layer, "pre/cell", False, _knocking_out(blocks, _same))
        )
    listed.append(
        Candidate("knock-out, other", ALL, "pre/cell", True, _knocking_out(every, _drawn(seed)))
    )
    for layer in layers:
        for name, places, position in (
            ("patch", _own, "pre/cell"),
            ("patch, around", _around, "pre/cell"),
            ("patch, end", _end, "pre/end"),
        ):
            listed.append(
                Candidate(name, layer, position, False, _patching(network, [layer], places))
            )
    listed.append(
        Candidate("patch, end", ALL, "pre/end", False, _patching(network, [0, *every], _end))
    )
    return listed


def _knocking_out(
    blocks: Sequence[int], choose: Callable[[Located, Cell], Cell | None]
) -> Callable[[Located, Cell], Intervention | None]:
    def make(located: Located, cell: Cell) -> Intervention | None:
        chosen = choose(located, cell)
        tokens = located.cell(chosen) if chosen is not None else ()
        return knock_out(tokens, blocks) if tokens else None

    return make


def _same(located: Located, cell: Cell) -> Cell:
    return cell


def _drawn(seed: int) -> Callable[[Located, Cell], Cell | None]:
    def choose(located: Located, cell: Cell) -> Cell | None:
        sample = located.sample
        taken = {cell, sample.state.cell, sample.world.goal}
        cells = [each for each in sample.world.open_cells if each not in taken]
        # By content, so that a draw is the same in any order and any process.
        draws = Draws("another cell", seed, sample.digest, *cell)
        return cells[draws.below(len(cells))] if cells else None

    return choose


def _own(located: Located, cell: Cell) -> tuple[int, ...]:
    return located.cell(cell)


def _around(located: Located, cell: Cell) -> tuple[int, ...]:
    cells = [cell, *(cell.moved(action) for action in range(len(MOVES)))]
    return tuple(sorted({token for each in cells for token in located.cell(each)}))


def _end(located: Located, cell: Cell) -> tuple[int, ...]:
    return located.end_of_prompt


def _patching(
    network: Network, layers: Sequence[int], places: Callable[[Located, Cell], tuple[int, ...]]
) -> Callable[[Located, Cell], Intervention | None]:
    def make(located: Located, cell: Cell) -> Intervention | None:
        donor, tokens = closed_prompt(network, located.sample, cell), places(located, cell)
        if donor is None or not tokens:
            return None
        streams = network.streams(donor, layers)
        return patch({layer: stream[list(tokens)] for layer, stream in streams.items()}, tokens)

    return make
