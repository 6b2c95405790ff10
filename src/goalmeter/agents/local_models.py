"""Language models as agents: names, local transformers models, and seeded batch sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from goalmeter._errors import InvalidFileError, InvalidParameterError, require
from goalmeter._files import generating_in_batches, loaded
from goalmeter._names import nearest
from goalmeter.agents.abilities import Ability, NamedAgent, call_of
from goalmeter.agents.grid_agents import (
    NAVIGATORS,
    Memoryless,
    WallFollower,
    navigator,
    navigator_names,
)
from goalmeter.organisms import organism, organism_names

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of one sequence.

    The sampling of transformers draws from one generator for a whole batch, so an answer would
    depend on the other requests of the batch. Here each sequence draws one number per token from
    its own seed. Other requests affect rounding only: the last bits of sums depend on the batch.
    """

    seed: int | None = None  # random seed; None for an unknown one
    temperature: float = 1.0  # 0 selects the likeliest token
    top_p: float = 1.0  # probability mass of the likeliest tokens to sample from
    top_k: int | None = None  # number of the likeliest tokens to sample from; None for all
    alternatives: int | None = None  # likeliest tokens to record per token; None records nothing

    def __post_init__(self) -> None:
        valid = {
            "temperature": 0 <= self.temperature < float("inf"),
            "top_p": 0 < self.top_p <= 1,
            "top_k": self.top_k is None or self.top_k >= 1,
            "alternatives": self.alternatives is None or self.alternatives >= 0,
        }
        for name, is_valid in valid.items():
            if not is_valid:
                raise InvalidParameterError(f"{name} is {getattr(self, name)!r}, out of range")


class Chosen(NamedTuple):
    """Sampled token, with log-probabilities of the full distribution at temperature 1."""

    token: int
    logprob: float
    alternatives: tuple[tuple[int, float], ...]


class SeededSampling:
    """Logits processor that leaves one token per sequence, so that greedy decoding samples."""

    def __init__(self, samplings: Sequence[Sampling]) -> None:
        self._samplings = samplings
        self._draws = [
            Random() if s.seed is None else Random(f"tokens:{s.seed}") for s in samplings
        ]
        self.chosen: list[list[Chosen]] = [[] for _ in samplings]  # records of each sequence
        self._records = self.chosen  # those of the rows that are left

    def select(self, rows: Sequence[int]) -> None:
        """Continue with these rows only."""
        self._samplings = [self._samplings[row] for row in rows]
        self._draws = [self._draws[row] for row in rows]
        self._records = [self._records[row] for row in rows]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores [sequences, tokens] with one token left in each row."""
        import torch

        logits = scores.float()
        tokens = self._sample(logits)
        if any(s.alternatives is not None for s in self._samplings):
            self._record(logits, tokens)
        return torch.full_like(scores, -torch.inf).scatter_(1, tokens[:, None], 0.0)

    def _sample(self, logits: torch.Tensor) -> torch.Tensor:
        import torch

        def column(values: list[float]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.float32, device=logits.device)[:, None]

        uniform = column([draws.random() for draws in self._draws])
        likeliest = logits.argmax(dim=1)
        if all(s.temperature == 0 for s in self._samplings):
            return likeliest
        temperature = column([s.temperature or 1.0 for s in self._samplings])
        ordered, tokens = (logits / temperature).sort(dim=1, descending=True, stable=True)
        weights = ordered.softmax(dim=1)
        before = weights.cumsum(dim=1) - weights
        size = logits.shape[1]
        rank = torch.arange(size, device=logits.device)[None, :]
        mask = before < column([s.top_p for s in self._samplings])
        mask &= rank < column([float(s.top_k or size) for s in self._samplings])
        mask[:, 0] = True  # the likeliest token is always included, in spite of rounding
        ends = (weights * mask).cumsum(dim=1)
        # The search is limited to masked tokens, so that rounding cannot lead beyond them.
        place = ((ends <= uniform * ends[:, -1:]) & mask).sum(dim=1, keepdim=True)
        place = torch.minimum(place, mask.sum(dim=1, keepdim=True) - 1)
        sampled = tokens.gather(1, place)[:, 0]
        is_greedy = column([s.temperature for s in self._samplings])[:, 0] == 0
        return torch.where(is_greedy, likeliest, sampled)

    def _record(self, logits: torch.Tensor, sampled: torch.Tensor) -> None:
        most = max(s.alternatives or 0 for s in self._samplings)
        logprobs = logits.log_softmax(dim=1)
        sampled_logprobs = logprobs.gather(1, sampled[:, None])[:, 0].tolist()
        top = logprobs.topk(min(most, logits.shape[1]), dim=1)
        values, tokens, ids = top.values.tolist(), top.indices.tolist(), sampled.tolist()
        for row, sampling in enumerate(self._samplings):
            if sampling.alternatives is not None:
                n = sampling.alternatives
                pairs = tuple(zip(tokens[row][:n], values[row][:n], strict=True))
                self._records[row].append(Chosen(ids[row], sampled_logprobs[row], pairs))


_FEATURE = "Running a language model on this machine"
# Models with this token write in channels, whose markers are part of the answer.
CHANNEL = "<|channel|>"


class ContextOverflowError(InvalidParameterError):
    """A prompt is longer than the model's context, or leaves no room for an answer."""


class EmptyReplyError(Exception):
    """A server replied without an answer; an empty text is an answer."""


def is_unusable_reply(error: BaseException) -> bool:
    """Return whether a reply has no content or is not the JSON of an answer."""
    invalid = ("JSONDecodeError", "APIResponseValidationError")
    return isinstance(error, EmptyReplyError) or type(error).__name__ in invalid


class Prompt(NamedTuple):
    """Request: token ids, maximum number of output tokens, and sampling settings."""

    ids: tuple[int, ...]
    tokens: int
    sampling: Sampling


@dataclass(frozen=True)
class Reply:
    """Answer of a local model."""

    text: str
    ids: tuple[int, ...]  # ids of all tokens, including the end token
    ended: bool  # False if the answer was truncated
    chosen: tuple[Chosen, ...]  # log-probabilities, if requested


# Decoding steps before the sequences that have ended leave a batch, and places by which the space
# for keys and values grows.
_STEPS, _SPACE = 16, 64


def _growing_cache(config: Any) -> Any:
    """Return a cache that appends in place; that of transformers copies all states at each step."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    class GrowingLayer(DynamicLayer):  # type: ignore[no-untyped-call]
        """Layer whose keys and values are the used part of larger tensors."""

        spaces: tuple[torch.Tensor, ...] = ()
        used: torch.Tensor | None = None  # the keys in `spaces`

        def update(
            self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
        ) -> tuple[torch.Tensor, torch.Tensor]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            start, states = self.get_seq_length(), (key_states, value_states)
            end = start + key_states.shape[-2]
            # Rows that were selected are not in the larger tensors.
            if self.used is not self.keys or end > self.spaces[0].shape[-2]:
                before: Any = (self.keys, self.values)
                self.spaces = tuple(
                    new.new_empty((*new.shape[:-2], end + _SPACE, new.shape[-1])) for new in states
                )
                for space, old in zip(self.spaces, before, strict=True):
                    if start:
                        space[..., :start, :] = old
            for space, new in zip(self.spaces, states, strict=True):
                space[..., start:end, :] = new
            keys, values = (space[..., :end, :] for space in self.spaces)
            self.keys, self.values, self.used = keys, values, keys
            return keys, values

    cache = DynamicCache(config=config)
    # Layers of other kinds, such as those with a window, are kept.
    grown: Any = GrowingLayer
    cache.layers = [grown() if type(each) is DynamicLayer else each for each in cache.layers]
    return cache


class LocalModel:
    """A causal language model and its tokenizer.

    They are loaded from a folder written by `save_pretrained`; nothing is downloaded. Defaults are
    the first GPU, if any, else the CPU, and the checkpoint's `dtype`; MXFP4 weights (gpt-oss) are
    expanded by transformers if the hardware does not support them.
    """

    def __init__(
        self, folder: str | Path, *, device: str | None = None, dtype: str = "auto"
    ) -> None:
        torch = require("torch", extra="lm", feature=_FEATURE)
        transformers = require("transformers", extra="lm", feature=_FEATURE)
        path = Path(folder)
        if not (path / "config.json").is_file():
            raise InvalidFileError(
                f"{path} is not the folder of a transformers model; it has no config.json"
            )
        self.tokenizer: Any = loaded("AutoTokenizer", path, feature=_FEATURE)
        self.model: Any = loaded("AutoModelForCausalLM", path, feature=_FEATURE, dtype=dtype)
        if device is None:
            device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model.to(device).eval()
        defaults = self.model.generation_config
        eos = defaults.eos_token_id
        if eos is None:
            eos = self.tokenizer.eos_token_id
        self._ends = frozenset(eos if isinstance(eos, list | tuple) else [eos]) - {None}
        if not self._ends:
            raise InvalidFileError(f"the model in {path} has no end-of-sequence token")
        pad = self.tokenizer.pad_token_id
        self._pad = min(self._ends) if pad is None else pad
        # Other defaults of the checkpoint are ignored; each request has its sampling settings.
        self.model.generation_config = transformers.GenerationConfig(
            eos_token_id=sorted(self._ends),
            pad_token_id=self._pad,
            bos_token_id=defaults.bos_token_id,
        )
        self._in_channels = CHANNEL in self.tokenizer.get_vocab()

    @property
    def context(self) -> int | None:
        """Maximum number of tokens of a prompt and its answer together; None if unknown."""
        longest = getattr(self.model.config, "max_position_embeddings", None)
        return None if longest is None else int(longest)

    def ids(self, messages: Sequence[Mapping[str, str]], **template: Any) -> tuple[int, ...]:
        """Return the tokens of a conversation, up to the beginning of the answer."""
        if self.tokenizer.chat_template is None:
            text = "\n\n".join(message["content"] for message in messages) + "\n\n"
            return tuple(self.tokenizer(text)["input_ids"])
        encoded = self.tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, return_dict=True, **template
        )
        return tuple(encoded["input_ids"])

    def prompt(self, ids: Sequence[int], tokens: int, sampling: Sampling) -> Prompt:
        """Return a request whose output is limited to the model's context."""
        room = tokens if self.context is None else min(tokens, self.context - len(ids))
        if room < 1:
            raise ContextOverflowError(
                f"the prompt has {len(ids)} tokens, which leaves no room for an answer in the "
                f"model's context of {self.context}; shorten the prompt"
            )
        return Prompt(tuple(ids), room, sampling)

    def answers(self, prompts: Sequence[Prompt], *, fixed: bool = False) -> list[Reply]:
        """Answer a batch of prompts.

        Sequences leave the batch when their answers have ended. In a `fixed` batch they stay until
        all have, so that hooks of the model can tell them apart by their rows.
        """
        import torch

        transformers: Any = require("transformers", extra="lm", feature=_FEATURE)
        # Left padding aligns the beginnings of all answers.
        longest = max(len(prompt.ids) for prompt in prompts)
        gaps = [longest - len(prompt.ids) for prompt in prompts]
        device = self.model.device
        padded = [[self._pad] * g + list(p.ids) for g, p in zip(gaps, prompts, strict=True)]
        input_ids = torch.tensor(padded, device=device)
        mask = torch.tensor([[0] * g + [1] * (longest - g) for g in gaps], device=device)
        sampling = SeededSampling([prompt.sampling for prompt in prompts])
        answers: list[list[int]] = [[] for _ in prompts]
        left, cache = list(range(len(prompts))), _growing_cache(self.model.config)
        while left:
            allowed = [prompts[number].tokens - len(answers[number]) for number in left]
            steps = max(allowed) if fixed else min(_STEPS, *allowed)
            # Greedy decoding, since `SeededSampling` leaves one token in each row.
            with torch.inference_mode(), generating_in_batches():
                out = self.model.generate(
                    input_ids=input_ids,
                    attention_mask=mask,
                    past_key_values=cache,
                    generation_config=transformers.GenerationConfig(
                        do_sample=False, max_new_tokens=steps
                    ),
                    logits_processor=transformers.LogitsProcessorList([sampling]),
                )
            made = out.shape[1] - input_ids.shape[1]
            for number, most, tokens in zip(left, allowed, out[:, -made:].tolist(), strict=True):
                end = next((n for n, t in enumerate(tokens, start=1) if t in self._ends), None)
                answers[number] += tokens[:end][:most]
            rows = [
                row
                for row, number in enumerate(left)
                if not self.ended(answers[number]) and len(answers[number]) < prompts[number].tokens
            ]
            left = [left[row] for row in rows]
            if left:
                sampling.select(rows)
                chosen = torch.tensor(rows, device=device)
                cache.batch_select_indices(chosen)
                ones = mask.new_ones(len(rows), made)
                input_ids, mask = out[chosen], torch.cat([mask[chosen], ones], dim=1)
        return [
            Reply(self.text(ids), tuple(ids), self.ended(ids), tuple(chosen[: len(ids)]))
            for ids, chosen in zip(answers, sampling.chosen, strict=True)
        ]

    def extended(self, cache: Any, ids: Sequence[int]) -> tuple[Any, torch.Tensor]:
        """Append tokens to a text; return its cache and the logits of the next token, [tokens].

        `cache` is that of the text before, or None. It is not modified.
        """
        import torch

        transformers: Any = require("transformers", extra="lm", feature=_FEATURE)
        longer = transformers.DynamicCache(config=self.model.config)
        if cache is not None:
            # Layers replace their tensors when they grow, so that copies can share them.
            longer.layers = [copy(layer) for layer in cache.layers]
        length = longer.get_seq_length() + len(ids)
        if self.context is not None and length > self.context:
            raise ContextOverflowError(
                f"the history has {length} tokens, more than the model's context of "
                f"{self.context}; use fewer steps"
            )
        tokens = torch.tensor([list(ids)], device=self.model.device)
        with torch.inference_mode():
            out = self.model(input_ids=tokens, past_key_values=longer, use_cache=True)
        return longer, out.logits[0, -1].float()

    def ended(self, ids: Sequence[int]) -> bool:
        """Return whether an answer ends with an end-of-sequence token."""
        return bool(ids) and ids[-1] in self._ends

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of an answer, with channel markers but without special tokens."""
        # The end marker is part of the channel format.
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=not self._in_channels))

    def text_of(self, token: int) -> str:
        """Return the text of a single token."""
        return str(self.tokenizer.decode([token]))


OURS, LOCAL, HUGGING_FACE = "goalmeter/", "goalmeter-local/", "hf/"


def is_model(name: str) -> bool:
    """Return whether a name refers to a language model: it has a slash and is not a file.

    >>> is_model("vllm/openai/gpt-oss-20b"), is_model("agents/mine.py:agent")
    (True, False)
    """
    before_file = name.partition(".py:")[0] if ".py:" in name else ""
    return "/" in name and not before_file and name.partition(":")[0] not in ("sb3", "policy")


def is_path(name: str) -> bool:
    """Return whether a name begins like a path: "", ".", ".." or "~" before the first slash."""
    return name.partition("/")[0] in ("", ".", "..", "~")


def check_folder(name: str) -> None:
    """Raise InvalidFileError if the folder of hf/PATH or goalmeter-local/PATH does not exist."""
    folder = name.partition("/")[2]
    # NAME or ORGANISATION/NAME may be a model of the Hub, which transformers checks.
    may_be_on_hub = name.startswith(HUGGING_FACE) and folder.count("/") < 2 and not is_path(folder)
    local = name.startswith((LOCAL, HUGGING_FACE)) and not may_be_on_hub
    if local and not Path(folder).is_dir():
        raise InvalidFileError(f"there is no folder {folder!r} (model {name!r}); check the path")


def is_organism(agent: str) -> bool:
    """Return whether a name refers to an organism, such as "goalmeter/mouse"."""
    return agent.startswith(OURS) and agent.removeprefix(OURS) in organism_names()


def model_agent(name: str) -> NamedAgent:
    """Return a language model by name; Inspect checks on first use whether it exists."""
    about, hidden = "a language model, by its Inspect name", name.startswith((LOCAL, HUGGING_FACE))
    if is_organism(name):
        about = f"a small language model that {organism(name.removeprefix(OURS)).purpose}"
        hidden = True
    elif name.startswith(OURS):
        agent = prompted_agent(name.removeprefix(OURS))
        name, about = OURS + agent.name, f"{agent.name}, which reads the grid in a prompt"
    makers: dict[Ability, Callable[[], Any]] = {Ability.TEXT: lambda: name}
    if hidden:
        makers[Ability.HIDDEN] = lambda: local_model(name)
    return NamedAgent(name, about, makers)


def organism_agents() -> dict[str, str]:
    """Return the names of all organisms, with a one-line summary of each."""
    return {f"{OURS}{name}": model_agent(f"{OURS}{name}").about for name in organism_names()}


def prompted_agent(name: str) -> Memoryless:
    """Return the baseline agent of the language model `goalmeter/NAME`."""
    kind = call_of(name).kind
    if kind not in NAVIGATORS:
        organisms = organism_names()
        close = nearest(kind, [*organisms, *NAVIGATORS])
        hint = f"; did you mean {OURS}{close}?" if close else ""
        agents = [known for known in navigator_names() if known != WallFollower.name]
        raise InvalidParameterError(
            f"there is no model '{OURS}{name}', expected an organism ({', '.join(organisms)}) or "
            f"a baseline agent ({', '.join(agents)}) after {OURS}{hint}"
        )
    agent = navigator(name)
    if not isinstance(agent, Memoryless):
        raise InvalidParameterError(
            f"{agent.name} has memory, which prompts do not support; use its name {agent.name} "
            f"without {OURS}"
        )
    return agent


def local_model(name: str) -> LocalModel:
    """Load an organism, or the model in the folder of goalmeter-local/FOLDER or hf/FOLDER."""
    from goalmeter.organisms.kinds import weights_of

    if is_organism(name):
        return LocalModel(weights_of(name.removeprefix(OURS)))
    folder = name.partition("/")[2]
    if not Path(folder).is_dir():
        raise InvalidParameterError(
            f"there is no folder {folder}; hidden states and histories require a local model, "
            f"{LOCAL}FOLDER or {HUGGING_FACE}FOLDER"
        )
    return LocalModel(folder)
