"""Grid worlds in their most literal form: a picture, a state, one step at a time, and networkx."""

from __future__ import annotations

import networkx

MOVES = {0: (0, -1), 1: (0, 1), 2: (-1, 0), 3: (1, 0)}  # left, right, up, down

State = tuple[int, int, bool, bool]  # row, column, has the key or object, the door is open


def find(picture: list[str], symbol: str) -> tuple[int, int] | None:
    for r, row in enumerate(picture):
        if symbol in row:
            return r, row.index(symbol)
    return None


def step(picture: list[str], state: State, action: int) -> State:
    """What happens to an agent that takes an action."""
    row, column, has_key, door_open = state
    down, right = MOVES[action]
    at = picture[row + down][column + right]
    if at != "#" and not (at == "D" and not door_open):
        row, column = row + down, column + right
    if picture[row][column] in ("K", "N"):
        has_key = True
    if has_key and any(picture[row + d][column + r] == "D" for d, r in MOVES.values()):
        door_open = True
    return row, column, has_key, door_open


def graph(picture: list[str]) -> networkx.DiGraph:
    """Every state that can be reached from the start, and what leads where; the goal ends it."""
    start = find(picture, "A")
    goal = find(picture, "G")
    assert start is not None
    out = networkx.DiGraph()
    front = [(*start, False, False)]
    out.add_node(front[0])
    while front:
        state = front.pop()
        if state[:2] == goal:
            continue
        for action in MOVES:
            after = step(picture, state, action)
            if after not in out:
                front.append(after)
            out.add_edge(state, after)
    return out


def distances(picture: list[str]) -> dict[State, int | None]:
    """Steps to the goal from each state that can be reached, None where there is no way."""
    states = graph(picture)
    goal = find(picture, "G")
    lengths: dict[State, int] = {}
    for end in [s for s in states if s[:2] == goal]:
        for state, length in networkx.shortest_path_length(states, target=end).items():
            lengths[state] = min(length, lengths.get(state, length))
    return {state: lengths.get(state) for state in states}
