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

from goalmeter._errors import InvalidParameterError, InvalidUtilityError
from goalmeter.meg import known_utility
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.result import SimulatorResult

SLIP = 0.25
ELSEWHERE = ModuleType("elsewhere")
exec("import numpy as np; generator = np.random.default_rng(3)", vars(ELSEWHERE))


def agent(observation: Any) -> np.ndarray:
    return ROW


def measured(
    env: Any, budget: int = 4000, horizon: int | None = 5, **options: Any
) -> SimulatorResult:
    options = {"state": "observation", "bounds": (-1, -1)} | options
    result = from_simulator(env, agent, horizon=horizon, budget=budget, **options)
    assert isinstance(result, SimulatorResult)
    return result


class OfNumpy(Corridor):
    def slips(self) -> bool:
        return np.random.random() < SLIP


class OfItsOwn(Corridor):
    """Holds a generator, which a copy would draw the same from again."""

    def __init__(self) -> None:
        super().__init__()
        self.held = random.Random(3)

    def slips(self) -> bool:
        return self.held.random() < SLIP


class OfGymnasium(Corridor):
    def slips(self) -> bool:
        return bool(self.np_random.random() < SLIP)


@pytest.mark.parametrize("kind", [OfNumpy, OfItsOwn])
def test_chance_that_is_not_declared(kind: Any) -> None:
    exact = known_utility(table(SLIP, 5), [ROW] * 4).value
    result = measured(kind(), level=0.999)
    assert result.interval[0] - 1e-9 <= exact <= result.interval[1] + 1e-9
    assert result.chance == "unknown" and "chance='generator'" in result.notes[0]


@pytest.mark.parametrize("kind", [OfGymnasium])
def test_chance_that_is_declared(kind: Any) -> None:
    exact = known_utility(table(SLIP, 5), [ROW] * 4).value
    result = measured(kind(), chance="generator")
    assert result.interval[0] <= exact <= result.interval[1]
    assert result.method.startswith("MEG of the table")
    assert "assumes that all randomness comes from the environment's generator" in str(result)


def test_a_callers_generators_go_on_as_if_nothing_had_been() -> None:
    random.seed(8)
    np.random.seed(8)
    expected = random.random(), np.random.random()
    random.seed(8)
    np.random.seed(8)
    first = measured(OfNumpy())
    assert (random.random(), np.random.random()) == expected
    assert first.to_json() == measured(OfNumpy()).to_json()


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
    with pytest.raises(InvalidParameterError, match=r"differ significantly.*omits something"):
        measured(Faded(), budget=8000, chance="generator")


class DrawnBefore(Corridor):
    """Whether a step slips was drawn at the step before it, and stands in no observation."""

    slippery = False

    def slips(self) -> bool:
        now, self.slippery = self.slippery, bool(self.np_random.random() < SLIP)
        return now


@pytest.mark.parametrize("kind", [DrawnBefore])
def test_what_a_faultless_agent_never_meets_twice_is_met_on_other_ways(kind: Any) -> None:
    options: dict[str, Any] = {"state": "observation", "chance": "generator", "budget": 4000}
    with pytest.raises(InvalidParameterError, match="omits something"):
        from_simulator(kind(), lambda observation: 1, horizon=6, **options)


class Alike(Corridor):
    """Shows two cells as one."""

    def shown(self) -> Any:
        return min(self.cell, 1)


def test_aliased_observations_are_noticed() -> None:
    with pytest.raises(InvalidParameterError, match="omits something"):
        measured(Alike(), chance="none")
    assert any("assumes that state= distinguishes" in note for note in measured(Alike()).notes)


class Truncates(Corridor):
    def step(self, action: int) -> Any:
        return *super().step(action)[:3], True, {}


def test_time_limits_are_horizons() -> None:
    limited = gymnasium.wrappers.TimeLimit(Corridor(), 4)
    exact = known_utility(table(0, 4), [ROW] * 4).value
    result = measured(limited, chance="none", horizon=None)
    np.testing.assert_allclose(result.interval, exact, atol=1e-9)
    with pytest.raises(InvalidParameterError, match="truncates episodes after 4 decisions"):
        measured(limited)
    with pytest.raises(InvalidParameterError, match="truncated an episode after 1 decisions"):
        measured(Truncates())


def test_a_key_that_is_no_key_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="expected a hashable key"):
        from_simulator(Corridor(), lambda seen: ROW, horizon=4, state=lambda seen, info: [seen])


def test_wrappers_are_part_of_the_world() -> None:
    exact = known_utility(table(SLIP, 5), [ROW] * 4)
    doubled = gymnasium.wrappers.TransformReward(OfGymnasium(), lambda paid: 2 * paid)
    result = measured(doubled, chance="generator", bounds=None)
    assert result.interval[0] <= exact.value <= result.interval[1]
    assert result.rationality == pytest.approx(exact.rationality / 2, rel=0.1)
    # The previous action decides what follows, and is not observed.
    with pytest.raises(InvalidParameterError, match="omits something"):
        measured(gymnasium.wrappers.StickyAction(Corridor(), 0.5), chance="generator")
    with pytest.raises(InvalidParameterError, match="keeps updating its scale"):
        measured(gymnasium.wrappers.NormalizeReward(Corridor()))


class Exits(Corridor):
    def step(self, action: int) -> Any:
        raise SystemExit(0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"utility": lambda seen, info: None}, "returned None in a step, expected a number"),
        ({"utility": lambda seen: 1.0}, r"takes 1 positional .* exit the process$"),
        ({"state": lambda seen: 0}, r"takes 1 positional .* exit the process$"),
        ({"progress": "yes"}, "expected a function of a SimulatorProgress"),
    ],
)
def test_functions_of_a_caller_that_are_none(options: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidParameterError, InvalidUtilityError), match=words):
        measured(Corridor(), budget=200, **options)


def test_an_environment_that_exits_is_an_error_of_ours() -> None:
    with pytest.raises(InvalidParameterError, match=r"raised SystemExit: 0; expected code that"):
        measured(Exits(), budget=200)
