"""The tasks of a suite: worlds with their labels and caps, each walked through several times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.planner import planned
from goalmeter.navigation.record import condition_name
from goalmeter.navigation.suites.options import SuiteOptions, cap_of
from goalmeter.navigation.suites.record import Condition, LabelledWorld, Suite
from goalmeter.navigation.suites.registry import suite_named


@dataclass(frozen=True)
class Task(LabelledWorld):
    """A world to walk through, with the labels that its trajectories carry.

    Attributes:
        suite: name of what it belongs to.
        distance: steps on a shortest path.
        cap: steps after which a walk is ended.
    """

    suite: str
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
class TaskSet:
    """Tasks of one suite, and how often each is walked through.

    Attributes:
        suite: the record of the suite.
        tasks: in the order in which they are walked through.
        trajectories: how often each is walked through.
        options: resolved; what the tasks were made of.
    """

    suite: Suite
    tasks: tuple[Task, ...]
    trajectories: int
    options: SuiteOptions = field(compare=False)  # the same tasks may be asked for in two ways

    @property
    def name(self) -> str:
        """The suite's."""
        return self.suite.name

    def walks(self) -> Iterator[tuple[Task, int]]:
        """Every task with the index of each of its walks."""
        return ((task, index) for task in self.tasks for index in range(self.trajectories))

    def __len__(self) -> int:
        return len(self.tasks) * self.trajectories


def suite(name: str, *, conditions: Sequence[Condition] = ({},), **options: Any) -> TaskSet:
    """The tasks of a suite.

    Args:
        name: of the suite, as in `suite_names`.
        conditions: each task is set once under each of them. They are labels to the suite; agents
            that are told more than the world, such as language models, read them.
        options: as in `SuiteOptions`: sizes, complexities, grids, trajectories, seed, ...

    Raises:
        InvalidParameterError: no such suite, or an option that is out of range or not the suite's.

    Example: a grid in its frame and in four others.
        >>> [task.transform for task in suite("isometries", sizes=[7], grids=1).tasks[:5]]
        [None, 'reflect', 'rotate', 'transpose', 'swap']
    """
    return tasks_of(suite_named(name), SuiteOptions(**options), conditions)


def tasks_of(
    record: Suite, options: SuiteOptions, conditions: Sequence[Condition] = ({},)
) -> TaskSet:
    """The tasks of a suite for options as they are asked for; see `suite`."""
    resolved = record.resolve(options, conditions=len(conditions))
    tasks = tuple(
        Task(
            **(vars(labelled) | {"condition": {**labelled.condition, **condition}}),
            suite=record.name,
            distance=planned(labelled.world).distance,
            cap=cap_of(labelled.world, resolved.cap, resolved.cap_factor),
        )
        for labelled in record.worlds(resolved)
        for condition in conditions
    )
    # Walks are kept under the names of their tasks, so of two with one name only one would be.
    if len({task.name for task in tasks}) < len(tasks):
        raise InvalidParameterError(
            "a size, complexity, transform, stratum or condition is listed twice; name each once"
        )
    assert resolved.trajectories is not None
    return TaskSet(record, tasks, resolved.trajectories, resolved)


def walk_key(task: Task, index: int) -> str:
    """What a walk is kept under in a run."""
    return f"{task.name}, walk {index}"
