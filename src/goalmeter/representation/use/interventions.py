"""Interventions on a network while it answers: knock-outs, patches, writes and ablations."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidParameterError
from goalmeter.representation.network import Network

if TYPE_CHECKING:
    import torch


# --- Written --------------------------------------------------------------------------------------
# What a model is about to do while it reasons is told by what it has written: a search has come
# to a cell when the cell's name stands there with a colon. So a condition is asked of the tokens
# up to and with the one that is being read; that one is then changed, or not. It cannot be asked
# by a number: an answer that has been changed has other words, or as many words elsewhere.

# Tokens that are decoded together to see what the last of them adds.
_WINDOW = 8


class Written:
    """The tokens of an answer up to now.

    Attributes:
        ids: of the tokens; the last of them is being read.

    Args:
        tokenizer: of transformers, for the text.
        ids: to begin with.
    """

    def __init__(self, tokenizer: Any, ids: Iterable[int] = ()) -> None:
        self.ids: list[int] = list(ids)
        self._tokenizer = tokenizer
        self._text = ""
        self._ends: list[int] = []

    @property
    def text(self) -> str:
        """What the tokens read, special tokens included."""
        # Grown by a window at a time: an answer is asked for at each of its tokens.
        for place in range(len(self._ends), len(self.ids)):
            begin = max(0, place + 1 - _WINDOW)
            before = self._tokenizer.decode(self.ids[begin:place])
            after = self._tokenizer.decode(self.ids[begin : place + 1])
            # Half a character reads as a mark of its own until its other half has come.
            common = _common(before, after)
            self._text = self._text[: len(self._text) - len(before) + common] + after[common:]
            self._ends.append(len(self._text))
        return self._text

    @property
    def last(self) -> int:
        """How many characters of the text were there before the last token."""
        text = self.text
        return min(self._ends[-2], len(text)) if len(self._ends) > 1 else 0

    def append(self, token: int) -> None:
        """Write another token."""
        self.ids.append(token)

    def cut(self, length: int) -> None:
        """Keep only so many tokens; all if there are no more."""
        if length < len(self.ids):
            del self.ids[length:]
            self._text, self._ends = "", []


When = Callable[[Written], bool]


def always(written: Written) -> bool:
    """Every token."""
    return True


def never(written: Written) -> bool:
    """No token."""
    return False


@dataclass(frozen=True)
class Steps:
    """The tokens first to last - 1 of an answer, counted from 0; to its end without a last."""

    first: int = 0
    last: int | None = None

    def __call__(self, written: Written) -> bool:
        """Whether the token that is being read is one of them."""
        number = len(written.ids) - 1
        return self.first <= number and (self.last is None or number < self.last)


@dataclass(frozen=True)
class Behind:
    """The token that completes a text, each time that the answer comes to it.

    Where a token reads beyond the text, the text was completed in it all the same.

    Attributes:
        text: as the tokenizer decodes it, blanks included.
    """

    text: str

    def __call__(self, written: Written) -> bool:
        """Whether the token that is being read completes the text."""
        text = written.text
        return text.find(self.text, max(0, written.last - len(self.text) + 1)) >= 0


@dataclass(frozen=True)
class Token:
    """Every token of an id, such as the word that says that a cell has its turn.

    Attributes:
        token: its id.
    """

    token: int

    def __call__(self, written: Written) -> bool:
        """Whether the token that is being read is this one."""
        return written.ids[-1] == self.token


def _common(left: str, right: str) -> int:
    length = min(len(left), len(right))
    return next((n for n in range(length) if left[n] != right[n]), length)


# --- Passes ---------------------------------------------------------------------------------------
# Generation reads the prompts in one pass and then each token that it writes in one of its own.
# Other passes read a prompt and what was written together, or a prompt whose beginning is in a
# cache. What is to be changed is told by column, so that it is the same in all of them.


class Batch:
    """Prompts that are being answered, filled up on the left.

    Args:
        tokenizer: of the model.
        lengths: of the prompts, in tokens.
        begun: how many tokens of each answer are read together with its prompt.
        conditions: on what is written, for each prompt.

    Attributes:
        gaps: fillings of each row.
        ends: of each row, the column behind its prompt.
        begin: the first column of this pass.
        columns: how many this pass has.
        met: of each row, the columns in this pass at which a condition holds.
    """

    def __init__(
        self,
        tokenizer: Any,
        lengths: Sequence[int],
        begun: Sequence[int],
        conditions: Sequence[Sequence[When]],
    ) -> None:
        rows = [length + more for length, more in zip(lengths, begun, strict=True)]
        self.gaps = [max(rows) - row for row in rows]
        self.ends = [gap + length for gap, length in zip(self.gaps, lengths, strict=True)]
        self.begin = self.columns = 0
        self.met: list[dict[When, list[int]]] = [{} for _ in rows]
        self._conditions = [list(dict.fromkeys(asked)) for asked in conditions]
        self._written = [Written(tokenizer) for _ in rows]

    def place(self, row: int, place: int) -> int | None:
        """Where a token of a prompt stands among the tokens of this pass; None if elsewhere."""
        column = self.gaps[row] + place - self.begin
        return column if 0 <= column < self.columns else None

    @contextmanager
    def followed(self, network: Network) -> Iterator[None]:
        """Take note of each pass of a network while this lasts."""
        base = network.local.model.base_model
        signature = inspect.signature(base.forward)

        def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            given = signature.bind(*args, **kwargs).arguments
            cache = given.get("past_key_values")
            self._note(given["input_ids"], 0 if cache is None else int(cache.get_seq_length()))

        handle = base.register_forward_pre_hook(hook, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()

    def _note(self, ids: Any, begin: int) -> None:
        self.begin, self.columns = begin, ids.shape[1]
        if not any(self._conditions):
            return
        for row, (end, tokens) in enumerate(zip(self.ends, ids.tolist(), strict=True)):
            written, asked = self._written[row], self._conditions[row]
            met: dict[When, list[int]] = {condition: [] for condition in asked}
            first = max(end, begin)
            written.cut(first - end)
            for column in range(first, begin + len(tokens)):
                written.append(tokens[column - begin])
                for condition in asked:
                    if condition(written):
                        met[condition].append(column - begin)
            self.met[row] = met


def filled(rows: Sequence[Sequence[int]], device: Any) -> dict[str, torch.Tensor]:
    """Sequences of different lengths as the inputs of a model, filled up on the left, [B, T]."""
    import torch

    longest = max(map(len, rows))
    gaps = [longest - len(row) for row in rows]
    ids = torch.tensor([[0] * gap + list(row) for gap, row in zip(gaps, rows, strict=True)])
    mask = torch.tensor([[0] * gap + [1] * (longest - gap) for gap in gaps])
    # Explicit: without them fillings would count as tokens.
    places = (mask.cumsum(dim=1) - 1).clamp(min=0)
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": places}
    return {name: value.to(device) for name, value in inputs.items()}


# --- Masking --------------------------------------------------------------------------------------
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


# --- Interventions --------------------------------------------------------------------------------
# knock out   the attention to some tokens of the prompt is masked for whatever is read or written
#                 later, or for a span of it only
#     patch       the residual stream at some tokens is replaced by another pass's
#     write       a vector is added to it
#     ablate      its component along a direction is removed
#
# Tokens that are patched, written to or ablated are places in the prompt, or those of the answer,
# as they are written, at which a condition on the answer so far holds. A changed token changes
# all that is read after it, and by way of the cache all that is written. Nothing is deleted: the
# prompt keeps its length and every token its position, so that what changes is what the token
# says and not where the others stand.
#
# Source: "activation patching" and "attention knockout" as in Geva et al. (2023, arXiv 2304.14767);
# projecting a direction out as in amnesic probing (Elazar et al. 2021).

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
