"""Attention to some tokens of a prompt, closed for all later tokens or for those of a span."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from goalmeter.representation.network import Network
from goalmeter.representation.use.passes import Batch
from goalmeter.representation.use.written import When, always

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Span:
    """Tokens that look back: for which of them the attention to a place is closed.

    The last token of the prompt writes the first of the answer, so it counts as the prompt's.

    Attributes:
        prompt: whether those of the prompt.
        written: which of the answer.
    """

    prompt: bool = True
    written: When = always


EVERYWHERE = Span()


@dataclass(frozen=True)
class Closed:
    """One place of one row of a batch, closed for a span."""

    row: int
    place: int
    span: Span


def masking(block: Any, batch: Batch, closed: Sequence[Closed]) -> Callable[..., Any]:
    """A hook before a block that closes places in the mask that it is handed."""
    import torch

    signature = inspect.signature(block.forward)
    pairs = [(c.row, batch.gaps[c.row] + c.place) for c in closed if c.span == EVERYWHERE]
    rows, keys = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).unbind(1)
    spans = [c for c in closed if c.span != EVERYWHERE]

    def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = signature.bind(*args, **kwargs)
        mask = bound.arguments["attention_mask"]
        changed = mask.expand(len(batch.gaps), *mask.shape[1:]).clone()
        # A cache of a sliding window has dropped the first keys.
        dropped = batch.begin + batch.columns - mask.shape[-1]
        kept = keys >= dropped
        if batch.begin >= max(batch.ends) and batch.columns == 1:
            changed[rows[kept], :, 0, keys[kept] - dropped] = _lowest(mask)
        else:
            # Tokens behind it are closed. It still reads itself: a row of the mask that is closed
            # everywhere has no softmax.
            for row, key in zip(rows[kept].tolist(), keys[kept].tolist(), strict=True):
                first = max(key + 1 - batch.begin, 0)
                changed[row, :, first:, key - dropped] = _lowest(mask)
        for each in spans:
            key = batch.gaps[each.row] + each.place
            if key >= dropped and (tokens := _looking(batch, each, key)):
                changed[each.row, :, tokens, key - dropped] = _lowest(mask)
        bound.arguments["attention_mask"] = changed
        return bound.args, bound.kwargs

    return hook


def _looking(batch: Batch, closed: Closed, key: int) -> list[int]:
    """The tokens of this pass for which a place is closed."""
    tokens = list(batch.met[closed.row].get(closed.span.written, ()))
    if closed.span.prompt:
        last = min(batch.ends[closed.row] - batch.begin, batch.columns)
        tokens += range(max(key + 1 - batch.begin, 0), last)
    return tokens


@contextmanager
def attention(network: Network, kernels: str) -> Iterator[None]:
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
