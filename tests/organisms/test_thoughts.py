"""Answers, read word by word against what a breadth-first search and a plan are."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from goalmeter.gridworld import State
from goalmeter.gridworld.generators import Draws, key_door, maze
from goalmeter.gridworld.world import Cell, GridWorld
from goalmeter.navigation.prompts import understood
from goalmeter.organisms import Organism, organism
from goalmeter.organisms.lessons import HORIZON, answer

CORRIDOR = GridWorld.from_text(["#####", "#A__#", "###_#", "###G#", "#####"])
STEPS = {"LEFT": (0, -1), "RIGHT": (0, 1), "UP": (-1, 0), "DOWN": (1, 0)}
Place = tuple[int, int]


def said_by(who: Organism, world: GridWorld, state: State, seed: int = 0) -> list[str]:
    target = who.target(world, state)
    assert target is not None
    return answer(target, who.blocked(world, state), state.cell, Draws("test", seed)).words


def place_of(word: str) -> Place:
    row, column = word.rstrip(":>").split(",")
    return int(row), int(column)


def beside(place: Place) -> list[Place]:
    return [(place[0] + row, place[1] + column) for row, column in STEPS.values()]


def distances(free: set[Place], target: Place) -> dict[Place, int]:
    """Steps to the target: one more than the least of the neighbours', until nothing changes."""
    steps = {place: 0 if place == target else 10**6 for place in free}
    for _ in free:
        for place in free - {target}:
            steps[place] = min([steps[to] + 1 for to in beside(place) if to in free] or [10**6])
    return {place: n for place, n in steps.items() if n < 10**6}


def turns_of(words: list[str]) -> list[tuple[Place, Place | None, list[Place]]]:
    """The turns of a search: whose it is, the cell with an angle, and the new cells."""
    turns: list[tuple[Place, Place | None, list[Place]]] = []
    for word in words:
        if word.endswith(":"):
            turns.append((place_of(word), None, []))
        elif word.endswith(">"):
            whose, before, new = turns.pop()
            assert before is None and not new
            turns.append((whose, place_of(word), []))
        else:
            turns[-1][2].append(place_of(word))
    return turns


def test_an_answer_by_hand() -> None:
    text = " ".join(said_by(organism("mouse"), CORRIDOR, State(Cell(1, 1))))
    assert text == (
        "<think> target 3,3 3,3: U 3,3> 2,3 2,3: UD 2,3> 1,3 1,3: LD 1,3> 1,2 "
        "1,2: LR 1,2> 1,1 "
        "plan 1,1 RIGHT 1,2 RIGHT 1,3 DOWN 2,3 DOWN </think> "
        '{"action": "RIGHT"} <|end|>'
    )


def test_a_turn_without_new_neighbours_says_none_and_the_last_new_cell_waits() -> None:
    # 1,2 is found, or else 2,1, before the other has its turn, which then finds nothing new.
    square = GridWorld.from_text(["#####", "#G_##", "#__##", "#A###", "#####"])
    texts = {" ".join(said_by(organism("mouse"), square, State(Cell(3, 1)), n)) for n in range(40)}
    thoughts = {text.removeprefix("<think> target 1,1 ").split(" plan")[0] for text in texts}
    assert thoughts == {
        "1,1: RD 1,1> 1,2 2,1 1,2: LD 2,1> 2,2 2,1: RUD 2,2> 3,1",
        "1,1: RD 1,1> 2,1 1,2 2,1: RUD 1,2> 2,2 3,1",
        "1,1: RD 1,1> 2,1 1,2 2,1: RUD 1,2> 3,1",
    }


def check(words: list[str], free: set[Place], target: Place, agent: Place) -> None:
    """A breadth-first search told literally, and the way that it has found, a shortest one."""
    row, column = target
    assert words[:3] == ["<think>", "target", f"{row},{column}"]
    middle, end = words.index("plan"), words.index("</think>")
    told = words[3:middle]
    # Behind each cell whose turn it is stand the moves that lead on from it.
    for word, ways in pairwise(told):
        if word.endswith(":"):
            open_ = [to in free for to in beside(place_of(word))]
            letters = [move[0] for move, is_open in zip(STEPS, open_, strict=True) if is_open]
            assert ways == "".join(letters)
    searched = [word for word in told if "," in word]
    turns = turns_of(searched)
    assert len(told) == len(searched) + len(turns)
    queue, found_from = [target], {target: target}
    for number, (whose, before, new) in enumerate(turns):
        assert whose == queue[number]
        unsaid = {place for place in beside(whose) if place in free} - set(queue)
        if number == len(turns) - 1:
            # It ends at the agent, whatever else would have been new.
            assert new[-1] == agent and set(new) <= unsaid
        else:
            assert set(new) == unsaid and agent not in new
        assert len(set(new)) == len(new)
        assert before == (queue[-1] if new else None)
        found_from |= dict.fromkeys(new, whose)
        queue += new
    # What the angles are for: whose turn is next was said right behind the one before it.
    behind = {
        (place_of(word), place_of(following))
        for word, following in pairwise(searched)
        if not word.endswith(":") and following[-1] not in ":>"
    }
    for (whose, _, _), (following, _, _) in pairwise(turns):
        assert (whose, following) in behind
    stated = words[middle + 1 : end]
    at = agent
    for word, move in zip(stated[::2], stated[1::2], strict=True):
        assert place_of(word) == at
        to = (at[0] + STEPS[move][0], at[1] + STEPS[move][1])
        assert to == found_from[at]
        at = to
    steps = distances(free, target)
    assert len(stated) == 2 * min(steps[agent], HORIZON)
    assert steps[at] == max(0, steps[agent] - HORIZON)
    assert json.loads(" ".join(words[end + 1 : -1])) == {"action": stated[1]}
    assert words[-1] == "<|end|>"


@pytest.mark.parametrize("name", ["mouse", "magpie", "mole"])
def test_every_answer_is_a_search_and_the_shortest_way_that_it_found(name: str) -> None:
    who = organism(name)
    for seed in range(6):
        for world in (maze(7, 0.4, seed).world, maze(9, 1.0, seed).world, key_door(seed)):
            state = State(world.start)
            target = who.target(world, state)
            assert target is not None
            words = said_by(who, world, state, seed)
            blocked = who.blocked(world, state)
            free = {(int(row), int(column)) for row, column in np.argwhere(~blocked)}
            check(words, free, tuple(target), tuple(world.start))
            action = understood(" ".join(words[:-1])).action
            assert action is not None and who.intended(world, state)[action] > 0
