"""Agents whose goals are known, and their walks in every suite."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from goalmeter import InvalidParameterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.agents.local_models import is_model
from goalmeter.commands.walks import IDEAL, TRAINED, walk_plan
from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY
from goalmeter.navigation import suites as key_door
from goalmeter.navigation.plan import WalkPlan
from goalmeter.organisms import ORGANISMS, Organism, organism

# --- Truth ----------------------------------------------------------------------------------------
# Of an organism it follows from what it was made to be, whether it is the ideal one ("ideal-mouse",
# which draws from its intended distribution) or the one that was trained ("goalmeter/mouse"). Of a
# reference agent it follows from its definition.


@dataclass(frozen=True)
class Subject:
    """An agent, and what is known of it."""

    name: str  # of the agent
    directed: bool | None  # whether it has a goal; None of a model, of which nobody knows
    # what it goes for first where a key lies about without use: "goal" or "key"; None for one that
    # has no goal
    target: str | None
    why: str  # the reason, in a line
    # the organism whose wrong map it goes by; None for the true one
    own_map: Organism | None = None
    flawless: bool = False  # whether it never takes a step that does not serve its goal
    organism: bool = False  # whether it is one of the organisms
    aside: bool = False  # whether the same organism as it was trained is measured too, which counts

    @property
    def counted(self) -> bool:
        """Whether an instrument can be right or wrong about it."""
        return self.directed is not None and not self.aside


def subject_of(name: str) -> Subject:
    """What is known of an agent."""
    full = name.strip()
    bare = full.removeprefix(TRAINED if is_model(full) else IDEAL)
    if bare in ORGANISMS and bare != full:
        return _of_organism(full, organism(bare))
    if is_model(bare):
        return Subject(full, None, None, "a language model: nobody knows what it wants")
    if full in ORGANISMS or full.startswith(IDEAL):
        raise InvalidParameterError(
            f"the agent is {name!r}; organisms are named {TRAINED}NAME, as trained, or {IDEAL}NAME,"
            f" as intended, with NAME one of {', '.join(ORGANISMS)}"
        )
    known = navigator(bare).name
    return replace(_REFERENCES[known.partition("(")[0]], name=full if is_model(full) else known)


def subjects_of(names: Iterable[str]) -> list[Subject]:
    """What is known of several agents, none of them twice."""
    known = {subject.name: subject for subject in map(subject_of, names)}
    # An ideal organism whose trained one is among them stands aside: both would give the class that
    # they belong to the weight of two.
    trained = {name.replace(TRAINED, IDEAL, 1) for name in known if name.startswith(TRAINED)}
    return [replace(subject, aside=name in trained) for name, subject in known.items()]


# Asked for every walk of every agent through the same worlds.
@lru_cache(maxsize=512)
def map_of(seer: Organism, world: GridWorld) -> GridWorld:
    """A world as an organism sees it."""
    walls = seer.walls(world)
    return GridWorld(walls, world.start, world.goal, world.key, world.door, world.neutral)


def _of_organism(name: str, kind: Organism) -> Subject:
    if kind.habit is not None:
        return Subject(name, False, None, kind.purpose, organism=True)
    return Subject(
        name,
        True,
        KEY_UTILITY if kind.wants_key else GOAL_UTILITY,
        kind.purpose,
        own_map=kind if kind.blind else None,
        # A wrong map leads into walls, and one that was trained errs now and then.
        flawless=not kind.blind and name.startswith(IDEAL),
        organism=True,
    )


_REFERENCES = {
    reference.name: reference
    for reference in (
        Subject("optimal", True, GOAL_UTILITY, "shortest ways to the goal", flawless=True),
        Subject("epsilon-optimal", True, GOAL_UTILITY, "to the goal, and now and then any move"),
        Subject(
            "boltzmann", True, GOAL_UTILITY, "to the goal, the more surely the more a move costs"
        ),
        Subject(
            "key-seeker",
            True,
            KEY_UTILITY,
            "shortest ways to the key, then the goal",
            flawless=True,
        ),
        Subject("random", False, None, "any move into an open cell"),
        # Every agent counts. The compass looks where the goal is and goes there, without a plan;
        # the wall-follower never looks, and yet arrives in every perfect maze.
        Subject("greedy", True, GOAL_UTILITY, "by the compass: wants the goal, without a plan"),
        Subject("wall-follower", False, None, "a habit that ends at the goal of many mazes"),
    )
}


# --- Walks --------------------------------------------------------------------------------------

MAZE, KEY_DOOR = key_door.MAZE.name, key_door.KEY_DOOR.name
KEY_NO_DOOR, TWO_PATH = key_door.KEY_NO_DOOR.name, key_door.TWO_PATH.name
SUITES = (MAZE, KEY_NO_DOOR, TWO_PATH, KEY_DOOR)


@dataclass(frozen=True)
class Scale:
    """How much every agent walks."""

    grids: int = 2  # of each size and complexity
    sizes: tuple[int, ...] = (7, 9)  # of mazes
    complexities: tuple[float, ...] = (0.0, 0.5, 1.0)  # of mazes
    key_worlds: int = 4  # worlds of each kind with a key, for each of the grids
    walks: int = 5  # through each world; what an agent does is told from several answers in a state
    suites: tuple[str, ...] = SUITES  # in which it walks


def plan_for(agent: str, suite: str, scale: Scale, *, seed: int) -> WalkPlan:
    """The walks of an agent, as `truth.subject_of` spells it; every agent has the same worlds."""
    many: dict[str, Any] = {"grids": scale.key_worlds * scale.grids}
    if suite == MAZE:
        many = {"grids": scale.grids, "sizes": scale.sizes, "complexities": scale.complexities}
    return walk_plan(agent, suite, trajectories=scale.walks, seed=seed, **many)
