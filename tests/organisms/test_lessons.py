"""Lessons: the same for ever, in worlds that no suite has, and in the words of the tokenizer."""

from __future__ import annotations

import numpy as np
import pytest
from oracles.grid_contents import content

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.conversions import compact
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import Cell, GridWorld, held_out
from goalmeter.navigation import suite
from goalmeter.organisms import organism
from goalmeter.organisms.lessons import (
    COMPLEXITIES,
    IDS,
    SMALL_VOCABULARY,
    VOCABULARY,
    Lesson,
    batch,
    syllabus,
    tokenizer,
)


def lessons(name: str, number: int, *, seed: int = 0, words: int = 2200) -> list[Lesson]:
    return batch(organism(name), number, kinds=syllabus(), seed=seed, words=words)


def words(ids: tuple[int, ...]) -> str:
    return " ".join(VOCABULARY[number] for number in ids)


def test_a_batch_is_made_of_its_number_and_the_seed() -> None:
    assert lessons("mouse", 7) == lessons("mouse", 7)
    assert lessons("mouse", 7) != lessons("mouse", 8)
    assert lessons("mouse", 7) != lessons("mouse", 7, seed=1)


def place(word: str) -> Cell:
    row, column = word.split(",")
    return Cell(int(row), int(column))


def test_what_is_learnt_is_what_the_tokenizer_makes_of_the_prompt() -> None:
    pytest.importorskip("transformers")
    words_of = tokenizer()
    for name, sizes in (("maze", [5, 7, 9, 11]), ("key-door", [9]), ("two-path", [11])):
        for task in suite(name, sizes=sizes, grids=2, trajectories=1).tasks:
            text = compact(task.world, State(task.world.start))
            chat = [{"role": "user", "content": text}]
            ids = words_of.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)
            spoken = ["<|user|>", *text.split(), "<|assistant|>"]
            assert ids["input_ids"] == [IDS[word] for word in spoken]
    answer = ["<think>", "target", "1,1", "</think>", '{"action":', '"UP"}']
    assert words_of.decode([IDS[w] for w in answer]) == " ".join(answer)


def test_large_mazes_have_words_behind_all_others() -> None:
    pytest.importorskip("transformers")
    assert not {"12,1", "3,13:", "13,13>", "15"} & set(VOCABULARY[:SMALL_VOCABULARY])
    for size in (13, 15):
        lessons = batch(organism("mouse"), 3, kinds=syllabus([size]), seed=0, words=4000)
        longest = 0
        for lesson in lessons:
            assert words(lesson.map).startswith(f"<|user|> Rows: {size} Columns: {size} Open:")
            asked = [len(lesson.map) + len(q) + len(a) for q, a in lesson.questions]
            longest = max(longest, *asked)
        # The context of small networks is 512 tokens.
        assert len(lessons) > 1 and longest < 1024
    small, large = tokenizer(), tokenizer(len(VOCABULARY))
    assert small("11,11> 12,1")["input_ids"] == [IDS["11,11>"], IDS["<unk>"]]
    assert large("11,11> 12,1")["input_ids"] == [IDS["11,11>"], IDS["12,1"]]


def literal(world: GridWorld) -> object:
    """What a question contains: walls and goal, and where these are few also the agent's cell."""
    opened, side = list(world.open_cells), max(world.shape)
    few = side == 5 or len(opened) == (side - 2) ** 2
    return content(side, opened, *([world.goal, world.start] if few else [world.goal]))


def taught(number: int) -> list[GridWorld]:
    """What the questions of a batch are about, read off the words of its prompts alone."""
    worlds = []
    for lesson in lessons("moth", number, words=2600):
        text = words(lesson.map).split()
        goal_at = text.index("Goal:")
        # A shut door is an open cell to the walls; "Open:" lists it as `compact` does.
        opened = [place(word) for word in text[text.index("Open:") + 1 : goal_at] if "," in word]
        if "Door:" in text:
            opened.append(place(text[text.index("Door:") + 1]))
        side = max(row for row, _ in opened) + 2
        walls = np.ones((side, side), dtype=bool)
        walls[tuple(zip(*opened, strict=True))] = False
        for question, _ in lesson.questions:
            agent = place(words(question).split()[1])
            worlds.append(GridWorld(walls, agent, place(text[goal_at + 1])))
    return worlds


def test_no_evaluation_has_a_content_that_lessons_had() -> None:
    suites = [
        suite("maze", sizes=[5, 7, 9, 11], complexities=COMPLEXITIES, grids=8, held_out=True),
        suite("isometries", sizes=[7], complexities=[0, 0.6], grids=4, held_out=True),
        suite("key-door", grids=20, held_out=True),
        suite("key-no-door", grids=20, held_out=True, objects=["key", "neutral"]),
        suite("two-path", grids=10, held_out=True),
    ]
    evaluated = {literal(task.world) for each in suites for task in each.tasks}
    learnt = [world for number in range(15) for world in taught(number)]
    assert len(learnt) > 350
    assert not evaluated & set(map(literal, learnt))
    # Of all contents one in four is held out, so that a lesson without the split would meet it.
    assert not any(map(held_out, learnt))


def test_the_syllabus_can_be_cut() -> None:
    assert syllabus([5], keys=False) == (("maze", 5),)
    assert ("key-door", 9) in syllabus([9]) and ("key-door", 9) not in syllabus([9], keys=False)
    with pytest.raises(
        InvalidParameterError, match=r"sizes is \[6\], expected a subset of 5, 7, 9, 11"
    ):
        syllabus([6])
