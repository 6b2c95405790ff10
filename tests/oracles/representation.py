"""Reading of maps in its most literal form: lists of cells, pictures of grids, all pairs.

A posterior is, for every row and column, a dictionary from class to probability. Classes are named.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import product
from typing import Any

from oracles.grid_world import MOVES, distances, find, step

SYMBOLS = {"wall": "#", "empty": "_", "agent": "A", "goal": "G"}
Posterior = list[list[dict[str, float]]]
# (grid, true class, posterior of a probe, posterior of position alone)
CellRead = tuple[int, str, dict[str, float], dict[str, float]]


def mode(shares: dict[str, float]) -> str:
    return max(shares, key=lambda name: shares[name])


def mixed(shares: dict[str, float], classes: list[str]) -> dict[str, float]:
    return {k: (1 - 1e-4 * len(classes)) * shares.get(k, 0.0) + 1e-4 for k in classes}


def accuracy(cells: list[CellRead]) -> float:
    return sum(mode(p) == truth for _, truth, p, _ in cells) / len(cells)


def recall(cells: list[CellRead], name: str) -> float:
    return accuracy([cell for cell in cells if cell[1] == name])


def balanced(cells: list[CellRead]) -> float:
    names = {truth for _, truth, _, _ in cells}
    return sum(recall(cells, name) for name in names) / len(names)


def balanced_of(cells: list[CellRead], name: str) -> float:
    others = [cell for cell in cells if cell[1] != name]
    spared = sum(mode(p) != name for _, _, p, _ in others) / len(others)
    return (recall(cells, name) + spared) / 2


def auroc(cells: list[CellRead], name: str) -> float:
    tops = [p.get(name, 0.0) for _, truth, p, _ in cells if truth == name]
    bottoms = [p.get(name, 0.0) for _, truth, p, _ in cells if truth != name]
    won = [1.0 if a > b else 0.5 if a == b else 0.0 for a, b in product(tops, bottoms)]
    return sum(won) / len(won)


def gain(cells: list[CellRead], classes: list[str]) -> float:
    total = 0.0
    for _, truth, ours, theirs in cells:
        total += math.log2(mixed(ours, classes)[truth] / mixed(theirs, classes)[truth])
    return total / len(cells)


def gain_of(cells: list[CellRead], classes: list[str], name: str) -> float:
    total = 0.0
    for _, truth, ours, theirs in cells:
        a, b = mixed(ours, classes)[name], mixed(theirs, classes)[name]
        total += math.log2(a / b) if truth == name else math.log2((1 - a) / (1 - b))
    return total / len(cells)


def position_table(labels: list[list[list[str]]]) -> dict[tuple[int, int], dict[str, float]]:
    """How often each class is in each cell of scenes of one shape."""
    counts: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
    for scene in labels:
        for r, row in enumerate(scene):
            for c, name in enumerate(row):
                counts[r, c][name] += 1
    return {
        cell: {name: n / sum(each.values()) for name, n in each.items()}
        for cell, each in counts.items()
    }


def uncertain(walls_of_grids: list[list[list[list[bool]]]], least: float) -> set[tuple[int, int]]:
    """Cells that are wall in some grids and open in others; each grid has scenes with walls."""
    first = walls_of_grids[0][0]
    out = set()
    for r, c in product(range(len(first)), range(len(first[0]))):
        votes = [sum(walls[r][c] for walls in grid) / len(grid) for grid in walls_of_grids]
        share = sum(votes) / len(votes)
        if least <= share <= 1 - least:
            out.add((r, c))
    return out


def is_border(posterior: Posterior, r: int, c: int) -> bool:
    return r in (0, len(posterior) - 1) or c in (0, len(posterior[0]) - 1)


def published_picture(posterior: Posterior) -> list[str] | None:
    """Each cell its most probable class; of several agents or goals the most probable one."""
    names = [
        ["wall" if is_border(posterior, r, c) else mode(p) for c, p in enumerate(row)]
        for r, row in enumerate(posterior)
    ]
    for thing in ("agent", "goal"):
        cells = [(r, c) for r, row in enumerate(names) for c, n in enumerate(row) if n == thing]
        if not cells:
            return None
        best = max(cells, key=lambda rc: posterior[rc[0]][rc[1]][thing])
        for r, c in cells:
            if (r, c) != best:
                names[r][c] = "empty"
    return ["".join(SYMBOLS[name] for name in row) for row in names]


def places_picture(posterior: Posterior) -> list[str]:
    """The most probable pair of cells by trying all pairs; the rest wall or empty."""
    inner = [
        (r, c)
        for r, row in enumerate(posterior)
        for c in range(len(row))
        if not is_border(posterior, r, c)
    ]
    pairs = [(a, g) for a, g in product(inner, inner) if a != g]
    agent, goal = max(
        pairs,
        key=lambda ag: (
            posterior[ag[0][0]][ag[0][1]]["agent"] * posterior[ag[1][0]][ag[1][1]]["goal"]
        ),
    )
    rows = [
        ["#" if is_border(posterior, r, c) or p["wall"] > p["empty"] else "_"]
        for r, row in enumerate(posterior)
        for c, p in enumerate(row)
    ]
    width = len(posterior[0])
    flat = [symbol for each in rows for symbol in each]
    lines = [flat[at : at + width] for at in range(0, len(flat), width)]
    lines[agent[0]][agent[1]], lines[goal[0]][goal[1]] = "A", "G"
    return ["".join(line) for line in lines]


def best_moves(picture: list[str] | None) -> set[int]:
    """The optimal actions at the agent's place; none without a map or a way."""
    if picture is None:
        return set()
    row, column = find(picture, "A") or (0, 0)
    state = (row, column, False, False)
    to_goal = distances(picture)
    here = to_goal.get(state)
    if not here:
        return set()
    return {a for a in MOVES if to_goal.get(step(picture, state, a)) == here - 1}


def shares(states: list[tuple[int | None, set[int], set[int]]]) -> dict[str, float]:
    """Of (action, optimal in truth, optimal on the map): every share of `explained`."""
    errors = [s for s in states if s[0] is not None and s[0] not in s[1]]
    valid = [s for s in errors if s[2]]

    def mean(flags: list[bool]) -> float:
        return sum(flags) / len(flags) if flags else math.nan

    return {
        "invalid": mean([not d for _, _, d in states]),
        "on_map": mean([a in d for a, _, d in states]),
        "explained_errors": mean([a in d for a, _, d in errors]),
        "map_corrects": mean([bool(t & d) for _, t, d in errors]),
        "recovery": mean([bool(t & d) for _, t, d in valid]),
        "agreement": mean([bool(t & d) for _, t, d in states]),
        "reversed": mean([a in t and a not in d for a, t, d in states]),
        "chance": sum(len(d - t) / (4 - len(t)) for _, t, d in errors) / max(len(errors), 1),
    }


def place_errors(posterior: Posterior, truth: tuple[int, int], thing: str) -> dict[str, Any]:
    """Errors of one thing in one scene."""
    cells = [(r, c) for r, row in enumerate(posterior) for c in range(len(row))]
    total = sum(posterior[r][c][thing] for r, c in cells)

    def away(cell: tuple[int, int]) -> int:
        return abs(cell[0] - truth[0]) + abs(cell[1] - truth[1])

    best = max(cells, key=lambda rc: posterior[rc[0]][rc[1]][thing])
    called = [cell for cell in cells if mode(posterior[cell[0]][cell[1]]) == thing]
    return {
        "exact": float(best == truth),
        "distance": away(best),
        "expected": sum(posterior[r][c][thing] / total * away((r, c)) for r, c in cells),
        "classified": len(called),
        "blur": sum(map(away, called)) / len(called) if called else None,
    }


def ridge(rows: list[list[float]], targets: list[float], penalty: float) -> list[float]:
    """The weights of ridge regression by Gaussian elimination of the normal equations."""
    d = len(rows[0])
    table = [
        [sum(x[i] * x[j] for x in rows) + (penalty if i == j else 0.0) for j in range(d)]
        + [sum(x[i] * y for x, y in zip(rows, targets, strict=True))]
        for i in range(d)
    ]
    for i in range(d):
        for k in range(d):
            if k != i:
                factor = table[k][i] / table[i][i]
                table[k] = [a - factor * b for a, b in zip(table[k], table[i], strict=True)]
    return [table[i][d] / table[i][i] for i in range(d)]


def exclusive_places(agent: list[float], goal: list[float]) -> tuple[list[float], list[float]]:
    """Shares of two things over cells, given that they are in different cells: by all pairs."""
    joint = {
        (i, j): a * g for (i, a), (j, g) in product(enumerate(agent), enumerate(goal)) if i != j
    }
    total = sum(joint.values())
    cells = range(len(agent))
    return (
        [sum(p for (i, _), p in joint.items() if i == cell) / total for cell in cells],
        [sum(p for (_, j), p in joint.items() if j == cell) / total for cell in cells],
    )


def evidence(picture: list[str], action: int, rationality: float, left: int) -> float:
    """log of how much likelier a soft planner takes an action at the start than by chance, nats; it
    is paid 1 at every one of the decisions left at which it stands in the goal, which is never
    left.
    """
    goal = find(picture, "G")

    def value(state: tuple[int, int, bool, bool], decisions: int) -> float:
        if decisions == 0:
            return 0.0
        values = [reward(state, a, decisions) for a in MOVES]
        return math.log(sum(math.exp(rationality * q) for q in values) / 4) / rationality

    def reward(state: tuple[int, int, bool, bool], a: int, decisions: int) -> float:
        here = float(state[:2] == goal)
        after = state if here else step(picture, state, a)
        key = after, decisions - 1
        if key not in known:
            known[key] = value(after, decisions - 1)
        return here + known[key]

    known: dict[tuple[tuple[int, int, bool, bool], int], float] = {}
    row, column = find(picture, "A") or (0, 0)
    start = (row, column, False, False)
    return rationality * (reward(start, action, left) - value(start, left))
