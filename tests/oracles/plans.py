"""Plans in their most literal form: lists of words, counted one by one."""

from __future__ import annotations

import math

from oracles.grid_world import find, step

# A walk: the picture of its world and the actions in order, None for an answer that is unreadable.
Walk = tuple[list[str], list[int | None]]


def told_of(walk: Walk, queries: int) -> list[int | str]:
    """The actions that a walk executed from its start, and "end" if it arrived, cut."""
    picture, actions = walk
    row, column = find(picture, "A") or (0, 0)
    state = (row, column, False, False)
    out: list[int | str] = []
    for action in actions:
        if action is not None:
            out.append(action)
            state = step(picture, state, action)
    arrived = state[:2] == find(picture, "G")
    return [*out, *(["end"] if arrived else [])][:queries]


def scores(told: list[list[int | str]], done: list[list[int | str]], n: int) -> dict[str, float]:
    """Prefix and conditional accuracy at n, of predictions and of what was done."""
    pairs = [
        (ours, truth)
        for ours, truth in zip(told, done, strict=True)
        if len([word for word in truth if word != "end"]) >= n
    ]
    right = [ours[:n] == truth[:n] for ours, truth in pairs]
    later = [o[n - 1] == t[n - 1] for o, t in pairs if o[: n - 1] == t[: n - 1]]

    def mean(flags: list[bool]) -> float:
        return sum(flags) / len(flags) if flags else math.nan

    return {"prefix": mean(right), "conditional": mean(later)}
