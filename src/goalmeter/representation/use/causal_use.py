"""Test whether a model uses a cell: screened on half of the grids, confirmed on the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, whole
from goalmeter.gridworld.world import content
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located, Sample
from goalmeter.representation.result_rows import DoseRow
from goalmeter.representation.use.answers import Asking, keeping, walls_of
from goalmeter.representation.use.directions import TURN, Learnt, TargetCell, Writing, writings
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
    Candidate,
    Outcome,
    UseRow,
    Wanted,
    candidates,
    drawn,
    half_of,
    needed_of,
    row_of,
    trials_of,
)
from goalmeter.runs.progress import Tell

# --- Doses ----------------------------------------------------------------------------------------
# A direction that matters flips moves at doses at which a random one as long does not. Where the
# two come together, the write is no longer about the cell: anything so large would break the
# answer.


def dose_row(asking: Asking, candidate: Candidate, dose: float) -> DoseRow:
    """A write at another dose, on the confirm half.

    Args:
        asking: the model and its trials.
        candidate: a write.
        dose: in gaps between walls and open cells.
    """
    if candidate.dosed is None:
        raise InvalidParameterError(f"{candidate.label} has no dose, expected a write")
    dosed = candidate.dosed(dose)
    needed, random = (
        row_of(each, asking.outcomes(each, CONFIRM)).needed for each in (dosed, dosed.nulls[0])
    )
    return DoseRow(
        dosed.name,
        dosed.layer,
        dosed.position,
        dose,
        needed.flips,
        random.flips,
        needed.unreadable,
    )


# --- Causal use -----------------------------------------------------------------------------------
# The published position of a map, the end of the prompt, need not be where it is used: it decodes
# there almost perfectly from our mouse, and replacing it changes no move. So every intervention is
# tried at every layer on one half; the best is chosen, and only what it does on the other half is a
# result, beside cells that no shortest way needs and beside interventions of which nothing is
# expected.

# Cells are said not to be used where at most so many moves flip, by the end of the interval.
MARGIN = 0.25
USED, NOT_USED, UNKNOWN = "used", "not used", "cannot be told"


@dataclass(frozen=True)
class Confirmed:
    """An intervention that did best among its kind on the first half, on the second half.

    Attributes:
        row: what it did.
        nulls: what differs from it in one thing only did.
    """

    row: UseRow
    nulls: tuple[UseRow, ...]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"row": self.row.to_json(), "nulls": [null.to_json() for null in self.nulls]}


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
        outcomes: of the confirmed intervention on the second half, one a decision and cell.
        outcomes_of_screen: of the same intervention on the first half.
        families: the best knock-out, patch, write, ablation and opening of the first half, each on
            the second and beside nulls that differ from it in one thing. Openings are of walls.
        doses: the best write on the second half, by dose.
    """

    model: str
    salt: str
    decisions: int
    screened: tuple[UseRow, ...]
    confirmed: UseRow
    nulls: tuple[UseRow, ...]
    outcomes: tuple[Outcome, ...]
    outcomes_of_screen: tuple[Outcome, ...] = ()
    families: tuple[Confirmed, ...] = ()
    doses: tuple[DoseRow, ...] = ()

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
            "families": [family.to_json() for family in self.families],
            "doses": [row.to_json() for row in self.doses],
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
            USED: "what it reads of needed cells is used",
            NOT_USED: "what it reads of needed cells is not used",
            UNKNOWN: "whether it uses what it reads of needed cells cannot be told",
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
    screen_cells: int | None = None,
    families: Sequence[str] = TRIED,
    training: Sequence[Sample] = (),
    turn: str = TURN,
    dose: float = DOSE,
    doses: Sequence[float] = (),
    draws: int = 0,
    temperature: float = 0.7,
    salt: str = "0",
    seed: int = 0,
    keep: str | Path | None = None,
    progress: Tell | None = None,
) -> Use:
    """Screen interventions on one half of the grids, and confirm the best on the other.

    Every answer is a real one: the network reads the prompt, reasons and answers again, at
    temperature 0, with and without the intervention. Directions to write along are learnt from the
    first half.

    Args:
        samples: decisions whose prompts are asked again.
        network: the model.
        layers: at which single layers interventions are tried; None for all.
        cells: which cells of a decision are of interest; None for all that are uncertain given
            their place. For an organism that does not see some rows, these rows and the others are
            two questions.
        per_decision: cells of each kind that are tried in a decision, drawn at random.
        screen_cells: needed cells that every intervention is screened on, and as many that are not
            needed, drawn from the first half; None for all. Screening takes most of the time, and
            intervals are of the second half alone, of which all cells are asked.
        families: which of `FAMILIES` are tried; "open" beside another one only, and where a needed
            wall is uncertain in both halves.
        training: more decisions to learn directions from, of grids that are in no second half.
        turn: how an answer says that its reasoning comes to a cell, with {row} and {column}.
        dose: of the writes that are screened, in gaps between walls and open cells.
        doses: at which the best write is tried on the second half.
        draws: answers a decision that are drawn with and without an intervention of the second
            half, for its effect in nats; 0 to draw none.
        temperature: of these draws.
        salt: of the split into halves.
        seed: of the draws.
        keep: a folder in which answers are kept, so that an interrupted screen goes on; None to
            keep none.
        progress: told now and then what is being tried.
    """
    every = range(len(network.blocks) + 1)
    wanted = network.check_layers(every if layers is None else layers)
    if set(families) <= {OPEN} or not set(families) <= set(FAMILIES):
        raise InvalidParameterError(
            f"families are {list(families)}, expected some of {', '.join(FAMILIES)}, and not open "
            f"alone"
        )
    whole(draws, "draws", least=0, most=1000)
    if screen_cells is not None:
        whole(screen_cells, "screen_cells", least=1, most=1_000_000)
    if bad := [each for each in (dose, *doses) if not 0.0 < each < float("inf")]:
        raise InvalidParameterError(f"a dose is {bad[0]!r}, expected a number above 0")
    # Located here, since every intervention asks where the tokens of these prompts stand.
    trials = {
        walls_of(half) if walls else half: [
            (Located(sample, network.local.tokenizer), target) for sample, target in listed
        ]
        for walls in ((False, True) if OPEN in families else (False,))
        for half, listed in trials_of(
            samples, HALVES, cells, per_decision, salt, seed, walls=walls
        ).items()
    }
    needed = {half for half, listed in trials.items() if any(cell.needed for _, cell in listed)}
    if empty := [half for half in HALVES if half not in needed]:
        raise InvalidParameterError(
            f"none of the decisions in the {empty[0]} half has an uncertain cell that every "
            f"shortest way needs; take more grids, or mazes of complexity 0.4 and above"
        )
    tried = set(families) - (set() if {walls_of(half) for half in HALVES} <= needed else {OPEN})
    learnt = _learnt_from(samples, training, salt)
    targets = needed_of(trials[SCREEN])
    if screen_cells is not None:
        trials |= {
            half: drawn(listed, screen_cells, seed)
            for half, listed in trials.items()
            if half in (SCREEN, walls_of(SCREEN))
        }
    asked = {"salt": salt, "seed": seed, "layers": list(wanted), "turn": turn}
    with keeping(keep, network, trials, learnt, asked) as store:
        asking = Asking(network, trials, store, draws, temperature, seed)
        directed = set(DIRECTED) & tried
        written = _written(asking, learnt, targets, wanted, turn) if directed else ()
        options = [
            candidate
            for candidate in candidates(
                network, layers=wanted, seed=seed, written=written, dose=dose
            )
            if candidate.family in tried
        ]
        return _screened(asking, options, len(samples), salt, doses, progress)


def _screened(
    asking: Asking,
    options: Sequence[Candidate],
    decisions: int,
    salt: str,
    doses: Sequence[float],
    progress: Tell | None,
) -> Use:
    tell = progress or (lambda text: None)
    tell(f"use: {len(options)} interventions on {len(asking.trials[SCREEN])} cells")
    screened = []
    for number, candidate in enumerate(options, start=1):
        if outcomes := asking.outcomes(candidate, SCREEN):
            row = row_of(candidate, outcomes)
            # Walls that are needed may be none but those of decisions that were wrong before.
            if candidate.family != OPEN or row.needed.flips.n:
                screened.append((candidate, row))
        tell(f"use: screened {number} of {len(options)}: {candidate.label}")
    able = [(candidate, row) for candidate, row in screened if not candidate.is_null]

    def best_of(*families: str) -> Candidate:
        return _best(asking, [entry for entry in able if entry[0].family in families])

    best = best_of(*(family for family in FAMILIES if family != OPEN))
    families = []
    for family in dict.fromkeys(candidate.family for candidate, _ in able):
        candidate = best_of(family)
        nulls = tuple(asking.row(null, CONFIRM) for null in candidate.nulls)
        families.append(Confirmed(asking.row(candidate, CONFIRM), nulls))
        tell(f"use: confirmed {candidate.label}")
    writes = [candidate for candidate, _ in able if candidate.family == WRITE]
    return Use(
        asking.network.name,
        salt,
        decisions,
        tuple(row for _, row in screened),
        asking.row(best, CONFIRM),
        tuple(asking.row(null, CONFIRM) for null, _ in screened if null.is_null),
        tuple(asking.outcomes(best, CONFIRM)),
        tuple(asking.outcomes(best, SCREEN)),
        tuple(families),
        tuple(dose_row(asking, best_of(WRITE), each) for each in doses) if writes else (),
    )


def _learnt_from(samples: Sequence[Sample], training: Sequence[Sample], salt: str) -> list[Sample]:
    """The decisions that directions are learnt from: none is of a grid of the second half."""
    judged = {content(s.world) for s in samples if half_of(s.world, salt) == CONFIRM}
    if bad := [sample.walk for sample in training if content(sample.world) in judged]:
        raise InvalidParameterError(
            f"training has {len(bad)} decisions in grids of the confirm half, first in "
            f"{bad[0]!r}; leave them out"
        )
    return [*(s for s in samples if content(s.world) not in judged), *training]


def _written(
    asking: Asking,
    samples: Sequence[Sample],
    targets: Mapping[str, Sequence[TargetCell]],
    layers: Sequence[int],
    turn: str,
) -> list[Writing]:
    """What can be written, learnt from answers that nothing has changed."""
    answers = asking.unchanged("learning", samples)
    learnt = [
        Learnt(
            Located(sample, asking.network.local.tokenizer),
            answer.tokens,
            tuple(targets.get(sample.digest, ())),
        )
        for sample, answer in zip(samples, answers, strict=True)
    ]
    return writings(asking.network, learnt, layers, turn=turn)


def _merit(row: UseRow) -> float:
    """What is screened for: moves as if the cell were changed, where that matters alone."""
    worth = row.needed.as_if_changed.value - row.unneeded.flips.value
    return worth if np.isfinite(worth) else -1.0


def _best(asking: Asking, screened: Sequence[tuple[Candidate, UseRow]]) -> Candidate:
    """What does best on the first half; of directions, beyond random ones as long.

    A large enough vector breaks any answer, and with it flips moves.
    """
    best, most = screened[0][0], -np.inf
    # The best first: no null is asked for that could not change the choice any more.
    for candidate, row in sorted(screened, key=lambda entry: -_merit(entry[1])):
        worth = _merit(row)
        if worth <= most:
            break
        if candidate.family in DIRECTED:
            null = row_of(candidate.nulls[0], asking.outcomes(candidate.nulls[0], SCREEN))
            worth -= null.needed.flips.value
        if worth > most:
            best, most = candidate, worth
    return best
