"""The page of runs in grid worlds: tables, pictures, walks and findings of each suite."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidParameterError, MissingExtraError
from goalmeter.commands.runs import report_runs
from goalmeter.navigation.behaviour import mixed_model
from goalmeter.navigation.distractors import factors
from goalmeter.navigation.measure import Navigation, navigation_of
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rationality import directedness
from goalmeter.navigation.rollouts import Walked, play_all
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.pages import navigation as page
from goalmeter.pages.navigation import Group
from goalmeter.reflection import measure
from goalmeter.report import Section, Table
from goalmeter.report.page import render
from replications.lm_navigation import study as measurements

SMALL: dict[str, Any] = {"sizes": [7], "complexities": [0.0, 1.0], "grids": 3, "trajectories": 2}
BOTH = ["key", "neutral"]
HOSTILE = "<script>alert(1)</script>\x1b[31m $\\frac$ " + "x" * 500 + "{the end}"


def walked(agent: str, suite: str = "maze", **options: Any) -> Walked:
    return play_all(plan_of(agent, suite, **(options or SMALL)))


def text_of(groups: list[Group], drawn: list[Section]) -> str:
    return render("t", drawn, findings=page.findings(groups), glossary=page.GLOSSARY)


def rows(table: Table) -> dict[tuple[str, ...], list[str]]:
    """The cells of each row by its agent and measure, or by its agent alone."""
    named = 2 if table.heads[1].title == "measure" else 1
    texts = [[cell.text for cell in row] for row in table.cells]
    return {tuple(row[:named]): row[named:] for row in texts}


@pytest.fixture(scope="module")
def mazes() -> list[Group]:
    return page.groups([walked("wall-follower"), walked("epsilon-optimal")])


def test_mazes_have_surface_curves_and_walks_beside_reference_agents(mazes: list[Group]) -> None:
    (group,) = mazes
    names = [(result.agent, result.reference) for result in group.results]
    references = [(name, True) for name in ("optimal", "greedy", "random")]
    assert names == [("wall-follower", False), ("epsilon-optimal", False), *references]
    drawn = page.sections(mazes)
    suite, explained, first, _ = drawn
    distance, surface = suite.figures
    assert "optimal: 100% at 1" in distance.alt and "wall-follower" in distance.svg
    assert all(words in surface.svg for words in ("epsilon-optimal, detour states", "greedy"))
    assert len(first.tables) == len(first.figures) >= 2 and len(explained.tables) == 1
    ids = re.findall(r'\bid="([^"]+)"', text_of(mazes, drawn))
    assert len(ids) == len(set(ids))
    _, _, line, _ = (finding.plain for finding in page.findings(mazes))
    result, greedy = (group.results[i].overall[0] for i in (0, 3))
    for value in (result.accuracy, result.accuracy_detour, greedy.accuracy, greedy.accuracy_detour):
        assert f"{value.value:.1%}" in line


def said_something(walk: Trajectory) -> Trajectory:
    """The walk as of a model that gave a hostile first answer, which was no action."""
    said = {"invalid": HOSTILE, "raw": HOSTILE, "reasoning": HOSTILE}
    hostile = replace(walk.steps[0], action=None, probabilities=None, **said)
    return replace(walk, steps=(hostile, *walk.steps)[: walk.cap])


def test_what_a_model_said_is_shown_and_does_nothing(mazes: list[Group]) -> None:
    run = walked("optimal")
    run = replace(run, trajectories=tuple(map(said_something, run.trajectories)))
    result = replace(navigation_of(run), agent=HOSTILE[:40])
    results = (result, *mazes[0].results[3:])
    group = Group(results, tuple(directedness(results)))
    drawn = page.sections([group])
    text = text_of([group], drawn)
    assert "<script>" not in text and "&lt;script&gt;alert(1)" in text
    assert "of its answers were invalid" in text
    first, second, *_ = drawn[-1].tables[0].cells
    assert first[2].text.startswith("none: <script>") and first[4].text == "not optimal"
    assert len(first[5].text) < 170 and " … " in first[5].text
    assert second[5].text == "" and second[2].text in ("LEFT", "RIGHT", "UP", "DOWN")


def test_what_accuracy_is_lost_by(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("statsmodels")
    options = {"sizes": [7, 9], "complexities": [0.0, 1.0], "grids": 4, "trajectories": 2}
    greedy, optimal = (navigation_of(walked(name, **options)) for name in ("greedy", "optimal"))
    # An agent that never errs leaves nothing to explain.
    table = page.mixed_table([optimal, greedy])
    assert table is not None and [row[0].text for row in table.cells] == ["greedy"]
    assert page.mixed_table([optimal]) is None
    fit = mixed_model(greedy.seen)
    heads = [head.full for head in table.heads]
    row = dict(zip(heads, (cell.text for cell in table.cells[0]), strict=True))
    points = 10 * {term.name: term for term in fit.terms}["complexity"].coefficient
    assert row["0.1 of complexity: points"].startswith(f"{points:.1f}".replace("-", "−"))
    assert points < -1 and row["0.1 of complexity: p"] == "<0.001"
    assert row["walks in grids"] == "32 in 16"
    assert row["spread, points: walks"] == f"{100 * fit.within_grids:.1f}"

    def missing(seen: object) -> None:
        raise MissingExtraError("statsmodels is not installed")

    monkeypatch.setattr(page, "mixed_model", missing)
    assert page.mixed_table([greedy]) is None


def test_frames() -> None:
    (group,) = groups = page.groups([walked("optimal", "isometries")])
    picture = page.frames_picture(group.results, "p")
    assert "rests on 6 pairs of grids, " in picture.caption
    # Six equal pairs leave 1 - 0.025 ** (1 / 6) of the way to ±100 points.
    assert "optimal, swap: 0.0 [−45.9, +45.9]" in picture.alt
    assert "greedy (ref.), swap" in picture.svg
    table = page.frames_table(group.results, every=True)
    assert len(table.rows) == 4 * (len(group.results) - 1) + len(
        [test for frame in group.results[0].frames.frames for test in frame.comparisons]  # type: ignore[union-attr]
    )
    lines = [finding.plain for finding in page.findings(groups)]
    assert any("equal, within 5 percentage points, in 0 of 4 frames" in line for line in lines)


@pytest.mark.parametrize("name", ["key-no-door", "two-path"])
def test_the_page_tells_a_key_from_a_neutral_object(name: str) -> None:
    groups = page.groups([walked("key-seeker", name, grids=4, objects=BOTH)])
    by_caption = {table.caption: table for table in page.key_tables(groups[0].results)}
    taken = rows(by_caption["The key: how often it is taken, and how often by chance"])
    assert list(taken)[:2] == [("key-seeker, key",), ("key-seeker, neutral",)]
    key, neutral = (taken[agent] for agent in list(taken)[:2])
    assert key[0].startswith("100.0%") and not neutral[0].startswith("100.0%")
    assert key[1] == neutral[1]  # they lie in the same places
    effects = rows(by_caption["What the object does"])
    number, *cells, difference = effects["key-seeker", "taken"]
    effect = groups[0].results[0].factors[0]
    assert number == "4" and cells == [f"{value:.1%}" for value in effect.cells]
    assert difference.startswith(f"+{100 * effect.effect.value:.1f} [")
    if name == "two-path":
        ways = rows(by_caption["The same worlds with and without the key"])
        assert list(ways)[:2] == [("key-seeker, key",), ("key-seeker, neutral",)]


def asked_in_two_ways(agent: str, prompted: str, **options: Any) -> Navigation:
    """An agent measured as one that another prompt turns into another agent."""
    plan = plan_of(agent, "key-no-door", objects=BOTH, **options)
    walks = [
        replace(walk, condition={**walk.condition, "prompt": prompt})
        for prompt, name in (("plain/1", agent), ("keys/1", prompted))
        for walk in play_all(replace(plan, agent=name)).trajectories
    ]
    return navigation_of(Walked(plan, tuple(walks)))


def test_prompt_by_object() -> None:
    result = asked_in_two_ways("greedy", "key-seeker", grids=6)
    (table,) = page.factor_tables([result])
    measured = factors(result.seen)
    number, *shown = rows(table)["greedy", "taken"]
    assert shown[:4] == [f"{value:.1%}" for row in measured.cells for value in row]
    assert shown[3] == "100.0%" and number == "6"
    for text, effect in zip(shown[4:7], (*measured.effects, measured.interaction), strict=True):
        value = float(text.split()[0].replace("−", "-"))
        assert value == pytest.approx(100 * effect.value, abs=0.051)


def test_published_numbers_stand_beside_those_of_keys(tmp_path: Path) -> None:
    for name in ("key-no-door", "two-path"):
        alone = measurements.of_result(navigation_of(walked("random", name, grids=4)))
        both = navigation_of(walked("random", name, grids=4, objects=BOTH))
        assert f"{name}/pick_up" in alone and measurements.of_result(both) == alone
    play_all(plan_of("random", "two-path", grids=1, objects=["neutral"]), out=tmp_path)
    with pytest.raises(InvalidParameterError, match=r"neutral object only.*a run with keys"):
        measurements.of_run(tmp_path)


def test_report_of_runs_of_both_kinds(tmp_path: Path) -> None:
    play_all(plan_of("greedy", "maze", **SMALL), out=tmp_path / "walks")
    measure("naive", 30, 3, environments=["IgnoreRewards"], out=tmp_path / "trials")
    runs = [tmp_path / "walks", tmp_path / "trials"]
    outcome = report_runs(runs, tmp_path / "page.html")
    assert outcome.report is not None
    text = outcome.report.read_text(encoding="utf-8")
    for words in ("Suite maze: does it plan?", "Self-reflection", "How agents do: measured runs"):
        assert words in text
    about = outcome.json["runs"]
    assert [run["agent"] for run in about] == ["greedy", "naive"]
    assert about[0]["run"] == str(runs[0]) and "cells" not in about[0]
    assert about[0]["overall"][0]["accuracy"] > 0.5
    assert np.isfinite(about[0]["meg"][0]["goal"]["nats"]["value"])
