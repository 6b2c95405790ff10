"""What happened on one walk: the record that every table is made of, a line of JSON.

An answer that was no action is a step like any other, with action None: the agent stays where it
is and the step counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from numbers import Real
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidTrajectoryError
from goalmeter._text import shown
from goalmeter.agents.navigators import planned
from goalmeter.gridworld.planner import LAYERS, State
from goalmeter.gridworld.transforms import TRANSFORMS
from goalmeter.gridworld.world import MOVES, Cell, GridWorld
from goalmeter.navigation.record_checks import (
    check_kind,
    entries,
    is_whole,
    probabilities_of,
    tokens_of,
    whole_numbers,
)

ARRIVED, CAP = "arrived", "cap"
# Of a picture: twice as many as any suite draws.
MOST_ROWS = 101


@dataclass(frozen=True)
class Step:
    """One decision.

    Attributes:
        state: where it was made.
        action: 0 to 3 as in `gridworld.ACTIONS`; None if the answer was none of them.
        optimal: the actions that lead one step closer to the goal.
        probabilities: of the four actions, where they are known; at most 1 together.
        raw: the output as it came.
        reasoning: what was thought before it.
        prompt: what was asked.
        prompt_tokens: ids of the prompt's tokens, or how many there were.
        answer_tokens: ids of the answer's tokens, the one that ended it included.
        attempts: how often was asked.
        invalid: why there is no action; None if there is one.
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
        """The step that `to_json` was of.

        Raises:
            InvalidTrajectoryError: it was of none.
        """
        entry = entries(value, "a step", ("state", "action", "optimal"), _OPTIONAL)
        row, column, layer = whole_numbers(entry["state"], "state", 3)
        if not 0 <= layer < LAYERS:
            raise InvalidTrajectoryError(f"layer is {layer}, expected 0 to {LAYERS - 1}")
        optimal = whole_numbers(entry["optimal"], "optimal")
        if sorted(set(optimal)) != list(optimal) or not set(optimal) <= set(range(len(MOVES))):
            raise InvalidTrajectoryError(
                f"optimal is {list(optimal)}, expected different actions, 0 to 3, in order"
            )
        for name in ("raw", "reasoning", "prompt", "invalid"):
            check_kind(entry.get(name), name, (str, type(None)))
        action = entry["action"]
        if action is not None and (not is_whole(action) or not 0 <= action < len(MOVES)):
            raise InvalidTrajectoryError(f"action is {action!r}, expected 0 to 3 or null")
        if (action is None) != (entry.get("invalid") is not None):
            raise InvalidTrajectoryError(
                f"action is {action!r} and invalid is {entry.get('invalid')!r}; a step without an "
                f"action says why there is none, any other does not"
            )
        attempts = entry.get("attempts")
        if attempts is not None and (not is_whole(attempts) or attempts < 1):
            raise InvalidTrajectoryError(f"attempts is {attempts!r}, expected 1 or more")
        answer_tokens = entry.get("answer_tokens")
        return cls(
            state=State(Cell(row, column), layer),
            action=action,
            optimal=optimal,
            probabilities=probabilities_of(entry.get("probabilities")),
            prompt_tokens=tokens_of(entry.get("prompt_tokens")),
            answer_tokens=None
            if answer_tokens is None
            else whole_numbers(answer_tokens, "answer_tokens"),
            **{k: entry.get(k) for k in ("raw", "reasoning", "prompt", "attempts", "invalid")},
        )


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
        """The trajectory that `to_json` was of.

        What is checked is each value by itself; whether the steps follow from each other is
        checked by whoever measures them.

        Raises:
            InvalidTrajectoryError: it was of none; the message says which step, if it is one's.
        """
        names = tuple(f.name for f in fields(cls))
        entry = entries(value, "a trajectory", names)
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
        for name, least in (("size", 3), ("cap", 1), ("distance", 1)):
            if not is_whole(entry[name]) or entry[name] < least:
                raise InvalidTrajectoryError(
                    f"{name} is {entry[name]!r}, expected a whole number of at least {least}"
                )
        for name in ("grid", "seed", "trajectory"):
            if not is_whole(entry[name]):
                raise InvalidTrajectoryError(f"{name} is {entry[name]!r}, expected a whole number")
        check_kind(entry["complexity"], "complexity", (Real, type(None)))
        for name in ("suite", "outcome"):
            check_kind(entry[name], name, (str,))
        if entry["transform"] not in (None, *TRANSFORMS):
            raise InvalidTrajectoryError(
                f"transform is {entry['transform']!r}, expected null or one of "
                f"{', '.join(TRANSFORMS)}"
            )
        check_kind(entry["condition"], "condition", (Mapping,))
        check_kind(entry["steps"], "steps", (list,))
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


_OPTIONAL = (
    "probabilities",
    "raw",
    "reasoning",
    "prompt",
    "prompt_tokens",
    "answer_tokens",
    "attempts",
    "invalid",
)


@lru_cache(maxsize=512)
def _world(rows: tuple[str, ...]) -> GridWorld:
    return GridWorld.from_text(rows)
