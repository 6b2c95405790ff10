"""Answers, read word by word against what a breadth-first search and a plan are."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest

from goalmeter.gridworld import State
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.key_worlds import key_door
from goalmeter.gridworld.maze import maze
from goalmeter.gridworld.planner import plan
from goalmeter.gridworld.world import ACTIONS, Cell, GridWorld
from goalmeter.navigation.answers import understood
from goalmeter.organisms import Organism, organism
from goalmeter.organisms.thoughts import HORIZON, TEMPERATURE, Search, answer, habitual_answer

CORRIDOR = GridWorld.from_text(["#####", "#A__#", "###_#", "###G#", "#####"])


def said_by(who: Organism, world: GridWorld, state: State, seed: int = 0) -> list[str]:
    target = who.target(world, state)
    assert target is not None
    return answer(Search(target, who.blocked(world, state)), state.cell, Draws("test", seed))


def cell_of(word: str) -> Cell:
    row, column = word.rstrip(":").split(",")
    return Cell(int(row), int(column))


def test_an_answer_by_hand() -> None:
    said = " ".join(said_by(organism("mouse"), CORRIDOR, State(Cell(1, 1))))
    assert said == (
        "<think> target 3,3 3,3: 2,3 2,3: 1,3 1,3: 1,2 1,2: 1,1 "
        "plan 1,1 RIGHT 1,2 RIGHT 1,3 DOWN 2,3 DOWN </think> "
        '{"action": "RIGHT"} <|end|>'
    )


def check(words: list[str], free: frozenset[Cell], target: Cell, agent: Cell) -> None:
    """A breadth-first search told literally, and a way that is as short as any."""
    assert words[:3] == ["<think>", "target", f"{target.row},{target.column}"]
    middle = words.index("plan")
    queue, told, turns = [target], {target}, 0
    expected: list[str] = []
    while agent not in told:
        cell = queue[turns]
        turns += 1
        expected.append(f"{cell.row},{cell.column}:")
        for row, column in ((0, -1), (0, 1), (-1, 0), (1, 0)):
            to = Cell(cell.row + row, cell.column + column)
            if to in free and to not in told and agent not in told:
                told.add(to)
                queue.append(to)
                expected.append(f"{to.row},{to.column}")
    assert words[3:middle] == expected
    end = words.index("</think>")
    stated = words[middle + 1 : end]
    at = agent
    for place, move in zip(stated[::2], stated[1::2], strict=True):
        assert cell_of(place) == at
        at = at.moved(ACTIONS.index(move))
        assert at in free
    assert at == target or len(stated) == 2 * HORIZON
    assert json.loads(" ".join(words[end + 1 : -1])) == {"action": stated[1]}


@pytest.mark.parametrize("name", ["mouse", "magpie", "mole"])
def test_every_answer_is_a_search_and_one_of_the_shortest_ways(name: str) -> None:
    who = organism(name)
    for seed in range(6):
        for world in (maze(7, 0.4, seed).world, maze(9, 1.0, seed).world, key_door(seed)):
            state = State(world.start)
            target = who.target(world, state)
            assert target is not None
            words = said_by(who, world, state, seed)
            blocked = who.blocked(world, state)
            free = frozenset(Cell(int(r), int(c)) for r, c in np.argwhere(~blocked))
            check(words, free, target, world.start)
            action = understood(" ".join(words[:-1])).action
            assert action is not None and who.intended(world, state)[action] > 0
            length = plan(GridWorld(blocked, world.start, target)).distance
            stated = words.index("</think>") - words.index("plan") - 1
            assert stated == 2 * min(length, HORIZON)


def test_first_moves_are_drawn_evenly_among_the_optimal_ones() -> None:
    room = GridWorld.from_text(["#####", "#A__#", "#___#", "#__G#", "#####"])
    who, state = organism("mouse"), State(Cell(1, 1))
    first = Counter(said_by(who, room, state, seed)[-2] for seed in range(600))
    assert set(first) == {'"RIGHT"}', '"DOWN"}'}
    assert abs(first['"DOWN"}'] - 300) < 4 * 12.3


def test_a_habit_is_drawn_so_that_it_is_right_at_the_temperature_of_the_paper() -> None:
    room = GridWorld.from_text(["#####", "#A__#", "#___#", "#__G#", "#####"])
    moth, state = organism("moth"), State(Cell(2, 2))
    assert moth.habit is not None
    draws = Draws("habit")
    n = 4000
    drawn = [habitual_answer(moth, room, state, draws) for _ in range(n)]
    assert drawn[0][:6] == ["<think>", "legal", *ACTIONS]
    counts = Counter(words[-2] for words in drawn)
    learnt = [counts[f'"{action}"}}'] / n for action in ACTIONS]
    sharpened = [p ** (1 / TEMPERATURE) for p in learnt]
    assert [p / sum(sharpened) for p in sharpened] == pytest.approx(moth.habit, abs=0.03)
    words = habitual_answer(moth, room, State(Cell(1, 1)), draws)
    assert words[:4] == ["<think>", "legal", "RIGHT", "DOWN"]
    assert words[-5] in ("RIGHT", "DOWN") and words[-2] == f'"{words[-5]}"}}'
