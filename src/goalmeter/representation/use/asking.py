"""Asking decisions again under interventions, and keeping what was answered.

What is asked of one half under one intervention is one stage of a run (`runs.stages`): a process
that is killed loses the one that it was at, and a folder that holds answers to another question is
refused. The run says first which grids lie in which half, before any of them is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from goalmeter._text import json_text
from goalmeter._types import IntArray
from goalmeter.gridworld.contents import content
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.answering import UNCHANGED, Answered, answer_all
from goalmeter.representation.use.candidates import OPEN, Candidate
from goalmeter.representation.use.divergence import action_counts, effect_in_nats
from goalmeter.representation.use.interventions import Intervention
from goalmeter.representation.use.outcomes import Outcome, UseRow, row_of
from goalmeter.representation.use.sweep import Sweep
from goalmeter.representation.use.trials import Trial
from goalmeter.runs import Stages
from goalmeter.statistics.clustered import Estimate

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
