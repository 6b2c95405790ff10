"""Suites: which worlds an agent is put into, as plain data.

A task is one world with its labels and its cap; each is walked through several times. Grids are
named by their seed, and the seed of a grid is its index (offset by the seed of the run), so that
the same index is the same grid in every suite and every run. Changing frames, prompts or
conditions never changes a grid. Held-out grids are the exception: of the grids that follow that
seed, those are taken whose content no recipe of an organism teaches, so each size and complexity
has seeds of its own.

Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
Agents", sections 3 and 4, and its code: 5 sizes x 6 complexities x 10 grids x 10 trajectories and
a cap of 1.5 times the shortest path, 30 steps in worlds with a key. That cap makes success depend
on how long a grid's path is; the default here is 3 times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from goalmeter._arguments import MOST_SEED, whole
from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter._text import shown
from goalmeter.agents.navigators import planned
from goalmeter.gridworld.transforms import TRANSFORMS
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.caps import Cap
from goalmeter.navigation.record import condition_name
from goalmeter.navigation.suite_worlds import (
    Bounds,
    Condition,
    Labels,
    key_worlds,
    mazes,
    objects_of,
)

SUITES = ("maze", "isometries", "key-door", "key-no-door", "two-path")
PAPER_SIZES = (7, 9, 11, 13, 15)
PAPER_COMPLEXITIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SMALL_SIZES = (7, 9)
SMALL_COMPLEXITIES = (0.0, 0.5, 1.0)
# Grids of one run's seed lie this far from those of the next.
GRIDS_A_SEED = 1_000_000
# More worlds than these take minutes to draw, and more walks gigabytes to keep.
MOST_WORLDS, MOST_WALKS = 100_000, 1_000_000


@dataclass(frozen=True)
class Task:
    """A world to walk through, with the labels that its trajectories carry.

    Attributes:
        suite: what it belongs to.
        size: rows of the grid.
        complexity: of a maze; None for other worlds.
        grid: index of the grid.
        seed: of the grid.
        transform: name of the change of frame; None for the grid as it was generated.
        condition: what else distinguishes it.
        world: in the changed frame.
        distance: steps on a shortest path.
        cap: steps after which a walk is ended.
    """

    suite: str
    size: int
    complexity: float | None
    grid: int
    seed: int
    transform: str | None
    condition: Condition
    world: GridWorld
    distance: int
    cap: int

    @property
    def name(self) -> str:
        """What tells it from every other task; the same in every run."""
        parts: list[str] = [self.suite, f"size {self.size}"]
        if self.complexity is not None:
            parts.append(f"complexity {self.complexity!r}")
        parts.append(f"seed {self.seed}")
        if self.transform is not None:
            parts.append(self.transform)
        if self.condition:
            parts.append(condition_name(self.condition))
        return ", ".join(parts)


@dataclass(frozen=True)
class Suite:
    """Tasks, and how often each is walked through."""

    name: str
    tasks: tuple[Task, ...]
    trajectories: int

    def walks(self) -> Iterator[tuple[Task, int]]:
        """Every task with the index of each of its walks."""
        return ((task, index) for task in self.tasks for index in range(self.trajectories))

    def __len__(self) -> int:
        return len(self.tasks) * self.trajectories


def suite(
    name: str,
    *,
    paper: bool = False,
    sizes: Sequence[int] | None = None,
    complexities: Sequence[float] | None = None,
    grids: int | None = None,
    trajectories: int | None = None,
    transforms: Sequence[str] = tuple(TRANSFORMS),
    objects: Sequence[str] | None = None,
    distances: Sequence[Bounds] | None = None,
    detours: Sequence[Bounds] | None = None,
    conditions: Sequence[Condition] = ({},),
    cap: int | None = None,
    cap_factor: float | None = None,
    held_out: bool = False,
    seed: int = 0,
) -> Suite:
    """The tasks of a suite.

    Args:
        name: "maze"; "isometries": the same grids and each of them in changed frames; "key-door":
            a key that opens the way; "key-no-door": the same worlds without their door;
            "two-path": two equal ways, a key on one of them, and the same without it.
        paper: take the paper's scale and caps for whatever is not given.
        sizes: of the grids; for key worlds 9 (2 x 2 rooms) or 13 (3 x 3); "two-path" has only 11.
        complexities: of mazes.
        grids: of each size and complexity.
        trajectories: of each task.
        transforms: of "isometries", by name.
        objects: what lies about in "key-no-door" and "two-path": "key", as by default, "neutral",
            an object without a use in the same place, or both, each world once with each.
        distances: strata of mazes by the length of the shortest path, (least, greatest).
        detours: strata of mazes by how much longer it is than the Manhattan distance.
        conditions: each task is set once under each of them; they are labels to this suite, and
            agents that are told more than the world, such as language models, read them.
        cap: steps after which a walk is ended, everywhere.
        cap_factor: the same as a multiple of the shortest path, rounded up; in worlds with a key,
            of the shortest one that fetches it.
        held_out: take only grids whose content is kept from the lessons of organisms
            (`gridworld.contents`), in every frame that is asked for. No lesson has two paths, so
            in "two-path" this changes nothing.
        seed: of the run; another seed has other grids.

    Raises:
        InvalidParameterError: no such suite, or an option that is out of range or not the suite's.

    Example: a grid in its frame and in four others.
        >>> [task.transform for task in suite("isometries", sizes=[7], grids=1).tasks[:5]]
        [None, 'reflect', 'rotate', 'transpose', 'swap']
    """
    if name not in SUITES:
        hint = did_you_mean(str(name), SUITES, quoted=True) or ";"
        raise InvalidParameterError(
            f"there is no suite {shown(name)}{hint} known are {', '.join(SUITES)}"
        )
    is_maze = name in ("maze", "isometries")
    for option, value in (
        ("complexities", complexities),
        ("distances", distances),
        ("detours", detours),
    ):
        if value is not None and not is_maze:
            raise InvalidParameterError(f"{option} are those of mazes; {name!r} has none")
    things = objects_of(name, objects)
    if grids is None:
        grids = (10 if paper else 5) if is_maze else (100 if paper else 20)
    if trajectories is None:
        small = 2 if name == "isometries" else 4
        trajectories = (10 if paper else small) if is_maze else 1
    whole(grids, "grids", least=1, most=MOST_WORLDS)
    whole(trajectories, "trajectories", least=1, most=MOST_WALKS)
    whole(seed, "seed", least=0, most=MOST_SEED)
    caps = Cap(fixed=cap, factor=cap_factor, paper=paper, mazes=is_maze)
    seeds = [(index, seed * GRIDS_A_SEED + index) for index in range(grids)]
    strata: list[tuple[Bounds | None, Bounds | None]]
    strata = list(product(distances or (None,), detours or (None,)))
    frames: list[str | None] = [None, *transforms] if name == "isometries" else [None]
    if is_maze:
        sizes = sizes or (PAPER_SIZES if paper else SMALL_SIZES)
        complexities = complexities or (PAPER_COMPLEXITIES if paper else SMALL_COMPLEXITIES)
    # Counted before the first is made; of other suites a size has at most three worlds a grid.
    kinds = (len(sizes or ()) or 1) * (len(complexities or ()) or 1)
    worlds = kinds * len(seeds) * len(strata) * len(frames) * len(conditions)
    for most, what, count in (
        (MOST_WORLDS, "worlds", worlds),
        (MOST_WALKS, "walks", worlds * trajectories),
    ):
        if count > most:
            raise InvalidParameterError(
                f"this makes {count} {what}, expected at most {most}; ask for fewer sizes, "
                f"complexities, grids or trajectories"
            )
    labelled: Iterable[Labels]
    if is_maze:
        labelled = mazes(
            sizes or (),
            complexities or (),
            seeds,
            frames,
            strata,
            held_out=held_out,
        )
    else:
        labelled = key_worlds(name, sizes, seeds, things, held_out=held_out)
    tasks = tuple(
        Task(
            suite=name,
            distance=planned(labels["world"]).distance,
            cap=caps.steps(labels["world"]),
            **(labels | {"condition": labels["condition"] | dict(given)}),
        )
        for labels in labelled
        for given in conditions
    )
    if len({task.name for task in tasks}) < len(tasks):
        raise InvalidParameterError(
            "a size, complexity, transform, stratum or condition is listed twice; name each once"
        )
    return Suite(name, tasks, trajectories)
