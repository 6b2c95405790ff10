"""`from_simulator` in tables that are run: by hand, against what is exact, and what it promises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter.meg import known_utility, unknown_utility
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.bootstrap import Bootstrap
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


def ending(n: int = 4) -> tuple[TabularMDP, TabularMDP]:
    """A corridor whose last state absorbs, and the same world with ten more decisions behind it."""
    after = np.stack([np.maximum(np.arange(n) - 1, 0), np.minimum(np.arange(n) + 1, n - 1)], axis=1)
    after[n - 1] = n - 1
    pays = np.full((n, 2), -1.0)
    pays[n - 1] = 0.0
    table = (after[..., None], np.ones((n, 2, 1)))
    return TabularMDP(table, pays, horizon=8), TabularMDP(table, pays, horizon=18)


def test_the_interval_holds_the_truth_and_closes_in() -> None:
    exact = known_utility(CLIFF, NEAR).value
    few = from_simulator(CLIFF, NEAR, budget=30_000, seed=3)
    many = from_simulator(CLIFF, NEAR, budget=300_000, seed=3, guarantee=True)
    for result in (few, many):
        assert result.interval[0] <= exact <= result.interval[1]
        assert sum(result.steps.values()) < 1.2 * 300_000
    assert many.interval[1] - many.interval[0] < 0.5 * (few.interval[1] - few.interval[0])
    assert many.value == pytest.approx(exact, rel=0.02)
    assert few.guaranteed is None and not few.binding["lower"]
    assert many.guaranteed[0] < many.interval[0] < many.interval[1] < many.guaranteed[1]
    assert many.binding["lower"] == "the table of states"


def test_rare_payoffs() -> None:
    # A prize with a probability of 1e-3: in 2,000 steps it is sampled about once, or never.
    chances = [[[1.0, 0.0], [0.999, 0.001]], [[1.0, 0.0], [1.0, 0.0]]]
    lottery, policy = TabularMDP(chances, [0.0, 1.0], horizon=20), [[0.1, 0.9], [0.5, 0.5]]
    exact = known_utility(lottery, policy).value
    for seed in range(4):
        few = from_simulator(lottery, policy, budget=2_000, seed=seed)
        assert few.not_determined == ("lower", "upper")
        assert any("payoffs are so rare that" in note for note in few.notes)
        assert few.value == 0 or few.value == pytest.approx(exact, rel=0.01)
    many = from_simulator(lottery, policy, budget=30_000, seed=1)
    assert many.interval[0] <= exact <= many.interval[1] < 1.01 * exact


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
    # Its differences are of the same resamples as those of two utilities.
    state = results["state 0"]
    difference, ends = best.less(state)
    assert ends == pytest.approx((best.value - state.value,) * 2, abs=1e-9)
    assert state.less(best) == (-difference, pytest.approx((-ends[1], -ends[0])))


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


def test_an_interruption_ends_a_measurement_after_its_progress() -> None:
    seen = []

    def stop(now: Any) -> None:
        seen.append(now)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        from_simulator(CLIFF, NEAR, budget=10**6, progress=stop)
    assert "MEG towards reward" in str(seen[0]) and 0 < seen[0].steps < 10**6
    assert seen[0].lower <= seen[0].value


def test_an_internal_error_is_not_reported_as_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bootstrap, "measure", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        from_simulator(MOUSE, chosen(0.8), budget=1000)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"budget": 10}, InvalidParameterError, "budget is 10"),
        ({"horizon": 50}, InvalidParameterError, "use a horizon up to 2"),
        ({"utility": [1.0, 2.0]}, InvalidUtilityError, r"shape \[2\]"),
        ({"bounds": (1, 0)}, InvalidParameterError, "low <= high"),
        ({"state": "observation"}, InvalidParameterError, "states are known"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        from_simulator(MOUSE, chosen(0.8), **arguments)
