"""The interventions that are tried on a cell: where it is changed, and nulls.

knock-out         the attention to the cell's own tokens is masked, in one block or in all
patch             the cell's own tokens, as in the same question with a wall there
patch, around     those and the tokens of its neighbours
patch, end        the last three tokens of the prompt, where the paper reads its maps
windows           the same three at several layers at once: the first half, the second half, all
write             the residual stream is moved towards a wall, along a direction of `directions`
open              it is moved back: from a wall towards an open cell
ablate            its component along that direction is removed

Of each there is a null that differs in one thing only: "other" does the same to another open cell
("open" to another wall),
"random" takes random directions of equal norm at the same tokens and layers, and "donor" patches
from the question in which another cell is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from goalmeter._types import FloatArray
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.world import MOVES, Cell
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located
from goalmeter.representation.use.closing import closed_prompt
from goalmeter.representation.use.donors import Donors
from goalmeter.representation.use.interventions import (
    Intervention,
    ablate,
    knock_out,
    patch,
    write,
)
from goalmeter.representation.use.spots import Spot, Spots, Writing, at_other, at_random
from goalmeter.representation.use.windows import ALL, windows_of

KNOCK_OUT, PATCH, WINDOWS, WRITE, ABLATE, OPEN = FAMILIES = (
    "knock-out",
    "patch",
    "windows",
    "write",
    "ablate",
    "open",
)
# What is tried where nobody says: a patch at several layers does little that one does not.
TRIED = tuple(family for family in FAMILIES if family != WINDOWS)
# What needs directions that are learnt, and of these what is done to walls.
DIRECTED = (WRITE, ABLATE, OPEN)
# Weights leave out what a difference of means has besides, so a gap along them is the least of it.
DOSE = 2.0
Make = Callable[[Located, Cell], Intervention | None]
Choice = Callable[[Located, Cell], Cell | None]


@dataclass(frozen=True)
class Candidate:
    """One intervention at one place of the network.

    Attributes:
        name: of its kind, as listed above.
        layer: at which layer or in which block; "all" for every one.
        position: which tokens are changed.
        is_null: whether nothing is expected of it, wherever the cell lies.
        make: from a located sample and a cell, what is to be changed; None where it cannot be done.
        dose: of a write, in gaps between walls and open cells; None of what has no dose. Gaps are
            counted in the direction of the write.
        nulls: that differ from it in one thing only.
        dosed: the same write at another dose; None of what has none.
    """

    name: str
    layer: int | str
    position: str
    is_null: bool
    make: Make
    dose: float | None = None
    nulls: tuple[Candidate, ...] = ()
    dosed: Callable[[float], Candidate] | None = None

    @property
    def label(self) -> str:
        """The name with its place."""
        return f"{self.name} at layer {self.layer}"

    @property
    def family(self) -> str:
        """What it does: one of `FAMILIES`."""
        return self.name.split(",")[0]

    @property
    def key(self) -> str:
        """What tells it from every other candidate."""
        dose = "" if self.dose is None else f", dose {self.dose:g}"
        return f"{self.label}, {self.position}{dose}"


def candidates(
    network: Network,
    *,
    layers: Sequence[int],
    seed: int,
    written: Sequence[Writing] = (),
    dose: float = DOSE,
) -> list[Candidate]:
    """The interventions that a screen tries.

    Args:
        network: the model.
        layers: at which single layers; knocking out is tried in blocks, so not at layer 0.
        seed: of the random nulls.
        written: the directions that were learnt.
        dose: of writes, in gaps between walls and open cells.
    """
    other = another_cell(seed)
    every = range(1, len(network.blocks) + 1)
    donors = Donors(network, [0, *every])
    listed: list[Candidate] = []
    knocked: list[tuple[int | str, Sequence[int]]] = [(ALL, every)]
    knocked += [(layer, [layer]) for layer in layers if layer > 0]
    for layer, blocks in knocked:
        null = Candidate(
            f"{KNOCK_OUT}, other", layer, "pre/cell", True, _knocking_out(blocks, other)
        )
        made = _knocking_out(blocks, _same)
        listed.append(Candidate(KNOCK_OUT, layer, "pre/cell", False, made, nulls=(null,)))
    listed.append(
        Candidate(f"{KNOCK_OUT}, other", ALL, "pre/cell", True, _knocking_out(every, other))
    )
    for layer in layers:
        for name, places, position in _PATCHED:
            name = f"{PATCH}{name}"
            listed.append(_patched(network, donors, name, layer, position, [layer], places, other))
    for label, window in windows_of([0, *every]):
        for name, places, position in _PATCHED:
            name = f"{WINDOWS}{name}"
            listed.append(_patched(network, donors, name, label, position, window, places, other))
    listed.append(
        _patched(network, donors, f"{PATCH}, end", ALL, "pre/end", [0, *every], _end, other)
    )
    for writing in written:
        listed += _writes(WRITE, writing, layers, dose, seed, other)
        listed += _ablations(writing, layers, seed)
        # A wall that a prompt does not list has no tokens of its own to be written to.
        listed += _writes(OPEN, writing, layers, dose, seed, another_wall(seed))
    return listed


def _patched(
    network: Network,
    donors: Donors,
    name: str,
    layer: int | str,
    position: str,
    layers: Sequence[int],
    places: Callable[[Located, Cell], tuple[int, ...]],
    other: Choice,
) -> Candidate:
    null = _patching(network, donors, layers, places, other)
    return Candidate(
        name,
        layer,
        position,
        False,
        _patching(network, donors, layers, places, _same),
        nulls=(Candidate(f"{name}, donor", layer, position, True, null),),
    )


def _windows(writing: Writing, layers: Sequence[int]) -> list[tuple[int | str, Sequence[int]]]:
    """Single layers, and all together."""
    able = [layer for layer in layers if layer in writing.at]
    single: list[tuple[int | str, Sequence[int]]] = [(layer, [layer]) for layer in able]
    return [*single, (ALL, able)] if len(able) > 1 else single


def _writes(
    family: str,
    writing: Writing,
    layers: Sequence[int],
    dose: float,
    seed: int,
    other: Choice,
) -> list[Candidate]:
    sign = -1.0 if family == OPEN else 1.0

    def of(layer: int | str, spots: Spots, dose: float) -> Candidate:
        def made(name: str, is_null: bool, spots: Spots) -> Candidate:
            make = _writing(spots, sign * dose)
            full = f"{family}, {writing.kind}{name}"
            return Candidate(full, layer, writing.position, is_null, make, dose)

        nulls = (
            made(", random", True, at_random(spots, seed)),
            made(", other", True, at_other(spots, other)),
        )
        return replace(
            made("", False, spots), nulls=nulls, dosed=lambda dose: of(layer, spots, dose)
        )

    return [of(layer, writing.spots(each), dose) for layer, each in _windows(writing, layers)]


def _ablations(writing: Writing, layers: Sequence[int], seed: int) -> list[Candidate]:
    listed = []
    for layer, several in _windows(writing, layers):
        spots = writing.spots(several)
        name, position = f"{ABLATE}, {writing.kind}", writing.position
        null = Candidate(
            f"{name}, random", layer, position, True, _ablating(at_random(spots, seed))
        )
        listed.append(Candidate(name, layer, position, False, _ablating(spots), nulls=(null,)))
    return listed


def _writing(spots: Spots, dose: float) -> Make:
    return _changing(spots, lambda spot: spot.direction.vector(dose), write)


def _ablating(spots: Spots) -> Make:
    return _changing(spots, lambda spot: spot.direction.unit, ablate)


def _changing(
    spots: Spots, vector: Callable[[Spot], FloatArray], change: Callable[..., Intervention]
) -> Make:
    def make(located: Located, cell: Cell) -> Intervention | None:
        import torch

        changes = [
            change(
                torch.tensor(vector(spot), dtype=torch.float32),
                [spot.where] if isinstance(spot.where, int) else spot.where,
                [spot.layer],
            )
            for spot in spots(located, cell)
        ]
        return reduce(Intervention.joined, changes) if changes else None

    return make


def _knocking_out(blocks: Sequence[int], choose: Choice) -> Make:
    def make(located: Located, cell: Cell) -> Intervention | None:
        chosen = choose(located, cell)
        tokens = located.cell(chosen) if chosen is not None else ()
        return knock_out(tokens, blocks) if tokens else None

    return make


def _same(located: Located, cell: Cell) -> Cell:
    return cell


def another_cell(seed: int) -> Choice:
    """What draws another open cell of the same world, for nulls."""

    def choose(located: Located, cell: Cell) -> Cell | None:
        sample = located.sample
        taken = {cell, sample.state.cell, sample.world.goal}
        cells = [each for each in sample.world.open_cells if each not in taken]
        # By content, so that a draw is the same in any order and any process.
        draws = Draws("another cell", seed, sample.digest, *cell)
        return cells[draws.below(len(cells))] if cells else None

    return choose


def another_wall(seed: int) -> Choice:
    """What draws another inner wall of the same world, for nulls."""

    def choose(located: Located, cell: Cell) -> Cell | None:
        sample = located.sample
        rows, columns = sample.world.shape
        walls = [
            Cell(row, column)
            for row in range(1, rows - 1)
            for column in range(1, columns - 1)
            if sample.world.walls[row, column] and Cell(row, column) != cell
        ]
        draws = Draws("another wall", seed, sample.digest, *cell)
        return walls[draws.below(len(walls))] if walls else None

    return choose


def _own(located: Located, cell: Cell) -> tuple[int, ...]:
    return located.cell(cell)


def _around(located: Located, cell: Cell) -> tuple[int, ...]:
    cells = [cell, *(cell.moved(action) for action in range(len(MOVES)))]
    return tuple(sorted({token for each in cells for token in located.cell(each)}))


def _end(located: Located, cell: Cell) -> tuple[int, ...]:
    return located.end_of_prompt


# What is behind the name, which tokens, and what they are called.
_PATCHED = (("", _own, "pre/cell"), (", around", _around, "pre/cell"), (", end", _end, "pre/end"))


def _patching(
    network: Network,
    donors: Donors,
    layers: Sequence[int],
    places: Callable[[Located, Cell], tuple[int, ...]],
    choose: Choice,
) -> Make:
    def make(located: Located, cell: Cell) -> Intervention | None:
        chosen, tokens = choose(located, cell), places(located, cell)
        donor = closed_prompt(network, located.sample, chosen) if chosen is not None else None
        if donor is None or not tokens:
            return None
        streams = donors.streams(donor, layers)
        return patch({layer: stream[list(tokens)] for layer, stream in streams.items()}, tokens)

    return make
