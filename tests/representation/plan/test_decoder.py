"""The transformer reader: its shape, what decides it, what it reads, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from representation.plan.plantings import planted_plans, walked

from goalmeter.representation.plans.readers import PlanDecoder, PlanReading, _loss
from goalmeter.representation.plans.targets import END, NOTHING
from goalmeter.representation.probes.gradient import Schedule

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


def test_the_loss_weighs_steps_and_leaves_out_what_is_not_known() -> None:
    scores = torch.zeros(2, 3, 5)
    scores[0, 1, 2] = 1.0
    actions = torch.tensor([[0, 2, NOTHING], [1, NOTHING, NOTHING]])
    even, told = np.log(5), np.log(4 + np.e) - 1
    expected = (2 * even + 0.5 * told) / 2.5
    assert float(_loss(scores, actions, 0.5)) == pytest.approx(expected, rel=1e-6)
    # Where nothing is known there is nothing to pay.
    assert float(_loss(scores, torch.full((2, 3), NOTHING), 0.5)) == 0.0
