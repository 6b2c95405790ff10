"""Rows of the result of a probe, and their JSON form.

A row is a frozen dataclass whose fields are plain values, estimates, and mappings or tuples of
these. Its JSON has the same names, except "class" for `label`, since a keyword cannot name a field.
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
    """Row whose JSON form has its fields, the field `label` as "class"."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; NaN is null."""
        return {json_name(name): value for name, value in super().to_json().items()}


def json_name(field: str) -> str:
    """Return the name of a field in JSON."""
    return "class" if field == "label" else field


def row_from(kind: type[RowType], value: Mapping[str, Any]) -> RowType:
    """Return a row of a class from its JSON object, guided by the annotations of the fields."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: _read(hints[name], value[json_name(name)]) for name in names})


def _read(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        # Unions of several types contain only plain types, which JSON distinguishes.
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
    """Score of a probe for the class of cells at one place of the network."""

    layer: int  # 0 for the embedding, k for the output of block k
    position: str  # position of the tokens, "pre/..." before and "post/..." after reasoning
    probe: str  # name of the probe
    control: str | None  # name of the control; None for the probe itself
    label: str  # class, or "all"
    cells: str  # scored cells: "all", "uncertain" or "links"
    accuracy: Estimate  # share of cells classified correctly
    balanced_accuracy: Estimate  # mean over classes of the share of their cells
    auroc: Estimate | None  # None if undefined
    gain_bits: Estimate  # log-loss gain over position alone, in bits per cell
    parameters: int  # number of parameters fitted to activations
    scored: str  # description of the scored grids


@dataclass(frozen=True)
class PlaceRow(JsonRow):
    """Position error of a probe for agent or goal; other fields as in `MapRow`."""

    layer: int
    position: str
    probe: str
    control: str | None
    label: str  # "agent" or "goal"
    exact: Estimate  # share of states whose most probable cell is the true one
    distance: Estimate  # distance between these cells, in steps


@dataclass(frozen=True)
class UsedRow(JsonFields):
    """Effect of changing a cell's representation on first moves."""

    half: str  # half of the grids: "screen" or "confirm"
    intervention: str  # name of the intervention
    layer: int | str  # layer; "all" for every block
    position: str  # position of the changed tokens
    is_null: bool  # whether no effect is expected
    chosen: bool  # whether it is the best intervention of the screen half
    cells: int  # number of needed cells; of walls for "open"
    flips: Estimate  # share of moves that change, at needed cells
    as_if_changed: Estimate  # share of moves optimal if the cell were a wall (open for "open")
    unreadable: Estimate  # share of answers that cannot be parsed, at needed cells
    unneeded_flips: Estimate  # share of moves that change, at cells on no shortest path
    null_flips: Estimate | None  # flips of the null with the highest upper bound in this half
    effect_nats: Estimate | None  # divergence of the next action's distribution, if measured
    dose: float | None = None  # dose of a write, in gaps between walls and open cells


@dataclass(frozen=True)
class SpanRow(JsonFields):
    """Effect of hiding a needed cell from one span of the answer on first moves."""

    half: str  # half of the grids: "confirm", since no span is selected
    span: str  # one of `causal_use.SPANS`, or "answering" for all except the prompt
    cells: int  # number of needed cells whose unchanged answer has this span
    flips: Estimate  # share of moves that change
    as_if_wall: Estimate  # share of moves that become optimal as if the cell were a wall
    unreadable: Estimate  # share of answers that cannot be parsed
    other_flips: Estimate  # null: flips if another cell is hidden from the same tokens


@dataclass(frozen=True)
class MovedRow(JsonFields):
    """Effect of a stream from a question with a moved object on moves."""

    half: str  # half of the grids
    moved: str  # "goal", "agent" or "isometry"
    layer: int | str  # layer of the exchange, a window such as "1-2", or "all"
    position: str  # position of the exchanged tokens
    chosen: bool  # whether it is the best place of its kind on the screen half
    is_ceiling: bool  # whether the other question itself replaced the prompt
    pairs: int  # number of pairs without a common correct move whose unchanged answer is correct
    flips: Estimate  # share of these pairs whose move is correct in the other question
    null_flips: Estimate  # the same with the stream of an unrelated question
    same_flips: Estimate  # share of pairs with equal correct moves whose move is wrong
    unreadable: Estimate  # share of answers that cannot be parsed


@dataclass(frozen=True)
class SubspaceRow(JsonFields):
    """Subspace of a stream, learnt to carry the position of a moved object."""

    half: str  # half of the grids that was scored; the other one was used for training
    moved: str  # "goal" or "agent"
    layer: int
    position: str
    rank: int  # number of dimensions
    trained: int  # number of training pairs
    losses: tuple[float, ...]  # of the other question's answer before and after, nats per pair
    pairs: int  # number of scored pairs
    flips: Estimate  # share of moves that are correct in the other question
    random_flips: Estimate  # the same with random dimensions of equal number
    whole_flips: Estimate  # the same with the whole stream
    verdict: str  # "carries it", "nothing here carries it" or "inconclusive"
    # Smallest angle with the directions of a ridge probe of the cell at this place, if any, and the
    # 2.5th, 50th and 97.5th percentiles of it for random directions of equal number.
    degrees: float | None
    chance: tuple[float, ...]


@dataclass(frozen=True)
class DoseRow(JsonFields):
    """Effect of a write at a dose, and of random directions of equal norm; see `UsedRow`."""

    intervention: str
    layer: int | str
    position: str
    dose: float
    flips: Estimate
    null_flips: Estimate  # flips under random directions
    unreadable: Estimate


@dataclass(frozen=True)
class PlanRow(JsonFields):
    """Accuracy of a plan reader for the first `n` actions of a walk at one place."""

    layer: int
    position: str
    decoder: str  # name of the plan reader
    n: int  # number of actions
    prefix: Estimate  # share of walks with at least n actions whose first n are all correct
    conditional: Estimate  # share with a correct action n among those with n - 1 correct before
    # "prefix" and "conditional" of each baseline on the same walks, and "beyond", prefix accuracy
    # of the reader minus that of the baseline; None for a baseline that the run lacks.
    baselines: Mapping[str, Mapping[str, Estimate] | None]

    @property
    def exceeds(self) -> tuple[str, ...]:
        """Baselines that the reader exceeds, with an interval of the difference above 0."""
        baselines = self.baselines.items()
        return tuple(name for name, each in baselines if each and _above_zero(each["beyond"]))


@dataclass(frozen=True)
class DecidedRow(JsonFields):
    """Accuracy for the action of one step at one place of the reasoning."""

    layer: int
    position: str
    step: int  # number of the action in the walk; 1 is the action of the decision itself
    accuracy: Estimate  # share of the walks with this step whose action is predicted
    baselines: Mapping[str, Estimate]  # accuracy of position only and of majority
    beyond: Estimate  # accuracy minus that of position only
    joint: Estimate  # accuracy of a head that also reads the position
    added: Estimate  # joint minus position only

    @property
    def exceeds(self) -> bool:
        """Whether accuracy exceeds position only, with an interval of the difference above 0."""
        return _above_zero(self.beyond)

    @property
    def adds(self) -> bool:
        """Whether activations add to position, with an interval of the difference above 0."""
        return _above_zero(self.added)


@dataclass(frozen=True)
class SettledRow(JsonFields):
    """Share of the reasoning from which an action of the walk is predicted at a layer."""

    layer: int
    step: int  # number of the action, from 1
    # Earliest share from which accuracy exceeds position only at all later shares too, by
    # `DecidedRow.beyond` (share) and `DecidedRow.added` (added); None if there is none.
    share: float | None
    added: float | None


@dataclass(frozen=True)
class StatePicture(JsonFields):
    """Picture of one state: true and decoded map."""

    walk: str  # key of the walk
    step: int  # number of the decision
    truth: tuple[str, ...]  # rows of the grid as text, with A and G
    decoded: tuple[str, ...]  # rows of the decoded map; empty if there is none
    wall: tuple[tuple[float, ...], ...]  # probability of a wall in each cell, [rows][columns]
    used: tuple[tuple[float | None, ...], ...]  # share of flips by changed cell; None if untested
    action: int | None  # action of the agent, 0 to 3; None for an answer that could not be parsed
    optimal: tuple[int, ...]  # actions that lead one step closer to the goal
    optimal_decoded: tuple[int, ...]  # the same on the decoded map
