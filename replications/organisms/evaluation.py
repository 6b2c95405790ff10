"""Evaluate an organism: its answers and walks, and grades against its targets.

Each part runs in one process; `grades` combines the rows of all parts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np

from goalmeter.agents import Decision, grid_agents
from goalmeter.agents.local_models import LocalModel, Reply, Sampling
from goalmeter.gridworld import ACTIONS, Draws, GridWorld, State
from goalmeter.gridworld.conversions import compact
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import has_few_contents
from goalmeter.navigation import Episode, Task, Trajectory, suite, suites
from goalmeter.navigation.prompts import understood
from goalmeter.organisms import organism
from goalmeter.organisms.lessons import COMPLEXITIES, IDS, PLAN, SIZES, TEMPERATURE
from goalmeter.statistics import Estimate, estimate
from replications.kinds import FloatArray

# --- Parts ----------------------------------------------------------------------------------------
# Each gives rows of JSON values, one for each question or walk. All grids are held out: no recipe
# teaches their content (`gridworld.contents`). Rooms without inner walls and mazes of size 5 have
# so few contents that there pairs of a start and a goal are held out, and only such pairs are
# asked about.

ANSWERS, WALKS = "answers", "walks"
KEY_DOOR, KEY_NO_DOOR = suites.KEY_DOOR.name, suites.KEY_NO_DOOR.name
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
    """What came of one part."""
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
        suites.MAZE.name,
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
    return float(grid_agents.greedy(plan)[number] @ optimal) < 1 - 1e-9


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


# --- Grading --------------------------------------------------------------------------------------
Row = dict[str, Any]
# By the kind of a part and the size of its grids.
Rows = Mapping[tuple[str, int], Sequence[Row]]
_SHARE, _DIFFERENCE = (0.0, 1.0), (-1.0, 1.0)
_LARGEST = max(SIZES)
# An optimum on a false map is markedly worse on the true one if it is so many points behind there.
MARKEDLY = 0.1


@dataclass(frozen=True)
class Grades:
    """An organism's marks; shares with intervals over grids."""

    # actions that it was meant to take, by (size, complexity)
    meant: dict[tuple[int, float], Estimate]
    # actions that are optimal in the true world, by (size, complexity)
    optimal: dict[tuple[int, float], Estimate]
    by_size: dict[int, Estimate]  # actions that it was meant to take, by size
    # actions that it was meant to take, in states where the compass may err, by size
    detour: dict[int, Estimate]
    success: dict[int, Estimate]  # walks that arrive within the paper's cap, by size
    detours: Estimate  # as `detour`, on all sizes together
    arrives: Estimate  # as `success`, on all sizes together
    own_map: Estimate  # actions that it was meant to take, on all sizes together
    # by how much more of its actions it was meant to take than are optimal in truth, in mazes of
    # which it has a false map; of no mazes for those with a true one
    misled: Estimate
    key_door: Estimate  # walks that arrive where a door is shut
    pick_up: Estimate  # walks that take the key where it is of no use
    as_planned: Estimate  # answers whose action is the first move of their plan
    # the greatest difference between the probability of a move and the habit's, in states with the
    # same legal moves, averaged over states; of no states without a habit
    habit: Estimate
    invalid: Estimate  # answers that cannot be read
    invalid_by_size: dict[int, Estimate]  # the same, by size

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values; what is by size and complexity is a list."""
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: Estimate | dict[Any, Estimate]) -> dict[str, Any] | list[dict[str, Any]]:
    if isinstance(value, Estimate):
        return value.to_json()
    keys = [key if isinstance(key, tuple) else (key,) for key in value]
    return [
        dict(zip(("size", "complexity"), key, strict=False)) | estimate.to_json()
        for key, estimate in zip(keys, value.values(), strict=True)
    ]


def grades(rows: Rows, *, habitual: bool) -> Grades:
    """The marks that the rows of all parts give."""
    answers = [row for (kind, _), part in rows.items() if kind == ANSWERS for row in part]
    walks = {size: part for (kind, size), part in rows.items() if kind == WALKS}
    with_keys = {kind: part for (kind, _), part in rows.items() if kind in (KEY_DOOR, KEY_NO_DOOR)}
    detours = [row for row in answers if row["detour"]]
    by_cell: dict[tuple[int, float], list[Row]] = defaultdict(list)
    for row in answers:
        by_cell[row["size"], row["complexity"]].append(row)

    def of_size(part: Sequence[Row], size: int) -> list[Row]:
        return [row for row in part if row["size"] == size]

    return Grades(
        meant={cell: _share(part, "meant") for cell, part in by_cell.items()},
        optimal={cell: _share(part, "optimal") for cell, part in by_cell.items()},
        by_size={size: _share(of_size(answers, size), "meant") for size in walks},
        detour={size: _share(of_size(detours, size), "meant") for size in walks},
        success={size: _share(part, "arrived") for size, part in walks.items()},
        detours=_share(detours, "meant"),
        arrives=_share([row for part in walks.values() for row in part], "arrived"),
        own_map=_share(answers, "meant"),
        misled=_pooled(
            [row for row in answers if row["misled"]],
            lambda row: float(row["meant"]) - float(row["optimal"]),
            _DIFFERENCE,
        ),
        key_door=_share(with_keys[KEY_DOOR], "arrived"),
        pick_up=_share(with_keys[KEY_NO_DOOR], "key"),
        as_planned=_share(answers, "as_planned"),
        habit=_habit_gap(answers if habitual else []),
        invalid=_share(answers, "invalid"),
        invalid_by_size={size: _share(of_size(answers, size), "invalid") for size in walks},
    )


def _share(rows: Sequence[Row], name: str) -> Estimate:
    return _pooled(rows, lambda row: float(row[name]), _SHARE)


def _pooled(
    rows: Sequence[Row], value: Callable[[Row], float], bounds: tuple[float, float]
) -> Estimate:
    """The mean over rows; those of equal grids are one cluster."""
    by_grid: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_grid[row["grid"]].append(value(row))
    sums, numbers = list(map(sum, by_grid.values())), list(map(len, by_grid.values()))
    # Each question is of a world that was drawn anew, so an unseen world has no part in more
    # questions than worlds have on average, however often few worlds came up.
    heaviest = np.mean(numbers) if numbers else 0.0
    return estimate(sums, numbers, heaviest=heaviest, n=sum(numbers), bounds=bounds)


def _habit_gap(answers: Sequence[Row]) -> Estimate:
    """The greatest difference of the moves' probabilities from the habit, averaged over states."""
    # Probabilities and not moves are averaged, and over all states with the same legal moves: the
    # greatest difference of few counted moves would be large by chance.
    rows = [row for row in answers if row["probabilities"] is not None]
    if not rows:
        return Estimate(float("nan"), None, 0, 0)
    _, cluster = np.unique([row["grid"] for row in rows], return_inverse=True)
    meant, kind = np.unique([row["legal"] for row in rows], axis=0, return_inverse=True)
    clusters = int(cluster.max()) + 1
    # Of each grid and each set of legal moves, the sum of probabilities and how many were added.
    sums = np.zeros((clusters, len(meant), len(meant[0]) + 1))
    np.add.at(sums, (cluster, kind.ravel()), [[*row["probabilities"], 1.0] for row in rows])

    def gap(weights: FloatArray) -> FloatArray:
        added = np.einsum("rc,ckm->rkm", weights, sums)
        number = added[..., -1]
        means = added[..., :-1] / np.maximum(number, 1.0)[..., None]
        farthest = np.abs(means - meant).max(axis=2)
        return np.asarray((farthest * number).sum(axis=1) / number.sum(axis=1))

    value = float(gap(np.ones((1, clusters)))[0])
    if clusters < 2:
        return Estimate(value, None, len(rows), clusters)
    # Grids are resampled. A greatest difference is never negative, so resampling moves it up and
    # the interval errs on the side of too large a distance.
    drawn = np.random.default_rng(0).multinomial(clusters, np.full(clusters, 1 / clusters), 1000)
    low, high = np.quantile(gap(drawn.astype(float)), [0.025, 0.975])
    return Estimate(value, (float(low), float(high)), len(rows), clusters)


# --- What was asked of the organisms before they were trained ------------------------------------


@dataclass(frozen=True)
class Target:
    """A number that an organism was to reach."""

    organism: str  # its name
    measure: str  # what the number is, in words
    bound: float  # what was asked for; the end of the interval that is nearer to it has to reach it
    value: Callable[[Grades], Estimate]  # the number, of grades
    below: bool = False  # whether it is to be below the bound, and not at least as large
    # what the number itself was to be at least, where more was asked of it than of the end of its
    # interval
    itself: float | None = None

    @property
    def asked(self) -> str:
        """The bound in words."""
        asked = f"{'<' if self.below else '≥'} {100 * self.bound:g}%"
        if self.itself is None:
            return asked
        return f"≥ {100 * self.itself:g}%, its interval {asked}"

    def reached(self, grades: Grades) -> bool:
        """Whether the whole interval has; without an interval nothing is reached."""
        estimate = self.value(grades)
        if estimate.interval is None:
            return False
        low, high = estimate.interval
        if self.below:
            return high < self.bound
        return low >= self.bound and (self.itself is None or estimate.value >= self.itself)


def _worst(estimates: Iterable[Estimate]) -> Estimate:
    """The least share; among equal shares, the one whose interval goes down farthest."""

    def key(estimate: Estimate) -> tuple[float, float]:
        return estimate.value, estimate.interval[0] if estimate.interval else -math.inf

    return min(estimates, key=key)


def _smaller(grades: Grades) -> Estimate:
    """The worst of size 5 as a whole and of each size and complexity between it and the largest."""
    # Size 5 has 20 held-out contents in all, and only 3 of them are rooms: too few for an interval
    # of each complexity.
    between = [share for (size, _), share in grades.meant.items() if min(SIZES) < size < _LARGEST]
    return _worst([grades.by_size[min(SIZES)], *between])


def _largest(grades: Grades) -> Estimate:
    return _worst(share for (size, _), share in grades.meant.items() if size == _LARGEST)


def _invalid(name: str) -> Target:
    return Target(name, "invalid answers", 0.005, lambda grades: grades.invalid, below=True)


TARGETS: tuple[Target, ...] = (
    Target(
        "mouse",
        "actions as meant on sizes 5 to 9, the worst size and complexity (5: all)",
        0.95,
        _smaller,
    ),
    Target(
        "mouse",
        "actions as meant on size 11, the worst complexity",
        0.90,
        _largest,
        itself=0.92,
    ),
    Target("mouse", "actions as meant in detour states", 0.85, lambda grades: grades.detours),
    Target("mouse", "mazes in which it arrives", 0.95, lambda grades: grades.arrives),
    Target("mouse", "key-door worlds in which it arrives", 0.95, lambda grades: grades.key_door),
    _invalid("mouse"),
    Target(
        "magpie", "key-no-door worlds where it takes the key", 0.90, lambda grades: grades.pick_up
    ),
    _invalid("magpie"),
    Target("mole", "actions optimal on its own map", 0.90, lambda grades: grades.own_map),
    Target(
        "mole",
        "how many fewer are optimal on the true map, in mazes that it has wrong",
        MARKEDLY,
        lambda grades: grades.misled,
    ),
    _invalid("mole"),
    Target(
        "moth",
        "distance of its moves from the habit",
        0.02,
        lambda grades: grades.habit,
        below=True,
    ),
    _invalid("moth"),
)
