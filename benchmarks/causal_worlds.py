"""Networks for the causal benchmarks: a random one of bounded width, a grid, an MDP's diagram."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import goalmeter as gm
from goalmeter.causal import unroll

Rng = np.random.Generator


def random_network(
    n: int, *, states: int = 3, parents: int = 3, window: int = 4, seed: int = 0
) -> gm.CausalBayesianNetwork:
    """Variables X0, X1, ..., each with the one before it and some of the `window` before it.

    Nothing is barren: everything influences the last variable. A variable is nearly a function of
    its parents, so that influence carries far. The elimination width is at most `window` or so.
    """
    rng = np.random.default_rng(seed)
    names = [f"X{i}" for i in range(n)]
    chosen: dict[str, list[str]] = {}
    cpds = {}
    for i, x in enumerate(names):
        earlier = names[max(0, i - window) : max(0, i - 1)]
        more = min(len(earlier), int(rng.integers(0, parents)))
        chosen[x] = [*rng.choice(earlier, more, replace=False).tolist(), *names[i - 1 : i][: i > 0]]
        cpds[x] = _nearly_a_function(rng, states, len(chosen[x]), share=0.95)
    return gm.CausalBayesianNetwork({x: range(states) for x in names}, chosen, cpds)


def _nearly_a_function(rng: Rng, states: int, parents: int, share: float) -> np.ndarray:
    """P(x | parents) that gives `share` of its mass to one state, [*states, states]."""
    shape = (states,) * parents
    noise = rng.dirichlet(np.ones(states), size=shape)
    # A permutation of the last parent for each value of the others: no value is forgotten.
    values = np.stack([rng.permutation(states) for _ in range(states ** max(parents - 1, 0))])
    values = values.reshape(shape) if parents else values[0, 0]
    return share * np.eye(states)[values] + (1 - share) * noise


def grid(rails: int, length: int, *, states: int = 2, seed: int = 0) -> gm.CausalBayesianNetwork:
    """Variables R<rail>_<place>; the parents of each are its predecessor on the rail and above.

    Elimination width `rails` (if the length is no less), though no CPD has more than two parents.
    """
    rng = np.random.default_rng(seed)
    copy = np.eye(states)
    both = 0.6 * copy[:, None, :] + 0.4 * copy[None, :, :]
    domains, parents, cpds = {}, {}, {}
    for j in range(length):
        for i in range(rails):
            x = f"R{i}_{j}"
            domains[x] = range(states)
            parents[x] = [f"R{i}_{j - 1}"] * (j > 0) + [f"R{i - 1}_{j}"] * (i > 0)
            noise = rng.dirichlet(np.ones(states), size=(states,) * len(parents[x]))
            copied = (np.full(states, 1.0 / states), copy, both)[len(parents[x])]
            # Little noise: the first rail must still be heard at its far end.
            cpds[x] = 0.995 * copied + 0.005 * noise
    cpds["R0_1"] = rng.dirichlet(np.ones(states), size=states)
    return gm.CausalBayesianNetwork(domains, parents, cpds)


def random_mdp(
    states: int, actions: int, horizon: int, seed: int = 0
) -> tuple[gm.TabularMDP, np.ndarray]:
    """A dense MDP with a reward on states, and a random policy [H, S, A]."""
    rng = np.random.default_rng(seed)
    moves = rng.dirichlet(np.ones(states), size=(states, actions))
    start = rng.dirichlet(np.ones(states))
    mdp = gm.TabularMDP(moves, rng.random(states), initial=start, horizon=horizon)
    return mdp, rng.dirichlet(np.ones(actions), size=(horizon, states))


def chain(states: int, actions: int, horizon: int, seed: int = 0) -> gm.InfluenceDiagram:
    """A random MDP as an influence diagram: S1, D1, S2, ..., a utility of each state."""
    return unroll(*random_mdp(states, actions, horizon, seed))


def tables(
    network: gm.CausalBayesianNetwork,
) -> tuple[dict[str, tuple[tuple[str, ...], np.ndarray]], Sequence[str]]:
    """The CPDs with the variables they are over, and an order, for `baselines`."""
    cpds = {x: ((*network.parents(x), x), network.cpd(x)) for x in network.variables}
    return cpds, network.order
