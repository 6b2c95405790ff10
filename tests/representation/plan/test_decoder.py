"""The transformer reader: its shape, what decides it, what it reads, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from representation.plan.plantings import planted_plans, walked

from goalmeter.representation.plans.readers import END, PlanDecoder, PlanReading
from goalmeter.representation.probes.registry import Schedule

torch = pytest.importorskip("torch")
SHORT = Schedule(rate=1e-3, epochs=3)
SMALL = PlanDecoder(1, 16, 4, schedule=SHORT)


def reading(encoding: str = "linear", tokens: int = 3) -> PlanReading:
    plans = walked(60)
    return PlanReading(planted_plans(plans, encoding)[:, :tokens], plans.actions)


@pytest.mark.parametrize("tokens", [1, 3])
def test_its_seed_decides_and_nothing_else(tokens: int) -> None:
    whole = reading(tokens=tokens)
    train, beside = whole.where(np.arange(40)), whole.where(np.arange(40, 60))
    before = torch.random.get_rng_state()
    fitted = SMALL.fit(train, beside, seed=3)
    assert (torch.random.get_rng_state() == before).all()
    told = fitted(whole.activations)
    torch.manual_seed(1)
    again = SMALL.fit(train, beside, seed=3)
    assert (again(whole.activations) == told).all()
    assert (SMALL.fit(train, beside, seed=4)(whole.activations) != told).any()
    assert told.shape == whole.actions.shape and told.min() >= 0 and told.max() <= END
    # Rows do not depend on each other, nor on dropout.
    assert (fitted(whole.activations[-1:]) == told[-1:]).all()
    assert (fitted(whole.activations) == told).all()
