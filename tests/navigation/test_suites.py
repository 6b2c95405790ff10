"""Suites: which grids, in which frames, with which caps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.commands.navigate import navigate
from goalmeter.gridworld import TRANSFORMS, maze
from goalmeter.gridworld.world import GridWorld, held_out
from goalmeter.navigation import (
    Suite,
    SuiteOptions,
    load,
    register_suite,
    suite,
    suite_named,
    suite_names,
    suites,
)
from goalmeter.navigation.suite_definition import LabelledWorld, Scale


def test_held_out_grids_are_the_next_ones_that_no_lesson_had() -> None:
    made = suite("maze", sizes=[7, 9], complexities=[0.6], grids=3, held_out=True, seed=2)
    for size, complexity in ((7, 0.6), (9, 0.6)):
        tasks = [t for t in made.tasks if (t.size, t.complexity) == (size, complexity)]
        every = [(seed, maze(size, complexity, seed).world) for seed in range(2000000, 2000030)]
        expected = [(seed, world) for seed, world in every if held_out(world)][:3]
        assert [(task.seed, task.world) for task in tasks] == expected
        assert [task.grid for task in tasks] == [0, 1, 2]
    for name in ("key-door", "key-no-door"):
        tasks = suite(name, grids=5, held_out=True).tasks
        assert all(held_out(task.world) for task in tasks)
    doors, none = (suite(name, grids=5, held_out=True) for name in ("key-door", "key-no-door"))
    assert [task.seed for task in doors.tasks] == [task.seed for task in none.tasks]
    # No lesson has two paths, so all of them are held out.
    assert suite("two-path", grids=3, held_out=True) == suite("two-path", grids=3)


def test_a_neutral_object_lies_where_the_key_lay() -> None:
    for name in ("key-no-door", "two-path"):
        keys = suite(name, grids=3)
        both = suite(name, grids=3, objects=["neutral", "key"])
        # Worlds that a run without the choice has are the same tasks in one that has it.
        assert [task for task in both.tasks if task.world.neutral is None] == list(keys.tasks)
        neutral = [task for task in both.tasks if task.world.neutral is not None]
        with_key = [task for task in keys.tasks if task.world.key is not None]
        for task, second in zip(neutral, with_key, strict=True):
            assert task.world == second.world.with_(key=None, neutral=second.world.key)
            assert (task.condition, second.condition) == ({"object": "neutral"}, {"key": True})
            same = ("seed", "distance", "cap")
            assert all(getattr(task, name) == getattr(second, name) for name in same)
        alone = suite(name, grids=3, objects=["neutral"])
        assert [task for task in alone.tasks if task.world.thing] == neutral
        assert suite(name, grids=3, objects=["key"]) == keys
    task = suite("key-no-door", grids=1, objects=["neutral"]).tasks[0]
    assert task.name == 'key-no-door, size 9, seed 0, {"object": "neutral"}'


def test_caps() -> None:
    def caps(**options: Any) -> list[int]:
        made = suite("maze", sizes=[7], complexities=[1], grids=4, **options)
        return [task.cap for task in made.tasks]

    distances = [t.distance for t in suite("maze", sizes=[7], complexities=[1], grids=4).tasks]
    assert caps() == [3 * d for d in distances]
    assert caps(cap=5) == [5] * 4
    assert caps(cap_factor=2) == [2 * d for d in distances]
    assert caps(paper=True, cap_factor=2) == [2 * d for d in distances]
    # 1.1 x 10 is 11 steps, not 12 as in floating point.
    assert caps(cap_factor=1.1) == [-(-11 * d // 10) for d in distances]
    assert {t.cap for t in suite("two-path", grids=1, paper=True, cap_factor=1).tasks} <= {12, 14}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mazes", {}, "there is no suite 'mazes', expected one of maze, isometries"),
        ("two-path", {"complexities": [1]}, "'two-path' has no complexities; only mazes do"),
        ("maze", {"grids": 0}, "grids is 0, expected at least 1"),
        ("maze", {"cap_factor": float("nan")}, "cap_factor is nan, expected a number from 1 to"),
        ("maze", {"sizes": [7, 7]}, "a size, complexity, transform, stratum or condition"),
        ("key-door", {"sizes": [7]}, "'key-door' has no grids of size 7, expected 9 or"),
        ("isometries", {"transforms": ["turn"]}, "there is no transform 'turn', expected one"),
    ],
)
def test_errors(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        suite(name, **options)
    assert message in str(caught.value)


def corridors(options: SuiteOptions) -> Iterator[LabelledWorld]:
    """Corridors, each as it is and turned round."""
    for size in options.sizes or ():
        for index, seed in options.seeds:
            rows = ["#" * size] * (size - 2) + ["#A" + "_" * (size - 4) + "G#", "#" * size]
            world = GridWorld.from_text(rows)
            for transform in (None, *(options.transforms or ())):
                turned = world if transform is None else TRANSFORMS[transform](world)
                yield LabelledWorld(size, None, index, seed, transform, {}, turned)


CORRIDORS = Suite(
    name="corridors",
    about="corridors of every length",
    worlds=corridors,
    small=Scale(sizes=(5, 7), grids=2, trajectories=2),
    paper=Scale(sizes=(9,), grids=3, trajectories=1),
    known_sizes=(5, 7, 9),
    references=("random",),
)


@pytest.fixture
def own_suite(monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.setattr(suites, "_SUITES", dict(suites._SUITES))
    register_suite(CORRIDORS)
    return CORRIDORS


def test_a_suite_of_ones_own_is_walked_measured_and_reported(
    own_suite: Suite, tmp_path: Path
) -> None:
    assert suite_named("corridors") is own_suite and suite_names()[-1] == "corridors"
    made = suite("corridors", seed=1)
    assert [task.name for task in made.tasks[:2]] == [
        "corridors, size 5, seed 1000000",
        "corridors, size 5, seed 1000001",
    ]
    assert [task.cap for task in made.tasks] == [6, 6, 12, 12]  # 3 times 2 or 4 steps
    outcome = navigate("greedy", suite="corridors", out=tmp_path / "run")
    assert outcome.json["overall"][0]["success"] == 1.0
    assert list(outcome.json["references"]) == ["random"]
    captions = [table.caption for table in outcome.tables[:2]]
    assert captions == ["corridors: agents", "corridors: choices"]
    result = load(tmp_path / "run")
    assert [walk["size"] for walk in result.walk_records()] == [5] * 4 + [7] * 4
