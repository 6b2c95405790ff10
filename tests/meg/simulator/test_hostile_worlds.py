"""Worlds that hide where their chance, their starts or their states come from."""

# NumPy's global generator is what some of them draw from.
# ruff: noqa: NPY002

from __future__ import annotations

import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, Corridor, gymnasium, table

from goalmeter._errors import InvalidParameterError
from goalmeter.meg import known_utility
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.gymnasium_worlds import GymnasiumSimulator
from goalmeter.meg.simulator.result import SimulatorResult
from goalmeter.meg.simulator.utilities import named_utilities
from goalmeter.tabular import TabularMDP

SLIP = 0.25
ELSEWHERE = ModuleType("elsewhere")
exec("import numpy as np; generator = np.random.default_rng(3)", vars(ELSEWHERE))


def agent(observation: Any) -> np.ndarray:
    return ROW


def measured(env: Any, budget: int = 4000, horizon: int = 5, **options: Any) -> SimulatorResult:
    options = {"state": "observation", "bounds": (-1, -1)} | options
    result = from_simulator(env, agent, horizon=horizon, budget=budget, **options)
    assert isinstance(result, SimulatorResult)
    return result


class OfNumpy(Corridor):
    def slips(self) -> bool:
        return np.random.random() < SLIP


class OfAnotherModule(Corridor):
    def slips(self) -> bool:
        return bool(ELSEWHERE.generator.random() < SLIP)


class OfItsOwn(Corridor):
    """Holds a generator, which a copy would draw the same from again."""

    def __init__(self) -> None:
        super().__init__()
        self.held = random.Random(3)

    def slips(self) -> bool:
        return self.held.random() < SLIP


class MadeForOneStep(Corridor):
    def slips(self) -> bool:
        return np.random.default_rng().random() < SLIP


class OfGymnasium(Corridor):
    def slips(self) -> bool:
        return bool(self.np_random.random() < SLIP)


class UnderAnotherName(Corridor):
    """Another name for Gymnasium's generator."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        out = super().reset(seed=seed)
        self.held = {"generators": [self.np_random]}
        return out

    def slips(self) -> bool:
        return bool(self.held["generators"][0].random() < SLIP)


@pytest.mark.parametrize("kind", [OfNumpy, OfAnotherModule, OfItsOwn, MadeForOneStep])
def test_chance_that_is_not_declared(kind: Any) -> None:
    exact = known_utility(table(SLIP, 5), [ROW] * 4).value
    result = measured(kind())
    assert result.interval[0] - 1e-9 <= exact <= result.interval[1] + 1e-9
    assert result.chance == "unknown" and "chance='generator'" in result.notes[0]


@pytest.mark.parametrize("kind", [OfGymnasium, UnderAnotherName])
def test_chance_that_is_declared(kind: Any) -> None:
    exact = known_utility(table(SLIP, 5), [ROW] * 4).value
    result = measured(kind(), chance="generator")
    assert result.interval[0] <= exact <= result.interval[1]
    assert result.method.startswith("table of states") and result.stopped == "budget"
    assert "assumes that all chance comes from the environment's generator" in str(result)


@pytest.mark.parametrize("kind", [OfGymnasium, UnderAnotherName])
def test_draws_from_a_state_are_independent_and_of_the_seed(kind: Any) -> None:
    draws = []
    for seed in (4, 4, 5):
        options: dict[str, Any] = {"seed": 0, "state": "observation", "chance": "generator"}
        simulator = GymnasiumSimulator(kind(), named_utilities("reward"), **options)
        simulator.play(simulator.free_choice(), 1, 0)
        seen, certain = simulator.draw(0, 1, 400, np.random.default_rng(seed))
        assert not certain
        draws.append(seen)
    first, again, other = draws
    assert first == again != other
    for seen in (first, other):
        slipped = sum(times for outcome, times in seen.items() if outcome.after == 0)
        # 400 draws of a quarter: within five standard deviations.
        assert abs(slipped - 100) < 5 * 8.7


class Lottery(gymnasium.Env[Any, Any]):
    """Four right choices in a row win a ticket, which pays 1 now and then; a wrong one ends it."""

    observation_space = gymnasium.spaces.Discrete(6)
    action_space = gymnasium.spaces.Discrete(2)
    word = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.cell = 0
        return 0, {}

    def step(self, action: int) -> Any:
        self.cell += 1
        won = bool(action) and self.cell == 4 and self.pays()
        return self.cell, float(won), not action or self.cell == 4, False, {}

    def pays(self) -> bool:
        return bool(ELSEWHERE.generator.random() < 0.002)


class Congruential(Lottery):
    """It pays by a generator of its own making, whose state is a plain number."""

    def pays(self) -> bool:
        self.word = (1103515245 * self.word + 12345) % 2**31
        return self.word / 2**31 < 0.002


# A ticket pays 1 in 500, so at some rationality the agent is as predictable as can be.
TRUTH = 4 * np.log(2)


def always(observation: Any) -> np.ndarray:
    return np.array([0.0, 1.0])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seeds"), [(Lottery, 10), (Congruential, 12)])
def test_two_equal_draws_prove_nothing(kind: Any, seeds: int) -> None:
    for seed in range(seeds):
        env = kind()
        env.word = seed
        options: dict[str, Any] = {"horizon": 4, "state": "observation", "bounds": (0, 1, 0, 1)}
        result = from_simulator(env, always, budget=400, seed=seed, **options)
        assert isinstance(result, SimulatorResult)
        assert result.interval[0] <= TRUTH <= result.interval[1] + 1e-9


def test_a_callers_generators_go_on_as_if_nothing_had_been() -> None:
    random.seed(8)
    np.random.seed(8)
    expected = random.random(), np.random.random()
    random.seed(8)
    np.random.seed(8)
    first = measured(OfNumpy())
    assert (random.random(), np.random.random()) == expected
    assert first.to_json() == measured(OfNumpy()).to_json()


class FromTheSeed(Corridor):
    """Begins in cell 2 for one seed in four, by a generator that it makes of the seed."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.cell = 2 if random.Random(seed).random() < 0.25 else 0
        return self.cell, {}


def test_starts_that_are_drawn_from_the_seed() -> None:
    exact = known_utility(table(0, 5, (0.75, 0, 0.25, 0)), [ROW] * 4).value
    result = measured(FromTheSeed())
    assert result.interval[0] <= exact <= result.interval[1]
    with pytest.raises(InvalidParameterError, match="episodes begin in different states"):
        measured(FromTheSeed(), chance="none")


class FixedStart(gymnasium.Wrapper):  # type: ignore[misc, name-defined, unused-ignore]
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.env.reset(seed=1)


def test_a_wrapper_that_resets_with_one_seed_fixes_the_start_and_not_the_chance() -> None:
    class Drawn(Corridor):
        """Begins in cell 1 with that seed, and slips."""

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            self.cell = int(self.np_random.random() < 0.6)
            return self.cell, {}

        def slips(self) -> bool:
            return bool(self.np_random.random() < SLIP)

    first, _ = Drawn().reset(seed=1)
    start = (1 - first, first, 0, 0)
    exact = known_utility(table(SLIP, 5, start), [ROW] * 4).value
    result = measured(FixedStart(Drawn()), chance="generator")
    assert result.interval[0] <= exact <= result.interval[1]
    assert not any("starts count as drawn" in note for note in result.notes)


class Buffered(Corridor):
    """Shows the same arrays at every step, and changes them in place."""

    def __init__(self) -> None:
        super().__init__()
        self.buffer = {"cell": np.zeros(1), "nested": {"cells": [np.zeros(4)]}}

    def shown(self) -> Any:
        self.buffer["cell"][0] = self.cell
        self.buffer["nested"]["cells"][0][:] = np.arange(4) == self.cell
        return self.buffer


def test_observations_that_are_changed_in_place() -> None:
    rows = np.array([[0.3, 0.7], [0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])

    def looks(observation: Any) -> np.ndarray:
        place = int(observation["cell"][0])
        assert place == int(observation["nested"]["cells"][0].argmax())
        return rows[place]

    exact = known_utility(table(0, 5), rows).value
    options: dict[str, Any] = {"state": "observation", "horizon": 5, "budget": 500}
    options["chance"] = "none"
    result = from_simulator(Buffered(), looks, **options)
    np.testing.assert_allclose(result.interval, exact, atol=2e-4)


class Faded(Corridor):
    """A hidden mood of an episode decides how slippery it is, beside chance."""

    mood = 0.1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        out = super().reset(seed=seed)
        self.mood = 0.1 if self.np_random.random() < 0.5 else 0.9
        return out

    def slips(self) -> bool:
        return bool(self.np_random.random() < self.mood)


def test_a_hidden_state_behind_chance_is_noticed() -> None:
    with pytest.raises(InvalidParameterError, match=r"more than chance allows.*leaves out"):
        measured(Faded(), budget=8000, chance="generator")


@pytest.mark.slow
def test_an_honest_noisy_world_is_not_refused() -> None:
    exact = known_utility(table(SLIP, 5), [ROW] * 4).value
    for seed in range(3):
        result = measured(OfGymnasium(), budget=6000, seed=seed, chance="generator")
        assert result.interval[0] <= exact <= result.interval[1]


@pytest.mark.slow
@pytest.mark.parametrize("budget", [100, 101, 1000])
@pytest.mark.parametrize("horizon", [1, 4])
def test_any_budget_ends(budget: int, horizon: int) -> None:
    for kind in (Corridor, OfGymnasium, FromTheSeed):
        for chance in ("generator", "unknown"):
            result = measured(kind(), budget, horizon, precision=0, chance=chance)
            assert 0 <= result.interval[0] <= result.interval[1] <= horizon * np.log(2) + 1e-9


def test_episodes_that_end_at_once_and_a_single_action() -> None:
    class AtOnce(Corridor):
        def step(self, action: int) -> Any:
            return 3, float(action), True, False, {}

    exact = known_utility(one_choice(), [ROW, [0.5, 0.5]]).value
    result = measured(AtOnce(), bounds=(0, 1), budget=100, chance="none")
    np.testing.assert_allclose(result.interval, exact, atol=2e-4)

    class OneWay(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(1)

    # Its one action as a distribution, and by its number.
    for answer in (np.array([1.0]), np.array([0]), 0):
        options: dict[str, Any] = {"horizon": 3, "state": "observation", "budget": 100}
        options["chance"] = "none"
        only = from_simulator(OneWay(), lambda seen, answer=answer: answer, **options)
        assert isinstance(only, SimulatorResult)
        assert only.interval == (0.0, 0.0)


def one_choice() -> TabularMDP:
    """Two actions, of which one pays, and then an end."""
    p = np.zeros((2, 2, 2))
    p[:, :, 1] = 1
    return TabularMDP(p, [[0.0, 1.0], [0.0, 0.0]], horizon=5)


def test_actions_that_do_not_begin_at_zero() -> None:
    class Shifted(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(2, start=5)

        def step(self, action: int) -> Any:
            assert action in (5, 6)
            return super().step(action - 5)

    exact = known_utility(table(0, 4), [ROW] * 4).value
    options: dict[str, Any] = {"state": "observation", "horizon": 4, "budget": 500}
    options["chance"] = "none"
    result = from_simulator(Shifted(), agent, **options)
    np.testing.assert_allclose(result.interval, exact, atol=2e-4)
    always = from_simulator(Shifted(), lambda seen: 6, **options, bounds=(-1, -1))
    assert isinstance(always, SimulatorResult)
    exact = known_utility(table(0, 4), [[0.0, 1.0]] * 4).value
    assert always.interval[0] <= exact <= always.interval[1] + 1e-9


class Tiring(Corridor):
    """Pays less with each decision, which the cell does not tell."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.decision = 0
        return super().reset(seed=seed)

    def pays(self) -> Any:
        self.decision += 1
        return -float(self.decision)


class DrawnBefore(Corridor):
    """Whether a step slips was drawn at the step before it, and stands in no observation."""

    slippery = False

    def slips(self) -> bool:
        now, self.slippery = self.slippery, bool(self.np_random.random() < SLIP)
        return now


@pytest.mark.parametrize("kind", [Tiring, DrawnBefore])
def test_what_a_faultless_agent_never_meets_twice_is_met_on_other_ways(kind: Any) -> None:
    options: dict[str, Any] = {"state": "observation", "chance": "generator", "budget": 4000}
    with pytest.raises(InvalidParameterError, match="leaves out something"):
        from_simulator(kind(), lambda observation: 1, horizon=6, **options)


class Unspoken(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Exits(Corridor):
    def step(self, action: int) -> Any:
        raise SystemExit(0)


class Mute(Corridor):
    def step(self, action: int) -> Any:
        raise Unspoken


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Exits, "raised SystemExit: 0; expected code that keeps to gymnasium.Env"),
        (Mute, "the environment raised Unspoken at decision 0 of episode 0"),
    ],
)
def test_what_an_environment_raises_is_an_error_of_ours(kind: Any, words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        measured(kind(), budget=200)
