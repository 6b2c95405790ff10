"""A population in its scenes: who walks where, and the evidence of all of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from goalmeter.agents.navigators import Navigator, navigator
from goalmeter.experiments.calibration.players import ideal_organism
from goalmeter.experiments.calibration.population.agents import Simulated
from goalmeter.experiments.calibration.population.evidence import PairEvidence, pair_evidence
from goalmeter.experiments.calibration.population.scenes import scene_pair
from goalmeter.experiments.calibration.population.traits import Traits, population
from goalmeter.experiments.calibration.truth import IDEAL
from goalmeter.navigation.suites.options import GRIDS_A_SEED
from goalmeter.navigation.walks import walk
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.runs.forecast import Forecast, unmeasured
from goalmeter.runs.progress import Tell

_FUNCTION = "goalmeter.experiments.calibration.population.measuring:evidence_in_pair"
_DIGITS = 5  # of nats, that go from process to process
# Walked beside the population, and counted in none of its classes.
BESIDE = (
    *("ideal-mouse", "ideal-magpie", "ideal-mole", "ideal-moth"),
    *("optimal", "epsilon-optimal(0.3)", "boltzmann(1)", "key-seeker"),
    *("greedy", "random", "wall-follower"),
)


@dataclass(frozen=True)
class PopulationScale:
    """How much of everything there is.

    Attributes:
        agents: simulated ones.
        grids: pairs of scenes of each size and complexity.
        sizes: of mazes.
        complexities: of mazes.
        walks: of every agent through each scene, of which a pair has two.
    """

    agents: int = 600
    grids: int = 6
    sizes: tuple[int, ...] = (7, 9)
    complexities: tuple[float, ...] = (0.0, 0.5, 0.9)
    walks: int = 1

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
    """What the walks of a population say.

    Attributes:
        traits: of the simulated agents.
        beside: names of the agents that walk beside them.
        pairs: size, complexity and seed of each pair of scenes, N of them.
        evidence: arrays as in `PairEvidence`, with the pair as first axis: [N, A, ...]; the
            simulated agents come first among the A.
    """

    traits: tuple[Traits, ...]
    beside: tuple[str, ...]
    pairs: tuple[tuple[int, float, int], ...]
    evidence: PairEvidence


def measure_population(
    scale: PopulationScale,
    *,
    seed: int,
    beside: Sequence[str] = BESIDE,
    on: str = HERE,
    progress: Tell | None = None,
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


def forecast(scale: PopulationScale, *, seed: int, on: str = HERE) -> Forecast:
    """How much `measure_population` will do, which keeps nothing before its end."""
    study = _study(scale, seed, BESIDE)
    walkers = scale.agents + len(BESIDE)
    return unmeasured(
        study,
        "every agent walks through both scenes of a maze: how long a maze takes depends on its "
        "size and walls, and is not known from another one; nothing is kept before the last one",
        on=on,
        counted={"walks": 2 * len(study.trials) * walkers * scale.walks},
    )


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
    """What a worker process does: all walks through one pair of scenes.

    Returns:
        The fields of `PairEvidence` as lists.
    """
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
