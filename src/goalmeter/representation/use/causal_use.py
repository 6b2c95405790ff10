"""Test whether a model uses a cell: screened on half of the grids, confirmed on the rest.

The position from which a map can be decoded need not be where it is used: from the end of the
prompt it decodes almost perfectly from our mouse, and replacing it there changes no move. So every
intervention is tried at every layer on one half of the grids, and only what the best one does on
the other half is a result, compared with cells that no shortest path needs and with null
interventions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, whole
from goalmeter._files import JsonFields, json_value
from goalmeter.gridworld.world import content
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located, Sample
from goalmeter.representation.result_rows import DoseRow
from goalmeter.representation.use.answers import TrialAnswers, answer_store
from goalmeter.representation.use.directions import (
    TURN,
    DirectionKind,
    TargetCell,
    TrainingDecision,
    learn_directions,
)
from goalmeter.representation.use.trials import (
    CONFIRM,
    DIRECTED,
    DOSE,
    FAMILIES,
    HALVES,
    OPEN,
    SCREEN,
    TRIED,
    WRITE,
    CandidateIntervention,
    TrialOutcome,
    UseRow,
    Wanted,
    candidates,
    drawn,
    half_of,
    row_of,
    trials_of,
    walls_of,
)
from goalmeter.runs.progress import Tell

# Cells are not used where at most this share of moves flips, by the end of the interval.
MARGIN = 0.25
USED, NOT_USED, UNKNOWN = "used", "not used", "cannot be told"


@dataclass(frozen=True)
class ConfirmedFamily(JsonFields):
    """The best intervention of a family on the first half, and its nulls, on the second."""

    row: UseRow
    nulls: tuple[UseRow, ...]


@dataclass(frozen=True, eq=False)
class Use:
    """Whether a model's moves depend on its representation of cells."""

    model: str  # name of the model
    salt: str  # salt of the split into halves
    decisions: int  # number of decisions that were answered again
    screened: tuple[UseRow, ...]  # every intervention on the first half
    confirmed: UseRow  # the one that did best there, on the second half
    nulls: tuple[UseRow, ...]  # the interventions without an expected effect, on the second half
    # Outcomes of the confirmed intervention on the second half, by decision and cell.
    outcomes: tuple[TrialOutcome, ...]
    # Outcomes of the same intervention on the first half.
    outcomes_of_screen: tuple[TrialOutcome, ...] = ()
    # The best intervention of each family, on the second half; openings are of walls.
    families: tuple[ConfirmedFamily, ...] = ()
    doses: tuple[DoseRow, ...] = ()  # the best write on the second half, by dose

    @property
    def verdict(self) -> str:
        """The conclusion from the interval of the flips at needed cells of the second half.

        "used" if it lies above those at unneeded cells and of the nulls; "not used" if it lies
        below `MARGIN`; else "cannot be told".
        """
        flips = self.confirmed.needed.flips.interval
        controls = [self.confirmed.unneeded.flips, *(null.needed.flips for null in self.nulls)]
        ends = [each.interval[1] if each.interval is not None else 1.0 for each in controls]
        if flips is not None and flips[0] > max(ends):
            return USED
        return NOT_USED if flips is not None and flips[1] < MARGIN else UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values, without the single outcomes."""
        fields = {name: v for name, v in vars(self).items() if not name.startswith("outcomes")}
        return {**json_value(fields), "verdict": self.verdict}

    def __str__(self) -> str:
        def line(row: UseRow) -> str:
            needed, unneeded = row.needed.flips, row.unneeded.flips
            return (
                f"{row.label}: {percent(needed.value)} of moves flip at needed cells, "
                f"{percent(unneeded.value)} at unneeded ones"
            )

        head = {
            USED: "what it reads of needed cells is used",
            NOT_USED: "what it reads of needed cells is not used",
            UNKNOWN: "whether it uses what it reads of needed cells cannot be told",
        }[self.verdict]
        return "\n".join([f"{self.model}: {head}", *map(line, (self.confirmed, *self.nulls))])


@dataclass(frozen=True)
class UseOptions:
    """Options of `causal_use`."""

    # Single layers at which interventions are tried; None for all.
    layers: Sequence[int] | None = None
    # Which cells of a decision are of interest; None for all that are uncertain given their place.
    cells: Wanted | None = None
    per_decision: int = 1  # cells of each kind that are tried in a decision, drawn at random
    # Needed cells of the screen, and as many that are not needed, drawn from the first half; None
    # for all. All cells of the second half are tried in any case.
    screen_cells: int | None = None
    # Families of `FAMILIES`; "open" needs another one, and a needed uncertain wall in both halves.
    families: Sequence[str] = TRIED
    # More decisions from which directions are learnt, in grids that are in no second half.
    training: Sequence[Sample] = ()
    # How an answer says that its reasoning comes to a cell, with {row} and {column}.
    turn: str = TURN
    dose: float = DOSE  # dose of the writes that are screened, in gaps between walls and open cells
    doses: Sequence[float] = ()  # doses at which the best write is tried on the second half
    # Answers a decision that are drawn with and without an intervention of the second half, for
    # its effect in nats; 0 for none.
    draws: int = 0
    temperature: float = 0.7  # sampling temperature of these draws
    salt: str = "0"  # salt of the split into halves
    seed: int = 0  # random seed

    def __post_init__(self) -> None:
        if set(self.families) <= {OPEN} or not set(self.families) <= set(FAMILIES):
            raise InvalidParameterError(
                f"families are {list(self.families)}, expected some of {', '.join(FAMILIES)}, and "
                f"not open alone"
            )
        whole(self.draws, "draws", least=0, most=1000)
        if self.screen_cells is not None:
            whole(self.screen_cells, "screen_cells", least=1, most=1_000_000)
        if bad := [each for each in (self.dose, *self.doses) if not 0.0 < each < float("inf")]:
            raise InvalidParameterError(f"a dose is {bad[0]!r}, expected a number above 0")


def causal_use(
    samples: Sequence[Sample],
    network: Network,
    options: UseOptions | None = None,
    *,
    keep: str | Path | None = None,
    progress: Tell | None = None,
    **fields: Any,
) -> Use:
    """Screen interventions on one half of the grids, and confirm the best on the other.

    The network reads each prompt, reasons and answers again at temperature 0, with and without the
    intervention. Directions are learnt from the first half.

    Fields of `UseOptions` can also be given by name. Answers are stored in the directory `keep`, so
    that an interrupted screen is resumed.
    """
    options = replace(options or UseOptions(), **fields)
    tokenizer, salt, seed = network.local.tokenizer, options.salt, options.seed
    every = range(len(network.blocks) + 1)
    layers = network.check_layers(every if options.layers is None else options.layers)
    draw = partial(trials_of, samples, tokenizer, salt=salt, seed=seed, wanted=options.cells)
    trials = draw(per_decision=options.per_decision)
    if OPEN in options.families:
        trials |= draw(per_decision=options.per_decision, walls=True)
    needed = {half for half, of_half in trials.items() if any(cell.needed for _, cell in of_half)}
    if empty := [half for half in HALVES if half not in needed]:
        raise no_needed_cell(empty[0])
    families = set(options.families)
    if not {walls_of(half) for half in HALVES} <= needed:
        families -= {OPEN}
    training = _training(samples, options)
    targets: dict[str, list[TargetCell]] = {}
    for located, target in trials[SCREEN]:
        if target.needed:
            targets.setdefault(located.sample.digest, []).append(target)
    if options.screen_cells is not None:
        for half in {SCREEN, walls_of(SCREEN)} & set(trials):
            trials[half] = drawn(trials[half], options.screen_cells, seed)
    what = {"salt": salt, "seed": seed, "layers": list(layers), "turn": options.turn}
    with answer_store(keep, network, trials, training, what) as store:
        answers = TrialAnswers(network, trials, store, options.draws, options.temperature, seed)
        directions: list[DirectionKind] = []
        if families & set(DIRECTED):
            known = zip(training, answers.unchanged("learning", training), strict=True)
            decisions = [
                TrainingDecision(
                    Located(sample, tokenizer), answer.tokens, tuple(targets.get(sample.digest, ()))
                )
                for sample, answer in known
            ]
            directions = learn_directions(network, decisions, layers, options.turn)
        listed = candidates(
            network, layers=layers, seed=seed, directions=directions, dose=options.dose
        )
        tried = [candidate for candidate in listed if candidate.family in families]
        return _screened(answers, tried, len(samples), options, progress or (lambda text: None))


def no_needed_cell(half: str) -> InvalidParameterError:
    """The error of a half without a cell to be tried."""
    return InvalidParameterError(
        f"none of the decisions in the {half} half has an uncertain cell that every shortest way "
        f"needs; take more grids, or mazes of complexity 0.4 and above"
    )


def _training(samples: Sequence[Sample], options: UseOptions) -> list[Sample]:
    """The decisions from which directions are learnt; none in a grid of the second half."""
    scored = {content(s.world) for s in samples if half_of(s.world, options.salt) == CONFIRM}
    if bad := [sample.walk for sample in options.training if content(sample.world) in scored]:
        raise InvalidParameterError(
            f"training has {len(bad)} decisions in grids of the confirm half, first in "
            f"{bad[0]!r}; leave them out"
        )
    return [*(s for s in samples if content(s.world) not in scored), *options.training]


def _screened(
    answers: TrialAnswers,
    tried: Sequence[CandidateIntervention],
    decisions: int,
    options: UseOptions,
    tell: Tell,
) -> Use:
    tell(f"use: {len(tried)} interventions on {len(answers.trials[SCREEN])} cells")
    screened: list[tuple[CandidateIntervention, UseRow]] = []
    for number, candidate in enumerate(tried, start=1):
        if outcomes := answers.outcomes(candidate, SCREEN):
            row = row_of(candidate, outcomes)
            # Needed walls may occur only in decisions that were wrong before.
            if candidate.family != OPEN or row.needed.flips.n:
                screened.append((candidate, row))
        tell(f"use: screened {number} of {len(tried)}: {candidate.label}")
    able = [(candidate, row) for candidate, row in screened if not candidate.is_null]
    confirmed = []
    by_family: dict[str, CandidateIntervention] = {}
    for family in dict.fromkeys(candidate.family for candidate, _ in able):
        best = _best(answers, [entry for entry in able if entry[0].family == family])
        by_family[family] = best
        nulls = tuple(answers.row(null, CONFIRM) for null in best.nulls)
        confirmed.append(ConfirmedFamily(answers.row(best, CONFIRM), nulls))
        tell(f"use: confirmed {best.label}")
    best = _best(answers, [entry for entry in able if entry[0].family != OPEN])
    doses = options.doses if WRITE in by_family else ()
    return Use(
        model=answers.network.name,
        salt=options.salt,
        decisions=decisions,
        screened=tuple(row for _, row in screened),
        confirmed=answers.row(best, CONFIRM),
        nulls=tuple(answers.row(null, CONFIRM) for null, _ in screened if null.is_null),
        outcomes=tuple(answers.outcomes(best, CONFIRM)),
        outcomes_of_screen=tuple(answers.outcomes(best, SCREEN)),
        families=tuple(confirmed),
        doses=tuple(_dose_row(answers, by_family[WRITE], dose) for dose in doses),
    )


def _best(
    answers: TrialAnswers, screened: Sequence[tuple[CandidateIntervention, UseRow]]
) -> CandidateIntervention:
    """The best candidate on the first half; directions count beyond random ones of equal norm."""

    def merit(row: UseRow) -> float:
        """Moves as if the cell were changed, minus flips where the cell does not matter."""
        worth = row.needed.as_if_changed.value - row.unneeded.flips.value
        return worth if np.isfinite(worth) else -1.0

    best, most = screened[0][0], -np.inf
    # In falling order, so that no null is tried that could not change the choice any more.
    for candidate, row in sorted(screened, key=lambda entry: -merit(entry[1])):
        worth = merit(row)
        if worth <= most:
            break
        if candidate.family in DIRECTED:
            null = candidate.nulls[0]
            worth -= row_of(null, answers.outcomes(null, SCREEN)).needed.flips.value
        if worth > most:
            best, most = candidate, worth
    return best


def _dose_row(answers: TrialAnswers, write: CandidateIntervention, dose: float) -> DoseRow:
    """A write at another dose; where a random direction flips as much, it is only the strength."""
    assert write.dosed is not None
    dosed = write.dosed(dose)
    ours, random = (
        row_of(each, answers.outcomes(each, CONFIRM)).needed for each in (dosed, dosed.nulls[0])
    )
    return DoseRow(
        dosed.name, dosed.layer, dosed.position, dose, ours.flips, random.flips, ours.unreadable
    )
