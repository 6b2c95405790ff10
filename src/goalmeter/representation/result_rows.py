"""Rows of the result of a probe, and their JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from goalmeter._files import JsonFields
from goalmeter.statistics.clusters import Estimate

# A row is a frozen dataclass whose fields are plain values, estimates, and mappings or tuples of
# these. Its JSON has the same names, but "class" for `label`, as a keyword cannot name a field.

RowType = TypeVar("RowType")
_JSON_NAMES = {"label": "class"}


class JsonRow(JsonFields):
    """A row whose JSON has its fields, the field `label` as "class"."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; NaN is null."""
        return {json_name(name): value for name, value in super().to_json().items()}


def json_name(field: str) -> str:
    """Return the name of a field in JSON."""
    return _JSON_NAMES.get(field, field)


def row_from(kind: type[RowType], value: Mapping[str, Any]) -> RowType:
    """Return the row of a class from its JSON object, by the annotations of its fields."""
    hints = get_type_hints(kind)
    return kind(
        **{
            field.name: _read(hints[field.name], value[json_name(field.name)])
            for field in fields(kind)  # type: ignore[arg-type]
        }
    )


def _read(hint: Any, value: Any) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        # Unions of several types have plain ones only, which JSON distinguishes by itself.
        return None if value is None else _read(kinds[0], value) if len(kinds) == 1 else value
    # NaN is null in JSON.
    if hint is float and value is None:
        return math.nan
    if hint is Estimate:
        return Estimate.from_json(value)
    if isinstance(hint, type) and is_dataclass(hint):
        return row_from(hint, value)
    if origin is tuple:
        return tuple(_read(inner[0], entry) for entry in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _read(inner[1], entry) for key, entry in value.items()}
    return value


def _above_zero(difference: Estimate) -> bool:
    return difference.interval is not None and difference.interval[0] > 0


@dataclass(frozen=True)
class MapRow(JsonRow):
    """How well a probe reads the class of cells at one place of the network.

    Attributes:
        layer: 0 for the embedding, k for the output of block k.
        position: name of the tokens, "pre/..." before and "post/..." after the model reasons.
        probe: name of the probe.
        control: None for the probe itself, else the name of its control.
        label: the class, or "all".
        cells: scored cells: "all", "uncertain" or "links".
        accuracy: share of cells.
        balanced_accuracy: mean over classes of the share of their cells.
        auroc: None where it is not defined.
        gain_bits: log-loss gain over position alone, bits per cell.
        parameters: number of parameters fitted to activations.
        scored: scored grids.
    """

    layer: int
    position: str
    probe: str
    control: str | None
    label: str
    cells: str
    accuracy: Estimate
    balanced_accuracy: Estimate
    auroc: Estimate | None
    gain_bits: Estimate
    parameters: int
    scored: str


@dataclass(frozen=True)
class PlaceRow(JsonRow):
    """How well a probe locates agent or goal; other fields as in `MapRow`.

    Attributes:
        label: "agent" or "goal".
        exact: share of states whose most probable cell is the true one.
        distance: steps between them.
    """

    layer: int
    position: str
    probe: str
    control: str | None
    label: str
    exact: Estimate
    distance: Estimate


@dataclass(frozen=True)
class UsedRow(JsonFields):
    """Effect on first moves of changing a cell's representation.

    Attributes:
        half: of the grids: "screen" or "confirm".
        intervention: name of the intervention.
        layer: where; "all" for every block.
        position: the tokens that were changed.
        is_null: whether no effect is expected.
        chosen: whether it is the best intervention of the screen half.
        cells: number of needed cells; of walls, if it is "open".
        flips: share of moves that change, at needed cells.
        as_if_changed: share that becomes optimal for the cell being a wall (being open, if it is
            "open"), at needed cells.
        unreadable: share of answers that cannot be read, at needed cells.
        unneeded_flips: share of moves that change, at cells on no shortest way.
        null_flips: flips at needed cells under the null whose interval reaches highest; None where
            no null was tried in this half.
        effect_nats: divergence of the next action's distribution; None where not measured.
        dose: of a write, in gaps between walls and open cells; None for other interventions.
    """

    half: str
    intervention: str
    layer: int | str
    position: str
    is_null: bool
    chosen: bool
    cells: int
    flips: Estimate
    as_if_changed: Estimate
    unreadable: Estimate
    unneeded_flips: Estimate
    null_flips: Estimate | None
    effect_nats: Estimate | None
    dose: float | None = None


@dataclass(frozen=True)
class SpanRow(JsonFields):
    """Effect on first moves of hiding a needed cell from one span of the answer.

    Attributes:
        half: of the grids: "confirm", as nothing is chosen among spans.
        span: "prompt", "before", "neighbours", "own", "behind", "plan", "answer", or "answering"
            for all but the prompt; see `use.spans`.
        cells: number of needed cells whose unchanged answer has this span.
        flips: share of moves that change.
        as_if_wall: share that becomes optimal for the cell being a wall.
        unreadable: share of answers that cannot be read.
        other_flips: flips where another cell is hidden from the same tokens: the null.
    """

    half: str
    span: str
    cells: int
    flips: Estimate
    as_if_wall: Estimate
    unreadable: Estimate
    other_flips: Estimate


@dataclass(frozen=True)
class MovedRow(JsonFields):
    """Effect on moves of exchanging streams with a question in which something moved.

    Attributes:
        half: of the grids.
        moved: "goal", "agent" or "isometry".
        layer: at which the stream is exchanged: one, a window such as "1-2", or "all".
        position: the tokens.
        chosen: whether it is the best place of its kind on the screen half.
        is_ceiling: whether the other question itself was asked.
        pairs: number of pairs with no right move in common and a right unchanged answer.
        flips: of these, the share whose move is right in the other question.
        null_flips: the same with the stream of an unrelated question.
        same_flips: of pairs whose right moves are the same, the share with a wrong move.
        unreadable: share of answers that cannot be read.
    """

    half: str
    moved: str
    layer: int | str
    position: str
    chosen: bool
    is_ceiling: bool
    pairs: int
    flips: Estimate
    null_flips: Estimate
    same_flips: Estimate
    unreadable: Estimate


@dataclass(frozen=True)
class SubspaceRow(JsonFields):
    """A subspace of a stream that was learnt to carry what moved.

    Attributes:
        half: of the grids that it was scored on; it was learnt on the other.
        moved: "goal" or "agent".
        layer: of the stream.
        position: the tokens.
        rank: number of dimensions.
        trained: number of training pairs.
        losses: nats per pair of the other question's answer, before and after learning.
        pairs: number of scored pairs.
        flips: share of moves that are right in the other question.
        random_flips: the same with as many random dimensions.
        whole_flips: the same with the whole stream.
        verdict: "carries it", "nothing here carries it" or "cannot be told".
        degrees: smallest angle with the directions of a ridge probe of the cell at this place;
            None where there is no probe.
        chance: the 2.5th, 50th and 97.5th percentile of that angle for as many random directions.
    """

    half: str
    moved: str
    layer: int
    position: str
    rank: int
    trained: int
    losses: tuple[float, ...]
    pairs: int
    flips: Estimate
    random_flips: Estimate
    whole_flips: Estimate
    verdict: str
    degrees: float | None
    chance: tuple[float, ...]


@dataclass(frozen=True)
class DoseRow(JsonFields):
    """A write at a dose and random directions of equal norm, at needed cells.

    Attributes:
        intervention: name of the intervention.
        layer: where; "all" for all layers of the probe.
        position: the tokens that were changed.
        dose: in gaps between walls and open cells.
        flips: share of moves that change.
        null_flips: the same under random directions.
        unreadable: share of answers that cannot be read.
    """

    intervention: str
    layer: int | str
    position: str
    dose: float
    flips: Estimate
    null_flips: Estimate
    unreadable: Estimate


@dataclass(frozen=True)
class PlanRow(JsonFields):
    """How well the first `n` actions of a walk are read at one place.

    Attributes:
        layer: see `MapRow`.
        position: name of the tokens.
        decoder: name of the plan reader.
        n: number of actions.
        prefix: share of walks of at least n actions whose first n are all right.
        conditional: share whose action n is right, of those whose n - 1 before are; NaN with n = 0
            where there are none.
        baselines: by name, "prefix" and "conditional" of a baseline on the same walks, and
            "beyond", prefix accuracy of the reader less that of the baseline; None for one that the
            run does not have.
    """

    layer: int
    position: str
    decoder: str
    n: int
    prefix: Estimate
    conditional: Estimate
    baselines: Mapping[str, Mapping[str, Estimate] | None]

    @property
    def exceeds(self) -> tuple[str, ...]:
        """The baselines that the reader is above, with an interval of the difference above 0."""
        beside = self.baselines.items()
        return tuple(name for name, each in beside if each and _above_zero(each["beyond"]))


@dataclass(frozen=True)
class DecidedRow(JsonFields):
    """How well the action of one step is read at one place along the reasoning.

    Attributes:
        layer: see `MapRow`.
        position: name of the token.
        step: number of the action in the walk, from 1 for that of the decision itself.
        accuracy: share of the walks with this step whose action is read.
        baselines: accuracy of position only and of majority.
        beyond: accuracy less that of position only.
        joint: accuracy of a head that sees the position as well as the activations.
        added: joint less position only.
    """

    layer: int
    position: str
    step: int
    accuracy: Estimate
    baselines: Mapping[str, Estimate]
    beyond: Estimate
    joint: Estimate
    added: Estimate

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
    """From where on an action of the walk can be read at a layer.

    Attributes:
        layer: see `MapRow`.
        step: number of the action, from 1.
        share: the earliest share of the reasoning from which on it is read above position only at
            every later one too, by the interval of the difference; None where there is none.
        added: the same for `DecidedRow.added`.
    """

    layer: int
    step: int
    share: float | None
    added: float | None


@dataclass(frozen=True)
class StatePicture(JsonFields):
    """One state as it is and as it is read.

    Attributes:
        walk: key of its walk.
        step: number of the decision.
        truth: rows of the grid as text, with A and G.
        decoded: rows of the decoded map; empty where there is none.
        wall: probability of a wall in each cell, [rows][columns].
        used: share of moves that flip when a cell at that place is changed, [rows][columns]; None
            where it was not tried.
        action: the agent's action, 0 to 3; None for an answer that could not be read.
        optimal: the actions that lead one step closer to the goal.
        optimal_decoded: those on the decoded map.
    """

    walk: str
    step: int
    truth: tuple[str, ...]
    decoded: tuple[str, ...]
    wall: tuple[tuple[float, ...], ...]
    used: tuple[tuple[float | None, ...], ...]
    action: int | None
    optimal: tuple[int, ...]
    optimal_decoded: tuple[int, ...]
