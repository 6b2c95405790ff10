"""Many interventions on the same prompts: what they leave as it is is read once.

Two things are shared. Tokens before the first one that an intervention touches are read as they are
without it, so their keys and values come from one unchanged pass. And an answer under an
intervention is mostly the unchanged answer, for some words or to its end. So the unchanged answer
is read under the intervention in one pass, and only from the first token that the model would have
chosen otherwise on is it written anew. The answer is that of `answer_all`, token for token, but for
ties: sums over many tokens at once differ in their last bits from sums over one.

Source: reading a guess in one pass and keeping what the model would have written is speculative
decoding (Leviathan et al. 2023, arXiv 2211.17192) with the unchanged answer as the guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from goalmeter.agents.language_models.sampling import Sampling
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.answering import BATCH, Answered, answer_all, answered
from goalmeter.representation.use.interventions import Intervention, applied
from goalmeter.representation.use.kept import Kept
from goalmeter.representation.use.passes import filled


class Sweep:
    """Some prompts and their unchanged answers, asked again under one intervention after another.

    Args:
        network: the model.
        samples: whose prompts are asked, at temperature 0.
        tokens: of an answer at most, its reasoning included.
        bases: the unchanged answers, where they are known; None to ask for them.

    Attributes:
        bases: the unchanged answers.

    Raises:
        ContextOverflowError: a prompt leaves no room for an answer.
    """

    def __init__(
        self,
        network: Network,
        samples: Sequence[Sample],
        *,
        tokens: int = 512,
        bases: Sequence[Answered] | None = None,
    ) -> None:
        self.bases = answer_all(network, samples, tokens=tokens) if bases is None else list(bases)
        self._network = network
        self._prompts = [sample.prompt for sample in samples]
        self._read: Kept[Any] = Kept(_bytes)

    def answers(
        self, numbers: Sequence[int], changes: Sequence[Intervention], *, tokens: int = 512
    ) -> list[Answered]:
        """Ask some of the prompts again, each under its own intervention.

        Args:
            numbers: of the samples; one may come several times.
            changes: one for each.
            tokens: of an answer at most.

        Returns:
            The answers, in the order of the numbers.

        Raises:
            InvalidParameterError: a layer or a token does not exist.
        """
        out: dict[int, Answered] = {}

        def behind(row: int) -> int:
            """How many tokens are read from the first changed one on."""
            prompt = self._prompts[numbers[row]]
            guess = len(self.bases[numbers[row]].tokens)
            return len(prompt) + guess - changes[row].first_place(len(prompt))

        # Rows of a batch are read from a common column on.
        order = sorted(range(len(numbers)), key=behind)
        for begin in range(0, len(order), BATCH):
            rows = order[begin : begin + BATCH]
            kept = self._agreed(
                [numbers[row] for row in rows], [changes[row] for row in rows], tokens
            )
            out |= dict(zip(rows, kept, strict=True))
        return [out[row] for row in range(len(numbers))]

    def _agreed(
        self, numbers: Sequence[int], changes: Sequence[Intervention], tokens: int
    ) -> list[Answered]:
        guesses = [self.bases[number].tokens[:tokens] for number in numbers]
        chosen = self._chosen(numbers, changes, guesses)
        begun = []
        for guess, ours in zip(guesses, chosen, strict=True):
            pairs = enumerate(zip(guess, ours, strict=True))
            other = next((place for place, (a, b) in pairs if a != b), len(guess) - 1)
            begun.append((*guess[:other], ours[other]))
        local = self._network.local
        left = [
            row
            for row, ids in enumerate(begun)
            if not local.ended(ids) and len(ids) < self._room(numbers[row], tokens)
        ]
        if left:
            prompts = [
                local.prompt(
                    self._prompts[numbers[row]] + begun[row],
                    tokens - len(begun[row]),
                    Sampling(0, temperature=0.0),
                )
                for row in left
            ]
            with applied(
                self._network,
                [changes[row] for row in left],
                [len(self._prompts[numbers[row]]) for row in left],
                [len(begun[row]) for row in left],
            ):
                replies = local.answers(prompts)
            for row, reply in zip(left, replies, strict=True):
                begun[row] += reply.ids
        return [answered(self._network, ids) for ids in begun]

    def _room(self, number: int, tokens: int) -> int:
        context = self._network.local.context
        return tokens if context is None else min(tokens, context - len(self._prompts[number]))

    def _chosen(
        self,
        numbers: Sequence[int],
        changes: Sequence[Intervention],
        guesses: Sequence[tuple[int, ...]],
    ) -> list[list[int]]:
        """The likeliest token at each place of the guesses, given the guess before it."""
        import torch

        model = self._network.local.model
        prompts = [self._prompts[number] for number in numbers]
        rows = [prompt + guess for prompt, guess in zip(prompts, guesses, strict=True)]
        longest = max(map(len, rows))
        gaps = [longest - len(row) for row in rows]
        inputs = filled(rows, model.device)
        # The last token of a prompt writes the first of the answer, so it is read again.
        first = min(
            gap + min(change.first_place(len(prompt)), len(prompt) - 1)
            for gap, change, prompt in zip(gaps, changes, prompts, strict=True)
        )
        cache = self._cache(numbers, gaps, first)
        with (
            applied(
                self._network,
                changes,
                [len(prompt) for prompt in prompts],
                [len(guess) for guess in guesses],
            ),
            torch.inference_mode(),
        ):
            logits = model(
                input_ids=inputs["input_ids"][:, first:],
                attention_mask=inputs["attention_mask"],
                position_ids=inputs["position_ids"][:, first:],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=max(map(len, guesses)) + 1,
            ).logits
        likeliest = logits.argmax(dim=-1).tolist()
        return [row[-1 - len(guess) : -1] for row, guess in zip(likeliest, guesses, strict=True)]

    def _cache(self, numbers: Sequence[int], gaps: Sequence[int], columns: int) -> Any:
        """The keys and values of the first columns of a batch, from unchanged passes."""
        from transformers import DynamicCache

        # Not told of sliding windows, so that it keeps every key; masks close what is too far.
        cache = DynamicCache()
        if columns == 0:
            return cache
        passes = [self._kept(number).layers for number in numbers]
        for layer in range(len(self._network.blocks)):
            joined = []
            for kind in ("keys", "values"):
                read = [getattr(each[layer], kind)[0] for each in passes]
                out = read[0].new_zeros(len(read), read[0].shape[0], columns, read[0].shape[2])
                for row, (gap, one) in enumerate(zip(gaps, read, strict=True)):
                    if columns > gap:
                        out[row, :, gap:] = one[:, : columns - gap]
                joined.append(out)
            cache.update(joined[0], joined[1], layer)
        return cache

    def _kept(self, number: int) -> Any:
        """The keys and values of a prompt, read once."""
        import torch
        from transformers import DynamicCache

        def read() -> Any:
            cache = DynamicCache()
            ids = torch.tensor([self._prompts[number]], device=self._network.local.model.device)
            with torch.inference_mode():
                self._network.local.model.base_model(
                    input_ids=ids, past_key_values=cache, use_cache=True
                )
            return cache

        return self._read.get(number, read)


def _bytes(cache: Any) -> int:
    return sum(int(layer.keys.nbytes + layer.values.nbytes) for layer in cache.layers)
