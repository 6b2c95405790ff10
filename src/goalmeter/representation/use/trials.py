"""Trials of causal use: halves of the grids, decisions, candidate interventions, outcomes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.world import MOVES, Cell, GridWorld, content
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located, Sample, digest_of, scenes_of
from goalmeter.representation.scenes import Shape, uncertain_cells
from goalmeter.representation.use.directions import (
    Spot,
    Spots,
    TargetCell,
    Writing,
    at_other,
    at_random,
    closed_prompt,
    target_cells,
    target_walls,
)
from goalmeter.representation.use.interventions import Intervention, ablate, knock_out, patch, write
from goalmeter.statistics.clusters import Estimate, estimate

if TYPE_CHECKING:
    import torch


# --- Halves ---------------------------------------------------------------------------------------
# The best of many interventions looks good by chance too. So what is chosen on one half is scored
# on the other only. Which half a grid lies in is decided by a hash of its content: whoever runs
# the same again cannot have another split, and a mirror image of a grid lies in the same half.

HALVES = SCREEN, CONFIRM = "screen", "confirm"


def half_of(world: GridWorld, salt: str) -> str:
    """The half that a grid lies in.

    Args:
        world: the grid.
        salt: of the split, which the result records; another one splits anew.

    Example: the same grid is always in the same half.
        >>> room = GridWorld.from_text(["#####", "#A_G#", "#####"])
        >>> half_of(room, "0") == half_of(room, "0")
        True
    """
    digest = sha256(f"{salt}:{content(world)}".encode()).digest()
    return (SCREEN, CONFIRM)[digest[0] % 2]


# --- Trials ---------------------------------------------------------------------------------------
Wanted = Callable[[Sample, Cell], bool]
Trial = tuple[Located, TargetCell]


def trials_of(
    samples: Sequence[Sample],
    halves: Sequence[str],
    wanted: Wanted | None,
    per_decision: int,
    salt: str,
    seed: int,
    *,
    walls: bool = False,
) -> dict[str, list[tuple[Sample, TargetCell]]]:
    """The decisions and cells of some halves, in their order.

    Args:
        samples: decisions of both halves, by which it is told what is uncertain.
        halves: "screen", "confirm" or both.
        wanted: which cells are of interest; None for all that are uncertain given their place.
        per_decision: cells of each kind, needed and not, drawn at random.
        salt: of the split.
        seed: of the draws.
        walls: whether walls are asked about, not open cells.
    """
    targets = target_walls if walls else target_cells
    uncertain = uncertain_cells(scenes_of(samples))
    out: dict[str, list[tuple[Sample, TargetCell]]] = {half: [] for half in halves}
    for sample in samples:
        half = half_of(sample.world, salt)
        if half not in out:
            continue
        target = [
            each
            for each in targets(sample.world, sample.state)
            if uncertain[sample.world.shape][each.cell]
            and (wanted is None or wanted(sample, each.cell))
        ]
        for needed in (True, False):
            kind = [each for each in target if each.needed == needed]
            Draws("target cells", seed, sample.walk, sample.step, int(needed)).shuffle(kind)
            out[half] += [(sample, each) for each in kind[:per_decision]]
    return out


def needed_of(trials: Sequence[Trial]) -> dict[str, list[TargetCell]]:
    """The needed cells by the digest of their decision."""
    targets: dict[str, list[TargetCell]] = {}
    for located, target in trials:
        if target.needed:
            targets.setdefault(located.sample.digest, []).append(target)
    return targets


def drawn(trials: Sequence[Trial], count: int, seed: int) -> list[Trial]:
    """At most so many trials of needed cells, and of the others, drawn at random, in their order.

    Args:
        trials: of a half.
        count: of each kind.
        seed: of the draws.
    """
    kept: set[int] = set()
    for needed in (True, False):
        places = [place for place, (_, cell) in enumerate(trials) if cell.needed == needed]
        Draws("cells that are screened", seed, int(needed)).shuffle(places)
        kept.update(places[:count])
    return [trial for place, trial in enumerate(trials) if place in kept]


# --- Kept -----------------------------------------------------------------------------------------
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


# --- Donors ---------------------------------------------------------------------------------------
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


# --- Windows --------------------------------------------------------------------------------------
ALL = "all"


def windows_of(layers: Sequence[int]) -> list[tuple[str, tuple[int, ...]]]:
    """The windows and what they are called.

    Args:
        layers: in their order.

    Returns:
        Windows of at least two layers.

    Example:
        >>> windows_of([0, 1, 2, 3, 4])
        [('0-1', (0, 1)), ('2-4', (2, 3, 4)), ('all', (0, 1, 2, 3, 4))]
    """
    half = len(layers) // 2
    parts = [tuple(part) for part in (layers[:half], layers[half:])]
    halves = [(f"{part[0]}-{part[-1]}", part) for part in parts if len(part) > 1]
    return [*halves, (ALL, tuple(layers))]


# --- Candidates -----------------------------------------------------------------------------------
# knock-out         the attention to the cell's own tokens is masked, in one block or in all patch
# the cell's own tokens, as in the same question with a wall there patch, around     those and the
# tokens of its neighbours patch, end        the last three tokens of the prompt, where the paper
# reads its maps windows           the same three at several layers at once: the first half, the
# second half, all write             the residual stream is moved towards a wall, along a
# direction of `directions` open              it is moved back: from a wall towards an open cell
# ablate            its component along that direction is removed
#
# Of each there is a null that differs in one thing only: "other" does the same to another open
# cell ("open" to another wall), "random" takes random directions of equal norm at the same tokens
# and layers, and "donor" patches from the question in which another cell is closed.

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


# --- Outcomes -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Outcome:
    """One decision under one intervention at one cell.

    Attributes:
        walk: key of the decision's walk.
        step: number of the decision.
        grid: name of the grid's content, by which intervals are clustered.
        shape: rows and columns of the world.
        cell: the cell that was changed, and what should follow.
        before: the action without the intervention; None where that answer cannot be read.
        after: the action under it; None where the answer cannot be read.
    """

    walk: str
    step: int
    grid: str
    shape: Shape
    cell: TargetCell
    before: int | None
    after: int | None

    @property
    def counts(self) -> bool:
        """Whether the decision was right before, so that there is a move to be flipped."""
        return self.before in self.cell.optimal

    @property
    def flipped(self) -> bool:
        """Whether the answer is another move. An answer that cannot be read is no move."""
        return self.after is not None and self.after != self.before

    @property
    def as_if_changed(self) -> bool:
        """Whether the cell is needed and the move is optimal if it were changed."""
        return self.cell.needed and self.after in self.cell.changed


@dataclass(frozen=True)
class Effect:
    """What became of the decisions at cells of one kind, as shares of them with 95% intervals.

    Attributes:
        flips: with another move.
        as_if_changed: with a move that is optimal if the cell were what it is changed to, a wall or
            open; 0 for unneeded cells.
        unreadable: with an answer that cannot be read.
    """

    flips: Estimate
    as_if_changed: Estimate
    unreadable: Estimate

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {name: value.to_json() for name, value in vars(self).items()}


@dataclass(frozen=True)
class UseRow:
    """One intervention on one half of the grids.

    Attributes:
        intervention: what was done.
        layer: where; "all" for every block.
        position: the tokens that were changed.
        is_null: whether nothing is expected of it.
        needed: its effect at cells that shortest ways need.
        unneeded: its effect at cells on no shortest way.
        dose: of a write, in gaps between walls and open cells; None of what has no dose.
        effect_nats: how far the distribution of the next action moves at needed cells, in nats
            (`divergence`); None if no answers were drawn.
    """

    intervention: str
    layer: int | str
    position: str
    is_null: bool
    needed: Effect
    unneeded: Effect
    dose: float | None = None
    effect_nats: Estimate | None = None

    @property
    def label(self) -> str:
        """The intervention with its place."""
        return f"{self.intervention} at layer {self.layer}"

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        effects = {"needed": self.needed.to_json(), "unneeded": self.unneeded.to_json()}
        nats = None if self.effect_nats is None else self.effect_nats.to_json()
        return vars(self) | effects | {"effect_nats": nats}


def row_of(
    candidate: Candidate, outcomes: Sequence[Outcome], effect_nats: Estimate | None = None
) -> UseRow:
    """The effects of an intervention.

    Decisions that were wrong before are left out: nobody can say what should become of them.
    """
    return UseRow(
        candidate.name,
        candidate.layer,
        candidate.position,
        candidate.is_null,
        _effect([o for o in outcomes if o.counts and o.cell.needed]),
        _effect([o for o in outcomes if o.counts and not o.cell.needed]),
        candidate.dose,
        effect_nats,
    )


def _effect(outcomes: Sequence[Outcome]) -> Effect:
    grids = np.unique([outcome.grid for outcome in outcomes], return_inverse=True)[1]

    def share(hits: list[bool]) -> Estimate:
        total = np.bincount(grids)
        # Many decisions in a grid are not many grids; how many are asked is set beforehand.
        return estimate(
            np.bincount(grids, np.asarray(hits, float)),
            total,
            heaviest=total.max(initial=0),
            n=len(hits),
            bounds=(0.0, 1.0),
        )

    return Effect(
        share([outcome.flipped for outcome in outcomes]),
        share([outcome.as_if_changed for outcome in outcomes]),
        share([outcome.after is None for outcome in outcomes]),
    )
