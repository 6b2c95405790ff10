"""Rows of the result of a probe, and their JSON form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from goalmeter._files import JsonFields
from goalmeter.statistics.clusters import Estimate

# --- Rows -----------------------------------------------------------------------------------------
# A row is a frozen dataclass whose fields are plain values, estimates, and mappings or tuples of
# these; what a field holds is read off its annotation.

Row = TypeVar("Row")
# A word of the language cannot be the name of a field.
_JSON_NAMES = {"label": "class"}


class JsonRow(JsonFields):
    """A row whose JSON is its fields, the field `label` as "class"."""

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; NaN is null."""
        return {json_name(name): value for name, value in super().to_json().items()}


def json_name(field: str) -> str:
    """What a field of a row is called in JSON."""
    return _JSON_NAMES.get(field, field)


def row_from(kind: type[Row], value: Mapping[str, Any]) -> Row:
    """The row that `to_json` made JSON values of.

    Args:
        kind: its class.
        value: an object of JSON.
    """
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
        # Of a union of several kinds only plain ones occur, which JSON keeps apart by itself.
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


# --- Result rows ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class MapRow(JsonRow):
    """How well the class of cells is read at one place of the network.

    Attributes:
        layer: 0 for the embedding, k for what block k passes on.
        position: name of the tokens, "pre/..." before and "post/..." after the model reasons.
        probe: its name.
        control: None for the probe itself, else the name of its control.
        label: the class, or "all".
        cells: which cells were scored: "all", "uncertain" or "links".
        accuracy: share of cells.
        balanced_accuracy: mean over classes of the share of their cells.
        auroc: None where it is not defined.
        gain_bits: log-loss gain over position alone, bits a cell.
        parameters: numbers that were fitted to activations.
        scored: which grids were scored.
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
    """How well agent or goal is located; the first fields are those of `MapRow`.

    Attributes:
        layer: see `MapRow`, like position, probe, control and label.
        position: name of the tokens.
        probe: its name.
        control: None for the probe itself.
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
    """What becomes of first moves when a cell's representation is changed.

    Attributes:
        half: of the grids: "screen" or "confirm".
        intervention: what was done.
        layer: where; "all" for every block.
        position: the tokens that were changed.
        is_null: whether nothing is expected of it.
        chosen: whether it is the intervention that did best on the screen half.
        cells: how many needed cells it was tried on; walls, if it is "open".
        flips: share of moves that change, at needed cells.
        as_if_changed: share that becomes optimal for the cell being a wall (being open, if it is
            "open"), at needed cells.
        unreadable: share of answers that cannot be read, at needed cells.
        unneeded_flips: share of moves that change, at cells on no shortest way.
        null_flips: flips at needed cells under the null whose interval reaches highest; None where
            no null was tried in this half.
        effect_nats: divergence of the next action's distribution; None where it was not asked for.
        dose: of a write, in gaps between walls and open cells; None of what has no dose.
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
    """What becomes of first moves when a needed cell is hidden from one span of the answer.

    Attributes:
        half: of the grids; nothing is chosen among spans, so it is "confirm".
        span: "prompt", "before", "neighbours", "own", "behind", "plan", "answer", or "answering"
            for all but the prompt; see `use.spans`.
        cells: needed cells whose unchanged answer has this span.
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
    """What becomes of moves when streams are exchanged with a question in which something moved.

    Attributes:
        half: of the grids.
        moved: "goal", "agent" or "isometry".
        layer: at which the stream is exchanged: one, a window such as "1-2", or "all".
        position: the tokens.
        chosen: whether the place did best of its kind on the screen half.
        is_ceiling: whether the other question itself was asked.
        pairs: of questions with no right move in common, where the unchanged answer was right.
        flips: of these, the share whose move is right in the other question.
        null_flips: the same with the stream of a question that has nothing to do with it.
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
    """A few dimensions of a stream that were learnt to carry what moved.

    Attributes:
        half: of the grids that it was scored on; it was learnt on the other.
        moved: "goal" or "agent".
        layer: of the stream.
        position: the tokens.
        rank: how many dimensions.
        trained: pairs that it was learnt on.
        losses: nats a pair of the other question's answer, before and after learning.
        pairs: that it was scored on.
        flips: share of moves that are right in the other question.
        random_flips: the same with random dimensions, as many.
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
    """A write at a dose, beside random directions of equal norm, at needed cells.

    Attributes:
        intervention: what was done.
        layer: where; "all" for every one that was tried.
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
        decoder: its name.
        n: how many actions.
        prefix: share of walks of at least n actions whose first n are all right.
        conditional: share whose action n is right, of those whose n - 1 before are.
        baselines: by name "prefix" and "conditional" of what knows no activations, and "beyond",
            prefix accuracy less that of the baseline; None for one that the run does not have.
    """

    layer: int
    position: str
    decoder: str
    n: int
    prefix: Estimate
    conditional: Estimate
    baselines: Mapping[str, Mapping[str, Estimate] | None]


@dataclass(frozen=True)
class DecidedRow(JsonFields):
    """How well the action of one step is read at one place along the reasoning.

    Attributes:
        layer: see `MapRow`.
        position: name of the token.
        step: which action of the walk, from 1 for that of the decision itself.
        accuracy: of the walks that have the step, those whose action is told.
        baselines: the same of what knows no activations: position only and majority.
        beyond: accuracy less that of position only.
        joint: accuracy of a head that sees the position as well as the activations.
        added: joint less position only: what the activations tell beyond it.
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
        step: which action, from 1.
        share: the earliest share of the reasoning from which on it can be read above position only
            at every later one too, by the interval of the difference; None where there is none.
        added: the same of what activations add to position.
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
        truth: the grid, a text a row, with A and G.
        decoded: the decoded map in the same way; empty where there is none.
        wall: probability of a wall in each cell, [rows][columns].
        used: share of moves that flip when a cell at that place is changed, [rows][columns]; None
            where it was not tried.
        action: what the agent did, 0 to 3; None for an answer that could not be read.
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


def _above_zero(difference: Estimate) -> bool:
    return difference.interval is not None and difference.interval[0] > 0
