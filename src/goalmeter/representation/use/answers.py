"""Collect a model's answers under interventions, and the effect on the next action."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from math import comb, log
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, json_text
from goalmeter._types import FloatArray, IntArray
from goalmeter.agents.local_models import Sampling
from goalmeter.gridworld.world import ACTIONS, content
from goalmeter.navigation.prompts import understood
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.interventions import Intervention, applied, filled
from goalmeter.representation.use.trials import (
    OPEN,
    Candidate,
    Kept,
    Outcome,
    Trial,
    UseRow,
    row_of,
)
from goalmeter.runs import Stages
from goalmeter.statistics.clusters import Estimate, estimate
from goalmeter.statistics.discrimination import jensen_shannon

# --- Answering ------------------------------------------------------------------------------------
# What is compared is behaviour, not the likelihood of an answer that was written without the
# change: a model that searches before it answers settles its move during the search.

BATCH = 48
UNCHANGED = Intervention()


@dataclass(frozen=True)
class Answered:
    """How a decision was answered.

    Attributes:
        action: 0 to 3; None where the answer cannot be read.
        invalid: why it cannot.
        tokens: of the answer.
    """

    action: int | None
    invalid: str
    tokens: tuple[int, ...]


def answer_all(
    network: Network,
    samples: Sequence[Sample],
    interventions: Sequence[Intervention] | None = None,
    *,
    tokens: int = 512,
    temperature: float = 0.0,
    seed: int = 0,
) -> list[Answered]:
    """Ask the prompts of some decisions again, each under its own intervention.

    Args:
        network: the model.
        samples: whose prompts are asked.
        interventions: one a sample; None to change nothing.
        tokens: of an answer at most, its reasoning included.
        temperature: 0 takes the likeliest token.
        seed: of the draws; the answer to a sample depends on it and the sample's number only.

    Returns:
        The answers, in the order of the samples.
    """
    changes = [UNCHANGED] * len(samples) if interventions is None else list(interventions)
    answers: dict[int, Answered] = {}
    # Prompts of like lengths together: fillings cost as much as words.
    order = sorted(range(len(samples)), key=lambda number: len(samples[number].prompt))
    for begin in range(0, len(order), BATCH):
        batch = order[begin : begin + BATCH]
        prompts = [
            network.local.prompt(
                samples[number].prompt, tokens, Sampling(seed + number, temperature=temperature)
            )
            for number in batch
        ]
        lengths = [len(prompt.ids) for prompt in prompts]
        with applied(network, [changes[number] for number in batch], lengths):
            replies = network.local.answers(prompts)
        for number, reply in zip(batch, replies, strict=True):
            answers[number] = answered(network, reply.ids)
    return [answers[number] for number in range(len(samples))]


def answered(network: Network, ids: Sequence[int]) -> Answered:
    """What the tokens of an answer say."""
    read = understood(network.local.text(ids))
    return Answered(read.action, read.invalid, tuple(ids))


# --- Sweep ----------------------------------------------------------------------------------------
# Two things are shared. Tokens before the first one that an intervention touches are read as they
# are without it, so their keys and values come from one unchanged pass. And an answer under an
# intervention is mostly the unchanged answer, for some words or to its end. So the unchanged
# answer is read under the intervention in one pass, and only from the first token that the model
# would have chosen otherwise on is it written anew. The answer is that of `answer_all`, token for
# token, but for ties: sums over many tokens at once differ in their last bits from sums over one.
#
# Source: reading a guess in one pass and keeping what the model would have written is speculative
# decoding (Leviathan et al. 2023, arXiv 2211.17192) with the unchanged answer as the guess.


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


# --- Divergence -----------------------------------------------------------------------------------
# A flip says that the likeliest answer is another one. Answers that are drawn say more: how the
# probabilities of the four moves, and of an answer that cannot be read, have shifted. The
# distance is the Jensen-Shannon divergence,
#
#     JSD(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2
#
# which is 0 for equal distributions and log 2 for such as have nothing in common. Taken of the
# shares of few answers it is never negative and so too large. What it would be if the change did
# nothing is known: then which answers were given with the change and which without is a matter of
# labels, so its mean over all relabellings of the pooled answers is subtracted. The mean is
# exact, and no permutation is drawn: pooled shares are the same under each, and the number of an
# outcome's answers that fall to one side is hypergeometric.
#
# Source: Lin (1991), Divergence measures based on the Shannon entropy, for the divergence;
# relabelling as in a permutation test (Fisher 1935).

# The four moves, and an answer that cannot be read.
OUTCOMES = len(ACTIONS) + 1


def action_counts(actions: Sequence[int | None]) -> IntArray:
    """How often each move was chosen, and last how many answers could not be read, [5]."""
    places = [len(ACTIONS) if action is None else action for action in actions]
    return np.bincount(np.array(places, dtype=np.int64), minlength=OUTCOMES)


def divergence(first: IntArray, second: IntArray) -> tuple[float, float]:
    """The divergence of two samples of answers, and its mean if their labels meant nothing.

    Args:
        first: counts of outcomes, [5] or of any other number of outcomes.
        second: counts of as many answers, [5].

    Returns:
        Both in nats; the first less the second has a mean of 0 where nothing has changed.

    Example: two answers each, without a common one. Of the six relabellings two are like this, and
    four have both moves on either side.
        >>> both, mean = divergence(np.array([2, 0]), np.array([0, 2]))
        >>> round(both, 4), round(mean, 4)
        (0.6931, 0.231)
    """
    draws = int(first.sum())
    if draws != int(second.sum()) or not draws:
        raise InvalidParameterError(
            f"there are {draws} answers with a change and {int(second.sum())} without, expected as "
            f"many of each, and at least one"
        )
    pooled = first + second
    observed = log(2) * float(jensen_shannon(first / draws, second / draws))
    middle = sum(_x_log_x(count / (2 * draws)) for count in pooled.tolist())
    mean = sum(_mean_x_log_x(count, draws) for count in pooled.tolist()) - middle
    return observed, mean


def effect_in_nats(
    changed: Sequence[IntArray], unchanged: Sequence[IntArray], grids: Sequence[str]
) -> Estimate:
    """The mean divergence over decisions, corrected for its bias, with an interval over grids.

    The correction is that of no effect, so the largest value is a little below log 2.

    Args:
        changed: counts of outcomes of each decision under the change, [5] each.
        unchanged: the same without it, of as many answers.
        grids: name of each decision's grid.
    """
    pairs = [divergence(*pair) for pair in zip(changed, unchanged, strict=True)]
    nats = np.array([observed - mean for observed, mean in pairs])
    numbers = np.unique(np.array(grids), return_inverse=True)[1]
    # No divergence is negative, so none less its correction lies below the largest one.
    least = -max((mean for _, mean in pairs), default=0.0)
    counts = np.bincount(numbers)
    return estimate(
        np.bincount(numbers, nats),
        counts,
        heaviest=counts.max(initial=0),
        n=len(nats),
        bounds=(least, log(2)),
    )


def _x_log_x(share: float) -> float:
    return share * log(share) if share > 0 else 0.0


@lru_cache(maxsize=4096)
def _mean_x_log_x(count: int, draws: int) -> float:
    """The mean of x log x, where x is the share of an outcome on one side of a relabelling.

    `count` of 2 `draws` answers have the outcome, and `draws` of them fall to that side.
    """
    least, most = max(0, count - draws), min(count, draws)
    ways: FloatArray = np.array(
        [comb(count, k) * comb(2 * draws - count, draws - k) for k in range(least, most + 1)],
        dtype=float,
    )
    values = [_x_log_x(k / draws) for k in range(least, most + 1)]
    return float(ways @ np.array(values) / ways.sum())


# --- Asking ---------------------------------------------------------------------------------------
# What is asked of one half under one intervention is one stage of a run (`runs.stages`): a process
# that is killed loses the one that it was at, and a folder that holds answers to another question
# is
# refused. The run says first which grids lie in which half, before any of them is asked about.

# An answer under an intervention may be so many times as long as the longest without one; a search
# that goes on longer does not end, which is an answer that cannot be read.
_LONGER = 2
_UNCHANGED = "unchanged"


@dataclass(frozen=True, eq=False)
class Asking:
    """A model that is asked about cells, half by half.

    Attributes:
        network: the model.
        trials: the decisions and cells of each half, and under `walls_of` the decisions and walls.
        store: where answers are kept; None to keep none.
        draws: answers a decision from which the effect in nats is taken; 0 for none.
        temperature: of these draws.
        seed: of these draws.
    """

    network: Network
    trials: Mapping[str, Sequence[Trial]]
    store: Stages | None = None
    draws: int = 0
    temperature: float = 0.7
    seed: int = 0
    _known: dict[str, list[Answered]] = field(default_factory=dict)
    _sweeps: dict[str, tuple[Sweep, dict[tuple[int, ...], int]]] = field(default_factory=dict)

    def unchanged(self, name: str, samples: Sequence[Sample]) -> list[Answered]:
        """Answers to some prompts as they are, each prompt asked once."""
        different = {sample.prompt: sample for sample in samples}
        listed = list(different.values())
        answers = self._asked(
            f"{name}: {_UNCHANGED}", lambda: answer_all(self.network, listed), tokens=True
        )
        by_prompt = dict(zip(different, answers, strict=True))
        return [by_prompt[sample.prompt] for sample in samples]

    def bases(self, half: str) -> list[Answered]:
        """The answer to each trial of a half without a change."""
        return self.unchanged(half, [located.sample for located, _ in self.trials[half]])

    def outcomes(self, candidate: Candidate, half: str) -> list[Outcome]:
        """What becomes of the trials that an intervention can be tried on."""
        half = walls_of(half) if candidate.family == OPEN else half
        trials, bases = self.trials[half], self.bases(half)
        changes = [candidate.make(located, target.cell) for located, target in trials]
        able = [number for number, change in enumerate(changes) if change is not None]
        answers = self._asked(
            f"{half}: {candidate.key}",
            lambda: self._swept(
                half,
                [trials[number][0].sample for number in able],
                [change for change in changes if change is not None],
                self._cap(bases),
            ),
        )
        return [
            Outcome(
                sample.walk,
                sample.step,
                content(sample.world),
                sample.world.shape,
                target,
                bases[number].action,
                answer.action,
            )
            for number, answer in zip(able, answers, strict=True)
            for sample, target in [(trials[number][0].sample, trials[number][1])]
        ]

    def row(self, candidate: Candidate, half: str) -> UseRow:
        """The effects of an intervention on a half, with that in nats if draws are asked for."""
        outcomes = self.outcomes(candidate, half)
        return row_of(candidate, outcomes, self.effect(candidate, half) if self.draws else None)

    def effect(self, candidate: Candidate, half: str) -> Estimate:
        """How far the distribution of the next action moves at needed cells, in nats.

        The decisions are those of the flips: right at temperature 0 without the change.
        """
        half = walls_of(half) if candidate.family == OPEN else half
        trials, bases = self.trials[half], self.bases(half)
        counted = [
            number
            for number, ((_, target), base) in enumerate(zip(trials, bases, strict=True))
            if target.needed and base.action in target.optimal
        ]
        made = {n: candidate.make(trials[n][0], trials[n][1].cell) for n in counted}
        able = {n: change for n, change in made.items() if change is not None}
        cap = self._cap(bases)
        # Other draws with the change than without: labels say nothing only of independent answers.
        plain = self._drawn(f"{half}: {_UNCHANGED}", half, dict.fromkeys(counted), cap, 1)
        moved = self._drawn(f"{half}: {candidate.key}", half, able, cap, 2)
        grids = [content(trials[n][0].sample.world) for n in able]
        return effect_in_nats([moved[n] for n in able], [plain[n] for n in able], grids)

    def _drawn(
        self,
        key: str,
        half: str,
        changes: Mapping[int, Intervention | None],
        cap: int,
        stream: int,
    ) -> dict[int, IntArray]:
        """Counts of outcomes, [5], of some trials by their number, each under its change."""
        samples = [self.trials[half][n][0].sample for n in changes for _ in range(self.draws)]
        repeated = [change or UNCHANGED for change in changes.values() for _ in range(self.draws)]
        answers = self._asked(
            f"{key}, {self.draws} draws at temperature {self.temperature:g}",
            lambda: answer_all(
                self.network,
                samples,
                repeated,
                tokens=cap,
                temperature=self.temperature,
                # Far apart, so that the seeds of no two samples are one.
                seed=(2 * self.seed + stream) * 10_000_019,
            ),
        )
        actions = [answer.action for answer in answers]
        return {
            n: action_counts(actions[at * self.draws : (at + 1) * self.draws])
            for at, n in enumerate(changes)
        }

    def _swept(
        self, half: str, samples: Sequence[Sample], changes: Sequence[Intervention], tokens: int
    ) -> list[Answered]:
        """Answers of a half at temperature 0, which share what comes before their changes."""
        if half not in self._sweeps:
            different = {each.sample.prompt: each.sample for each, _ in self.trials[half]}
            listed = list(different.values())
            bases = self.unchanged(half, listed)
            numbers = {prompt: number for number, prompt in enumerate(different)}
            self._sweeps[half] = Sweep(self.network, listed, bases=bases), numbers
        sweep, numbers = self._sweeps[half]
        return sweep.answers([numbers[s.prompt] for s in samples], changes, tokens=tokens)

    def _asked(
        self, key: str, ask: Callable[[], list[Answered]], *, tokens: bool = False
    ) -> list[Answered]:
        """Answers that are kept under a key, or else asked for; with their tokens if wanted."""
        if key not in self._known:
            self._known[key] = self._kept(key) or self._new(key, ask, tokens)
        return self._known[key]

    def _kept(self, key: str) -> list[Answered]:
        """What an earlier process has kept."""
        kept = (self.store.kept(key) or []) if self.store is not None else []
        return [Answered(action, invalid, tuple(ids)) for action, invalid, ids in kept]

    def _new(self, key: str, ask: Callable[[], list[Answered]], tokens: bool) -> list[Answered]:
        answers = ask()
        if self.store is not None:
            # Only the tokens of unchanged answers are looked at again.
            self.store.keep(
                key, [[a.action, a.invalid, list(a.tokens) if tokens else []] for a in answers]
            )
        return answers

    @staticmethod
    def _cap(bases: Sequence[Answered]) -> int:
        return _LONGER * max(len(base.tokens) for base in bases)


def walls_of(half: str) -> str:
    """What the trials of a half are called that ask about walls."""
    return f"{half}, walls"


def keeping(
    folder: str | Path | None,
    network: Network,
    trials: Mapping[str, Sequence[Trial]],
    learnt: Sequence[Sample],
    asked: Mapping[str, Any],
) -> AbstractContextManager[Stages | None]:
    """The run in which answers are kept; None without a folder.

    Args:
        folder: of the run.
        network: that is asked.
        trials: of each half; their grids are written down before anything is asked.
        learnt: the decisions that directions are learnt from.
        asked: what else decides the answers, as JSON values.
    """
    if folder is None:
        return nullcontext()
    halves = {
        half: sorted({_hash(content(located.sample.world)) for located, _ in listed})
        for half, listed in trials.items()
    }
    named = [
        [half, located.sample.walk, located.sample.step, located.sample.prompt, target.cell]
        for half, listed in trials.items()
        for located, target in listed
    ]
    what = {
        "kind": "causal use",
        "model": network.name,
        "weights": network.revision,
        **asked,
        "halves": halves,
        "split": _hash(json_text(halves)),
        "decisions": _hash(json_text(named)),
        "learnt from": _hash(json_text([[s.walk, s.step, s.prompt] for s in learnt])),
    }
    return Stages(folder, what)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()
