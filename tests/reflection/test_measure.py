from __future__ import annotations

import math

import numpy as np
import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.reflection.adapters import FunctionAgent
from goalmeter.reflection.environments.registry import BATTERY
from goalmeter.reflection.measure import compare, measure
from goalmeter.reflection.protocol import History


def test_the_measure_is_the_average_over_environments_and_opposites() -> None:
    found = measure("naive", steps=40, seeds=3)
    assert len(found.trials) == 3 * 50
    assert found.measure == pytest.approx(sum(t.total_reward for t in found.trials) / (150 * 40))
    assert found.stderr == pytest.approx(found.by_seed.std(ddof=1) / math.sqrt(3))
    assert found.published_stderr == pytest.approx(found.stderr / math.sqrt(3))
    assert found.interval[0] <= found.measure <= found.interval[1]


def test_an_agent_that_ignores_everything_measures_exactly_zero() -> None:
    assert measure("constant", steps=200, seeds=2).by_seed.tolist() == [0.0, 0.0]
    assert measure("rc(constant)", steps=200, seeds=2).by_seed.tolist() == [0.0, 0.0]


def test_the_same_seeds_give_the_same_numbers() -> None:
    one, again = measure("rc(naive)", 50, [3, 5]), measure("rc(naive)", 50, [3, 5])
    assert one.trials == again.trials
    assert measure("rc(naive)", 50, [5]).by_seed[0] == one.by_seed[1]


# Table 1 of the paper at 500 steps: (measure, what it calls StdErr, which is sd / 10 of 10 seeds).
PUBLISHED = {
    "random": (-0.019852, 0.0007),
    "rc(random)": (-0.020800, 0.0007),
    "naive": (0.221532, 0.0020),
    "rc(naive)": (0.551488, 0.0025),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_table_1_for_scripted_agents_within_the_combined_error(name: str) -> None:
    ours = measure(name, steps=500, seeds=4)
    value, printed = PUBLISHED[name]
    theirs = printed * math.sqrt(10)  # their sd / 10 as a standard error
    assert abs(ours.measure - value) < 4 * math.hypot(max(ours.stderr, theirs), theirs)


def test_the_reality_check_raises_the_naive_learner_and_pairs_are_compared() -> None:
    found = compare(measure("naive", 200, 4), measure("rc(naive)", 200, 4))
    assert found.agents == ("naive", "rc(naive)")
    assert found.interval[0] > 0.2
    assert found.by_environment["CryingBaby", False] == 0.0


def test_trials_that_fail_are_counted_and_named() -> None:
    def bad(history: History, n_actions: int, n_observations: int) -> int:
        return 9

    found = measure(FunctionAgent(bad), steps=5, seeds=1, environments=BATTERY[:2])
    assert len(found.failures) == 4
    assert "4 trials ended early, the first in BackwardConsciousness: illegal action" in str(found)
    assert found.to_json()["failures"] == 4
    assert np.isnan(found.stderr)


def test_what_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="got 0 seeds and 25 environments"):
        measure("constant", 10, [])
    with pytest.raises(InvalidParameterError, match="measured on different trials"):
        compare(measure("constant", 10, 1), measure("constant", 11, 1))
