"""States as they are, beside the same states as they are read."""

from __future__ import annotations

import math
from collections.abc import Sequence

from goalmeter.gridworld.world import ACTIONS, MOVES
from goalmeter.pages.representation.shown import Shown, say
from goalmeter.report import Figure
from goalmeter.report.charts.belief_map import Marked, Place, belief_map
from goalmeter.report.charts.heat_map import short
from goalmeter.representation.result_rows import StatePicture

# Cells where more moves than this flip are outlined as used.
HALF = 0.5
_WALL, _AGENT = "#", "A"


def state_figures(shown: Shown) -> list[Figure]:
    """Two pictures of each chosen state, which stand beside each other where there is room."""
    out = []
    for number, state in enumerate(shown.result.states, start=1):
        out += [
            _true(shown, state, f"{shown.prefix}-state-{number}-true"),
            _read(shown, state, f"{shown.prefix}-state-{number}-read"),
        ]
    return out


def used_cells(state: StatePicture) -> tuple[frozenset[Place], frozenset[Place]]:
    """The places that were tried: those of used cells, and the others."""
    tried = {
        (row, column): share
        for row, line in enumerate(state.used)
        for column, share in enumerate(line)
        if share is not None and not math.isnan(share)
    }
    used = frozenset(place for place, share in tried.items() if share > HALF)
    return used, frozenset(tried) - used


def wrong_walls(state: StatePicture) -> frozenset[Place]:
    """Places that are a wall either in truth or on the decoded map, and not on both."""
    if not state.decoded:
        return frozenset()
    return frozenset(
        (row, column)
        for row, lines in enumerate(zip(state.truth, state.decoded, strict=False))
        for column, (true, read) in enumerate(zip(*lines, strict=False))
        if (true == _WALL) != (read == _WALL)
    )


def _true(shown: Shown, state: StatePicture, name: str) -> Figure:
    walls = [[float(cell == _WALL) for cell in line] for line in state.truth]
    texts = say(
        "true_state",
        model=shown.name,
        # A key of a walk names its grid and its number, which may be long.
        walk=short(state.walk, 60),
        step=state.step,
        taken=_taken(state.action, state.optimal),
        optimal=_listed(state.optimal),
    )
    marked = _marked(state.truth, state.action, state.optimal)
    return Figure(svg=belief_map(name, walls, marked), **texts)


def _read(shown: Shown, state: StatePicture, name: str) -> Figure:
    used, unused = used_cells(state)
    wrong = wrong_walls(state)
    cells = _posterior(state)
    marked = _marked(state.decoded, state.action, state.optimal_decoded, used, unused, wrong)
    if state.decoded:
        on_map = say(
            "decoded_map",
            taken=_taken(state.action, state.optimal_decoded),
            optimal=_listed(state.optimal_decoded),
            wrong=len(wrong),
        )
    else:
        on_map = say("no_decoded_map")
    if used or unused:
        tried = say("tried", used=len(used), tried=len(used) + len(unused))
    else:
        tried = say("not_tried")
    texts = say("read_state", on_map=on_map["text"], tried=tried["text"])
    svg = belief_map(name, cells, marked, label="probability of a wall, as read")
    return Figure(svg=svg, **texts)


def _posterior(state: StatePicture) -> list[list[float]]:
    """The probability of a wall in each cell of the true grid; NaN where none is there."""
    shares = [[math.nan] * len(line) for line in state.truth]
    for row, line in enumerate(state.wall[: len(shares)]):
        for column, share in enumerate(line[: len(shares[row])]):
            # JSON has no NaN.
            shares[row][column] = math.nan if share is None else float(share)
    return shares


def _marked(
    grid: Sequence[str],
    action: int | None,
    optimal: Sequence[int],
    framed: frozenset[Place] = frozenset(),
    dotted: frozenset[Place] = frozenset(),
    crossed: frozenset[Place] = frozenset(),
) -> Marked:
    letters = {
        (row, column): cell
        for row, line in enumerate(grid)
        for column, cell in enumerate(line)
        if cell.isalpha()
    }
    start = next((place for place, letter in letters.items() if letter == _AGENT), None)
    return Marked(
        letters=letters,
        start=start,
        moves=[MOVES[each] for each in optimal],
        taken=None if action is None else MOVES[action],
        framed=framed,
        dotted=dotted,
        crossed=crossed,
    )


def _taken(action: int | None, optimal: Sequence[int]) -> str:
    """What the agent did, and whether it is optimal on a map: the end of a sentence."""
    if action is None:
        return "its answer could not be read"
    if not optimal:
        return f"it goes {ACTIONS[action]}"
    return f"it goes {ACTIONS[action]}, which is {'' if action in optimal else 'not '}optimal"


def _listed(actions: Sequence[int]) -> str:
    return " or ".join(ACTIONS[action] for action in actions) or "nothing: no way leads to the goal"
