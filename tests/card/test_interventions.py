"""Changed worlds on cards: tables, and mazes that are rotated and mirrored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter.card import interventions, isometries
from goalmeter.card.evaluate import plan_of
from goalmeter.card.measured import SCALES, CardSettings
from goalmeter.card.records import EXACT

CLIFF = gm.cliff_world()
CHANGES = ("follows_goal", "no_goal", "finds_detour", "slip")
OTHERS = ("navigation", "interventions", "reflection")
EAST = "def east(world, state):\n    return [0.05, 0.6, 0.05, 0.3]\n"
PLANS = "import goalmeter as gm\ndef plan(world):\n    return gm.optimal_policy(world)\n"


def verdicts(card: Any) -> list[str]:
    return [card.row(name).note.partition(";")[0] for name in CHANGES]


def test_only_an_agent_that_plans_again_follows_a_reward(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLANS)
    CLIFF.to_npz(tmp_path / "mdp.npz")
    planner = gm.measure(gm.optimal_policy, world=CLIFF, out=tmp_path / "planner")
    from_file = gm.measure(f"{tmp_path / 'mine.py'}:plan", world=str(tmp_path / "mdp.npz"))
    fixed = gm.measure(gm.optimal_policy(CLIFF), world=CLIFF, out=tmp_path / "fixed")
    uniform = gm.measure(gm.uniform_policy(CLIFF), world=CLIFF)
    assert verdicts(planner) == verdicts(from_file) == ["follows"] * 4
    # Slips change nothing that the old dynamics do not explain as well.
    assert verdicts(fixed) == ["does not follow"] * 3 + ["inconclusive"]
    assert verdicts(uniform) == ["does not follow"] * 4
    for card in (planner, fixed):
        for name in CHANGES:
            row = card.row(name)
            assert row is not None and row.ends == EXACT and row.lower == row.value == row.upper
            assert row.baselines.keys() == {"uniform", "optimal"}
    moved = fixed.row("follows_goal")
    assert moved is not None and "cannot follow" in moved.note
    assert "cannot follow" not in planner.row("follows_goal").note  # type: ignore[union-attr]
    # The number is in the file that the row names.
    lines = (tmp_path / "fixed" / moved.source).read_text().splitlines()
    stored = {entry["key"]: entry["value"] for entry in map(json.loads, lines) if "key" in entry}
    assert stored["agent"]["rows"][0]["share"]["value"] == moved.value
    exact = gm.meg.under_changes(CLIFF, gm.optimal_policy(CLIFF)).rows[0]
    assert moved.value == pytest.approx(exact.share.value)


def test_logged_trajectories_are_not_continued() -> None:
    rng = np.random.default_rng(0)
    log = gm.tabular.sample_trajectories(CLIFF, gm.optimal_policy(CLIFF), 5, rng=rng)
    plan = plan_of(log, CardSettings(world=CLIFF))
    reasons = {each.measure: each.reason for each in plan.not_run}
    assert "cannot be continued" in reasons["interventions"]


def test_a_function_that_fails_in_a_table_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="expected a function from a TabularMDP"):
        gm.measure(lambda world: "north", world=CLIFF)


def test_an_agent_that_sees_the_frame_is_known_by_its_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isometries, "MAZES", dict.fromkeys(SCALES, 12))
    (tmp_path / "mine.py").write_text(EAST)
    cards = [
        gm.measure(agent, out=tmp_path / name, without=OTHERS)
        for name, agent in (
            ("optimal", "optimal"),
            ("follower", "wall-follower"),
            ("east", f"{tmp_path / 'mine.py'}:east"),
        )
    ]
    rows = {"frame_accuracy", "frame_success", "frame_dependence"}
    assert all({row.id for row in card.rows} == rows for card in cards)
    optimal, follower, east = (card.row("frame_dependence") for card in cards)
    assert optimal is not None and follower is not None and east is not None
    for row in (follower, east):
        assert row.lower is not None and row.lower > 0 and row.note.startswith("higher")
    assert optimal.lower is not None and optimal.lower <= 0 and optimal.value < follower.value  # type: ignore[operator]
    # Original mazes are in no special frame, so on average no agent is worse in the others.
    for card in cards:
        for name in ("frame_accuracy", "frame_success"):
            row = card.row(name)
            assert row is not None and row.lower is not None and row.lower <= 0 <= row.upper  # type: ignore[operator]
    items = json.loads((tmp_path / "east" / "items.json").read_text())
    tops, bottoms = map(sum, zip(*items["frame_dependence"].values(), strict=True))
    assert east.value == pytest.approx(tops / bottoms) and east.n == 24
    assert (tmp_path / "east" / east.source).is_file()


def test_walks_under_intervention_are_stored_by_file_and_maze(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interventions, "MAZES", dict.fromkeys(SCALES, 3))
    without = ("navigation", "reflection")
    card = gm.measure("optimal", scale="quick", out=tmp_path, without=without)
    items = json.loads((tmp_path / "items.json").read_text())
    for row in card.rows:
        assert (tmp_path / row.source).is_file() and row.n == len(items[row.id]) == 12
        assert row.method and row.baselines.keys() == {"wall-follower", "random"}
    assert card.trials == 5 * 12
