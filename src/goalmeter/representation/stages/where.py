"""The stages of where and when: spans in which cells are looked up, and what carries what moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._json import json_value
from goalmeter.gridworld.draws import Draws
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.result_rows import MovedRow, SpanRow, SubspaceRow
from goalmeter.representation.rows import row_from
from goalmeter.representation.stages.asked import Asked
from goalmeter.representation.stages.use import SALT, Again
from goalmeter.representation.use.candidates import KNOCK_OUT, PATCH
from goalmeter.representation.use.halves import CONFIRM, SCREEN, half_of
from goalmeter.representation.use.look_ups import LookUp, look_ups
from goalmeter.representation.use.moved import Moved, moved
from goalmeter.representation.use.moved import MovedRow as Tried
from goalmeter.representation.use.moving import AGENT, GOAL, ISOMETRY, KINDS
from goalmeter.representation.use.pair_answers import EVERY_TOKEN
from goalmeter.representation.use.place_probes import place_directions
from goalmeter.representation.use.subspace import Subspace, subspace
from goalmeter.runs import Stages

# Where what moved is named, and the end of the prompt; all of a grid that is turned is elsewhere.
_POSITIONS = {
    GOAL: ("pre/goal", "pre/end"),
    AGENT: ("pre/agent", "pre/end"),
    ISOMETRY: ("pre/end", EVERY_TOKEN),
}
_RANK, _STEPS = 4, 60
# Directions of a probe are at most such a part of the stream: more lie near to any subspace.
_SHARE = 8
# Decisions of the half that screens: of many places one is chosen by them, and a subspace is learnt
# on them in one pass with its gradients.
_SCREENED = 24
# Decisions that a probe of the place is fitted to.
_READ = 400
_REASON = "reason"
Make = Callable[[], dict[str, Any]]


@dataclass(frozen=True)
class Where:
    """When cells are looked up, and where goal and agent are read from.

    Attributes:
        spans: cells that are hidden from one span.
        moved: streams that are exchanged with questions in which something moved.
        subspaces: what of these streams carries it.
        left_out: why something is missing, by its name.
    """

    spans: tuple[SpanRow, ...]
    moved: tuple[MovedRow, ...]
    subspaces: tuple[SubspaceRow, ...]
    left_out: dict[str, str] = field(default_factory=dict)


def where_stage(
    stages: Stages,
    samples: Sequence[Sample],
    again: Again,
    network: Network,
    wanted: Asked,
) -> Where:
    """Hide cells from spans, exchange streams with other questions, learn what carries them.

    Args:
        stages: of the probe.
        samples: all decisions of the run.
        again: those that are asked again.
        network: the model.
        wanted: at which layers streams are exchanged, the kinds that are tried (spans need
            "knock-out", exchanged streams "patch") and the seed of the draws.
    """
    seed = wanted.seed
    left_out: dict[str, str] = {}

    def stage(key: str, name: str, make: Make) -> dict[str, Any]:
        """What a stage came to; a reason is kept like any other outcome."""
        value: dict[str, Any] = stages.value(key, partial(_or_reason, make))
        if _REASON in value:
            left_out[name] = value[_REASON]
        return value

    def spans() -> dict[str, Any]:
        listed = look_ups(
            again(),
            network,
            salt=SALT,
            seed=seed,
            keep=stages.folder / "spans",
            progress=stages.tell,
        )
        return {"rows": [_span_row(each).to_json() for each in listed]}

    def exchanged(kind: str) -> dict[str, Any]:
        result = moved(
            fewer(again()),
            network,
            kinds=[kind],
            positions=positions_of(kind),
            layers=wanted.layers,
            salt=SALT,
            seed=seed,
            progress=stages.tell,
        )
        return {"rows": json_value(_moved_rows(result)), "carrier": _carrier(result, kind)}

    def learnt(kind: str, exchanges: dict[str, Any]) -> dict[str, Any]:
        if exchanges.get("carrier") is None:
            raise InvalidParameterError(
                f"no place was confirmed at which moves follow the {kind} of another question"
            )
        layer, position = exchanges["carrier"]
        space = subspace(
            fewer(again()),
            network,
            layer=layer,
            position=position,
            kind=kind,
            rank=_RANK,
            steps=_STEPS,
            salt=SALT,
            seed=seed,
        )
        row = _subspace_row(space, _read_here(samples, seed), network, seed)
        return {"rows": [row.to_json()]}

    looked = stage("use/spans", "spans", spans) if KNOCK_OUT in wanted.interventions else {}
    by_kind = {
        kind: stage(f"use/moved/{kind}", f"{kind} moved", partial(exchanged, kind))
        for kind in KINDS
        if PATCH in wanted.interventions
    }
    spaces = [
        stage(
            f"use/subspace/{kind}", f"subspace of the {kind}", partial(learnt, kind, by_kind[kind])
        )
        for kind in (GOAL, AGENT)
        if kind in by_kind
    ]
    return Where(
        tuple(row_from(SpanRow, row) for row in looked.get("rows", ())),
        tuple(row_from(MovedRow, r) for value in by_kind.values() for r in value.get("rows", ())),
        tuple(row_from(SubspaceRow, row) for value in spaces for row in value.get("rows", ())),
        left_out,
    )


def _or_reason(make: Make) -> dict[str, Any]:
    try:
        return make()
    except InvalidParameterError as cause:
        return {_REASON: str(cause)}


def _carrier(result: Moved, kind: str) -> list[Any] | None:
    """The layer and position at which a subspace is sought; None if nothing was confirmed.

    Where moves follow no stream behind the embedding, but do follow the other question, what moved
    is read off the embedding of its own word.
    """
    (confirmed,), (ceiling,) = result.confirmed, result.ceilings
    single = result.single(kind)
    if confirmed.follows and single is not None:
        return [single.layers[0], single.position]
    return [0, _POSITIONS[kind][0]] if ceiling.follows else None


def fewer(samples: Sequence[Sample]) -> list[Sample]:
    """Those that are asked about what moved: the half that confirms, and some of the other."""
    screened = [sample for sample in samples if half_of(sample.world, SALT) == SCREEN]
    judged = [sample for sample in samples if half_of(sample.world, SALT) == CONFIRM]
    return [*screened[:_SCREENED], *judged]


def positions_of(kind: str) -> tuple[str, ...]:
    """The tokens at which streams are exchanged where something of a kind moved."""
    return _POSITIONS[kind]


def _read_here(samples: Sequence[Sample], seed: int) -> list[Sample]:
    """Decisions that a probe of the place is fitted to: none is of a grid that judges."""
    listed = [sample for sample in samples if half_of(sample.world, SALT) == SCREEN]
    Draws("decisions that a probe of places reads", seed).shuffle(listed)
    return listed[:_READ]


def _span_row(each: LookUp) -> SpanRow:
    needed = each.row.needed
    return SpanRow(
        CONFIRM,
        each.span,
        needed.flips.n,
        needed.flips,
        needed.as_if_changed,
        needed.unreadable,
        each.other.needed.flips,
    )


def _moved_rows(result: Moved) -> list[MovedRow]:
    best = {(row.kind, row.place) for row in result.confirmed}

    def row(half: str, tried: Tried, *, is_ceiling: bool = False) -> MovedRow:
        return MovedRow(
            half,
            tried.kind,
            tried.place.label,
            tried.place.position,
            not is_ceiling and (tried.kind, tried.place) in best,
            is_ceiling,
            tried.pairs,
            tried.flips,
            tried.null_flips,
            tried.same_flips,
            tried.unreadable,
        )

    return [
        *(row(SCREEN, each) for each in result.screened),
        *(row(CONFIRM, each) for each in result.confirmed),
        *(row(CONFIRM, each, is_ceiling=True) for each in result.ceilings),
    ]


def _subspace_row(
    space: Subspace, samples: Sequence[Sample], network: Network, seed: int
) -> SubspaceRow:
    (layer,) = space.place.layers
    rank = space.basis.shape[1]
    most = network.width // _SHARE
    directions = place_directions(samples, network, space.place, space.kind, most)
    angle = None if directions is None else space.angle(directions, seed=seed)
    return SubspaceRow(
        CONFIRM,
        space.kind,
        layer,
        space.place.position,
        rank,
        space.trained,
        space.losses,
        space.flips.n,
        space.flips,
        space.random_flips,
        space.whole_flips,
        space.verdict,
        None if angle is None else angle.degrees,
        () if angle is None else angle.chance,
    )
