"""Test when a model looks up a cell: attention to it is masked for one span of the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from goalmeter.gridworld.world import MOVES, Cell
from goalmeter.representation.network import Network
from goalmeter.representation.replay import ENDS_OF_REASONING, Located, Sample
from goalmeter.representation.result_rows import SpanRow
from goalmeter.representation.use.answers import TrialAnswers, answer_store
from goalmeter.representation.use.causal_use import no_needed_cell
from goalmeter.representation.use.interventions import Intervention, TokenSpan, WrittenText, never
from goalmeter.representation.use.trials import (
    ALL,
    CONFIRM,
    KNOCK_OUT,
    CandidateIntervention,
    MoveEffect,
    hidden_cell,
    trials_of,
)
from goalmeter.runs.progress import Tell

# prompt      the prompt's own tokens, the last of which writes the first of the answer
# before      the reasoning, until the cell is named in it for the first time
# neighbours  the steps that are about a neighbour of the cell
# own         the steps that are about the cell
# behind      other reasoning once the cell has been named
# plan        from a "plan" after which there are only cells and moves
# answer      after the end of the reasoning, or where the action is written without any
#
# A token lies in exactly one of them. A step of the reasoning begins after the end of a sentence or
# a line, and with a cell that has a colon, as in the searches of our organisms; it is about the
# first cell that it names. Spans are determined from the text while it is written: a changed answer
# comes to a cell later, or never.
SPANS = ("prompt", "before", "neighbours", "own", "behind", "plan", "answer")
PROMPT, BEFORE, NEIGHBOURS, OWN, BEHIND, PLAN, ANSWER = SPANS
ANSWERING = "answering"  # all of them except the prompt
_NAMES = (*SPANS, ANSWERING)
_CELL = re.compile(r"(?<![\d,])\(?(\d+)\s*,\s*(\d+)(?!\d)")
_TURN = r"(?<![\d,(])\(?\d+\s*,\s*\d+\)?\s*:"
_STEP = re.compile(rf"(?<=[.!?])\s+|\n+\s*|(?={_TURN})")
_ACTION = re.compile(r'\{\s*"action"')
# A move may be cut into several tokens, so that only its beginning is there.
_BEGUN = r"(?:U|D|DO|DOW|L|LE|LEF|R|RI|RIG|RIGH)?"
_PLAN = re.compile(rf"\bplan\b(?:\W|\d|UP\b|DOWN\b|LEFT\b|RIGHT\b)*{_BEGUN}$", re.IGNORECASE)


@dataclass(frozen=True)
class DuringSpan:
    """The tokens of an answer that lie in a span of a cell."""

    cell: Cell
    span: str

    def __call__(self, written: WrittenText) -> bool:
        """Whether the token that is being read lies in the span."""
        return span_at(written.text, self.cell) == self.span


def span_at(text: str, cell: Cell) -> str:
    """Return the span of a cell in which the last token of a text lies."""
    if part := _part(text):
        return part
    subject = _subject(text)
    if subject == cell:
        return OWN
    if subject in {cell.moved(action) for action in range(len(MOVES))}:
        return NEIGHBOURS
    return BEHIND if cell in _named(text) else BEFORE


def spans_of(ids: Sequence[int], tokenizer: Any, cell: Cell) -> frozenset[str]:
    """Return the spans of a cell that occur in an answer; the prompt is always one of them."""
    written = WrittenText(tokenizer)
    met = {PROMPT, ANSWERING}
    for token in ids:
        written.append(token)
        met.add(span_at(written.text, cell))
    return frozenset(met)


def span_candidates(network: Network, seed: int = 0) -> list[CandidateIntervention]:
    """Return the knock-outs of a cell for each span; their nulls hide a random other cell."""

    def span_of(name: str, cell: Cell) -> TokenSpan:
        if name == PROMPT:
            return TokenSpan(True, never)
        return TokenSpan(False) if name == ANSWERING else TokenSpan(False, DuringSpan(cell, name))

    blocks = range(1, len(network.blocks) + 1)
    return [
        hidden_cell(f"{KNOCK_OUT}, {name}", ALL, blocks, seed, partial(span_of, name))
        for name in _NAMES
    ]


# All conditions of a row are evaluated on the same text.
@lru_cache(maxsize=1024)
def _part(text: str) -> str:
    """The plan or the answer if it is being written; empty during the reasoning."""
    if _ACTION.search(text) or any(end in text for end in ENDS_OF_REASONING):
        return ANSWER
    return PLAN if _PLAN.search(text) else ""


@lru_cache(maxsize=1024)
def _subject(text: str) -> Cell | None:
    """The first cell that is named in the current step."""
    begins = [match.end() for match in _STEP.finditer(text)]
    first = _CELL.search(text, begins[-1] if begins else 0)
    return Cell(int(first[1]), int(first[2])) if first else None


@lru_cache(maxsize=1024)
def _named(text: str) -> frozenset[Cell]:
    return frozenset(Cell(int(row), int(column)) for row, column in _CELL.findall(text))


def look_ups(
    samples: Sequence[Sample],
    network: Network,
    *,
    salt: str = "0",
    seed: int = 0,
    keep: str | Path | None = None,
    progress: Tell | None = None,
) -> tuple[SpanRow, ...]:
    """Hide needed cells from one span at a time, in all blocks, on the second half of the grids.

    Nothing is chosen, so the first half is not needed. A cell counts only in spans that occur in
    its unchanged answer. Answers are stored in `keep`, so that an interrupted process is resumed.
    """
    tokenizer = network.local.tokenizer
    listed = trials_of(samples, tokenizer, salt=salt, seed=seed)[CONFIRM]
    trials = {CONFIRM: [trial for trial in listed if trial[1].needed]}
    if not trials[CONFIRM]:
        raise no_needed_cell(CONFIRM)
    what = {"salt": salt, "seed": seed, "spans": list(_NAMES)}
    with answer_store(keep, network, trials, (), what) as store:
        answers = TrialAnswers(network, trials, store, seed=seed)
        spans = {
            (located.sample.digest, target.cell): spans_of(base.tokens, tokenizer, target.cell)
            for (located, target), base in zip(
                trials[CONFIRM], answers.sweep(CONFIRM).bases, strict=True
            )
        }

        def in_span(candidate: CandidateIntervention, span: str) -> MoveEffect:
            def make(located: Located, cell: Cell) -> Intervention | None:
                has_span = span in spans[located.sample.digest, cell]
                return candidate.make(located, cell) if has_span else None

            return answers.row(replace(candidate, make=make), CONFIRM).needed

        rows = []
        for span, candidate in zip(_NAMES, span_candidates(network, seed), strict=True):
            ours, other = (in_span(each, span) for each in (candidate, *candidate.nulls))
            cells = ours.flips.n
            rows.append(
                SpanRow(
                    half=CONFIRM,
                    span=span,
                    cells=cells,
                    flips=ours.flips,
                    as_if_wall=ours.as_if_changed,
                    unreadable=ours.unreadable,
                    other_flips=other.flips,
                )
            )
            if progress is not None:
                progress(f"use: hidden from {span}: {cells} cells")
    return tuple(rows)
