"""Histories to tell agents of, and ways to tell them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from oracles.history_agents import Draw
from oracles.history_agents import History as AnyHistory

import goalmeter
from goalmeter.agents.history import (
    History,
    Mind,
    Percept,
    hash_action,
    hash_percept,
    hash_start,
    uniform,
)
from goalmeter.agents.registry import history_agent as agent

SCRIPTED = ("random", "constant", "constant(1)", "naive", "naive-true-average", "q-learner")
CHECKED = tuple(f"rc({name})" for name in SCRIPTED)

few_examples = settings(max_examples=15, deadline=None, derandomize=True)
many_examples = settings(max_examples=30, deadline=None, derandomize=True)

# The paper allows any rational; environments pay whole numbers, and copies may see larger ones.
REWARDS: SearchStrategy[Any] = st.one_of(
    st.sampled_from((-1, 0, 1)),
    st.integers(-20, 20),
    st.floats(-100, 100),
    st.fractions(-3, 3, max_denominator=7),
)


@st.composite
def histories(
    draw: DrawFn,
    n_actions: int = 2,
    n_observations: int = 2,
    rewards: SearchStrategy[Any] = REWARDS,
    max_percepts: int = 25,
    illegal: bool = False,
) -> History:
    """Histories whose actions are nobody's, and with `illegal` not even all legal."""
    n = draw(st.integers(1, max_percepts))
    percept = st.builds(Percept, rewards, st.integers(0, n_observations - 1))
    percepts = draw(st.lists(percept, min_size=n, max_size=n))
    action = st.integers(-1, n_actions) if illegal else st.integers(0, n_actions - 1)
    actions = draw(st.lists(action, min_size=n - 1, max_size=n - 1))
    return History(tuple(percepts), tuple(actions))


def random_history(rng: Random, n: int, n_actions: int = 2, n_observations: int = 2) -> History:
    """A history of n percepts with rewards -1, 0, 1; its actions are nobody's."""
    percepts = [Percept(rng.randint(-1, 1), rng.randrange(n_observations)) for _ in range(n)]
    return History(tuple(percepts), tuple(rng.randrange(n_actions) for _ in range(n - 1)))


def tell(mind: Mind, history: AnyHistory) -> Mind:
    """Tell a mind at the empty history all of one, without asking it anything."""
    percepts, actions = history
    for percept, action in zip(percepts, (*actions, None), strict=True):
        mind.perceive(*percept)
        if action is not None:
            mind.take(action)
    return mind


def answers(mind: Mind, history: AnyHistory) -> list[int]:
    """What a mind at the empty history answers at every point of one that it is told."""
    percepts, actions = history
    answered = []
    for percept, action in zip(percepts, (*actions, None), strict=True):
        mind.perceive(*percept)
        answered.append(mind.act())
        if action is not None:
            mind.take(action)
    return answered


def prefixes(history: History) -> list[History]:
    """x_1, x_1 y_1 x_2, and so on up to the history itself."""
    percepts, actions = history
    return [History(percepts[:n], actions[: n - 1]) for n in range(1, len(percepts) + 1)]


def draw_in(n_actions: int, n_observations: int) -> Draw:
    """The draws of `goalmeter.agents.history` as a function of (seed, history, stream)."""

    def draw(seed: int, history: AnyHistory, stream: int) -> float:
        percepts, actions = history
        state = hash_start(seed, n_actions, n_observations)
        for percept, action in zip(percepts, (*actions, None), strict=True):
            state = hash_percept(state, *percept)
            if action is not None:
                state = hash_action(state, action)
        return uniform(state, stream)

    return draw


def fixed_answers(names: Sequence[str]) -> dict[str, list[int]]:
    """What agents answer along a few fixed histories; another process must find the same."""
    rng = Random(7)
    fixed = [random_history(rng, 30) for _ in range(5)]
    fixed.append(History((Percept(0.5, 0), Percept(Fraction(1, 3), 1)), (1,)))
    return {
        name: [
            action
            for seed in (0, 5)
            for history in fixed
            for action in answers(agent(name, seed).begin(2, 2), history)
        ]
        for name in names
    }


def in_another_process(program: str) -> Any:
    """The `answers` that a program leaves, in a process where Python's hashes differ."""
    paths = [Path(__file__).parents[1], Path(goalmeter.__file__).parents[1]]
    environment = os.environ | {
        "PYTHONHASHSEED": "12345",
        "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, "-c", f"import json; {program}; print(json.dumps(answers))"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
