"""Whether a model acts on what it reads of a cell: screened on half of the grids, then confirmed.

The published position of a map, the end of the prompt, need not be where it is used: it decodes
there almost perfectly from our mouse, and replacing it changes no move. So every intervention is
tried at every layer on one half; the best is chosen, and only what it does on the other half is a
result, beside cells that no shortest way needs and beside interventions of which nothing is
expected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.contents import content
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.world import Cell
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located
from goalmeter.representation.replay import Sample, scenes_of
from goalmeter.representation.scenes import uncertain_cells
from goalmeter.representation.use.answering import Answered, answer_all
from goalmeter.representation.use.candidates import Candidate, candidates
from goalmeter.representation.use.cells import TargetCell, target_cells
from goalmeter.representation.use.halves import CONFIRM, SCREEN, half_of
from goalmeter.representation.use.outcomes import Outcome, UseRow, row_of

# Cells are said not to be used where at most so many moves flip, by the end of the interval.
MARGIN = 0.25
USED, NOT_USED, UNKNOWN = "used", "not used", "cannot be told"
# An answer under an intervention may be so many times as long as the longest without one; a search
# that goes on longer does not end, which is an answer that cannot be read.
_LONGER = 2
Progress = Callable[[str], None]
Wanted = Callable[[Sample, Cell], bool]
Trial = tuple[Located, TargetCell]


@dataclass(frozen=True, eq=False)
class Use:
    """Whether a model's moves depend on its representation of cells.

    Attributes:
        model: its name.
        salt: of the split into halves.
        decisions: how many decisions were asked again.
        screened: every intervention on the first half.
        confirmed: the one that did best there, on the second half.
        nulls: the interventions of which nothing is expected, on the second half.
        outcomes: of the confirmed intervention, one a decision and cell.
    """

    model: str
    salt: str
    decisions: int
    screened: tuple[UseRow, ...]
    confirmed: UseRow
    nulls: tuple[UseRow, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def verdict(self) -> str:
        """What the confirmed half carries.

        "used" if the interval of the flips at needed cells lies above those at unneeded cells and
        above those of the nulls; "not used" if it lies below `MARGIN`; else "cannot be told".
        """
        flips = self.confirmed.needed.flips.interval
        beside = [self.confirmed.unneeded.flips, *(null.needed.flips for null in self.nulls)]
        ends = [each.interval[1] if each.interval is not None else 1.0 for each in beside]
        if flips is not None and flips[0] > max(ends):
            return USED
        return NOT_USED if flips is not None and flips[1] < MARGIN else UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values, without the single outcomes."""
        return {
            "model": self.model,
            "salt": self.salt,
            "decisions": self.decisions,
            "screened": [row.to_json() for row in self.screened],
            "confirmed": self.confirmed.to_json(),
            "nulls": [row.to_json() for row in self.nulls],
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        def shown(row: UseRow) -> str:
            needed, unneeded = row.needed.flips, row.unneeded.flips
            return (
                f"{row.label}: {percent(needed.value)} of moves flip at needed cells, "
                f"{percent(unneeded.value)} at unneeded ones"
            )

        head = {
            USED: "what it reads of cells is used",
            NOT_USED: "what it reads of cells is not used",
            UNKNOWN: "whether it uses what it reads of cells cannot be told",
        }[self.verdict]
        lines = [f"{self.model}: {head}", shown(self.confirmed)]
        return "\n".join([*lines, *map(shown, self.nulls)])


def causal_use(
    samples: Sequence[Sample],
    network: Network,
    *,
    layers: Sequence[int] | None = None,
    cells: Wanted | None = None,
    per_decision: int = 1,
    salt: str = "0",
    seed: int = 0,
    progress: Progress | None = None,
) -> Use:
    """Screen interventions on one half of the grids, and confirm the best on the other.

    Every answer is a real one: the network reads the prompt, reasons and answers again, at
    temperature 0, with and without the intervention.

    Args:
        samples: decisions whose prompts are asked again.
        network: the model.
        layers: at which single layers interventions are tried; None for all.
        cells: which cells of a decision are of interest; None for all that are uncertain given
            their place. For an organism that does not see some rows, these rows and the others are
            two questions.
        per_decision: cells of each kind that are tried in a decision, drawn at random.
        salt: of the split into halves.
        seed: of the draws.
        progress: told now and then what is being tried.

    Raises:
        InvalidParameterError: no such layer, or one half has no cell that a shortest way needs.
    """
    every = range(len(network.blocks) + 1)
    wanted = network.check_layers(every if layers is None else layers)
    # Located here, since every intervention asks where the tokens of these prompts stand.
    trials = {
        half: [
            (Located(sample, network.local.tokenizer), target)
            for sample, target in _trials(samples, half, cells, per_decision, salt, seed)
        ]
        for half in (SCREEN, CONFIRM)
    }
    for half, listed in trials.items():
        if not any(cell.needed for _, cell in listed):
            raise InvalidParameterError(
                f"none of the decisions in the {half} half has an uncertain cell that "
                f"every shortest way needs; take more grids, or mazes of complexity 0.4 and above"
            )
    options = candidates(network, layers=wanted, seed=seed)
    bases = {half: _answers(network, listed) for half, listed in trials.items()}
    if progress is not None:
        progress(f"use: {len(options)} interventions on {len(trials[SCREEN])} cells")
    screened = []
    for number, candidate in enumerate(options, start=1):
        outcomes = _outcomes(network, candidate, trials[SCREEN], bases[SCREEN])
        if outcomes:
            screened.append((candidate, row_of(candidate, outcomes)))
        if progress is not None:
            progress(f"use: screened {number} of {len(options)}: {candidate.label}")
    able = [(candidate, row) for candidate, row in screened if not candidate.is_null]
    best, _ = max(able, key=lambda entry: _merit(entry[1]))
    confirmed = _outcomes(network, best, trials[CONFIRM], bases[CONFIRM])
    nulls = [candidate for candidate, _ in screened if candidate.is_null]
    return Use(
        network.name,
        salt,
        len(samples),
        tuple(row for _, row in screened),
        row_of(best, confirmed),
        tuple(
            row_of(null, _outcomes(network, null, trials[CONFIRM], bases[CONFIRM]))
            for null in nulls
        ),
        tuple(confirmed),
    )


def _merit(row: UseRow) -> float:
    """What is screened for: moves as if there were a wall, where that matters and only there."""
    worth = row.needed.as_if_wall.value - row.unneeded.flips.value
    return worth if np.isfinite(worth) else -1.0


def _trials(
    samples: Sequence[Sample],
    half: str,
    wanted: Wanted | None,
    per_decision: int,
    salt: str,
    seed: int,
) -> Iterator[tuple[Sample, TargetCell]]:
    """The decisions and cells of a half, in their order."""
    uncertain = uncertain_cells(scenes_of(samples))
    for sample in samples:
        if half_of(sample.world, salt) != half:
            continue
        target = [
            each
            for each in target_cells(sample.world, sample.state)
            if uncertain[sample.world.shape][each.cell]
            and (wanted is None or wanted(sample, each.cell))
        ]
        for needed in (True, False):
            kind = [each for each in target if each.needed == needed]
            Draws("target cells", seed, sample.walk, sample.step, int(needed)).shuffle(kind)
            yield from ((sample, each) for each in kind[:per_decision])


def _answers(network: Network, trials: Sequence[Trial]) -> list[Answered]:
    """Unchanged answers to the prompts of some trials, each prompt asked once."""
    samples = {located.sample.digest: located.sample for located, _ in trials}
    answers = answer_all(network, list(samples.values()))
    by_digest = dict(zip(samples, answers, strict=True))
    return [by_digest[located.sample.digest] for located, _ in trials]


def _outcomes(
    network: Network,
    candidate: Candidate,
    trials: Sequence[Trial],
    bases: Sequence[Answered],
) -> list[Outcome]:
    """What becomes of the trials that an intervention can be tried on."""
    changes = [candidate.make(located, target.cell) for located, target in trials]
    able = [number for number, change in enumerate(changes) if change is not None]
    cap = _LONGER * max(len(base.tokens) for base in bases)
    answers = answer_all(
        network,
        [trials[number][0].sample for number in able],
        [change for change in changes if change is not None],
        tokens=cap,
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
