"""Sampling in which every sequence of a batch has its own seed, temperature and cut.

A model's own sampling draws for a whole batch from one generator, so an answer would depend on what
else was asked at that moment. Here one number a token is drawn for each sequence from its own seed
and looked up in its own distribution. What remains of the company is rounding: sums over a longer
batch may differ in the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from goalmeter._errors import InvalidParameterError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sampling:
    """How the tokens of one sequence are chosen.

    Attributes:
        seed: of its draws; None for one that nobody knows.
        temperature: 0 takes the likeliest token.
        top_p: the likeliest tokens that have this probability together are drawn from.
        top_k: only so many of the likeliest are drawn from; None for all.
        alternatives: how many of the likeliest tokens are recorded with each choice; None to
            record nothing.
    """

    seed: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    alternatives: int | None = None

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
    """A token that was chosen, with natural logarithms of probabilities.

    They are those of the model: at temperature 1, before anything is cut off.
    """

    token: int
    logprob: float
    alternatives: tuple[tuple[int, float], ...]


class SeededSampling:
    """A logits processor that leaves one token standing in each sequence.

    With it, generation that takes the likeliest token samples.

    Attributes:
        chosen: what was chosen, a list for each sequence that is recorded; empty for the others.
    """

    def __init__(self, samplings: Sequence[Sampling]) -> None:
        self._samplings = samplings
        self._draws = [
            Random() if s.seed is None else Random(f"tokens:{s.seed}") for s in samplings
        ]
        self.chosen: list[list[Chosen]] = [[] for _ in samplings]

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [sequences, tokens] with one token left in each row."""
        import torch

        logits = scores.float()
        picked = self._picked(logits)
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
        most = max(
            (s.alternatives for s in self._samplings if s.alternatives is not None), default=-1
        )
        if most < 0:
            return
        logprobs = logits.log_softmax(dim=1)
        chosen_logprobs = logprobs.gather(1, picked[:, None])[:, 0].tolist()
        top = logprobs.topk(min(most, logits.shape[1]), dim=1)
        values, tokens, taken = top.values.tolist(), top.indices.tolist(), picked.tolist()
        for row, sampling in enumerate(self._samplings):
            if sampling.alternatives is not None:
                n = sampling.alternatives
                pairs = tuple(zip(tokens[row][:n], values[row][:n], strict=True))
                self.chosen[row].append(Chosen(taken[row], chosen_logprobs[row], pairs))
