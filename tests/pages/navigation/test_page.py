"""The report on runs in grid worlds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidFileError
from goalmeter.commands.runs import report_runs
from goalmeter.navigation import Trajectory
from goalmeter.navigation.goal_directedness import directedness
from goalmeter.navigation.measure import navigation_of
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rollouts import Walked, play_all
from goalmeter.pages import navigation as navigation_page
from goalmeter.pages.navigation import Group
from goalmeter.reflection import measure
from goalmeter.report import Section
from goalmeter.report.page import render

SMALL: dict[str, Any] = {"sizes": [7], "complexities": [0.0, 1.0], "grids": 3, "trajectories": 2}
HOSTILE = "<script>alert(1)</script>\x1b[31m $\\frac$ " + "x" * 500 + "{the end}"


def walked(agent: str, suite: str = "maze", **options: Any) -> Walked:
    return play_all(plan_of(agent, suite, **options))


def page_of(groups: list[Group], drawn: list[Section] | None = None) -> str:
    """The page of groups, with their sections if they were drawn already: that takes seconds."""
    return render(
        "t",
        navigation_page.sections(groups) if drawn is None else drawn,
        findings=navigation_page.findings(groups),
        glossary=navigation_page.GLOSSARY,
    )


@pytest.fixture(scope="module")
def mazes() -> list[Group]:
    runs = [walked("wall-follower", **SMALL), walked("epsilon-optimal", **SMALL)]
    return navigation_page.groups(runs)


def by_title(sections: list[Section]) -> dict[str, Section]:
    return {section.title: section for section in sections}


def test_agents_in_the_same_worlds_share_their_reference_agents(mazes: list[Group]) -> None:
    (group,) = mazes
    names = [(result.agent, result.reference) for result in group.results]
    assert names == [
        ("wall-follower", False),
        ("epsilon-optimal", False),
        ("optimal", True),
        ("greedy", True),
        ("random", True),
    ]
    reseeded = walked("wall-follower", **(SMALL | {"seed": 1}))
    apart = navigation_page.groups([walked("wall-follower", **SMALL), reseeded])
    assert [len(g.results) for g in apart] == [4, 4]
    assert [row.agent for row in group.directed] == [name for name, _ in names]


def test_the_page_has_surface_curves_and_walks(mazes: list[Group]) -> None:
    drawn = navigation_page.sections(mazes)
    sections = by_title(drawn)
    assert list(sections) == [
        "Suite maze: does it plan?",
        "What explains the walks, maze",
        "Walks of wall-follower, maze",
        "Walks of epsilon-optimal, maze",
    ]
    distance, surface = sections["Suite maze: does it plan?"].figures
    assert "optimal: 100% at 1" in distance.alt and "wall-follower" in distance.svg
    assert "decisions in 3 to 6 grids." in distance.caption
    assert surface.caption.startswith(
        "The accuracy surface: each cell rests on 3 grids with 2 walks"
    )
    for words in ("epsilon-optimal, detour states", "greedy", "complexity 1", "size 7"):
        assert words in surface.svg
    walks = sections["Walks of wall-follower, maze"]
    assert len(walks.tables) == len(walks.figures) >= 2
    assert walks.tables[0].caption.startswith("Most steps lost (size 7, complexity ")
    page = page_of(mazes, drawn)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids)) and "takes an optimal action in" in page


def test_findings_hold_an_agent_beside_the_compass(mazes: list[Group]) -> None:
    lead, _, first, _ = (finding.plain for finding in navigation_page.findings(mazes))
    assert lead.startswith("wall-follower, maze: ")
    result, greedy = (mazes[0].results[i].overall[0] for i in (0, 3))
    for value in (result.accuracy, result.accuracy_detour, greedy.accuracy, greedy.accuracy_detour):
        assert f"{value.value:.1%}" in first
    keys = navigation_page.groups([walked("greedy", "key-no-door", grids=4)])
    lines = [finding.plain for finding in navigation_page.findings(keys)]
    assert "anting the goal explains" in lines[0] and "Before it takes the key, " in lines[0]
    assert "random in" in lines[1] and "of its walks, the random agent in " in lines[2]


def test_surfaces_have_no_number_where_there_is_none(mazes: list[Group]) -> None:
    # A room, complexity 0, has no detour states.
    values = navigation_page._surface(mazes[0].results[0], "accuracy_detour", [7], [0.0, 1.0])
    assert str(values[0, 0]) == "nan" and 0 <= values[0, 1] <= 1


@pytest.mark.parametrize("name", ["isometries", "key-door"])
def test_every_suite_has_its_sections(name: str) -> None:
    options = SMALL if name == "isometries" else {"grids": 4}
    groups = navigation_page.groups([walked("optimal", name, **options)])
    drawn = navigation_page.sections(groups)
    titles = list(by_title(drawn))
    expected = "The same grids in other frames" if name == "isometries" else f"Keys, {name}"
    assert titles[1] == expected
    assert titles[2:] == [f"What explains the walks, {name}", f"Walks of optimal, {name}"]
    if name == "isometries":
        (picture,) = by_title(drawn)[expected].figures
        assert "rests on 6 pairs of grids, " in picture.caption
        # Six equal pairs leave 1 - 0.025 ** (1 / 6) of the way to ±100 points.
        assert "optimal, swap: 0.0 [−45.9, +45.9]" in picture.alt
        assert "greedy (ref.), swap" in picture.svg
        assert "the same, within 5 percentage points, in 0 of 4 frames" in page_of(groups, drawn)


def said_something(walk: Trajectory) -> Trajectory:
    """The walk as of a model that gave a hostile first answer, which was no action."""
    first = walk.steps[0]
    hostile = replace(
        first, action=None, invalid=HOSTILE, raw=HOSTILE, reasoning=HOSTILE, probabilities=None
    )
    steps = (hostile, *walk.steps)
    return replace(walk, steps=steps[: walk.cap])


def test_what_a_model_said_is_shown_and_does_nothing() -> None:
    run = walked("optimal", **SMALL)
    run = replace(run, trajectories=tuple(map(said_something, run.trajectories)))
    result = replace(navigation_of(run), agent=HOSTILE[:40])
    beside = navigation_page.groups([run])[0].results[1:]
    assert {r.agent for r in beside} >= {"greedy", "random"}
    group = Group((result, *beside), tuple(directedness([result, *beside])))
    page = page_of([group])
    assert "<script>" not in page and "&lt;script&gt;alert(1)" in page
    table = navigation_page.replays_section(result, "p").tables[0]
    first, second = table.cells[0], table.cells[1]
    assert first[2].text.startswith("none: <script>") and first[4].text == "not optimal"
    assert len(first[5].text) < 170 and " … " in first[5].text
    assert second[5].text == "" and second[2].text in ("LEFT", "RIGHT", "UP", "DOWN")
    assert "of its answers were no action" in page


def test_walks_that_are_shown_are_the_worst_the_middle_and_a_faultless_one() -> None:
    result = navigation_of(walked("epsilon-optimal(0.4)", **(SMALL | {"grids": 6})))
    lost = {}
    for walk in result.seen.trajectories:
        lost[id(walk)] = len(walk.steps) - walk.distance if walk.arrived else walk.cap
    chosen = navigation_page.selected(result)
    assert [title.partition(" (")[0] for title, _ in chosen] == [
        "Most steps lost",
        "In the middle",
        "Longest without a wrong step",
    ]
    worst, middle, faultless = (lost[id(walk)] for _, walk in chosen)
    assert worst == max(lost.values()) >= middle >= faultless == 0
    longest = max(len(w.steps) for w in result.seen.trajectories if not lost[id(w)])
    assert len(chosen[2][1].steps) == longest


def test_report_of_runs_of_both_kinds(tmp_path: Path) -> None:
    play_all(plan_of("greedy", "maze", **SMALL), out=tmp_path / "walks")
    measure("naive", 30, 3, environments=["IgnoreRewards"], out=tmp_path / "trials")
    runs = [tmp_path / "walks", tmp_path / "trials"]
    told: list[str] = []
    outcome = report_runs(runs, tmp_path / "page.html", progress=told.append)
    assert outcome.report is not None
    page = outcome.report.read_text(encoding="utf-8")
    for words in ("Suite maze: does it plan?", "Self-reflection", "How agents do: measured runs"):
        assert words in page
    about = outcome.json["runs"]
    assert [run["agent"] for run in about] == ["greedy", "naive"]
    assert about[0]["run"] == str(runs[0]) and "cells" not in about[0]
    assert about[0]["overall"][0]["accuracy"] > 0.5
    assert about[0]["meg"][0]["goal"]["nats"]["value"] > 0
    only = report_runs(runs[:1], tmp_path / "one.html").report
    assert only is not None and "<h1>How agents behave in grid worlds" in only.read_text("utf-8")


def test_a_run_of_another_kind_is_refused(tmp_path: Path) -> None:
    play_all(plan_of("greedy", "maze", **SMALL), out=tmp_path / "run")
    path = tmp_path / "run" / "run.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"what": about["what"] | {"kind": "probing"}}))
    with pytest.raises(InvalidFileError, match="is a run of 'probing', expected one of 'reflec"):
        report_runs([tmp_path / "run"], tmp_path / "page.html")
