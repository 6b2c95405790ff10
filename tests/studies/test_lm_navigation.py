"""`goalmeter replicate lm-navigation`: published numbers beside reference agents."""

from __future__ import annotations

import math
import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import replicate as run_study
from goalmeter.gridworld.planner import State, planned
from goalmeter.navigation import measure, suite
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rollouts import play_all
from replications import ledger
from replications.ledger import update
from replications.lm_navigation import study as measurements

replicate = partial(run_study, "lm-navigation")


AGENTS = "optimal,greedy"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an agent that is put beside the published numbers."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    play_all(plan_of("key-seeker", "key-no-door", grids=10), out=folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="module")
def outcome(folder: Path, run: Path) -> Outcome:
    with pytest.MonkeyPatch.context() as patch:
        # One walk through each grid instead of ten.
        patch.setattr(measurements, "of_agents", partial(measurements.of_agents, trajectories=1))
        return replicate(folder, seeds=2, agents=AGENTS, run=[run])


def values_of(outcome: Outcome, agent: str) -> dict[str, Any]:
    estimates: dict[str, Any] = outcome.json["agents"][agent]
    return {quantity: estimate["value"] for quantity, estimate in estimates.items()}


def table(outcome: Outcome, caption: str) -> dict[str, list[str]]:
    (match,) = (t for t in outcome.tables if t.caption == caption)
    return {row[0].text: [cell.text for cell in row[1:]] for row in match.cells}


def test_the_exact_protocol_is_an_average_over_open_cells() -> None:
    accuracy = measurements.every_cell("greedy", grids=2, sizes=[7])["every-cell/7/1"]
    shares = []
    for task in suite("maze", sizes=[7], complexities=[1.0], grids=2, trajectories=1).tasks:
        plan = planned(task.world)
        policy = navigator("greedy").policy(plan)  # type: ignore[attr-defined]
        cells = [cell for cell in task.world.open_cells if cell != task.world.goal]
        states = [State(cell) for cell in cells if plan.distance_from(State(cell)) >= 0]
        right = [
            sum(policy[plan.number(state), action] for action in plan.optimal_actions(state))
            for state in states
        ]
        shares.append(sum(right) / len(right))
    assert accuracy.value == pytest.approx(sum(shares) / 2)
    assert measurements.every_cell("wall-follower") == {}  # it has no policy


@pytest.mark.slow
def test_a_run_stands_beside_the_published_numbers(outcome: Outcome, run: Path) -> None:
    name = "key-seeker (run)"
    assert values_of(outcome, name)["key-no-door/pick_up"] == 1.0
    head = table(outcome, "Headline numbers, KeyDoor and KeyNoDoor")
    assert list(head) == ["GPT-OSS-20B, published", "by chance", *AGENTS.split(","), name]
    # Goal reached and optimal actions with a door; without one the third column is the key.
    assert head["GPT-OSS-20B, published"] == ["100.0%", "98.7 ± 3.2%", "98.9%", "17.0%", "75.0%"]
    assert head[name][:2] == ["–", "–"] and head[name][3].startswith("100.0%")
    pilot = table(outcome, "Mazes of size 7, by complexity")
    assert list(pilot) == ["0", "0.2", "0.4", "0.6", "0.8", "1"]
    assert pilot["0.8"][:2] == ["97%", "92%"] and pilot["0"][2].startswith("100.0%")
    cells = table(outcome, "Optimal actions in every open cell")
    # So few grids as are walked here tell of no cell on which side it lies.
    assert cells["15, 0.4"][-1] == "inconclusive" and "[" in cells["15, 0.4"][-2]
    greedy = values_of(outcome, "greedy")["maze/7/0.8/success"]
    assert pilot["0.8"][2].startswith(f"{greedy:.1%}")
    assert table(outcome, "Headline numbers, 2PathKey")["by chance"] == ["50.00%", "–", "–"]
    assert outcome.json["not_run"] == []
    with pytest.raises(InvalidParameterError, match="another run of key-seeker in 'key-no-door'"):
        replicate(run.parent / "out", run=[run, run])


@pytest.mark.slow
def test_the_ledger_is_filled_from_the_results(
    outcome: Outcome, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (Path(ledger.__file__).parent / "ledger.toml").read_text(encoding="utf-8")
    copy = tmp_path / "ledger.toml"
    copy.write_text(before, encoding="utf-8")
    update.main("lm-navigation", str(folder / "results.json"), str(copy))
    printed = capsys.readouterr().out
    assert "lm-navigation/greedy/key-door/success" in printed
    # Other commands made these, from other mazes.
    assert "every-cell" not in printed and "/maze/7/" not in printed
    written = {row["id"]: row for row in tomllib.loads(copy.read_text("utf-8"))["number"]}
    for name in (
        "greedy/key-door/success",
        "greedy/key-door/accuracy",
        "optimal/two-path/success",
    ):
        agent, _, quantity = name.partition("/")
        ours = outcome.json["agents"][agent][quantity]
        row = written[f"lm-navigation/{name}"]
        assert row["ours"] == pytest.approx(100 * ours["value"], abs=0.01)
        assert row["interval"] == pytest.approx([100 * end for end in ours["interval"]], abs=0.01)
        assert row["seeds"] == ours["clusters"]
    # Nothing else has changed: not the published numbers, nor the rows of agents that did not walk.
    kept = {"ours", "interval", "seeds"}
    for row in tomllib.loads(before)["number"]:
        changed = {key for key, value in row.items() if written[row["id"]][key] != value}
        mine = row["id"].startswith(("lm-navigation/greedy/", "lm-navigation/optimal/"))
        assert changed <= (kept if mine else set()) or row["ours"] != row["ours"], row["id"]
    with pytest.raises(InvalidFileError, match="the results are of 'tempting-button', expected"):
        update.updated(before, "lm-navigation", {"replication": "tempting-button"})


# The pilot has means of walks and not how mazes differ. How the compass varies between mazes of the
# kind stands for the model. Nor can a share with mean p vary by more than √(p (1 − p)).
def compass_accuracies(complexity: float) -> list[float]:
    """Accuracy of the walks of the compass through each of 200 mazes of size 7."""
    mazes = {"sizes": [7], "complexities": [complexity], "grids": 200, "paper": True}
    seen = measure("greedy", "maze", beside=[], on="here", **mazes).seen
    by_maze: dict[int, list[float]] = {}
    for walk, accuracy in zip(seen.trajectories, seen.accuracy, strict=True):
        by_maze.setdefault(walk.seed, []).append(float(accuracy))
    return [float(np.mean(accuracies)) for accuracies in by_maze.values()]


def interval_of_mean(mean: float, n: int, alike: list[float]) -> tuple[float, float]:
    """The 95% interval of a published mean of n shares, by how much others vary."""
    inner = min(max(mean, 0.0005), 1 - 0.0005)  # what was printed as 1 may have been a little less
    most = math.sqrt(inner * (1 - inner))
    deviation = min(float(np.std(alike, ddof=1)) or most, most)
    half = float(t.ppf(0.975, n - 1)) * deviation / math.sqrt(n)
    return max(mean - half, 0.0), min(mean + half, 1.0)


def test_a_share_varies_no_more_than_its_mean_allows() -> None:
    # By hand: √(0.004 · 0.996) = 0.0631, over √10, times t = 2.262: 0.0451.
    low, high = interval_of_mean(0.996, 10, [1.0] * 40)
    assert (low, high) == (pytest.approx(0.996 - 0.0451, abs=1e-4), 1.0)
    # A large spread of others cannot be that of a share near 1.
    assert interval_of_mean(0.996, 10, [0.0, 1.0] * 5)[0] == pytest.approx(low)


def test_the_intervals_of_the_pilots_means_are_of_the_spread_between_mazes() -> None:
    for complexity in (0.2, 0.8):
        (row,) = ledger.load(f"lm-navigation/greedy/maze/7/{complexity}/accuracy")
        accuracies = compass_accuracies(complexity)
        assert len(accuracies) == row.seeds == 200 and row.published_seeds == 20
        assert row.ours == pytest.approx(100 * float(np.mean(accuracies)), abs=0.005)
        low, high = interval_of_mean(row.published_value / 100, 20, accuracies)
        assert row.published_interval == pytest.approx((100 * low, 100 * high), abs=0.01)


def test_the_compass_varies_between_mazes_like_the_published_model() -> None:
    """The stand-in is checked where the model's answers by maze are published."""
    mazes = [row for row in ledger.load(measurements.LEDGER_PREFIX) if row.relation == "same mazes"]
    ratios = []
    for row in mazes:
        published = [100 * (1 - wrong / row.cells) for wrong in row.errors]
        if len(published) == 10 and np.std(published) > 1 and np.std(row.ours_by_maze) > 1:
            ratios.append(np.std(published) / np.std(row.ours_by_maze))
    assert len(ratios) == 23 and 0.8 < np.median(ratios) < 1.25
