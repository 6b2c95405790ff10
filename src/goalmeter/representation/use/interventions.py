"""Interventions on a network while it answers: knock-outs, patches, writes and ablations.

A knock-out masks the attention to tokens of the prompt for whatever is read or written later, or
for a span of it. A patch replaces the residual stream at some tokens, a write adds a vector to it,
and an ablation removes its component along a direction. The tokens are places in the prompt, or
tokens of the answer at which a condition on the text so far holds. Nothing is deleted: the prompt
keeps its length and every token its position.

Source: activation patching and attention knock-out as in Geva et al. (2023, arXiv 2304.14767);
projecting a direction out as in amnesic probing (Elazar et al. 2021).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from goalmeter.representation.network import Network
from goalmeter.representation.replay import common_length

if TYPE_CHECKING:
    import torch

# Tokens that are decoded together to determine the text that the last of them adds.
_WINDOW = 8


class WrittenText:
    """The tokens of an answer up to and including the one that is being read, and their text."""

    def __init__(self, tokenizer: Any) -> None:
        self.ids: list[int] = []
        self._tokenizer = tokenizer
        self._text = ""
        self._ends: list[int] = []

    @property
    def text(self) -> str:
        """The decoded text, special tokens included."""
        for place in range(len(self._ends), len(self.ids)):
            begin = max(0, place + 1 - _WINDOW)
            before = self._tokenizer.decode(self.ids[begin:place])
            after = self._tokenizer.decode(self.ids[begin : place + 1])
            # Half a character decodes to a placeholder until its other half is there.
            common = common_length(before, after)
            self._text = self._text[: len(self._text) - len(before) + common] + after[common:]
            self._ends.append(len(self._text))
        return self._text

    @property
    def last(self) -> int:
        """The length of the text before the last token."""
        text = self.text
        return min(self._ends[-2], len(text)) if len(self._ends) > 1 else 0

    def append(self, token: int) -> None:
        """Append a token."""
        self.ids.append(token)

    def cut(self, length: int) -> None:
        """Keep at most this many tokens."""
        if length < len(self.ids):
            del self.ids[length:]
            self._text, self._ends = "", []


# Whether the token that is being read meets a condition. Conditions refer to the text and not to a
# token's number, since a changed answer has other words.
When = Callable[[WrittenText], bool]
# Tokens of the prompt by place, or tokens of the answer by a condition.
Places = Sequence[int] | When
# A change of the residual stream of one token, [D] -> [D].
Change = Callable[["torch.Tensor"], "torch.Tensor"]


def always(written: WrittenText) -> bool:
    """Select every token."""
    return True


def never(written: WrittenText) -> bool:
    """Select no token."""
    return False


class KnockOut(NamedTuple):
    """Places in the prompt that some tokens cannot attend to, in some blocks from 1 on."""

    places: tuple[int, ...]
    layers: tuple[int, ...]
    prompt: bool  # all tokens of the prompt, the last one, which writes the first answer, included
    written: When  # some tokens of the answer

    @property
    def is_everywhere(self) -> bool:
        """Whether no token can attend to the places."""
        return self.prompt and self.written is always


class Edit(NamedTuple):
    """A change of the residual stream at a place of the prompt, or wherever a condition holds."""

    where: int | When
    layer: int
    change: Change


@dataclass(frozen=True)
class Intervention:
    """Everything that is changed while one prompt is answered; edits apply in their order."""

    knock_outs: tuple[KnockOut, ...] = ()
    edits: tuple[Edit, ...] = ()

    def joined(self, other: Intervention) -> Intervention:
        """Apply both changes, this one first."""
        return Intervention(self.knock_outs + other.knock_outs, self.edits + other.edits)

    def first_place(self, length: int) -> int:
        """Return the first token that may change; the prompt's length if only the answer does."""
        places = [place for each in self.knock_outs if each.prompt for place in each.places]
        places += [edit.where for edit in self.edits if isinstance(edit.where, int)]
        return min([length, *places])

    @property
    def conditions(self) -> list[When]:
        """The conditions on the answer that have to be evaluated at each of its tokens."""
        spans = [each.written for each in self.knock_outs if not each.is_everywhere]
        listed = [*spans, *(e.where for e in self.edits if not isinstance(e.where, int))]
        return list(dict.fromkeys(listed))


def knock_out(
    places: Sequence[int], layers: Sequence[int], *, prompt: bool = True, written: When = always
) -> Intervention:
    """Mask the attention to tokens of the prompt in some blocks, for all tokens or some."""
    return Intervention((KnockOut(tuple(places), tuple(layers), prompt, written),))


def patch(streams: Mapping[int, torch.Tensor], places: Sequence[int]) -> Intervention:
    """Replace the residual stream at places of the prompt by streams [places, D] by layer."""
    edits = [
        Edit(place, layer, lambda stream, row=row: row.to(stream))  # type: ignore[misc]
        for layer, rows in streams.items()
        for place, row in zip(places, rows, strict=True)
    ]
    return Intervention(edits=tuple(edits))


def write(vector: torch.Tensor, places: Places, layers: Sequence[int]) -> Intervention:
    """Add a vector [D] to the residual stream at some tokens."""
    return _edited(lambda stream: stream + vector.to(stream), places, layers)


def ablate(direction: torch.Tensor, places: Places, layers: Sequence[int]) -> Intervention:
    """Remove the component of the residual stream along a direction [D] at some tokens."""
    unit = direction / float(direction.norm())

    def remove(stream: torch.Tensor) -> torch.Tensor:
        along = unit.to(stream)
        return stream - (stream @ along) * along

    return _edited(remove, places, layers)


def _edited(change: Change, places: Places, layers: Sequence[int]) -> Intervention:
    listed = [places] if callable(places) else places
    return Intervention(edits=tuple(Edit(p, layer, change) for layer in layers for p in listed))


@contextmanager
def applied(
    network: Network,
    interventions: Sequence[Intervention],
    lengths: Sequence[int],
    begun: Sequence[int] | None = None,
) -> Iterator[None]:
    """Change a network while it reads prompts, padded on the left, and some begun answers."""
    import torch

    model = network.local.model
    # Generation reads the prompts in one pass and each token that it writes in one of its own;
    # other passes read a prompt and an answer together, or continue from a cache. Columns of the
    # padded batch are the same in all of them: each row has a gap, and a column after its prompt.
    begun = begun or [0] * len(lengths)
    rows = [length + more for length, more in zip(lengths, begun, strict=True)]
    gaps = [max(rows) - row for row in rows]
    ends = [gap + length for gap, length in zip(gaps, lengths, strict=True)]
    # The first column of the current pass, the number of its columns, and those at which each
    # condition of a row holds.
    begin = columns = 0
    met: list[dict[When, list[int]]] = [{} for _ in rows]
    conditions = [change.conditions for change in interventions]
    texts = [WrittenText(network.local.tokenizer) for _ in rows]
    forward = inspect.signature(model.base_model.forward)

    def follow(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep track of each pass of the network: a hook before it."""
        nonlocal begin, columns
        given = forward.bind(*args, **kwargs).arguments
        ids, cache = given["input_ids"], given.get("past_key_values")
        begin, columns = 0 if cache is None else int(cache.get_seq_length()), ids.shape[1]
        if not any(conditions):
            return
        for row, tokens in enumerate(ids.tolist()):
            met[row] = {condition: [] for condition in conditions[row]}
            first = max(ends[row], begin)
            texts[row].cut(first - ends[row])
            for column in range(first - begin, columns):
                texts[row].append(tokens[column])
                for condition, places in met[row].items():
                    if condition(texts[row]):
                        places.append(column)

    def edit(layer: int, stream: torch.Tensor) -> torch.Tensor | None:
        """Apply the edits of a layer to its stream."""
        changed = None
        for row, intervention in enumerate(interventions):
            for where, at, change in intervention.edits:
                if at != layer:
                    continue
                places = met[row].get(where, []) if callable(where) else [gaps[row] + where - begin]
                for column in places:
                    if 0 <= column < columns:
                        changed = stream.clone() if changed is None else changed
                        changed[row, column] = change(changed[row, column])
        return changed

    def masking(layer: int) -> Callable[..., Any]:
        """Return a hook before a block that closes places in its attention mask."""
        forward = inspect.signature(network.blocks[layer - 1].forward)
        listed = [
            (row, gaps[row] + place, out)
            for row, change in enumerate(interventions)
            for out in change.knock_outs
            if layer in out.layers
            for place in out.places
        ]
        pairs = [(row, key) for row, key, out in listed if out.is_everywhere]
        of_rows, keys = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).unbind(1)
        spans = [each for each in listed if not each[2].is_everywhere]

        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            bound = forward.bind(*args, **kwargs)
            mask = bound.arguments["attention_mask"]
            # A cache of a sliding window has dropped the first keys.
            dropped = begin + columns - mask.shape[-1]
            closed = torch.zeros(len(gaps), columns, mask.shape[-1], dtype=torch.bool)
            there = keys >= dropped
            closed[of_rows[there], :, keys[there] - dropped] = True
            for row, key, out in spans:
                if key >= dropped:
                    closed[row, met[row].get(out.written, []), key - dropped] = True
                    last = max(ends[row] - begin, 0) if out.prompt else 0
                    closed[row, :last, key - dropped] = True
            # A token still attends to itself: a row that is closed everywhere has no softmax.
            looking = torch.arange(columns)[:, None] + begin
            closed &= torch.arange(mask.shape[-1]) + dropped < looking
            lowest = torch.finfo(mask.dtype).min if mask.dtype.is_floating_point else False
            closed = closed[:, None].to(mask.device)
            bound.arguments["attention_mask"] = mask.masked_fill(closed, lowest)
            return bound.args, bound.kwargs

        return hook

    masked = sorted({k for each in interventions for out in each.knock_outs for k in out.layers})
    edited = sorted({edit.layer for each in interventions for edit in each.edits})
    with ExitStack() as stack:
        handle = model.base_model.register_forward_pre_hook(follow, with_kwargs=True)
        stack.callback(handle.remove)
        stack.enter_context(network.changed({k: partial(edit, k) for k in edited}))
        if masked:
            # Other kernels may not receive a mask at all where it is the plain causal one.
            stack.callback(model.set_attn_implementation, model.config._attn_implementation)
            model.set_attn_implementation("eager")
        for layer in masked:
            block = network.blocks[layer - 1]
            handle = block.register_forward_pre_hook(masking(layer), with_kwargs=True)
            stack.callback(handle.remove)
        yield
