"""Record trajectories: tasks, steps, episodes, and the JSON form of a trajectory.

Every table of behaviour is computed from these records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import product
from math import inf
from numbers import Real
from typing import Any, NamedTuple

from goalmeter._errors import GoalmeterError, InvalidParameterError, InvalidTrajectoryError, shown
from goalmeter.agents.grid_agents import Decision, Navigator
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import LAYERS, State, layers_of, planned
from goalmeter.gridworld.world import MOVES, TRANSFORMS, Cell, GridWorld
from goalmeter.navigation.suite_definition import (
    Condition,
    LabelledWorld,
    Suite,
    SuiteOptions,
    cap_of,
)
from goalmeter.navigation.suites import suite_named

# --- Record ---------------------------------------------------------------------------------------
# An answer that was no action is a step like any other, with action None: the agent stays where it
# is and the step counts.

ARRIVED, CAP = "arrived", "cap"
# Of a picture: twice as many as any suite draws.
MOST_ROWS = 101


@dataclass(frozen=True)
class Step:
    """One decision.

    Attributes:
        state: where it was made.
        optimal: the actions that lead one step closer to the goal.

    The other fields are those of `agents.Decision`.
    """

    state: State
    action: int | None
    optimal: tuple[int, ...]
    probabilities: tuple[float, ...] | None = None
    raw: str | None = None
    reasoning: str | None = None
    prompt: str | None = None
    prompt_tokens: int | tuple[int, ...] | None = None
    answer_tokens: tuple[int, ...] | None = None
    attempts: int | None = None
    invalid: str | None = None

    @property
    def is_optimal(self) -> bool:
        """Whether the action is an optimal one; never, if there is none."""
        return self.action in self.optimal

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; those that are not known are left out."""
        (row, column), layer = self.state
        out: dict[str, Any] = {
            "state": [row, column, layer],
            "action": self.action,
            "optimal": list(self.optimal),
        }
        for name in _OPTIONAL:
            value = getattr(self, name)
            if value is not None:
                out[name] = list(value) if isinstance(value, tuple) else value
        return out

    @classmethod
    def from_json(cls, value: Any) -> Step:
        """Reads a step back; raises InvalidTrajectoryError if the value is no step."""
        entry = _entries(value, "a step", ("state", "action", "optimal"), _OPTIONAL)
        _check_each(entry, _OF_STEP)
        row, column, layer = entry["state"]
        if not 0 <= layer < LAYERS:
            raise InvalidTrajectoryError(f"layer is {layer}, expected 0 to {LAYERS - 1}")
        if not _are_actions(entry["optimal"]):
            raise InvalidTrajectoryError(
                f"optimal is {list(entry['optimal'])}, expected different actions, 0 to 3, in order"
            )
        if (entry["action"] is None) != (entry.get("invalid") is not None):
            raise InvalidTrajectoryError(
                f"action is {entry['action']!r} and invalid is {entry.get('invalid')!r}; a step "
                f"without an action says why there is none, any other does not"
            )
        read: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name in _OPTIONAL
            for value in [entry.get(name)]
        }
        if read["probabilities"] is not None:
            read["probabilities"] = tuple(map(float, read["probabilities"]))
        state = State(Cell(row, column), layer)
        return cls(state, entry["action"], tuple(entry["optimal"]), **read)


@dataclass(frozen=True)
class Trajectory:
    """One walk, from the start of a world to its goal or until it was ended.

    Attributes:
        suite: what it belongs to, such as "maze".
        size: rows of the grid.
        complexity: of a maze; None for other worlds.
        grid: index of the grid among those of its kind.
        seed: of the grid.
        transform: name of the change of frame; None for the grid as it was generated.
        condition: what else distinguishes it, such as {"key": True, "prompt": "plain"}.
        trajectory: index among the walks in this world.
        world: walls, start, goal, key, door.
        cap: steps after which the walk is ended.
        distance: steps on a shortest path.
        outcome: "arrived", "cap", or what ended the walk early.
        steps: every decision in order.
    """

    suite: str
    size: int
    complexity: float | None
    grid: int
    seed: int
    transform: str | None
    condition: Mapping[str, Any]
    trajectory: int
    world: GridWorld
    cap: int
    distance: int
    outcome: str
    steps: tuple[Step, ...] = field(repr=False)

    @property
    def arrived(self) -> bool:
        """Whether it ended at the goal."""
        return self.outcome == ARRIVED

    def states(self) -> tuple[State, ...]:
        """Every state in order, the one after the last step included."""
        plan = planned(self.world)
        if not self.steps:
            return (plan.start,)
        last = self.steps[-1]
        end = last.state if last.action is None else plan.step(last.state, last.action)
        return (*(step.state for step in self.steps), end)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; the world is its picture, row by row."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        return plain | {
            "condition": dict(self.condition),
            "world": str(self.world).splitlines(),
            "steps": [step.to_json() for step in self.steps],
        }

    @classmethod
    def from_json(cls, value: Any) -> Trajectory:
        """Reads a trajectory back.

        What is checked is each value by itself; whether the steps follow from each other is
        checked by whoever measures them.

        Raises:
            InvalidTrajectoryError: the value is no trajectory; the message says which step is none.
        """
        entry = _entries(value, "a trajectory", tuple(f.name for f in fields(cls)))
        rows = entry["world"]
        if not (isinstance(rows, list) and rows and all(isinstance(row, str) for row in rows)):
            raise InvalidTrajectoryError(f"world is {shown(rows)}, expected a list of rows of text")
        if max(len(rows), *map(len, rows)) > MOST_ROWS:
            raise InvalidTrajectoryError(
                f"world has more than {MOST_ROWS} rows or columns, expected at most so many"
            )
        try:
            world = _world(tuple(rows))
        except GoalmeterError as cause:
            raise InvalidTrajectoryError(f"world is no picture of a grid world: {cause}") from cause
        _check_each(entry, _OF_TRAJECTORY)
        if len(entry["steps"]) > entry["cap"]:
            raise InvalidTrajectoryError(
                f"there are {len(entry['steps'])} steps, more than the cap of {entry['cap']}"
            )
        steps = []
        for number, step in enumerate(entry["steps"]):
            try:
                steps.append(Step.from_json(step))
            except InvalidTrajectoryError as cause:
                raise InvalidTrajectoryError(f"step {number}: {cause}") from cause
        return cls(**(entry | {"world": world, "steps": tuple(steps)}))


def condition_name(condition: Mapping[str, Any]) -> str:
    """A condition in one way of writing it, whatever the order of its keys."""
    return json.dumps(dict(condition), sort_keys=True)


_OPTIONAL = tuple(each.name for each in fields(Step) if each.default is None)


@lru_cache(maxsize=512)
def _world(rows: tuple[str, ...]) -> GridWorld:
    return GridWorld.from_text(rows)


# --- Whether what was read is what it should be ---------------------------------------------------
Check = tuple[Callable[[Any], bool], str]  # whether a value is what is expected, in words


def _entries(
    value: Any, noun: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The entries of an object that has what it must and nothing that it must not."""
    if not isinstance(value, Mapping):
        raise InvalidTrajectoryError(f"{value!r} is not {noun}, expected an object")
    if missing := [name for name in required if name not in value]:
        raise InvalidTrajectoryError(f"{noun} lacks {', '.join(missing)}")
    if unknown := [str(name) for name in value if name not in required + optional]:
        raise InvalidTrajectoryError(
            f"{noun} has {', '.join(unknown)}, expected only {', '.join(required + optional)}"
        )
    return dict(value)


def _check_each(entry: Mapping[str, Any], checks: Mapping[str, Check]) -> None:
    """Raises unless every entry is what is expected of it."""
    for name, (accepts, expected) in checks.items():
        value = entry.get(name)
        if not accepts(value):
            verb = "are" if name == "probabilities" else "is"
            raise InvalidTrajectoryError(f"{name} {verb} {value!r}, expected {expected}")
        try:
            _ = isinstance(value, str) and value.encode()
        except UnicodeEncodeError as cause:
            half = cause.object[cause.start]
            raise InvalidTrajectoryError(
                f"{name} has half a character, {half!r}, which no page can show"
            ) from cause


def _is_whole(value: Any, least: float = -inf) -> bool:
    """Whether a value is a whole number; true and false are none."""
    return type(value) is int and value >= least


def _are_whole(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_whole, value))


def _at_least(least: int) -> Check:
    return lambda value: _is_whole(value, least), f"a whole number of at least {least}"


def _are_probabilities(value: Any) -> bool:
    fine = isinstance(value, list | tuple) and len(value) == len(MOVES)
    # A NaN is between no two numbers, so it is refused as well.
    fine = fine and all(isinstance(v, int | float) and 0 <= v <= 1 for v in value)
    return fine and sum(value) <= 1 + 1e-6


def _are_actions(value: Any) -> bool:
    return sorted(set(value)) == list(value) and set(value) <= set(range(len(MOVES)))


_WHOLE: Check = _is_whole, "a whole number"
_TEXT: Check = lambda value: isinstance(value, str), "text"
_TEXT_OR_NULL: Check = lambda value: value is None or isinstance(value, str), "text or null"
_OF_STEP: dict[str, Check] = {
    "state": (lambda v: _are_whole(v) and len(v) == 3, "3 whole numbers"),
    "optimal": (_are_whole, "whole numbers"),
    **dict.fromkeys(("raw", "reasoning", "prompt", "invalid"), _TEXT_OR_NULL),
    "action": (lambda v: v is None or (_is_whole(v, 0) and v < len(MOVES)), "0 to 3 or null"),
    "attempts": (lambda v: v is None or _is_whole(v, 1), "1 or more"),
    "probabilities": (
        lambda v: v is None or _are_probabilities(v),
        f"{len(MOVES)} numbers from 0 to 1 that add up to at most 1",
    ),
    "prompt_tokens": (
        lambda v: v is None or _is_whole(v, 0) or _are_whole(v),
        "whole numbers",
    ),
    "answer_tokens": (lambda v: v is None or _are_whole(v), "whole numbers"),
}
_OF_TRAJECTORY: dict[str, Check] = {
    "size": _at_least(3),
    "cap": _at_least(1),
    "distance": _at_least(1),
    **dict.fromkeys(("grid", "seed", "trajectory"), _WHOLE),
    "complexity": (
        lambda v: v is None or (isinstance(v, Real) and not isinstance(v, bool)),
        "a number or null",
    ),
    **dict.fromkeys(("suite", "outcome"), _TEXT),
    "transform": (lambda v: v in (None, *TRANSFORMS), f"null or one of {', '.join(TRANSFORMS)}"),
    "condition": (lambda v: isinstance(v, Mapping), "an object"),
    "steps": (lambda v: isinstance(v, list), "a list"),
}


# --- Tasks ----------------------------------------------------------------------------------------
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


# --- Walks ----------------------------------------------------------------------------------------
# A walk reads one entry after the other, for which Python's own objects are quicker than arrays.
class _Board(NamedTuple):
    states: list[State]  # by the planner's numbers
    successors: list[list[int]]
    optimal: list[tuple[int, ...]]


@lru_cache(maxsize=512)
def _board(world: GridWorld) -> _Board:
    plan = planned(world)
    rows, columns = world.shape
    places = product(range(layers_of(world)), range(rows), range(columns))
    states = [State(Cell(row, column), layer) for layer, row, column in places]
    best = plan.plans.optimal[plan.index][: len(states)].tolist()
    return _Board(
        states,
        plan.plans.successors[plan.index][: len(states)].tolist(),
        [tuple(action for action, fine in enumerate(row) if fine) for row in best],
    )


class Episode:
    """A walk in progress: tells the state, takes decisions, and keeps the record.

    Whoever asks the agent drives it, which may be a loop here or a client of a server elsewhere.

    Attributes:
        task: the world and its labels.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self._board = _board(task.world)
        plan = planned(task.world)
        self._number = plan.number(plan.start)
        self._steps: list[Step] = []

    @property
    def state(self) -> State:
        """Where the agent is."""
        return self._board.states[self._number]

    @property
    def arrived(self) -> bool:
        """Whether the agent is at the goal."""
        return self.state.cell == self.task.world.goal

    @property
    def over(self) -> bool:
        """Whether there is nothing more to decide."""
        return self.arrived or len(self._steps) >= self.task.cap

    @property
    def steps(self) -> tuple[Step, ...]:
        """What was decided so far."""
        return tuple(self._steps)

    def take(self, decision: Decision) -> None:
        """Carry out a decision; one without an action is a step in place.

        Raises:
            InvalidParameterError: the walk is over, the action is none of the four, or there is
                neither an action nor a reason why.
        """
        action = decision.action
        if self.over:
            raise InvalidParameterError(f"the walk through {self.task.name!r} is over")
        if action is not None and action not in range(len(MOVES)):
            raise InvalidParameterError(f"action is {action!r}, expected 0 to 3, or None")
        if (action is None) != (decision.invalid is not None):
            raise InvalidParameterError(
                f"action is {action!r} and invalid is {decision.invalid!r}; say why there is no "
                f"action where there is none, and only there"
            )
        optimal = self._board.optimal[self._number]
        self._steps.append(Step(self.state, optimal=optimal, **vars(decision)))
        if action is not None:
            self._number = self._board.successors[self._number][action]

    def trajectory(self, index: int, failure: str | None = None) -> Trajectory:
        """The record of the walk.

        Args:
            index: among the walks through this task.
            failure: what ended the walk early, such as "timeout".

        Raises:
            InvalidParameterError: the walk is not over and nothing ended it.
        """
        if failure is None and not self.over:
            raise InvalidParameterError(
                f"the walk through {self.task.name!r} is not over; name what ended it"
            )
        outcome = ARRIVED if self.arrived else failure or CAP
        # Every label of a task is one of its walks' too, under the same name.
        return Trajectory(**vars(self.task), trajectory=index, outcome=outcome, steps=self.steps)


def walk(navigator: Navigator, task: Task, trajectory: int = 0, *, seed: int = 0) -> Trajectory:
    """One walk of an agent through a task.

    What is random in it is drawn from a stream of its own, named by the agent, the task, the
    walk and the seed; so walks are the same in any order and alone.

    Args:
        navigator: who walks.
        task: where.
        trajectory: index of the walk.
        seed: of the run.

    Example: there is one optimal way through this world.
        >>> from goalmeter.agents.grid_agents import navigator
        >>> from goalmeter.navigation.trajectories import suite
        >>> task = suite("maze", sizes=[7], complexities=[1], grids=1).tasks[0]
        >>> walk(navigator("optimal"), task).outcome
        'arrived'
    """
    draws = Draws("walk", seed, navigator.name, task.name, trajectory)
    walking = navigator.begin(task.world, draws)
    episode = Episode(task)
    while not episode.over:
        episode.take(walking.act(episode.state))
    return episode.trajectory(trajectory)


def walks(navigator: Navigator, tasks: TaskSet, *, seed: int = 0) -> Iterator[Trajectory]:
    """Every walk of an agent through some tasks, one after the other."""
    return (walk(navigator, task, index, seed=seed) for task, index in tasks.walks())
