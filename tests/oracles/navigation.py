"""Agents of grid worlds in their most literal form, and what they do exactly.

Agents are functions from a state of a picture to four probabilities. A state is (row, column, has
the key, the door is open). Measures of walks are in `walk_measures`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import networkx

from oracles import grid_world
from oracles.grid_world import MOVES, State, find, step

Row = list[float]
Agent = Callable[[list[str], State], Row]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def distances(picture: list[str]) -> dict[State, int | None]:
    return _distances(tuple(picture))


def graph(picture: list[str]) -> networkx.DiGraph:
    return _graph(tuple(picture))


@lru_cache(maxsize=1000)
def _distances(picture: tuple[str, ...]) -> dict[State, int | None]:
    return grid_world.distances(list(picture))


@lru_cache(maxsize=1000)
def _graph(picture: tuple[str, ...]) -> networkx.DiGraph:
    return grid_world.graph(list(picture))


def evenly(actions: list[int]) -> Row:
    return [float(a in actions) / len(actions) for a in MOVES]


def at_goal(picture: list[str], state: State) -> bool:
    return state[:2] == find(picture, "G")


def legal(picture: list[str], state: State) -> list[int]:
    if at_goal(picture, state):
        return []
    return [a for a in MOVES if step(picture, state, a) != state]


def best(picture: list[str], state: State) -> list[int]:
    to_goal = distances(picture)
    at = to_goal[state]
    if at is None or at == 0:
        return []
    return [a for a in MOVES if to_goal[step(picture, state, a)] == at - 1]


def random_agent(picture: list[str], state: State) -> Row:
    return evenly(legal(picture, state) or list(MOVES))


def optimal(picture: list[str], state: State) -> Row:
    return evenly(best(picture, state) or legal(picture, state) or list(MOVES))


def epsilon_optimal(epsilon: float) -> Agent:
    def agent(picture: list[str], state: State) -> Row:
        first, second = optimal(picture, state), random_agent(picture, state)
        return [(1 - epsilon) * p + epsilon * q for p, q in zip(first, second, strict=True)]

    return agent


def greedy(picture: list[str], state: State) -> Row:
    goal = find(picture, "G")
    assert goal is not None

    def straight(s: State) -> int:
        return abs(s[0] - goal[0]) + abs(s[1] - goal[1])

    open_ = legal(picture, state)
    nearer = [a for a in open_ if straight(step(picture, state, a)) < straight(state)]
    return evenly(nearer or open_ or list(MOVES))


def boltzmann(beta: float) -> Agent:
    def agent(picture: list[str], state: State) -> Row:
        to_goal = distances(picture)
        at = to_goal[state]
        weights = []
        for action in MOVES:
            there = to_goal[step(picture, state, action)]
            lost = None if at is None or there is None else there + 1 - at
            weights.append(0.0 if lost is None else math.exp(-beta * lost))
        if sum(weights) == 0 or at_goal(picture, state):
            return random_agent(picture, state)
        return [w / sum(weights) for w in weights]

    return agent


def nearer_to_key(picture: list[str], state: State) -> list[int]:
    """The actions that lead one step closer to having what lies there, by the graph of states."""
    away = _steps_to_key(tuple(picture))
    if state[2] or state not in away:
        return []
    return [a for a in MOVES if away.get(step(picture, state, a)) == away[state] - 1]


@lru_cache(maxsize=1000)
def _steps_to_key(picture: tuple[str, ...]) -> dict[State, int]:
    states = _graph(picture)
    away: dict[State, int] = {}
    for end in [s for s in states if s[2]]:
        for s, length in networkx.shortest_path_length(states, target=end).items():
            away[s] = min(length, away.get(s, length))
    return away


def key_seeker(picture: list[str], state: State) -> Row:
    towards = nearer_to_key(picture, state) if find(picture, "K") else []
    return evenly(towards) if towards else optimal(picture, state)


AGENTS: dict[str, Agent] = {
    "optimal": optimal,
    "greedy": greedy,
    "random": random_agent,
    "epsilon-optimal": epsilon_optimal(0.1),
    "epsilon-optimal(0.35)": epsilon_optimal(0.35),
    "key-seeker": key_seeker,
    "boltzmann(0)": boltzmann(0),
    "boltzmann(1.5)": boltzmann(1.5),
    "boltzmann(-1)": boltzmann(-1),
}


def wall_follower(picture: list[str], walk: list[State]) -> int:
    """What it does at the end of a walk: a function of where it has been."""
    right_of = {2: 1, 1: 3, 3: 0, 0: 2}
    heading = 2
    for before, after in pairwise(walk):
        heading = next(a for a in MOVES if step(picture, before, a) == after)
    right = right_of[heading]
    back = right_of[right]
    left = right_of[back]
    return next(a for a in (right, heading, left, back) if a in legal(picture, walk[-1]))


def whole_grid(picture: list[str], agent: Agent) -> tuple[float, float]:
    """Probability of an optimal action wherever one can get, put anywhere; and where greedy errs.

    The agent is put on each empty cell in turn.
    """
    everywhere: dict[State, float] = {}
    detours: dict[State, float] = {}
    for r, row in enumerate(picture):
        for c, symbol in enumerate(row):
            if symbol not in "_A":
                continue
            moved = [line.replace("A", "_") for line in picture]
            moved[r] = moved[r][:c] + "A" + moved[r][c + 1 :]
            for state in graph(moved):
                right = best(moved, state)
                if state in everywhere or not right:
                    continue
                everywhere[state] = sum(agent(moved, state)[a] for a in right)
                if sum(greedy(moved, state)[a] for a in right) < 1 - 1e-9:
                    detours[state] = everywhere[state]
    return mean(list(everywhere.values())), mean(list(detours.values()))


def chances(picture: list[str], agent: Agent, cap: int) -> tuple[float, float]:
    """Probability of being at the goal within the cap, and of having the key by then."""
    arrived = key = 0.0
    row, column = find(picture, "A") or (0, 0)
    front: dict[State, float] = {(row, column, False, False): 1.0}
    for _ in range(cap):
        after: dict[State, float] = defaultdict(float)
        for state, p in front.items():
            if at_goal(picture, state):
                after[state] += p
                continue
            for action, q in enumerate(agent(picture, state)):
                after[step(picture, state, action)] += p * q
        front = after
    for state, p in front.items():
        arrived += p * at_goal(picture, state)
        key += p * state[2]
    return arrived, key
