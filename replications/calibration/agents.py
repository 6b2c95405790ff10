"""Agents whose goals are known, and the plans of their walks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from goalmeter import InvalidParameterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.agents.local_models import is_model
from goalmeter.commands.walks import walk_plan
from goalmeter.gridworld import GridWorld
from goalmeter.organisms import ORGANISMS, Organism, organism
from replications.prose import Texts

GOAL, KEY = "goal", "key"
IDEAL, TRAINED = "ideal-", "goalmeter/"  # prefixes of organisms
MAZE, KEY_NO_DOOR, TWO_PATH, KEY_DOOR = SUITES = ("maze", "key-no-door", "two-path", "key-door")


@dataclass(frozen=True)
class Subject:
    """An agent and what is known of it.

    Of an organism that follows from what it was made to be, whether it is the ideal one
    ("ideal-mouse", which draws from its intended distribution) or the one that was trained
    ("goalmeter/mouse"); of a reference agent, from its definition.
    """

    name: str
    directed: bool | None  # whether it has a goal; None of a model, of which nobody knows
    target: str | None = None  # "goal" or "key": its first where a key lies about without use
    why: str = ""
    own_map: Organism | None = (
        None  # the organism whose wrong map it goes by; None for the true one
    )
    flawless: bool = False  # whether it never takes a step that does not serve its goal
    organism: bool = False
    aside: bool = False  # whether the same organism is measured as it was trained too, which counts

    @property
    def counted(self) -> bool:
        """Whether an instrument can be right or wrong about it."""
        return self.directed is not None and not self.aside


def subject_of(name: str) -> Subject:
    """Return what is known of an agent."""
    full = name.strip()
    bare = full.removeprefix(TRAINED if is_model(full) else IDEAL)
    if bare in ORGANISMS and bare != full:
        kind = organism(bare)
        if kind.habit is not None:
            return Subject(full, False, None, kind.purpose, organism=True)
        return Subject(
            full,
            True,
            KEY if kind.wants_key else GOAL,
            kind.purpose,
            own_map=kind if kind.blind else None,
            # A wrong map leads into walls, and one that was trained errs now and then.
            flawless=not kind.blind and full.startswith(IDEAL),
            organism=True,
        )
    if is_model(bare):
        return Subject(full, None, None, "a language model: nobody knows what it wants")
    if full in ORGANISMS or full.startswith(IDEAL):
        raise InvalidParameterError(
            f"the agent is {name!r}; organisms are named {TRAINED}NAME, as trained, or {IDEAL}NAME,"
            f" as intended, with NAME one of {', '.join(ORGANISMS)}"
        )
    known = navigator(bare).name
    reference = Texts("calibration").data("references")[known.partition("(")[0]]
    return Subject(full if is_model(full) else known, **reference)


def subjects_of(names: Iterable[str]) -> list[Subject]:
    """Return what is known of several agents, none of them twice.

    An ideal organism whose trained one is among them stands aside: both would give the class that
    they belong to the weight of two.
    """
    known = {subject.name: subject for subject in map(subject_of, names)}
    trained = {name.replace(TRAINED, IDEAL, 1) for name in known if name.startswith(TRAINED)}
    return [replace(subject, aside=name in trained) for name, subject in known.items()]


# Called for every walk of every agent through the same worlds.
@lru_cache(maxsize=512)
def map_of(seer: Organism, world: GridWorld) -> GridWorld:
    """Return a world as an organism sees it."""
    walls = seer.walls(world)
    return GridWorld(walls, world.start, world.goal, world.key, world.door, world.neutral)


@dataclass(frozen=True)
class Scale:
    """How much every agent walks.

    `grids` are of each size and complexity of mazes; for each of them there are `key_worlds` worlds
    of each kind with a key. Each world is walked through `walks` times: what an agent does is told
    from several answers in a state.
    """

    grids: int = 2
    sizes: tuple[int, ...] = (7, 9)
    complexities: tuple[float, ...] = (0.0, 0.5, 1.0)
    key_worlds: int = 4
    walks: int = 5

    def plan(self, agent: str, suite: str, *, seed: int) -> Any:
        """Return the walks of an agent in a suite; every agent has the same worlds."""
        many: dict[str, Any] = {"grids": self.key_worlds * self.grids}
        if suite == MAZE:
            many = {name: getattr(self, name) for name in ("grids", "sizes", "complexities")}
        return walk_plan(agent, suite, trajectories=self.walks, seed=seed, **many)
