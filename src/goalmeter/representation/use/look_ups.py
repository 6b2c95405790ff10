"""When a model looks a cell up: the cell is hidden from one span of what it reads and writes.

Nothing is chosen here, so only the half of the grids that confirms is asked. A span that the
unchanged answer does not have would change nothing, and says nothing of when the cell is needed: so
a cell counts in the spans only that the unchanged answer has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.world import Cell
from goalmeter.representation.network import Network
from goalmeter.representation.positions import Located
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.asking import Asking, keeping
from goalmeter.representation.use.candidates import Candidate
from goalmeter.representation.use.halves import CONFIRM
from goalmeter.representation.use.interventions import Intervention
from goalmeter.representation.use.outcomes import UseRow
from goalmeter.representation.use.spans import ANSWERING, SPANS, span_candidates, spans_met
from goalmeter.representation.use.trials import trials_of
from goalmeter.runs.progress import Tell

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
