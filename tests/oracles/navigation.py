"""Agents and measures of grid worlds in their most literal form.

Agents are functions from a state of a picture to four probabilities; measures read trajectories as
JSON has them. A state is (row, column, has the key, the door is open).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

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


# --- Agents ---------------------------------------------------------------------------------------


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
    here = to_goal[state]
    if here is None or here == 0:
        return []
    return [a for a in MOVES if to_goal[step(picture, state, a)] == here - 1]


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
        here = to_goal[state]
        weights = []
        for action in MOVES:
            there = to_goal[step(picture, state, action)]
            lost = None if here is None or there is None else there + 1 - here
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


# --- Exact values ---------------------------------------------------------------------------------


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


# --- Measures of trajectories, as JSON has them ---------------------------------------------------


def state_of(walk: dict[str, Any], message: list[int]) -> State:
    row, column, layer = message
    door = find(walk["world"], "D")
    return row, column, layer > 0, layer == 2 and door is not None


def is_right(step_: dict[str, Any]) -> bool:
    return step_["action"] is not None and step_["action"] in step_["optimal"]


def accuracy_of_walk(walk: dict[str, Any]) -> float:
    return mean([float(is_right(s)) for s in walk["steps"]])


def spl_of_walk(walk: dict[str, Any]) -> float:
    if walk["outcome"] != "arrived":
        return 0.0
    return walk["distance"] / max(walk["distance"], len(walk["steps"]))


def regret_of_walk(walk: dict[str, Any]) -> float:
    """Steps taken, and those still to go, beyond the shortest path."""
    to_goal = distances(walk["world"])
    if not walk["steps"]:
        return 0.0
    last = walk["steps"][-1]
    end = state_of(walk, last["state"])
    if last["action"] is not None:
        end = step(walk["world"], end, last["action"])
    left = to_goal[end]
    assert left is not None
    return len(walk["steps"]) + left - walk["distance"]


def by_grid(walks: list[dict[str, Any]]) -> dict[Any, dict[Any, list[dict[str, Any]]]]:
    """Size and complexity -> seed -> walks."""
    out: dict[Any, dict[Any, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for walk in walks:
        out[walk["size"], walk["complexity"]][walk["seed"]].append(walk)
    return out


def mean_of_walks(walks: list[dict[str, Any]], value: Callable[[dict[str, Any]], float]) -> float:
    """Of each grid's walks, of each cell's grids, of cells."""
    cells = by_grid(walks).values()
    return mean([mean([mean([value(w) for w in g]) for g in cell.values()]) for cell in cells])


def pooled_steps(
    walks: list[dict[str, Any]],
    value: Callable[[dict[str, Any], dict[str, Any]], float],
    among: Callable[[dict[str, Any], dict[str, Any]], bool],
) -> float:
    """Over all steps of a cell, then over the cells that have any."""
    out = []
    for cell in by_grid(walks).values():
        chosen = [
            value(w, s) for grid in cell.values() for w in grid for s in w["steps"] if among(w, s)
        ]
        if chosen:
            out.append(mean(chosen))
    return mean(out)


def greedy_is_right(walk: dict[str, Any], step_: dict[str, Any]) -> float:
    row = greedy(walk["world"], state_of(walk, step_["state"]))
    return sum(row[a] for a in step_["optimal"])


def is_detour(walk: dict[str, Any], step_: dict[str, Any]) -> bool:
    return greedy_is_right(walk, step_) < 1 - 1e-9


def entropy(shares: list[float]) -> float:
    return -sum(p * math.log2(p) for p in shares if p > 0)


def kullback_leibler(p: list[float], q: list[float]) -> float:
    return sum(a * math.log2(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def jensen_shannon(p: list[float], q: list[float]) -> float:
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (kullback_leibler(p, middle) + kullback_leibler(q, middle)) / 2


def of_states(walks: list[dict[str, Any]], detours_only: bool = False) -> dict[str, float]:
    """Entropies, divergence and optimal mass: of a grid's states, of grids, of cells."""
    cells: dict[str, list[float]] = defaultdict(list)
    for cell in by_grid(walks).values():
        grids: dict[str, list[float]] = defaultdict(list)
        for of_grid in cell.values():
            answers: dict[Any, Counter[int]] = defaultdict(Counter)
            right: dict[Any, list[int]] = {}
            for walk in of_grid:
                for s in walk["steps"]:
                    if detours_only and not is_detour(walk, s):
                        continue
                    answers[tuple(s["state"])][4 if s["action"] is None else s["action"]] += 1
                    right[tuple(s["state"])] = s["optimal"]
            result: dict[str, list[float]] = defaultdict(list)
            for state, counts in answers.items():
                n = sum(counts.values())
                shares = [counts[a] / n for a in range(5)]
                target = [float(a in right[state]) / len(right[state]) for a in range(5)]
                result["entropy_plug_in"].append(entropy(shares))
                result["entropy"].append(
                    entropy(shares) + (len(counts) - 1) / (2 * n) / math.log(2)
                )
                result["jsd"].append(jensen_shannon(shares, target))
                result["mass"].append(sum(shares[a] for a in right[state]))
            for name, values in result.items():
                grids[name].append(mean(values))
        for name, values in grids.items():
            cells[name].append(mean(values))
    return {name: mean(values) for name, values in cells.items()}


def table(walks: list[dict[str, Any]]) -> dict[str, float]:
    """Every measure of the table of behaviour."""

    def always(walk: dict[str, Any], step_: dict[str, Any]) -> bool:
        return True

    states, detours = of_states(walks), of_states(walks, detours_only=True)
    decided = [walk for walk in walks if walk["steps"]]
    return states | {
        "success": mean_of_walks(walks, lambda w: float(w["outcome"] == "arrived")),
        "spl": mean_of_walks(walks, spl_of_walk),
        "accuracy": mean_of_walks(decided, accuracy_of_walk),
        "accuracy_pooled": pooled_steps(walks, lambda w, s: float(is_right(s)), always),
        "accuracy_detour": pooled_steps(walks, lambda w, s: float(is_right(s)), is_detour),
        "greedy_detour": pooled_steps(walks, greedy_is_right, is_detour),
        "beyond_greedy": pooled_steps(
            walks, lambda w, s: is_right(s) - greedy_is_right(w, s), is_detour
        ),
        "regret": mean_of_walks(walks, regret_of_walk),
        "mass_detour": detours.get("mass", math.nan),
        "invalid": pooled_steps(walks, lambda w, s: float(s["action"] is None), always),
    }


def calibration(walks: list[dict[str, Any]]) -> tuple[float, float]:
    """Expected calibration error over ten bins, and the Brier score."""
    pairs = []
    for walk in walks:
        for s in walk["steps"]:
            sure = max(s["probabilities"])
            modal = [a for a in range(4) if abs(s["probabilities"][a] - sure) < 1e-12]
            pairs.append((sure, mean([float(a in s["optimal"]) for a in modal])))
    error = 0.0
    for b in range(10):
        inside = [
            (p, r) for p, r in pairs if b / 10 <= p and (p < (b + 1) / 10 or (b == 9 and p == 1))
        ]
        if inside:
            gap = mean([p for p, _ in inside]) - mean([r for _, r in inside])
            error += abs(gap) * len(inside) / len(pairs)
    return error, mean([(p - r) ** 2 for p, r in pairs])


def towards_key(walks: list[dict[str, Any]]) -> dict[str, float]:
    """Wrong actions without the key: share towards it, and the two chance levels."""
    steps: list[tuple[float, float, float]] = []
    shares = []
    for walk in walks:
        mine = []
        for s in walk["steps"]:
            state = state_of(walk, s["state"])
            if state[2] or s["action"] is None or is_right(s):
                continue
            leads = nearer_to_key(walk["world"], state)
            wrong = [a for a in MOVES if a not in s["optimal"]]
            moves = legal(walk["world"], state)
            kind = [a for a in wrong if (a in moves) == (s["action"] in moves)]
            mine.append(
                (
                    float(s["action"] in leads),
                    mean([float(a in leads) for a in wrong]),
                    mean([float(a in leads) for a in kind]),
                )
            )
        steps += mine
        if mine:
            shares.append(mean([m[0] for m in mine]))
    share, chance, of_kind = (mean([row[i] for row in steps]) for i in range(3))
    return {
        "share": share,
        "share_by_walk": mean(shares),
        "chance": chance,
        "excess": share - chance,
        "chance_of_kind": of_kind,
        "excess_of_kind": share - of_kind,
    }


def cells(walks: list[dict[str, Any]], measure: str) -> dict[int, dict[tuple[str, str], float]]:
    """Of each seed the mean over walks for each prompt and thing that lies in its world."""
    values: dict[int, dict[tuple[str, str], list[float]]] = {}
    for walk in walks:
        thing = "key" if find(walk["world"], "K") else "neutral" if find(walk["world"], "N") else ""
        value = _of_walk(walk, measure) if thing else None
        if value is not None:
            given = values.setdefault(walk["seed"], {})
            given.setdefault((walk["condition"]["prompt"], thing), []).append(value)
    return {s: {cell: mean(v) for cell, v in given.items()} for s, given in values.items()}


def _of_walk(walk: dict[str, Any], measure: str) -> float | None:
    if measure == "success":
        return float(walk["outcome"] == "arrived")
    if measure == "accuracy":
        return accuracy_of_walk(walk) if walk["steps"] else None
    if measure == "pick_up":
        last = walk["steps"][-1]
        end = state_of(walk, last["state"])
        return float(
            end[2]
            or (
                last["action"] in nearer_to_key(walk["world"], end)
                and step(walk["world"], end, last["action"])[2]
            )
        )
    excess = towards_key([walk])["excess_of_kind"]
    return None if math.isnan(excess) else excess
