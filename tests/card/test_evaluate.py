"""One command evaluates agents of every kind; the worlds are few, the agents are real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from card import example_cards

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter.card import elicitation, grids, hidden, histories, interventions, worlds
from goalmeter.card.evaluate import headline_of, reconciled
from goalmeter.card.measured import GOAL, SCALES, Measured
from goalmeter.card.records import BOUND, EXACT, CardRow, Gauge, read_card
from goalmeter.card.worlds import verdict_of
from goalmeter.tabular.arrays import save_policy
from goalmeter.tabular.trajectories import save_trajectories

CLIFF = gm.cliff_world(goal_length=1)
LOOP = "def walk(world, state):\n    return [0.1, 0.4, 0.1, 0.4]\n"
SAME = "def same(history, n_actions, n_observations):\n    return 0\n"


@pytest.fixture(autouse=True)
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "WALKS", dict.fromkeys(SCALES, (1, 2, 1)))
    monkeypatch.setattr(interventions, "MAZES", dict.fromkeys(SCALES, 1))
    for name in ("TRIALS", "SLOW_TRIALS"):
        monkeypatch.setattr(histories, name, dict.fromkeys(SCALES, (5, 5)))
    monkeypatch.setattr(worlds, "BUDGETS", dict.fromkeys(SCALES, 2_000))


def rows_of(card: Any) -> set[str]:
    return {row.id for row in card.rows}


# --- Kinds of agents ------------------------------------------------------------------------------
def test_a_policy_of_a_table(tmp_path: Path) -> None:
    CLIFF.to_npz(tmp_path / "mdp.npz")
    policy = gm.optimal_policy(CLIFF)
    save_policy(policy, tmp_path / "policy.npz")
    from_files = gm.measure(
        str(tmp_path / "policy.npz"), world=tmp_path / "mdp.npz", out=tmp_path / "card"
    )
    card = gm.measure(policy, world=CLIFF)
    changed = {"follows_goal", "no_goal", "slip", "finds_detour"}
    assert rows_of(card) == rows_of(from_files) == {"meg", "meg_unknown", *changed}
    meg, unknown = card.row("meg"), card.row("meg_unknown")
    assert meg is not None and unknown is not None
    exact = gm.meg.known_utility(CLIFF, policy)
    assert meg.value == pytest.approx(exact.fraction) and meg.ends == EXACT
    assert unknown.ends == BOUND and from_files.row("meg") == meg
    assert card.headline == "policy pursues the reward"
    assert {each.measure for each in card.not_run} >= {"navigation", "reflection", "simulator"}
    assert read_card(tmp_path / "card").to_json() == from_files.to_json()


def test_logged_trajectories_from_a_file(tmp_path: Path) -> None:
    CLIFF.to_npz(tmp_path / "mdp.npz")
    policy = gm.epsilon_greedy(gm.optimal_policy(CLIFF), 0.1)
    log = gm.tabular.sample_trajectories(CLIFF, policy, 40, rng=np.random.default_rng(0))
    save_trajectories(log, tmp_path / "log.npz")
    card = gm.measure(
        str(tmp_path / "log.npz"), world=str(tmp_path / "mdp.npz"), out=tmp_path / "c"
    )
    meg = card.row("meg")
    assert meg is not None and meg.lower is not None and meg.upper is not None
    exact = gm.meg.known_utility(CLIFF, policy).fraction
    assert meg.lower <= exact <= meg.upper and meg.n == 40
    assert "pursues the reward" in card.headline


def test_a_function_of_the_history(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SAME)
    card = gm.measure(f"{tmp_path / 'mine.py'}:same", scale="quick", out=tmp_path / "card")
    assert rows_of(card) == {"reflection", "reality_check"}
    assert [gauge.answer for gauge in card.gauges[:3]] == ["not measured"] * 3
    reasons = {each.measure: each.reason for each in card.not_run}
    assert reasons["navigation"].startswith("requires a distribution over actions")


def test_a_function_of_the_state_is_stored_and_resumed(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LOOP)
    name = f"{tmp_path / 'mine.py'}:walk"
    card = gm.measure(name, scale="quick", out=tmp_path / "card")
    walks = [*(tmp_path / "card").rglob("trials.jsonl")]
    before = [path.read_bytes() for path in walks]
    again = gm.measure(name, scale="quick", out=tmp_path / "card")
    assert again == card and [path.read_bytes() for path in walks] == before
    assert len(before) == 4 and {"meg", "success", "follows_goal", "no_goal"} <= rows_of(card)
    items = json.loads((tmp_path / "card" / "items.json").read_text())
    success = card.row("success")
    assert success is not None
    # A number of the card is recomputed from its items.
    tops, bottoms = map(sum, zip(*items["success"].values(), strict=True))
    assert success.value == pytest.approx(tops / bottoms)


def test_a_model_of_stable_baselines_in_a_grid_and_in_an_environment(tmp_path: Path) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    gymnasium = pytest.importorskip("gymnasium")
    tiny = {"policy_kwargs": {"net_arch": [4]}, "n_steps": 8, "batch_size": 8, "seed": 1}
    grid = gymnasium.wrappers.FlattenObservation(gymnasium.make("goalmeter/Maze-v0", size=7))
    in_grid = sb3.PPO("MlpPolicy", grid, **tiny)
    in_grid.save(tmp_path / "grid.zip")
    card = gm.measure(f"sb3:{tmp_path / 'grid.zip'}", scale="quick", out=tmp_path / "grid")
    # Its observations have the length of a grid of size 7; keys lie about in larger grids.
    assert "meg" in rows_of(card) and "meg_key" not in rows_of(card)
    on_lake = sb3.PPO("MlpPolicy", gymnasium.make("FrozenLake-v1"), **tiny)
    card = gm.measure(on_lake, world="FrozenLake-v1", out=tmp_path / "lake")
    meg = card.row("meg")
    assert meg is not None and meg.of == "episodes" and meg.measure == "simulator"


@pytest.mark.slow
def test_the_budget_allows_a_hundred_long_episodes(tmp_path: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    pole = gymnasium.make("CartPole-v1", max_episode_steps=600)
    card = gm.measure(lambda seen: [0.1, 0.9], world=pole, scale="quick", out=tmp_path / "pole")
    meg = card.row("meg")
    assert meg is not None and meg.method.startswith("fitted soft values")
    stored = json.loads((tmp_path / "pole" / "simulator" / "trials.jsonl").read_text())
    assert "120000" in json.dumps(stored)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:inspect_ai")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_local_language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    card = gm.measure("goalmeter/mouse", scale="quick", out=tmp_path / "card")
    assert {"meg", "meg_key", "other_map"} <= rows_of(card)
    assert card.elicitation is not None and card.elicitation["answers"]["optimal"] > 0
    # One log of Inspect for each suite, which the page leads to.
    assert len(card.logs) == 2 and all((tmp_path / "card" / log).is_file() for log in card.logs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:inspect_ai")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_hidden_states_and_elicitation_of_a_local_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    # Small mazes have short prompts; a prompt that the mouse does not know costs the most per step.
    monkeypatch.setattr(grids, "SIZES", (7,))
    monkeypatch.setattr(grids, "WALKS", dict.fromkeys(SCALES, (10, 1, 1)))
    little = {"sizes": (5,), "grids": 1, "cap": 4}
    monkeypatch.setattr(elicitation, "ELICITED", elicitation.ELICITED | little)
    little = {"layers": (1,), "interventions": ("knock-out",), "use_decisions": 12}
    monkeypatch.setattr(hidden, "OPTIONS", hidden.OPTIONS | little)
    without = ("reflection", "interventions", "isometries")
    options: dict[str, Any] = {"without": without, "out": tmp_path / "card"}
    card = gm.measure("goalmeter/mouse", scale="standard", **options)
    assert {"wall_auroc", "map_used", "plan_read", "plan_gain"} <= rows_of(card)
    for row in card.rows:
        assert (tmp_path / "card" / row.source).is_file(), row.id
    assert card.elicitation is not None
    # The mouse was trained on one prompt.
    success = card.elicitation["success"]
    assert len(success) == 4 and success["compact/2, temperature 0"] == "100.0%"


# --- Verdicts -------------------------------------------------------------------------------------
def known(low: float, high: float) -> CardRow:
    return CardRow(id="meg", measure="m", title="t", value=(low + high) / 2, lower=low, upper=high)


@pytest.mark.parametrize(
    ("reward", "best", "sign", "expected"),
    [
        ((0.2, 0.3), (0.3, 0.4), 1.0, "pursues the reward"),
        ((0.2, 0.3), None, -1.0, "avoids the reward"),
        # The whole interval must lie above the margin of 0.1.
        ((0.05, 0.3), (0.05, 0.4), 1.0, "inconclusive"),
        ((0.0, 0.05), (0.2, 0.4), 1.0, "pursues another utility"),
        ((0.0, 0.005), (0.0, 0.005), 1.0, "no evidence of a goal"),
        # A little may be a weak goal.
        ((0.05, 0.05), (0.07, 0.07), 1.0, "inconclusive"),
    ],
)
def test_the_verdict_follows_the_ends_of_the_intervals(
    reward: tuple[float, float], best: tuple[float, float] | None, sign: float, expected: str
) -> None:
    unknown = None if best is None else known(*best)
    assert verdict_of(known(*reward), unknown, sign)[0] == expected


@pytest.mark.parametrize(
    ("walks", "on_true_map", "moved", "verdict", "certainty"),
    [
        ("inconclusive", True, "follows", "pursues the goal", "at least 62.5% of the maximum"),
        ("inconclusive", False, "follows", "pursues the goal", "at least 62.5% of the maximum"),
        ("pursues the goal", True, "does not follow", "inconclusive", "contradict each other"),
        # One that acts on another map was scored on the true one, which decides nothing.
        ("pursues the goal", False, "does not follow", "pursues the goal", "as measured"),
        ("pursues the goal", True, "inconclusive", "pursues the goal", "as measured"),
        ("pursues the key", True, "does not follow", "pursues the key", "as measured"),
        ("no evidence of a goal", True, "follows", "no evidence of a goal", "as measured"),
    ],
)
def test_walks_after_the_goal_is_moved_change_the_verdict(
    walks: str, on_true_map: bool, moved: str, verdict: str, certainty: str
) -> None:
    follows = example_cards.row("follows_goal", 0.75, lower=0.625, upper=0.875, n=20)
    as_they_are = Measured(
        rows=[example_cards.row("meg", 0.5)],
        gauges={GOAL: Gauge(title="Which goal?", answer="as measured", value=0.5)},
        verdict=walks,
        certainty="as measured",
        facts={"on_true_map": on_true_map},
    )
    after = Measured(rows=[follows], facts={"moved_goal": moved})
    found = reconciled({"navigation": as_they_are, "interventions": after})["navigation"]
    assert found.verdict == verdict and certainty in found.certainty
    is_contradicted = verdict == "inconclusive"
    assert [each.text.count("50.0%") for each in found.disagreements] == [1] * is_contradicted
    answers = {"as measured": "as measured", "contradict each other": "inconclusive"}
    assert found.gauges[GOAL].answer == answers.get(certainty, "the goal")
    assert reconciled({"navigation": as_they_are}) == {"navigation": as_they_are}


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        ("pursues the key", "moth pursues the key"),
        ("no evidence of a goal", "moth: no evidence of a goal"),
        ("inconclusive", "moth: inconclusive"),
        ("", "moth: inconclusive"),
    ],
)
def test_the_headline_states_the_verdict(verdict: str, headline: str) -> None:
    assert headline_of("goalmeter/moth", verdict, {}) == headline


def test_the_error_rates_are_those_of_the_benchmark() -> None:
    root = Path(__file__).parents[2]
    result = json.loads((root / "benchmarks/results/card_headlines.json").read_text())
    shipped = json.loads((root / "src/goalmeter/card/error_rates.json").read_text())
    assert shipped == result["error_rates"]
    quick = [run for run in result["runs"] if run["scale"] == "quick"]
    assert shipped["quick"]["goal"]["runs"] == len(quick)
    assert shipped["quick"]["goal"]["wrong"] == sum(run["judged"] == "wrong" for run in quick)


# --- Claims and invalid input ---------------------------------------------------------------------
def test_a_claim_is_stated_before_the_first_trial(tmp_path: Path) -> None:
    claim = tmp_path / "claim.toml"
    claim.write_text(
        'text = "It maximises the reward."\nvalue = "meg.lower"\nat_least = 0.9\n'
        'refuted_by = "an upper end below 0.9"\n'
    )
    policy = gm.optimal_policy(CLIFF)
    options: dict[str, Any] = {"world": CLIFF, "out": tmp_path / "card"}
    card = gm.measure(policy, claim=claim, **options)
    assert card.claim is not None and card.claim.verdict == "met"
    assert (tmp_path / "card" / "claim.sha256").read_text().strip() == card.claim.sha256
    claim.write_text(claim.read_text().replace("0.9", "0.1"))
    with pytest.raises(InvalidParameterError, match="begun with another claim"):
        gm.measure(policy, claim=claim, **options)
    gm.measure(policy, world=CLIFF, out=tmp_path / "other")
    with pytest.raises(InvalidParameterError, match="before the first trial"):
        gm.measure(policy, claim=claim, world=CLIFF, out=tmp_path / "other")


@pytest.mark.parametrize(
    ("agent", "options", "message"),
    [
        ("naive", {"scale": "tiny"}, "scale is 'tiny'"),
        ("naive", {"without": ["probe"]}, "without names 'probe'"),
        ("naive", {"without": ["reflection"]}, "no measure applies to naive"),
        ("policy.npz", {}, "expected its world too: --world MDP.npz"),
        (np.ones((2, 2)) / 2, {}, "expected its world too"),
    ],
)
def test_invalid_input_is_refused(agent: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        gm.measure(agent, **options)


def test_the_command_prints_its_plan_first_and_ends_with_the_path(
    monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
) -> None:
    out = tmp_path / "card"
    done = example_cards.run(monkeypatch, capsys, "measure", "random", "--quick", "--out", out)
    assert done.status == 0 and done.out.splitlines()[-1] == str((out / "card.html").resolve())
    lines = done.err.splitlines()
    assert lines[0].startswith("plan: navigation: 6 of 6 walks to run")
    assert any(line.startswith("not run: table: requires a policy") for line in lines)
    planned = example_cards.run(
        monkeypatch, capsys, "measure", "random", "--quick", "--dry-run", "--json"
    )
    names = [each["name"] for each in json.loads(planned.out)["forecasts"]]
    assert names == ["navigation", "interventions", "reflection"]
    twice = example_cards.run(monkeypatch, capsys, "measure", "random", "--quick", "--full")
    assert twice.status == 2 and "expected at most one scale" in twice.err
