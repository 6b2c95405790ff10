"""Changes of a network while it answers: what is decodable need not be what is used.

    knock out   the attention to some tokens is masked for whatever is read or written later
    patch       the residual stream at some tokens is replaced by another pass's
    write       a vector is added to it
    ablate      its component along a direction is removed

Tokens are places in the prompt. A changed prompt token changes all that is read after it, and by
way of the cache all that is written. Nothing is deleted: the prompt keeps its length and every
token its position, so that what changes is what the token says and not where the others stand.

Source: "activation patching" and "attention knockout" as in Geva et al. (2023, arXiv 2304.14767);
projecting a direction out as in amnesic probing (Elazar et al. 2021).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidParameterError
from goalmeter.representation.network import Network

if TYPE_CHECKING:
    import torch

Edit = Callable[["torch.Tensor"], "torch.Tensor"]


@dataclass(frozen=True)
class Intervention:
    """What is changed while one prompt is answered.

    Attributes:
        masked: by layer, the places in the prompt to which the attention of that block is masked,
            for all tokens behind them; blocks count from 1.
        edits: by layer, 0 to L, and place in the prompt: what becomes of the residual stream [D].
    """

    masked: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    edits: Mapping[int, Mapping[int, Edit]] = field(default_factory=dict)

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
        return Intervention(masked, edits)


def knock_out(places: Sequence[int], layers: Sequence[int]) -> Intervention:
    """Mask the attention to some tokens of the prompt in some blocks."""
    return Intervention(masked=dict.fromkeys(layers, tuple(places)))


def patch(streams: Mapping[int, torch.Tensor], places: Sequence[int]) -> Intervention:
    """Replace the residual stream at some tokens of the prompt.

    Args:
        streams: by layer, what takes its place, [places, D].
        places: of the tokens.
    """
    return Intervention(
        edits={
            layer: {place: _constant(row) for place, row in zip(places, rows, strict=True)}
            for layer, rows in streams.items()
        }
    )


def write(vector: torch.Tensor, places: Sequence[int], layers: Sequence[int]) -> Intervention:
    """Add a vector [D] to the residual stream at some tokens of the prompt."""

    def add(stream: torch.Tensor) -> torch.Tensor:
        return stream + vector.to(stream)

    return Intervention(edits={layer: dict.fromkeys(places, add) for layer in layers})


def ablate(direction: torch.Tensor, places: Sequence[int], layers: Sequence[int]) -> Intervention:
    """Remove the component along a direction [D] at some tokens of the prompt.

    Raises:
        InvalidParameterError: the direction is zero.
    """
    length = float(direction.norm())
    if not length > 0:
        raise InvalidParameterError("the direction is zero, expected one with a length")
    unit = direction / length

    def remove(stream: torch.Tensor) -> torch.Tensor:
        along = unit.to(stream)
        return stream - (stream @ along) * along

    return Intervention(edits={layer: dict.fromkeys(places, remove) for layer in layers})


@contextmanager
def applied(
    network: Network, interventions: Sequence[Intervention], lengths: Sequence[int]
) -> Iterator[None]:
    """Change a network while it answers a batch of prompts.

    Rows of the batch are filled up on the left, as generation does. Only the pass that reads the
    prompts is edited; masks hold for every later token too.

    Args:
        network: that answers.
        interventions: one for each prompt of the batch, in its order.
        lengths: of the prompts, in tokens.

    Raises:
        InvalidParameterError: a layer or a place does not exist.
    """
    most = len(network.blocks)
    for change, length in zip(interventions, lengths, strict=True):
        _check(change, most, length)
    masked = sorted({layer for change in interventions for layer in change.masked})
    edited = sorted({layer for change in interventions for layer in change.edits})
    with ExitStack() as stack:
        stack.enter_context(
            network.changed({k: _editing(k, interventions, lengths) for k in edited})
        )
        if masked:
            # Other kernels may not be handed a mask at all, where it is the plain causal one.
            stack.enter_context(_attention(network, "eager"))
        for layer in masked:
            block = network.blocks[layer - 1]
            hook = _masking(block, layer, interventions, lengths)
            stack.callback(block.register_forward_pre_hook(hook, with_kwargs=True).remove)
        yield


def _editing(
    layer: int, interventions: Sequence[Intervention], lengths: Sequence[int]
) -> Callable[[torch.Tensor], torch.Tensor | None]:
    def edit(stream: torch.Tensor) -> torch.Tensor | None:
        if stream.shape[1] == 1:
            return None  # a token that is being written; the prompt has been read
        changed = stream.clone()
        for row, (change, length) in enumerate(zip(interventions, lengths, strict=True)):
            gap = stream.shape[1] - length
            for place, edited in change.edits.get(layer, {}).items():
                changed[row, gap + place] = edited(stream[row, gap + place])
        return changed

    return edit


def _masking(
    block: Any, layer: int, interventions: Sequence[Intervention], lengths: Sequence[int]
) -> Callable[..., Any]:
    import torch

    signature = inspect.signature(block.forward)
    longest = max(lengths)
    pairs = [
        (row, longest - length + place)
        for row, (change, length) in enumerate(zip(interventions, lengths, strict=True))
        for place in change.masked.get(layer, ())
    ]
    rows, keys = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).unbind(1)

    def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = signature.bind(*args, **kwargs)
        mask = bound.arguments["attention_mask"]
        changed = mask.expand(len(lengths), *mask.shape[1:]).clone()
        length, width = mask.shape[-2:]
        # A cache of a sliding window has dropped the first keys.
        dropped = _tokens_so_far(bound, longest) - width
        kept = keys >= dropped
        if length == 1:  # a token that is being written, behind all of the prompt
            changed[rows[kept], :, 0, keys[kept] - dropped] = _lowest(mask)
        else:
            # Tokens behind it are closed. It still reads itself: a row of the mask that is closed
            # everywhere has no softmax.
            for row, key in zip(rows[kept].tolist(), keys[kept].tolist(), strict=True):
                changed[row, :, key + 1 - dropped :, key - dropped] = _lowest(mask)
        bound.arguments["attention_mask"] = changed
        return bound.args, bound.kwargs

    return hook


def _tokens_so_far(bound: inspect.BoundArguments, longest: int) -> int:
    """How many tokens have been read in this batch, fillings included."""
    import torch

    inner = {**bound.arguments, **bound.arguments.get("kwargs", {})}
    places = inner.get("position_ids")
    # The longest row has no fillings, so the place of its last token tells.
    return int(torch.as_tensor(places).max()) + 1 if places is not None else longest


@contextmanager
def _attention(network: Network, kernels: str) -> Iterator[None]:
    """Compute attention by other kernels while this lasts."""
    model = network.local.model
    before = model.config._attn_implementation
    model.set_attn_implementation(kernels)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def _lowest(mask: torch.Tensor) -> float | bool:
    """What closes an entry of a mask: the lowest number, or False in a mask of truths."""
    import torch

    return torch.finfo(mask.dtype).min if mask.dtype.is_floating_point else False


def _check(change: Intervention, blocks: int, length: int) -> None:
    for name, layers, least in (("masked", change.masked, 1), ("edited", change.edits, 0)):
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
