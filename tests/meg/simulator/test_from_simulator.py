"""`from_simulator` in tables that are run: by hand, against what is exact, and what it promises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter.meg import known_utility, unknown_utility
from goalmeter.meg.simulator import SimulatorInterrupted, from_simulator
from goalmeter.meg.simulator.agents import table_actor
from goalmeter.meg.simulator.exploration import StatesMeasure
from goalmeter.meg.simulator.start_bounds import StartMeasure
from goalmeter.meg.simulator.utilities import Range
from goalmeter.meg.simulator.worlds import TabularSimulator
from goalmeter.tabular import TabularMDP, cliff_world, epsilon_greedy, optimal_policy

# Example 1 of the paper: one choice, cheese or nothing.
GO, STAY = [[0, 1, 0], [0, 0, 1]], [[[0, 1, 0]] * 2, [[0, 0, 1]] * 2]
MOUSE = TabularMDP([GO, *STAY], [0, 1, -1], horizon=2)
CLIFF = cliff_world(1, horizon=12)
NEAR = epsilon_greedy(optimal_policy(CLIFF), 0.2)


def chosen(p: float) -> list[list[float]]:
    return [[p, 1 - p], [0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("p", "rationality"), [(0.8, math.log(2)), (0.2, -math.log(2)), (0.5, 0.0)]
)
def test_the_mouse_of_example_one(p: float, rationality: float) -> None:
    # Nothing is left to chance, and the agent is a table: no sampling is left in the numbers.
    exact = math.log(2) + p * math.log(p) + (1 - p) * math.log(1 - p)
    result = from_simulator(MOUSE, chosen(p), budget=1000)
    assert result.interval[0] == pytest.approx(exact, abs=1e-6)
    assert result.interval[1] == pytest.approx(exact, abs=1e-6)
    assert result.rationality == pytest.approx(rationality, abs=2e-3)
    assert result.value == pytest.approx(exact, abs=1e-6)
    assert any("the rationality is negative" in note for note in result.notes) == (p == 0.2)


def test_an_optimum_at_infinity() -> None:
    result = from_simulator(MOUSE, chosen(1.0), budget=1000)
    np.testing.assert_allclose(result.interval, math.log(2), atol=1e-6)


def ending(n: int = 4) -> tuple[TabularMDP, TabularMDP]:
    """A corridor whose last state absorbs, and the same world with ten more decisions behind it."""
    after = np.stack([np.maximum(np.arange(n) - 1, 0), np.minimum(np.arange(n) + 1, n - 1)], axis=1)
    after[n - 1] = n - 1
    pays = np.full((n, 2), -1.0)
    pays[n - 1] = 0.0
    table = (after[..., None], np.ones((n, 2, 1)))
    return TabularMDP(table, pays, horizon=8), TabularMDP(table, pays, horizon=18)


def test_an_absorbing_end_counts_nothing() -> None:
    policy = [[0.2, 0.8]] * 4
    for mdp in ending():
        result = from_simulator(mdp, policy, budget=2000)
        exact = known_utility(mdp, policy)
        np.testing.assert_allclose(result.interval, exact.value, atol=1e-4)
        # Episodes are over in the end, so fewer decisions are made than the horizon has.
        assert result.maximum < mdp.horizon * math.log(2)


def test_the_interval_holds_the_truth_and_closes_in() -> None:
    exact = known_utility(CLIFF, NEAR).value
    few = from_simulator(CLIFF, NEAR, budget=30_000, seed=3)
    many = from_simulator(CLIFF, NEAR, budget=300_000, seed=3)
    for result in (few, many):
        assert result.interval[0] <= exact <= result.interval[1]
        assert sum(result.steps.values()) < 1.2 * 300_000
    assert many.interval[0] > max(few.interval[0], 0.7 * exact)
    assert many.interval[1] < few.interval[1]
    assert many.value == pytest.approx(exact, rel=0.05)
    assert many.binding == {"lower": "the table of states", "upper": "the table of states"}


def test_the_same_numbers_for_a_seed() -> None:
    first, again = (from_simulator(CLIFF, NEAR, budget=20_000, seed=5) for _ in range(2))
    assert first.to_json() == again.to_json()
    other = from_simulator(CLIFF, NEAR, budget=20_000, seed=6)
    assert other.value != first.value


def test_the_best_combination_of_utilities() -> None:
    # All utilities over the four states of the corridor: the certified unknown-utility MEG.
    mdp, _ = ending()
    policy = [[0.2, 0.8], [0.6, 0.4], [0.1, 0.9], [0.5, 0.5]]
    features = {f"state {i}": np.eye(4)[i] for i in range(3)}
    results = from_simulator(mdp, policy, utility=features, combined=True, budget=2000)
    best = results["best combination"]
    exact = unknown_utility(mdp, policy, features=np.eye(4)[:, :3])
    assert best.interval[0] == pytest.approx(exact.value, abs=2e-3)
    assert best.interval[1] >= exact.value - 1e-9
    assert best.interval[0] >= max(results[name].interval[0] for name in features) - 1e-6
    assert set(best.weights) == set(features)
    assert best.to_json()["weights"] == best.weights


def test_the_difference_of_two_utilities() -> None:
    mdp, _ = ending()
    policy = [[0.2, 0.8]] * 4
    still = np.array([0.0, 1.0, 0.0, 0.0])
    results = from_simulator(mdp, policy, utility={"end": "reward", "still": still}, budget=2000)
    difference, (low, high) = results["end"].less(results["still"])
    exact = known_utility(mdp, policy).value - known_utility(mdp, policy, utility=still).value
    assert low - 1e-9 <= exact <= high + 1e-9
    assert high - low < 1e-3
    assert difference == pytest.approx(exact, abs=1e-3)
    with pytest.raises(InvalidParameterError, match="different measurements"):
        results["end"].less(from_simulator(MOUSE, chosen(0.8), budget=1000))


@pytest.mark.slow
def test_the_naive_average_is_a_trap_and_the_bound_is_not() -> None:
    mdp = cliff_world(1, horizon=60)
    policy = epsilon_greedy(optimal_policy(mdp), 0.1)
    exact = known_utility(mdp, policy)
    assert exact.value == pytest.approx(49.745, abs=1e-3)
    measure = StartMeasure(
        TabularSimulator(mdp, seed=0), table_actor(policy, 40, 4, 60), 60, 0.05, 240_000
    )
    measure.run(lambda rough: None)
    beta = exact.rationality
    free = measure.free.returns[:, 0]
    naive = beta * measure.episodes.returns.mean() - math.log(np.exp(beta * free).mean())
    # What free choice never showed is missing from its average.
    assert naive > 1.5 * exact.value
    (known,) = measure.ends()
    assert known.ends.low <= exact.value <= known.ends.high


@pytest.mark.slow
def test_the_bound_from_the_start_where_success_is_rare() -> None:
    # Five right choices of two in a row: 5 log 2 nats, and free choice shows 1 success in 32.
    after = np.zeros((7, 2, 1), dtype=int)
    after[:, 0, 0], after[:, 1, 0] = [1, 2, 3, 4, 6, 5, 6], [5, 5, 5, 5, 5, 5, 6]
    pays = np.zeros((7, 2))
    pays[4, 0] = 1.0
    mdp = TabularMDP((after, np.ones(after.shape)), pays, horizon=5)
    bounds = {"reward": Range(0.0, 1.0, least=0.0, most=1.0)}
    simulator = TabularSimulator(mdp, seed=1, bounds=bounds)
    measure = StartMeasure(simulator, table_actor([[1.0, 0.0]] * 7, 7, 2, 5), 5, 0.05, 60_000)
    assert measure.run(lambda rough: None) == "budget"
    (known,) = measure.ends()
    assert 0.7 * 5 * math.log(2) < known.ends.low <= 5 * math.log(2)


def test_interruption_gives_what_is_proven() -> None:
    seen = []

    def stop(now: Any) -> None:
        seen.append(now)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(SimulatorInterrupted) as caught:
        from_simulator(CLIFF, NEAR, budget=10**6, precision=0, progress=stop)
    result = caught.value.results["reward"]
    assert result.stopped == "interrupt"
    assert result.interval[0] <= known_utility(CLIFF, NEAR).value <= result.interval[1]
    assert "MEG towards reward: lower end" in str(seen[0])
    assert [now.steps for now in seen] == sorted(now.steps for now in seen)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"budget": 10}, InvalidParameterError, "budget is 10"),
        ({"horizon": 50}, InvalidParameterError, "give a horizon up to 2"),
        ({"utility": [1.0, 2.0]}, InvalidUtilityError, r"shape \[2\]"),
        ({"bounds": (1, 0)}, InvalidParameterError, "low <= high"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        from_simulator(MOUSE, chosen(0.8), **arguments)


def test_a_round_that_takes_no_step_does_not_go_on_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of a few steps neither share may be a whole one; the agent then plays with them.
    monkeypatch.setattr(StatesMeasure, "_spend", lambda *_: None)
    result = from_simulator(CLIFF, NEAR, budget=20_000)
    assert result.stopped == "budget"
    assert 20_000 <= sum(result.steps.values()) < 21_000


def test_what_is_paid_too_rarely_to_be_seen_at_once_does_not_end_the_measurement() -> None:
    wins, loses = [0, 0.002, 0.998], [0, 0, 1]
    stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
    lottery = TabularMDP([[wins, loses], *stay], [0, 1, 0], horizon=2)
    result = from_simulator(lottery, [[0.9, 0.1]] * 3, budget=2000)
    assert result.stopped == "budget"


def foggy(levels: int, rooms: int) -> TabularMDP:
    """The right action leads to any room of the next level, at last to a payment; others end it."""
    n = levels * rooms + 2
    p = np.zeros((n, 2, n))
    for level in range(levels):
        here = slice(level * rooms, (level + 1) * rooms)
        there = slice((level + 1) * rooms, (level + 2) * rooms) if level < levels - 1 else n - 2
        p[here, 1, there] = 1 / rooms if level < levels - 1 else 1
        p[here, 0, n - 1] = 1
    p[n - 2 :, :, n - 1] = 1
    reward = np.zeros(n)
    reward[n - 2] = 1
    return TabularMDP(p, reward, horizon=levels + 1)


@pytest.mark.slow
def test_the_better_one_of_two_bounds_is_given() -> None:
    mdp, told = foggy(4, 8), []
    policy = [[0.0, 1.0]] * mdp.n_states
    result = from_simulator(
        mdp, policy, budget=6000, bounds=(0, 1, 0, 1), progress=lambda now: told.append(now.value)
    )
    # Four decisions of log 2 each; the last one, after the goal, is of no use.
    assert 1.5 < result.lower <= 4 * math.log(2) <= result.upper_bound
    assert result.binding["lower"] == "free choice from the start"
    assert result.not_determined == ("upper",) and result.estimated
    assert sum(result.steps.values()) < 6300
    assert max(told) <= result.maximum + 1e-9
