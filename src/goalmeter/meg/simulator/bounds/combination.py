"""The linear combination of utilities that explains an agent best, in a world as it was seen.

MEG of the weights w is w . E_agent[sum u] less the soft value of w . u, concave in w, with slope
E_agent[sum u] - E_soft[sum u] (the dual of maximum causal entropy). The weights are fitted to
episodes that bound nothing; MEG towards the best combination is at least MEG towards this one.
"""

from __future__ import annotations

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.meg.simulator.bounds.possible_worlds import AS_SEEN, PossibleWorlds

# Weights this large tell apart what an episode can collect by a thousand nats: an optimum farther
# out is at infinity for all that can be bounded.
_FARTHEST = 1e3
_ITERATIONS = 80


def best_weights(worlds: PossibleWorlds, collected: FloatArray, starts: FloatArray) -> FloatArray:
    """Weights of the utilities, [U].

    Args:
        worlds: of which the one as seen is planned in.
        collected: what the agent collects of each utility on average, [U].
        starts: probability of each state at the start, [S].
    """
    from scipy.optimize import minimize

    # In units of what an episode may collect, so that all weights are of one size.
    scale = np.array([max(abs(r.low), abs(r.high), 1e-12) for r in worlds.ranges])
    unit = 1.0 / (scale * worlds.horizon)
    paid = (worlds.worlds.frequencies[:, :, None] * worlds.worlds.arrays.paid).sum(axis=1)

    def loss(x: FloatArray) -> tuple[float, FloatArray]:
        weights = x * unit
        plan = worlds.soft_plan(weights, AS_SEEN)
        soft = worlds.visits(plan, starts).sum(axis=0) @ paid
        value = float(weights @ collected - starts @ plan.value[0])
        return -value, np.asarray(-(collected - soft) * unit)

    bounds = [(-_FARTHEST, _FARTHEST)] * len(unit)
    fit = minimize(
        loss,
        np.zeros(len(unit)),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": _ITERATIONS},
    )
    return np.asarray(fit.x * unit)
