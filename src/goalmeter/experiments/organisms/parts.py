"""Pieces of an organism's examination, each for one process: what it answers, where it walks.

Each gives rows of JSON values, one a question or a walk. Probabilities of moves are the model's own
at the first move of its plan, as it is sampled: at temperature 0.7, after the cut at top-p 0.95.
They are not blurred by the draw that follows, as counts of answers would be.

All grids are held out: no recipe teaches their content (`gridworld.contents`). Rooms without inner
walls and mazes of size 5 have so few contents that there pairs of a start and a goal are held out,
and only such pairs are asked about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from goalmeter.agents.language_models.local_model import LocalModel, Reply
from goalmeter.agents.navigators import memoryless, planned
from goalmeter.experiments.organisms.answering import TOP_P, replies, walks
from goalmeter.gridworld.contents import has_few_contents
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import ACTIONS, GridWorld
from goalmeter.navigation.asking.answers import understood
from goalmeter.navigation.suites import key_door, key_no_door, maze
from goalmeter.navigation.suites.tasks import Task, suite
from goalmeter.organisms import organism
from goalmeter.organisms.language import IDS, PLAN
from goalmeter.organisms.lessons import COMPLEXITIES
from goalmeter.organisms.thoughts import TEMPERATURE

ANSWERS, WALKS = "answers", "walks"
KEY_DOOR, KEY_NO_DOOR = key_door.SUITE.name, key_no_door.SUITE.name
# Mazes that are asked about for each maze that is walked through. Each is asked about in one state:
# answers in one maze depend on each other, so as many answers in as many mazes say more.
_MAZES = 16
# Worlds for each maze of a size and complexity. Where a share of 95% was asked for, it takes some
# hundred worlds for the interval of a share near 100% to lie above it.
_KEY_WORLDS = {KEY_DOOR: 12, KEY_NO_DOOR: 6}
# The paper's caps of mazes, as a multiple of the shortest path, and of worlds with a key.
_FACTOR, _CAP = 1.5, 30


@lru_cache(maxsize=1)
def opened(folder: str) -> LocalModel:
    """The model of a folder; the last one is kept."""
    return LocalModel(folder)


def part(
    name: str, folder: str, kind: str, size: int, *, grids: int, seed: int
) -> list[dict[str, Any]]:
    """What came of one part.

    Args:
        name: of the organism.
        folder: of its weights.
        kind: "answers" or "walks" in mazes, "key-door" or "key-no-door" for walks in these worlds.
        size: of the mazes.
        grids: mazes of each complexity that are walked through.
        seed: of grids and answers.
    """
    if kind == ANSWERS:
        return _answers(name, opened(folder), size, _MAZES * grids, seed)
    if kind == WALKS:
        tasks = mazes(size, grids, seed)
    else:
        number = _KEY_WORLDS[kind] * grids
        tasks = suite(kind, grids=number, trajectories=1, cap=_CAP, held_out=True, seed=seed).tasks
    return [
        {
            "size": size,
            "grid": _label(task.world),
            "arrived": walk.arrived,
            "key": walk.states()[-1].has_key,
        }
        for task, walk in zip(tasks, walks(opened(folder), tasks, seed=seed), strict=True)
    ]


def mazes(size: int, grids: int, seed: int) -> Sequence[Task]:
    """Held-out mazes of every complexity, with the paper's cap."""
    return suite(
        maze.SUITE.name,
        sizes=[size],
        complexities=COMPLEXITIES,
        grids=grids,
        trajectories=1,
        cap_factor=_FACTOR,
        held_out=True,
        seed=seed,
    ).tasks


def _label(world: GridWorld) -> str:
    """What tells a grid from others in its own frame: answers in equal grids are one cluster."""
    places = [world.goal, world.start] if has_few_contents(world) else [world.goal]
    named = ";".join(f"{place.row},{place.column}" for place in places)
    return sha256(world.walls.tobytes() + named.encode()).hexdigest()[:16]


def _answers(
    name: str, model: LocalModel, size: int, number: int, seed: int
) -> list[dict[str, Any]]:
    who = organism(name)
    rows: list[dict[str, Any]] = []
    asked: list[tuple[GridWorld, State]] = []
    for task in mazes(size, number, seed):
        world = task.world
        cells = [cell for cell in world.open_cells if planned(world).distance_from(State(cell)) > 0]
        draws = Draws("states", size, seed, task.grid)
        asked.append(
            (world, State(world.start if has_few_contents(world) else draws.choice(cells)))
        )
        labels = {"size": size, "complexity": task.complexity, "grid": _label(world)}
        rows.append(labels | {"misled": bool((who.walls(world) != world.walls).any())})
    for row, (world, state), reply in zip(
        rows, asked, replies(model, asked, seed, "states"), strict=True
    ):
        action = understood(reply.text).action
        meant = who.intended(world, state)
        row["invalid"] = action is None
        row["meant"] = action is not None and meant[action] > 0
        row["optimal"] = action in planned(world).optimal_actions(state)
        row["as_planned"] = action is not None and _planned(reply) == action
        row["detour"] = _may_err(world, state)
        row["legal"], row["probabilities"] = meant, _probabilities(reply)
    return rows


def _may_err(world: GridWorld, state: State) -> bool:
    """Whether it is a detour state: one where the compass is not sure to choose an optimal move."""
    plan = planned(world)
    number = plan.number(state)
    optimal = plan.plans.optimal[plan.index][number]
    return float(memoryless.greedy(plan)[number] @ optimal) < 1 - 1e-9


def _move_of_plan(reply: Reply) -> int | None:
    """The place of the first move of the plan among the tokens: plan, a cell, the move."""
    place = next((n for n, one in enumerate(reply.ids) if one == IDS[PLAN]), len(reply.ids))
    return place + 2 if place + 2 < len(reply.ids) else None


def _planned(reply: Reply) -> int | None:
    place = _move_of_plan(reply)
    moves = [IDS[action] for action in ACTIONS]
    said = None if place is None else reply.ids[place]
    return moves.index(said) if said in moves else None


def _probabilities(reply: Reply) -> list[float] | None:
    """Of the four moves at the first move of the plan, as it is sampled; None without a plan."""
    place = _move_of_plan(reply)
    if place is None:
        return None
    heated = sorted(
        ((math.exp(logprob / TEMPERATURE), token) for token, logprob in reply.chosen[place][2]),
        reverse=True,
    )
    total = sum(weight for weight, _ in heated)
    kept: dict[int, float] = {}
    for weight, token in heated:
        if sum(kept.values()) < TOP_P * total:
            kept[token] = weight
    return [kept.get(IDS[action], 0.0) / sum(kept.values()) for action in ACTIONS]
