"""Worlds that hide where their chance, their starts or their states come from."""

# NumPy's global generator is what some of them draw from.
# ruff: noqa: NPY002

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, Corridor, gymnasium, table

from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter.meg import known_utility
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.result import SimulatorResult
from goalmeter.meg.simulator.utilities.named_utilities import named_utilities
from goalmeter.meg.simulator.worlds.gymnasium_simulator import GymnasiumSimulator
from goalmeter.tabular import TabularMDP

MODULE_WIDE = np.random.default_rng(3)
SLIP = 0.25


def agent(observation: Any) -> np.ndarray:
    return ROW


def measured(env: Any, budget: int = 4000, horizon: int = 5, **options: Any) -> SimulatorResult:
    options = {"state": "observation", "bounds": (-1, -1)} | options
    result = from_simulator(env, agent, horizon=horizon, budget=budget, **options)
    assert isinstance(result, SimulatorResult)
    return result


class OfPython(Corridor):
    def slips(self) -> bool:
        return random.random() < SLIP


class OfNumpy(Corridor):
    def slips(self) -> bool:
        return np.random.random() < SLIP


class OfTorch(Corridor):
    def slips(self) -> bool:
        import torch

        return bool(torch.rand(1) < SLIP)


class OfItsModule(Corridor):
    def slips(self) -> bool:
        return bool(MODULE_WIDE.random() < SLIP)


class OfItsOwn(Corridor):
    """Holds a generator, nested in something, that `reset` seeds anew."""

    kind: Any = random.Random

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.held = {"generators": [self.kind(seed)]}
        return super().reset(seed=seed)

    def slips(self) -> bool:
        return bool(self.held["generators"][0].random() < SLIP)


class OfItsOwnNumpy(OfItsOwn):
    kind = staticmethod(np.random.default_rng)


class OfItsOwnOldNumpy(OfItsOwn):
    kind = np.random.RandomState


class UnderAnotherName(OfItsOwn):
    """Another name for Gymnasium's generator."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        out = Corridor.reset(self, seed=seed)
        self.held = {"generators": [self.np_random]}
        return out


class OfItsSpace(Corridor):
    """Draws from its action space."""

    def slips(self) -> bool:
        return bool(sum(2 * self.action_space.sample() for _ in range(2)) == 0)


class MadeForOneStep(Corridor):
    def slips(self) -> bool:
        return np.random.default_rng().random() < SLIP


class Slippery(gymnasium.Wrapper):
    """A wrapper that loses actions, by a generator of its own."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.generator = random.Random(5)

    def step(self, action: Any) -> Any:
        out = self.env.unwrapped
        if self.generator.random() < SLIP:
            return out.cell, -1.0, False, False, {}
        return self.env.step(action)


CHANCE = [
    *(OfPython, OfNumpy, OfItsModule, OfItsOwn, OfItsOwnNumpy, OfItsOwnOldNumpy),
    *(UnderAnotherName, OfItsSpace, MadeForOneStep, lambda: Slippery(Corridor())),
]


@pytest.mark.parametrize("make", CHANCE, ids=lambda make: getattr(make, "__name__", "wrapper"))
def test_chance_that_is_not_gymnasiums(make: Any) -> None:
    exact = known_utility(table(SLIP, 5), [ROW] * 4).value
    env = make()
    result = measured(env)
    assert result.interval[0] - 1e-9 <= exact <= result.interval[1] + 1e-9
    assert result.interval[1] - result.interval[0] > 0.01
    assert result.stopped == "budget"


@pytest.mark.parametrize("make", CHANCE[:-2], ids=lambda make: make.__name__)
def test_draws_from_a_state_are_independent_and_of_the_seed(make: Any) -> None:
    draws = []
    for seed in (4, 4, 5):
        simulator = GymnasiumSimulator(
            make(), named_utilities("reward"), seed=0, state="observation"
        )
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


def test_chance_of_torch() -> None:
    torch = pytest.importorskip("torch")
    before = torch.random.get_rng_state()
    exact = known_utility(table(SLIP, 5), [ROW] * 4).value
    result = measured(OfTorch())
    assert result.interval[0] <= exact <= result.interval[1]
    assert result.interval[1] - result.interval[0] > 0.01
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_callers_generators_go_on_as_if_nothing_had_been() -> None:
    random.seed(8)
    np.random.seed(8)
    expected = random.random(), np.random.random()
    random.seed(8)
    np.random.seed(8)
    first = measured(OfPython())
    assert (random.random(), np.random.random()) == expected
    assert first.to_json() == measured(OfPython()).to_json()


class FromTheSeed(Corridor):
    """Begins in cell 2 for one seed in four, by a generator that it makes of the seed."""

    make: Any = random.Random

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.cell = 2 if self.make(seed).random() < 0.25 else 0
        return self.cell, {}


class FromTheSeedByNumpy(FromTheSeed):
    make = staticmethod(np.random.default_rng)


class FromTheSeedItself(FromTheSeed):
    @staticmethod
    def make(seed: Any) -> Any:
        return random.Random(int(seed) // 7)


class FromWhatIsKept(Corridor):
    """The same by what Gymnasium keeps of the seed."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.cell = 2 if self.np_random_seed % 4 == 0 else 0
        return self.cell, {}


STARTS = [FromTheSeed, FromTheSeedByNumpy, FromTheSeedItself, FromWhatIsKept]


@pytest.mark.parametrize("kind", STARTS)
def test_starts_that_are_drawn_from_the_seed(kind: Any) -> None:
    exact = known_utility(table(0, 5, (0.75, 0, 0.25, 0)), [ROW] * 4).value
    result = measured(kind())
    assert result.interval[0] <= exact <= result.interval[1]
    simulator = GymnasiumSimulator(kind(), named_utilities("reward"), seed=1, state="observation")
    # Whichever start comes first, one start is not believed.
    simulator.play(simulator.free_choice(), 1, 0)
    assert not simulator.one_start


def test_one_start_is_believed_where_nothing_could_draw_it() -> None:
    result = measured(gymnasium.wrappers.TimeLimit(Corridor(), 5), budget=500)
    exact = known_utility(table(0, 5), [ROW] * 4).value
    np.testing.assert_allclose(result.interval, exact, atol=2e-4)


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
    result = measured(FixedStart(Drawn()))
    assert result.interval[0] <= exact <= result.interval[1]
    assert not any("starts count as drawn" in note for note in result.notes)


def test_worlds_of_ours_that_are_drawn_at_each_reset() -> None:
    from goalmeter import _gymnasium_ids as gymnasium_ids

    gymnasium_ids.register()
    env = gymnasium.make("goalmeter/Maze-v0", size=5, reward="step", max_steps=4)
    result = from_simulator(env, "boltzmann(2)", budget=1000, bounds=(-1, -1))
    assert isinstance(result, SimulatorResult)
    assert result.interval[1] - result.interval[0] > 0.01


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
        measured(Faded(), budget=8000)


def test_an_honest_noisy_world_is_not_refused() -> None:
    class Noisy(Corridor):
        def slips(self) -> bool:
            return bool(self.np_random.random() < SLIP)

    exact = known_utility(table(SLIP, 5), [ROW] * 4).value
    for seed in range(3):
        result = measured(Noisy(), budget=6000, seed=seed)
        assert result.interval[0] <= exact <= result.interval[1]


@pytest.mark.parametrize("budget", [100, 101, 1000])
@pytest.mark.parametrize("horizon", [1, 4])
def test_any_budget_ends(budget: int, horizon: int) -> None:
    for make in (Corridor, OfPython, OfItsOwnNumpy, FromTheSeed):
        result = measured(make(), budget=budget, horizon=horizon, precision=0)
        assert 0 <= result.interval[0] <= result.interval[1] <= horizon * np.log(2) + 1e-9


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4", "CartPole-v1"])
def test_any_budget_ends_in_worlds_of_gymnasium(name: str) -> None:
    for budget in (100, 1000):
        env = gymnasium.make(name)
        row = np.full(int(env.action_space.n), 1.0 / int(env.action_space.n))
        result = from_simulator(env, lambda seen, row=row: row, horizon=3, budget=budget)
        assert isinstance(result, SimulatorResult)
        assert result.interval[0] <= 1e-6


def test_episodes_that_end_at_once_and_a_single_action() -> None:
    class AtOnce(Corridor):
        def step(self, action: int) -> Any:
            return 3, float(action), True, False, {}

    exact = known_utility(one_choice(), [ROW, [0.5, 0.5]]).value
    result = measured(AtOnce(), bounds=(0, 1), budget=100)
    np.testing.assert_allclose(result.interval, exact, atol=2e-4)

    class OneWay(Corridor):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = gymnasium.spaces.Discrete(1)

    # Its one action as a distribution, and by its number.
    for answer in (np.array([1.0]), np.array([0]), 0):
        options: dict[str, Any] = {"horizon": 3, "state": "observation", "budget": 100}
        only = from_simulator(OneWay(), lambda seen, answer=answer: answer, **options)
        assert isinstance(only, SimulatorResult)
        assert only.interval == (0.0, 0.0)


def one_choice() -> TabularMDP:
    """Two actions, of which one pays, and then an end."""
    p = np.zeros((2, 2, 2))
    p[:, :, 1] = 1
    return TabularMDP(p, [[0.0, 1.0], [0.0, 0.0]], horizon=5)


def test_a_table_whose_start_is_its_end() -> None:
    p = np.ones((1, 2, 1))
    result = from_simulator(TabularMDP(p, [0.0], horizon=3), [[0.5, 0.5]], budget=1000)
    assert isinstance(result, SimulatorResult)
    assert result.interval == (0.0, 0.0)


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
    result = from_simulator(Shifted(), agent, **options)
    np.testing.assert_allclose(result.interval, exact, atol=2e-4)
    always = from_simulator(Shifted(), lambda seen: 6, **options, bounds=(-1, -1))
    assert isinstance(always, SimulatorResult)
    exact = known_utility(table(0, 4), [[0.0, 1.0]] * 4).value
    assert always.interval[0] <= exact <= always.interval[1] + 1e-9


class Failing(Corridor):
    def step(self, action: int) -> Any:
        raise RuntimeError("the motor\nis stuck")


class Old(Corridor):
    def step(self, action: int) -> Any:
        return 0, 0.0, False, {}


class Unnamed(Corridor):
    def shown(self) -> Any:
        return object()


@pytest.mark.parametrize(
    ("env", "options", "error", "words"),
    [
        (Failing, {}, InvalidParameterError, "raised the motor is stuck at decision 0 of episode"),
        (Old, {}, InvalidParameterError, "since version 0.26"),
        (Unnamed, {}, InvalidParameterError, "expected numbers, texts"),
        (Corridor, {"state": lambda seen, info: [seen]}, InvalidParameterError, "gave no name"),
        (Corridor, {"state": lambda seen, info: 1 / 0}, InvalidParameterError, "gave no name"),
        (Corridor, {"utility": lambda s, i: None}, InvalidUtilityError, "is None at decision"),
        (Corridor, {"utility": lambda s, i: "1"}, InvalidUtilityError, "is '1' at decision"),
        (Corridor, {"utility": lambda s, i: np.ones(1)}, InvalidUtilityError, r"is array\(\[1"),
        (Corridor, {"utility": lambda s, i: 1 / 0}, InvalidUtilityError, "raised division by"),
        (Corridor, {"utility": lambda s, i: np.nan}, InvalidUtilityError, "is nan at decision"),
    ],
)
def test_one_sentence(env: Any, options: dict[str, Any], error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        measured(env(), **({"bounds": None} | options))


def test_a_utility_that_is_true_or_false() -> None:
    result = measured(Corridor(), utility=lambda seen, info: seen == 3, bounds=None, budget=500)
    same = measured(Corridor(), utility=lambda s, i: float(s == 3), bounds=None, budget=500)
    assert result.interval == same.interval


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


class Congruential(Corridor):
    """Slips by a generator of its own making, whose state is a plain number."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        out = super().reset(seed=seed)
        self.word = int(self.np_random.integers(2**31))
        return out

    def slips(self) -> bool:
        self.word = (1103515245 * self.word + 12345) % 2**31
        return self.word / 2**31 < 0.5


@pytest.mark.parametrize("kind", [Tiring, DrawnBefore, Congruential])
def test_what_a_faultless_agent_never_meets_twice_is_met_on_other_ways(kind: Any) -> None:
    with pytest.raises(InvalidParameterError, match="leaves out something"):
        from_simulator(kind(), lambda observation: 1, horizon=6, state="observation", budget=4000)
