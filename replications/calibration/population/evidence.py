"""Evidence for each target from walks through pairs of scenes, for a whole population."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from goalmeter.agents.grid_agents import Navigator, navigator
from goalmeter.commands.walks import IDEAL, ideal_organism
from goalmeter.gridworld import ACTIONS, Cell, TabularWorld, tabular_world
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY
from goalmeter.gridworld.generators import distances_from
from goalmeter.navigation import Trajectory, walk
from goalmeter.navigation.rationality import RATIONALITIES, Decisions, indices_of, summed_evidence
from goalmeter.navigation.suite_definition import GRIDS_A_SEED
from goalmeter.runs import HERE, Study, carry_out
from replications.calibration.population.agents import Simulated, neighbours
from replications.calibration.population.traits import (
    TARGETS,
    Scene,
    ScenePair,
    Traits,
    population,
    scene_pair,
)
from replications.kinds import BoolArray, FloatArray, IntArray, ProgressCallback

# --- Evidence -------------------------------------------------------------------------------------
# A target's evidence is that of known-utility MEG: 1 at each step in the goal, with the key, in
# the cell or in the corner, in the world as it is. Evidence for a *moved* target is that of the
# same walks for the places of the other scene of the pair, where the target was not. Who wants
# the target follows it, and has more of the first; who does not know of it has as much of either.
#
# Success, SPL and accuracy are those of navigation, asked of every target as they are of the goal:
# up to the first arrival there.

# Half of those that navigation tries, 21% apart: towards a target, none away from it.
GRID = np.concatenate([[0.0], RATIONALITIES[(RATIONALITIES > 0)][::2]])
# Of navigation, in the order in which `arrivals` gives them.
MEASURES = ("success", "spl", "accuracy")
# Stands for what is ruled out; far below any evidence, and a number that JSON can hold.
NEVER = -1e9


@dataclass(frozen=True, eq=False)
class PairEvidence:
    """What the walks of A agents through one pair of scenes say; T targets, G rationalities.

    Attributes:
        whole: evidence for each target where it is, nats over all walks, [A, T, G].
        most: what all decisions that can matter could give, nats, [A].
        success: share of walks that come by each target, [A, T].
        spl: the same weighted by shortest path over steps taken, [A, T].
        accuracy: mean share of steps that lead nearer, until the first arrival, [A, T].
        cut_there: evidence for each target where it is, of walks that are cut at either goal,
            [A, T, G].
        cut_moved: the same where the target is in the other scene, [A, T, G].
        cut_most: what all decisions of cut walks could give, [A].
        success_there, spl_there, accuracy_there: as those above, of cut walks, [A, T].
        success_moved, spl_moved, accuracy_moved: the same where the target is in the other
            scene, [A, T].
    """

    whole: FloatArray
    most: FloatArray
    success: FloatArray
    spl: FloatArray
    accuracy: FloatArray
    cut_there: FloatArray
    cut_moved: FloatArray
    cut_most: FloatArray
    success_there: FloatArray
    spl_there: FloatArray
    accuracy_there: FloatArray
    success_moved: FloatArray
    spl_moved: FloatArray
    accuracy_moved: FloatArray


@dataclass(frozen=True, eq=False)
class SceneWalks:
    """W walks through one scene as columns over all their M decisions."""

    walk: IntArray  # number of the walk, [M]
    number: IntArray  # of the step within the walk, from 0, [M]
    cell: IntArray  # number of the cell, [M]
    action: IntArray  # what was done, [M]
    last: IntArray  # number of the cell where each walk ended, [W]


def pair_evidence(pair: ScenePair, walks: Sequence[Sequence[Sequence[Trajectory]]]) -> PairEvidence:
    """The evidence of every agent's walks through the two scenes of a pair."""
    agents, each = len(walks[0]), len(walks[0][0])
    total: dict[str, FloatArray] = {}
    for index, by_agent in enumerate(walks):
        scene, moved = pair.scenes[index], pair.scenes[1 - index]
        seen = scene_walks(scene, [walk for walks_of in by_agent for walk in walks_of])
        # Who knows of no target has as much evidence of either exactly, whatever the habit, if
        # walks are compared that are cut alike. A walk ends at the goal, so those through one scene
        # end elsewhere than those through the other; until they first come to either goal, whoever
        # knows of no target walks by the same law in both scenes.
        cut = until(seen, _number(scene, moved.world.goal))
        columns = {
            "whole": _stacked(towards(scene, seen, target) for target in TARGETS),
            "cut_there": _stacked(towards(scene, cut, target) for target in TARGETS),
            "cut_moved": _stacked(towards(moved, cut, target) for target in TARGETS),
            "most": _most(scene, seen),
            "cut_most": _most(scene, cut),
        }
        asked = {"": (scene, seen), "_there": (scene, cut), "_moved": (moved, cut)}
        for suffix, (at, walked) in asked.items():
            rows = [arrivals(at, walked, target) for target in TARGETS]
            for measure, by_target in zip(MEASURES, zip(*rows, strict=True), strict=True):
                # Means over the walks of both scenes.
                columns[measure + suffix] = _stacked(by_target) / (2 * each)
        for name, values in columns.items():
            of_agents = values.reshape(agents, each, *values.shape[1:]).sum(axis=1)
            total[name] = total.get(name, 0.0) + of_agents
    return PairEvidence(**total)


def scene_walks(scene: Scene, walks: Sequence[Trajectory]) -> SceneWalks:
    """The columns of walks through a scene."""
    columns = scene.world.shape[1]
    after = neighbours(scene.world.walls)
    lengths = [len(walk.steps) for walk in walks]
    rows = [
        (step.state.cell.row * columns + step.state.cell.column, step.action)
        for walk in walks
        for step in walk.steps
    ]
    cell, action = (np.array(column) for column in zip(*rows, strict=True))
    ends = np.cumsum(lengths) - 1
    return SceneWalks(
        walk=np.repeat(np.arange(len(walks)), lengths),
        number=np.concatenate([np.arange(length) for length in lengths]),
        cell=cell.astype(np.int64),
        action=action.astype(np.int64),
        last=after[cell[ends], action[ends].astype(np.int64)],
    )


def until(seen: SceneWalks, aim: int) -> SceneWalks:
    """Walks that are cut where they first come to a cell, by its number."""
    kept = _before_arrival(seen, aim)
    last = seen.last.copy()
    last[seen.walk[~kept]] = aim
    return SceneWalks(seen.walk[kept], seen.number[kept], seen.cell[kept], seen.action[kept], last)


def towards(scene: Scene, seen: SceneWalks, target: str) -> FloatArray:
    """The evidence of walks for a wish to be somewhere, at each of `GRID`: [W, G], nats."""
    tabular = _world_of(scene, target)
    counts = np.ones(len(seen.walk), dtype=bool)
    if target in (GOAL_UTILITY, KEY_UTILITY):
        # After an arrival there is nothing left to decide.
        counts = _before_arrival(seen, _number(scene, scene.place(target)))
    states = indices_of(tabular, seen.cell[counts])
    decisions = Decisions(seen.walk[counts], seen.number[counts], states, seen.action[counts])
    return np.maximum(summed_evidence(tabular.mdp, decisions, len(seen.last), GRID), NEVER)


def arrivals(
    scene: Scene, seen: SceneWalks, target: str
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Success, SPL and accuracy of each walk towards a target of a scene, [W] each."""
    world, place = scene.world, scene.place(target)
    walls = world.walls.copy()
    walls[world.goal] = target != GOAL_UTILITY  # a walk that enters the goal is over
    steps = distances_from(walls, [place])[0].reshape(-1)
    aim = _number(scene, place)
    before = _before_arrival(seen, aim)
    after = neighbours(world.walls)[seen.cell, seen.action]
    nearer = (steps[after] >= 0) & (steps[after] < steps[seen.cell])
    walks = len(seen.last)
    taken = np.bincount(seen.walk[before], minlength=walks)
    total = np.bincount(seen.walk, minlength=walks)
    success = ((taken < total) | (seen.last == aim)).astype(float)
    shortest = steps[_number(scene, world.start)]
    accuracy = np.bincount(seen.walk[before], nearer[before], walks) / taken
    return success, success * shortest / np.maximum(shortest, taken), accuracy


def _number(scene: Scene, cell: Cell) -> int:
    return cell.row * scene.world.shape[1] + cell.column


def _stacked(rows: Iterable[FloatArray]) -> FloatArray:
    # Targets are the second axis, behind the walks.
    return np.stack(list(rows), axis=1)


def _most(scene: Scene, seen: SceneWalks) -> FloatArray:
    # What the decisions of each walk could give: log 4 each, but for the last before the cap, after
    # which nobody arrives.
    matters = np.log(len(ACTIONS)) * (seen.number + 1 < scene.cap)
    return np.asarray(np.bincount(seen.walk, matters, len(seen.last)), dtype=float)


def _before_arrival(seen: SceneWalks, aim: int) -> BoolArray:
    """Whether a decision was made before the walk first came to a cell, [M]."""
    first = np.full(len(seen.last), np.iinfo(np.int64).max)
    there = seen.cell == aim
    np.minimum.at(first, seen.walk[there], seen.number[there])
    return np.asarray(seen.number < first[seen.walk])


def _world_of(scene: Scene, target: str) -> TabularWorld:
    # Without the key where it is not wished for, the MDP has fewer states.
    world, cap = scene.world, scene.cap
    if target == KEY_UTILITY:
        return tabular_world(world, horizon=cap, utility=KEY_UTILITY)
    utility = GOAL_UTILITY if target == GOAL_UTILITY else {scene.place(target): 1.0}
    return tabular_world(world.with_(key=None), horizon=cap, utility=utility)


# --- Measuring ------------------------------------------------------------------------------------
_FUNCTION = "replications.calibration.population.evidence:evidence_in_pair"
_DIGITS = 5  # of nats, that go from process to process
# Walked beside the population, and counted in none of its classes.
BESIDE = (
    *("ideal-mouse", "ideal-magpie", "ideal-mole", "ideal-moth"),
    *("optimal", "epsilon-optimal(0.3)", "boltzmann(1)", "key-seeker"),
    *("greedy", "random", "wall-follower"),
)


@dataclass(frozen=True)
class PopulationScale:
    """How much of everything there is."""

    agents: int = 600  # simulated ones
    grids: int = 6  # pairs of scenes of each size and complexity
    sizes: tuple[int, ...] = (7, 9)  # of mazes
    complexities: tuple[float, ...] = (0.0, 0.5, 0.9)  # of mazes
    walks: int = 1  # of every agent through each scene, of which a pair has two

    def pairs(self, seed: int) -> list[tuple[int, float, int]]:
        """Size, complexity and seed of every pair of scenes; another seed has other ones."""
        return [
            (size, complexity, seed * GRIDS_A_SEED + number)
            for size in self.sizes
            for complexity in self.complexities
            for number in range(self.grids)
        ]


@dataclass(frozen=True, eq=False)
class PopulationEvidence:
    """What the walks of a population say."""

    traits: tuple[Traits, ...]  # of the simulated agents
    beside: tuple[str, ...]  # names of the agents that walk beside them
    # size, complexity and seed of each pair of scenes, N of them
    pairs: tuple[tuple[int, float, int], ...]
    # arrays as in `PairEvidence`, with the pair as first axis: [N, A, ...]; the simulated agents
    # come first among the A
    evidence: PairEvidence


def measure_population(
    scale: PopulationScale,
    *,
    seed: int,
    beside: Sequence[str] = BESIDE,
    on: str = HERE,
    progress: ProgressCallback | None = None,
) -> PopulationEvidence:
    """Draw a population, let it walk beside named agents, and add up the evidence.

    The seed is that of agents, grids and walks; the numbers do not depend on where they run.
    """
    pairs = scale.pairs(seed)
    study = _study(scale, seed, beside)
    parts = carry_out(study, on=on, progress=progress).values()
    names = [field.name for field in fields(PairEvidence)]
    joined = PairEvidence(**{name: np.array([part[name] for part in parts]) for name in names})
    return PopulationEvidence(population(scale.agents, seed), tuple(beside), tuple(pairs), joined)


def _study(scale: PopulationScale, seed: int, beside: Sequence[str]) -> Study[Mapping[str, Any]]:
    # Each pair of scenes is a job of its own, which every agent walks through; walks are named by
    # the seed, the agent and the scene, so the numbers do not depend on how many processes there
    # are.
    return Study[Mapping[str, Any]](
        f"population, seed {seed}",
        _FUNCTION,
        {
            f"size {pair[0]}, complexity {pair[1]:g}, seed {pair[2]}": {"pair": list(pair)}
            for pair in scale.pairs(seed)
        },
        common={"agents": scale.agents, "seed": seed, "beside": list(beside), "walks": scale.walks},
        noun="maze",
    )


def evidence_in_pair(
    pair: Sequence[Any], agents: int, seed: int, beside: Sequence[str], walks: int
) -> dict[str, Any]:
    """What a worker process does: all walks through one pair of scenes."""
    scenes = scene_pair(int(pair[0]), float(pair[1]), int(pair[2]))
    traits = population(agents, seed)
    walked = []
    for index, scene in enumerate(scenes.scenes):
        task = scenes.task(index)
        walkers = [*(Simulated(agent, scene) for agent in traits), *map(_navigator, beside)]
        walked.append([[walk(who, task, n, seed=seed) for n in range(walks)] for who in walkers])
    measured = pair_evidence(scenes, walked)
    return {name: np.round(values, _DIGITS).tolist() for name, values in vars(measured).items()}


def _navigator(name: str) -> Navigator:
    return ideal_organism(name) if name.startswith(IDEAL) else navigator(name)
