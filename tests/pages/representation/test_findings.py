"""The sentences: each is true of the intervals beside it, and leads to its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from goalmeter.pages.representation import figures, page, tables
from goalmeter.pages.representation.claims import shown_models
from goalmeter.pages.representation.findings import findings as sentences
from goalmeter.report import Finding
from goalmeter.representation.result import Representation
from goalmeter.representation.result_rows import MapRow
from goalmeter.statistics.clusters import Estimate

from . import made, made_rows
from .made_rows import NOTHING, est, map_row, share


def findings(*results: Representation) -> list[Finding]:
    models = shown_models(results)
    return [line for shown in models for line in sentences(shown, models)]


def leads(*results: Representation) -> list[str]:
    return [line.lead for line in findings(*results) if line.lead]


def about(word: str, *results: Representation) -> str:
    (line,) = (line.plain for line in findings(*results) if word in line.plain)
    return line


def test_a_model_that_uses_what_it_reads_and_one_that_does_not() -> None:
    assert leads(made.result(), made.unused()) == [
        "goalmeter/mouse: walls decode above every control.",
        "goalmeter/mouse: what it reads of needed cells is used.",
        "goalmeter/mouse: whether it is more directed in the world that it believes in than in the "
        "true one cannot be told.",
        "goalmeter/mole: walls decode above every control.",
        "goalmeter/mole: what it reads of needed cells is not used.",
        "goalmeter/mole: more directed in the world that it believes in than in the true one.",
    ]


def read_beside(ours: Estimate | None, **controls: Estimate | None) -> str:
    rows = (map_row(ours), *(map_row(value, name) for name, value in controls.items()))
    return leads(made.bare(maps=rows))[0].removeprefix("goalmeter/mouse: ")


def test_walls_decode_only_where_every_interval_says_so() -> None:
    above = "walls decode above every control."
    cannot = "whether walls decode above every control cannot be told."
    assert read_beside(share(0.9), majority=share(0.5), other=share(0.7)) == above
    assert read_beside(share(0.9), majority=share(0.5), other=share(0.82)) == cannot
    assert read_beside(share(0.9), majority=share(0.5), other=None) == cannot
    assert read_beside(share(0.9), majority=NOTHING) == cannot
    assert read_beside(share(0.9)) == cannot
    assert read_beside(None, majority=share(0.5)) == cannot
    assert read_beside(share(0.6), other=share(0.8)) == "walls do not decode above every control."


@pytest.mark.parametrize(
    ("difference", "beyond", "lead", "control"),
    [
        (est(1.0, 0.4), est(1.0, 0.4), "more directed", "above every control."),
        (est(1.0, 0.4), est(0.1, 0.4), "more directed", "Whether it is above every control"),
        (est(1.0, 0.4), est(-1.0, 0.4), "more directed", "a control explains more"),
        (est(0.1, 0.4), est(1.0, 0.4), "whether it is more directed", "above every control."),
        (est(-1.0, 0.4), est(1.0, 0.4), "less directed", "above every control."),
        (Estimate(1.0, None, 9, 1), est(1.0, 0.4), "whether it is more directed", "above every"),
    ],
)
def test_the_believed_world_by_the_interval_of_the_difference(
    difference: Estimate, beyond: Estimate, lead: str, control: str
) -> None:
    result = made.result(believed=made.believed(difference, beyond))
    line = about("in the world that it believes in", result)
    assert line.startswith(f"goalmeter/mouse: {lead}") and control in line


def unread() -> tuple[MapRow, ...]:
    """Maps that a probe reads no better than places alone, as its interval has it."""
    gain = est(-0.64, 1.02)
    return tuple(
        replace(row, auroc=share(0.64), gain_bits=gain) if row.control is None else row
        for row in made_rows.map_rows()
    )


UNTOLD = {"used": 0, "not used": 0, "unknown": 7}
READ = "the map could not be read better than from places alone"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"maps": unread()}, READ),
        ({"maps": ()}, READ),
        ({"places": UNTOLD}, "of no cell it could be told"),
        ({"maps": unread(), "places": UNTOLD}, f"{READ}, and of no cell it could be told"),
    ],
)
def test_a_world_that_was_not_read_or_whose_use_is_not_known_is_no_belief(
    changes: dict[str, Any], reason: str
) -> None:
    # 0.04 in it and 4.90 in the true one: less directed, if it were a belief.
    fields = dict(changes)
    places = {"places": fields.pop("places")} if "places" in fields else {}
    result = made.result(believed=made.believed(est(-4.86, 0.5)) | places, **fields)
    sentence = f"nothing is said of a world that it believes in: {reason}"
    line = about("believes in", result)
    assert line.startswith(f"goalmeter/mouse: {sentence}")
    assert not [lead for lead in leads(result) if "believe" in lead]
    (shown,) = shown_models([result])
    table = tables.table(shown, "believed")
    assert table is not None and table.notes[0].startswith(sentence.capitalize())
    assert "the believed world" not in [row[0].text for row in table.cells]
    # No picture of it among models of which something can be said.
    other = made.result(model="goalmeter/mole")
    figure = figures.believed_figure([shown, *shown_models([other])])
    assert figure is not None and "goalmeter/mole: the believed world" in figure.alt
    assert "goalmeter/mouse" not in figure.alt and figures.believed_figure([shown]) is None


@pytest.mark.parametrize(
    ("above", "words"),
    [
        (0.3, "more than every control explains (empty room: 30.0%"),
        (0.01, "Whether every control explains less cannot be told"),
        (-0.3, "A control explains more"),
    ],
)
def test_explained_errors_by_the_interval_of_the_difference(above: float, words: str) -> None:
    explained = made.explained() | {"explained_errors": made.compared(0.6, 0.3, above=above)}
    del explained["detour"]
    line = about("of its errors", made.bare(explained=explained))
    assert words in line and "60.0% [55.0, 65.0]" in line


def test_plans_as_far_as_they_are_above_every_simple_baseline() -> None:
    lines = [line.plain for line in findings(made.result()) if "it reasons" in line.plain]
    before, after = lines
    # 54% before, where position alone tells 52% with the same half-width: it cannot be told.
    assert "before it reasons" in before and "cannot be told" in before
    # Neither the optimal plan nor another answer, which are higher, stands in the way.
    assert "after it reasons" in after and "Up to 4 actions it is above" in after
    lower = made.result(plan=made_rows.plan_rows(0.4))
    lines = [line.plain for line in findings(lower) if "it reasons" in line.plain]
    assert all("A simple baseline is above that." in line for line in lines)


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "no question about a cell that every shortest way needs was answered rightly before"),
        (1, "Of the first moves at 1 cell that every shortest way needs, 90.0%"),
        (28, "Of the first moves at 28 cells that every shortest way needs, 90.0%"),
    ],
)
def test_moves_that_flip_by_how_many_cells_they_are_of(number: int, words: str) -> None:
    flips = share(0.9) if number else NOTHING
    row = replace(made_rows.used_row(flips, chosen=True, null_flips=share(0.02)), cells=number)
    line = about("under the intervention that did best", made.result(use=(row,)))
    assert words in line and "–" not in line and "0 cells" not in line.replace("28 cells", "")


def test_what_is_missing_is_said_with_its_reason() -> None:
    left: dict[str, Any] = {
        "use": "no needed cell",
        "post/step-2": "no decision has it",
        "subspace of the agent": "nothing was confirmed",
    }
    section = page.missing_section(shown_models([made.bare(left_out=left)]))
    assert section is not None
    points = "\n".join(section.points)
    for words in (
        "interventions: no needed cell",
        "the believed world: no needed cell",
        "post/step-2: no decision has it",
        "the plan: it was not asked for.",
        "when cells are looked up: no needed cell",
        "dimensions that carry goal and agent: nothing was confirmed",
    ):
        assert words in points
    assert "what is read of cells" not in points
    assert "are not in these results" in about("not in these results", made.bare(left_out=left))
    assert page.missing_section(shown_models([made.result()])) is None


def test_paired_differences_decide_where_they_are_known() -> None:
    (row, *_) = (row for row in made_rows.plan_rows() if row.position == "post/end")
    # Far apart, and by the difference it cannot be told; a baseline that the run lacks is none.
    position = {"prefix": share(0.2), "conditional": share(0.2), "beyond": est(0.1, 0.2)}
    apart = replace(row, baselines={"position only": position, "asked again": None})
    assert "cannot be told" in about("it reasons", made.bare(plan=(apart,)))
    near = {"position only": position | {"prefix": share(0.88), "beyond": est(0.02, 0.01)}}
    line = about("it reasons", made.bare(plan=(replace(row, baselines=near),)))
    assert "That is above every simple baseline." in line
    decided = tuple(replace(each, beyond=est(-0.1, 0.05)) for each in made_rows.decided_rows())
    assert "from no point" in about("of the reasoning", made.bare(decided=decided))


def test_spans_that_flip_more_than_another_cell_does() -> None:
    line = about("hidden only", made.result())
    assert "at the turns of its neighbours" in line and "90.0% [85.0, 95.0]" in line
    assert "another cell: 2.0%" in line and "at its own turn" not in line
    # What is said of the prompt is that nothing much flips, by the end of its interval.
    assert "hidden from the prompt’s own tokens, 1.0%" in line
    assert not [line for line in findings(made.unused()) if "hidden" in line.plain]
    wide = tuple(replace(r, other_flips=share(0.88)) for r in made_rows.span_rows())
    assert not [line for line in findings(made.bare(spans=wide)) if "hidden" in line.plain]


def test_moves_that_follow_more_than_by_chance_and_such_as_do_not() -> None:
    line = about("with the goal moved", made.result())
    assert "put into layer 1, pre/goal (an unrelated one: 4.0%" in line
    assert "80.0% [75.0, 85.0] of moves follow it" in line
    # 5% [0, 10] is below a quarter, and far below the other question itself.
    line = about("with the agent moved", made.result())
    assert "95.0% [90.0, 100.0] of moves follow it when it is asked, and 5.0% [0.0, 10.0]" in line
    rows = made_rows.moved_rows(0.22)  # up to 27%, and from 17% on: neither is shown
    wide = tuple(replace(row, null_flips=share(0.2)) for row in rows)
    lines = [line.plain for line in findings(made.bare(moved=wide))]
    assert not [line for line in lines if "the goal moved" in line]
    alone = tuple(row for row in rows if not row.is_ceiling)
    lines = [line.plain for line in findings(made.bare(moved=alone))]
    assert not [line for line in lines if "the agent moved" in line]


@pytest.mark.parametrize(
    ("degrees", "words"),
    [
        (31.0, "lie nearer to them than random ones do (31 degrees; by chance 64 to 78)"),
        (70.0, "lie no nearer to them than random ones do (70"),
        (85.0, "lie farther from them than random ones do (85"),
        (None, "the whole stream: 80.0%"),
    ],
)
def test_dimensions_that_carry_the_goal(degrees: float | None, words: str) -> None:
    row = made_rows.subspace_row(degrees=degrees)
    line = about("carry where", made.bare(subspaces=(row,)))
    assert words in line and "70.0% [65.0, 75.0]" in line
    assert ("probe’s directions" in line) == (degrees is not None)
    assert not [line for line in findings(made.unused()) if "carry where" in line.plain]
