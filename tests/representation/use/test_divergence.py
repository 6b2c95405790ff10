"""How far a change moves the distribution of actions, against all relabellings one by one."""

from __future__ import annotations

from collections import Counter
from random import Random

import numpy as np
import pytest
from oracles.divergence import divergence as by_hand
from oracles.divergence import mean_over_relabellings

from goalmeter.representation.use.interventions import divergence, effect_in_nats

NAMES = ["LEFT", "RIGHT", "UP", "DOWN", "unreadable"]


def counts(answers: list[str]) -> np.ndarray:
    found = Counter(answers)
    return np.array([found[name] for name in NAMES])


@pytest.mark.parametrize("seed", range(8))
def test_it_agrees_with_the_oracle(seed: int) -> None:
    random = Random(seed)
    draws = 2 + seed % 4
    first = [random.choice(NAMES) for _ in range(draws)]
    second = [random.choice(NAMES[: 1 + seed % 5]) for _ in range(draws)]
    observed, mean = divergence(counts(first), counts(second))
    assert observed == pytest.approx(by_hand(first, second), abs=1e-12)
    assert mean == pytest.approx(mean_over_relabellings(first, second), abs=1e-12)


def test_no_change_has_no_effect_and_the_plain_divergence_has_one() -> None:
    """Of 1,000 decisions whose answers come from one distribution."""
    rng = np.random.default_rng(0)
    shares = [0.5, 0.3, 0.1, 0.1, 0.0]
    pairs = rng.multinomial(6, shares, size=(2, 1000))
    effect = effect_in_nats(pairs[0], pairs[1], [f"grid {n % 200}" for n in range(1000)])
    plain = np.mean([divergence(*pair)[0] for pair in zip(*pairs, strict=True)])
    assert plain > 0.08
    assert effect.interval is not None and effect.interval[0] <= 0 <= effect.interval[1]
    assert abs(effect.value) < 0.012 and (effect.n, effect.clusters) == (1000, 200)
