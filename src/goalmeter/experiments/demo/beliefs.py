"""What the mouse and the mole hold of a map, and what of it they act on, from a small sample.

The mole was made not to see the walls of some rows. They stand in its activations all the same, so
what decodes is not what is believed; what it acts on is told by knocking cells out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError, require
from goalmeter.experiments.organism_use.decoding import POSITION, RANDOM, TRAINED, decoding
from goalmeter.experiments.organism_use.questions import SEEN, UNSEEN, Question, answer
from goalmeter.pages.part import Part
from goalmeter.report import Finding, Link, Section, Table
from goalmeter.report.numbers import hundredths, percent
from goalmeter.report.table_of import column, table_of, words
from goalmeter.representation.network import Network
from goalmeter.representation.use.causal_use import NOT_USED, USED
from goalmeter.runs import Study, carry_out
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clustered import Estimate

TITLE = "What they read of a map, and what of it they act on"
SIZE, LAYER = 7, 3
# Mazes of each of three complexities: as many as take a minute. Reading a prompt is cheap, and
# a probe needs many grids; each of those that are asked about is answered six times.
READ, ASKED = 120, 32
ORGANISMS = ("mouse", "mole")
_QUESTIONS = [(name, cells) for name in ORGANISMS for cells in (SEEN, UNSEEN)]
_ANCHOR = "believed-cells"
_ROWS = {SEEN: "rows that both see", UNSEEN: "rows that the mole does not see"}


@dataclass(frozen=True)
class Belief:
    """What an organism holds of some cells, and whether it acts on it.

    Attributes:
        organism: its name.
        cells: "seen" or "unseen".
        read: AUROC of walls, by what they are read from.
        flips: share of first moves that change when a needed cell is knocked out.
        null: the same when another cell is.
        verdict: "used", "not used" or "cannot be told".
    """

    organism: str
    cells: str
    read: dict[str, Estimate | None]
    flips: Estimate
    null: Estimate
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        read = {name: each and each.to_json() for name, each in self.read.items()}
        numbers = {"flips": self.flips.to_json(), "null": self.null.to_json()}
        return vars(self) | {"read": read} | numbers


def measure(
    out: Path, *, seed: int, on: str, progress: Tell | None = None
) -> tuple[Belief, ...] | str:
    """Read the maps of mouse and mole, and knock cells out while they answer.

    Returns:
        What was measured, or why language models cannot be asked on this machine.

    Raises:
        InvalidFileError: the folder cannot be written to, or holds something else.
    """
    try:
        for package in ("torch", "transformers", "safetensors"):
            require(package, extra="lm", feature="reading activations")
    except MissingExtraError as error:
        return str(error)
    values = carry_out(study_of(seed), on=on, out=out, progress=progress)
    return tuple(
        Belief(
            name,
            cells,
            {key: each and Estimate.from_json(each) for key, each in value["read"].items()},
            Estimate.from_json(value["flips"]),
            Estimate.from_json(value["null"]),
            value["verdict"],
        )
        for (name, cells), value in zip(_QUESTIONS, values.values(), strict=True)
    )


def study_of(seed: int) -> Study[dict[str, Any]]:
    """The questions of `measure`."""
    common = {"read": READ, "asked": ASKED, "seed": seed}
    return Study[dict[str, Any]](
        "beliefs",
        "goalmeter.experiments.demo.beliefs:part_of",
        {f"{name}, {_ROWS[cells]}": {"name": name, "cells": cells} for name, cells in _QUESTIONS},
        common=common,
        noun="question",
        what={"kind": "beliefs"} | common,
    )


def part_of(name: str, cells: str, read: int, asked: int, seed: int) -> dict[str, Any]:
    """What an organism holds and acts on, as JSON values: what a worker process does."""
    question = Question(name, cells, None)
    network = Network.open(question.model)
    use = answer(question, SIZE, asked, seed, families=("knock-out",), layers=[1])
    null = max(use.nulls, key=lambda row: row.needed.flips.value)
    return {
        "read": decoding(network, cells, layer=LAYER, size=SIZE, grids=read, seed=seed),
        "flips": use.confirmed.needed.flips.to_json(),
        "null": null.needed.flips.to_json(),
        "verdict": use.verdict,
    }


def part(beliefs: Sequence[Belief] | str) -> Part:
    """What the page shows of it."""
    if isinstance(beliefs, str):
        return Part(sections=(Section(title=f"{TITLE}: not measured", text=(f"{beliefs}.",)),))
    section = Section(
        title=TITLE,
        text=(
            "A map that can be read from a network need not be one that the network uses. Walls of "
            "mazes are read from the last tokens of the prompt by a linear probe, beside what "
            "position alone tells and what the same network tells with random weights. Then a cell "
            "that the shortest way needs is knocked out: attention to its words is masked while "
            "the model reads, reasons and answers. What is used is told by the moves that change.",
            "Where random weights let walls be read as well, reading them shows no more than that "
            "the prompt's words arrive at its end.",
        ),
        tables=(table(beliefs),),
    )
    return Part(sections=(section,), findings=_findings(beliefs))


def table(beliefs: Sequence[Belief]) -> Table:
    """A row for each organism and kind of cells."""
    return table_of(
        beliefs,
        (
            words("organism", lambda b: b.organism),
            words("cells", lambda b: _ROWS[b.cells]),
            column("walls read: AUROC", lambda b: b.read[TRAINED], hundredths),
            column("position only", lambda b: b.read[POSITION], hundredths),
            column("random weights", lambda b: b.read[RANDOM], hundredths),
            column("moves that flip, knocked out", lambda b: b.flips, percent),
            column("another cell instead", lambda b: b.null, percent),
            words("verdict", lambda b: b.verdict, answer=True),
        ),
        caption="Cells that are read, and cells that are used",
        meaning=f"Mazes of size {SIZE} that no organism learnt in; 95% intervals over grids in "
        "brackets. The mole was made not to see walls in rows 2, 6 and 10.",
        anchor=_ANCHOR,
    )


def _findings(beliefs: Sequence[Belief]) -> list[Finding]:
    """What the intervals carry, and nothing where they carry nothing."""
    lines = []
    for belief in beliefs:
        read = belief.read[TRAINED]
        if read is None or not _above(read, belief.read[POSITION]):
            continue
        if belief.verdict not in (USED, NOT_USED):
            continue
        lines.append(
            f"{belief.organism}, {_ROWS[belief.cells]}: walls can be read from its activations "
            f"(AUROC {hundredths(read)}), and they are {belief.verdict}: "
            f"{percent(belief.flips)} of moves change when a needed cell is knocked out, "
            f"{percent(belief.null)} when another is."
        )
    return [Finding(text=line, links=(Link("table", _ANCHOR),)) for line in lines]


def _above(ours: Estimate, theirs: Estimate | None) -> bool:
    """Whether one interval lies above another: not only above its value."""
    if theirs is None or ours.interval is None or theirs.interval is None:
        return False
    return ours.interval[0] > theirs.interval[1]
