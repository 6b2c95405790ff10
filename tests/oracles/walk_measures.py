"""Measures of walks in their most literal form: they read trajectories as JSON has them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from oracles.grid_world import MOVES, State, find, step
from oracles.navigation import best, distances, greedy, legal, mean, nearer_to_key


def state_of(walk: dict[str, Any], numbers: list[int]) -> State:
    row, column, layer = numbers
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


def right_on_one_map(walk: dict[str, Any], other: list[str]) -> tuple[float, float]:
    """Moves that are right on the other map only, and in the world only.

    A move weighs as much as there are moves on the other side in its state, so that both sides are
    equally likely for an agent that draws its moves evenly.
    """
    there = here = 0.0
    for s in walk["steps"]:
        state = state_of(walk, s["state"])
        in_world, on_map = set(best(walk["world"], state)), set(best(other, state))
        there += len(in_world - on_map) * (s["action"] in on_map - in_world)
        here += len(on_map - in_world) * (s["action"] in in_world - on_map)
    return there, here


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
        object_name = (
            "key" if find(walk["world"], "K") else "neutral" if find(walk["world"], "N") else ""
        )
        value = _of_walk(walk, measure) if object_name else None
        if value is not None:
            options = values.setdefault(walk["seed"], {})
            options.setdefault((walk["condition"]["prompt"], object_name), []).append(value)
    return {s: {cell: mean(v) for cell, v in options.items()} for s, options in values.items()}


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
