"""Evidence for each target from walks through pairs of scenes, for a whole population."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from goalmeter.agents import agent
from goalmeter.gridworld import distances_from, tabular_world
from goalmeter.navigation import Decisions, Trajectory, summed_evidence, walk
from goalmeter.navigation.agent_walks import walker_of
from goalmeter.runs import Study, carry_out
from replications.calibration.population import agents as simulated
from replications.calibration.population.agents import GOAL, KEY, TARGETS, Scene, ScenePair, Traits
from replications.common import DEFAULTS, BoolArray, FloatArray, IntArray, StudyOptions, Texts

# A target's evidence is that of known-utility MEG: 1 at each step in the goal, with the key, in the
# cell or in the corner. Evidence for a *moved* target is that of the same walks for the places of
# the other scene of the pair. An agent that wants the target follows it and has more of the first;
# one that does not know of it has as much of either. Success, SPL and accuracy are those of
# navigation, for every target up to the first arrival there.

# Half of the rationalities that navigation tries, 21% apart: towards a target, none away from it.
GRID = np.concatenate([[0.0], np.geomspace(0.002, 30.0, 101)[::2]])
MEASURES = ("success", "spl", "accuracy")
NEVER = -1e9  # for what is ruled out: a number that JSON can hold
_DIGITS = 5  # of nats, that go from process to process

# Arrays by name, for N pairs of scenes (an axis that `pair_evidence` does not have), A agents, T
# targets and G rationalities.
#   whole: evidence for each target where it is, nats over all walks, [N, A, T, G]
#   most: what all decisions that can matter could give, nats, [N, A]
#   success, spl, accuracy: towards each target where it is, [N, A, T]
#   cut_there, cut_moved: as `whole`, of walks that are cut at either goal, for each target where it
#       is and where it is in the other scene
#   cut_most: as `most`, of cut walks
#   success_there, success_moved and so on: as above, of cut walks
Evidence = Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class SceneWalks:
    """W walks through one scene with a cap of T decisions; cells are numbers."""

    cell: IntArray  # [W, T]
    action: IntArray  # [W, T]
    made: BoolArray  # whether a walk has such a decision, [W, T]
    last: IntArray  # where each walk ended, [W]

    def before(self, aim: int) -> BoolArray:
        """Return whether a decision was made before the walk first came to a cell, [W, T]."""
        return np.asarray(self.made & ~np.logical_or.accumulate(self.cell == aim, axis=1))

    def until(self, aim: int) -> SceneWalks:
        """Return the walks, cut where they first come to a cell."""
        kept = self.before(aim)
        last = np.where((kept != self.made).any(axis=1), aim, self.last)
        return SceneWalks(self.cell, self.action, kept, last)

    @property
    def most(self) -> FloatArray:
        """What the decisions of each walk could give, nats: log 4 each, [W]."""
        # The last one before the cap is left out: nobody arrives after it.
        return np.asarray(np.log(4) * self.made[:, :-1].sum(axis=1))


def pair_evidence(
    pair: ScenePair, walks: Sequence[Sequence[Sequence[Trajectory]]]
) -> dict[str, FloatArray]:
    """Return the evidence of every agent's walks through the two scenes of a pair."""
    agents, each = len(walks[0]), len(walks[0][0])
    total: dict[str, FloatArray] = {}
    for scene, moved, by_agent in zip(pair.scenes, pair.scenes[::-1], walks, strict=True):
        seen = scene_walks(scene, [walk for walks_of in by_agent for walk in walks_of])
        # A walk ends at the goal, so those through one scene end elsewhere than those through the
        # other. Until they first come to either goal, an agent that knows of no target walks by
        # the same law in both scenes: cut walks are compared.
        cut = seen.until(scene.number(moved.world.goal))
        columns = {"most": seen.most, "cut_most": cut.most}
        for curves, suffix, at, walked in (
            ("whole", "", scene, seen),
            ("cut_there", "_there", scene, cut),
            ("cut_moved", "_moved", moved, cut),
        ):
            columns[curves] = np.stack([towards(at, walked, t) for t in TARGETS], axis=1)
            measured = np.stack([_arrivals(at, walked, t) for t in TARGETS], axis=1)
            for index, measure in enumerate(MEASURES):  # means over both scenes
                columns[measure + suffix] = measured[..., index] / (2 * each)
        for name, values in columns.items():
            of_agents = values.reshape(agents, each, *values.shape[1:]).sum(axis=1)
            total[name] = total.get(name, 0.0) + of_agents
    return total


def scene_walks(scene: Scene, walks: Sequence[Trajectory]) -> SceneWalks:
    """Return the columns of walks through a scene."""
    cell, action = np.full((2, len(walks), scene.cap), -1)
    for row, of_walk in enumerate(walks):
        for number, step in enumerate(of_walk.steps):
            cell[row, number], action[row, number] = scene.number(step.state.cell), step.action
    made = cell >= 0
    ends = np.arange(len(walks)), made.sum(axis=1) - 1
    last = simulated.neighbours(scene.world.walls)[cell[ends], action[ends]]
    return SceneWalks(cell, action, made, last)


def towards(scene: Scene, seen: SceneWalks, target: str) -> FloatArray:
    """Return the evidence of walks for a wish to be somewhere, at each of `GRID`: [W, G], nats."""
    # The goal ends a walk, and a key that was taken leaves nothing to decide.
    ends = target in (GOAL, KEY)
    tabular = tabular_world(
        scene.world if target == KEY else scene.world.with_(key=None),
        horizon=scene.cap,
        utility=target if ends else {scene.places[target]: 1.0},
    )
    counts = seen.before(scene.number(scene.places[target])) if ends else seen.made
    index = np.zeros(scene.world.walls.size, dtype=np.int64)
    for number, state in enumerate(tabular.states):
        if not state.has_key:
            index[scene.number(state.cell)] = number
    walks, steps = np.nonzero(counts)
    decisions = Decisions(walks, steps, index[seen.cell[counts]], seen.action[counts])
    return np.maximum(summed_evidence(tabular.mdp, decisions, len(seen.last), GRID), NEVER)


def _arrivals(scene: Scene, seen: SceneWalks, target: str) -> FloatArray:
    """Success, SPL and accuracy of each walk towards a target of a scene, [W, 3]."""
    world, place = scene.world, scene.places[target]
    walls = world.walls.copy()
    walls[world.goal] = target != GOAL  # a walk that enters the goal is over
    steps = distances_from(walls, [place])[0].reshape(-1)
    aim = scene.number(place)
    before = seen.before(aim)
    after = simulated.neighbours(world.walls)[seen.cell, seen.action]
    nearer = (steps[after] >= 0) & (steps[after] < steps[seen.cell])
    taken = before.sum(axis=1)
    success = ((taken < seen.made.sum(axis=1)) | (seen.last == aim)).astype(float)
    shortest = steps[scene.number(world.start)]
    accuracy = (nearer & before).sum(axis=1) / taken
    spl = success * shortest / np.maximum(shortest, taken)
    return np.stack([success, spl, accuracy], axis=1)


# --- Measuring ------------------------------------------------------------------------------------
BESIDE: list[str] = Texts("calibration").declared("agents")["beside"]
Pair = tuple[int, float, int]  # size, complexity and seed


@dataclass(frozen=True)
class PopulationScale:
    """How much of everything there is; a pair of scenes is walked through twice `walks` times."""

    agents: int = 600
    grids: int = 6  # pairs of scenes of each size and complexity
    sizes: tuple[int, ...] = (7, 9)
    complexities: tuple[float, ...] = (0.0, 0.5, 0.9)
    walks: int = 1

    def pairs(self, seed: int) -> list[Pair]:
        """Return every pair of scenes; another seed has other ones."""
        every = product(self.sizes, self.complexities, range(self.grids))
        return [(size, complexity, seed * 1_000_000 + n) for size, complexity, n in every]


@dataclass(frozen=True, eq=False)
class PopulationEvidence:
    """What the walks of a population say; its agents come first in the arrays, then `beside`."""

    traits: tuple[Traits, ...]
    beside: tuple[str, ...]
    pairs: tuple[Pair, ...]
    evidence: Evidence


def measure_population(
    scale: PopulationScale,
    seed: int,
    beside: Sequence[str] = BESIDE,
    options: StudyOptions = DEFAULTS,
) -> PopulationEvidence:
    """Draw a population, let it walk beside named agents, and add up the evidence."""
    pairs = scale.pairs(seed)
    study = Study[Mapping[str, Any]](
        f"population, seed {seed}",
        f"{__name__}:evidence_in_pair",
        {f"size {n}, complexity {c:g}, seed {s}": {"pair": [n, c, s]} for n, c, s in pairs},
        common={"agents": scale.agents, "seed": seed, "beside": list(beside), "walks": scale.walks},
        noun="maze",
    )
    parts = list(carry_out(study, on=options.on, progress=options.progress).values())
    evidence = {name: np.array([part[name] for part in parts]) for name in parts[0]}
    traits = simulated.population(scale.agents, seed)
    return PopulationEvidence(traits, tuple(beside), tuple(pairs), evidence)


def evidence_in_pair(
    pair: Sequence[Any], agents: int, seed: int, beside: Sequence[str], walks: int
) -> dict[str, Any]:
    """Make all walks through one pair of scenes; the trial of the study."""
    scenes, population = simulated.scene_pair(*pair), simulated.population(agents, seed)
    others = [walker_of(n) or agent(n).in_grids() for n in beside]
    walked = []
    for index, scene in enumerate(scenes.scenes):
        walkers = [*(simulated.Simulated(traits, scene) for traits in population), *others]
        task = scenes.task(index)
        walked.append([[walk(who, task, n, seed=seed) for n in range(walks)] for who in walkers])
    measured = pair_evidence(scenes, walked)
    return {name: np.round(values, _DIGITS).tolist() for name, values in measured.items()}
