"""Lessons: the same for ever, in worlds that no suite has, and in the words of the tokenizer."""

from __future__ import annotations

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.text import compact
from goalmeter.navigation import suite
from goalmeter.navigation.suites import GRIDS_A_SEED
from goalmeter.organisms import ORGANISMS, organism
from goalmeter.organisms.language import IDS, VOCABULARY, tokenizer
from goalmeter.organisms.lessons import FIRST_SEED, Lesson, batch, syllabus


def lessons(name: str, number: int, **changes: float) -> list[Lesson]:
    options = {"seed": 0, "words": 2000, "progress": 0.5} | changes
    return batch(organism(name), number, kinds=syllabus(), **options)  # type: ignore[arg-type]


def words(ids: tuple[int, ...]) -> str:
    return " ".join(VOCABULARY[one] for one in ids)


def test_a_batch_is_made_of_its_number_and_the_seed() -> None:
    assert lessons("mouse", 7) == lessons("mouse", 7)
    assert lessons("mouse", 7) != lessons("mouse", 8)
    assert lessons("mouse", 7) != lessons("mouse", 7, seed=1)


def test_all_organisms_learn_in_the_same_worlds() -> None:
    for number in range(10):
        maps = {name: [lesson.map for lesson in lessons(name, number)] for name in ORGANISMS}
        assert maps["mouse"][0] == maps["magpie"][0] == maps["mole"][0]


def test_the_maps_of_a_batch_are_read_together_and_answers_end() -> None:
    for number in range(30):
        made = lessons("mouse", number)
        assert len({len(lesson.map) for lesson in made}) == 1
        for lesson in made:
            assert len(lesson.questions) == 8
            for asked, said in lesson.questions:
                assert words(asked).startswith("Agent: ") and words(asked).endswith("<|assistant|>")
                assert words(said).startswith("<think>") and words(said).endswith("<|end|>")


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


def test_no_suite_has_a_world_of_the_lessons() -> None:
    # The seeds of suites are seed * GRIDS_A_SEED + index: those of lessons begin where the run's
    # seed would have to be a million.
    assert FIRST_SEED == GRIDS_A_SEED * 1_000_000
    assert max(task.seed for task in suite("maze", grids=3, seed=5).tasks) < FIRST_SEED


def test_beginners_see_small_mazes_only_and_later_every_kind_comes() -> None:
    def sizes(progress: float) -> set[str]:
        made = (lessons("mouse", n, progress=progress)[0].map for n in range(60))
        return {words(one).split()[2] for one in made}

    assert sizes(0.0) == {"5", "7"}
    assert sizes(0.5) == {"5", "7", "9", "11"}


def test_the_syllabus_can_be_cut() -> None:
    assert syllabus([5], keys=False) == (("maze", 5),)
    assert ("key-door", 9) in syllabus([9]) and ("key-door", 9) not in syllabus([9], keys=False)
    with pytest.raises(
        InvalidParameterError, match=r"sizes is \[6\], expected some of 5, 7, 9, 11"
    ):
        syllabus([6])
