"""Test when a model looks up a cell: attention to it is closed for one span of the answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.world import MOVES, Cell
from goalmeter.representation.network import Network
from goalmeter.representation.replay import ENDS_OF_REASONING, Located, Sample
from goalmeter.representation.use.answers import Asking, keeping
from goalmeter.representation.use.interventions import Intervention, Span, Written, knock_out, never
from goalmeter.representation.use.trials import (
    ALL,
    CONFIRM,
    KNOCK_OUT,
    Candidate,
    UseRow,
    another_cell,
    trials_of,
)
from goalmeter.runs.progress import Tell

# --- Spans ----------------------------------------------------------------------------------------
# prompt      the prompt's own tokens, the last of which writes the first of the answer
#     before      the reasoning, until the cell is named in it for the first time
#     neighbours  the steps that are about a neighbour of the cell
#     own         the steps that are about the cell: it has its turn
#     behind      what else is reasoned once the cell has been named
#     plan        from a "plan" behind which stand only cells and moves
#     answer      behind the end of the reasoning, or where the action is written without any
#
# A token lies in one of them: knocking a cell out for all is knocking it out. A step of the
# reasoning begins behind the end of a sentence or a line, and with a cell that has a colon, as in
# the searches of our organisms, which know no sentences; it is about the first cell that it
# names. All of it is read off the words, while they are written: an answer that has been changed
# comes to a cell later, or never. (So a name that takes several tokens has its turn from the
# colon on.)
#
# Of an answer that is known, `steps_of` gives the steps by number. Reasoning without any of these
# marks is cut into equal shares.

PROMPT, BEFORE, NEIGHBOURS, OWN, BEHIND, PLAN, ANSWER = (
    "prompt",
    "before",
    "neighbours",
    "own",
    "behind",
    "plan",
    "answer",
)
SPANS = (PROMPT, BEFORE, NEIGHBOURS, OWN, BEHIND, PLAN, ANSWER)
ANSWERING = "answering"  # all of them but the prompt
SHARES = 4  # of reasoning that has no steps
_CELL = re.compile(r"(?<![\d,])\(?(\d+)\s*,\s*(\d+)(?!\d)")
_TURN = r"(?<![\d,(])\(?\d+\s*,\s*\d+\)?\s*:"
# A step begins behind the end of a sentence or a line, or where a cell has a colon.
_STEP = re.compile(rf"(?<=[.!?])\s+|\n+\s*|(?={_TURN})")
_ACTION = re.compile(r'\{\s*"action"')
# A move may be cut into several tokens, so that its beginning stands at the end.
_BEGUN = r"(?:U|D|DO|DOW|L|LE|LEF|R|RI|RIG|RIGH)?"
_PLAN = re.compile(rf"\bplan\b(?:\W|\d|UP\b|DOWN\b|LEFT\b|RIGHT\b)*{_BEGUN}$", re.IGNORECASE)


@dataclass(frozen=True)
class Step:
    """Some tokens of an answer in a row.

    Attributes:
        name: "step 1", "step 2", ...; "plan"; "answer".
        first: number of its first token in the answer.
        last: number of the token behind it.
    """

    name: str
    first: int
    last: int


def steps_of(ids: Sequence[int], tokenizer: Any) -> tuple[Step, ...]:
    """An answer cut into the steps of its reasoning, its plan and what it answers.

    Args:
        ids: of the answer's tokens.
        tokenizer: of transformers.

    Returns:
        Steps that follow each other without gaps. An answer that was cut has no "answer"; one
        without reasoning has nothing else.
    """
    written = Written(tokenizer)
    parts, ends = [], []
    for token in ids:
        written.append(token)
        parts.append(_part(written.text))
        ends.append(len(written.text))
    # Who says "I plan to" goes on reasoning, which shows only later.
    last = max((place for place, part in enumerate(parts) if not part), default=-1)
    parts[: last + 1] = [""] * (last + 1)
    begins = [match.end() for match in _STEP.finditer(written.text)]
    numbers = [
        part or 1 + sum(begin < end for begin in begins)
        for part, end in zip(parts, ends, strict=True)
    ]
    thinking = [number for number in numbers if isinstance(number, int)]
    if thinking and len(set(thinking)) == 1:
        size = -(-len(thinking) // SHARES)
        numbers[: len(thinking)] = [1 + place // size for place in range(len(thinking))]
    # Steps that have no token of their own are not counted.
    steps: list[Step] = []
    reasoned = 0
    for place, number in enumerate(numbers):
        if place and number == numbers[place - 1]:
            steps[-1] = Step(steps[-1].name, steps[-1].first, place + 1)
            continue
        reasoned += isinstance(number, int)
        name = f"step {reasoned}" if isinstance(number, int) else number
        steps.append(Step(name, place, place + 1))
    return tuple(steps)


@dataclass(frozen=True)
class DuringSpan:
    """The tokens of an answer that lie in a span of a cell; a condition on what is written.

    Attributes:
        cell: whose.
        span: its name.
    """

    cell: Cell
    span: str

    def __call__(self, written: Written) -> bool:
        """Whether the token that is being read lies in the span."""
        return span_at(written.text, self.cell) == self.span


def span_at(text: str, cell: Cell) -> str:
    """The span of a cell in which the last token of what was written so far lies."""
    part = _part(text)
    if part:
        return part
    about = _subject(text)
    if about == cell:
        return OWN
    if about in {cell.moved(action) for action in range(len(MOVES))}:
        return NEIGHBOURS
    return BEHIND if cell in _named(text) else BEFORE


def span_of(name: str, cell: Cell) -> Span:
    """The tokens of a named span of a cell, for `knock_out`."""
    return Span(True, never) if name == PROMPT else Span(False, DuringSpan(cell, name))


def spans_met(ids: Sequence[int], tokenizer: Any, cell: Cell) -> frozenset[str]:
    """The spans of a cell in which some tokens of an answer lie; one of them is the prompt."""
    written = Written(tokenizer)
    met = {PROMPT, ANSWERING}
    for token in ids:
        written.append(token)
        met.add(span_at(written.text, cell))
    return frozenset(met)


def span_candidates(network: Network, seed: int = 0) -> list[Candidate]:
    """Knocking a cell out in all blocks for one span at a time, and for all but the prompt.

    The last of them says whether the tokens of the prompt have to read the cell at all. The null of
    each hides another cell, drawn by a seed, from the same tokens.
    """
    every = range(1, len(network.blocks) + 1)
    other = another_cell(seed)

    def knocking(name: str, *, is_null: bool) -> Candidate:
        def make(located: Located, cell: Cell) -> Intervention | None:
            hidden = other(located, cell) if is_null else cell
            tokens = located.cell(hidden) if hidden is not None else ()
            span = Span(False) if name == ANSWERING else span_of(name, cell)
            return knock_out(tokens, every, span) if tokens else None

        nulls = () if is_null else (knocking(name, is_null=True),)
        label = f"{KNOCK_OUT}, {name}" + ", other" * is_null
        return Candidate(label, ALL, "pre/cell", is_null, make, nulls=nulls)

    return [knocking(name, is_null=False) for name in (*SPANS, ANSWERING)]


# Every condition of a row asks about the same words.
@lru_cache(maxsize=1024)
def _part(text: str) -> str:
    """Whether the plan or the answer is being written; empty during the reasoning."""
    if _ACTION.search(text) or any(end in text for end in ENDS_OF_REASONING):
        return ANSWER
    return PLAN if _PLAN.search(text) else ""


@lru_cache(maxsize=1024)
def _subject(text: str) -> Cell | None:
    """The first cell that is named in the step that is being written."""
    begins = [match.end() for match in _STEP.finditer(text)]
    first = _CELL.search(text, begins[-1] if begins else 0)
    return Cell(int(first[1]), int(first[2])) if first else None


@lru_cache(maxsize=1024)
def _named(text: str) -> frozenset[Cell]:
    return frozenset(Cell(int(row), int(column)) for row, column in _CELL.findall(text))


# --- Look ups -------------------------------------------------------------------------------------
# Nothing is chosen here, so only the half of the grids that confirms is asked. A span that the
# unchanged answer does not have would change nothing, and says nothing of when the cell is
# needed: so a cell counts in the spans only that the unchanged answer has.

# The spans that an answer has, by the digest of its question and the cell.
Met = Mapping[tuple[str, Cell], frozenset[str]]


@dataclass(frozen=True)
class LookUp:
    """Needed cells that were hidden from one span.

    Attributes:
        span: its name, one of `SPANS` or "answering".
        row: what became of the moves.
        other: the same where another cell was hidden from the same tokens.
    """

    span: str
    row: UseRow
    other: UseRow


def look_ups(
    samples: Sequence[Sample],
    network: Network,
    *,
    salt: str = "0",
    seed: int = 0,
    keep: str | Path | None = None,
    progress: Tell | None = None,
) -> tuple[LookUp, ...]:
    """Hide needed cells from one span at a time, in all blocks, on the half that confirms.

    Args:
        samples: decisions whose prompts are asked again.
        network: the model.
        salt: of the split into halves.
        seed: of the draws of cells.
        keep: a folder in which answers are kept, so that an interrupted process goes on.
        progress: told now and then what is being tried.
    """
    tokenizer = network.local.tokenizer
    trials = [
        (Located(sample, tokenizer), target)
        for sample, target in trials_of(samples, [CONFIRM], None, 1, salt, seed)[CONFIRM]
        if target.needed
    ]
    if not trials:
        raise InvalidParameterError(
            f"none of the decisions in the {CONFIRM} half has an uncertain cell that every "
            f"shortest way needs; take more grids, or mazes of complexity 0.4 and above"
        )
    tell = progress or (lambda text: None)
    asked = {"salt": salt, "seed": seed, "spans": [*SPANS, ANSWERING]}
    with keeping(keep, network, {CONFIRM: trials}, (), asked) as store:
        asking = Asking(network, {CONFIRM: trials}, store, seed=seed)
        met = {
            (located.sample.digest, target.cell): spans_met(base.tokens, tokenizer, target.cell)
            for (located, target), base in zip(trials, asking.bases(CONFIRM), strict=True)
        }
        listed = []
        for span, candidate in zip(
            (*SPANS, ANSWERING), span_candidates(network, seed), strict=True
        ):
            row, other = (
                asking.row(_where_met(each, span, met), CONFIRM)
                for each in (candidate, *candidate.nulls)
            )
            listed.append(LookUp(span, row, other))
            tell(f"use: hidden from {span}: {row.needed.flips.n} cells")
    return tuple(listed)


def _where_met(candidate: Candidate, span: str, met: Met) -> Candidate:
    def make(located: Located, cell: Cell) -> Intervention | None:
        has_span = span in met[located.sample.digest, cell]
        return candidate.make(located, cell) if has_span else None

    return replace(candidate, make=make)
