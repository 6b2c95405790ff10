"""Import walks that another tool recorded, as a run of navigation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    InvalidTrajectoryError,
    shown,
)
from goalmeter._files import Field, check_record, reading
from goalmeter._options import option
from goalmeter.gridworld.conversions import symbols_at
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, WITHOUT_KEY, State, planned
from goalmeter.gridworld.world import ACTIONS, AGENT, DOOR, EMPTY, Cell, GridWorld
from goalmeter.navigation.measure import Navigation, with_references
from goalmeter.navigation.plan import recorded_plan
from goalmeter.navigation.rollouts import Walked, study_of
from goalmeter.navigation.suite_definition import NEUTRAL, Suite, cap_of, object_in
from goalmeter.navigation.suites import suite_named
from goalmeter.navigation.trajectories import (
    ARRIVED,
    CAP,
    MOST_ROWS,
    TRAJECTORY_FIELDS,
    PlannedWalk,
    Step,
    Task,
    Trajectory,
    is_drawing,
)
from goalmeter.runs import carry_out
from goalmeter.runs.progress import Tell

STAY, REFUSE = "stay", "refuse"
ADJACENT, ENTERED = "adjacent", "entered"
STOPPED = "stopped"  # outcome of a walk that ends before the goal and the cap
UNREADABLE = "no action"  # reason of an invalid answer that the record leaves open


@dataclass(frozen=True, kw_only=True)
class WalkOptions:
    """Options of `from_walks`: the rules under which walks were recorded, and the run."""

    collisions: str = option(
        "stay|refuse  With --walks: a move into a wall is a step in place, or an error.",
        default=STAY,
    )
    doors: str = option(
        "adjacent|entered  With --walks: a door opens to the key next to it, or if entered.",
        default=ADJACENT,
    )
    suite: str | None = None  # suite whose measures apply; None: by the objects in the grids
    # Step limits; by default those of the paper: 30 in worlds with an object, else 1.5 times the
    # shortest path. A record may have its own.
    cap: int | None = None
    cap_factor: float | None = None
    beside: Sequence[str] | None = None  # baseline agents in the same worlds; None: the suite's
    out: str | Path | None = None  # run directory
    progress: Tell | None = None  # callback for messages

    def __post_init__(self) -> None:
        for name, known in (("collisions", (STAY, REFUSE)), ("doors", (ADJACENT, ENTERED))):
            if getattr(self, name) not in known:
                raise InvalidParameterError(
                    f"{name} is {shown(getattr(self, name))}, expected {' or '.join(known)}"
                )


# --- Records --------------------------------------------------------------------------------------
_PLACES = ("start", "goal", "key", "door", "neutral")


def _is_cell(value: Any) -> bool:
    return isinstance(value, list | tuple) and [*map(type, value)] == [int, int]


def _lines(value: Any) -> Any:
    return value.splitlines() if isinstance(value, str) else value


def _is_mask(value: Any) -> bool:
    if not (isinstance(value, list) and all(isinstance(row, list) for row in value)):
        return False
    sizes = {len(value), *map(len, value)}
    cells = [cell for row in value for cell in row]
    same = len({len(row) for row in value}) == 1 and 0 < min(sizes) <= max(sizes) <= MOST_ROWS
    return same and all(type(cell) in (int, bool) and cell in (0, 1) for cell in cells)


_FIELDS = {
    "actions": Field("a list of actions, or text", lambda v: isinstance(v, str | list | tuple)),
    "name": Field("text", lambda v: isinstance(v, str)),
    "grid": Field(
        f"a drawing of at most {MOST_ROWS} rows of at most {MOST_ROWS} characters",
        lambda v: is_drawing(_lines(v)),
    ),
    "walls": Field(f"rows of one length, at most {MOST_ROWS} x {MOST_ROWS}, of 0 and 1", _is_mask),
    **dict.fromkeys(_PLACES, Field("[row, column] or null", lambda v: v is None or _is_cell(v))),
    "carrying": Field("true or false", lambda v: isinstance(v, bool)),
    "states": Field("a list", lambda v: isinstance(v, list | tuple)),
    "grid_id": Field("text or a whole number", lambda v: type(v) in (str, int)),
    **{name: TRAJECTORY_FIELDS[name] for name in ("complexity", "transform", "condition", "cap")},
}
_FIELDS |= {n: replace(each, required=False) for n, each in _FIELDS.items() if n != "actions"}


class _Recorded(NamedTuple):
    """A record whose grid is valid."""

    where: str  # for errors
    values: Mapping[str, Any]
    # A walk that begins with the key is one without key and door, since the door opens to it.
    world: GridWorld
    door: Cell | None  # as it was drawn

    @classmethod
    def of(cls, number: int, record: Any) -> _Recorded:
        """Read a record; its number counts from 0."""
        named = isinstance(record, Mapping) and isinstance(record.get("name"), str)
        where = f"trajectory {number}" + (f" ({shown(record['name'])})" if named else "")
        if isinstance(record, Mapping):  # arrays are lists of JSON
            record = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in record.items()}
        try:
            values = check_record(record, _FIELDS, "a record")
            world, door = _world(values)
        except GoalmeterError as cause:
            raise InvalidTrajectoryError(f"{where}: {cause}") from cause
        if values.get("carrying") and world.thing is not None:
            raise InvalidTrajectoryError(
                f"{where}: the key is carried from the start, and the grid has "
                f"{'a key' if world.key else 'a neutral object'}; remove it from the grid"
            )
        return cls(where, values, world, door)


def _world(values: Mapping[str, Any]) -> tuple[GridWorld, Cell | None]:
    """Return the world of a record, and its door as it was drawn."""
    if ("grid" in values) == ("walls" in values):
        raise InvalidParameterError("expected either grid, a text drawing, or walls with objects")
    places = {name: values[name] for name in _PLACES if values.get(name) is not None}
    carried = values.get("carrying", False)
    if "grid" not in values:
        if missing := {"start", "goal"} - places.keys():
            raise InvalidParameterError(f"{min(missing)} is missing, expected [row, column]")
        door = places.pop("door", None) if carried else places.get("door")
        return GridWorld(values["walls"], **places), door and Cell(*door)
    if places:
        raise InvalidParameterError(f"grid is a drawing, which has {', '.join(places)} already")
    rows = _rows(values["grid"])
    doors = [Cell(r, c) for r, row in enumerate(rows) for c, each in enumerate(row) if each == DOOR]
    if carried and len(doors) == 1:
        rows = [row.replace(DOOR, EMPTY) for row in rows]
    return GridWorld.from_text(rows), doors[0] if doors else None


def _rows(drawing: Any) -> list[str]:
    return [row for row in ("".join(line.split()) for line in _lines(drawing)) if row]


def _suite_of(items: Sequence[_Recorded]) -> str:
    """Return the name of the suite whose measures apply to the grids."""
    if any(item.values.get("transform") for item in items):
        return "isometries"
    if any(item.door for item in items):
        return "key-door"
    return "key-no-door" if any(item.world.thing for item in items) else "maze"


# --- Steps ----------------------------------------------------------------------------------------
_BY_WORD = {word: n for n, name in enumerate(ACTIONS) for word in (name, name[0])}


def _answers(actions: Any) -> list[dict[str, Any]]:
    """Return the recorded answers as objects with an action, by its number if its name is known."""
    if isinstance(actions, str):
        words = actions.replace(",", " ").split()
        actions = words if len(words) > 1 or actions.upper() in ACTIONS else [*"".join(words)]
    answers = []
    for entry in actions:
        answer = dict(entry) if isinstance(entry, Mapping) else {"action": entry}
        action = answer.get("action", "")
        if isinstance(action, str):
            answer["action"] = _BY_WORD.get(action.upper(), action)
        if action is None:
            answer.setdefault("invalid", UNREADABLE)
        answers.append({k: [*v] if isinstance(v, tuple) else v for k, v in answer.items()})
    return answers


def _walked(item: _Recorded, task: Task, number: int, options: WalkOptions) -> Trajectory:
    """Replay a record; raises InvalidTrajectoryError with the step that contradicts it."""
    plan, answers = planned(task.world), _answers(item.values["actions"])
    states = item.values.get("states")
    if len(answers) > task.cap:
        raise InvalidTrajectoryError(
            f"{item.where}: there are {len(answers)} steps, more than the limit of {task.cap}; "
            f"give the limit under which it was recorded (cap)"
        )
    if states is not None and not len(answers) <= len(states) <= len(answers) + 1:
        raise InvalidTrajectoryError(
            f"{item.where}: there are {len(states)} states and {len(answers)} actions, expected a "
            f"state before each action, and perhaps the last"
        )
    steps: list[Step] = []
    state, opened = plan.start, False
    try:
        if states and (wrong := _contradiction(item, states[0], state, opened)):
            raise InvalidTrajectoryError(f"the first recorded state {wrong}")
        for answer in answers:
            if state.cell == task.world.goal:
                raise InvalidTrajectoryError("it begins at the goal, expected no more steps")
            (row, column), layer = state
            action = answer.get("action", "")
            if action not in (*range(len(ACTIONS)), None):
                raise InvalidTrajectoryError(
                    f"action is {shown(action)}, expected one of {', '.join(ACTIONS)}, "
                    f"0 to {len(ACTIONS) - 1}, or null for none"
                )
            labels = {"state": [row, column, layer], "optimal": [*plan.optimal_actions(state)]}
            step = Step.from_json(answer | labels)
            after = state if step.action is None else plan.step(state, step.action)
            word = "no action" if step.action is None else ACTIONS[step.action]
            if options.collisions == REFUSE and step.action is not None and after == state:
                raise InvalidTrajectoryError(
                    f"{word} leads into a wall or a closed door, and collisions are refused"
                )
            opened = opened or _opens(item, after, options.doors)
            following = (states or ())[len(steps) + 1 :]
            if following and (wrong := _contradiction(item, following[0], after, opened)):
                raise InvalidTrajectoryError(
                    f"{word} contradicts the next recorded state, which {wrong}; correct the "
                    f"record, or the rules (collisions, doors)"
                )
            steps.append(step)
            state = after
    except GoalmeterError as cause:
        raise InvalidTrajectoryError(f"{item.where}, step {len(steps)}: {cause}") from cause
    outcome = CAP if len(steps) == task.cap else STOPPED
    outcome = ARRIVED if state.cell == task.world.goal else outcome
    return Trajectory(**vars(task), trajectory=number, outcome=outcome, steps=tuple(steps))


def _opens(item: _Recorded, state: State, doors: str) -> bool:
    """Whether the recording tool opens the door in a state."""
    door, carried = item.door, item.values.get("carrying") or state.has_key
    if door is None or not carried:
        return False
    near = [door.moved(action) for action in range(len(ACTIONS))] if doors == ADJACENT else []
    return state.cell in (door, *near)


def _contradiction(item: _Recorded, recorded: Any, state: State, opened: bool) -> str:
    """Return how a recorded state differs from the replayed one, or ""."""
    carried = bool(item.values.get("carrying") or (state.has_key and item.world.key))
    parts = recorded if isinstance(recorded, Mapping) else {}
    if not parts:
        parts = {"cell" if _is_cell(recorded) else "grid": recorded}
    if unknown := parts.keys() - {"cell", "grid", "carrying"}:
        return f"has {shown(min(unknown))}, expected cell, grid or carrying"
    if parts.get("carrying", carried) != carried:
        return f"has carrying {shown(parts['carrying'])}, expected {carried}".lower()
    if "cell" in parts and (not _is_cell(parts["cell"]) or Cell(*parts["cell"]) != state.cell):
        return f"has the agent at {shown(parts['cell'])}, expected {[*state.cell]}"
    if "grid" not in parts:
        return ""
    if not is_drawing(_lines(parts["grid"])):
        return f"is {shown(parts['grid'])}, expected [row, column], a drawing, or an object of them"
    layer = DOOR_OPEN if opened else WITH_KEY if state.has_key else WITHOUT_KEY
    cells, rows = symbols_at(item.world, State(state.cell, layer)), _rows(parts["grid"])
    if item.door not in (None, item.world.door, state.cell) and not opened:
        cells[item.door.row][item.door.column] = DOOR
    expected = ["".join(row) for row in cells]
    if [*map(len, rows)] != [*map(len, expected)]:
        return f"has rows of {[*map(len, rows)]} cells, expected {[*map(len, expected)]}"
    agents = [[r, row.index(AGENT)] for r, row in enumerate(rows) if AGENT in row]
    if agents != [[*state.cell]]:
        return f"has the agent at {agents}, expected {[[*state.cell]]}"
    for r, c in np.ndindex(item.world.shape):
        if rows[r][c] != expected[r][c]:
            return f"has {rows[r][c]!r} at row {r}, column {c}, expected {expected[r][c]!r}"
    return ""


# --- Runs -----------------------------------------------------------------------------------------
def from_walks(
    records: Iterable[Mapping[str, Any]], agent: str = "recorded", **options: Any
) -> Navigation:
    """Measure walks that another tool recorded, as if the agent had walked here.

    A record has `actions` (names, initials, 0 to 3, None for no action, or objects with further
    fields of `Step`) and a grid: `grid`, a text drawing as of `str(world)`, or `walls` [rows,
    columns] with `start`, `goal` and perhaps `key`, `door`, `neutral` as [row, column]. It may have
    `carrying` (whether the walk begins with the key), `states` before each action (a drawing, a
    cell, or an object of `grid`, `cell` and `carrying`), `name`, `grid_id` (walks of one grid),
    `complexity`, `transform`, `condition` and `cap`. `options` are fields of `WalkOptions`.

    Raises InvalidTrajectoryError, with trajectory and step, if a record contradicts itself.

    Example: two steps to the goal, of which the first was a move into a wall.
        >>> walk = {"grid": ["#####", "#_AG#", "#####"], "actions": ["UP", "RIGHT"]}
        >>> from_walks([walk], cap=5, beside=[]).walk_records()[0]["outcome"]
        'arrived'
    """
    chosen = WalkOptions(**options)
    items = [_Recorded.of(number, record) for number, record in enumerate(records)]
    if not items:
        raise InvalidTrajectoryError("there are no walks, expected at least one record")
    if all(item.values.get("transform") for item in items):
        raise InvalidTrajectoryError(
            "all walks are in changed frames, expected walks in the original frame (transform null)"
        )
    name = chosen.suite or _suite_of(items)
    tasks: dict[str, tuple[_Recorded, Task, list[Trajectory]]] = {}
    grids: dict[Any, int] = {}
    for item in items:
        index = grids.setdefault(item.values.get("grid_id", item.world), len(grids))
        task = _task(item, suite_named(name), index, chosen)
        first, same, walks = tasks.setdefault(task.name, (item, task, []))
        if same != task:
            raise InvalidTrajectoryError(
                f"{item.where} and {first.where} have the same labels and differ in the grid or "
                f"the limit; give each grid its own grid_id"
            )
        walks.append(_walked(item, task, len(walks), chosen))
    plan = recorded_plan(agent, name, [(task, len(walks)) for _, task, walks in tasks.values()])
    by_key = {
        PlannedWalk(task, walk.trajectory).name: walk
        for _, task, walks in tasks.values()
        for walk in walks
    }
    study = study_of(plan, lambda key: by_key[key], {key: {"key": key} for key in by_key})
    results = carry_out(study, out=chosen.out, progress=chosen.progress)
    walked = Walked(plan, tuple(results.values()))
    return with_references(walked, chosen.beside, chosen.out, chosen.progress)


def _task(item: _Recorded, suite: Suite, index: int, options: WalkOptions) -> Task:
    world, values = item.world, item.values
    limits = suite.limits(options.cap, options.cap_factor, paper=True)
    if (distance := planned(world).distance) < 1:
        raise InvalidTrajectoryError(f"{item.where}: the goal cannot be reached from the start")
    # As in the suites, the object is a part of the condition.
    thing = object_in(world)
    labels: dict[str, Any] = {"key": thing is not None} if suite.key or suite.is_paired else {}
    if thing == NEUTRAL:
        labels = {"object": NEUTRAL}
    if values.get("carrying"):
        labels = {"carrying": True}
    return Task(
        size=world.size,
        complexity=values.get("complexity"),
        grid=index,
        seed=index,
        transform=values.get("transform"),
        condition=labels | dict(values.get("condition", {})),
        world=world,
        suite=suite.name,
        distance=distance,
        cap=values.get("cap") or cap_of(world, *limits),
    )


def read_walks(path: str | Path) -> Iterator[Any]:
    """Yield the records of a file with one JSON object per line."""
    try:
        with reading(Path(path)) as file:
            for number, line in enumerate(file, start=1):
                try:
                    if text := line.decode().strip():
                        yield json.loads(text)
                except (ValueError, RecursionError) as cause:
                    raise InvalidFileError(
                        f"{path}, line {number} is not JSON ({cause}), expected one object per "
                        f"line; another format needs a converter (--converter)"
                    ) from cause
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause
