"""Arguments that a measurement from a simulator must refuse, or read as they are meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, Corridor, gymnasium, table

from goalmeter._errors import GoalmeterError, InvalidParameterError, InvalidUtilityError
from goalmeter.meg.simulator import LearntUtility, from_simulator
from goalmeter.meg.simulator.measure import COMBINATION
from goalmeter.meg.simulator.result import SimulatorResult
from goalmeter.tabular import TabularMDP

ROWS = np.tile(ROW, (4, 1))


def agent(seen: Any) -> np.ndarray:
    return ROW


def measured(env: Any, who: Any = agent, **options: Any) -> SimulatorResult:
    options = {"horizon": 5, "budget": 1000, "state": "observation", **options}
    if not isinstance(env, TabularMDP):
        options = {"chance": "generator", **options}
    result = from_simulator(env, who, **options)
    assert isinstance(result, SimulatorResult)
    return result


class Numbered(Corridor):
    """Its cells are numbered from `first`."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.observation_space = gymnasium.spaces.Discrete(4, start=first)

    def shown(self) -> Any:
        return self.cell + int(self.observation_space.start)


class InBits(Corridor):
    """It shows the number of the cell as two bits."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gymnasium.spaces.MultiBinary(2)

    def shown(self) -> Any:
        return np.array([self.cell // 2, self.cell % 2], dtype=np.int8)


class ManyActions(Corridor):
    def __init__(self, count: int) -> None:
        super().__init__()
        self.action_space = gymnasium.spaces.Discrete(count)


class Ends(Corridor):
    """It says whether it ends in a way of its own."""

    def __init__(self, no: Any) -> None:
        super().__init__()
        self.no = no

    def step(self, action: int) -> tuple[Any, Any, Any, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or self.no, truncated, info


@pytest.mark.parametrize("first", [-2, 3])
def test_a_table_begins_at_the_first_observation(first: int) -> None:
    rows = np.array([[0.3, 0.7], [0.1, 0.9], [0.6, 0.4], [0.5, 0.5]])
    assert measured(Numbered(first), rows).interval == measured(Corridor(), rows).interval


@pytest.mark.parametrize("env", [Numbered(-2), Numbered(3), InBits()])
def test_a_utility_is_learnt_of_any_numbers(env: Any) -> None:
    pytest.importorskip("torch")

    def to_the_right(seen: Any) -> np.ndarray:
        return np.array([0.02, 0.98])

    learnt = LearntUtility(iterations=150)
    assert measured(env, to_the_right, utility=learnt, budget=4000, horizon=8).lower > 0.3


def test_bits_are_no_numbered_actions() -> None:
    env = Corridor()
    env.action_space = gymnasium.spaces.MultiBinary(2)
    with pytest.raises(InvalidParameterError, match=r"takes actions from MultiBinary\(2\)"):
        measured(env)


def test_bits_are_no_numbered_observations() -> None:
    with pytest.raises(InvalidParameterError, match=r"the agent is a table, but .* MultiBinary"):
        measured(InBits(), ROWS)


def test_more_actions_than_can_be_tried_are_bounded_from_the_start() -> None:
    result = measured(ManyActions(20_000), lambda seen: 1)
    assert sum(result.steps.values()) < 1200
    assert "one state has 20,000 actions, more than 300 steps can try" in result.notes[0]


def test_more_actions_than_a_row_holds_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="1,099,511,627,776 actions, expected 1,000,00"):
        measured(ManyActions(2**40), lambda seen: 1)


@pytest.mark.parametrize("no", [0, np.False_, np.array([False]), np.array(0.0)])
def test_any_single_truth_value_says_whether_it_ends(no: Any) -> None:
    assert measured(Ends(no)).interval == measured(Corridor()).interval


@pytest.mark.parametrize("no", [np.zeros(2), "no", float("nan"), [[1], [2, 3]]])
def test_what_is_no_truth_value_is_refused(no: Any) -> None:
    with pytest.raises(InvalidParameterError, match="expected True or False for each"):
        measured(Ends(no))


@pytest.mark.parametrize("which", ["utility", "state"])
def test_an_array_is_no_option(which: str) -> None:
    with pytest.raises(GoalmeterError, match=r"is array\(\[1, 2\]\), expected"):
        measured(Corridor(), **{which: np.array([1, 2])})


@pytest.mark.parametrize("who", ["uniform", agent, [[1], [2, 3]]])
def test_what_is_no_table_is_no_agent_of_a_table(who: Any) -> None:
    with pytest.raises(GoalmeterError, match=r"the agent is .*, expected a table \[4, 2\]"):
        measured(table(0.2, 5), who)


@pytest.mark.parametrize("utility", ["goal", {"goal": [[1], [2, 3]]}])
def test_what_is_no_array_is_no_utility_of_a_table(utility: Any) -> None:
    with pytest.raises(InvalidUtilityError, match="expected 'reward' or an array"):
        measured(table(0.2, 5), ROWS, utility=utility)


def test_a_table_needs_a_utility() -> None:
    with pytest.raises(InvalidParameterError, match="empty dictionary"):
        measured(table(0.2, 5), ROWS, utility={})


def test_bounds_that_a_table_breaks_are_refused() -> None:
    with pytest.raises(InvalidUtilityError, match="outside of the bounds"):
        measured(table(0.2, 5), ROWS, bounds=(0, 1))


def test_a_discount_is_refused() -> None:
    corridor = table(0.2, 5)
    discounted = TabularMDP(corridor.transition, corridor.reward, horizon=5, discount=0.5)
    with pytest.raises(InvalidParameterError, match=r"discount 0\.5"):
        measured(discounted, ROWS)


def test_the_name_of_the_combination_is_taken() -> None:
    utilities: dict[str, Any] = {
        COMBINATION: "reward",
        "corner": lambda seen, info: float(seen == 0),
    }
    with pytest.raises(InvalidParameterError, match="'best combination', which combined=True"):
        from_simulator(Corridor(), agent, utility=utilities, combined=True, horizon=5, budget=500)


def test_a_module_is_one_of_torch() -> None:
    with pytest.raises(InvalidParameterError, match=r"expected a torch\.nn\.Module"):
        LearntUtility(module=lambda features: features.sum(1))


def test_a_module_that_cannot_be_fitted_is_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(InvalidParameterError, match="Flatten has no weights"):
        measured(Corridor(), utility=LearntUtility(module=torch.nn.Flatten()))

    class Two(torch.nn.Linear):  # type: ignore[misc,name-defined]
        def forward(self, features: Any) -> Any:
            return super().forward(features), 0

    with pytest.raises(InvalidUtilityError, match="does not make"):
        measured(Corridor(), utility=LearntUtility(module=Two(4, 1)))


def test_features_that_fail_are_named() -> None:
    pytest.importorskip("torch")
    utility = {"mine": LearntUtility(features=lambda seen, info: 1 / 0)}
    with pytest.raises(InvalidUtilityError, match="the utility 'mine' raised"):
        from_simulator(Corridor(), agent, utility=utility, horizon=5, budget=500)


class Fails:
    """An agent that fails when an episode begins."""

    def begin(self, generator: np.random.Generator) -> Any:
        raise OSError("no memory of it")


def test_an_agent_that_cannot_begin_is_named() -> None:
    with pytest.raises(GoalmeterError, match=r"Fails raised .* when episode 0 was begun"):
        measured(Corridor(), Fails())


def test_a_function_that_makes_no_environment_is_named() -> None:
    def broken() -> Any:
        raise OSError("no device")

    with pytest.raises(InvalidParameterError, match=r"broken made no environment: .*no device"):
        measured(broken)


def test_an_environment_that_fails_to_close_is_measured() -> None:
    class Open(Corridor):
        def close(self) -> None:
            raise OSError("it stays open")

    assert measured(Open).interval == measured(Corridor()).interval


def test_wrappers_that_lead_nowhere_are_refused() -> None:
    class Lost(Corridor):
        @property
        def unwrapped(self) -> Any:
            return Corridor()

    with pytest.raises(InvalidParameterError, match="no way through its wrappers"):
        measured(Lost())


def test_an_old_generator_is_none_that_can_be_declared() -> None:
    class Old(Corridor):
        def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
            self._np_random = np.random.RandomState(0)
            self.cell = 0
            return 0, {}

    with pytest.raises(InvalidParameterError, match=r"np_random is RandomState.*chance='unknown'"):
        measured(Old(), bounds=(-1, -1))
    assert measured(Old(), bounds=(-1, -1), chance="unknown").chance == "unknown"
