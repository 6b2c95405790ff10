"""What `measure` says of an agent: averages, intervals, published numbers, comparisons."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from goalmeter.agents.history import FunctionAgent, History
from goalmeter.reflection import Comparison, Reflection
from goalmeter.reflection.environments.registry import BATTERY
from goalmeter.reflection.measure import measure
from goalmeter.reflection.result import compare, interval_of
from goalmeter.report.numbers import plus


def test_the_measure_is_the_average_over_environments_and_opposites() -> None:
    result = measure("naive", steps=40, seeds=5)
    assert len(result.trials) == 5 * 50
    assert result.measure == pytest.approx(sum(t.total_reward for t in result.trials) / (250 * 40))
    assert result.stderr == pytest.approx(result.by_seed.std(ddof=1) / math.sqrt(5))
    assert result.published_stderr == pytest.approx(result.stderr / math.sqrt(5))
    assert result.interval[0] <= result.measure <= result.interval[1]


def test_an_interval_needs_five_seeds_and_one_seed_has_no_spread() -> None:
    names = ["TemptingButton", "IgnoreRewards"]
    few, enough = (measure("naive", 40, n, environments=names) for n in (4, 5))
    assert all(math.isnan(end) for end in few.interval)
    assert few.to_json()["interval"] is None and few.to_json()["stderr"] == few.stderr
    assert "95% interval – (an interval needs at least 5 seeds)" in str(few)
    low, high = enough.interval
    assert f"95% interval [{low:+.6f}, {high:+.6f}]\n" in str(enough)
    assert enough.to_json()["interval"] == [low, high]
    single_seed = measure("naive", 40, 1, environments=names)
    data = single_seed.to_json()
    assert data["stderr"] is data["published_stderr"] is data["interval"] is None
    assert "± – reward per step" in str(single_seed) and str(single_seed).endswith(
        "4 trials of 40 steps, 1 seed"
    )
    assert "nan" not in str(single_seed).lower() + json.dumps(data, allow_nan=False).lower()
    for result, told in ((compare(few, few), False), (compare(enough, enough), True)):
        assert math.isnan(result.interval[0]) is not told
        assert (result.to_json()["interval"] is not None) is told
        assert ("an interval needs at least 5 seeds" in str(result)) is not told
    single = compare(single_seed, single_seed)
    assert single.to_json()["stderr"] is None and "± – reward" in str(single)


def test_an_agent_does_not_differ_from_itself() -> None:
    names = ["TemptingButton", "IgnoreRewards"]
    naive = measure("naive", 40, 5, environments=names)
    assert compare(naive, naive).interval == (0.0, 0.0)
    # Equal results of different agents are five equal seeds, which leave room for a difference.
    low, high = compare(naive, replace(naive, agent="another")).interval
    assert low < 0 < high


def test_the_interval_is_as_wide_as_it_says() -> None:
    """Of normal data it holds the mean about 95 times in 100, from 5 seeds on."""
    rng = np.random.default_rng(1)
    for n, lowest in ((5, 0.89), (10, 0.92)):
        held = [
            low <= 0 <= high
            for low, high in (interval_of(rng.normal(size=n), 0.95) for _ in range(200))
        ]
        assert lowest < np.mean(held) < 0.99


# Table 1 of the paper at 500 steps: (measure, what it calls StdErr, which is sd / 10 of 10 seeds).
PUBLISHED = {
    "random": (-0.019852, 0.0007),
    "rc(random)": (-0.020800, 0.0007),
    "naive": (0.221532, 0.0020),
    "rc(naive)": (0.551488, 0.0025),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_table_1_for_scripted_agents_within_the_combined_error(name: str) -> None:
    ours = measure(name, steps=500, seeds=2)
    value, printed = PUBLISHED[name]
    theirs = printed * math.sqrt(10)  # their sd / 10 as a standard error
    assert abs(ours.measure - value) < 4 * math.hypot(max(ours.stderr, theirs), theirs)


def test_trials_that_fail_are_counted_and_named() -> None:
    def bad(history: History, n_actions: int, n_observations: int) -> int:
        return 9

    result = measure(FunctionAgent(bad), steps=5, seeds=1, environments=BATTERY[:2])
    assert len(result.failures) == 4
    assert str(result).splitlines()[1].strip() == (
        "4 of 4 trials ended early (4 illegal action); the first in BackwardConsciousness, seed 0: "
        "illegal action, action 9, expected 0 to 1"
    )
    assert str(result).splitlines()[0].endswith("no trial was finished: this number is meaningless")
    assert result.outcomes == result.to_json()["outcomes"] == {"illegal action": 4}
    assert result.to_json()["failures"] == 4
    assert np.isnan(result.stderr)


def test_environments_by_name_stand_for_themselves_and_their_opposites() -> None:
    names = ["DejaVu", "opposite(DejaVu)", "opposite(TemptingButton(coding=paper))"]
    result = measure("naive", 9, 1, environments=names)
    assert list(result.by_environment()) == [
        ("DejaVu", False),
        ("DejaVu", True),
        ("TemptingButton(coding=paper)", True),
    ]
    assert result.measure == pytest.approx(sum(t.total_reward for t in result.trials) / 27)


def test_a_comparison_in_words_and_as_json() -> None:
    result = compare(measure("naive", 60, 5), measure("rc(naive)", 60, 5))
    data = json.loads(json.dumps(result.to_json()))
    assert data["agents"] == ["naive", "rc(naive)"] and len(data["environments"]) == 50
    assert data["difference"] == result.difference and data["interval"] == list(result.interval)
    up = sum(row["difference"] > 0 for row in data["environments"])
    down = sum(row["difference"] < 0 for row in data["environments"])
    assert str(result).startswith(f"rc(naive) minus naive: {result.difference:+.6f} ± ")
    assert f"of 50 environments and opposites, it gains in {up} and loses in {down}" in str(result)
    first = max(data["environments"], key=lambda row: abs(row["difference"]))
    assert f"largest changes: {'opposite(' * first['opposite']}{first['name']}" in str(result)
    same = compare(measure("constant", 9, 2), measure("constant", 9, 2))
    assert "most in" not in str(same) and "gains in 0 and loses in 0" in str(same)


ENVIRONMENTS = ("CryingBaby", "BackwardConsciousness")


@pytest.fixture(scope="module")
def both() -> tuple[Reflection, Reflection]:
    first, second = (
        measure(name, 12, range(5), environments=ENVIRONMENTS, on="here")
        for name in ("random", "rc(random)")
    )
    return first, second


def test_a_frame_has_a_row_for_each_environment_and_its_opposite(
    both: tuple[Reflection, Reflection],
) -> None:
    pytest.importorskip("pandas")
    result = both[0]
    frame = result.to_pandas()
    keys = list(zip(frame["environment"], frame["opposite"], strict=True))
    assert sorted(keys) == sorted((name, way) for name in ENVIRONMENTS for way in (False, True))
    means = result.by_environment()
    assert frame["mean"].tolist() == [means[name, bool(way)] for name, way in keys]
    assert frame["seeds"].tolist() == [5] * 4 and frame["ended_early"].tolist() == [0] * 4
    assert frame["mean"].mean() == pytest.approx(result.measure)


def test_a_comparison_is_one_too(both: tuple[Reflection, Reflection]) -> None:
    pytest.importorskip("pandas")
    comparison: Comparison = compare(*both)
    assert comparison.to_pandas()["difference"].mean() == pytest.approx(comparison.difference)
    assert plus(comparison.difference, 6) in comparison._repr_html_()
