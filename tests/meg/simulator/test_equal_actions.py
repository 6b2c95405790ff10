"""Intervals of MEG from counted steps where actions are (nearly) equivalent for the utility."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from meg.simulator.test_counts import ONE, exact_table, greedy, slippery_lake

import goalmeter as gm
from goalmeter.meg import SimulatorResult, known_utility
from goalmeter.meg.simulator.counts import MULTIPLES, AgentRecord, Models
from goalmeter.tabular import optimal_policy

from_simulator: Any = gm.meg.from_simulator  # one result, or several by name


def covers(result: SimulatorResult, exact: float) -> bool:
    low, high = result.interval
    return bool(low - 1e-6 <= exact <= high + 1e-6)


# --- Evidence at fixed rationalities --------------------------------------------------------------
def test_evidence_by_hand() -> None:
    # One decision between prizes of 1 and 0: MEG at rationality b is b p - log((e^b + 1) / 2).
    stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
    choice = gm.TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0.0, 1.0, 0.0], horizon=2)
    # The second decision is paid where the agent is, whatever it chooses.
    models = Models(
        exact_table(choice), AgentRecord(np.array([[[0.9, 0.1], [0.0, 1.0], [1.0, 0.0]]]))
    )
    b = 1.5 * MULTIPLES
    expected = 0.9 * b - np.logaddexp(b, 0.0) + np.log(2)
    assert models.evidence(np.array([1.5]))[:, 0] == pytest.approx(expected, abs=1e-9)
    information = np.log(2) + 0.9 * np.log(0.9) + 0.1 * np.log(0.1)
    assert models.information(ONE[0])[0] == pytest.approx(information, abs=1e-12)


@pytest.mark.parametrize("epsilon", [0.05, 0.5])
def test_no_evidence_exceeds_meg_and_meg_does_not_exceed_the_information(epsilon: float) -> None:
    mdp = slippery_lake()
    models = Models(exact_table(mdp), AgentRecord(greedy(mdp, epsilon)))
    best = models.maximise(ONE)
    evidence = models.evidence(best.weights[:, 0])[:, 0]
    assert evidence[MULTIPLES == 1] == pytest.approx(best.value[0], abs=1e-8)
    assert evidence.max() <= best.value[0] + 1e-8
    assert best.value[0] <= models.information(best.weights[:, 0])[0]


# --- Coverage -------------------------------------------------------------------------------------
def places(influence: float) -> gm.TabularMDP:
    """Two places that actions choose, and a coin that pays; place 1 pays an influence as well."""
    p = np.zeros((4, 2, 4))
    for action in range(2):
        p[:, action, 2 * action : 2 * action + 2] = 0.45
        p[:, action, 2 - 2 * action : 4 - 2 * action] = 0.05
    return gm.TabularMDP(p, [0.0, 1.0, influence, 1.0 + influence], horizon=4)


@pytest.mark.parametrize("policy", [[0.1, 0.9], [0.0, 1.0]], ids=["random", "deterministic"])
@pytest.mark.parametrize("budget", [2_000, 200_000])
def test_a_utility_without_influence_is_not_claimed_as_a_goal(
    policy: list[float], budget: int
) -> None:
    # Proposition 3.3: MEG is 0. The percentiles alone claim a goal in half of the runs.
    world, agent = places(0.0), [policy] * 4
    assert known_utility(world, agent).value == 0.0
    results = [from_simulator(world, agent, budget=budget, seed=seed) for seed in range(40)]
    assert sum(result.interval[0] == 0.0 for result in results) >= 34
    assert np.median([result.value for result in results]) == 0.0
    unclear = [result for result in results if "actions differ by less" in " ".join(result.notes)]
    assert len(unclear) >= 34 and all(result.steps_to_halve is None for result in unclear)


def test_a_combination_of_utilities_without_influence_is_not_claimed_as_a_goal() -> None:
    # Five faces of a die of its own; the best of all combinations is chosen from the same counts.
    chance = np.full((6, 2, 6), 1 / 6)
    world, agent = gm.TabularMDP(chance, np.zeros(6), horizon=4), [[0.1, 0.9]] * 6
    faces = {f"face {i}": np.eye(6)[i] for i in range(5)}
    options: dict[str, Any] = {"utility": faces, "combined": True, "budget": 4_000}
    lower = [
        from_simulator(world, agent, seed=seed, **options)["best combination"].interval[0]
        for seed in range(30)
    ]
    assert sum(low == 0.0 for low in lower) >= 26


def test_a_weak_influence_is_a_goal_with_enough_steps() -> None:
    # The control: MEG towards the same payoff, a twentieth of which depends on the place.
    world, agent = places(0.05), [[0.1, 0.9]] * 4
    exact = known_utility(world, agent).value
    few, many = (
        [from_simulator(world, agent, budget=budget, seed=seed) for seed in range(20)]
        for budget in (2_000, 1_000_000)
    )
    assert all(covers(result, exact) for result in few)
    assert sum(covers(result, exact) for result in many) >= 18
    assert np.mean([result.interval[0] for result in many]) > 0.8 * exact
    assert not any(result.notes for result in many)


def open_grid(size: int, slip: float, horizon: int) -> gm.TabularMDP:
    """A grid without walls in which each step before the last corner costs 1."""
    p = np.zeros((size**2, 4, size**2))
    moves, corner = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)]), size**2 - 1
    for cell in range(corner):
        for action in range(4):
            for turn, chance in ((0, 1 - slip), (1, slip / 2), (3, slip / 2)):
                to = np.clip(divmod(cell, size) + moves[(action + turn) % 4], 0, size - 1)
                p[cell, action, size * to[0] + to[1]] += chance
    p[corner, :, corner] = 1.0
    return gm.TabularMDP(p, np.append(-np.ones(corner), 0.0), horizon=horizon)


def test_optimal_agents_with_several_optimal_actions_are_covered() -> None:
    world = open_grid(3, 0.2, 8)
    agent = np.eye(4)[np.asarray(optimal_policy(world)).argmax(axis=-1)]  # the first of several
    exact = known_utility(world, agent).value
    results = [from_simulator(world, agent, budget=20_000, seed=seed) for seed in range(40)]
    assert sum(covers(result, exact) for result in results) >= 34  # of 40; percentiles alone: 16
    # Nothing excludes that each of its choices is the only optimal one.
    information = Models(exact_table(world), AgentRecord(agent)).information(ONE[0])[0]
    assert all(result.interval[1] < 1.1 * information for result in results)
    assert np.mean([result.interval[0] for result in results]) > 0.6 * exact


class Returning(gymnasium.Env[Any, Any]):
    """Action a leads to state a, except with the probability `slip`."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def __init__(self, scale: float = 1.0, constant: float = 0.0, slip: float = 0.1) -> None:
        self.scale, self.constant, self.slip, self.state = scale, constant, slip, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.state = int(action) ^ int(self.np_random.random() < self.slip)
        return self.state, self.scale * self.state + self.constant, False, False, {}


OPTIONS: dict[str, Any] = {
    "horizon": 4, "budget": 4_000, "seed": 3, "state": "observation", "chance": "generator",
}  # fmt: skip


@pytest.mark.parametrize(("scale", "constant"), [(1e-10, 0.0), (1e10, 0.0), (1.0, 1e6)])
@pytest.mark.parametrize("slip", [0.1, 0.0])
def test_scale_and_constant_payoffs_do_not_matter(
    scale: float, constant: float, slip: float
) -> None:
    class Agent:
        def begin(self, generator: np.random.Generator) -> Any:
            return lambda seen: int(generator.random() < 0.95)

    plain = from_simulator(Returning(slip=slip), Agent(), **OPTIONS)
    other = from_simulator(Returning(scale, constant, slip), Agent(), **OPTIONS)
    assert plain.interval[1] - plain.interval[0] > 0.01
    assert other.interval == pytest.approx(plain.interval, abs=2e-3)


def test_differences_of_an_agent_known_by_its_actions_have_ordered_ends() -> None:
    # In few episodes, the return can exceed what the table allows.
    odd = {"goal": "reward", "home": lambda seen, info: float(seen == 0)}
    for seed in range(12):
        options = OPTIONS | {"seed": seed, "budget": 400}
        results = from_simulator(Returning(), lambda seen: 1, utility=odd, **options)
        low, high = results["goal"].less(results["home"])[1]
        assert -4 * np.log(2) <= low <= high <= 4 * np.log(2)
        assert all(result.interval[0] < result.interval[1] for result in results.values())
