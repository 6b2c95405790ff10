"""Lessons: the same for ever, in worlds that no suite has, and in the words of the tokenizer."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from oracles.grid_contents import content

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.conversions import compact
from goalmeter.gridworld.generators import distances_from
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import Cell, GridWorld, held_out
from goalmeter.navigation import suite
from goalmeter.organisms import ORGANISMS, organism
from goalmeter.organisms import lessons as made_lessons
from goalmeter.organisms.lessons import (
    COMPLEXITIES,
    IDS,
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


def test_what_was_taught_are_the_worlds_of_the_batches() -> None:
    of, kinds = organism("mouse"), syllabus((5, 7), keys=False)
    common = {"kinds": kinds, "seed": 0, "words": 600}
    for number in range(4):
        maps = {
            words(lesson.map).split("Agent:")[0].strip() for lesson in batch(of, number, **common)
        }
        worlds = [list(made_lessons.taught(of, [number], only=kind, **common)) for kind in kinds]
        assert sum(map(bool, worlds)) == 1
        texts = [compact(*place).split("Agent:")[0] for places in worlds for place in places]
        asked = {" ".join(text.split()) for text in texts}
        assert maps and {each.split(" ", 1)[1] for each in maps} <= asked


def test_all_organisms_learn_in_the_same_worlds() -> None:
    shared = 0
    for number in range(20):
        maps = {n: [lesson.map for lesson in lessons(n, number, words=900)] for n in ORGANISMS}
        # A habit's answers are short, so the moth has more maps of the same; where the key is the
        # target, or the agent cannot be anywhere but at it, another organism may have fewer.
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
            for question, answer in (map(words, pair) for pair in lesson.questions):
                assert question.startswith("Agent: ") and question.endswith("<|assistant|>")
                assert answer.startswith("<think>") and answer.endswith("<|end|>")


@pytest.mark.parametrize("name", ["mouse", "mole", "moth"])
def test_little_of_a_batch_is_padding_and_it_has_about_the_words_asked_for(name: str) -> None:
    filled, sizes = [], []
    for number in range(40):
        made = lessons(name, number)
        lengths = [len(q) + len(a) for lesson in made for q, a in lesson.questions]
        filled.append(sum(lengths) / (len(lengths) * max(lengths)))
        sizes.append(sum(lengths) + sum(len(lesson.map) for lesson in made))
    assert sum(filled) / len(filled) >= 0.75
    assert 1500 < sum(sizes) / len(sizes) < 2300 and max(sizes) < 3000


def place(word: str) -> Cell:
    row, column = word.split(",")
    return Cell(int(row), int(column))


def depths(lesson: Lesson) -> list[tuple[float, float]]:
    """Which share of the places of a maze is nearer to the goal than the agent, and no farther."""
    cells = [place(word) for word in words(lesson.map).split() if "," in word]
    walls = np.ones((9, 9), dtype=bool)
    for row, column in cells:
        walls[row, column] = False
    (steps,) = distances_from(walls, [cells[-1]])
    places = [steps[cell] for cell in set(cells[:-1]) - {cells[-1]}]
    away = [steps[place(words(question).split()[1])] for question, _ in lesson.questions]
    return [(float(np.mean(places < far)), float(np.mean(places <= far))) for far in away]


def test_a_batch_asks_from_about_one_depth_and_more_often_from_far() -> None:
    far, all_depths = 0, []
    for number in range(80):
        made = batch(organism("mouse"), number, kinds=[("maze", 9)], seed=0, words=500)
        if not {"Key:", "Object:"} & set(words(made[0].map).split()):  # the goal is the last cell
            asked = [depth for lesson in made for depth in depths(lesson)]
            nearest, farthest = min(high for _, high in asked), max(low for low, _ in asked)
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
        suite("maze", sizes=[5, 7, 9, 11], complexities=COMPLEXITIES, grids=20, held_out=True),
        suite("isometries", sizes=[7], complexities=[0, 0.6], grids=4, held_out=True),
        suite("key-door", grids=40, held_out=True),
        suite("key-no-door", grids=40, held_out=True, objects=["key", "neutral"]),
        suite("two-path", grids=10, held_out=True),
    ]
    evaluated = {literal(task.world) for each in suites for task in each.tasks}
    learnt = [world for number in range(100) for world in taught(number)]
    assert len(learnt) > 2500
    assert not evaluated & set(map(literal, learnt))
    # Of all contents one in four is held out, so that a lesson without the split would meet it.
    assert not any(map(held_out, learnt))


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
