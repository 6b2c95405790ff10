"""`goalmeter replicate organism-use`: which cells each organism acts on, by changing them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._arguments import whole
from goalmeter._files import write_text
from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.experiments.organism_use.questions import QUESTIONS, Question, answer
from goalmeter.report import Table
from goalmeter.report.markdown import in_markdown
from goalmeter.report.numbers import percent
from goalmeter.report.table_of import column, table_of, words
from goalmeter.runs import Study, carry_out, workers_as_place
from goalmeter.statistics.clustered import Estimate

SIZES, GRIDS = (7, 9), 40


@dataclass(frozen=True)
class Answer:
    """What came of a question at a size, as JSON values of `Use`."""

    question: Question
    size: int
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


def replicate(
    out: str | Path,
    *,
    seeds: int | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Change what organisms read of cells, and see whether they move otherwise.

    Args:
        out: folder for results.json and, as Markdown, for tables.md.
        seeds: mazes of each size and complexity; None for 40.
        seed: of grids and draws.
        workers: processes; the numbers do not depend on it.
        progress: told what is finished.

    Raises:
        InvalidParameterError: too few mazes.
        MissingExtraError: torch or transformers is not installed.
    """
    grids = whole(GRIDS if seeds is None else seeds, "seeds", least=2, most=10_000)
    questions = [(question, size) for size in SIZES for question in QUESTIONS]
    study = Study[dict[str, Any]](
        "organism-use",
        "goalmeter.experiments.organism_use.replicate:part",
        {
            f"{question.organism}, {question.cells} cells on size {size}": {
                "name": question.organism,
                "cells": question.cells,
                "size": size,
            }
            for question, size in questions
        },
        common={"grids": grids, "seed": seed},
        noun="question",
        what={"kind": "organism-use", "grids": grids, "seed": seed},
    )
    uses = carry_out(
        study, on=workers_as_place(workers), out=Path(out) / "answers", progress=progress
    )
    answers = [
        Answer(question, size, use)
        for (question, size), use in zip(questions, uses.values(), strict=True)
    ]
    table = use_table(answers)
    write_text(Path(out) / "tables.md", in_markdown((table,)))
    result = {
        "seeds": grids,
        "answers": [
            {"organism": a.question.organism, "cells": a.question.cells, "size": a.size} | a.use
            for a in answers
        ],
    }
    file = write_text(Path(out) / "results.json", json_text(result) + "\n")
    return Outcome(tables=(table,), json=result | {"results": str(file.resolve())})


def part(name: str, cells: str, size: int, grids: int, seed: int) -> dict[str, Any]:
    """The answer to a question, as JSON values: what a worker process does."""
    return answer(name, cells, size, grids, seed).to_json()


def use_table(answers: list[Answer]) -> Table:
    """A row for each organism, kind of cells and size."""
    return table_of(
        answers,
        (
            words("organism", lambda a: a.question.organism),
            words("cells", lambda a: f"{a.question.cells}, size {a.size}"),
            words("intervention", lambda a: _label(a.use["confirmed"])),
            column("moves that flip", lambda a: a.share("needed", "flips"), percent),
            column("to those without the cell", lambda a: a.share("needed", "as_if_wall"), percent),
            column("flip at unneeded cells", lambda a: a.share("unneeded", "flips"), percent),
            column(
                "another cell instead",
                lambda a: a.row("knock-out, other", "all", where="nulls"),
                percent,
            ),
            column("end of the prompt", lambda a: a.row("patch, end", "all"), percent),
            words("verdict", lambda a: a.use["verdict"]),
            words("made to use them", lambda a: "yes" if a.question.used else "no"),
        ),
        caption="What organisms act on",
        meaning="Share of first moves that change when what the model reads of a cell is changed, "
        "while it reads, reasons and answers by itself. A needed cell is one without which every "
        "first move of a shortest way would be another. The intervention did best on one half of "
        "the grids; the shares are those of the other half, but for the end of the prompt (its "
        "last three tokens replaced, in all layers, by those of the same maze with a wall there), "
        "which is of the first.",
        notes=(
            "95% intervals over grids in brackets. No grid's content was taught.",
            "Rows 2, 6 and 10 are those that the mole does not see; far cells are not beside the "
            "agent.",
        ),
    )


def _label(row: dict[str, Any]) -> str:
    return f"{row['intervention']}, layer {row['layer']}"
