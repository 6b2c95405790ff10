"""The walks of every agent in every suite, kept in run folders that are gone on with.

Reference agents walk as they do for `goalmeter navigate`, models are asked as there. An ideal
organism is none of them: it draws from what the organism was made to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from goalmeter.agents.navigators import Decision
from goalmeter.agents.navigators.protocol import Probabilities
from goalmeter.experiments.calibration.truth import IDEAL
from goalmeter.experiments.model_options import ROUNDS, ModelOptions
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.asking import is_model
from goalmeter.navigation.kept import ended_walks
from goalmeter.navigation.plan import Plan, plan_of
from goalmeter.navigation.playing import Walked, play_all, store_of
from goalmeter.navigation.walks import walk
from goalmeter.organisms.kinds import Organism, organism

MAZE, KEY_DOOR, KEY_NO_DOOR, TWO_PATH = "maze", "key-door", "key-no-door", "two-path"
SUITES = (MAZE, KEY_NO_DOOR, TWO_PATH, KEY_DOOR)
WALKS = 5  # through each world: what an agent does is told from several answers in a state
_SIZES, _COMPLEXITIES = (7, 9), (0.0, 0.5, 1.0)
KEY_WORLDS_A_GRID = 4  # worlds with a key for each grid of a size and complexity


@dataclass(frozen=True)
class IdealOrganism:
    """A navigator that has learnt an organism's lesson perfectly."""

    name: str
    organism: Organism

    def begin(self, world: GridWorld, draws: Draws) -> IdealWalk:
        """Set out in a world."""
        return IdealWalk(self.organism, world, draws)


@dataclass(frozen=True)
class IdealWalk:
    """A walk whose moves are drawn from what is intended."""

    organism: Organism
    world: GridWorld
    draws: Draws

    def act(self, state: State) -> Decision:
        """A move drawn from the intended distribution."""
        row = _intended(self.organism, self.world, state)
        return Decision(self.draws.weighted(row), row)


def plan_for(agent: str, suite: str, *, grids: int, seed: int) -> Plan:
    """The walks of an agent in a suite; every agent has the same worlds.

    Args:
        agent: its name, as `truth.subject` spells it.
        suite: one of `SUITES`.
        grids: of each size and complexity.
        seed: of grids and walks.
    """
    scale: dict[str, Any] = {"grids": KEY_WORLDS_A_GRID * grids}
    if suite == MAZE:
        scale = {"grids": grids, "sizes": _SIZES, "complexities": _COMPLEXITIES}
    asking = ModelOptions().asking(agent, suite, paper=False) if is_model(agent) else None
    return plan_of(agent, suite, trajectories=WALKS, seed=seed, asking=asking, **scale)


def play(plan: Plan, out: Path, progress: Callable[[str], None] | None = None) -> Walked:
    """Every walk of a plan; those that its folder below `out` holds are not taken again.

    Raises:
        InvalidParameterError: the folder holds another run.
        InvalidFileError: the folder cannot be used.
        MissingExtraError: a language model is named, and inspect_ai is not installed.
    """
    folder = out / "walks" / re.sub(r"[^\w().-]", "_", plan.agent) / plan.suite.name
    if plan.asking is not None:
        from goalmeter.navigation.inspect_run import ask_all

        return ask_all(
            plan, out=folder, server=ModelOptions().server(), rounds=ROUNDS, progress=progress
        )
    if plan.agent.startswith(IDEAL):
        return _play_ideal(plan, folder)
    return play_all(plan, out=folder)


def _play_ideal(plan: Plan, folder: Path) -> Walked:
    who = IdealOrganism(plan.agent, organism(plan.agent.removeprefix(IDEAL)))
    wanted = plan.keys()
    with store_of(plan, folder) as store:
        done = ended_walks(store.values, wanted, store.folder)
        for key, (task, index) in wanted.items():
            if key not in done:
                done[key] = walk(who, task, index, seed=plan.options["seed"])
                store.add(key, done[key].to_json())
    return Walked(plan, tuple(done[key] for key in wanted))


@lru_cache(maxsize=4096)
def _intended(own: Organism, world: GridWorld, state: State) -> Probabilities:
    return own.intended(world, state)
