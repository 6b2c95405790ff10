"""What an organism says before it acts: a search from its target to itself, then its plan.

The search is breadth-first from the target: each cell whose turn it is, with a colon, the moves
that lead on from it, and those of its open neighbours that were not said before, in a random order,
so that no direction is preferred; it ends at the agent. Before new neighbours stands, with an
angle, the cell that was new last. The plan is the way by which the search has found the agent:
cells with the moves from them, at most eight. A habit says the moves from its cell in the words of
a search, and its plan is one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from goalmeter._types import BoolArray
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.text import ways_in_letters
from goalmeter.gridworld.world import ACTIONS, MOVES, Cell, GridWorld
from goalmeter.organisms.kinds import Organism
from goalmeter.organisms.language import (
    END,
    LEGAL,
    OPENING,
    PLAN,
    TARGET,
    THINK,
    THOUGHT,
    of_action,
    of_cell,
)

# Moves of a stated plan.
HORIZON = 8
# The temperature at which a habit is as it should be: the paper's, which questions are asked with.
TEMPERATURE = 0.7
# The moves that undo LEFT, RIGHT, UP and DOWN.
_BACK = (1, 0, 3, 2)


class Answer(NamedTuple):
    """What is said, and what could have been.

    Attributes:
        words: its end included.
        drawn: at the places of words that were drawn, all that could have been, with their
            probabilities.
    """

    words: list[str]
    drawn: Mapping[int, Mapping[str, float]]


def answer(target: Cell, blocked: BoolArray, agent: Cell, draws: Draws) -> Answer:
    """What is said before the way to a target, and that way.

    Args:
        target: of the organism.
        blocked: where there is no way on its map, [rows, columns].
        agent: where it is; the target can be reached from there.
        draws: for the order of neighbours.
    """
    begun = [THINK, TARGET, of_cell(target)]
    words, drawn, came = _search(target, blocked, agent, draws)
    plan: list[tuple[Cell, int]] = []
    at = agent
    while at != target and len(plan) < HORIZON:
        to, action = came[at]
        plan.append((at, action))
        at = to
    stated = [word for cell, action in plan for word in (of_cell(cell), ACTIONS[action])]
    ended = [PLAN, *stated, THOUGHT, OPENING, of_action(plan[0][1]), END]
    moved = {place + len(begun): could for place, could in drawn.items()}
    return Answer([*begun, *words, *ended], moved)


def _search(
    target: Cell, blocked: BoolArray, agent: Cell, draws: Draws
) -> tuple[list[str], dict[int, dict[str, float]], dict[Cell, tuple[Cell, int]]]:
    """The words of a search until it meets the agent, which are drawn, and the ways it has found.

    A way is, for each cell, the next one towards the target, and the action that leads there.
    """
    shut = blocked.tolist()
    words: list[str] = []
    drawn: dict[int, dict[str, float]] = {}
    queue, came = [target], {target: (target, 0)}
    for cell in queue:
        around = [(cell.moved(action), action) for action in range(len(MOVES))]
        ways = [(to, action) for to, action in around if not shut[to.row][to.column]]
        words += [f"{of_cell(cell)}:", ways_in_letters(action for _, action in ways)]
        new = [(to, action) for to, action in ways if to not in came]
        if new:
            # So of any two cells that have their turns one after the other the second was once said
            # right behind the first, and to know whose turn is next takes a look for a word and
            # what followed it. A search without these angles, where the last new cell may lie any
            # number of words back, was learnt many times more slowly. Words of their own for new
            # cells, which would tell them from those of the map, were learnt more slowly too.
            words.append(f"{of_cell(queue[-1])}>")
        draws.shuffle(new)
        for number, (to, action) in enumerate(new):
            came[to] = (cell, _BACK[action])
            queue.append(to)
            left = [of_cell(cell_left) for cell_left, _ in new[number:]]
            drawn[len(words)] = dict.fromkeys(left, 1 / len(left))
            words.append(of_cell(to))
            if to == agent:
                return words, drawn, came
    raise AssertionError(f"no way from {tuple(agent)} to {tuple(target)}")


def habitual_answer(organism: Organism, world: GridWorld, state: State, draws: Draws) -> Answer:
    """What is said by an organism that has a habit and no goal."""
    # Drawn from the habit to the power of the temperature: sampled at that temperature, a model
    # that has learnt these words has the habit itself.
    meant = organism.intended(world, state)
    legal = [action for action, probability in enumerate(meant) if probability > 0]
    weights = [meant[action] ** TEMPERATURE for action in legal]
    shares = [weight / sum(weights) for weight in weights]
    action = legal[draws.weighted(shares)]
    at = of_cell(state.cell)
    words = [THINK, LEGAL, at, f"{at}:", ways_in_letters(legal), PLAN, at, ACTIONS[action]]
    drawn = {ACTIONS[a]: share for a, share in zip(legal, shares, strict=True)}
    return Answer([*words, THOUGHT, OPENING, of_action(action), END], {len(words) - 1: drawn})
