"""Test whether a model uses a cell: screen interventions on half of the grids, confirm on the rest.

A model need not use a map where it can be decoded: replacing it at the end of the prompt changes no
move of the mouse organism. So every intervention is tested at every layer on one half of the grids,
and only the effect of the best one on the other half is reported, compared with cells that no
shortest path needs and with null interventions.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, whole
from goalmeter._files import JsonFields, json_value
from goalmeter.gridworld.world import ACTIONS, Cell
from goalmeter.report.numbers import percent
from goalmeter.representation.network import Network
from goalmeter.representation.replay import ENDS_OF_REASONING, Located, Sample
from goalmeter.representation.result_rows import DoseRow, SpanRow
from goalmeter.representation.use import interventions, trials
from goalmeter.representation.use.directions import TURN, TrainingDecision, learn_directions
from goalmeter.representation.use.interventions import Intervention, When, WrittenText
from goalmeter.representation.use.trials import (
    CONFIRM,
    OPEN,
    SCREEN,
    Candidate,
    TrialAnswers,
    UseRow,
)
from goalmeter.runs.progress import Tell

# Cells are not used if the upper bound of the share of moves that flip is below this margin.
MARGIN = 0.25
USED, NOT_USED, UNKNOWN = "used", "not used", "inconclusive"


@dataclass(frozen=True)
class ConfirmedFamily(JsonFields):
    """Scores on the second half of a family's best intervention on the first, and of its nulls."""

    row: UseRow
    nulls: tuple[UseRow, ...]


@dataclass(frozen=True, eq=False)
class Use:
    """Effects of interventions on a model's representation of cells."""

    model: str  # name of the model
    salt: str  # salt of the split into halves
    decisions: int  # number of decisions repeated under interventions
    screened: tuple[UseRow, ...]  # all interventions on the first half
    confirmed: UseRow  # the best of them, on the second half
    nulls: tuple[UseRow, ...]  # interventions without an expected effect, on the second half
    outcomes: tuple[trials.TrialOutcome, ...]  # outcomes of the best one on the second half
    outcomes_of_screen: tuple[trials.TrialOutcome, ...] = ()  # its outcomes on the first half
    families: tuple[ConfirmedFamily, ...] = ()  # the best of each family, on the second half
    doses: tuple[DoseRow, ...] = ()  # the best write on the second half, by dose

    @property
    def verdict(self) -> str:
        """Conclusion from the interval of the flips at needed cells of the second half."""
        flips = self.confirmed.needed.flips.interval
        controls = [self.confirmed.unneeded.flips, *(null.needed.flips for null in self.nulls)]
        ends = [each.interval[1] if each.interval is not None else 1.0 for each in controls]
        if flips is not None and flips[0] > max(ends):
            return USED
        return NOT_USED if flips is not None and flips[1] < MARGIN else UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, without single outcomes."""
        fields = {name: v for name, v in vars(self).items() if not name.startswith("outcomes")}
        return {**json_value(fields), "verdict": self.verdict}

    def __str__(self) -> str:
        def line(row: UseRow) -> str:
            needed, unneeded = row.needed.flips, row.unneeded.flips
            flipped = f"{percent(needed.value)} of moves flip at needed cells"
            where = f"{row.intervention} at layer {row.layer}"
            return f"{where}: {flipped}, {percent(unneeded.value)} at unneeded ones"

        subject = "its representation of needed cells"
        head = f"{subject} is {self.verdict}"
        if self.verdict == UNKNOWN:
            head = f"whether it uses {subject} is inconclusive"
        return "\n".join([f"{self.model}: {head}", *map(line, (self.confirmed, *self.nulls))])


@dataclass(frozen=True)
class UseOptions:
    """Options of `causal_use`."""

    layers: Sequence[int] | None = None  # single layers to test; None for all
    cells: trials.CellFilter = None  # cells of a decision to test; None for all uncertain ones
    # Number of needed cells, and of unneeded ones, drawn from the first half for screening; None
    # for all. All cells of the second half are tested.
    screen_cells: int | None = None
    # Names from `FAMILIES`; "open" needs another one, and a needed uncertain wall in both halves.
    families: Sequence[str] = trials.TRIED
    turn: str = TURN  # text with which reasoning turns to a cell, with {row} and {column}
    dose: float = trials.DOSE  # dose of screened writes, in gaps between walls and open cells
    doses: Sequence[float] = ()  # doses at which the best write is tested on the second half
    draws: int = 0  # sampled answers per decision for effects in nats; 0 for none
    salt: str = "0"  # salt of the split into halves
    seed: int = 0  # random seed

    def __post_init__(self) -> None:
        families = set(self.families)
        if families <= {OPEN} or not families <= set(trials.FAMILIES):
            raise InvalidParameterError(
                f"families are {list(self.families)}, expected names from "
                f"{', '.join(trials.FAMILIES)}, not only open"
            )
        whole(self.draws, "draws", least=0, most=1000)
        if self.screen_cells is not None:
            whole(self.screen_cells, "screen_cells", least=1, most=1_000_000)
        if bad := [each for each in (self.dose, *self.doses) if not 0.0 < each < float("inf")]:
            raise InvalidParameterError(f"a dose is {bad[0]!r}, expected a number above 0")


def causal_use(
    samples: Sequence[Sample],
    network: Network,
    *,
    keep: str | Path | None = None,
    progress: Tell | None = None,
    **fields: Any,
) -> Use:
    """Screen interventions on one half of the grids and confirm the best on the other.

    The network reads each prompt, reasons and answers again at temperature 0, with and without the
    intervention.

    `fields` are those of `UseOptions`. Answers are stored in the directory `keep`, so that an
    interrupted screen can be resumed.
    """
    options = UseOptions(**fields)
    tokenizer, salt, seed = network.local.tokenizer, options.salt, options.seed
    all_layers = range(len(network.blocks) + 1)
    layers = network.check_layers(all_layers if options.layers is None else options.layers)
    draw = partial(trials.trials_of, samples, tokenizer, salt, seed, options.cells)
    listed = draw(walls=False) | (draw(walls=True) if OPEN in options.families else {})
    needed = {half for half, of_half in listed.items() if any(cell.needed for _, cell in of_half)}
    for half in trials.HALVES:
        if half not in needed:
            raise _no_needed_cell(half)
    families = set(options.families)
    if not {half + trials.WALLS for half in trials.HALVES} <= needed:
        families -= {OPEN}
    # Directions are learnt on the first half.
    training = [sample for sample in samples if trials.half_of(sample.world, salt) == SCREEN]
    targets: dict[str, list[Any]] = {}
    for located, target in listed[SCREEN]:
        if target.needed:
            targets.setdefault(located.sample.digest, []).append(target)
    if options.screen_cells is not None:
        for half in {SCREEN, SCREEN + trials.WALLS} & set(listed):
            listed[half] = trials.drawn(listed[half], options.screen_cells, seed)
    what = {"salt": salt, "seed": seed, "layers": list(layers), "turn": options.turn}
    with trials.answer_store(keep, network, listed, training, what) as stage:
        answers, decisions = TrialAnswers(network, listed, stage, options.draws, seed), []
        if families & set(trials.DIRECTED):
            known = zip(training, answers.unchanged("learning", training), strict=True)
            for sample, answer in known:
                located, of_sample = Located(sample, tokenizer), targets.get(sample.digest, ())
                decisions.append(TrainingDecision(located, answer.tokens, tuple(of_sample)))
        kinds = learn_directions(network, decisions, layers, options.turn)
        available = trials.candidates(network, layers, seed, kinds, options.dose)
        chosen = [candidate for candidate in available if candidate.family in families]
        return _screened(answers, chosen, len(samples), options, progress or (lambda text: None))


def _no_needed_cell(half: str) -> InvalidParameterError:
    return InvalidParameterError(
        f"none of the decisions in the {half} half has an uncertain cell on every shortest path; "
        f"use more grids, or mazes of complexity 0.4 or more"
    )


def _screened(
    answers: TrialAnswers, tried: list[Candidate], decisions: int, options: UseOptions, tell: Tell
) -> Use:
    tell(f"use: {len(tried)} interventions on {len(answers.trials[SCREEN])} cells")
    screened: list[tuple[Candidate, UseRow]] = []
    for number, candidate in enumerate(tried, start=1):
        if outcomes := answers.outcomes(candidate, SCREEN):
            row = trials.row_of(candidate, outcomes)
            # All needed walls may occur in decisions that were wrong before.
            if candidate.family != OPEN or row.needed.flips.n:
                screened.append((candidate, row))
        tell(f"use: screened {number} of {len(tried)}: {candidate.label}")
    active = [(candidate, row) for candidate, row in screened if not candidate.null]
    confirmed = []
    by_family: dict[str, Candidate] = {}
    for family in dict.fromkeys(candidate.family for candidate, _ in active):
        best = _best(answers, [entry for entry in active if entry[0].family == family])
        by_family[family] = best
        nulls = tuple(answers.row(null, CONFIRM) for null in best.nulls)
        confirmed.append(ConfirmedFamily(answers.row(best, CONFIRM), nulls))
        tell(f"use: confirmed {best.label}")
    best = _best(answers, [entry for entry in active if entry[0].family != OPEN])
    doses = []
    for dose in options.doses if trials.WRITE in by_family else ():
        write = replace(by_family[trials.WRITE], dose=dose)
        # If a random direction flips as many moves, the effect is due to the norm alone.
        both = [trials.row_of(c, answers.outcomes(c, CONFIRM)) for c in (write, write.nulls[0])]
        ours, random = (row.needed for row in both)
        place = write.name, write.layer, write.position
        doses.append(DoseRow(*place, dose, ours.flips, random.flips, ours.unreadable))
    return Use(
        model=answers.network.name,
        salt=options.salt,
        decisions=decisions,
        screened=tuple(row for _, row in screened),
        confirmed=answers.row(best, CONFIRM),
        nulls=tuple(answers.row(null, CONFIRM) for null, _ in screened if null.null),
        outcomes=tuple(answers.outcomes(best, CONFIRM)),
        outcomes_of_screen=tuple(answers.outcomes(best, SCREEN)),
        families=tuple(confirmed),
        doses=tuple(doses),
    )


def _best(answers: TrialAnswers, screened: Sequence[tuple[Candidate, UseRow]]) -> Candidate:
    """Return the best candidate on the first half; directions are compared with random ones."""

    def merit(row: UseRow) -> float:
        """Return moves as if the cell were changed minus flips at cells that do not matter."""
        worth = row.needed.as_if_changed.value - row.unneeded.flips.value
        return worth if np.isfinite(worth) else -1.0

    best, most = screened[0][0], -np.inf
    # Descending order avoids nulls that cannot change the choice.
    for candidate, row in sorted(screened, key=lambda entry: -merit(entry[1])):
        worth = merit(row)
        if worth <= most:
            break
        if candidate.family in trials.DIRECTED:
            null = candidate.nulls[0]
            worth -= trials.row_of(null, answers.outcomes(null, SCREEN)).needed.flips.value
        if worth > most:
            best, most = candidate, worth
    return best


# --- Look-ups -------------------------------------------------------------------------------------
# prompt      tokens of the prompt; the last one predicts the first token of the answer
# before      reasoning before the first mention of the cell
# neighbours  steps about a neighbour of the cell
# own         steps about the cell
# behind      other reasoning after the first mention of the cell
# plan        from a "plan" that is followed only by cells and moves
# answer      after the end of the reasoning, or the action of an answer without reasoning
#
# Each token lies in exactly one span. A step of the reasoning begins after the end of a sentence or
# line, or with a cell followed by a colon (as in the searches of model organisms); it is about the
# first cell that it mentions. Spans are determined while the text is generated: a changed answer
# may mention a cell later or never.
SPANS = ("prompt", "before", "neighbours", "own", "behind", "plan", "answer")
PROMPT, BEFORE, NEIGHBOURS, OWN, BEHIND, PLAN, ANSWER = SPANS
ANSWERING = "answering"  # all of them except the prompt
_NAMES = (*SPANS, ANSWERING)
_CELL = re.compile(r"(?<![\d,])\(?(\d+)\s*,\s*(\d+)(?!\d)")
_TURN = r"(?<![\d,(])\(?\d+\s*,\s*\d+\)?\s*:"
_STEP = re.compile(rf"(?<=[.!?])\s+|\n+\s*|(?={_TURN})")
_ACTION = re.compile(r'\{\s*"action"')
# A move may span several tokens, of which only the first are present.
_BEGUN = r"(?:U|D|DO|DOW|L|LE|LEF|R|RI|RIG|RIGH)?"
_PLAN = re.compile(rf"\bplan\b(?:\W|\d|UP\b|DOWN\b|LEFT\b|RIGHT\b)*{_BEGUN}$", re.IGNORECASE)


@dataclass(frozen=True)
class DuringSpan:
    """Condition that a token of an answer lies in a span of a cell."""

    cell: Cell
    span: str

    def __call__(self, written: WrittenText) -> bool:
        """Return whether the current token lies in the span."""
        return span_at(written.text, self.cell) == self.span


def span_at(text: str, cell: Cell) -> str:
    """Return the span of a cell in which the last token of a text lies."""
    part, subject, named = _read(text)
    if part:
        return part
    if subject == cell:
        return OWN
    if subject in [cell.moved(action) for action in range(len(ACTIONS))]:
        return NEIGHBOURS
    return BEHIND if cell in named else BEFORE


# All conditions of a row are evaluated on the same text.
@lru_cache(maxsize=1024)
def _read(text: str) -> tuple[str, Cell | None, list[Cell]]:
    """Return the part ("plan", "answer" or ""), the current step's first cell, and all cells."""
    part = PLAN if _PLAN.search(text) else ""
    if _ACTION.search(text) or any(end in text for end in ENDS_OF_REASONING):
        part = ANSWER
    *_, begin = (0, *(match.end() for match in _STEP.finditer(text)))
    first = _CELL.search(text, begin)
    subject = Cell(int(first[1]), int(first[2])) if first else None
    return part, subject, [Cell(int(row), int(column)) for row, column in _CELL.findall(text)]


def spans_of(ids: Sequence[int], tokenizer: Any, cell: Cell) -> set[str]:
    """Return the spans of a cell that occur in an answer; the prompt is always one of them."""
    written, found = WrittenText(tokenizer), {PROMPT, ANSWERING}
    for token in ids:
        written.ids.append(token)
        found.add(span_at(written.text, cell))
    return found


def span_candidates(network: Network, seed: int = 0) -> list[Candidate]:
    """Return a knock-out of a cell for each span; the nulls hide a random other cell."""
    blocks, out = range(1, len(network.blocks) + 1), []

    def span_of(name: str, cell: Cell) -> tuple[bool, When]:
        if name == PROMPT:
            return True, interventions.never
        if name == ANSWERING:
            return False, interventions.always
        return False, DuringSpan(cell, name)

    for name in _NAMES:
        full, span = f"{trials.KNOCK_OUT}, {name}", partial(span_of, name)
        out.append(trials.hidden_cell(full, blocks, seed, trials.ALL, span))
    return out


def look_ups(
    samples: Sequence[Sample],
    network: Network,
    *,
    salt: str = "0",
    seed: int = 0,
    keep: str | Path | None = None,
    progress: Tell | None = None,
) -> tuple[SpanRow, ...]:
    """Hide needed cells from one span at a time, in all blocks, on the second half of the grids."""
    tokenizer = network.local.tokenizer
    # No span is selected, so the first half is not needed.
    listed = trials.trials_of(samples, tokenizer, salt, seed, None, walls=False)[CONFIRM]
    needed = {CONFIRM: [trial for trial in listed if trial[1].needed]}
    if not needed[CONFIRM]:
        raise _no_needed_cell(CONFIRM)
    what, rows = {"salt": salt, "seed": seed, "spans": list(_NAMES)}, []
    with trials.answer_store(keep, network, needed, (), what) as stage:
        answers = TrialAnswers(network, needed, stage, seed=seed)
        # A cell counts only in spans that occur in its unchanged answer.
        bases = answers.sweep(CONFIRM).bases
        spans = {
            (located.sample.digest, target.cell): spans_of(base.tokens, tokenizer, target.cell)
            for (located, target), base in zip(needed[CONFIRM], bases, strict=True)
        }

        def in_span(
            span: str, make: Any, candidate: Candidate, located: Located, cell: Cell
        ) -> Intervention | None:
            has_span = span in spans[located.sample.digest, cell]
            return make(candidate, located, cell) if has_span else None

        for span, candidate in zip(_NAMES, span_candidates(network, seed), strict=True):
            hidden = replace(candidate, make=partial(in_span, span, candidate.make))
            ours, other = (answers.row(each, CONFIRM).needed for each in (hidden, *hidden.nulls))
            effects = ours.flips, ours.as_if_changed, ours.unreadable, other.flips
            rows.append(SpanRow(CONFIRM, span, ours.flips.n, *effects))
            if progress is not None:
                progress(f"use: hidden from {span}: {ours.flips.n} cells")
    return tuple(rows)
