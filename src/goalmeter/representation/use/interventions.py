"""Interventions on a network while it answers, its answers, and effects on the next action.

A knock-out masks the attention of later tokens, or of a span of them, to tokens of the prompt. A
patch replaces the residual stream at some tokens, a write adds a vector to it, and an ablation
removes its component along a direction. The tokens are places in the prompt, or tokens of the
answer at which a condition on the text so far holds.

Source: activation patching and attention knock-out as in Geva et al. (2023, arXiv 2304.14767);
projecting a direction out as in amnesic probing (Elazar et al. 2021).
"""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from math import comb, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from goalmeter._types import IntArray
from goalmeter.agents.local_models import Sampling
from goalmeter.navigation.prompts import understood
from goalmeter.representation.network import Network, padded
from goalmeter.representation.replay import Sample, common_length
from goalmeter.representation.scenes import mean_over_grids
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.discrimination import jensen_shannon

if TYPE_CHECKING:
    import torch

# Number of tokens decoded together to find the text that the last of them adds.
_WINDOW = 8


class WrittenText:
    """Tokens of an answer up to and including the current one, and their text."""

    def __init__(self, tokenizer: Any) -> None:
        self.ids: list[int] = []
        self._tokenizer = tokenizer
        self._text = ""
        self._ends: list[int] = []

    @property
    def text(self) -> str:
        """Decoded text, special tokens included."""
        for place in range(len(self._ends), len(self.ids)):
            begin = max(0, place + 1 - _WINDOW)
            before = self._tokenizer.decode(self.ids[begin:place])
            after = self._tokenizer.decode(self.ids[begin : place + 1])
            # An incomplete character decodes to a placeholder until the token that completes it.
            common = common_length(before, after)
            self._text = self._text[: len(self._text) - len(before) + common] + after[common:]
            self._ends.append(len(self._text))
        return self._text

    @property
    def last(self) -> int:
        """Length of the text before the last token."""
        text = self.text
        return min(self._ends[-2], len(text)) if len(self._ends) > 1 else 0

    def cut(self, length: int) -> None:
        """Keep at most this many tokens."""
        if length < len(self.ids):
            del self.ids[length:]
            self._text, self._ends = "", []


# Whether the current token meets a condition. Conditions refer to the text, not to the number of a
# token, since a changed answer has other words.
When = Callable[[WrittenText], bool]
# Tokens of the prompt by place, or tokens of the answer by a condition.
Places = Sequence[int] | When
# Change of the residual stream of one token, [D] -> [D].
Change = Callable[["torch.Tensor"], "torch.Tensor"]


def always(written: WrittenText) -> bool:
    """Select every token."""
    return True


def never(written: WrittenText) -> bool:
    """Select no token."""
    return False


class KnockOut(NamedTuple):
    """Places in the prompt that are masked for some tokens in some blocks (numbered from 1)."""

    places: tuple[int, ...]
    layers: tuple[int, ...]
    prompt: bool  # mask for all tokens of the prompt; the last one predicts the first of the answer
    written: When  # mask for tokens of the answer that meet the condition

    @property
    def is_everywhere(self) -> bool:
        """Whether the places are masked for all tokens."""
        return self.prompt and self.written is always


class Edit(NamedTuple):
    """Change of the residual stream at a place of the prompt, or wherever a condition holds."""

    where: int | When
    layer: int
    change: Change


@dataclass(frozen=True)
class Intervention:
    """All changes while one prompt is answered; edits apply in order."""

    knock_outs: tuple[KnockOut, ...] = ()
    edits: tuple[Edit, ...] = ()

    def joined(self, other: Intervention) -> Intervention:
        """Return an intervention that applies this one, then another."""
        return Intervention(self.knock_outs + other.knock_outs, self.edits + other.edits)

    def first_place(self, length: int) -> int:
        """Return the first token that may change; the prompt's length if only the answer may."""
        places = [place for each in self.knock_outs if each.prompt for place in each.places]
        places += [edit.where for edit in self.edits if isinstance(edit.where, int)]
        return min([length, *places])

    @property
    def conditions(self) -> list[When]:
        """Conditions to be evaluated at each token of the answer."""
        spans = [each.written for each in self.knock_outs if not each.is_everywhere]
        listed = [*spans, *(e.where for e in self.edits if not isinstance(e.where, int))]
        return list(dict.fromkeys(listed))


def knock_out(
    places: Sequence[int], layers: Sequence[int], *, prompt: bool = True, written: When = always
) -> Intervention:
    """Mask the attention to tokens of the prompt in some blocks, for all tokens or a span."""
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
    """Change a network while it reads prompts, padded on the left, and beginnings of answers."""
    import torch

    model = network.local.model
    # Generation reads the prompts in one pass and each generated token in another; other passes
    # read a prompt and an answer together, or continue from a cache. All passes share the columns
    # of the padded batch: `gaps` are the lengths of the padding, `ends` the ends of the prompts.
    begun = begun or [0] * len(lengths)
    rows = [length + more for length, more in zip(lengths, begun, strict=True)]
    gaps = [max(rows) - row for row in rows]
    ends = [gap + length for gap, length in zip(gaps, lengths, strict=True)]
    # First column and number of columns of the current pass, and the columns at which each
    # condition of a row holds.
    begin = columns = 0
    met: list[dict[When, list[int]]] = [{} for _ in rows]
    conditions = [change.conditions for change in interventions]
    texts = [WrittenText(network.local.tokenizer) for _ in rows]
    forward = inspect.signature(model.base_model.forward)

    def follow(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Update the columns and conditions before each forward pass (a hook)."""
        nonlocal begin, columns
        bound = forward.bind(*args, **kwargs).arguments
        ids, cache = bound["input_ids"], bound.get("past_key_values")
        begin, columns = 0 if cache is None else int(cache.get_seq_length()), ids.shape[1]
        if not any(conditions):
            return
        for row, tokens in enumerate(ids.tolist()):
            met[row] = {condition: [] for condition in conditions[row]}
            first = max(ends[row], begin)
            texts[row].cut(first - ends[row])
            for column in range(first - begin, columns):
                texts[row].ids.append(tokens[column])
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
        """Return a hook that masks places in the attention mask of a block."""
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
            # The cache of a sliding window lacks the first keys.
            dropped = begin + columns - mask.shape[-1]
            closed = torch.zeros(len(gaps), columns, mask.shape[-1], dtype=torch.bool)
            there = keys >= dropped
            closed[of_rows[there], :, keys[there] - dropped] = True
            for row, key, out in spans:
                if key >= dropped:
                    closed[row, met[row].get(out.written, []), key - dropped] = True
                    last = max(ends[row] - begin, 0) if out.prompt else 0
                    closed[row, :last, key - dropped] = True
            # A token still attends to itself: the softmax of a fully masked row is undefined.
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
            # Other kernels may receive no mask if it is the plain causal one.
            stack.callback(model.set_attn_implementation, model.config._attn_implementation)
            model.set_attn_implementation("eager")
        for layer in masked:
            block = network.blocks[layer - 1]
            handle = block.register_forward_pre_hook(masking(layer), with_kwargs=True)
            stack.callback(handle.remove)
        yield


# --- Answers --------------------------------------------------------------------------------------
BATCH = 48
# Maximum length of an answer under an intervention, as a multiple of the longest unchanged one;
# a longer answer is invalid.
LONGER = 2
UNCHANGED = Intervention()
Changes = Sequence[Intervention]
Ids = Sequence[tuple[int, ...]]  # tokens of some rows


class ModelAnswer(NamedTuple):
    """Answer: action 0 to 3, or None with the reason why it is invalid, and its tokens."""

    action: int | None
    invalid: str
    tokens: tuple[int, ...]

    @classmethod
    def of(cls, network: Network, ids: Sequence[int]) -> ModelAnswer:
        """Parse the tokens of an answer."""
        parsed = understood(network.local.text(ids))
        return cls(parsed.action, parsed.invalid, tuple(ids))


def answer_all(
    network: Network,
    samples: Sequence[Sample],
    interventions: Sequence[Intervention] | None = None,
    *,
    tokens: int = 512,
    temperature: float = 0.0,
    seed: int = 0,
) -> list[ModelAnswer]:
    """Answer the prompts of decisions again, each under its own intervention.

    An answer has at most `tokens` tokens and depends only on the seed and the sample's number.
    """
    local = network.local

    def answers(batch: list[int]) -> list[ModelAnswer]:
        prompts = [
            local.prompt(samples[n].prompt, tokens, Sampling(seed + n, temperature=temperature))
            for n in batch
        ]
        changes = [interventions[n] if interventions else UNCHANGED for n in batch]
        with applied(network, changes, [len(prompt.ids) for prompt in prompts]):
            return [
                ModelAnswer.of(network, reply.ids) for reply in local.answers(prompts, fixed=True)
            ]

    # Prompts of similar length share a batch, since padding costs as much as tokens.
    sizes = {number: len(sample.prompt) for number, sample in enumerate(samples)}
    return list(_in_batches(sizes, answers).values())


def _in_batches(
    sizes: Mapping[int, int], answers: Callable[[list[int]], list[ModelAnswer]]
) -> dict[int, ModelAnswer]:
    """Return answers by number, computed in batches of similar size."""
    order = sorted(sizes, key=lambda number: sizes[number])
    out: dict[int, ModelAnswer] = {}
    for begin in range(0, len(order), BATCH):
        batch = order[begin : begin + BATCH]
        out |= dict(zip(batch, answers(batch), strict=True))
    return {number: out[number] for number in sizes}


_MOST_BYTES = 2 << 30


class SizedCache:
    """Cache of values by name with a limit in bytes; drops the least recently used."""

    def __init__(self, size: Callable[[Any], int]) -> None:
        self._size, self._bytes = size, 0
        self._values: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Return a value; compute it if it is missing."""
        if name not in self._values:
            self._values[name] = make()
            self._bytes += self._size(self._values[name])
        self._values.move_to_end(name)
        while self._bytes > _MOST_BYTES and len(self._values) > 1:
            self._bytes -= self._size(self._values.popitem(last=False)[1])
        return self._values[name]


# Tokens before the first one that an intervention changes take their keys and values from one
# unchanged pass. The unchanged answer is read under the intervention in one pass and regenerated
# from the first token at which the model would choose another one. The answers equal those of
# `answer_all` except for ties, since sums over many tokens differ in their last bits.
#
# Source: speculative decoding (Leviathan et al. 2023, arXiv 2211.17192).
class AnswerSweep:
    """Answers to the same prompts under successive interventions, at temperature 0."""

    def __init__(
        self, network: Network, samples: Sequence[Sample], bases: Sequence[ModelAnswer]
    ) -> None:
        self.bases = bases
        self.limit = LONGER * max((len(base.tokens) for base in self.bases), default=1)
        self._network = network
        self._prompts = [sample.prompt for sample in samples]
        self._caches = SizedCache(
            lambda cache: sum(int(k.keys.nbytes + k.values.nbytes) for k in cache.layers)
        )

    def answers(
        self, changes: Mapping[int, Intervention], *, tokens: int | None = None
    ) -> dict[int, ModelAnswer]:
        """Answer the prompts with some numbers, each under its own intervention."""
        most, to_read = self.limit if tokens is None else tokens, {}
        for number, change in changes.items():
            length = len(self._prompts[number])
            answer = len(self.bases[number].tokens)
            to_read[number] = length + answer - change.first_place(length)
        # The rows of a batch are read from the same column on, the first changed one.
        return _in_batches(
            to_read, lambda batch: self._batch(batch, [changes[n] for n in batch], most)
        )

    def _batch(self, numbers: list[int], changes: Changes, tokens: int) -> list[ModelAnswer]:
        local, prompts = self._network.local, [self._prompts[number] for number in numbers]
        guesses = [self.bases[number].tokens[:tokens] for number in numbers]
        begun, unfinished = [], []
        for row, likeliest in enumerate(self._likeliest(prompts, changes, guesses)):
            prompt, guess = prompts[row], guesses[row]
            pairs = enumerate(zip(guess, likeliest, strict=True))
            other = next((place for place, (a, b) in pairs if a != b), len(guess) - 1)
            begun.append((*guess[:other], likeliest[other]))
            room = min(tokens, (local.context or len(prompt) + tokens) - len(prompt))
            if not local.ended(begun[row]) and len(begun[row]) < room:
                unfinished.append(row)
        if unfinished:
            greedy = Sampling(0, temperature=0.0)
            queries = [
                local.prompt(prompts[row] + begun[row], tokens - len(begun[row]), greedy)
                for row in unfinished
            ]
            lengths, written = ([len(each[row]) for row in unfinished] for each in (prompts, begun))
            with applied(self._network, [changes[row] for row in unfinished], lengths, written):
                replies = local.answers(queries, fixed=True)
            for row, reply in zip(unfinished, replies, strict=True):
                begun[row] += reply.ids
        return [ModelAnswer.of(self._network, ids) for ids in begun]

    def _likeliest(self, prompts: Ids, changes: Changes, guesses: Ids) -> list[list[int]]:
        """Return the likeliest token at each place of the guesses, given the guess before it."""
        import torch

        model = self._network.local.model
        rows = [prompt + guess for prompt, guess in zip(prompts, guesses, strict=True)]
        inputs = padded(rows, model.device, left=True)
        lengths, begun = list(map(len, prompts)), list(map(len, guesses))
        gaps = [inputs["input_ids"].shape[1] - len(row) for row in rows]
        # The last token of a prompt predicts the first of the answer, so it is always read again.
        first = min(
            gap + min(change.first_place(length), length - 1)
            for gap, change, length in zip(gaps, changes, lengths, strict=True)
        )
        cache = self._joint_cache(prompts, gaps, first)
        with applied(self._network, changes, lengths, begun), torch.inference_mode():
            logits = model(
                input_ids=inputs["input_ids"][:, first:],
                attention_mask=inputs["attention_mask"],
                position_ids=inputs["position_ids"][:, first:],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=max(begun) + 1,
            ).logits
        likeliest = logits.argmax(dim=-1).tolist()
        return [row[-1 - count : -1] for row, count in zip(likeliest, begun, strict=True)]

    def _joint_cache(self, prompts: Ids, gaps: Sequence[int], columns: int) -> Any:
        """Return keys and values of the first columns of a batch from unchanged passes."""
        import torch
        from transformers import DynamicCache

        model = self._network.local.model

        def unchanged(ids: tuple[int, ...]) -> Any:
            own_cache, rows = DynamicCache(), torch.tensor([ids], device=model.device)
            with torch.inference_mode():
                model.base_model(input_ids=rows, past_key_values=own_cache, use_cache=True)
            return own_cache

        # A cache without the model's config stores every key; masks exclude distant ones.
        cache = DynamicCache()
        if columns == 0:
            return cache
        passes = [self._caches.get(ids, partial(unchanged, ids)).layers for ids in prompts]
        for layer in range(len(self._network.blocks)):
            joined = []
            for kind in ("keys", "values"):
                parts = [getattr(each[layer], kind)[0] for each in passes]
                heads, _, size = parts[0].shape
                out = parts[0].new_zeros(len(parts), heads, columns, size)
                for row, (gap, one) in enumerate(zip(gaps, parts, strict=True)):
                    if columns > gap:
                        out[row, :, gap:] = one[:, : columns - gap]
                joined.append(out)
            cache.update(*joined, layer)
        return cache


# The effect of an intervention on sampled answers is the Jensen-Shannon divergence of the outcomes
# (four moves, and invalid answers) with and without it,
#
#     JSD(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2,
#
# 0 for equal distributions and log 2 for disjoint ones. Estimates from few answers are biased
# upwards, so the mean over all relabellings of the pooled answers is subtracted. That mean is
# exact: relabelling preserves pooled shares, and the number of an outcome's answers on one side is
# hypergeometric.
#
# Source: Lin (1991), Divergence measures based on the Shannon entropy; relabelling as in a
# permutation test (Fisher 1935).


def divergence(first: IntArray, second: IntArray) -> tuple[float, float]:
    """Return the divergence of counts of equal total in nats, and its mean over relabellings."""
    draws = int(first.sum())
    pooled = first + second
    observed = log(2) * float(jensen_shannon(first / draws, second / draws))
    middle = sum(float(xlogy(share, share)) for share in (pooled / (2 * draws)).tolist())
    mean = sum(_mean_x_log_x(count, draws) for count in pooled.tolist()) - middle
    return observed, mean


def effect_in_nats(
    changed: Sequence[IntArray], unchanged: Sequence[IntArray], grids: Sequence[str]
) -> Estimate:
    """Estimate the mean divergence of counts of outcomes [5] over decisions, corrected for bias."""
    pairs = [divergence(*pair) for pair in zip(changed, unchanged, strict=True)]
    # Divergences are at least 0, so corrected ones are at least minus the largest correction.
    least = -max((mean for _, mean in pairs), default=0.0)
    return mean_over_grids([a - mean for a, mean in pairs], grids, bounds=(least, log(2)))


@lru_cache(maxsize=4096)
def _mean_x_log_x(count: int, draws: int) -> float:
    """Return the mean of x log x for the share x of `count` pooled answers on one side."""
    sizes = np.arange(max(0, count - draws), min(count, draws) + 1)
    ways = [comb(count, k) * comb(2 * draws - count, draws - k) for k in sizes.tolist()]
    weights, shares = np.array(ways, dtype=float), sizes / draws
    return float(weights @ xlogy(shares, shares) / weights.sum())
