"""The page of what a model reads and uses: claims, sentences, tables, pictures and the command."""

from __future__ import annotations

import html
import math
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from report.browsing import asked
from report.browsing import browser as browser  # a fixture

from goalmeter._errors import InvalidFileError
from goalmeter.commands.runs import report_runs
from goalmeter.navigation import measure
from goalmeter.navigation.rollouts import load
from goalmeter.pages import Part
from goalmeter.pages import representation as page
from goalmeter.pages import representation_claims as claims
from goalmeter.pages.representation_claims import ABOVE, BELOW, OPEN, shown_models
from goalmeter.report import Finding, Table, write_report
from goalmeter.representation.replay import run_digest
from goalmeter.representation.result import Representation
from goalmeter.representation.result_rows import MapRow
from goalmeter.statistics.clusters import Estimate

from . import made
from .made import NAN, NOTHING, est, map_row, share


def part_of(*results: Representation) -> Part:
    """What a page shows of some results."""
    return page.part_of_results(results, lambda line: None)


@cache
def whole() -> Part:
    """Two models with everything, drawn once: pictures take long."""
    return part_of(made.result(), made.unused())


def page_of(folder: Path, part: Part) -> tuple[Path, str]:
    """The page of a part: its path and its text."""
    path = write_report(
        folder / "page.html",
        part.title,
        part.sections,
        lede=part.lede,
        findings=part.findings,
        glossary=part.glossary,
    )
    return path, path.read_text(encoding="utf-8")


def table(part: Part, caption: str) -> Table:
    """The one table whose caption begins so."""
    (only,) = (t for s in part.sections for t in s.tables if t.caption.startswith(caption))
    return only


def cells(shown: Table) -> dict[str, list[str]]:
    """The rows of a table by their name."""
    return {row[0].text: [cell.text for cell in row[1:]] for row in shown.cells}


def titles(part: Part) -> list[str]:
    """The titles of all sections."""
    return [section.title for section in part.sections]


def between(low: float, high: float) -> Estimate:
    return Estimate((low + high) / 2, (low, high), 50, 20)


ALONE = Estimate(0.9, None, 5, 1)


@pytest.mark.parametrize(
    ("ours", "others", "expected"),
    [
        (between(0.6, 0.7), [between(0.4, 0.59), between(0.1, 0.2)], ABOVE),
        (between(0.6, 0.7), [between(0.4, 0.6)], OPEN),  # they touch
        (between(0.6, 0.7), [between(0.1, 0.2), between(0.5, 0.65)], OPEN),
        (between(0.6, 0.7), [between(0.1, 0.2), between(0.71, 0.8)], BELOW),
        # One control that nothing is known of is enough for not being above every control.
        (between(0.6, 0.7), [between(0.1, 0.2), NOTHING], OPEN),
        (between(0.6, 0.7), [between(0.1, 0.2), None], OPEN),
        (between(0.6, 0.7), [between(0.1, 0.2), Estimate(0.1, None, 5, 1)], OPEN),
        (between(0.6, 0.7), [], OPEN),
        (ALONE, [between(0.1, 0.2)], OPEN),
        (NOTHING, [between(0.1, 0.2)], OPEN),
        (None, [between(0.1, 0.2)], OPEN),
        (Estimate(0.6, (math.nan, math.nan), 5, 5), [between(0.1, 0.2)], OPEN),
    ],
)
def test_beside_controls(
    ours: Estimate | None, others: list[Estimate | None], expected: str
) -> None:
    assert claims.compare(ours, others) == expected


@pytest.mark.parametrize(
    ("verdict", "flips", "unneeded", "null", "expected"),
    [
        ("used", share(0.9), share(0.02), share(0.02), "used"),
        # A verdict that its intervals do not carry is not repeated.
        ("used", share(0.1), share(0.1), share(0.02), "inconclusive"),
        ("used", share(0.3), share(0.02), share(0.28), "inconclusive"),
        ("used", ALONE, share(0.02), None, "inconclusive"),
        ("not used", share(0.1), share(0.02), share(0.02), "not used"),
        ("not used", share(0.22), share(0.02), share(0.02), "inconclusive"),  # reaches 27%
        ("not used", NOTHING, share(0.02), None, "inconclusive"),
        ("inconclusive", share(0.9), share(0.02), share(0.02), "inconclusive"),
        ("", share(0.9), share(0.02), share(0.02), "inconclusive"),
    ],
)
def test_use_is_claimed_where_the_verdict_and_the_intervals_agree(
    verdict: str, flips: Estimate, unneeded: Estimate, null: Estimate | None, expected: str
) -> None:
    row = made.used_row(flips, chosen=True, unneeded_flips=unneeded, null_flips=null)
    (shown,) = shown_models([made.result(verdict=verdict, use=(row,))])
    assert shown.use == expected


def findings(*results: Representation) -> list[Finding]:
    models = shown_models(results)
    summaries = {name: page.summary(models, name) for name in ("read", "used")}
    return [line for shown in models for line in claims.findings(shown, summaries)]


def leads(*results: Representation) -> list[str]:
    return [line.lead for line in findings(*results) if line.lead]


def about(word: str, *results: Representation) -> str:
    (line,) = (line.plain for line in findings(*results) if word in line.plain)
    return line


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
    line = about("in the world that it believes", result)
    assert line.startswith(f"goalmeter/mouse: {lead}") and control in line


def unread() -> tuple[MapRow, ...]:
    """Maps that a probe reads no better than places alone, as its interval has it."""
    gain = est(-0.64, 1.02)
    return tuple(
        replace(row, auroc=share(0.64), gain_bits=gain) if row.control is None else row
        for row in made.map_rows()
    )


UNTOLD = {"used": 0, "not used": 0, "unknown": 7}
READ = "activations do not predict the map better than position alone"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"maps": unread()}, READ),
        ({"maps": ()}, READ),
        ({"places": UNTOLD}, "the use of every cell is unknown"),
        ({"maps": unread(), "places": UNTOLD}, f"{READ}, and the use of every cell is unknown"),
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
    table = page.table(shown, "believed")
    assert table is not None
    assert "the believed world" not in [row[0].text for row in table.cells]
    assert page.believed_figure([shown]) is None


@pytest.mark.parametrize(
    ("above", "words"),
    [
        (0.3, "more than every control explains (empty room: 30.0%"),
        (0.01, "Whether every control explains less is inconclusive"),
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
    # 54% before, where position alone tells 52% with the same half-width: it is inconclusive.
    assert "before it reasons" in before and "inconclusive" in before
    # Neither the optimal plan nor another answer, which are higher, stands in the way.
    assert "after it reasons" in after and "Up to 4 actions it is above" in after
    lower = made.result(plan=made.plan_rows(0.4))
    lines = [line.plain for line in findings(lower) if "it reasons" in line.plain]
    assert all("A simple baseline is above that." in line for line in lines)


def test_paired_differences_decide_where_they_are_known() -> None:
    (row, *_) = (row for row in made.plan_rows() if row.position == "post/end")
    # Far apart, and by the difference it is inconclusive; a baseline that the run lacks is none.
    position = {"prefix": share(0.2), "conditional": share(0.2), "beyond": est(0.1, 0.2)}
    apart = replace(row, baselines={"position only": position, "asked again": None})
    assert "inconclusive" in about("it reasons", made.bare(plan=(apart,)))
    near = {"position only": position | {"prefix": share(0.88), "beyond": est(0.02, 0.01)}}
    line = about("it reasons", made.bare(plan=(replace(row, baselines=near),)))
    assert "That is above every simple baseline." in line
    decided = tuple(replace(each, beyond=est(-0.1, 0.05)) for each in made.decided_rows())
    assert "at no point" in about("of the reasoning", made.bare(decided=decided))


def test_moves_that_follow_more_than_by_chance_and_such_as_do_not() -> None:
    line = about("with the goal moved", made.result())
    assert "put into layer 1, pre/goal (an unrelated one: 4.0%" in line
    assert "80.0% [75.0, 85.0] of moves follow it" in line
    # 5% [0, 10] is below a quarter, and far below the other question itself.
    line = about("with the agent moved", made.result())
    assert "95.0% [90.0, 100.0] of moves follow it when that" in line and ", and 5.0% [0.0" in line
    rows = made.moved_rows(0.22)  # up to 27%, and from 17% on: neither is shown
    wide = tuple(replace(row, null_flips=share(0.2)) for row in rows)
    lines = [line.plain for line in findings(made.bare(moved=wide))]
    assert not [line for line in lines if "the goal moved" in line]
    alone = tuple(row for row in rows if not row.is_ceiling)
    lines = [line.plain for line in findings(made.bare(moved=alone))]
    assert not [line for line in lines if "the agent moved" in line]


HOSTILE = "<script>alert('x')</script>{0}\x1b[31m$a_b$"


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
        made.bare(maps=()),
        made.bare(maps=(map_row(share(0.9)),), chosen={}),
        made.bare(
            maps=(map_row(share(0.9), cells="all"),),
            use=made.use_rows()[:3],
            doses=made.dose_rows()[:1],
            spans=made.span_rows()[:1],
            moved=made.moved_rows()[3:5],
            subspaces=(made.subspace_row(),),
            plan=made.plan_rows()[1:2],
            decided=made.decided_rows()[:1],
            believed=made.believed(est(1.0)) | {"controls": {}, "beyond": {}},
        ),
    ],
)
def test_a_page_of_every_shape(tmp_path: Path, result: Representation) -> None:
    # A report reads the stored result.
    result.save(tmp_path)
    _, text = page_of(tmp_path, part_of(Representation.load(tmp_path)))
    assert ">nan" not in text.lower() and "None" not in re.sub(r"<[^>]*>", "", text)


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
        "believed": made.believed(made.est(1.0)),
    }
    _, text = page_of(
        tmp_path, part_of(made.result(**changes), made.bare(model=HOSTILE, run=HOSTILE))
    )
    assert "<script" not in text and "\x1b" not in text
    assert html.escape("<script>alert", quote=False) in text


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
    about = {"run": run_digest(load(walks).trajectories)}
    made.bare(about=about, use=made.use_rows(), verdict="used").save(walks)
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


def test_a_result_that_was_edited_is_one_clear_error(walks: Path, tmp_path: Path) -> None:
    about = {"run": run_digest(load(walks).trajectories)}
    made.result(about=about, believed={"meg_true": 1}).save(walks)
    try:
        with pytest.raises(InvalidFileError, match=r"walks cannot be shown .* probe the run again"):
            report_runs([walks], tmp_path / "page.html")
    finally:
        (walks / "probe" / "result.json").unlink()


@pytest.mark.browser
def test_on_a_telephone_nothing_runs_off_the_side_and_no_text_is_small(
    browser: str, tmp_path: Path
) -> None:
    page, _ = page_of(tmp_path, whole())
    script = """
      const small = [];
      for (const text of page.querySelectorAll("svg text")) {
        const svg = text.closest("svg");
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        const size = parseFloat(view.getComputedStyle(text).fontSize) * scale;
        if (size < 8.99) small.push([text.textContent, size]);
      }
      const maps = [...page.querySelectorAll("figure")]
        .filter(figure => /decoded map\\.|true map:/.test(figure.textContent))
        .map(figure => figure.querySelector(".scroll"))
        .map(box => box.scrollWidth - box.clientWidth);
      const strokes = new Set();
      for (const line of page.querySelectorAll("svg path"))
        strokes.add(view.getComputedStyle(line).stroke);
      return [view.innerWidth, page.documentElement.scrollWidth, small, maps, [...strokes]];
    """
    inner, wide, small, maps, strokes = asked(
        browser, page, tmp_path / "b", script, width=400, scheme="dark"
    )
    assert inner == 400 and wide <= inner
    assert small == []
    # A map of a state is seen whole.
    assert len(maps) == 10 and max(maps) == 0
    # The green of used cells is another one in the dark.
    assert "rgb(0, 158, 115)" not in strokes
