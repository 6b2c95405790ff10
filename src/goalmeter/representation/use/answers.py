"""Collect a model's answers under interventions, and the effect on the next action."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache, partial
from math import comb, log
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy

from goalmeter._types import IntArray
from goalmeter.agents.local_models import Sampling
from goalmeter.navigation.prompts import understood
from goalmeter.representation.network import Network, padded
from goalmeter.representation.replay import Sample
from goalmeter.representation.scenes import mean_over_grids
from goalmeter.representation.use.interventions import Intervention, applied
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.discrimination import jensen_shannon

BATCH = 48
# An answer under an intervention may be this many times as long as the longest without one; a
# longer search does not end, which is an invalid answer.
LONGER = 2
UNCHANGED = Intervention()
Changes = Sequence[Intervention]
Ids = Sequence[tuple[int, ...]]  # tokens of some rows


class ModelAnswer(NamedTuple):
    """An answer: the action 0 to 3, or None with the reason why it is invalid, and its tokens."""

    action: int | None
    invalid: str
    tokens: tuple[int, ...]

    @classmethod
    def of(cls, network: Network, ids: Sequence[int]) -> ModelAnswer:
        """Understand the tokens of an answer."""
        read = understood(network.local.text(ids))
        return cls(read.action, read.invalid, tuple(ids))


def answer_all(
    network: Network,
    samples: Sequence[Sample],
    interventions: Sequence[Intervention] | None = None,
    *,
    tokens: int = 512,
    temperature: float = 0.0,
    seed: int = 0,
) -> list[ModelAnswer]:
    """Answer the prompts of some decisions again, each under its own intervention.

    An answer of at most `tokens` tokens depends on the seed and the sample's number only.
    """
    local = network.local

    def answers(batch: list[int]) -> list[ModelAnswer]:
        prompts = [
            local.prompt(samples[n].prompt, tokens, Sampling(seed + n, temperature=temperature))
            for n in batch
        ]
        changes = [interventions[n] if interventions else UNCHANGED for n in batch]
        with applied(network, changes, [len(prompt.ids) for prompt in prompts]):
            return [ModelAnswer.of(network, reply.ids) for reply in local.answers(prompts)]

    # Prompts of similar length share a batch, since padding costs as much as words.
    sizes = {number: len(sample.prompt) for number, sample in enumerate(samples)}
    return list(_in_batches(sizes, answers).values())


def _in_batches(
    sizes: Mapping[int, int], answers: Callable[[list[int]], list[ModelAnswer]]
) -> dict[int, ModelAnswer]:
    """Answers by number, made in batches of similar size."""
    order = sorted(sizes, key=lambda number: sizes[number])
    out: dict[int, ModelAnswer] = {}
    for begin in range(0, len(order), BATCH):
        batch = order[begin : begin + BATCH]
        out |= dict(zip(batch, answers(batch), strict=True))
    return {number: out[number] for number in sizes}


_MOST_BYTES = 2 << 30


class SizedCache:
    """Values by name; the least recently used ones are dropped beyond a number of bytes."""

    def __init__(self, size: Callable[[Any], int]) -> None:
        self._size, self._bytes = size, 0
        self._values: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """Return a value, made if it is not there."""
        if name not in self._values:
            self._values[name] = make()
            self._bytes += self._size(self._values[name])
        self._values.move_to_end(name)
        while self._bytes > _MOST_BYTES and len(self._values) > 1:
            self._bytes -= self._size(self._values.popitem(last=False)[1])
        return self._values[name]


# Tokens before the first one that an intervention touches take their keys and values from one
# unchanged pass. The unchanged answer is then read under the intervention in one pass, and written
# anew only from the first token on that the model would have chosen otherwise. The answers are
# those of `answer_all` except for ties: sums over many tokens at once differ in their last bits.
#
# Source: speculative decoding (Leviathan et al. 2023, arXiv 2211.17192) with the unchanged answer
# as the draft.
class AnswerSweep:
    """Answers to the same prompts under one intervention after another, at temperature 0."""

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
        # The rows of a batch are read from a common column on, the first changed one.
        return _in_batches(
            to_read, lambda batch: self._batch(batch, [changes[n] for n in batch], most)
        )

    def _batch(self, numbers: list[int], changes: Changes, tokens: int) -> list[ModelAnswer]:
        local, prompts = self._network.local, [self._prompts[number] for number in numbers]
        guesses = [self.bases[number].tokens[:tokens] for number in numbers]
        begun, left = [], []
        for row, ours in enumerate(self._likeliest(prompts, changes, guesses)):
            prompt, guess = prompts[row], guesses[row]
            pairs = enumerate(zip(guess, ours, strict=True))
            other = next((place for place, (a, b) in pairs if a != b), len(guess) - 1)
            begun.append((*guess[:other], ours[other]))
            room = min(tokens, (local.context or len(prompt) + tokens) - len(prompt))
            if not local.ended(begun[row]) and len(begun[row]) < room:
                left.append(row)
        if left:
            greedy = Sampling(0, temperature=0.0)
            asked = [
                local.prompt(prompts[row] + begun[row], tokens - len(begun[row]), greedy)
                for row in left
            ]
            lengths, written = ([len(each[row]) for row in left] for each in (prompts, begun))
            with applied(self._network, [changes[row] for row in left], lengths, written):
                replies = local.answers(asked)
            for row, reply in zip(left, replies, strict=True):
                begun[row] += reply.ids
        return [ModelAnswer.of(self._network, ids) for ids in begun]

    def _likeliest(self, prompts: Ids, changes: Changes, guesses: Ids) -> list[list[int]]:
        """The likeliest token at each place of the guesses, given the guess before it."""
        import torch

        model = self._network.local.model
        rows = [prompt + guess for prompt, guess in zip(prompts, guesses, strict=True)]
        inputs = padded(rows, model.device, left=True)
        lengths, begun = list(map(len, prompts)), list(map(len, guesses))
        gaps = [inputs["input_ids"].shape[1] - len(row) for row in rows]
        # The last token of a prompt writes the first of the answer, so it is always read again.
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
        """The keys and values of the first columns of a batch, from unchanged passes."""
        import torch
        from transformers import DynamicCache

        model = self._network.local.model

        def unchanged(ids: tuple[int, ...]) -> Any:
            read, rows = DynamicCache(), torch.tensor([ids], device=model.device)
            with torch.inference_mode():
                model.base_model(input_ids=rows, past_key_values=read, use_cache=True)
            return read

        # Without the model's config, so that it keeps every key; masks close what is too far.
        cache = DynamicCache()
        if columns == 0:
            return cache
        passes = [self._caches.get(ids, partial(unchanged, ids)).layers for ids in prompts]
        for layer in range(len(self._network.blocks)):
            joined = []
            for kind in ("keys", "values"):
                read = [getattr(each[layer], kind)[0] for each in passes]
                out = read[0].new_zeros(len(read), read[0].shape[0], columns, read[0].shape[2])
                for row, (gap, one) in enumerate(zip(gaps, read, strict=True)):
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
# 0 for equal distributions and log 2 for disjoint ones. From few answers it is biased upwards, so
# its mean over all relabellings of the pooled answers is subtracted. That mean is exact: pooled
# shares are the same under each, and the number of an outcome's answers on one side is
# hypergeometric.
#
# Source: Lin (1991), Divergence measures based on the Shannon entropy; relabelling as in a
# permutation test (Fisher 1935).


def divergence(first: IntArray, second: IntArray) -> tuple[float, float]:
    """Return the divergence of equally many answers in nats, and its mean over all relabellings."""
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
    # No divergence is negative, so none minus its correction lies below the largest one.
    least = -max((mean for _, mean in pairs), default=0.0)
    return mean_over_grids([a - mean for a, mean in pairs], grids, bounds=(least, log(2)))


@lru_cache(maxsize=4096)
def _mean_x_log_x(count: int, draws: int) -> float:
    """The mean of x log x, x the share of `count` pooled answers that fall to one side."""
    sizes = np.arange(max(0, count - draws), min(count, draws) + 1)
    ways = [comb(count, k) * comb(2 * draws - count, draws - k) for k in sizes.tolist()]
    weights, shares = np.array(ways, dtype=float), sizes / draws
    return float(weights @ xlogy(shares, shares) / weights.sum())
