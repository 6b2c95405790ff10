from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalmeter.agents import local_models
from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.commands.runs import report_runs
from goalmeter.experiments.calibration.agents import Scale
from goalmeter.experiments.demo import organisms as beliefs
from goalmeter.experiments.demo import organisms as demo_organisms
from goalmeter.experiments.demo import run as frozen_lake
from goalmeter.experiments.demo.run import REFLECTING, _lake, demo
from goalmeter.navigation.rollouts import load
from goalmeter.organisms import organism_names
from goalmeter.report.page import render
from goalmeter.runs import Study
from goalmeter.statistics.clusters import Estimate

# Models are asked in this process, where Inspect calls its own libraries in ways that they have
# given up.
pytestmark = [
    # What all of its tests look at is made once, by one worker.
    pytest.mark.xdist_group("demo"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:inspect_ai"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
SMALL = Scale(
    grids=1, sizes=(7,), complexities=(1.0,), key_worlds=1, walks=1, suites=("maze", "key-no-door")
)
MODELS = tuple(f"goalmeter/{name}" for name in organism_names())


FLIPS = dict.fromkeys(("flips", "null"), Estimate(0.5, (0.4, 0.6), 20, 10).to_json())


@pytest.fixture(scope="module", autouse=True)
def scale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_organisms, "SCALE", SMALL)
        patch.setattr(beliefs, "READ", 16)
        patch.setattr(beliefs, "ASKED", 8)
        # Inspect keeps files of its own there.
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return demo(tmp_path_factory.mktemp("demo"))


def test_the_page_has_all_its_parts(outcome: Outcome) -> None:
    assert outcome.report is not None
    page = outcome.report.read_text(encoding="utf-8")
    for title in (
        "Four language models whose goals are known",
        "The same worlds, other goals",
        "In mazes: do they plan?",
        "Beside a key that opens nothing: what do they want?",
        "Utilities that explain the walks",
        "Which instruments see the difference?",
        "What each instrument says of each agent",
        beliefs.TITLE,
        "A world where MEG is exact: CliffWorld",
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
    walks, megs, areas, learnt, elsewhere = 6, 2, 1, 8, 21
    assert page.count("<figure") == walks + megs + areas + learnt + elsewhere
    assert page.index("Four language models") < page.index("CliffWorld</h2>")
    assert len(page) < 2_000_000
    assert "nan" not in page.lower().replace("governance", "")
    assert "Cell(" not in page


def test_walks_are_kept_and_the_report_is_reproducible(
    outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome.report is not None
    for folder in ("walks", "beliefs"):
        shutil.copytree(outcome.report.parent / folder, tmp_path / folder)
    monkeypatch.setattr(local_models, "LocalModel", None)  # so that nothing can be asked again
    again = demo(tmp_path)
    assert again.report is not None
    assert again.report.read_bytes() == outcome.report.read_bytes()


def test_the_models_walk_in_runs_that_report_reads(outcome: Outcome, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai")
    organisms = outcome.json["organisms"]
    assert organisms["missing"] is None
    assert [run["agent"] for run in organisms["behaviour"]] == [*MODELS, *MODELS]
    known = {agent["name"]: agent for agent in organisms["calibration"]["agents"]}
    assert list(known) == [*MODELS, "optimal", "key-seeker", "random"]
    assert outcome.report is not None
    runs = [
        outcome.report.parent / "walks" / "seed-0" / "goalmeter_mouse" / suite
        for suite in SMALL.suites
    ]
    done = report_runs(runs, tmp_path / "report.html").json
    assert [run["agent"] for run in done["runs"]] == ["goalmeter/mouse"] * 2
    walks = [walk for run in runs for walk in load(run).trajectories]
    assert {walk.outcome for walk in walks} <= {"arrived", "cap"}
    page = outcome.report.read_text(encoding="utf-8")
    assert "What they said at the first step" in page and "&lt;think&gt; target" in page


def test_without_language_models_ideal_organisms_walk_and_the_page_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    results = demo_organisms.measure(tmp_path, seed=0, on="processes:2")
    assert results.names == tuple(f"ideal-{name}" for name in organism_names())
    part = beliefs.part(results)
    sections = part.sections
    assert "pip install 'goalmeter[lm]'" in sections[0].text[-1]
    *leads, instruments = part.findings
    assert [finding.lead.partition(":")[0] for finding in leads] == list(results.names)
    judged = [verdict for verdict in results.calibration.verdicts if verdict.judged]
    start = (
        f"The instruments were asked {len(judged)} questions about agents whose goals are known."
    )
    assert instruments.text.startswith(start)
    # Each line leads to a place on the page, or the page cannot be made.
    page = render("t", sections, findings=[*leads, instruments])
    assert page.count('<span class="links">') == 5


def test_what_is_read_stands_beside_what_is_used(outcome: Outcome) -> None:
    pytest.importorskip("transformers")
    read = outcome.json["beliefs"]
    assert [(row["organism"], row["cells"]) for row in read] == [
        ("mouse", "seen"),
        ("mouse", "unseen"),
        ("mole", "seen"),
        ("mole", "unseen"),
    ]
    for row in read:
        assert set(row["read"]) == {"the model", "position only", "random weights"}
    flips = {(row["organism"], row["cells"]): row["flips"]["value"] for row in read}
    # Few cells, and yet: what the mole was made not to see it does not act on.
    assert flips["mouse", "unseen"] > 0.6 and flips["mole", "unseen"] < 0.4


def a_belief(read: tuple[float, float], flips: tuple[float, float], verdict: str) -> beliefs.Belief:
    def estimate(low: float, high: float) -> Estimate:
        return Estimate((low + high) / 2, (low, high), 20, 10)

    sources = {"the model": estimate(*read), "position only": estimate(0.6, 0.7)}
    return beliefs.Belief(
        "mole",
        "unseen",
        sources | {"random weights": estimate(0.9, 1.0)},
        estimate(*flips),
        estimate(0.0, 0.1),
        verdict,
    )


@pytest.mark.parametrize(
    ("read", "verdict", "told"),
    [
        ((0.8, 0.9), "not used", True),
        ((0.8, 0.9), "used", True),
        ((0.8, 0.9), "cannot be told", False),
        ((0.65, 0.9), "not used", False),
    ],
)
def test_a_sentence_of_beliefs_is_what_its_intervals_carry(
    read: tuple[float, float], verdict: str, told: bool
) -> None:
    findings = beliefs.part_of_beliefs([a_belief(read, (0.0, 0.2), verdict)]).findings
    assert len(findings) == told
    for finding in findings:
        assert f"they are {verdict}: 10.0% [0.0, 20.0] of moves change" in str(finding.text)


def test_what_is_read_is_asked_of_as_many_processes_as_there_are_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("transformers")
    places: list[str] = []

    def noted(study: Study[Any], *, on: str, **options: Any) -> dict[str, Any]:
        places.append(on)
        return {key: {"read": {}, "verdict": "used", **FLIPS} for key in study.trials}

    monkeypatch.setattr(beliefs, "carry_out", noted)
    beliefs.measure_beliefs(tmp_path, seed=0, on="processes:3")
    assert places == ["processes:3"]


def test_without_language_models_the_page_says_that_nothing_was_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    read = beliefs.measure_beliefs(tmp_path, seed=0, on="here")
    assert isinstance(read, str)
    (section,) = beliefs.part_of_beliefs(read).sections
    assert section.title.endswith("not measured") and "goalmeter[lm]" in section.text[0]


def test_the_terminal_has_the_summary_and_the_path_and_no_tables(outcome: Outcome) -> None:
    assert outcome.tables == () and outcome.report is not None
    lines = outcome.text.splitlines()
    assert len(lines) < 60 and max(map(len, lines)) <= 100
    assert lines[0] == "How goal-directed are these agents?"
    findings = [line for line in lines if line.startswith("- ")]
    assert [line.partition(":")[0] for line in findings[:4]] == [f"- {n}" for n in organism_names()]
    # What the terminal says stands in the report too, which has the tables.
    page = outcome.report.read_text(encoding="utf-8")
    assert "The reality check raises the measure of naive" in " ".join(outcome.text.split())
    assert page.count("<table") > 20
    wants = outcome.json["organisms"]["wants"]
    assert [run["agent"] for run in wants][:4] == list(MODELS)
    assert {want["verdict"] for want in wants} <= {
        "pursues",
        "no evidence of a goal",
        "inconclusive",
    }


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
        assert row["n"] == frozen_lake.LOG_EPISODES


def test_the_reality_check_raises_the_learners_and_not_the_others(outcome: Outcome) -> None:
    rows = {row["agent"]: row for row in outcome.json["reflection"]}
    assert list(rows) == list(REFLECTING)
    for learner in ("naive", "q-learner"):
        assert rows[f"rc({learner})"]["measure"] > rows[learner]["measure"] + 0.2
    assert rows["constant"]["measure"] == rows["rc(constant)"]["measure"] == 0
    for row in rows.values():
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
    lake = frozen_lake.measure_frozen_lake()
    assert lake.letters == ["SFFF", "FHFH", "FFFH", "HFFG"]
    assert lake.visits.sum() == pytest.approx(lake.horizon)


def test_json_holds_infinities_as_words_and_nan_as_null() -> None:
    text = json_text({"a": float("inf"), "b": [-float("inf"), float("nan")], "c": (1, "ε")})
    assert json.loads(text) == {"a": "inf", "b": ["-inf", None], "c": [1, "ε"]}
    assert "\n" not in text
