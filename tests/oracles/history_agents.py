"""The scripted agents of the reflection battery, literally as functions of (seed, history).

A history is (percepts, actions): percepts x_1 ... x_n as pairs (reward, observation), actions
y_1 ... y_{n-1} as ints. What was received right after y_i is the reward of x_{i+1}.

Each agent is `agent(history, n_actions, n_observations)` once its keywords are given. A stochastic
one is made deterministic by `draw(seed, history, stream)`, a number in [0, 1) that is a function of
its arguments; a uniform choice among n is floor(n * draw). Nothing is remembered between calls.

Sources: section 5 and Definition 8, Proposition 9.1 of "Extending Environments To Measure
Self-Reflection In Reinforcement Learning"; the agents of the authors' library where they differ.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

Percepts = Sequence[tuple[Any, int]]
History = tuple[Percepts, Sequence[int]]
Draw = Callable[[int, History, int], float]
HistoryAgent = Callable[[History, int, int], int]


def prefix(history: History, n: int) -> History:
    """x_1 y_1 ... x_n of a history: n percepts and the n - 1 actions between them."""
    percepts, actions = history
    return percepts[:n], actions[: n - 1]


def first_greatest(values: Sequence[float]) -> int:
    return min(a for a in range(len(values)) if values[a] == max(values))


def random_agent(
    history: History, n_actions: int, n_observations: int, *, seed: int, draw: Draw
) -> int:
    """RandomAgent: an agent who acts randomly."""
    return math.floor(n_actions * draw(seed, history, 0))


def constant_agent(
    history: History, n_actions: int, n_observations: int, *, action: int = 0
) -> int:
    """ConstantAgent: an agent who always takes the same action."""
    return action


def naive_learner(
    history: History,
    n_actions: int,
    n_observations: int,
    *,
    seed: int,
    draw: Draw,
    exploration: float = 0.15,
    true_average: bool = False,
) -> int:
    """NaiveLearner as published: averages over 1 + count; of the text: averages, 0 of nothing."""
    if draw(seed, history, 0) < exploration:
        return math.floor(n_actions * draw(seed, history, 1))
    received = [rewards_after(history)[a] for a in range(n_actions)]
    if true_average:
        return first_greatest([total(r) / len(r) if r else 0 for r in received])
    return first_greatest([total(r) / (1 + len(r)) for r in received])


naive_learner_true_average = partial(naive_learner, true_average=True)


def rewards_after(history: History) -> dict[int, list[float]]:
    """For each action, the rewards that were received right after it, in order."""
    percepts, actions = history
    received = defaultdict(list)
    for i, action in enumerate(actions):
        reward, _ = percepts[i + 1]
        received[action].append(reward)
    return received


def total(rewards: Sequence[float]) -> float:
    """A sum from left to right; from Python 3.12 `sum` of floats rounds otherwise."""
    result: float = 0
    for reward in rewards:
        result = result + reward
    return result


def q_learner(
    history: History,
    n_actions: int,
    n_observations: int,
    *,
    seed: int,
    draw: Draw,
    learning_rate: float = 0.1,
    discount: float = 0.9,
    exploitation: float = 0.9,
) -> int:
    """Tabular Q-learning over the transitions (o_i, y_i, r_{i+1}, o_{i+1}) of the history."""
    percepts, actions = history
    q: dict[tuple[int, int], float] = defaultdict(float)
    for i, action in enumerate(actions):
        if action not in range(n_actions):
            continue
        (_, observation), (reward, following) = percepts[i], percepts[i + 1]
        value = max(q[following, b] for b in range(n_actions))
        error = reward + discount * value - q[observation, action]
        q[observation, action] += learning_rate * error
    action_values = [q[percepts[-1][1], a] for a in range(n_actions)]
    if all(value == 0 for value in action_values) or draw(seed, history, 0) >= exploitation:
        return math.floor(n_actions * draw(seed, history, 1))
    return first_greatest(action_values)


def reality_check(pi: HistoryAgent) -> HistoryAgent:
    """Definition 8, by its recursion (exponential in the length of the history)."""

    def checked(history: History, n_actions: int, n_observations: int) -> int:
        percepts, actions = history
        n = len(percepts)
        for i in range(1, n):
            if actions[i - 1] != checked(prefix(history, i), n_actions, n_observations):
                return pi(prefix(history, 1), n_actions, n_observations)
        return pi(history, n_actions, n_observations)

    return checked


def reality_check_alternate(pi: HistoryAgent) -> HistoryAgent:
    """The alternate definition of Proposition 9.1: past actions are compared with those of pi."""

    def checked(history: History, n_actions: int, n_observations: int) -> int:
        percepts, actions = history
        n = len(percepts)
        for i in range(1, n):
            if actions[i - 1] != pi(prefix(history, i), n_actions, n_observations):
                return pi(prefix(history, 1), n_actions, n_observations)
        return pi(history, n_actions, n_observations)

    return checked
