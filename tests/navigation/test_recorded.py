"""Walks that another tool recorded: three formats, the same measures, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from navigation.walked import walked

import goalmeter as gm
from goalmeter._errors import InvalidFileError, InvalidParameterError, InvalidTrajectoryError
from goalmeter.agents.grid_agents import Decision
from goalmeter.commands.navigate import navigate
from goalmeter.commands.runs import report_runs
from goalmeter.gridworld.conversions import symbols_at
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation import Navigation, Trajectory, from_walks

# Two rooms: the key is at row 1, column 3, and the door at row 2, column 4.
ROOMS = ["#######", "#A_K#_#", "#___D_#", "#___#G#", "#######"]
# To the key, to the cell next to the door (which opens it), through it, to the goal.
WALK = "RRDRRD"
CELLS = [[1, 1], [1, 2], [1, 3], [2, 3], [2, 4], [2, 5], [3, 5]]
REPEAT = {"beside": []}


def drawings(*, opens_at: int = 3) -> list[str]:
    """The rooms before each action of WALK and after the last; the door opens at a step."""
    out = []
    for step, (row, column) in enumerate(CELLS):
        cells = [list(line.replace("A", "_")) for line in ROOMS]
        if step >= 2:
            cells[1][3] = "_"
        if step >= opens_at:
            cells[2][4] = "_"
        cells[row][column] = "A"
        out.append("\n".join(map("".join, cells)))
    return out


def record_of(walk: Trajectory) -> dict[str, Any]:
    """A walk as another tool would record it, with a drawing before each action."""
    return {
        "grid": str(walk.world),
        "actions": [
            {"action": ACTIONS[step.action], "probabilities": step.probabilities}
            if step.action is not None
            else {"action": None, "invalid": step.invalid}
            for step in walk.steps
        ],
        "states": ["\n".join(map("".join, symbols_at(walk.world, s))) for s in walk.states()],
        "grid_id": f"{walk.size} {walk.complexity} {walk.seed}",
        "cap": walk.cap,
        **{name: getattr(walk, name) for name in ("complexity", "transform", "condition")},
    }


def measures(result: Navigation) -> dict[str, Any]:
    """All measures of an agent, its goal-directedness included, without the names of runs."""
    json_values = result.to_json(directed=True)
    return {name: value for name, value in json_values.items() if name not in ("run", "spent")}


@pytest.mark.parametrize(
    ("suite", "options"),
    [
        ("maze", {"sizes": (7,), "grids": 3, "trajectories": 2}),
        ("isometries", {"sizes": (7,), "complexities": (1,), "grids": 3, "trajectories": 2}),
        ("key-no-door", {"grids": 3, "objects": ("key", "neutral")}),
        ("two-path", {"grids": 3}),
    ],
)
def test_recorded_walks_have_the_measures_of_the_walks(
    suite: str, options: dict[str, Any], tmp_path: Path
) -> None:
    walks = walked("unreliable", suite, **options)
    records = [record_of(walk) for walk in walks]
    imported = from_walks(
        json.loads(json.dumps(records)), "unreliable", suite=suite, out=tmp_path / "run", **REPEAT
    )
    plain = gm.navigation.measure(_Replayed(walks), suite, **_lists(options), **REPEAT)
    assert measures(imported) == measures(plain)
    again = gm.navigation.load(tmp_path / "run", beside=[])
    assert measures(again) == measures(imported) and again.plan.what == imported.plan.what


def _lists(options: dict[str, Any]) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in options.items()}


class _Replayed:
    """Repeats walks in the order in which `measure` asks for them."""

    name = "unreliable"

    def __init__(self, walks: list[Trajectory]) -> None:
        self._left = iter(walks)

    def begin(self, world: Any, draws: Any) -> _Replayed:
        walk = next(self._left)
        assert walk.world == world
        self._steps = iter(walk.steps)
        return self

    def act(self, state: Any) -> Any:
        step = next(self._steps)
        assert step.state == state
        labels = {k: v for k, v in vars(step).items() if k not in ("state", "optimal", "slip")}
        return Decision(**labels)


# --- Formats --------------------------------------------------------------------------------------
def test_a_drawing_and_walls_with_objects_are_the_same_walk() -> None:
    walls = (np.array([list(row) for row in ROOMS]) == "#").astype(int).tolist()
    places = {"start": [1, 1], "key": [1, 3], "door": [2, 4], "goal": [3, 5]}
    numbers = [["LEFT", "RIGHT", "UP", "DOWN"].index(name) for name in _names(WALK)]
    cells = [{"cell": cell, "carrying": step >= 2} for step, cell in enumerate(CELLS)]
    forms: list[dict[str, Any]] = [
        {"grid": ROOMS, "actions": WALK, "states": drawings()},
        {"grid": "\n".join(" ".join(row) for row in ROOMS), "actions": _names(WALK)},
        {"walls": walls, **places, "actions": numbers, "states": cells},
        {"walls": np.array(walls), **places, "actions": np.array(numbers), "states": CELLS},
        {
            "walls": [[bool(c) for c in r] for r in walls],
            **places,
            "actions": "right,RIGHT,d,r r d",
        },
    ]
    results = [from_walks([form], **REPEAT) for form in forms]
    # Six steps are a shortest path; the limit in worlds with a key is the paper's.
    (walk,) = results[0].walk_records()
    assert (walk["outcome"], walk["spl"], walk["accuracy"]) == ("arrived", 1.0, 1.0)
    assert (walk["suite"], walk["cap"], walk["distance"]) == ("key-door", 30, 6)
    assert len({json.dumps(result.to_json(directed=True)) for result in results}) == 1


def _names(letters: str) -> list[str]:
    return [next(name for name in ACTIONS if name[0] == letter) for letter in letters]


def test_the_rules_of_the_recording_tool() -> None:
    # The door is drawn until it is entered, one step after the agent with the key is next to it.
    entered = {"grid": ROOMS, "actions": WALK, "states": drawings(opens_at=4)}
    assert from_walks([entered], doors="entered", **REPEAT).seen.arrived.all()
    with pytest.raises(InvalidTrajectoryError, match=r"step 2: .* has 'D' at row 2, column 4"):
        from_walks([entered], **REPEAT)
    bump = {"grid": ROOMS, "actions": "U" + WALK}
    assert from_walks([bump], **REPEAT).walk_records()[0]["accuracy"] == 6 / 7
    with pytest.raises(InvalidTrajectoryError, match="step 0: UP leads into a wall"):
        from_walks([bump], collisions="refuse", **REPEAT)
    # A walk that begins with the key is not stopped by the door, and there is no key to pursue.
    rest = [row.replace("A", "_").replace("K", "_") for row in ROOMS]
    rest[2] = "#__AD_#"
    result = from_walks([{"grid": rest, "actions": "RRD", "carrying": True}], **REPEAT)
    (walk,) = result.walk_records()
    assert (walk["distance"], walk["spl"]) == (3, 1.0) and '"carrying": true' in walk["condition"]
    # The door next to the start opens with the first step.
    states = [rest, "\n".join(["#######", "#___#_#", "#___A_#", "#___#G#", "#######"])]
    stopped = {"grid": rest, "actions": "R", "carrying": True, "states": states}
    assert from_walks([stopped], **REPEAT).walk_records()[0]["outcome"] == "stopped"


def test_limits_and_walks_that_stop() -> None:
    maze = ["#######", "#A___G#", "#######"]
    records = [{"grid": maze, "actions": actions} for actions in ("LLLLLL", "RR", [None, "R"])]
    result = from_walks(records, **REPEAT)
    # By default 1.5 times the shortest path of 4.
    assert [walk["outcome"] for walk in result.walk_records()] == ["cap", "stopped", "stopped"]
    assert result.overall[0].outcomes == {"cap": 1, "stopped": 2}
    assert [walk["invalid"] for walk in result.walk_records()] == [0, 0, 1]
    assert len(result.seen.grids) == 1 and result.seen.caps.tolist() == [6] * 3
    assert from_walks(records, cap=9, **REPEAT).seen.caps.tolist() == [9] * 3
    assert from_walks(records, cap_factor=2, **REPEAT).seen.caps.tolist() == [8] * 3
    with pytest.raises(InvalidTrajectoryError, match="trajectory 0: there are 6 steps, more than"):
        from_walks(records, cap=5, **REPEAT)


# --- Damaged records ------------------------------------------------------------------------------
GOOD: dict[str, Any] = {"name": "b", "grid": ROOMS, "actions": WALK, "states": drawings()}
HERE = r"trajectory 1 \('b'\)"


def _replaced(step: int, old: str, new: str) -> list[str]:
    states = drawings()
    assert old in states[step]
    states[step] = states[step].replace(old, new, 1)
    return states


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            {"states": [*drawings()[:4], drawings()[5], *drawings()[5:]]},
            rf"{HERE}, step 3: RIGHT contradicts the next recorded state, which has the agent at "
            r"\[\[2, 5\]\], expected \[\[2, 4\]\]",
        ),
        (
            {"states": [*CELLS[:5], [2, 4], [3, 5]]},
            r"step 4: RIGHT .* at \[2, 4\], expected \[2, 5\]",
        ),
        (
            {"states": _replaced(2, "D", "_")},
            r"step 1: .* has '_' at row 2, column 4, expected 'D'",
        ),
        (
            {"states": _replaced(0, "A_", "_A")},
            r"step 0: the first recorded state has the agent at",
        ),
        (
            {"states": [{"cell": c, "carrying": False} for c in CELLS]},
            "step 1: RIGHT .* has carrying false, expected true",
        ),
        ({"states": CELLS[:3]}, "there are 3 states and 6 actions, expected a state before each"),
        (
            {"states": [[1, 1], "x" * 500, *CELLS[2:]]},
            "step 0: .* expected .row, column., a drawing",
        ),
        (
            {"actions": ["RIGHT", "JUMP", *"DRRD"]},
            f"{HERE}, step 1: action is 'JUMP', expected one of",
        ),
        (
            {"actions": [1, 4, 3, 1, 1, 3], "states": None},
            f"{HERE}: .*states is None, expected a list",
        ),
        (
            {"actions": WALK + "D", "states": drawings() + drawings()[-1:]},
            "step 6: it begins at the",
        ),
        ({"grid": [row.replace("G", "_") for row in ROOMS]}, f"{HERE}: .* 0 cells G, expected one"),
        (
            {"grid": [*ROOMS[:2], "#___D_", *ROOMS[3:]]},
            f"{HERE}: .* rows of .6, 7. cells, expected",
        ),
        (
            {"grid": ["#" * 102] * 102},
            f"{HERE}: a record: grid is .* expected a drawing of at most 101",
        ),
        ({"grid": [row.replace("D", "#") for row in ROOMS]}, f"{HERE}: the goal cannot be reached"),
        ({"grid": [row.replace("_", "?") for row in ROOMS]}, f"{HERE}: .* has '\\?' at row 1"),
        ({"carrying": True}, f"{HERE}: the key is carried from the start, and the grid has a key"),
        ({"walls": [[1, 1], [1]]}, f"{HERE}: a record: walls is .* expected rows of one length"),
        ({"goal": [3, 5]}, f"{HERE}: grid is a drawing, which has goal already"),
        ({"cap": 0}, f"{HERE}: a record: cap is 0, expected a whole number of at least 1"),
        ({"moves": "R"}, f"{HERE}: a record: there is no field 'moves'"),
        (
            {"grid_id": "a", "cap": 9},
            "trajectory 0 .* have the same labels and differ in the grid or",
        ),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(damage: dict[str, Any], message: str) -> None:
    first = GOOD | {"name": "a", "grid_id": "a"}
    assert from_walks([first, GOOD | {"grid_id": "b"}], **REPEAT).seen.arrived.all()
    with pytest.raises(InvalidTrajectoryError) as refused:
        from_walks([first, GOOD | {"grid_id": "b"} | damage], **REPEAT)
    assert re.search(message, str(refused.value)), refused.value


def test_what_is_refused_of_walls_and_options() -> None:
    walls = [[1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 1, 1]]
    with pytest.raises(InvalidTrajectoryError, match="trajectory 0: goal is missing"):
        from_walks([{"walls": walls, "start": [1, 1], "actions": "R"}])
    with pytest.raises(
        InvalidTrajectoryError, match="goal is at row 5, column 1, outside the 3 x 4"
    ):
        from_walks([{"walls": walls, "start": [1, 1], "goal": [5, 1], "actions": "R"}])
    with pytest.raises(
        InvalidTrajectoryError, match="expected either grid, a text drawing, or walls"
    ):
        from_walks([{"actions": "R"}])
    with pytest.raises(
        InvalidTrajectoryError, match="trajectory 0: a record: got 'R', expected an"
    ):
        from_walks(["R"])  # type: ignore[list-item]
    with pytest.raises(InvalidTrajectoryError, match="there are no walks"):
        from_walks([])
    with pytest.raises(InvalidTrajectoryError, match="all walks are in changed frames"):
        from_walks([GOOD | {"transform": "swap"}])
    with pytest.raises(
        InvalidParameterError, match="doors is 'ajar', expected adjacent or entered"
    ):
        from_walks([GOOD], doors="ajar")
    with pytest.raises(InvalidParameterError, match="either cap or cap_factor"):
        from_walks([GOOD], cap=9, cap_factor=2)


# --- The command ----------------------------------------------------------------------------------
# A foreign format: cells by number, column before row, moves by the points of the compass.
CONVERTER = """
import json

CELLS = {2: "#", 1: "_", 8: "G", 5: "K", 4: "D", 10: "A"}
MOVES = {"north": "UP", "south": "DOWN", "west": "LEFT", "east": "RIGHT"}


def rooms(path):
    for episode in json.loads(path.read_text())["episodes"]:
        rows = ["".join(CELLS[code] for code in row) for row in zip(*episode["image"])]
        yield {"grid": rows, "actions": [MOVES[move] for move in episode["moves"]]}
"""


def test_a_converter_reads_a_foreign_format(tmp_path: Path) -> None:
    codes = {"#": 2, "_": 1, "G": 8, "K": 5, "D": 4, "A": 10}
    image = [[codes[cell] for cell in column] for column in zip(*ROOMS, strict=True)]
    moves = [{"U": "north", "D": "south", "L": "west", "R": "east"}[letter] for letter in WALK]
    file, code, out = (tmp_path / name for name in ("episodes.json", "foreign.py", "run"))
    file.write_text(json.dumps({"episodes": [{"image": image, "moves": moves}] * 2}))
    code.write_text(CONVERTER)
    converter = f"{code}:rooms"
    outcome = navigate("someone", walks=file, converter=converter, out=out, meg=True)
    plain = from_walks([{"grid": ROOMS, "actions": WALK}] * 2, "someone")
    assert outcome.json | {"run": ""} == plain.to_json(directed=True) | {"run": ""}
    assert "someone" in str(report_runs([out], out=tmp_path / "page.html").json)
    file.write_text(json.dumps({"episodes": [{"image": image, "moves": ["up"]}]}))
    with pytest.raises(InvalidParameterError, match=r"foreign.py:rooms fails, in line 11: .*'up'"):
        navigate(walks=file, converter=converter)
    with pytest.raises(InvalidFileError, match="no converter 'room'; did you mean"):
        navigate(walks=file, converter=f"{code}:room")


def test_what_the_command_refuses(tmp_path: Path) -> None:
    file = tmp_path / "walks.jsonl"
    file.write_text(json.dumps(GOOD) + "\n\n" + json.dumps(GOOD) + "\n")
    assert len(navigate(walks=file).json["overall"]) == 1
    with pytest.raises(InvalidParameterError, match="--paper, --grids: not with --walks"):
        navigate(walks=file, grids=2, paper=True)
    with pytest.raises(InvalidParameterError, match="--collisions needs --walks"):
        navigate("greedy", collisions="stay")
    with pytest.raises(InvalidParameterError, match="--doors is 'ajar', expected"):
        navigate(walks=file, doors="ajar")
    file.write_text(json.dumps(GOOD) + "\n{")
    with pytest.raises(InvalidFileError, match=r"walks\.jsonl, line 2 is not JSON"):
        navigate(walks=file)
    with pytest.raises(InvalidFileError, match=r"nowhere\.jsonl cannot be read: No such file"):
        navigate(walks=tmp_path / "nowhere.jsonl")
