"""Behaviour cloning: a network that imitates an expert for one of the two goals."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from goalmeter._errors import require
from goalmeter._types import FloatArray
from goalmeter.experiments.goal_misgeneralisation.levels import ACTIONS, Levels
from goalmeter.experiments.goal_misgeneralisation.network import HIDDEN, Network

# An expert prefers to be paid early, by this discount; values are worked out so many steps ahead.
_DISCOUNT, _STEPS = 0.9, 60
# Actions whose values are closer than this are equally good.
_TIE = 1e-9
# States that an expert shows in each level, updates, and states of an update.
STATES, UPDATES, BATCH = 24, 1500, 256
_RATE = 2e-3


def expert(levels: Levels, utility: FloatArray) -> FloatArray:
    """Best actions in each state, with equal probability: [S, 4].

    Args:
        levels: where.
        utility: what the expert is paid for a decision in each state, [S].
    """
    value = np.zeros(len(utility))
    for _ in range(_STEPS):
        ahead = utility[:, None] + _DISCOUNT * value[levels.next_state]
        value = ahead.max(axis=1)
    best = ahead >= value[:, None] - _TIE
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def demonstrations(
    levels: Levels, utility: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """What an expert sees, [N, D], and its actions there, [N, 4]: up to `STATES` of each level.

    States where it does not matter what is done show nothing and are left out.
    """
    shown = expert(levels, utility)
    tells = np.flatnonzero((shown.max(axis=1) > 1 / ACTIONS) & ~levels.ends)
    level = np.searchsorted(levels.starts, tells, side="right")
    mixed = rng.permutation(len(tells))
    order = mixed[np.argsort(level[mixed], kind="stable")]
    ranked = level[order]
    rank = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    chosen = tells[order[rank < STATES]]
    return levels.observations[chosen], shown[chosen]


def cloned(levels: Levels, utility: FloatArray, seed: int, *, updates: int = UPDATES) -> Network:
    """A network trained to do in some levels what an expert for a utility does."""
    torch = require("torch", extra="neural", feature="Behaviour cloning")
    rng = np.random.default_rng(seed)
    seen, done = demonstrations(levels, utility, rng)
    torch.manual_seed(seed)
    sizes = (seen.shape[1], *HIDDEN, ACTIONS)
    linear = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    model = torch.nn.Sequential(
        linear[0], *(part for layer in linear[1:] for part in (torch.nn.ReLU(), layer))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=_RATE)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    inputs, targets = torch.tensor(seen), torch.tensor(done, dtype=torch.float32)
    for _ in range(updates):
        batch = torch.from_numpy(rng.integers(len(seen), size=BATCH))
        loss = torch.nn.functional.cross_entropy(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
    return Network(
        [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in linear]
    )
