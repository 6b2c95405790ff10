"""The tables of `goalmeter replicate organism-use`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from goalmeter.experiments.organism_use.decoding import POSITION, RANDOM, TRAINED
from goalmeter.experiments.organism_use.questions import Question
from goalmeter.report import Table
from goalmeter.report.numbers import hundredths, percent
from goalmeter.report.table_of import column, table_of, words
from goalmeter.representation.use.used_cells import PlaceUse, told_apart
from goalmeter.statistics.clustered import Estimate


@dataclass(frozen=True)
class Answer:
    """What came of a question at a size, as JSON values of `Use`.

    Attributes:
        question: that was asked.
        size: of the mazes.
        families: kinds of interventions that were tried.
        use: what came of it, with what decodes ("read") and how places fare ("places").
    """

    question: Question
    size: int
    families: tuple[str, ...]
    use: dict[str, Any]

    def share(self, kind: str, measure: str) -> Estimate:
        """A share of the confirmed intervention, such as flips at needed cells."""
        return Estimate.from_json(self.use["confirmed"][kind][measure])

    def row(self, name: str, layer: int | str, *, where: str = "screened") -> Estimate | None:
        """Flips at needed cells under another intervention."""
        for row in self.use[where]:
            if (row["intervention"], row["layer"]) == (name, layer):
                return Estimate.from_json(row["needed"]["flips"])
        return None

    def read(self, source: str) -> Estimate | None:
        """AUROC of walls as they are read from the model, from position, or random weights."""
        value = self.use["read"].get(source)
        return None if value is None else Estimate.from_json(value)

    @property
    def places(self) -> list[PlaceUse]:
        """How the places of cells fare."""
        return [PlaceUse.from_json(place) for place in self.use["places"]]

    def to_json(self) -> dict[str, Any]:
        """The question and the answer as JSON values."""
        asked = {"organism": self.question.organism, "cells": self.question.cells}
        return asked | {"size": self.size, "families": list(self.families)} | self.use


@dataclass(frozen=True)
class _Written:
    """An intervention along a direction, beside nulls that differ from it in one thing.

    Attributes:
        answer: whose it is.
        row: JSON values of its `UseRow`.
        nulls: those of its nulls.
    """

    answer: Answer
    row: dict[str, Any]
    nulls: list[dict[str, Any]]

    def null(self, ending: str) -> Estimate | None:
        """Flips at needed cells under the null of some kind."""
        for null in self.nulls:
            if null["intervention"].endswith(ending):
                return Estimate.from_json(null["needed"]["flips"])
        return None


def all_tables(answers: Sequence[Answer]) -> tuple[Table, ...]:
    """What is used, what can be written, and how well used and unused places are told apart."""
    knocked = [answer for answer in answers if "knock-out" in answer.families]
    written = [answer for answer in answers if "write" in answer.families]
    tables = [use_table(knocked), *([write_table(written)] if written else [])]
    pairs = [(a, b) for a in knocked for b in knocked if _apart(a, b)]
    return (*tables, *([apart_table(pairs)] if pairs else []))


def use_table(answers: Sequence[Answer]) -> Table:
    """A row for each organism, kind of cells and size."""
    return table_of(
        answers,
        (
            words("organism", lambda a: a.question.organism),
            words("cells", lambda a: f"{a.question.cells}, size {a.size}"),
            column("walls read: AUROC", lambda a: a.read(TRAINED), hundredths),
            column("by position", lambda a: a.read(POSITION), hundredths),
            column("with random weights", lambda a: a.read(RANDOM), hundredths),
            words("intervention", lambda a: _label(a.use["confirmed"])),
            column("moves that flip", lambda a: a.share("needed", "flips"), percent),
            column(
                "to those without the cell", lambda a: a.share("needed", "as_if_changed"), percent
            ),
            column("flip at unneeded cells", lambda a: a.share("unneeded", "flips"), percent),
            column(
                "another cell instead",
                lambda a: a.row("knock-out, other", "all", where="nulls"),
                percent,
            ),
            column("end of the prompt", lambda a: a.row("patch, end", "all"), percent),
            words("verdict", lambda a: a.use["verdict"]),
            words("made to use them", lambda a: _made(a.question.used)),
        ),
        caption="What organisms act on",
        meaning="Walls of uncertain cells, read from the last three tokens of the prompt; then the "
        "share of first moves that change when what the model reads of a cell is changed, while it "
        "reads, reasons and answers by itself. A needed cell is one without which every first move "
        "of a shortest way would be another. The intervention did best on one half of the grids; "
        "the shares are those of the other half, but for the end of the prompt (its last three "
        "tokens replaced, in all layers, by those of the same maze with a wall there), which is of "
        "the first.",
        notes=(
            "95% intervals over grids in brackets. No grid's content was taught.",
            "Rows 2, 6 and 10 are those that the mole does not see; far cells are not beside the "
            "agent.",
        ),
    )


def write_table(answers: Sequence[Answer]) -> Table:
    """A row for each write and ablation that did best on the first half."""
    rows = [
        _Written(answer, family["row"], family["nulls"])
        for answer in answers
        for family in answer.use["families"]
    ]
    return table_of(
        rows,
        (
            words("organism", lambda r: r.answer.question.organism),
            words("cells", lambda r: f"{r.answer.question.cells}, size {r.answer.size}"),
            words("intervention", lambda r: _label(r.row)),
            words("tokens", lambda r: r.row["position"]),
            column("moves that flip", lambda r: _share(r.row, "needed", "flips"), percent),
            column("as if it were so", lambda r: _share(r.row, "needed", "as_if_changed"), percent),
            column("flip at unneeded cells", lambda r: _share(r.row, "unneeded", "flips"), percent),
            column("random direction", lambda r: r.null("random"), percent),
            column("another cell's", lambda r: r.null("other"), percent),
        ),
        caption="What can be written",
        meaning="The stream moved along a probe's direction for a cell, from open to wall (write) "
        "or, at a wall, back to open (open), or that direction projected out (ablate); each did "
        "best of its kind on one half of the grids and is shown on the other. As if it were so: "
        "with a move that is optimal in the maze with that wall, or without it. Random directions "
        "are as long. Writes at post/turn happen while the model writes, where its search comes to "
        "the cell.",
        notes=("95% intervals over grids in brackets.",),
    )


def apart_table(pairs: Sequence[tuple[Answer, Answer]]) -> Table:
    """A row for each size at which one organism uses cells and another does not."""
    return table_of(
        pairs,
        (
            words("size", lambda pair: str(pair[0].size)),
            words("used", lambda pair: _who(pair[0])),
            words("not used", lambda pair: _who(pair[1])),
            column("places", lambda pair: f"{len(pair[0].places)} and {len(pair[1].places)}"),
            column(
                "area (used, not used)",
                lambda pair: told_apart(pair[0].places, pair[1].places),
                hundredths,
            ),
        ),
        caption="Used places told from unused ones",
        meaning="The rate of flips at each place of the maze, pooled over decisions, told apart by "
        "an area under the ROC curve; 1 is never wrong, one half is chance.",
        notes=("95% intervals over places in brackets. Aim: 0.95.",),
    )


def _apart(first: Answer, second: Answer) -> bool:
    """Whether one is known to use its cells, and the other is the mole that does not."""
    return (
        first.size == second.size
        and (first.question.organism, first.question.used) == ("mouse", True)
        and second.question.used is False
        and second.question.organism == "mole"
        and first.question.cells == "seen"
    )


def _who(answer: Answer) -> str:
    return f"{answer.question.organism}, {answer.question.cells}"


def _made(used: bool | None) -> str:
    return "not known" if used is None else "yes" if used else "no"


def _share(row: dict[str, Any], kind: str, name: str) -> Estimate:
    return Estimate.from_json(row[kind][name])


def _label(row: dict[str, Any]) -> str:
    return f"{row['intervention']}, layer {row['layer']}"
