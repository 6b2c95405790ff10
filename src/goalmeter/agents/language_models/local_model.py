"""A transformers model in a folder of this machine: prompts in, answers out, a batch at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidFileError, InvalidParameterError, require
from goalmeter._transformers import generating_in_batches, loaded, loaded_tokenizer
from goalmeter.agents.language_models.sampling import Chosen, Sampling, SeededSampling

if TYPE_CHECKING:
    import torch

_FEATURE = "Running a language model on this machine"
# A model whose tokenizer has this token writes in channels, whose markers are part of its answer.
CHANNEL = "<|channel|>"


class ContextOverflowError(InvalidParameterError):
    """A prompt is longer than the model's context, or leaves no room for an answer."""


@dataclass(frozen=True)
class Prompt:
    """What is asked: ids of tokens, how many may be answered, and how they are chosen."""

    ids: tuple[int, ...]
    tokens: int
    sampling: Sampling


@dataclass(frozen=True)
class Reply:
    """What was answered.

    Attributes:
        text: with the markers of channels, without other special tokens.
        ids: of every token, the one that ended the answer included.
        ended: whether the model ended it; False if it was cut.
        chosen: every token with its log-probability, if that was asked for.
    """

    text: str
    ids: tuple[int, ...]
    ended: bool
    chosen: tuple[Chosen, ...]


class LocalModel:
    """A causal language model and its tokenizer.

    A checkpoint in MXFP4 (gpt-oss) is expanded by transformers where the hardware has no kernels
    for it.

    Args:
        folder: as `save_pretrained` writes it. Nothing is downloaded.
        device: where it runs; None for the first accelerator, or else the processor.
        dtype: of the weights, such as "bfloat16"; "auto" for that of the checkpoint.
    """

    def __init__(
        self, folder: str | Path, *, device: str | None = None, dtype: str = "auto"
    ) -> None:
        torch = require("torch", extra="lm", feature=_FEATURE)
        transformers = require("transformers", extra="lm", feature=_FEATURE)
        path = Path(folder)
        if not (path / "config.json").is_file():
            raise InvalidFileError(
                f"{path} is not the folder of a transformers model: it has no config.json"
            )
        self.tokenizer: Any = loaded_tokenizer(path, feature=_FEATURE)
        self.model: Any = loaded("AutoModelForCausalLM", path, feature=_FEATURE, dtype=dtype)
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model.to(device).eval()
        defaults = self.model.generation_config
        eos = (
            defaults.eos_token_id
            if defaults.eos_token_id is not None
            else self.tokenizer.eos_token_id
        )
        self._ends = frozenset(eos if isinstance(eos, list | tuple) else [eos]) - {None}
        if not self._ends:
            raise InvalidFileError(f"the model in {path} has no token that ends an answer")
        pad = self.tokenizer.pad_token_id
        self._pad = min(self._ends) if pad is None else pad
        # What else the checkpoint recommends is left out: each request says how it samples.
        self.model.generation_config = transformers.GenerationConfig(
            eos_token_id=sorted(self._ends),
            pad_token_id=self._pad,
            bos_token_id=defaults.bos_token_id,
        )
        self._in_channels = CHANNEL in self.tokenizer.get_vocab()

    @property
    def context(self) -> int | None:
        """How many tokens a prompt and its answer can have together, if the model says."""
        longest = getattr(self.model.config, "max_position_embeddings", None)
        return None if longest is None else int(longest)

    def ids(self, messages: Sequence[Mapping[str, str]], **template: Any) -> tuple[int, ...]:
        """The tokens of a conversation, up to where the answer begins.

        Args:
            messages: {"role": ..., "content": ...}, the oldest first.
            template: for the tokenizer's chat template, such as reasoning_effort="low". Without a
                chat template the contents follow each other, with a blank line in between.
        """
        if self.tokenizer.chat_template is None:
            text = "\n\n".join(message["content"] for message in messages) + "\n\n"
            return tuple(self.tokenizer(text)["input_ids"])
        encoded = self.tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, return_dict=True, **template
        )
        return tuple(encoded["input_ids"])

    def prompt(self, ids: Sequence[int], tokens: int, sampling: Sampling) -> Prompt:
        """A request that the model can take: the answer is cut where its context ends."""
        room = tokens if self.context is None else min(tokens, self.context - len(ids))
        if room < 1:
            raise ContextOverflowError(
                f"the prompt has {len(ids)} tokens, which leave no room for an answer of up to "
                f"{tokens} in the model's context of {self.context}"
            )
        return Prompt(tuple(ids), room, sampling)

    def answers(self, prompts: Sequence[Prompt]) -> list[Reply]:
        """Answer some prompts at once."""
        import torch

        transformers: Any = require("transformers", extra="lm", feature=_FEATURE)
        # Filled up on the left, so that all answers begin in the same column.
        longest = max(len(prompt.ids) for prompt in prompts)
        gaps = [longest - len(prompt.ids) for prompt in prompts]
        device = self.model.device
        ids = torch.tensor(
            [[self._pad] * g + list(p.ids) for g, p in zip(gaps, prompts, strict=True)],
            device=device,
        )
        mask = torch.tensor([[0] * g + [1] * (longest - g) for g in gaps], device=device)
        sampling = SeededSampling([prompt.sampling for prompt in prompts])
        limits = torch.tensor([longest + prompt.tokens for prompt in prompts], device=device)

        def at_its_limit(sequences: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
            return limits <= sequences.shape[1]

        # Likeliest tokens only: `SeededSampling` has left one token standing in each row.
        with torch.inference_mode(), generating_in_batches():
            out = self.model.generate(
                input_ids=ids,
                attention_mask=mask,
                generation_config=transformers.GenerationConfig(
                    do_sample=False, max_new_tokens=max(prompt.tokens for prompt in prompts)
                ),
                logits_processor=transformers.LogitsProcessorList([sampling]),
                stopping_criteria=transformers.StoppingCriteriaList([at_its_limit]),
            )
        rows = out[:, longest:].tolist()
        return [
            self._reply(row[: prompt.tokens], chosen)
            for row, prompt, chosen in zip(rows, prompts, sampling.chosen, strict=True)
        ]

    def ended(self, ids: Sequence[int]) -> bool:
        """Whether the tokens of an answer end with one that ends it."""
        return bool(ids) and ids[-1] in self._ends

    def text(self, ids: Sequence[int]) -> str:
        """What an answer reads: with the markers of channels, without other special tokens."""
        # The marker that ends an answer in channels is part of their format.
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=not self._in_channels))

    def text_of(self, token: int) -> str:
        """What a single token reads."""
        return str(self.tokenizer.decode([token]))

    def _reply(self, row: list[int], chosen: list[Chosen]) -> Reply:
        end = next((n for n, token in enumerate(row) if token in self._ends), None)
        ids = row if end is None else row[: end + 1]
        return Reply(self.text(ids), tuple(ids), end is not None, tuple(chosen[: len(ids)]))
