"""Lessons: the same for ever, in worlds that no suite has, and in the words of the tokenizer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from oracles.grid_contents import content

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.paths import distances_from
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.text import compact
from goalmeter.navigation import suite
from goalmeter.organisms import ORGANISMS, organism
from goalmeter.organisms.language import IDS, VOCABULARY, tokenizer
from goalmeter.organisms.lessons import COMPLEXITIES, Lesson, batch, syllabus


def lessons(name: str, number: int, *, seed: int = 0, words: int = 2200) -> list[Lesson]:
    return batch(organism(name), number, kinds=syllabus(), seed=seed, words=words)


def words(ids: tuple[int, ...]) -> str:
    return " ".join(VOCABULARY[one] for one in ids)


def test_a_batch_is_made_of_its_number_and_the_seed() -> None:
    assert lessons("mouse", 7) == lessons("mouse", 7)
    assert lessons("mouse", 7) != lessons("mouse", 8)
    assert lessons("mouse", 7) != lessons("mouse", 7, seed=1)


def test_all_organisms_learn_in_the_same_worlds() -> None:
    shared = 0
    for number in range(20):
        maps = {name: [one.map for one in lessons(name, number, words=900)] for name in ORGANISMS}
        # A habit's answers are short, so the moth has more maps of the same; where the key is the
        # target, or the agent cannot be anywhere but at it, one of the others may have fewer.
        assert maps["mouse"][0] == maps["magpie"][0] == maps["mole"][0] == maps["moth"][0]
        assert set(maps["mouse"]) <= set(maps["moth"])
        shared += maps["mouse"] == maps["magpie"] == maps["mole"]
    assert shared >= 18


def test_the_maps_of_a_batch_are_read_together_and_answers_end() -> None:
    for number in range(30):
        made = lessons("mouse", number)
        assert len({len(lesson.map) for lesson in made}) == 1
        for lesson in made:
            assert len(lesson.questions) == 2
            for asked, said in lesson.questions:
                assert words(asked).startswith("Agent: ") and words(asked).endswith("<|assistant|>")
                assert words(said).startswith("<think>") and words(said).endswith("<|end|>")


@pytest.mark.parametrize("name", ["mouse", "mole", "moth"])
def test_little_of_a_batch_is_padding_and_it_has_about_the_words_asked_for(name: str) -> None:
    filled, sizes = [], []
    for number in range(60):
        made = lessons(name, number)
        lengths = [len(asked) + len(said) for one in made for asked, said in one.questions]
        filled.append(sum(lengths) / (len(lengths) * max(lengths)))
        sizes.append(sum(lengths) + sum(len(one.map) for one in made))
    assert sum(filled) / len(filled) >= 0.75
    assert 1500 < sum(sizes) / len(sizes) < 2300 and max(sizes) < 3000


def depths(lesson: Lesson) -> list[tuple[float, float]]:
    """Which share of the places of a maze is nearer to the goal than the agent, and no farther."""
    said = words(lesson.map).split()
    cells = [tuple(map(int, w.split(","))) for w in said if "," in w]
    walls = np.ones((9, 9), dtype=bool)
    for row, column in cells:
        walls[row, column] = False
    (steps,) = distances_from(walls, [cells[-1]])
    places = [steps[cell] for cell in set(cells[:-1]) - {cells[-1]}]
    at = [words(asked).split()[1].split(",") for asked, _ in lesson.questions]
    own = [steps[int(row), int(column)] for row, column in at]
    return [(float(np.mean(places < one)), float(np.mean(places <= one))) for one in own]


def test_a_batch_asks_from_about_one_depth_and_more_often_from_far() -> None:
    far, all_depths = 0, []
    for number in range(80):
        made = batch(organism("mouse"), number, kinds=[("maze", 9)], seed=0, words=500)
        said = words(made[0].map).split()
        if not {"Key:", "Object:"} & set(said):  # then the last cell of a map is the goal
            found = [one for lesson in made for one in depths(lesson)]
            nearest, farthest = min(high for _, high in found), max(low for low, _ in found)
            assert farthest - nearest <= 0.25
            far += farthest > 0.4
            all_depths.append(farthest)
    assert min(all_depths) < 0.1 and max(all_depths) > 0.9
    # A depth is drawn evenly, or with the same chance evenly from the farther half.
    assert far / len(all_depths) > 0.6


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


def literal(opened: list[tuple[int, int]], goal: tuple[int, int], agent: tuple[int, int]) -> object:
    """What a question contains: walls and goal, and where these are few also the agent's cell."""
    side = max(row for row, _ in opened) + 2
    empty = len(opened) == (side - 2) ** 2
    named = [goal, agent] if side == 5 or empty else [goal]
    return content(side, opened, *named)


def place(word: str) -> tuple[int, int]:
    row, column = word.split(",")
    return int(row), int(column)


def taught(number: int) -> list[object]:
    """The contents of a batch, read off the words of its prompts alone."""
    out = []
    for lesson in lessons("moth", number, words=2600):
        said = words(lesson.map).split()
        things = next(n for n, word in enumerate(said) if word == "Goal:")
        # A shut door is an open cell to the walls; "Open:" lists it as `compact` does.
        opened = [place(word) for word in said[said.index("Open:") + 1 : things] if "," in word]
        if "Door:" in said and (door := place(said[said.index("Door:") + 1])) not in opened:
            opened.append(door)
        goal = place(said[things + 1])
        for asked, _ in lesson.questions:
            out.append(literal(opened, goal, place(words(asked).split()[1])))
    return out


def test_no_evaluation_has_a_content_that_ten_thousand_lessons_had() -> None:
    suites = [
        suite("maze", sizes=[5, 7, 9, 11], complexities=COMPLEXITIES, grids=20, held_out=True),
        suite("isometries", sizes=[7], complexities=[0, 0.6], grids=4, held_out=True),
        suite("key-door", grids=40, held_out=True),
        suite("key-no-door", grids=40, held_out=True, objects=["key", "neutral"]),
        suite("two-path", grids=10, held_out=True),
    ]
    evaluated = {
        literal(list(task.world.open_cells), task.world.goal, task.world.start)
        for one in suites
        for task in one.tasks
    }
    number, learnt = 0, []
    while len(learnt) < 10_000:
        learnt += taught(number)
        number += 1
    assert not evaluated & set(learnt)
    # Without the split they meet: most mazes of size 7 and all rooms are among so many lessons.
    meets = [
        literal(list(task.world.open_cells), task.world.goal, task.world.start) in set(learnt)
        for task in suite("maze", sizes=[5, 7], complexities=[0, 1], grids=20).tasks
    ]
    assert sum(meets) / len(meets) > 0.4


def test_no_lesson_has_two_paths() -> None:
    assert {kind for kind, _ in syllabus()} == {"maze", "key-door"}


def test_every_kind_of_world_comes_as_often_as_the_syllabus_says() -> None:
    sizes = Counter(words(lessons("moth", n, words=1)[0].map).split()[2] for n in range(400))
    # Mazes and key worlds are of size 9.
    for size, share in (("5", 0.05), ("7", 0.12), ("9", 0.39), ("11", 0.44)):
        assert sizes[size] / 400 == pytest.approx(share, abs=0.1)


def test_the_syllabus_can_be_cut() -> None:
    assert syllabus([5], keys=False) == (("maze", 5),)
    assert ("key-door", 9) in syllabus([9]) and ("key-door", 9) not in syllabus([9], keys=False)
    with pytest.raises(
        InvalidParameterError, match=r"sizes is \[6\], expected some of 5, 7, 9, 11"
    ):
        syllabus([6])
