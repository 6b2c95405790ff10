"""Trials of causal use: halves of the grids, decisions, candidate interventions, outcomes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from goalmeter._files import JsonFields
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.world import MOVES, Cell, GridWorld, content
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located, Sample, digest_of, scenes_of
from goalmeter.representation.scenes import Shape, mean_over_grids, uncertain_cells
from goalmeter.representation.use.directions import (
    DirectionKind,
    TargetCell,
    closed_prompt,
    in_random_directions,
    inner_walls,
    target_cells,
    target_walls,
)
from goalmeter.representation.use.interventions import (
    EVERYWHERE,
    Intervention,
    TokenSpan,
    ablate,
    knock_out,
    patch,
    write,
)
from goalmeter.statistics.clusters import Estimate

if TYPE_CHECKING:
    import torch

# What is chosen on one half of the grids is scored on the other only. The half is a hash of the
# grid's content: nobody can draw another split, and mirror images lie in the same half.
HALVES = SCREEN, CONFIRM = "screen", "confirm"
# Whether a cell of a decision is of interest.
Wanted = Callable[[Sample, Cell], bool]
Trial = tuple[Located, TargetCell]


def half_of(world: GridWorld, salt: str) -> str:
    """Return the half in which a grid lies, by a hash of its content; another salt splits anew."""
    digest = sha256(f"{salt}:{content(world)}".encode()).digest()
    return HALVES[digest[0] % 2]


def walls_of(half: str) -> str:
    """The name of the trials of a half in which walls are changed."""
    return f"{half}, walls"


def trials_of(
    samples: Sequence[Sample],
    tokenizer: Any,
    *,
    salt: str,
    seed: int,
    wanted: Wanted | None = None,
    per_decision: int = 1,
    walls: bool = False,
) -> dict[str, list[Trial]]:
    """Return the decisions of both halves with the cells, or `walls`, to be changed in them.

    Up to `per_decision` uncertain cells of each kind, needed and not, are drawn.
    """
    names = {half: walls_of(half) if walls else half for half in HALVES}
    uncertain = uncertain_cells(scenes_of(samples))
    out: dict[str, list[Trial]] = {name: [] for name in names.values()}
    for sample in samples:
        listed = [
            each
            for each in (target_walls if walls else target_cells)(sample.world, sample.state)
            if uncertain[sample.world.shape][each.cell]
            and (wanted is None or wanted(sample, each.cell))
        ]
        if not listed:
            continue
        # Located once, since every intervention needs the tokens of these prompts.
        located = Located(sample, tokenizer)
        for needed in (True, False):
            kind = [each for each in listed if each.needed == needed]
            Draws("target cells", seed, sample.walk, sample.step, int(needed)).shuffle(kind)
            taken = [(located, each) for each in kind[:per_decision]]
            out[names[half_of(sample.world, salt)]] += taken
    return out


def drawn(trials: Sequence[Trial], count: int, seed: int) -> list[Trial]:
    """Draw at most this many trials of needed cells, and of the others, in their order."""
    kept: set[int] = set()
    for needed in (True, False):
        places = [place for place, (_, cell) in enumerate(trials) if cell.needed == needed]
        Draws("cells that are screened", seed, int(needed)).shuffle(places)
        kept.update(places[:count])
    return [trial for place, trial in enumerate(trials) if place in kept]


T = TypeVar("T")
_MOST_BYTES = 2 << 30


class SizedCache(Generic[T]):
    """Values by name; the least recently used ones are dropped beyond a number of bytes."""

    def __init__(self, size: Callable[[T], int]) -> None:
        self._size, self._bytes = size, 0
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, name: Hashable, make: Callable[[], T]) -> T:
        """Return a value, made if it is not there."""
        if name not in self._values:
            self._values[name] = make()
            self._bytes += self._size(self._values[name])
        self._values.move_to_end(name)
        while self._bytes > _MOST_BYTES and len(self._values) > 1:
            self._bytes -= self._size(self._values.popitem(last=False)[1])
        return self._values[name]


class Donors:
    """Residual streams of token sequences, read once for all layers that will be requested."""

    def __init__(self, network: Network, layers: Sequence[int]) -> None:
        self._network, self._layers = network, layers
        self._cache: SizedCache[dict[int, torch.Tensor]] = SizedCache(
            lambda streams: sum(stream.nbytes for stream in streams.values())
        )

    def streams(self, ids: Sequence[int], layers: Sequence[int]) -> dict[int, torch.Tensor]:
        """Return the residual stream of a sequence at some of the layers, each [T, D]."""
        read = self._cache.get(digest_of(ids), lambda: self._network.streams(ids, self._layers))
        return {layer: read[layer] for layer in layers}

    def patch(
        self,
        donor: Sequence[int],
        there: Sequence[int],
        places: Sequence[int],
        layers: Sequence[int],
    ) -> Intervention:
        """Replace the stream at places of a prompt by that of other tokens of a donor."""
        streams = self.streams(donor, layers)
        return patch({k: stream[list(there)] for k, stream in streams.items()}, places)


ALL = "all"


def windows_of(layers: Sequence[int]) -> list[tuple[str, tuple[int, ...]]]:
    """Return the windows of at least two layers with their labels: both halves, and all."""
    half = len(layers) // 2
    parts = [tuple(part) for part in (layers[:half], layers[half:])]
    halves = [(f"{part[0]}-{part[-1]}", part) for part in parts if len(part) > 1]
    return [*halves, (ALL, tuple(layers))]


# knock-out       the attention to the cell's own tokens is masked, in one block or in all
# patch           the cell's own tokens, as in the same question with a wall there
# patch, around   these and the tokens of its neighbours
# patch, end      the last three tokens of the prompt, where the paper reads its maps
# windows         the same three at several layers at once: the first half, the second half, all
# write           the residual stream is moved towards a wall, along a direction of `directions`
# open            it is moved back: from a wall towards an open cell
# ablate          its component along that direction is removed
#
# Each has nulls that differ in one thing only: "other" does the same to another open cell ("open"
# to another wall), "random" takes random directions of equal norm at the same tokens and layers,
# and "donor" patches from the question in which another cell is closed.
FAMILIES = ("knock-out", "patch", "windows", "write", "ablate", "open")
KNOCK_OUT, PATCH, WINDOWS, WRITE, ABLATE, OPEN = FAMILIES
# The default: a patch at several layers does little that one at a single layer does not.
TRIED = tuple(family for family in FAMILIES if family != WINDOWS)
# The families that need learnt directions.
DIRECTED = (WRITE, ABLATE, OPEN)
# Gaps between the means of walls and open cells along a direction. Two, since a probe's weights
# leave out what the difference of means has besides.
DOSE = 2.0
Make = Callable[[Located, Cell], Intervention | None]


@dataclass(frozen=True)
class CandidateIntervention:
    """One intervention at one place of the network; `make` is None where it is impossible."""

    name: str
    layer: int | str
    position: str
    is_null: bool
    make: Make
    dose: float | None = None
    nulls: tuple[CandidateIntervention, ...] = ()
    dosed: Callable[[float], CandidateIntervention] | None = None  # the same at another dose

    @classmethod
    def with_nulls(
        cls,
        name: str,
        layer: int | str,
        position: str,
        make: Callable[[str, Located, Cell], Intervention | None],
        nulls: Sequence[str],
        dose: float | None = None,
        dosed: Callable[[float], CandidateIntervention] | None = None,
    ) -> CandidateIntervention:
        """An intervention with its nulls; `make` receives the name of the null, or ""."""
        listed = tuple(
            cls(f"{name}, {null}", layer, position, True, partial(make, null), dose)
            for null in nulls
        )
        return cls(name, layer, position, False, partial(make, ""), dose, listed, dosed)

    @property
    def label(self) -> str:
        """The name with its place."""
        return f"{self.name} at layer {self.layer}"

    @property
    def family(self) -> str:
        """One of `FAMILIES`."""
        return self.name.split(",")[0]

    @property
    def key(self) -> str:
        """A unique name among all candidates."""
        dose = "" if self.dose is None else f", dose {self.dose:g}"
        return f"{self.label}, {self.position}{dose}"


def candidates(
    network: Network,
    *,
    layers: Sequence[int],
    seed: int,
    directions: Sequence[DirectionKind] = (),
    dose: float = DOSE,
) -> list[CandidateIntervention]:
    """Return the interventions of a screen; knock-outs are of blocks, so none is at layer 0."""
    blocks = range(1, len(network.blocks) + 1)
    every = [0, *blocks]
    donors = Donors(network, every)

    def patched(
        family: str, layer: int | str, window: Sequence[int], ending: str
    ) -> CandidateIntervention:
        position, tokens = _PATCHED[ending]

        def make(null: str, located: Located, cell: Cell) -> Intervention | None:
            chosen, places = (
                another_cell(seed, located, cell) if null else cell,
                tokens(located, cell),
            )
            donor = closed_prompt(network, located.sample, chosen) if chosen else None
            return donors.patch(donor, places, places, window) if donor and places else None

        name = family + ending
        return CandidateIntervention.with_nulls(name, layer, position, make, ["donor"])

    in_all = hidden_cell(KNOCK_OUT, ALL, blocks, seed)
    listed = [in_all, *(hidden_cell(KNOCK_OUT, k, [k], seed) for k in layers if k > 0)]
    listed += in_all.nulls
    listed += [patched(PATCH, layer, [layer], ending) for layer in layers for ending in _PATCHED]
    for label, window in windows_of(every):
        listed += [patched(WINDOWS, label, window, ending) for ending in _PATCHED]
    listed.append(patched(PATCH, ALL, every, ", end"))
    for kind in directions:
        places: list[tuple[int | str, Sequence[int]]] = [(layer, [layer]) for layer in layers]
        places += [(ALL, layers)] if len(layers) > 1 else []
        for family in DIRECTED:
            listed += [_directed(family, kind, *place, seed, dose) for place in places]
    return listed


def _around(located: Located, cell: Cell) -> tuple[int, ...]:
    cells = [cell, *(cell.moved(action) for action in range(len(MOVES)))]
    return tuple(sorted({token for each in cells for token in located.cell(each)}))


# The position and the tokens that are patched, by the ending of the name.
_PATCHED: dict[str, tuple[str, Callable[[Located, Cell], tuple[int, ...]]]] = {
    "": ("pre/cell", Located.cell),
    ", around": ("pre/cell", _around),
    ", end": ("pre/end", lambda located, cell: located.end_of_prompt),
}


def hidden_cell(
    name: str,
    layer: int | str,
    blocks: Sequence[int],
    seed: int,
    span_of: Callable[[Cell], TokenSpan] = lambda cell: EVERYWHERE,
) -> CandidateIntervention:
    """Mask the attention to a cell's own tokens in some blocks; the null hides another cell."""

    def make(null: str, located: Located, cell: Cell) -> Intervention | None:
        hidden = another_cell(seed, located, cell) if null else cell
        tokens = located.cell(hidden) if hidden else ()
        return knock_out(tokens, blocks, span_of(cell)) if tokens else None

    return CandidateIntervention.with_nulls(name, layer, "pre/cell", make, ["other"])


def _directed(
    family: str,
    kind: DirectionKind,
    layer: int | str,
    layers: Sequence[int],
    seed: int,
    dose: float,
) -> CandidateIntervention:
    """Write along directions of a kind, towards a wall or an open cell, or remove them."""

    def make(null: str, located: Located, cell: Cell) -> Intervention | None:
        import torch

        # A wall that a prompt does not list has no tokens of its own to be written to.
        walls = family == OPEN
        chosen = another_cell(seed, located, cell, wall=walls) if null == "other" else cell
        edits = kind.edits(layers, located, chosen) if chosen else []
        if null == "random":
            edits = in_random_directions(edits, seed, located, cell)
        changes = []
        for where, at, direction in edits:
            places = [where] if isinstance(where, int) else where
            vector = (
                direction.unit if family == ABLATE else direction.vector(-dose if walls else dose)
            )
            change = ablate if family == ABLATE else write
            changes.append(change(torch.tensor(vector, dtype=torch.float32), places, [at]))
        return reduce(Intervention.joined, changes) if changes else None

    name = f"{family}, {kind.name}"
    if family == ABLATE:
        return CandidateIntervention.with_nulls(name, layer, kind.position, make, ["random"])
    dosed = partial(_directed, family, kind, layer, layers, seed)
    nulls = ["random", "other"]
    return CandidateIntervention.with_nulls(name, layer, kind.position, make, nulls, dose, dosed)


def another_cell(seed: int, located: Located, cell: Cell, *, wall: bool = False) -> Cell | None:
    """Draw another open cell, or another inner wall, of the same world."""
    sample, world = located.sample, located.sample.world
    taken = {cell} if wall else {cell, sample.state.cell, world.goal}
    cells = [
        each for each in (inner_walls(world) if wall else world.open_cells) if each not in taken
    ]
    # By content, so that a draw is the same in any order and any process.
    draws = Draws("another wall" if wall else "another cell", seed, sample.digest, *cell)
    return cells[draws.below(len(cells))] if cells else None


@dataclass(frozen=True)
class TrialOutcome:
    """The actions of a trial before and after an intervention; None for an invalid answer."""

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
        """Whether the answer is another move; an invalid answer is no move."""
        return self.after is not None and self.after != self.before

    @property
    def as_if_changed(self) -> bool:
        """Whether the cell is needed and the move is optimal if it were changed."""
        return self.cell.needed and self.after in self.cell.changed


@dataclass(frozen=True)
class MoveEffect(JsonFields):
    """Shares of the decisions at cells of one kind, with 95% intervals."""

    flips: Estimate  # with another move
    # With a move that is optimal if the cell were changed; 0 for unneeded cells.
    as_if_changed: Estimate
    unreadable: Estimate  # with an invalid answer

    @classmethod
    def of(cls, outcomes: Sequence[TrialOutcome]) -> MoveEffect:
        """The shares over some outcomes."""
        # Many decisions in a grid are not many grids; how many are asked is set beforehand.
        mean = partial(mean_over_grids, grids=[outcome.grid for outcome in outcomes])
        return cls(
            mean([outcome.flipped for outcome in outcomes]),
            mean([outcome.as_if_changed for outcome in outcomes]),
            mean([outcome.after is None for outcome in outcomes]),
        )


@dataclass(frozen=True)
class UseRow(JsonFields):
    """One intervention on one half of the grids, at needed cells and at others."""

    intervention: str
    layer: int | str
    position: str
    is_null: bool
    needed: MoveEffect
    unneeded: MoveEffect
    dose: float | None = None
    effect_nats: Estimate | None = None

    @property
    def label(self) -> str:
        """The intervention with its place."""
        return f"{self.intervention} at layer {self.layer}"

    @property
    def place(self) -> tuple[str, int | str, str]:
        """The intervention, the layer and the tokens."""
        return self.intervention, self.layer, self.position


def row_of(
    candidate: CandidateIntervention,
    outcomes: Sequence[TrialOutcome],
    effect_nats: Estimate | None = None,
) -> UseRow:
    """Return the effects of an intervention on decisions that were right without it."""
    return UseRow(
        candidate.name,
        candidate.layer,
        candidate.position,
        candidate.is_null,
        MoveEffect.of([o for o in outcomes if o.counts and o.cell.needed]),
        MoveEffect.of([o for o in outcomes if o.counts and not o.cell.needed]),
        candidate.dose,
        effect_nats,
    )
