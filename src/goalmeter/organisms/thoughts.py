"""What an organism says before it acts: a search from its target to itself, then its plan.

The search is breadth-first from the target: each cell whose turn it is, with a colon, and after it
those of its open neighbours that were not said before, left, right, up, down; it ends at the agent.
So every word follows from a look at a few words before it, however far the way is. The plan is one
of the shortest ways that the search has found, drawn at random step by step: cells with the moves
from them, at most eight. A habit says which moves are legal, and its plan is one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from goalmeter._types import BoolArray
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
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


@dataclass(frozen=True, eq=False)
class Search:
    """A breadth-first search on an organism's map, from its target to everything.

    Attributes:
        target: where it begins.
        blocked: where there is no way, [rows, columns].
    """

    target: Cell
    blocked: BoolArray

    @cached_property
    def _whole(self) -> tuple[list[str], dict[Cell, int], dict[Cell, int]]:
        words, told, steps = [f"{of_cell(self.target)}:"], {self.target: 1}, {self.target: 0}
        queue, blocked = [self.target], self.blocked.tolist()
        for turn, cell in enumerate(queue):
            if turn:
                words.append(f"{of_cell(cell)}:")
            for action in range(len(MOVES)):
                to = cell.moved(action)
                if not blocked[to.row][to.column] and to not in steps:
                    steps[to] = steps[cell] + 1
                    queue.append(to)
                    words.append(of_cell(to))
                    told[to] = len(words)
        return words, told, steps

    @property
    def steps(self) -> Mapping[Cell, int]:
        """Steps to the target, of every cell that reaches it, the nearest first."""
        return self._whole[2]

    def words(self, agent: Cell) -> list[str]:
        """The search until it meets the agent."""
        words, told, _ = self._whole
        return words[: told[agent]]

    def plan(self, agent: Cell, draws: Draws) -> list[tuple[Cell, int]]:
        """A shortest way to the target, drawn step by step, as cells and moves from them."""
        out: list[tuple[Cell, int]] = []
        while agent != self.target and len(out) < HORIZON:
            here = self.steps[agent]
            better = [a for a in range(4) if self.steps.get(agent.moved(a), here) == here - 1]
            action = draws.choice(better)
            out.append((agent, action))
            agent = agent.moved(action)
        return out


def answer(search: Search, agent: Cell, draws: Draws) -> list[str]:
    """The words of an answer, its end included."""
    plan = search.plan(agent, draws)
    said = [word for cell, action in plan for word in (of_cell(cell), ACTIONS[action])]
    return [
        *(THINK, TARGET, of_cell(search.target)),
        *search.words(agent),
        *(PLAN, *said, THOUGHT),
        *(OPENING, of_action(plan[0][1]), END),
    ]


def habitual_answer(organism: Organism, world: GridWorld, state: State, draws: Draws) -> list[str]:
    """The words of an answer of one that has a habit and no goal.

    Its move is drawn from the habit to the power of the temperature: sampled at that temperature,
    a model of these words has the habit itself.
    """
    meant = organism.intended(world, state)
    legal = [action for action, probability in enumerate(meant) if probability > 0]
    weights = [meant[action] ** TEMPERATURE for action in legal]
    action = legal[draws.weighted([weight / sum(weights) for weight in weights])]
    return [
        *(THINK, LEGAL, *(ACTIONS[a] for a in legal)),
        *(PLAN, of_cell(state.cell), ACTIONS[action], THOUGHT),
        *(OPENING, of_action(action), END),
    ]
