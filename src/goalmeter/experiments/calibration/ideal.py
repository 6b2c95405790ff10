"""Ideal organisms: they draw each move from what the organism was made to do."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from goalmeter.agents.navigators import Decision
from goalmeter.agents.navigators.protocol import Probabilities
from goalmeter.experiments.calibration.truth import IDEAL
from goalmeter.gridworld.draws import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.plan import WalkPlan
from goalmeter.navigation.playing import Walked, play_all
from goalmeter.organisms.kinds import Organism, organism


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


def play_ideal(plan: WalkPlan, folder: Path) -> Walked:
    """Every walk of a plan for an ideal organism, kept in a folder that is gone on with.

    Raises:
        InvalidParameterError: the folder holds another run.
        InvalidFileError: the folder cannot be used.
    """
    who = IdealOrganism(plan.agent, organism(plan.agent.removeprefix(IDEAL)))
    return play_all(plan, walker=who, out=folder)


@lru_cache(maxsize=4096)
def _intended(own: Organism, world: GridWorld, state: State) -> Probabilities:
    return own.intended(world, state)
