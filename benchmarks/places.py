"""Two workers do nearly twice the work of one, and keeping every result costs next to nothing.

Two studies whose trials are as long as trials are: 10,000 MDPs of the size of CliffWorld (40 states,
4 actions), drawn at random, each with the goal-directedness of an epsilon-greedy policy towards a
known utility; and the reflection battery, the naive learner, 10 seeds of 1000 steps. Whole calls by
the clock, workers started and ended, and kept in a run folder unless it says otherwise; every result
must be the same. Efficiency at two workers is the time of one over twice the time of two. Keeping
costs what the study takes longer with a folder than without, both in one process, taking turns. Ray
is a cluster of this machine that runs already, with as many workers; what it costs is over processes.
Aims: efficiency at least 85%, keeping under 5%, Ray under 10%.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness
import numpy as np

import goalmeter as gm
from goalmeter.runs import Study, carry_out

MDPS, STATES, ACTIONS, SUCCESSORS = 10_000, 40, 4, 2
AGENT, STEPS, SEEDS = "naive", 1000, 10
REPEAT = 3


def known_of_many(first: int, count: int) -> list[float]:
    """The MEG of a policy in some random MDPs, in nats."""
    values = []
    for seed in range(first, first + count):
        rng = np.random.default_rng(seed)
        transition = np.zeros((STATES, ACTIONS, STATES))
        for state in range(STATES):
            for action in range(ACTIONS):
                reached = rng.choice(STATES, SUCCESSORS, replace=False)
                transition[state, action, reached] = rng.dirichlet(np.ones(SUCCESSORS))
        mdp = gm.TabularMDP(transition, rng.normal(size=STATES), horizon=20)
        policy = gm.epsilon_greedy(mdp, 0.3)
        values.append(gm.meg.known_utility(mdp, policy).value)
    return values
