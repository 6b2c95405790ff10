"""Keys beside neutral objects, as the command and the report show them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goalmeter import cli
from goalmeter._errors import InvalidParameterError
from goalmeter.commands.navigate import navigate
from goalmeter.navigation.distractors import contrast, factors
from goalmeter.navigation.measure import Navigation, navigation_of
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rollouts import Walked, play_all
from goalmeter.pages import navigation as navigation_page
from goalmeter.pages.navigation_tables import factor_tables, key_tables, keys_table, sentences
from goalmeter.report import Table
from goalmeter.report.page import render
from replications.lm_navigation import measurements

BOTH = ["key", "neutral"]


def rows(table: Table) -> dict[tuple[str, ...], list[str]]:
    """The cells of each row by its agent and measure, or by its agent alone."""
    named = 2 if table.heads[1].title == "measure" else 1
    texts = [[cell.text for cell in row] for row in table.cells]
    return {tuple(row[:named]): row[named:] for row in texts}


def asked_in_two_ways(agent: str, prompted: str, **options: Any) -> Navigation:
    """An agent measured as one that another prompt turns into another agent."""
    plan = plan_of(agent, "key-no-door", objects=BOTH, **options)
    walks = [
        replace(walk, condition={**walk.condition, "prompt": prompt})
        for prompt, name in (("plain/1", agent), ("keys/1", prompted))
        for walk in play_all(replace(plan, agent=name)).trajectories
    ]
    return navigation_of(Walked(plan, tuple(walks)))


def test_the_tables_hold_a_key_against_a_neutral_object() -> None:
    outcome = navigate("key-seeker", suite="key-no-door", grids=6, objects=BOTH)
    by_name = {table.caption: table for table in outcome.tables}
    taken = rows(by_name["The key: how often it is taken, and how often by chance"])
    assert list(taken)[:2] == [("key-seeker, key",), ("key-seeker, neutral",)]
    key, neutral = (taken[name] for name in list(taken)[:2])
    assert key[0].startswith("100.0%") and not neutral[0].startswith("100.0%")
    assert key[1] == neutral[1]  # they lie in the same places
    effects = rows(by_name["What the object does"])
    run = play_all(plan_of("key-seeker", "key-no-door", grids=6, objects=BOTH))
    effect = contrast(run.trajectories)
    number, *cells, difference = effects["key-seeker", "taken"]
    assert number == "6" and cells == [f"{value:.1%}" for value in effect.cells]
    assert difference.startswith(f"+{100 * effect.effect.value:.1f} [")
    assert ("optimal", "optimal actions") in effects
    json_ = outcome.json["factors"]
    assert json_[0] == effect.to_json() and json.dumps(json_, allow_nan=False)
    assert {row["object"] for row in outcome.json["keys"]} == set(BOTH)
    assert "factors" in outcome.json["references"]["greedy"]


def test_runs_without_a_neutral_object_have_no_such_table() -> None:
    outcome = navigate("key-seeker", suite="key-no-door", grids=3)
    assert "factors" not in outcome.json
    assert [t.caption for t in outcome.tables if "does" in t.caption] == []
    assert rows(outcome.tables[2])[("key-seeker",)]


def test_prompt_by_object() -> None:
    result = asked_in_two_ways("greedy", "key-seeker", grids=6)
    (table,) = factor_tables([result])
    assert table.caption == "The prompt by the object"
    assert [column.full for column in table.heads[3:]] == [
        "prompt plain/1: neutral",
        "prompt plain/1: key",
        "prompt keys/1: neutral",
        "prompt keys/1: key",
        "effect, points: prompt",
        "effect, points: object",
        "effect, points: on each other",
    ]
    measured = factors(result.seen)
    number, *shown = rows(table)["greedy", "taken"]
    assert shown[:4] == [f"{value:.1%}" for row in measured.cells for value in row]
    assert shown[3] == "100.0%" and number == "6"
    for text, effect in zip(shown[4:7], (*measured.effects, measured.interaction), strict=True):
        assert float(text.split()[0].replace("−", "-")) == pytest.approx(
            100 * effect.value, abs=0.051
        )
    (sentence,) = sentences(result)
    assert sentence.startswith(
        "the prompt (keys/1 minus plain/1) changes how often greedy takes what"
    )
    assert "the object (key minus neutral) by" in sentence
    assert sentence.endswith(" points more under keys/1 than under plain/1.")
    beside_chance = rows(keys_table([result]))
    assert list(beside_chance) == [
        ("greedy, plain/1, key",),
        ("greedy, plain/1, neutral",),
        ("greedy, keys/1, key",),
        ("greedy, keys/1, neutral",),
    ]


def test_wrong_moves_are_in_points_beyond_chance() -> None:
    result = asked_in_two_ways("random", "boltzmann(0.2)", grids=8, trajectories=2)
    shown = rows(factor_tables([result])[0])
    cells = factors(result.seen, measure="towards").cells
    expected = [f"{100 * value:+.1f}".replace("-", "−") for row in cells for value in row]
    assert shown["random", "wrong moves towards it, beyond chance"][1:5] == expected


@pytest.mark.parametrize("name", ["key-no-door", "two-path"])
def test_the_page_tells_one_from_the_other(name: str) -> None:
    run = play_all(plan_of("key-seeker", name, grids=4, objects=BOTH))
    groups = navigation_page.groups([run])
    tables = {table.caption: table for table in key_tables(groups[0].results)}
    assert list(tables)[-1] == "What the object does"
    findings = navigation_page.findings(groups)
    lines = [finding.plain for finding in findings]
    assert sum("takes the key in" in line for line in lines) == 1
    assert sum("takes the neutral object in" in line for line in lines) == 1
    assert any(
        "the object (key minus neutral) changes how often key-seeker" in line for line in lines
    )
    if name == "two-path":
        ways = rows(tables["The same worlds with and without the key"])
        assert list(ways)[:2] == [("key-seeker, key",), ("key-seeker, neutral",)]
        sections = navigation_page.sections(groups)
        assert [section.title for section in sections] == [
            *("Suite two-path: does it plan?", "Keys, two-path"),
            *("What explains the walks, two-path", "Walks of key-seeker, two-path"),
        ]
        assert list(sections[1].tables)[1:] == list(tables.values())[1:]  # the first has an anchor
        render("t", sections, findings=findings, glossary=navigation_page.GLOSSARY)


def test_replays_show_the_object() -> None:
    plan = plan_of("random", "two-path", grids=6, objects=["neutral"])
    result = navigation_of(play_all(plan))
    walk = next(w for w in result.seen.trajectories if w.world.neutral and w.states()[-2].layer)
    figure = navigation_page.replay(walk, "r", "A walk")
    assert ">N<" in figure.svg and ">K<" not in figure.svg
    steps = navigation_page._steps_table(walk, "t")
    places = [row[1].text for row in steps.cells]
    assert any(place.endswith(", with object") for place in places)
    assert not any("key" in place for place in places)


def test_published_numbers_stand_beside_those_of_keys(tmp_path: Path) -> None:
    for name in ("key-no-door", "two-path"):
        alone = measurements.of_result(navigation_of(play_all(plan_of("random", name, grids=4))))
        both = play_all(plan_of("random", name, grids=4, objects=BOTH))
        assert f"{name}/pick_up" in alone and measurements.of_result(navigation_of(both)) == alone
    play_all(plan_of("random", "two-path", grids=1, objects=["neutral"]), out=tmp_path)
    with pytest.raises(InvalidParameterError, match=r"neutral object only.*a run with keys"):
        measurements.of_run(tmp_path)


def test_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "navigate greedy --suite key-no-door --objects key,neutral --grids 2 --json"
    monkeypatch.setattr("sys.argv", ["goalmeter", *line.split()])
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    document = json.loads(capsys.readouterr().out)
    assert [row["object"] for row in document["keys"]] == BOTH
    monkeypatch.setattr("sys.argv", ["goalmeter", *line.replace(",neutral", ",coin").split()])
    with pytest.raises(SystemExit, match="2"):
        cli.main()
    assert "there is no object 'coin'; known are key, neutral" in capsys.readouterr().err
