"""What held-out worlds share with lessons, and how organisms answer where they share nothing.

A grid is held out by its walls and its goal together. What an organism searches is a map and a
target, and those may have been in a lesson all the same: the key of a held-out grid as target, or a
map of the mole, to which several grids are equal. Printed are

- of the different searches of held-out worlds, the share that was in a lesson, in the same frame
  and in any of the eight frames: of the mouse in mazes and in worlds with a door, of the magpie in
  worlds with a key and no door, and of the mole in mazes, of which mazes without inner walls too;
- the share of the mole's moves as they were meant, where its search was in a lesson and where not;
- answers that cannot be read, by size, and how many of these searched some cell twice, which no
  lesson does.

    python benchmarks/organism_lessons.py [--mazes 32] [--worlds 300]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld, frames
from goalmeter.navigation.prompts import understood
from goalmeter.navigation.trajectories import suite
from goalmeter.organisms import organism
from goalmeter.organisms.kinds import weights_of
from goalmeter.organisms.lessons import KEY_DOOR, MAZE, Kind, drawn_worlds, syllabus
from goalmeter.organisms.training import NOTHING, recipe
from goalmeter.report.numbers import percent
from goalmeter.statistics.clusters import Estimate, estimate

# The studies lie beside the package, in the same checkout.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from replications.organisms import study as evaluation

Place = tuple[GridWorld, State]


def search(name: str, world: GridWorld, state: State) -> tuple[bytes, ...] | None:
    """The map and the target of an organism's search, in the eight frames; None without one."""
    who = organism(name)
    target = who.target(world, state)
    return None if target is None else tuple(frames(who.blocked(world, state), [target]))


def searches_of_lessons(name: str, kind: Kind) -> set[bytes]:
    """Every search in the lessons of an organism and of the one whose weights it began with."""
    settings, out = recipe(name), set()
    if settings.begin_with != NOTHING:
        out = searches_of_lessons(settings.begin_with, kind)
    kinds = syllabus(settings.sizes, keys=settings.keys)
    for number in range(2 * settings.steps):
        options = (kinds, settings.seed, settings.words, kind)
        for world, layer in drawn_worlds(organism(name), number, *options)[0]:
            if found := search(name, world, State(world.start, layer)):
                out.add(found[0])
    return out


def shared(name: str, kind: Kind, places: list[Place]) -> list[bool]:
    """Print how many different searches were in lessons; return it of each place, in any frame."""
    known = searches_of_lessons(name, kind)
    found = [search(name, *place) or () for place in places]
    # A lesson is kept in its own frame, so a search is looked for in all eight of its frames.
    any_frame = [any(frame in known for frame in each) for each in found]
    different = {each[0]: was for each, was in zip(found, any_frame, strict=True)}
    print(
        f"{name}, {kind[0]} of size {kind[1]}: {len(places)} worlds, {len(different)} different "
        f"searches; in a lesson in the same frame {share(first in known for first in different)}, "
        f"in any frame {share(different.values())}",
        flush=True,
    )
    return any_frame


def share(values: Iterable[bool]) -> str:
    listed = [float(each) for each in values]
    return percent(
        estimate(listed, bounds=(0.0, 1.0)) if listed else Estimate(float("nan"), None, 0, 0)
    )


def answered(name: str, places: list[Place]) -> tuple[list[bool], list[str]]:
    """Whether each first move is one that was meant, and the answers that cannot be read."""
    replies = evaluation.replies(evaluation.opened(str(weights_of(name))), places, 0, "states")
    actions = [understood(reply.text).action for reply in replies]
    who = organism(name)
    meant = [
        action is not None and who.intended(*place)[action] > 0
        for place, action in zip(places, actions, strict=True)
    ]
    return meant, [r.text for r, action in zip(replies, actions, strict=True) if action is None]


def repeats(text: str) -> bool:
    """Whether a search has the turn of a cell twice."""
    turns = [word for word in text.split() if word.endswith(":") and "," in word]
    return len(set(turns)) < len(turns)


def mazes(size: int, number: int) -> list[Place]:
    return [(task.world, State(task.world.start)) for task in evaluation.mazes(size, number, 0)]


def with_keys(kind: str, number: int) -> list[Place]:
    tasks = suite(kind, grids=number, trajectories=1, held_out=True, seed=0).tasks
    return [(task.world, State(task.world.start)) for task in tasks]


def main() -> None:
    asking = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asking.add_argument("--mazes", type=int, default=32, help="of each size and complexity")
    asking.add_argument("--worlds", type=int, default=300, help="with a key, of each kind")
    asked = asking.parse_args()
    for size in (5, 7, 9, 11):
        places = mazes(size, asked.mazes)
        _, unreadable = answered("mouse", places)
        cannot = share([True] * len(unreadable) + [False] * (len(places) - len(unreadable)))
        print(
            f"mouse, size {size}: {len(places)} answers, {cannot} cannot be read, "
            f"{sum(map(repeats, unreadable))} of {len(unreadable)} search a cell twice",
            flush=True,
        )
    tasks, places = evaluation.mazes(7, asked.mazes, 0), mazes(7, asked.mazes)
    walled = [place for task, place in zip(tasks, places, strict=True) if task.complexity]
    shared("mouse", (MAZE, 7), walled)
    shared("mouse", (KEY_DOOR, 9), with_keys("key-door", asked.worlds))
    shared("magpie", (KEY_DOOR, 9), with_keys("key-no-door", asked.worlds))
    known, meant = shared("mole", (MAZE, 7), places), answered("mole", places)[0]
    for words, wanted in (("in a lesson", True), ("in none", False)):
        values = [ok for ok, was in zip(meant, known, strict=True) if was is wanted]
        print(f"mole, moves as meant, {words} in any frame: {share(values)} of {len(values)}")


if __name__ == "__main__":
    main()
