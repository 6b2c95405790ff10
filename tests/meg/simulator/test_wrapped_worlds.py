"""Wrappers and vectors that would make an interval one of another world."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.simulator.worlds import ROW, Corridor, gymnasium, table

from goalmeter._errors import InvalidParameterError
from goalmeter.meg import known_utility
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.result import SimulatorResult

ENV = {"horizon": 5, "budget": 1000, "bounds": (-1, -1), "state": "observation"}
ENV |= {"chance": "generator"}


def measured(env: Any, **options: Any) -> SimulatorResult:
    result = from_simulator(env, lambda observation: ROW, **(ENV | options))
    assert isinstance(result, SimulatorResult)
    return result


def test_a_scale_that_is_learnt_on_the_way_is_refused_until_it_is_fixed() -> None:
    env = gymnasium.wrappers.NormalizeReward(Corridor())
    with pytest.raises(InvalidParameterError, match="NormalizeReward goes on learning"):
        measured(env, bounds=None)
    env.update_running_mean = False
    exact = known_utility(table(0, 5), [ROW] * 4).value
    np.testing.assert_allclose(measured(env, bounds=None).interval, exact, atol=2e-4)


def test_a_vector_that_shows_something_else_than_its_copies_is_refused() -> None:
    vectors = pytest.importorskip("stable_baselines3.common.vec_env")
    vector = vectors.DummyVecEnv([Corridor, Corridor])
    exact = known_utility(table(0, 5), [ROW] * 4).value
    result = measured(vectors.VecCheckNan(vector))
    np.testing.assert_allclose(result.interval, exact, atol=2e-4)
    for wrap in (
        vectors.VecNormalize(vector, norm_obs=False),
        vectors.VecCheckNan(vectors.VecNormalize(vector, norm_obs=False)),
    ):
        with pytest.raises(InvalidParameterError, match="wrapped in VecNormalize"):
            measured(wrap)
