"""Walks by shortest ways, and activations that encode their actions in a known way."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from representation.planted import Plant, planted

from goalmeter.representation.plans.readers import WalkPlans, plans_in
from goalmeter.representation.probes.protocol import Activations

TOKENS, DIMENSIONS = 3, 16


@lru_cache
def walked(grids: int = 300, *, queries: int = 10) -> WalkPlans:
    made = planted(Plant(grids=grids, use="true", encoding="none", dimensions=80), seed=0)
    return plans_in(made.scenes, made.walks.tolist(), made.steps.tolist(), queries=queries)


def planted_plans(
    plans: WalkPlans, encoding: str, *, first: int = 2, noise: float = 0.3
) -> Activations:
    """Activations [N, 3, D] of which the second token holds the first actions, or none."""
    rng = np.random.default_rng([7, len(plans)])
    words = np.where(plans.actions[:, :first] < 0, 4, plans.actions[:, :first])
    features = 2.0 * np.eye(5)[words].reshape(len(plans), -1) - 1.0
    if encoding == "xor":
        # Times a sign that is drawn anew: nothing linear tells of any action.
        sign = rng.choice([-1.0, 1.0], size=(len(plans), 1))
        features = np.concatenate([features * sign, 3.0 * sign], axis=1)
    out = rng.normal(scale=noise, size=(len(plans), TOKENS, DIMENSIONS))
    if encoding != "none":
        turned = np.linalg.qr(rng.normal(size=(DIMENSIONS, DIMENSIONS)))[0]
        out[:, 1] += features @ turned[: features.shape[1]]
    return out.astype(np.float32)
