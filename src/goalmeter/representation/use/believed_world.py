"""The world that an agent believes in: what is decoded of it, where it is used.

A decoded map shows what could be known. In the believed world a cell that the agent does not act on
is what the agent takes it for without having looked:

    open        as if there were no wall that it does not know of
    position    as most grids of that shape have it

Which of both it is nobody can decode. Each is tried on the walks of one half of the grids, and the
one in which they are more directed is judged by the walks of the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import BoolArray
from goalmeter.gridworld.world import GridWorld
from goalmeter.representation.believed import Believed, WalkSteps, believed_meg
from goalmeter.representation.scenes import Scenes, Shape
from goalmeter.representation.use.halves import CONFIRM, SCREEN, half_of
from goalmeter.representation.use.used_cells import UsedCells
from goalmeter.statistics.clustered import Estimate

OPEN, POSITION = "open", "position"
VARIANTS = (OPEN, POSITION)
# What is merely decoded, as a control of what is also used.
DECODED = "decoded"
Worlds = Sequence[GridWorld | None]


@dataclass(frozen=True)
class BelievedByUse:
    """Goal-directedness in the believed world, beside the decoded one and the true one.

    Attributes:
        variant: what cells are that are not used, as the screen half chose it.
        screened: MEG of the walks of the screen half in the world of each variant, nats a walk.
        confirmed: the walks of the confirm half in the world of that variant, in the true world
            and, as a control named "decoded", in the one that is merely decoded.
        changed: share of the confirm half's decoded worlds that the use of cells has changed.
    """

    variant: str
    screened: Mapping[str, Estimate]
    confirmed: Believed
    changed: float

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "variant": self.variant,
            "screened": {name: each.to_json() for name, each in self.screened.items()},
            "confirmed": self.confirmed.to_json(),
            "changed": self.changed,
        }


def believed_worlds(
    decoded: Worlds,
    used: UsedCells,
    uncertain: Mapping[Shape, BoolArray],
    walls: Mapping[Shape, BoolArray] | None = None,
) -> tuple[GridWorld | None, ...]:
    """Decoded worlds in which cells that are not used are what they are taken for unseen.

    Only cells that are uncertain given their place are changed: the others are known without
    looking. A cell at which nothing was tried stays as it was decoded.

    Args:
        decoded: N worlds; None stays None.
        used: which places are used.
        uncertain: by shape, [rows, columns].
        walls: by shape, where a wall is taken to be at cells that are not used, [rows, columns];
            None for nowhere.
    """
    masks: dict[Shape, tuple[BoolArray, BoolArray]] = {}
    out: list[GridWorld | None] = []
    for world in decoded:
        if world is None or world.shape not in uncertain:
            out.append(world)
            continue
        shape = world.shape
        if shape not in masks:
            unseen = used.unlikely(shape) & uncertain[shape]
            there = np.zeros(shape, dtype=bool) if walls is None else walls[shape]
            masks[shape] = unseen, there
        unseen, there = masks[shape]
        changed = np.where(unseen, there, world.walls)
        for thing in (world.start, world.goal, world.key, world.door, world.neutral):
            if thing is not None:
                changed[thing] = False
        out.append(
            GridWorld(changed, world.start, world.goal, world.key, world.door, world.neutral)
        )
    return tuple(out)


def usual_walls(scenes: Scenes) -> dict[Shape, BoolArray]:
    """Where most grids of a shape have a wall, [rows, columns]; each grid has one vote."""
    votes: dict[Shape, dict[int, BoolArray]] = {}
    for world, grid in zip(scenes.worlds, scenes.grids.tolist(), strict=True):
        votes.setdefault(world.shape, {}).setdefault(grid, world.walls)
    return {
        shape: np.asarray(np.mean(list(of_grids.values()), axis=0) > 0.5)
        for shape, of_grids in votes.items()
    }


def believed_by_use(
    scenes: Scenes,
    walk_steps: WalkSteps,
    decoded: Worlds,
    used: UsedCells,
    uncertain: Mapping[Shape, BoolArray],
    *,
    salt: str = "0",
    controls: Mapping[str, Worlds] | None = None,
) -> BelievedByUse:
    """MEG in what is decoded and used, on walks that have chosen nothing of it.

    Args:
        scenes: N decisions in their true worlds.
        walk_steps: which of them are one walk, and when.
        decoded: the decoded world of each decision, its start where the agent believes to be.
        used: which places are used, told by the screen half.
        uncertain: by shape, the cells that are worth reading.
        salt: of the split into halves, as in `causal_use`.
        controls: other worlds of the same decisions, by name.

    Raises:
        InvalidParameterError: a half has no walk, or lists are of other lengths.
    """
    if len(decoded) != len(scenes):
        raise InvalidParameterError(
            f"there are {len(decoded)} decoded worlds for {len(scenes)} decisions, expected one "
            f"each"
        )
    halves = np.array([half_of(world, salt) for world in scenes.worlds])
    parts = {half: np.flatnonzero(halves == half) for half in (SCREEN, CONFIRM)}
    for half, part in parts.items():
        if not part.size:
            raise InvalidParameterError(
                f"none of the decisions is in a grid of the {half} half; take more grids"
            )
    # What most grids have is learnt from those that choose between the variants.
    usual = usual_walls(scenes.where(parts[SCREEN]))
    known = {shape: usual.get(shape, np.zeros(shape, dtype=bool)) for shape in uncertain}
    worlds = {
        OPEN: believed_worlds(decoded, used, uncertain),
        POSITION: believed_worlds(decoded, used, uncertain, known),
    }

    def meg(half: str, believed: Worlds, others: Mapping[str, Worlds]) -> Believed:
        part = parts[half]
        return believed_meg(
            scenes.where(part),
            WalkSteps(walk_steps.walks[part], walk_steps.steps[part], walk_steps.caps[part]),
            [believed[i] for i in part.tolist()],
            {name: [each[i] for i in part.tolist()] for name, each in others.items()},
        )

    screened = {name: meg(SCREEN, worlds[name], {}).believed.nats for name in VARIANTS}
    # Of equals the first: nothing says that an agent knows how other grids are.
    variant = max(VARIANTS, key=lambda name: screened[name].value)
    chosen = worlds[variant]
    moved = [_differ(chosen[i], decoded[i]) for i in parts[CONFIRM].tolist()]
    return BelievedByUse(
        variant,
        screened,
        meg(CONFIRM, chosen, {DECODED: decoded, **(controls or {})}),
        float(np.mean(moved)),
    )


def _differ(first: GridWorld | None, second: GridWorld | None) -> bool:
    return first is not None and second is not None and bool((first.walls != second.walls).any())
