"""Changes of a network while it answers: what is decodable need not be what is used.

    knock out   the attention to some tokens of the prompt is masked for whatever is read or written
                later, or for a span of it only
    patch       the residual stream at some tokens is replaced by another pass's
    write       a vector is added to it
    ablate      its component along a direction is removed

Tokens that are patched, written to or ablated are places in the prompt, or those of the answer, as
they are written, at which a condition on the answer so far holds. A changed token changes all that
is read after it, and by way of the cache all that is written. Nothing is deleted: the prompt keeps
its length and every token its position, so that what changes is what the token says and not where
the others stand.

Source: "activation patching" and "attention knockout" as in Geva et al. (2023, arXiv 2304.14767);
projecting a direction out as in amnesic probing (Elazar et al. 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from goalmeter._errors import InvalidParameterError
from goalmeter.representation.network import Network
from goalmeter.representation.use.masking import EVERYWHERE, Closed, Span, attention, masking
from goalmeter.representation.use.passes import Batch
from goalmeter.representation.use.written import When

if TYPE_CHECKING:
    import torch

Edit = Callable[["torch.Tensor"], "torch.Tensor"]
# Tokens of the prompt by place, or tokens of the answer by a condition on what was written.
Places = Sequence[int] | When


@dataclass(frozen=True)
class KnockedOut:
    """Places in the prompt that the tokens of a span do not see.

    Attributes:
        span: the tokens that look back.
        masked: by layer, the places; blocks count from 1.
    """

    span: Span
    masked: Mapping[int, tuple[int, ...]]


@dataclass(frozen=True)
class Intervention:
    """What is changed while one prompt is answered.

    Attributes:
        masked: by layer, the places in the prompt to which the attention of that block is masked,
            for all tokens behind them; blocks count from 1.
        edits: by layer, 0 to L, and place in the prompt: what becomes of the residual stream [D].
        for_spans: places that are masked for some tokens only.
        while_written: what becomes of the residual stream [D] of tokens of the answer: where a
            condition holds, by layer. At a token where several do, one after the other.
    """

    masked: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    edits: Mapping[int, Mapping[int, Edit]] = field(default_factory=dict)
    for_spans: tuple[KnockedOut, ...] = ()
    while_written: tuple[tuple[When, Mapping[int, Edit]], ...] = ()

    def joined(self, other: Intervention) -> Intervention:
        """Both changes at once; where both edit one place, this one's edit comes first."""
        edits = {layer: dict(places) for layer, places in self.edits.items()}
        for layer, places in other.edits.items():
            joint = edits.setdefault(layer, {})
            for place, edit in places.items():
                joint[place] = _after(joint[place], edit) if place in joint else edit
        masked = {
            layer: tuple(sorted({*self.masked.get(layer, ()), *other.masked.get(layer, ())}))
            for layer in {*self.masked, *other.masked}
        }
        return Intervention(
            masked,
            edits,
            self.for_spans + other.for_spans,
            self.while_written + other.while_written,
        )

    def first_place(self, length: int) -> int:
        """The first token that may be read otherwise than without the change.

        Args:
            length: of the prompt; returned if only what is written is changed.
        """
        places = [place for closed in self.masked.values() for place in closed]
        places += [place for edits in self.edits.values() for place in edits]
        for each in self.for_spans:
            if each.span.prompt:
                places += [place for closed in each.masked.values() for place in closed]
        return min([length, *places])

    @property
    def layers_masked(self) -> set[int]:
        """The blocks whose attention is masked for any token."""
        return {*self.masked, *(layer for each in self.for_spans for layer in each.masked)}

    @property
    def layers_edited(self) -> set[int]:
        """The layers at which the stream of any token is edited."""
        return {*self.edits, *(layer for _, edits in self.while_written for layer in edits)}


def knock_out(
    places: Sequence[int], layers: Sequence[int], span: Span = EVERYWHERE
) -> Intervention:
    """Mask the attention to some tokens of the prompt in some blocks, for the tokens of a span."""
    masked = dict.fromkeys(layers, tuple(places))
    if span == EVERYWHERE:
        return Intervention(masked=masked)
    return Intervention(for_spans=(KnockedOut(span, masked),))


def patch(streams: Mapping[int, torch.Tensor], places: Places) -> Intervention:
    """Replace the residual stream at some tokens.

    Args:
        streams: by layer, what takes its place: [places, D]; at tokens of the answer [D].
        places: of the tokens, or a condition on what was written.
    """
    if callable(places):
        edits = {layer: _constant(row) for layer, row in streams.items()}
        return Intervention(while_written=((places, edits),))
    return Intervention(
        edits={
            layer: {place: _constant(row) for place, row in zip(places, rows, strict=True)}
            for layer, rows in streams.items()
        }
    )


def write(vector: torch.Tensor, places: Places, layers: Sequence[int]) -> Intervention:
    """Add a vector [D] to the residual stream at some tokens."""

    def add(stream: torch.Tensor) -> torch.Tensor:
        return stream + vector.to(stream)

    return edited(add, places, layers)


def ablate(direction: torch.Tensor, places: Places, layers: Sequence[int]) -> Intervention:
    """Remove the component along a direction [D] at some tokens."""
    length = float(direction.norm())
    if not length > 0:
        raise InvalidParameterError("the direction is zero, expected one with a length")
    unit = direction / length

    def remove(stream: torch.Tensor) -> torch.Tensor:
        along = unit.to(stream)
        return stream - (stream @ along) * along

    return edited(remove, places, layers)


def edited(edit: Edit, places: Places, layers: Sequence[int]) -> Intervention:
    """Change the residual stream [D] at some tokens by a function of it."""
    if callable(places):
        return Intervention(while_written=((places, dict.fromkeys(layers, edit)),))
    return Intervention(edits={layer: dict.fromkeys(places, edit) for layer in layers})


@contextmanager
def applied(
    network: Network,
    interventions: Sequence[Intervention],
    lengths: Sequence[int],
    begun: Sequence[int] | None = None,
) -> Iterator[None]:
    """Change a network while it answers a batch of prompts.

    Rows of the batch are filled up on the left, as generation does.

    Args:
        network: that answers.
        interventions: one for each prompt of the batch, in its order.
        lengths: of the prompts, in tokens.
        begun: how many tokens of each answer are read together with its prompt; None for none.
    """
    most = len(network.blocks)
    for change, length in zip(interventions, lengths, strict=True):
        _check(change, most, length)
    masked = sorted({layer for change in interventions for layer in change.layers_masked})
    edited = sorted({layer for change in interventions for layer in change.layers_edited})
    batch = Batch(
        network.local.tokenizer,
        lengths,
        [0] * len(lengths) if begun is None else begun,
        [
            [
                *(each.span.written for each in change.for_spans),
                *(when for when, _ in change.while_written),
            ]
            for change in interventions
        ],
    )
    with ExitStack() as stack:
        stack.enter_context(batch.followed(network))
        stack.enter_context(network.changed({k: _editing(k, interventions, batch) for k in edited}))
        if masked:
            # Other kernels may not be handed a mask at all, where it is the plain causal one.
            stack.enter_context(attention(network, "eager"))
        for layer in masked:
            block = network.blocks[layer - 1]
            hook = masking(block, batch, _closed(layer, interventions))
            stack.callback(block.register_forward_pre_hook(hook, with_kwargs=True).remove)
        yield


def _closed(layer: int, interventions: Sequence[Intervention]) -> list[Closed]:
    closed = []
    for row, change in enumerate(interventions):
        closed += [Closed(row, place, EVERYWHERE) for place in change.masked.get(layer, ())]
        for each in change.for_spans:
            closed += [Closed(row, place, each.span) for place in each.masked.get(layer, ())]
    return closed


def _editing(
    layer: int, interventions: Sequence[Intervention], batch: Batch
) -> Callable[[torch.Tensor], torch.Tensor | None]:
    def edit(stream: torch.Tensor) -> torch.Tensor | None:
        edits = [
            (row, token, edit)
            for row, change in enumerate(interventions)
            for token, edit in _edits(change, layer, row, batch)
        ]
        if not edits:
            return None
        changed = stream.clone()
        for row, token, edit in edits:
            changed[row, token] = edit(changed[row, token])
        return changed

    return edit


def _edits(change: Intervention, layer: int, row: int, batch: Batch) -> Iterator[tuple[int, Edit]]:
    """What is edited in a row in this pass: the number of the token in it, and how."""
    for place, edit in change.edits.get(layer, {}).items():
        if (token := batch.place(row, place)) is not None:
            yield token, edit
    for when, edits in change.while_written:
        if layer in edits:
            for token in batch.met[row].get(when, ()):
                yield token, edits[layer]


def _check(change: Intervention, blocks: int, length: int) -> None:
    asked = [("masked", change.masked, 1), ("edited", change.edits, 0)]
    asked += [("masked", each.masked, 1) for each in change.for_spans]
    asked += [("edited", dict.fromkeys(edits, ()), 0) for _, edits in change.while_written]
    for name, layers, least in asked:
        for layer, places in layers.items():
            if not least <= layer <= blocks:
                raise InvalidParameterError(
                    f"layer {layer} is to be {name}, expected {least} to {blocks}"
                )
            if outside := [place for place in places if not 0 <= place < length]:
                raise InvalidParameterError(
                    f"token {outside[0]} of the prompt is to be {name}, expected 0 to {length - 1}"
                )


def _constant(row: torch.Tensor) -> Edit:
    return lambda stream: row.to(stream)


def _after(first: Edit, second: Edit) -> Edit:
    return lambda stream: second(first(stream))
