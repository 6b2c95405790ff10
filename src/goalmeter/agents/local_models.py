"""Language models as agents: names, local transformers models, and seeded batch sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    """How the tokens of one sequence are chosen.

    A model's own sampling draws for a whole batch from one generator, so an answer would depend on
    what else was asked at that moment. Here one number a token is drawn for each sequence from its
    own seed. What remains of the company is rounding: sums over a longer batch may differ in the
    last bit.
    """

    seed: int | None = None  # of its draws; None for one that nobody knows
    temperature: float = 1.0  # 0 takes the likeliest token
    top_p: float = 1.0  # the likeliest tokens that have this probability together are drawn from
    top_k: int | None = None  # only so many of the likeliest are drawn from; None for all
    alternatives: int | None = None  # likeliest tokens recorded with each choice; None for nothing

    def __post_init__(self) -> None:
        fine = {
            "temperature": 0 <= self.temperature < float("inf"),
            "top_p": 0 < self.top_p <= 1,
            "top_k": self.top_k is None or self.top_k >= 1,
            "alternatives": self.alternatives is None or self.alternatives >= 0,
        }
        for name, holds in fine.items():
            if not holds:
                raise InvalidParameterError(f"{name} is {getattr(self, name)!r}, out of its range")


class Chosen(NamedTuple):
    """A token that was chosen, with log-probabilities of the model at temperature 1, uncut."""

    token: int
    logprob: float
    alternatives: tuple[tuple[int, float], ...]


class SeededSampling:
    """A logits processor that leaves one token a sequence, so that greedy decoding samples."""

    def __init__(self, samplings: Sequence[Sampling]) -> None:
        self._samplings = samplings
        self._draws = [
            Random() if s.seed is None else Random(f"tokens:{s.seed}") for s in samplings
        ]
        self.chosen: list[list[Chosen]] = [[] for _ in samplings]  # for each that is recorded

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores [sequences, tokens] with one token left in each row."""
        import torch

        logits = scores.float()
        picked = self._picked(logits)
        if any(s.alternatives is not None for s in self._samplings):
            self._record(logits, picked)
        return torch.full_like(scores, -torch.inf).scatter_(1, picked[:, None], 0.0)

    def _picked(self, logits: torch.Tensor) -> torch.Tensor:
        import torch

        def column(values: list[float]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.float32, device=logits.device)[:, None]

        uniform = column([draws.random() for draws in self._draws])
        likeliest = logits.argmax(dim=1)
        if all(s.temperature == 0 for s in self._samplings):
            return likeliest
        heat = column([s.temperature or 1.0 for s in self._samplings])
        ordered, tokens = (logits / heat).sort(dim=1, descending=True, stable=True)
        weights = ordered.softmax(dim=1)
        before = weights.cumsum(dim=1) - weights
        size = logits.shape[1]
        rank = torch.arange(size, device=logits.device)[None, :]
        kept = before < column([s.top_p for s in self._samplings])
        kept &= rank < column([float(s.top_k or size) for s in self._samplings])
        kept[:, 0] = True  # whatever rounding says, the likeliest token may be drawn
        ends = (weights * kept).cumsum(dim=1)
        # Searched only among the kept ones, so that rounding cannot lead beyond them.
        place = ((ends <= uniform * ends[:, -1:]) & kept).sum(dim=1, keepdim=True)
        place = torch.minimum(place, kept.sum(dim=1, keepdim=True) - 1)
        drawn = tokens.gather(1, place)[:, 0]
        cold = column([s.temperature for s in self._samplings])[:, 0] == 0
        return torch.where(cold, likeliest, drawn)

    def _record(self, logits: torch.Tensor, picked: torch.Tensor) -> None:
        most = max(s.alternatives or 0 for s in self._samplings)
        logprobs = logits.log_softmax(dim=1)
        chosen_logprobs = logprobs.gather(1, picked[:, None])[:, 0].tolist()
        top = logprobs.topk(min(most, logits.shape[1]), dim=1)
        values, tokens, taken = top.values.tolist(), top.indices.tolist(), picked.tolist()
        for row, sampling in enumerate(self._samplings):
            if sampling.alternatives is not None:
                n = sampling.alternatives
                pairs = tuple(zip(tokens[row][:n], values[row][:n], strict=True))
                self.chosen[row].append(Chosen(taken[row], chosen_logprobs[row], pairs))


_FEATURE = "Running a language model on this machine"
# A model whose tokenizer has this token writes in channels, whose markers are part of its answer.
CHANNEL = "<|channel|>"


class ContextOverflowError(InvalidParameterError):
    """A prompt is longer than the model's context, or leaves no room for an answer."""


class Prompt(NamedTuple):
    """A request: ids of tokens, how many may be answered, and how they are chosen."""

    ids: tuple[int, ...]
    tokens: int
    sampling: Sampling


@dataclass(frozen=True)
class Reply:
    """An answer."""

    text: str
    ids: tuple[int, ...]  # of all tokens, also of the one that ended it
    ended: bool  # False if it was cut
    chosen: tuple[Chosen, ...]  # log-probabilities, if those were asked for


class LocalModel:
    """A causal language model and its tokenizer.

    They are read from a folder as `save_pretrained` writes it; nothing is downloaded. The device is
    by default the first accelerator, or else the processor, and `dtype` that of the checkpoint; one
    in MXFP4 (gpt-oss) is expanded by transformers where the hardware has no kernels for it.
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
        """Number of tokens that a prompt and its answer can have together, if the model says."""
        longest = getattr(self.model.config, "max_position_embeddings", None)
        return None if longest is None else int(longest)

    def ids(self, messages: Sequence[Mapping[str, str]], **template: Any) -> tuple[int, ...]:
        """Return the tokens of a conversation, up to where the answer begins."""
        if self.tokenizer.chat_template is None:
            text = "\n\n".join(message["content"] for message in messages) + "\n\n"
            return tuple(self.tokenizer(text)["input_ids"])
        encoded = self.tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, return_dict=True, **template
        )
        return tuple(encoded["input_ids"])

    def prompt(self, ids: Sequence[int], tokens: int, sampling: Sampling) -> Prompt:
        """Return a request that the model can take: the answer is cut where its context ends."""
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
        padded = [[self._pad] * g + list(p.ids) for g, p in zip(gaps, prompts, strict=True)]
        asked = torch.tensor(padded, device=device)
        mask = torch.tensor([[0] * g + [1] * (longest - g) for g in gaps], device=device)
        sampling = SeededSampling([prompt.sampling for prompt in prompts])
        limits = torch.tensor([longest + prompt.tokens for prompt in prompts], device=device)

        def at_its_limit(sequences: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
            return limits <= sequences.shape[1]

        # Likeliest tokens only: `SeededSampling` has left one token standing in each row.
        with torch.inference_mode(), generating_in_batches():
            out = self.model.generate(
                input_ids=asked,
                attention_mask=mask,
                generation_config=transformers.GenerationConfig(
                    do_sample=False, max_new_tokens=max(prompt.tokens for prompt in prompts)
                ),
                logits_processor=transformers.LogitsProcessorList([sampling]),
                stopping_criteria=transformers.StoppingCriteriaList([at_its_limit]),
            )
        replies = []
        rows = out[:, longest:].tolist()
        for row, prompt, chosen in zip(rows, prompts, sampling.chosen, strict=True):
            answer = row[: prompt.tokens]
            end = next((n for n, token in enumerate(answer, start=1) if token in self._ends), None)
            ids = tuple(answer[:end])
            kept = tuple(chosen[: len(ids)])
            replies.append(Reply(self.text(ids), ids, end is not None, kept))
        return replies

    def ended(self, ids: Sequence[int]) -> bool:
        """Return whether the tokens of an answer end with one that ends it."""
        return bool(ids) and ids[-1] in self._ends

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of an answer, with the markers of channels but no special tokens."""
        # The marker that ends an answer in channels is part of their format.
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=not self._in_channels))

    def text_of(self, token: int) -> str:
        """Return the text of a single token."""
        return str(self.tokenizer.decode([token]))


OURS, LOCAL, HUGGING_FACE = "goalmeter/", "goalmeter-local/", "hf/"


def is_model(name: str) -> bool:
    """Return whether a name is that of a language model: one with a slash, and of no file.

    >>> is_model("vllm/openai/gpt-oss-20b"), is_model("agents/mine.py:agent")
    (True, False)
    """
    before_file = name.partition(".py:")[0] if ".py:" in name else ""
    return "/" in name and not before_file and name.partition(":")[0] not in ("sb3", "policy")


def is_path(name: str) -> bool:
    """Return whether a name begins as paths do: "", ".", ".." or "~" before the first slash."""
    return name.partition("/")[0] in ("", ".", "..", "~")


def check_folder(name: str) -> None:
    """Refuse hf/PATH or goalmeter-local/PATH if no such folder exists, before anything loads."""
    folder = name.partition("/")[2]
    # NAME or ORGANISATION/NAME may be a model of the Hub, which is left to transformers.
    may_be_on_hub = name.startswith(HUGGING_FACE) and folder.count("/") < 2 and not is_path(folder)
    local = name.startswith((LOCAL, HUGGING_FACE)) and not may_be_on_hub
    if local and not Path(folder).is_dir():
        raise InvalidFileError(f"there is no folder {folder!r} (model {name!r}); check the path")


def is_organism(agent: str) -> bool:
    """Return whether a name is that of an organism: "goalmeter/mouse"."""
    return agent.startswith(OURS) and agent.removeprefix(OURS) in organism_names()


def model_agent(name: str) -> NamedAgent:
    """Return the language model of a name; Inspect says whether there is one when it is asked."""
    about, hidden = "a language model, as Inspect spells it", name.startswith((LOCAL, HUGGING_FACE))
    if is_organism(name):
        about = f"a small language model that {organism(name.removeprefix(OURS)).purpose}"
        hidden = True
    elif name.startswith(OURS):
        agent = prompted_agent(name.removeprefix(OURS))
        name, about = OURS + agent.name, f"{agent.name}, which reads the grid in a prompt"
    makers: dict[Ability, Callable[[], Any]] = {Ability.TEXT: lambda: name}
    if hidden:
        makers[Ability.HIDDEN] = lambda: _local_model(name)
    return NamedAgent(name, about, makers)


def organism_agents() -> dict[str, str]:
    """Return the names of all organisms, with a line about each."""
    return {f"{OURS}{name}": model_agent(f"{OURS}{name}").about for name in organism_names()}


def prompted_agent(name: str) -> Memoryless:
    """Return the reference agent that poses as a language model, by what follows `goalmeter/`."""
    kind = call_of(name).kind
    if kind not in NAVIGATORS:
        organisms = organism_names()
        meant = nearest(kind, [*organisms, *NAVIGATORS])
        what = "organism" if meant in organisms else "reference agent"
        what = f"no {what}" if meant else "neither an organism nor a reference agent"
        hint = f" did you mean {OURS}{meant}?" if meant else ""
        agents = [known for known in navigator_names() if known != WallFollower.name]
        raise InvalidParameterError(
            f"there is {what} {name!r};{hint} {OURS} is followed by an organism "
            f"({', '.join(organisms)}) or by a reference agent ({', '.join(agents)})"
        )
    agent = navigator(name)
    if not isinstance(agent, Memoryless):
        raise InvalidParameterError(
            f"{agent.name} remembers where it went, which a prompt does not show; it walks under "
            f"its own name, {agent.name}, without {OURS}"
        )
    return agent


def _local_model(name: str) -> LocalModel:
    from goalmeter.organisms.kinds import weights_of

    if is_organism(name):
        return LocalModel(weights_of(name.removeprefix(OURS)))
    folder = name.partition("/")[2]
    if not Path(folder).is_dir():
        raise InvalidParameterError(
            f"there is no folder {folder}; hidden states are read from a model on this machine, "
            f"named {LOCAL}FOLDER or {HUGGING_FACE}FOLDER"
        )
    return LocalModel(folder)
