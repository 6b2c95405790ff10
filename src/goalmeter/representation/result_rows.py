"""Rows of the result of a probe, and their JSON form.

A row is a frozen dataclass whose fields are plain values, estimates, and mappings or tuples of
these. Its JSON has the same names, but "class" for `label`, as a keyword cannot name a field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from goalmeter._files import JsonFields
from goalmeter.statistics.clusters import Estimate

RowType = TypeVar("RowType")


class JsonRow(JsonFields):
    """A row whose JSON has its fields, the field `label` as "class"."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; NaN is null."""
        return {json_name(name): value for name, value in super().to_json().items()}


def json_name(field: str) -> str:
    """Return the name of a field in JSON."""
    return "class" if field == "label" else field


def row_from(kind: type[RowType], value: Mapping[str, Any]) -> RowType:
    """Return the row of a class from its JSON object, by the annotations of its fields."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: _read(hints[name], value[json_name(name)]) for name in names})


def _read(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        # Unions of several types have plain ones only, which JSON distinguishes by itself.
        return None if value is None else _read(kinds[0], value) if len(kinds) == 1 else value
    if origin is tuple:
        return tuple(_read(inner[0], entry) for entry in value)
    if origin is not None and issubclass(origin, Mapping):
        return {key: _read(inner[1], entry) for key, entry in value.items()}
    if hint is Estimate:
        return Estimate.from_json(value)
    if is_dataclass(hint):
        return row_from(hint, value)  # type: ignore[arg-type]
    if isinstance(hint, type) and issubclass(hint, tuple):  # a named tuple
        return hint(*map(_read, get_type_hints(hint).values(), value))
    return math.nan if hint is float and value is None else value


def _above_zero(difference: Estimate) -> bool:
    return difference.interval is not None and difference.interval[0] > 0


@dataclass(frozen=True)
class MapRow(JsonRow):
    """How well a probe reads the class of cells at one place of the network."""

    layer: int  # 0 for the embedding, k for the output of block k
    position: str  # name of the tokens, "pre/..." before and "post/..." after the model reasons
    probe: str
    control: str | None  # None for the probe itself, else the name of its control
    label: str  # the class, or "all"
    cells: str  # scored cells: "all", "uncertain" or "links"
    accuracy: Estimate  # share of cells
    balanced_accuracy: Estimate  # mean over classes of the share of their cells
    auroc: Estimate | None  # None where it is not defined
    gain_bits: Estimate  # log-loss gain over position alone, bits per cell
    parameters: int  # number of parameters fitted to activations
    scored: str  # scored grids


@dataclass(frozen=True)
class PlaceRow(JsonRow):
    """How well a probe locates agent or goal; other fields as in `MapRow`."""

    layer: int
    position: str
    probe: str
    control: str | None
    label: str  # "agent" or "goal"
    exact: Estimate  # share of states whose most probable cell is the true one
    distance: Estimate  # steps between them


@dataclass(frozen=True)
class UsedRow(JsonFields):
    """Effect on first moves of changing a cell's representation."""

    half: str  # of the grids: "screen" or "confirm"
    intervention: str
    layer: int | str  # "all" for every block
    position: str  # the tokens that were changed
    is_null: bool  # whether no effect is expected
    chosen: bool  # whether it is the best intervention of the screen half
    cells: int  # number of needed cells; of walls, if it is "open"
    flips: Estimate  # share of moves that change, at needed cells
    as_if_changed: Estimate  # share that is optimal if the cell were a wall (open, if it is "open")
    unreadable: Estimate  # share of answers that cannot be read, at needed cells
    unneeded_flips: Estimate  # share of moves that change, at cells on no shortest way
    null_flips: Estimate | None  # of the null in this half whose interval reaches highest
    effect_nats: Estimate | None  # divergence of the next action's distribution, where measured
    dose: float | None = None  # of a write, in gaps between walls and open cells


@dataclass(frozen=True)
class SpanRow(JsonFields):
    """Effect on first moves of hiding a needed cell from one span of the answer."""

    half: str  # of the grids: "confirm", as nothing is chosen among spans
    span: str  # one of `look_ups.SPANS`, or "answering" for all but the prompt
    cells: int  # number of needed cells whose unchanged answer has this span
    flips: Estimate  # share of moves that change
    as_if_wall: Estimate  # share that becomes optimal for the cell being a wall
    unreadable: Estimate  # share of answers that cannot be read
    other_flips: Estimate  # flips where another cell is hidden from the same tokens: the null


@dataclass(frozen=True)
class MovedRow(JsonFields):
    """Effect on moves of exchanging streams with a question in which something moved."""

    half: str  # of the grids
    moved: str  # "goal", "agent" or "isometry"
    layer: int | str  # at which the stream is exchanged: one, a window such as "1-2", or "all"
    position: str  # the tokens
    chosen: bool  # whether it is the best place of its kind on the screen half
    is_ceiling: bool  # whether the other question itself was asked
    pairs: int  # number of pairs with no right move in common and a right unchanged answer
    flips: Estimate  # of these, the share whose move is right in the other question
    null_flips: Estimate  # the same with the stream of an unrelated question
    same_flips: Estimate  # of pairs whose right moves are the same, the share with a wrong move
    unreadable: Estimate  # share of answers that cannot be read


@dataclass(frozen=True)
class SubspaceRow(JsonFields):
    """A subspace of a stream that was learnt to carry what moved."""

    half: str  # of the grids that it was scored on; it was learnt on the other
    moved: str  # "goal" or "agent"
    layer: int
    position: str
    rank: int  # number of dimensions
    trained: int  # number of training pairs
    losses: tuple[float, ...]  # of the other question's answer before and after, nats per pair
    pairs: int  # number of scored pairs
    flips: Estimate  # share of moves that are right in the other question
    random_flips: Estimate  # the same with as many random dimensions
    whole_flips: Estimate  # the same with the whole stream
    verdict: str  # "carries it", "nothing here carries it" or "cannot be told"
    # Smallest angle with the directions of a ridge probe of the cell at this place, if there is
    # one, and the 2.5th, 50th and 97.5th percentile of it for as many random directions.
    degrees: float | None
    chance: tuple[float, ...]


@dataclass(frozen=True)
class DoseRow(JsonFields):
    """A write at a dose and random directions of equal norm, at needed cells; see `UsedRow`."""

    intervention: str
    layer: int | str
    position: str
    dose: float
    flips: Estimate
    null_flips: Estimate  # under random directions
    unreadable: Estimate


@dataclass(frozen=True)
class PlanRow(JsonFields):
    """How well the first `n` actions of a walk are read at one place."""

    layer: int
    position: str
    decoder: str  # name of the plan reader
    n: int
    prefix: Estimate  # share of walks of at least n actions whose first n are all right
    conditional: Estimate  # share whose action n is right, of those whose n - 1 before are
    # By name, "prefix" and "conditional" of a baseline on the same walks, and "beyond", prefix
    # accuracy of the reader less that of the baseline; None for one that the run does not have.
    baselines: Mapping[str, Mapping[str, Estimate] | None]

    @property
    def exceeds(self) -> tuple[str, ...]:
        """The baselines that the reader is above, with an interval of the difference above 0."""
        beside = self.baselines.items()
        return tuple(name for name, each in beside if each and _above_zero(each["beyond"]))


@dataclass(frozen=True)
class DecidedRow(JsonFields):
    """How well the action of one step is read at one place along the reasoning."""

    layer: int
    position: str
    step: int  # number of the action in the walk, from 1 for that of the decision itself
    accuracy: Estimate  # share of the walks with this step whose action is read
    baselines: Mapping[str, Estimate]  # accuracy of position only and of majority
    beyond: Estimate  # accuracy less that of position only
    joint: Estimate  # accuracy of a head that sees the position as well as the activations
    added: Estimate  # joint less position only

    @property
    def exceeds(self) -> bool:
        """Whether it is above position only, with an interval of the difference above 0."""
        return _above_zero(self.beyond)

    @property
    def adds(self) -> bool:
        """Whether the activations add to position, with an interval above 0."""
        return _above_zero(self.added)


@dataclass(frozen=True)
class SettledRow(JsonFields):
    """From where on an action of the walk can be read at a layer."""

    layer: int
    step: int  # number of the action, from 1
    # The earliest share of the reasoning from which on it is read above position only at every
    # later one too, by `DecidedRow.beyond` and by `DecidedRow.added`; None where there is none.
    share: float | None
    added: float | None


@dataclass(frozen=True)
class StatePicture(JsonFields):
    """One state as it is and as it is read."""

    walk: str  # key of its walk
    step: int  # number of the decision
    truth: tuple[str, ...]  # rows of the grid as text, with A and G
    decoded: tuple[str, ...]  # rows of the decoded map; empty where there is none
    wall: tuple[tuple[float, ...], ...]  # probability of a wall in each cell, [rows][columns]
    used: tuple[tuple[float | None, ...], ...]  # share of moves that flip by changed cell, if tried
    action: int | None  # the agent's action, 0 to 3; None for an answer that could not be read
    optimal: tuple[int, ...]  # the actions that lead one step closer to the goal
    optimal_decoded: tuple[int, ...]  # those on the decoded map
