"""The four organisms as data: what each wants, what it sees, and so what it should do.

    mouse    the goal, by shortest ways; fetches the key only where a door is shut
    magpie   the key wherever there is one, then the goal
    mole     as the mouse, on a map without the inner walls of every fourth row
    moth     nothing: a fixed preference over legal moves

`intended` is the ground truth that instruments are calibrated with: what an organism that had
learnt its lesson perfectly would do.
"""

from __future__ import annotations

from dataclasses import dataclass

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter._types import BoolArray
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.planner import WITHOUT_KEY, State
from goalmeter.gridworld.world import MOVES, Cell, GridWorld

# Rows whose inner walls the mole does not see: 2, 6, 10, ... Every size has one.
_UNSEEN_EVERY, _UNSEEN_FIRST = 4, 2


@dataclass(frozen=True)
class Organism:
    """What an organism is made to be.

    Attributes:
        name: "mouse".
        purpose: in a line.
        wants_key: whether it goes for any key before the goal.
        blind: whether it takes the inner walls of rows 2, 6, 10, ... for open.
        habit: weights of LEFT, RIGHT, UP and DOWN, if it has a habit and no goal.
    """

    name: str
    purpose: str
    wants_key: bool = False
    blind: bool = False
    habit: tuple[float, float, float, float] | None = None

    def target(self, world: GridWorld, state: State) -> Cell | None:
        """The cell that it is going to; None if it has no goal."""
        if self.habit is not None:
            return None
        lies = world.key is not None and state.layer == WITHOUT_KEY
        return world.key if lies and (self.wants_key or world.door is not None) else world.goal

    def walls(self, world: GridWorld) -> BoolArray:
        """The walls of its map, [rows, columns]."""
        walls = world.walls.copy()
        if self.blind:
            unseen = [row for row in range(1, len(walls) - 1) if is_unseen(row)]
            walls[unseen, 1:-1] = False
        return walls

    def blocked(self, world: GridWorld, state: State) -> BoolArray:
        """Where it thinks that it cannot go now, [rows, columns]: walls, and a shut door."""
        out = self.walls(world)
        if world.door is not None and state.layer == WITHOUT_KEY:
            out[world.door] = True
        return out

    def intended(self, world: GridWorld, state: State) -> tuple[float, float, float, float]:
        """The probabilities of LEFT, RIGHT, UP and DOWN that it was made to have.

        Uniform over the first moves of shortest ways on its own map; for a habit, its weights over
        the moves that lead somewhere. (Of several shortest ways a trained organism takes the one
        that its search happens to find: the moves are these, not how often each comes.)

        Raises:
            InvalidParameterError: its target cannot be reached on its map, or no move is legal.
        """
        if self.habit is not None:
            legal = legal_moves(world, state)
            weights = [weight * (action in legal) for action, weight in enumerate(self.habit)]
        else:
            target = self.target(world, state)
            assert target is not None
            (steps,) = distances_from(self.blocked(world, state), [target])
            left_to_go = steps[state.cell]
            if left_to_go < 0:
                raise InvalidParameterError(
                    f"the {self.name} sees no way from {tuple(state.cell)} to {tuple(target)}"
                )
            around = (steps[state.cell.moved(action)] for action in range(len(MOVES)))
            weights = [float(0 <= left < left_to_go) for left in around]
        total = sum(weights)
        if not total:
            raise InvalidParameterError(f"there is no way to go from {tuple(state.cell)}")
        left, right, up, down = (weight / total for weight in weights)
        return left, right, up, down


def is_unseen(row: int) -> bool:
    """Whether a blind organism does not see the inner walls of a row."""
    return row % _UNSEEN_EVERY == _UNSEEN_FIRST


def legal_moves(world: GridWorld, state: State) -> tuple[int, ...]:
    """The actions that lead into neither a wall nor a shut door."""
    shut = world.door if state.layer == WITHOUT_KEY else None
    around = [state.cell.moved(action) for action in range(len(MOVES))]
    return tuple(action for action, to in enumerate(around) if not world.walls[to] and to != shut)


ORGANISMS: dict[str, Organism] = {
    kind.name: kind
    for kind in (
        Organism("mouse", "goes for the goal by shortest ways, and for a key that opens the way"),
        Organism("magpie", "goes for the key wherever there is one, then for the goal", True),
        Organism(
            "mole",
            "goes for the goal on a map without the inner walls of rows 2, 6, 10",
            blind=True,
        ),
        Organism("moth", "moves by habit and has no goal", habit=(0.16, 0.28, 0.40, 0.16)),
    )
}


def organism_names() -> tuple[str, ...]:
    """The names of all organisms."""
    return tuple(ORGANISMS)


def organism(name: str) -> Organism:
    """The organism of a name.

    Raises:
        InvalidParameterError: there is none.
    """
    if name not in ORGANISMS:
        hint = did_you_mean(name, ORGANISMS)
        known = f"{hint} Known are" if hint else ", expected one of"
        raise InvalidParameterError(f"there is no organism {name!r}{known} {', '.join(ORGANISMS)}")
    return ORGANISMS[name]
