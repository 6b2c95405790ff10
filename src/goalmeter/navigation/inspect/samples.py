"""A walk that is to be made, as plain data: what an Inspect sample carries, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from goalmeter._errors import GoalmeterError, InvalidTrajectoryError
from goalmeter.gridworld.planner import State
from goalmeter.navigation.asking.prompts import template
from goalmeter.navigation.asking.settings import PROMPT
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.suites.tasks import Task, TaskSet, walk_key
from goalmeter.navigation.walks import Episode

_KEY, _ROUND = "walk", "walks"
_NOT_BEGUN = "not begun"


class Walk(NamedTuple):
    """A task and which of the walks through it."""

    task: Task
    number: int

    @property
    def name(self) -> str:
        """What tells it from every other walk; the same in every run."""
        return walk_key(self.task, self.number)


def samples(tasks: TaskSet, only: Collection[str] | None = None) -> list[dict[str, Any]]:
    """The walks of a suite, as fields of Inspect's samples: id, input (the first prompt), metadata.

    `only` are the names of those that are wanted, in the order in which they are to begin, if not
    all of them are. "grid" in the metadata is
    what errors are clustered by, "walks" how many there are of each task.
    """
    out = []
    walks = {(walk := Walk(task, index)).name: walk for task, index in tasks.walks()}
    for walk in walks.values() if only is None else map(walks.__getitem__, only):
        world = walk.task.world
        asked = template(walk.task.condition[PROMPT]).prompt(world, State(world.start))
        grid = f"size {walk.task.size}, complexity {walk.task.complexity}, seed {walk.task.seed}"
        # An episode that was not begun is all that there is to know of a walk beforehand.
        plan = Episode(walk.task).trajectory(walk.number, _NOT_BEGUN).to_json()
        del plan["outcome"], plan["steps"]
        metadata = {"grid": grid, _ROUND: tasks.trajectories, _KEY: plan}
        out.append({"id": walk.name, "input": asked, "metadata": metadata})
    return out


def walk_of(metadata: Mapping[str, Any], epoch: int = 1) -> Walk:
    """The walk that a sample describes.

    Epochs count from 1; each is another round of the same walks. Raises InvalidTrajectoryError if
    the sample is not one of `samples`.
    """
    try:
        labels, walks = dict(metadata[_KEY]), int(metadata[_ROUND])
    except (KeyError, TypeError, ValueError) as cause:
        raise InvalidTrajectoryError(
            "a sample has no walk in its metadata; it is not one of goalmeter's tasks"
        ) from cause
    try:
        read = Trajectory.from_json(labels | {"outcome": _NOT_BEGUN, "steps": []})
    except GoalmeterError as cause:
        raise InvalidTrajectoryError(f"the walk in a sample's metadata: {cause}") from cause
    made = made_of(read)
    return Walk(made.task, made.number + (epoch - 1) * walks)


def made_of(read: Trajectory) -> Walk:
    """The task and the number of the walk that a trajectory records."""
    task = Task(**{label.name: getattr(read, label.name) for label in fields(Task)})
    return Walk(task, read.trajectory)
