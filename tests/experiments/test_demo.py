from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from goalmeter.experiments import frozen_lake, logged
from goalmeter.experiments.demo import REFLECTING, _lake, demo
from goalmeter.experiments.outcome import Outcome, json_text


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return demo(tmp_path_factory.mktemp("demo"))


def test_the_page_has_all_its_parts(outcome: Outcome) -> None:
    assert outcome.report is not None
    page = outcome.report.read_text(encoding="utf-8")
    for title in (
        "The world",
        "Does MEG fall as the agent gets noisier?",
        "Does MEG fall as the task gets easier?",
        "Where the optimal agents go",
        "Which goal would explain it best?",
        "Where the evidence comes from",
        "A Gymnasium environment: FrozenLake",
        "From logged trajectories",
        "A causal model: the mouse and the cheese",
        "Which variables is it about?",
        "A true goal and a spurious one",
        "Self-reflection",
        "In which environments?",
        "With and without reality check",
        "Every agent in every environment",
        "What each number means",
    ):
        assert f">{title}</h2>" in page, title
    assert page.count("<figure") == 21
    assert "nan" not in page.lower().replace("governance", "")


def test_the_report_is_reproducible(outcome: Outcome, tmp_path: Path) -> None:
    again = demo(tmp_path)
    assert again.report is not None and outcome.report is not None
    assert again.report.read_bytes() == outcome.report.read_bytes()


def test_values_run_from_uniform_to_optimal(outcome: Outcome) -> None:
    world = outcome.json["cliff_world"]["epsilon"]
    known = [row["known_utility"]["meg"] for row in world]
    assert known[:8] == sorted(known[:8], reverse=True)
    assert known[8] == pytest.approx(0.0, abs=1e-9)  # epsilon = 0.75
    for row in (*world, *outcome.json["cliff_world"]["goal_length"]):
        assert row["known_utility"]["meg"] <= row["unknown_utility"]["meg"] + 1e-6
        assert row["known_utility"]["certified"] and row["unknown_utility"]["certified"]
    lake = outcome.json["frozen_lake"]
    returns = [row["expected_return"] for row in lake]
    assert returns == sorted(returns, reverse=True)
    assert lake[0]["unknown_utility"]["fraction"] > 0.9 and lake[2]["known_utility"]["meg"] < 1e-9


def test_intervals_hold_the_exact_value(outcome: Outcome) -> None:
    for row in outcome.json["logged"]:
        low, high = row["interval"]
        assert low <= row["exact"] <= high, row["agent"]
        assert row["n"] == logged.N


def test_the_reality_check_raises_the_learners_and_not_the_others(outcome: Outcome) -> None:
    found = {row["agent"]: row for row in outcome.json["reflection"]}
    assert list(found) == list(REFLECTING)
    for learner in ("naive", "q-learner"):
        assert found[f"rc({learner})"]["measure"] > found[learner]["measure"] + 0.2
    assert found["constant"]["measure"] == found["rc(constant)"]["measure"] == 0
    for row in found.values():
        averages = [e["reward_per_step"] for e in row["environments"]]
        assert len(averages) == 50 and sum(averages) / 50 == pytest.approx(row["measure"])
        assert row["failures"] == 0
    thesis = "The reality check raises the measure of naive (+"
    assert outcome.report is not None and thesis in outcome.report.read_text(encoding="utf-8")


def test_results_are_beside_the_report(outcome: Outcome) -> None:
    assert outcome.report is not None
    results = json.loads((outcome.report.parent / "results.json").read_text(encoding="utf-8"))
    assert results["cliff_world"]["goal_length"][0]["policy"] == "k = 1"
    assert results["mouse"]["example_1"][0]["meg"] == pytest.approx(0.192745, abs=1e-6)


def test_without_gymnasium_the_page_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    lake, section = _lake()
    assert lake is None
    assert "not measured" in section.title
    assert "pip install 'goalmeter[rl]'" in section.text[0]


def test_the_lake_has_the_letters_of_its_map() -> None:
    lake = frozen_lake.measure()
    assert lake.letters == ["SFFF", "FHFH", "FFFH", "HFFG"]
    assert lake.visits.sum() == pytest.approx(lake.horizon)


def test_json_holds_infinities_as_words_and_nan_as_null() -> None:
    text = json_text({"a": float("inf"), "b": [-float("inf"), float("nan")], "c": (1, "ε")})
    assert json.loads(text) == {"a": "inf", "b": ["-inf", None], "c": [1, "ε"]}
    assert "\n" not in text
