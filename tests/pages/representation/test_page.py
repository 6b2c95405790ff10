"""The part of a page: tables and pictures of every shape of result, and a report of a run."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from report.browsing import asked
from report.drawn import texts
from report.test_browser import browser as browser  # a fixture

from goalmeter._errors import InvalidFileError
from goalmeter.commands.report import report_runs
from goalmeter.navigation import measure
from goalmeter.pages.part import Part, all_findings
from goalmeter.pages.representation.page import part_of_results
from goalmeter.pages.representation.states import used_cells, wrong_walls
from goalmeter.report import Table, write_report
from goalmeter.representation.result import Representation

from . import made
from .made import NAN, NOTHING, map_row, share

HOSTILE = "<script>alert('x')</script>{0}\x1b[31m$a_b$"


def part_of(*results: Representation) -> Part:
    return part_of_results(results, lambda line: None)


@cache
def whole() -> Part:
    """Two models with everything, drawn once: pictures take long."""
    return part_of(made.result(), made.unused())


def page_of(folder: Path, *results: Representation) -> tuple[Path, str]:
    part = part_of(*results)
    path = write_report(
        folder / "page.html",
        part.title,
        part.sections,
        lede=part.lede,
        findings=all_findings([part]),
        glossary=part.glossary,
    )
    return path, path.read_text(encoding="utf-8")


def table(part: Part, caption: str) -> Table:
    (only,) = (t for s in part.sections for t in s.tables if t.caption.startswith(caption))
    return only


def cells(shown: Table) -> dict[str, list[str]]:
    return {row[0].text: [cell.text for cell in row[1:]] for row in shown.cells}


def titles(part: Part) -> list[str]:
    return [section.title for section in part.sections]


def test_several_models_stand_beside_each_other() -> None:
    part = whole()
    rows = cells(table(part, "Walls of uncertain cells"))
    assert list(rows) == ["goalmeter/mouse", "goalmeter/mole"]
    assert rows["goalmeter/mouse"][:3] == [
        "above every control",
        "0.99 [0.98, 1.00]",
        "0.77 [0.75, 0.79], embeddings alone",
    ]
    used = cells(table(part, "Is what is read of cells used?"))
    assert [row[0] for row in used.values()] == ["used", "not used"]
    assert titles(part) == [
        "What is read of cells",
        "Decoded maps beside the true ones",
        "What is used",
        "When a cell is looked up",
        "Where goal and agent are read from",
        "What the decoded maps explain",
        "Goal-directedness in the believed world",
        "What is read of plans",
        "When it is decided",
        "What this does not show",
    ]


def test_the_json_has_the_numbers_and_both_verdicts_but_no_pictures() -> None:
    _, entry = whole().runs
    assert (entry["model"], entry["read"], entry["used"]) == ("goalmeter/mole", "above", "not used")
    assert "states" not in entry and len(entry["maps"]) == len(made.map_rows())


def test_the_probe_and_its_controls_are_rows_in_their_order() -> None:
    shown = table(whole(), "goalmeter/mouse: walls of uncertain cells")
    assert [row[0].text for row in shown.cells] == ["the probe: ridge", *made.CONTROLS]
    sizes = cells(table(whole(), "goalmeter/mouse: size of probe"))
    assert [row[:2] for row in sizes.values()] == [
        ["1200", "0.60 [0.57, 0.63]"],
        ["90000", "0.66 [0.63, 0.69]"],
    ]


def heat(part: Part, word: str) -> list[str]:
    (figure,) = (f for s in part.sections for f in s.figures if word == f.name)
    return texts(figure.svg)


def test_heat_maps_have_a_panel_for_the_probe_and_each_control() -> None:
    shown = heat(whole(), "representation-1-auroc")
    panels = ["the probe", *(name for name in made.CONTROLS if name != "majority")]
    assert [text for text in shown if text in (*panels, "majority")] == panels
    # Before the model reasons, then along the reasoning.
    assert shown.index("pre/end") < shown.index("post/0.5") < shown.index("post/end")
    assert ".93" in shown and "layer 3" in shown
    flips = heat(whole(), "representation-1-flips")
    assert "knock-out, other (null)" in flips and "write" in flips and "unneeded cells" in flips


def test_detour_states_and_invalid_maps_are_told_apart() -> None:
    shown = table(whole(), "goalmeter/mouse: what the decoded maps explain")
    rows = cells(shown)
    assert {"explained errors", "explained errors, detour states"} <= set(rows)
    assert rows["explained errors"][1] == "30.0% [25.0, 35.0]"
    assert any("No valid map was decoded in 8.0%" in note for note in shown.notes)
    beyond = cells(table(whole(), "goalmeter/mouse: by how much more"))
    assert beyond["explained errors"][0] == "+30.0 [+25.0, +35.0]"


def test_maps_of_other_positions_stand_below_the_chosen_one() -> None:
    rows = cells(table(whole(), "goalmeter/mouse: what the maps of each position"))
    assert {name: row[0] for name, row in rows.items()} == {
        "pre/end": "60.0% [55.0, 65.0]",
        "post/end": "40.0% [35.0, 45.0]",
    }
    assert rows["post/end"][-2:] == ["30.0% [25.0, 35.0]", "8.0% [3.0, 13.0]"]


def test_spans_in_words_beside_another_cell() -> None:
    rows = cells(table(whole(), "goalmeter/mouse: needed cells hidden from one span"))
    assert list(rows) == [
        "while the prompt is read",
        "at the turns of its neighbours",
        "at its own turn",
        "in all that is written",
    ]
    row = rows["at the turns of its neighbours"]
    assert (row[0], row[3], row[4]) == ("90.0% [85.0, 95.0]", "28", "2.0% [0.0, 7.0]")
    figure = heat(whole(), "representation-1-spans-figure")
    assert "at the turns of its neighbours" in figure and "another cell hidden" in figure


def test_what_followed_is_confirmed_and_has_a_ceiling() -> None:
    rows = cells(table(whole(), "goalmeter/mouse: streams exchanged"))
    assert list(rows) == [
        "the goal moved: layer 1, pre/goal",
        "the goal moved: the other question (ceiling)",
        "the agent moved: layer 1, pre/agent",
        "the agent moved: the other question (ceiling)",
    ]
    assert [row[0] for row in rows.values()][:2] == ["80.0% [75.0, 85.0]", "95.0% [90.0, 100.0]"]
    shown = heat(whole(), "representation-1-moved-map")
    assert "the goal moved, pre/end" in shown and "layer 1-2" in shown and "lost" in shown


def test_dimensions_and_their_angle_beside_chance() -> None:
    (row,) = cells(table(whole(), "goalmeter/mouse: the few dimensions")).values()
    assert (row[0], row[4:]) == ("carries it", ["4", "26", "31", "64 to 78"])
    (row,) = cells(table(whole(), "goalmeter/mole: the few dimensions")).values()
    assert (row[0], row[-2:]) == ("cannot be told", ["–", "–"])


def test_from_where_on_actions_can_be_read() -> None:
    rows = cells(table(whole(), "goalmeter/mouse: from where on"))
    assert rows == {"1, layer 3": ["0.25", "0.5"], "2, layer 3": ["nowhere", "nowhere"]}


def test_answers_that_cannot_be_read_are_a_curve_of_the_doses() -> None:
    assert "answers that cannot be read" in heat(whole(), "representation-1-dose-1")
    unasked = tuple(replace(row, unreadable=NOTHING) for row in made.dose_rows())
    figure = heat(part_of(made.bare(doses=unasked)), "representation-1-dose-1")
    assert "answers that cannot be read" not in figure


def test_the_believed_world_stands_beside_the_others() -> None:
    shown = table(whole(), "goalmeter/mole: MEG in each world")
    rows = cells(shown)
    assert list(rows) == [
        "the true world",
        "the decoded map",
        "the believed world",
        "empty room (control)",
        "another map (control)",
    ]
    assert rows["the believed world"][3] == "1.80 [1.20, 2.40]"
    assert rows["empty room (control)"][4] == "1.40 [1.10, 1.70]"
    assert any("31" in note for note in shown.notes)


def test_which_cells_of_a_state_are_framed_and_crossed() -> None:
    used, unused = used_cells(made.picture())
    assert used == {(2, 1), (3, 3)} and unused == {(2, 5), (1, 3)}
    # (2, 2) and (2, 3) are walls that are read as open, (3, 2) the other way round.
    assert wrong_walls(made.picture()) == {
        (row, column)
        for row in range(7)
        for column in range(7)
        if (made.TRUTH[row][column] == "#") != (made.READ[row][column] == "#")
    }
    assert wrong_walls(made.picture(decoded=False)) == frozenset()


def test_captions_say_what_was_done_and_on_which_map_it_is_optimal() -> None:
    part = part_of(made.bare(states=(made.picture(action=3), made.picture(action=1))))
    (section,) = (s for s in part.sections if s.title.startswith("Decoded maps"))
    true, read, wrong_true, wrong_read = (figure.caption for figure in section.figures)
    assert "it goes DOWN, which is optimal. Optimal: DOWN" in true
    assert "it goes DOWN, which is not optimal; optimal is RIGHT" in read
    assert "RIGHT, which is not optimal" in wrong_true
    assert "RIGHT, which is optimal" in wrong_read and "Used: 2 of 4 cells" in wrong_read
    odd = part_of(made.bare(states=(made.picture(decoded=False, used=False, action=None),)))
    (section,) = (s for s in odd.sections if s.title.startswith("Decoded maps"))
    assert "its answer could not be read" in section.figures[0].caption
    assert "no valid map" in section.figures[1].caption
    assert "No cell was tried" in section.figures[1].caption


def test_each_number_that_is_there_has_a_paragraph_on_what_it_does_not_show() -> None:
    def limits(result: Representation) -> tuple[str, ...]:
        (section,) = (s for s in part_of(result).sections if s.title == "What this does not show")
        return section.text

    (section,) = (s for s in whole().sections if s.title == "What this does not show")
    assert len(section.text) == 12
    assert len(limits(made.bare())) == 1 and limits(made.bare())[0].startswith("AUROC and gain")


def nothing_known() -> Representation:
    """Every number is missing."""
    no_fit = {"nats": NOTHING.to_json(), "share": NOTHING.to_json(), "rationality": NAN}
    return made.result(
        maps=tuple(replace(row, auroc=None, gain_bits=NOTHING) for row in made.map_rows()),
        places=tuple(replace(r, exact=NOTHING, distance=NOTHING) for r in made.place_rows()),
        use=tuple(
            replace(r, flips=NOTHING, unneeded_flips=NOTHING, null_flips=None, effect_nats=None)
            for r in made.use_rows()
        ),
        doses=tuple(replace(r, flips=NOTHING, null_flips=NOTHING) for r in made.dose_rows()),
        spans=tuple(replace(r, flips=NOTHING, other_flips=NOTHING) for r in made.span_rows()),
        moved=tuple(
            replace(r, flips=NOTHING, null_flips=NOTHING, same_flips=NOTHING)
            for r in made.moved_rows()
        ),
        subspaces=(made.subspace_row(flips=NOTHING, degrees=None, chance=()),),
        plan=tuple(
            replace(r, prefix=NOTHING, conditional=NOTHING, baselines={}) for r in made.plan_rows()
        ),
        decided=tuple(
            replace(r, accuracy=NOTHING, baselines={}, beyond=NOTHING) for r in made.decided_rows()
        ),
        states=(replace(made.picture(), wall=((NAN,) * 7,) * 7, used=(), optimal=()),),
        explained={"explained_errors": NOTHING.to_json()},
        believed={"meg_true": no_fit, "meg_believed": made.fit(1.0)},
    )


@pytest.mark.parametrize(
    "result",
    [
        nothing_known(),
        made.bare(),
        made.bare(maps=()),
        made.bare(maps=(map_row(share(0.9)),), chosen={}),
        made.bare(maps=(map_row(share(0.9), cells="all"),)),
        made.bare(use=made.use_rows()[:3]),
        made.bare(doses=made.dose_rows()),
        made.bare(spans=made.span_rows()[:1]),
        made.bare(moved=made.moved_rows()[3:5]),
        made.bare(subspaces=(made.subspace_row(),)),
        made.bare(plan=made.plan_rows()[1:2]),
        made.bare(decided=made.decided_rows()[:1]),
        made.bare(believed=made.believed(made.est(1.0)) | {"controls": {}, "beyond": {}}),
    ],
)
def test_a_page_of_every_shape(tmp_path: Path, result: Representation) -> None:
    # The JSON is what a report reads.
    read = Representation.from_json(result.to_json())
    _, text = page_of(tmp_path, read)
    assert ">nan" not in text.lower() and "None" not in re.sub(r"<[^>]*>", "", text)


def test_models_of_one_name_are_told_apart() -> None:
    names = [
        entry[0].text
        for entry in table(
            part_of(made.bare(), made.bare(run="more"), made.bare(run="more")),
            "Walls of uncertain cells",
        ).cells
    ]
    assert names == [
        "goalmeter/mouse, walks",
        "goalmeter/mouse, more (2)",
        "goalmeter/mouse, more (3)",
    ]


def test_what_others_wrote_is_shown_as_text(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "model": HOSTILE,
        "run": HOSTILE,
        "maps": (map_row(share(0.9)), map_row(share(0.5), HOSTILE)),
        "use": (made.used_row(share(0.9), HOSTILE, chosen=True, half="screen"),),
        "doses": (replace(made.dose_rows()[0], intervention=HOSTILE),),
        "spans": tuple(replace(row, span=HOSTILE) for row in made.span_rows()),
        "moved": tuple(replace(r, moved=HOSTILE, position=HOSTILE) for r in made.moved_rows()),
        "subspaces": (replace(made.subspace_row(), moved=HOSTILE),),
        "plan": tuple(replace(row, decoder=HOSTILE) for row in made.plan_rows()),
        "states": (
            replace(made.picture(), walk=HOSTILE, truth=("#<#", "A&G", "#{#"), decoded=(), used=()),
        ),
        "left_out": {HOSTILE: HOSTILE},
        "believed": made.believed(made.est(1.0)) | {"variant": HOSTILE},
    }
    _, text = page_of(tmp_path, made.result(**changes), made.bare(model=HOSTILE, run=HOSTILE))
    assert "<script" not in text and "\x1b" not in text
    assert html.escape("<script>alert", quote=False) in text


# --- A report of runs ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("walked") / "walks"
    small: dict[str, Any] = {"sizes": [7], "complexities": [0.5], "grids": 2, "trajectories": 1}
    measure("wall-follower", **small, beside=[], out=folder)
    return folder


def test_a_report_shows_what_a_run_holds_and_nothing_else(walks: Path, tmp_path: Path) -> None:
    plain = report_runs([walks], tmp_path / "plain.html")
    text = (tmp_path / "plain.html").read_text("utf-8")
    assert "representation" not in plain.json["runs"][0] and "What is read of cells" not in text
    made.result().save(walks)
    told: list[str] = []
    try:
        probed = report_runs([walks], tmp_path / "probed.html", progress=told.append)
        text = (tmp_path / "probed.html").read_text("utf-8")
    finally:
        (walks / "probe" / "result.json").unlink()
    entry = probed.json["runs"][0]
    assert entry["agent"] == "wall-follower" and entry["representation"]["used"] == "used"
    # Behind the walks, on a page that keeps its title.
    assert text.index("does it plan?") < text.index("What is read of cells")
    assert "<h1>How agents behave in grid worlds</h1>" in text
    assert len(probed.tables) == len(plain.tables) + 2
    assert "drawing what was read of goalmeter/mouse" in told


def test_a_damaged_result_is_refused(walks: Path, tmp_path: Path) -> None:
    (walks / "probe").mkdir(exist_ok=True)
    (walks / "probe" / "result.json").write_text("{}")
    try:
        with pytest.raises(InvalidFileError, match="is no result of this version"):
            report_runs([walks], tmp_path / "page.html")
    finally:
        (walks / "probe" / "result.json").unlink()


# --- In a browser -------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_telephone_nothing_runs_off_the_side_and_no_text_is_small(
    browser: str, tmp_path: Path, scheme: str
) -> None:
    page, _ = page_of(tmp_path, made.result())
    script = """
      const small = [];
      for (const text of page.querySelectorAll("svg text")) {
        const svg = text.closest("svg");
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        const size = parseFloat(view.getComputedStyle(text).fontSize) * scale;
        if (size < 8.99) small.push([text.textContent, size]);
      }
      const maps = [...page.querySelectorAll("figure")]
        .filter(figure => figure.textContent.includes("as it is"))
        .map(figure => figure.querySelector(".scroll"))
        .map(box => box.scrollWidth - box.clientWidth);
      const strokes = new Set();
      for (const line of page.querySelectorAll("svg path"))
        strokes.add(view.getComputedStyle(line).stroke);
      return [view.innerWidth, page.documentElement.scrollWidth, small, maps, [...strokes]];
    """
    inner, wide, small, maps, strokes = asked(
        browser, page, tmp_path / "b", script, width=400, scheme=scheme
    )
    assert inner == 400 and wide <= inner
    assert small == []
    # A map of a state is seen whole.
    assert len(maps) == 4 and max(maps) == 0
    # The green of used cells is another one in the dark.
    assert ("rgb(0, 158, 115)" in strokes) == (scheme == "light")
