"""Tasks, steps, episodes and trajectories, with their JSON form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from goalmeter._errors import GoalmeterError, InvalidParameterError, InvalidTrajectoryError
from goalmeter._files import Field, check_record, is_number, is_whole
from goalmeter.agents.grid_agents import Decision, Navigator
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import LAYERS, UNREACHABLE, State, layers_of, planned
from goalmeter.gridworld.world import MOVES, TRANSFORMS, Cell, GridWorld
from goalmeter.navigation.suite_definition import (
    SLIP,
    Condition,
    LabelledWorld,
    Suite,
    SuiteOptions,
    cap_of,
)
from goalmeter.navigation.suites import suite_named

ARRIVED, CAP = "arrived", "cap"
MOST_ROWS = 101  # maximum rows of a text drawing, twice as many as in any suite


@dataclass(frozen=True)
class Step:
    """One decision; an invalid answer is a step in place."""

    state: State  # state in which the decision was made
    action: int | None  # this field and those below `optimal` are as in `agents.Decision`
    optimal: tuple[int, ...]  # actions that lead one step closer to the goal
    probabilities: tuple[float, ...] | None = None
    raw: str | None = None
    reasoning: str | None = None
    prompt: str | None = None
    prompt_tokens: int | tuple[int, ...] | None = None
    answer_tokens: tuple[int, ...] | None = None
    attempts: int | None = None
    invalid: str | None = None
    slip: int | None = None  # move that was made instead of the action; None without a slip

    def __post_init__(self) -> None:
        if (self.action is None) != (self.invalid is not None):
            raise InvalidTrajectoryError(
                f"action is {self.action!r} and invalid is {self.invalid!r}, expected a reason in "
                f"invalid if action is None, and only then"
            )

    @property
    def move(self) -> int | None:
        """Move that was made: the action, or a slip; None if the agent stayed in place."""
        return self.action if self.slip is None else self.slip

    @property
    def is_optimal(self) -> bool:
        """Whether the action is optimal."""
        return self.action in self.optimal

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, without those that are None."""
        (row, column), layer = self.state
        out: dict[str, Any] = {"state": [row, column, layer], "action": self.action}
        for name, value in vars(self).items():
            if value is not None and name not in out:
                out[name] = list(value) if isinstance(value, tuple) else value
        return out

    @classmethod
    def from_json(cls, value: Any) -> Step:
        """Read a step; raises InvalidTrajectoryError if the value is invalid."""
        entry = _check(value, "a step", _STEP_FIELDS)
        row, column, layer = entry.pop("state")
        values: Any = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items()}
        if entry.get("probabilities") is not None:
            values["probabilities"] = tuple(map(float, entry["probabilities"]))
        return cls(state=State(Cell(row, column), layer), **values)


@dataclass(frozen=True)
class Task(LabelledWorld):
    """A world to walk through, with the labels of its trajectories."""

    suite: str
    distance: int  # steps of a shortest path; -1 if there is none
    cap: int  # maximum number of steps

    @property
    def name(self) -> str:
        """Unique name, the same in every run."""
        parts = (
            self.suite,
            f"size {self.size}",
            self.complexity is not None and f"complexity {self.complexity!r}",
            f"seed {self.seed}",
            self.transform,
            self.condition and condition_name(self.condition),
        )
        return ", ".join(str(part) for part in parts if part)


@dataclass(frozen=True)
class Trajectory(Task):
    """One walk from the start of a world to the goal, the cap or a failure."""

    trajectory: int  # index among the walks through its task
    outcome: str  # "arrived", "cap", or the failure that ended the walk
    steps: tuple[Step, ...] = field(repr=False)

    @property
    def arrived(self) -> bool:
        """Whether the walk ended at the goal."""
        return self.outcome == ARRIVED

    def states(self) -> tuple[State, ...]:
        """Return all states in order, including the state after the last step."""
        plan = planned(self.world)
        if not self.steps:
            return (plan.start,)
        last = self.steps[-1]
        end = last.state if last.move is None else plan.step(last.state, last.move)
        return (*(step.state for step in self.steps), end)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; the world is a list of the rows of its text drawing."""
        plain = {name: getattr(self, name) for name in TRAJECTORY_FIELDS}
        return plain | {
            "condition": dict(self.condition),
            "world": str(self.world).splitlines(),
            "steps": [step.to_json() for step in self.steps],
        }

    @classmethod
    def from_json(cls, value: Any) -> Trajectory:
        """Read a trajectory; raises InvalidTrajectoryError if a single value is invalid."""
        entry = _check(value, "a trajectory", TRAJECTORY_FIELDS)
        if len(entry["steps"]) > entry["cap"]:
            raise InvalidTrajectoryError(
                f"there are {len(entry['steps'])} steps, more than the cap of {entry['cap']}"
            )
        where, steps = "world", []
        try:
            world = _world(tuple(entry["world"]))
            for number, step in enumerate(entry["steps"]):
                where = f"step {number}"
                steps.append(Step.from_json(step))
        except GoalmeterError as cause:
            raise InvalidTrajectoryError(f"{where}: {cause}") from cause
        return cls(**(entry | {"world": world, "steps": tuple(steps)}))


def condition_name(condition: Mapping[str, Any]) -> str:
    """Return a condition as JSON with sorted keys."""
    return json.dumps(dict(condition), sort_keys=True)


@lru_cache(maxsize=512)
def _world(rows: tuple[str, ...]) -> GridWorld:
    return GridWorld.from_text(rows)


# --- Validation of records ------------------------------------------------------------------------
def _check(value: Any, noun: str, fields: Mapping[str, Field]) -> dict[str, Any]:
    try:
        return check_record(value, fields, noun)
    except GoalmeterError as cause:
        raise InvalidTrajectoryError(str(cause)) from None


_SURROGATE = re.compile("[\ud800-\udfff]")  # unpaired surrogates cannot be encoded


def _are_integers(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is int for each in value)


def is_drawing(value: Any) -> bool:
    """Return whether a value is a list of rows of text, of which there are not too many."""
    rows = isinstance(value, list) and value and all(isinstance(row, str) for row in value)
    return bool(rows) and max(len(value), *map(len, value)) <= MOST_ROWS


def _are_probabilities(value: Any) -> bool:
    is_valid = isinstance(value, list) and len(value) == len(MOVES)
    return is_valid and all(is_number(v, 1.0) and v >= 0 for v in value) and sum(value) <= 1 + 1e-6


def _optional(field: Field) -> Field:
    return Field(f"{field.expected} or null", lambda v: v is None or field.accepts(v), False)


_MOST = 2**128  # grid seeds are a million times the run's seed
_WHOLE = Field("a whole number", lambda v: is_whole(v, -_MOST, _MOST))
_AT_LEAST_1 = Field("a whole number of at least 1", lambda v: is_whole(v, 1, _MOST))
_TEXT = Field(
    "text without unpaired surrogates",
    lambda v: isinstance(v, str) and (v.isascii() or not _SURROGATE.search(v)),
)
_STEP_FIELDS = {
    "state": Field(
        f"3 whole numbers (row, column, layer), the layer from 0 to {LAYERS - 1}",
        lambda v: _are_integers(v) and len(v) == 3 and 0 <= v[2] < LAYERS,
    ),
    "action": Field.whole(0, len(MOVES) - 1, or_null=True),
    "optimal": Field(
        "distinct actions, 0 to 3, in rising order",
        lambda v: _are_integers(v) and v == sorted(set(v) & set(range(len(MOVES)))),
    ),
    "probabilities": _optional(
        Field("4 numbers from 0 to 1 that add up to at most 1", _are_probabilities)
    ),
    **dict.fromkeys(("raw", "reasoning", "prompt", "invalid"), _optional(_TEXT)),
    "prompt_tokens": _optional(
        Field("whole numbers", lambda v: is_whole(v, 0, _MOST) or _are_integers(v))
    ),
    "answer_tokens": _optional(Field("whole numbers", _are_integers)),
    "attempts": _optional(_AT_LEAST_1),
    "slip": _optional(Field.whole(0, len(MOVES) - 1)),
}
TRAJECTORY_FIELDS = {
    "suite": _TEXT,
    "size": Field("a whole number of at least 3", lambda v: is_whole(v, 3, _MOST)),
    "complexity": Field("a number or null", lambda v: v is None or type(v) in (int, float)),
    "grid": _WHOLE,
    "seed": _WHOLE,
    "transform": Field(
        f"null or one of {', '.join(TRANSFORMS)}", lambda v: v in (None, *TRANSFORMS)
    ),
    "condition": Field("an object", lambda v: isinstance(v, Mapping)),
    "trajectory": _WHOLE,
    "world": Field(
        f"a list of at most {MOST_ROWS} rows of at most {MOST_ROWS} characters", is_drawing
    ),
    "cap": _AT_LEAST_1,
    "distance": Field(
        f"{_AT_LEAST_1.expected}, or {UNREACHABLE}",
        lambda v: _AT_LEAST_1.accepts(v) or is_whole(v, UNREACHABLE, UNREACHABLE),
    ),
    "outcome": _TEXT,
    "steps": Field("a list", lambda v: isinstance(v, list)),
}


# --- Tasks ----------------------------------------------------------------------------------------
class PlannedWalk(NamedTuple):
    """A task and the index of a walk through it."""

    task: Task
    number: int

    @property
    def name(self) -> str:
        """Unique name, the same in every run; the key of the walk."""
        return f"{self.task.name}, walk {self.number}"


def made_of(read: Trajectory) -> PlannedWalk:
    """Return the task and the walk index of a trajectory."""
    labels = {label.name: getattr(read, label.name) for label in fields(Task)}
    return PlannedWalk(Task(**labels), read.trajectory)


@dataclass(frozen=True)
class TaskSet:
    """Tasks of one suite."""

    suite: Suite
    tasks: tuple[Task, ...]  # in the order of the run
    trajectories: int  # number of walks through each task
    options: SuiteOptions = field(compare=False)  # different options may yield the same tasks
    counts: tuple[int, ...] | None = None  # number of recorded walks through each task; None: drawn

    def walks(self) -> Iterator[PlannedWalk]:
        """Yield every walk through every task."""
        counts = self.counts or (self.trajectories,) * len(self.tasks)
        pairs = zip(self.tasks, counts, strict=True)
        return (PlannedWalk(task, i) for task, count in pairs for i in range(count))

    def __len__(self) -> int:
        return sum(self.counts or (self.trajectories * len(self.tasks),))


def suite(name: str, *, conditions: Sequence[Condition] = ({},), **options: Any) -> TaskSet:
    """Return the tasks of a suite; `options` are fields of `SuiteOptions`, such as sizes and seed.

    Each world yields one task per condition; conditions set the prompts of language models.

    Example: a grid in the original frame and in four others.
        >>> [task.transform for task in suite("isometries", sizes=[7], grids=1).tasks[:5]]
        [None, 'reflect', 'rotate', 'transpose', 'swap']
    """
    return tasks_of(suite_named(name), SuiteOptions(**options), conditions)


def tasks_of(
    record: Suite, options: SuiteOptions, conditions: Sequence[Condition] = ({},)
) -> TaskSet:
    """Return the tasks of a suite for unresolved options; see `suite`."""
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
    if len({task.name for task in tasks}) < len(tasks):
        raise InvalidParameterError(
            "a size, complexity, transform, stratum or condition is listed twice; list each once"
        )
    assert resolved.trajectories is not None
    return TaskSet(record, tasks, resolved.trajectories, resolved)


# --- Walks ----------------------------------------------------------------------------------------
@lru_cache(maxsize=512)
def _board(world: GridWorld) -> dict[State, tuple[tuple[int, ...], list[State]]]:
    """Return the optimal actions and the successors of each state."""
    plan = planned(world)
    rows, columns = world.shape
    places = product(range(layers_of(world)), range(rows), range(columns))
    states = [State(Cell(row, column), layer) for layer, row, column in places]
    optimal = plan.plans.optimal[plan.index][: len(states)].tolist()
    successors = plan.plans.successors[plan.index][: len(states)].tolist()
    return {
        state: (tuple(action for action, good in enumerate(row) if good), [states[n] for n in to])
        for state, row, to in zip(states, optimal, successors, strict=True)
    }


class Episode:
    """A walk in progress, driven by the caller, which records decisions as steps.

    `number` is the index of the walk, on which slips depend.
    """

    def __init__(self, task: Task, number: int = 0) -> None:
        self.task = task
        self._number = number
        self.state = State(task.world.start)
        self._board = _board(task.world)
        self._steps: list[Step] = []

    @property
    def arrived(self) -> bool:
        """Whether the agent is at the goal."""
        return self.state.cell == self.task.world.goal

    @property
    def over(self) -> bool:
        """Whether the walk has ended."""
        return self.arrived or len(self._steps) >= self.task.cap

    @property
    def steps(self) -> tuple[Step, ...]:
        """Steps so far."""
        return tuple(self._steps)

    def take(self, decision: Decision) -> None:
        """Carry out a decision; a decision without an action is a step in place."""
        if self.over:
            raise InvalidParameterError(f"the walk through {self.task.name!r} has ended")
        if decision.action not in (None, *range(len(MOVES))):
            raise InvalidParameterError(f"action is {decision.action!r}, expected 0 to 3, or None")
        optimal, successors = self._board[self.state]
        slip = None if decision.action is None else self._slip()
        self._steps.append(Step(**vars(decision), state=self.state, optimal=optimal, slip=slip))
        if (move := self._steps[-1].move) is not None:
            self.state = successors[move]

    def _slip(self) -> int | None:
        """Return the random move of this step, if it replaces the action."""
        if not (probability := self.task.condition.get(SLIP)):
            return None
        draws = Draws(SLIP, self.task.name, self._number, len(self._steps))
        slips = draws.weighted((probability, 1.0 - probability)) == 0
        return draws.below(len(MOVES)) if slips else None

    def trajectory(self, index: int, failure: str | None = None) -> Trajectory:
        """Return the walk as a trajectory; `failure` is the outcome if it was ended early."""
        if failure is None and not self.over:
            raise InvalidParameterError(
                f"the walk through {self.task.name!r} has not ended; give the failure that ended it"
            )
        outcome = ARRIVED if self.arrived else failure or CAP
        return Trajectory(**vars(self.task), trajectory=index, outcome=outcome, steps=self.steps)


def walk(navigator: Navigator, task: Task, trajectory: int = 0, *, seed: int = 0) -> Trajectory:
    """Run one walk of an agent through a task.

    The random stream depends on agent, task, walk and seed only, so walks are independent.
    """
    draws = Draws("walk", seed, navigator.name, task.name, trajectory)
    walking = navigator.begin(task.world, draws)
    episode = Episode(task, trajectory)
    while not episode.over:
        episode.take(walking.act(episode.state))
    return episode.trajectory(trajectory)


def walks(navigator: Navigator, tasks: TaskSet, *, seed: int = 0) -> Iterator[Trajectory]:
    """Run and yield every walk of an agent through a set of tasks."""
    return (walk(navigator, task, index, seed=seed) for task, index in tasks.walks())
