"""Pieces of an organism's examination, each for one process: what it answers, where it walks.

Each gives rows of JSON values, one for each question or walk. All grids are held out: no recipe
teaches their content (`gridworld.contents`). Rooms without inner walls and mazes of size 5 have so
few contents that there pairs of a start and a goal are held out, and only such pairs are asked
about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from goalmeter.agents.language_models.local_model import LocalModel, Reply
from goalmeter.agents.language_models.sampling import Sampling
from goalmeter.agents.navigators import Decision, memoryless, planned
from goalmeter.gridworld.contents import has_few_contents
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.text import compact
from goalmeter.gridworld.world import ACTIONS, GridWorld
from goalmeter.navigation.asking.answers import understood
from goalmeter.navigation.record import Trajectory
from goalmeter.navigation.suites import key_door, key_no_door, maze
from goalmeter.navigation.suites.tasks import Task, suite
from goalmeter.navigation.walks import Episode
from goalmeter.organisms import organism
from goalmeter.organisms.language import IDS, PLAN
from goalmeter.organisms.lessons import COMPLEXITIES, SIZES
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
# The paper's cut, and more tokens than the longest answer on the largest grid has: four a cell.
_TOP_P, _TOKENS = 0.95, 350
# Prompts that are answered at once; on one core more of them take longer each.
_BATCH = 48
# Alternatives recorded with each token: the four moves are among them.
_ALTERNATIVES = 8


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


def amounts(grids: int) -> tuple[int, int]:
    """How many mazes an organism is asked about, and how many walks it makes, in all parts."""
    cells = len(SIZES) * len(COMPLEXITIES) * grids
    return _MAZES * cells, cells + sum(_KEY_WORLDS.values()) * grids


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
    # Answers in equal grids are one cluster; a grid in another frame is another grid.
    places = [world.goal, world.start] if has_few_contents(world) else [world.goal]
    named = ";".join(f"{place.row},{place.column}" for place in places)
    return sha256(world.walls.tobytes() + named.encode()).hexdigest()[:16]


def _answers(
    name: str, model: LocalModel, size: int, number: int, seed: int
) -> list[dict[str, Any]]:
    who, tasks = organism(name), mazes(size, number, seed)
    places: list[tuple[GridWorld, State]] = []
    for task in tasks:
        world = task.world
        cells = [cell for cell in world.open_cells if planned(world).distance_from(State(cell)) > 0]
        draws = Draws("states", size, seed, task.grid)
        # Where pairs of a start and a goal are held out, no other start of the world is.
        cell = world.start if has_few_contents(world) else draws.choice(cells)
        places.append((world, State(cell)))
    rows: list[dict[str, Any]] = []
    answered = replies(model, places, seed, "states")
    for task, (world, state), reply in zip(tasks, places, answered, strict=True):
        action, meant = understood(reply.text).action, who.intended(world, state)
        rows.append(
            {
                "size": size,
                "complexity": task.complexity,
                "grid": _label(world),
                "misled": bool((who.walls(world) != world.walls).any()),
                "invalid": action is None,
                "meant": action is not None and meant[action] > 0,
                "optimal": action in planned(world).optimal_actions(state),
                "as_planned": action is not None and _planned(reply) == action,
                "detour": _may_err(world, state),
                "legal": meant,
                "probabilities": _probabilities(reply),
            }
        )
    return rows


def _may_err(world: GridWorld, state: State) -> bool:
    """Whether this is a detour state: the compass may choose a move that is not optimal."""
    plan = planned(world)
    number = plan.number(state)
    optimal = plan.plans.optimal[plan.index][number]
    return float(memoryless.greedy(plan)[number] @ optimal) < 1 - 1e-9


def _move_of_plan(reply: Reply) -> int | None:
    """The place of the first move of the plan among the tokens: plan, a cell, the move."""
    place = reply.ids.index(IDS[PLAN]) if IDS[PLAN] in reply.ids else len(reply.ids)
    return place + 2 if place + 2 < len(reply.ids) else None


def _planned(reply: Reply) -> int | None:
    place = _move_of_plan(reply)
    moves = [IDS[action] for action in ACTIONS]
    move = None if place is None else reply.ids[place]
    return moves.index(move) if move in moves else None


def _probabilities(reply: Reply) -> list[float] | None:
    """The chances of the four moves as the first move of the plan; None without a plan."""
    # The model's own, at temperature 0.7 and after the cut at top-p 0.95: they are not blurred by
    # the draw that follows, as counts of answers would be.
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
        if sum(kept.values()) < _TOP_P * total:
            kept[token] = weight
    return [kept.get(IDS[action], 0.0) / sum(kept.values()) for action in ACTIONS]


# --- A model asked in many states at once, without a server --------------------------------------


def replies(
    model: LocalModel, places: Sequence[tuple[GridWorld, State]], *seed: int | str
) -> list[Reply]:
    """The answers in several states, each drawn with a seed of its own, as the paper samples."""
    prompts = []
    for number, (world, state) in enumerate(places):
        ids = model.ids([{"role": "user", "content": compact(world, state)}])
        sampling = Sampling(
            seed=Draws("answer", *seed, number).below(1 << 31),
            temperature=TEMPERATURE,
            top_p=_TOP_P,
            alternatives=_ALTERNATIVES,
        )
        prompts.append(model.prompt(ids, _TOKENS, sampling))
    # All of a batch wait for the longest answer, so those with about as much to search go together.
    order = sorted(range(len(prompts)), key=lambda n: _nearer(*places[n]))
    by_number: dict[int, Reply] = {}
    for begin in range(0, len(order), _BATCH):
        numbers = order[begin : begin + _BATCH]
        by_number |= dict(zip(numbers, model.answers([prompts[n] for n in numbers]), strict=True))
    return [by_number[number] for number in range(len(prompts))]


def _nearer(world: GridWorld, state: State) -> int:
    """How many states are nearer to the goal: a search from there meets them first."""
    plan = planned(world)
    steps = plan.plans.distances[plan.index]
    return int(((steps >= 0) & (steps < steps[plan.number(state)])).sum())


def walks(model: LocalModel, tasks: Sequence[Task], *, seed: int = 0) -> list[Trajectory]:
    """A walk through each task, all of them step by step at the same time."""
    episodes = [Episode(task) for task in tasks]
    step = 0
    while going := [episode for episode in episodes if not episode.over]:
        places = [(episode.task.world, episode.state) for episode in going]
        for episode, reply in zip(going, replies(model, places, seed, "walk", step), strict=True):
            answer = understood(reply.text)
            invalid = None if answer.action is not None else answer.invalid
            episode.take(Decision(answer.action, raw=reply.text, invalid=invalid))
        step += 1
    return [episode.trajectory(0) for episode in episodes]
