"""What held-out worlds share with lessons, and how organisms answer where they share nothing.

A grid is held out by its walls and its goal together. What an organism searches is a map and a
target, and those may have been in a lesson all the same: the key of a held-out grid as target, or a
map of the mole, to which several grids are equal. Printed are, of held-out worlds,

- the share whose search was in a lesson, in the same frame and in any of the eight frames;
- the share of moves as they were meant, where it was and where it was in no frame;
- answers that cannot be read, by size, and how many of these searched some cell twice, which no
  lesson does: such an answer does not end, however many tokens it is given.

    python benchmarks/organism_lessons.py [--mazes 32] [--worlds 120]
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


def shared(name: str, kind: Kind, places: list[Place], meant: list[bool]) -> None:
    """Print how many searches were in lessons, and how right the answers are in each case."""
    known = searches_of_lessons(name, kind)
    found = [search(name, *place) or () for place in places]
    same = [each[0] in known for each in found]
    # A lesson is kept in its own frame, so a search is looked for in all eight of its frames.
    any_frame = [any(frame in known for frame in each) for each in found]
    print(f"{name}, {kind[0]} of size {kind[1]}, {len(places)} worlds")
    print(f"  in a lesson in the same frame {share(same)}, in any frame {share(any_frame)}")
    for words, wanted in (("in a lesson", True), ("in none", False)):
        values = [ok for ok, was in zip(meant, any_frame, strict=True) if was is wanted]
        print(f"  moves as meant, {words} in any frame: {share(values)} of {len(values)}")


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


def main() -> None:
    asking = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asking.add_argument("--mazes", type=int, default=32, help="of each size and complexity")
    asking.add_argument("--worlds", type=int, default=120, help="with a key and a door")
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
    places = mazes(7, asked.mazes)
    shared("mole", (MAZE, 7), places, answered("mole", places)[0])
    tasks = suite("key-door", grids=asked.worlds, trajectories=1, held_out=True, seed=0).tasks
    doors = [(task.world, State(task.world.start)) for task in tasks]
    shared("mouse", (KEY_DOOR, 9), doors, answered("mouse", doors)[0])


if __name__ == "__main__":
    main()
