"""`goalmeter replicate organism-use`: which cells each organism uses, by intervention."""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "organism-use")

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.report import (
    Table,
    column,
    hundredths,
    percent,
    table_of,
    words,
)
from goalmeter.representation import Network
from goalmeter.representation.beliefs.used_cells import PlaceUse, told_apart, used_cells
from goalmeter.runs import Study, carry_out
from goalmeter.statistics import Estimate
from replications.organism_use.questions import (
    COMPLEXITIES,
    FAR,
    POSITION,
    RANDOM_WEIGHTS,
    TRAINED_WEIGHTS,
    Question,
    answer,
    decoding,
    questions_of,
)
from replications.prose import prose, write_tables

say = partial(prose, "organism_use")


# --- Tables ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Answer:
    """What came of a question at a size, as JSON values of `Use`."""

    question: Question  # that was asked
    size: int  # of the mazes
    families: tuple[str, ...]  # kinds of interventions that were tried
    # what came of it, with what decodes ("read") and how places fare ("places")
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
    """An intervention along a direction, beside nulls that differ from it in one thing."""

    answer: Answer  # whose it is
    row: dict[str, Any]  # JSON values of its `UseRow`
    nulls: list[dict[str, Any]]  # those of its nulls

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
            column("walls read: AUROC", lambda a: a.read(TRAINED_WEIGHTS), hundredths),
            column("by position", lambda a: a.read(POSITION), hundredths),
            column("with random weights", lambda a: a.read(RANDOM_WEIGHTS), hundredths),
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
        **say("what_organisms_act_on"),
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
        **say("what_can_be_written"),
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
        **say("used_places_told_from_unused_ones"),
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


# --- Replicate ------------------------------------------------------------------------------------
SIZES, GRIDS = (7, 9, 11), 60
# Of four blocks, the one behind which maps decode best.
LAYER = 3
# What is written along directions is asked on small mazes alone: it takes as long as all the rest.
WRITE_SIZE, DOSES = 7, (1.0, 2.0, 4.0)
KNOCKS, WRITES = ("knock-out", "patch"), ("write", "ablate", "open")
# The folder of what is kept of each question.
ANSWERS = "answers"
_TASK = "replications.organism_use.study:part"


OPTIONS = ("agents",)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Change what organisms read of cells, and see whether they move otherwise.

    Seeds are mazes of each size and complexity, 60 by default; `agents` are models to be asked
    instead of the organisms.
    """
    grids, asked = options.count(GRIDS, least=2), _asked(options.agents)
    study = _study(asked, grids, options.seed, options.agents)
    values = carry_out(study, on=options.on, out=out / ANSWERS, progress=options.progress)
    answers = [
        Answer(question, size, families, value)
        for (question, size, families), value in zip(asked, values.values(), strict=True)
    ]
    tables = all_tables(answers)
    result = {"seeds": grids, "answers": [answer.to_json() for answer in answers]}
    return write_tables(out, tables, result)


def planned(options: StudyOptions) -> dict[str, int]:
    """How much `replicate` with these options will do."""
    mazes = options.count(GRIDS, least=2) * len(COMPLEXITIES)
    return {"questions": len(_asked(options.agents)), "mazes of a question": mazes}


def _asked(agents: str | None) -> list[tuple[Question, int, tuple[str, ...]]]:
    return [
        (question, size, families)
        for families, sizes in ((KNOCKS, SIZES), (WRITES, (WRITE_SIZE,)))
        for size in sizes
        for question in questions_of(agents)
        if families == KNOCKS or question.cells != FAR
    ]


def _study(
    asked: Sequence[tuple[Question, int, tuple[str, ...]]],
    grids: int,
    seed: int,
    agents: str | None,
) -> Study[dict[str, Any]]:
    what = {"kind": "organism-use", "grids": grids, "seed": seed}
    return Study[dict[str, Any]](
        "organism-use",
        _TASK,
        {
            f"{families[0]}: {q.organism}, {q.cells} cells on size {size}": {
                "name": q.organism,
                "cells": q.cells,
                "size": size,
                "families": list(families),
            }
            for q, size, families in asked
        },
        common={"grids": grids, "seed": seed},
        noun="question",
        what=what if agents is None else what | {"agents": agents},
    )


def part(
    name: str, cells: str, size: int, families: list[str], grids: int, seed: int
) -> dict[str, Any]:
    """The answer to a question, as JSON values: what a worker process does."""
    question = Question(name, cells, None)
    doses = DOSES if WRITES[0] in families else ()
    use = answer(question, size, grids, seed, families=families, doses=doses)
    read = {}
    # What decodes is asked once of each organism, size and kind of cells.
    if tuple(families) == KNOCKS:
        network = Network.open(question.model)
        read = decoding(network, cells, layer=LAYER, size=size, grids=4 * grids, seed=seed)
    places = used_cells([*use.outcomes_of_screen, *use.outcomes]).to_json()
    return use.to_json() | {"read": read, "places": places["places"]}
