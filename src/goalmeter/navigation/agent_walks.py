"""Walks of several agents: reference agents, language models in processes, ideal organisms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError, how_to_install
from goalmeter.agents.grid_agents import Acting, Decision
from goalmeter.agents.local_models import is_model
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.plan import NavigationOptions, WalkPlan, plan_from, plan_of
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import Walked, play_all
from goalmeter.organisms.kinds import Organism, organism
from goalmeter.runs import HERE, Study, carry_out, is_of_this_machine, keys_in
from goalmeter.runs.progress import Tell

__all__ = ["play_every", "require_models", "walk_plan", "walker_of"]

# An organism is a language model that was trained ("goalmeter/mouse"), or the ideal one
# ("ideal-mouse"), which draws each move from the distribution that the other was trained on.
IDEAL = "ideal-"


def require_models(agents: Iterable[str]) -> None:
    """Check that the packages of language models are installed, without importing them."""
    models = [agent for agent in agents if is_model(agent)]
    for name in ("inspect_ai", "torch", "transformers") if models else ():
        if find_spec(name) is None:
            raise MissingExtraError(
                f"{', '.join(models)}: language models need the package {name!r}, which is not "
                f"installed; {how_to_install('lm')}"
            )


def walk_plan(agent: str, name: str, **options: Any) -> WalkPlan:
    """Plan an agent's walks through worlds of a suite that no organism was trained on."""
    asking = Asking() if is_model(agent) else None
    return plan_of(agent, name, held_out=True, asking=asking, **options)


def play_every(
    plans: Sequence[WalkPlan], out: Path, *, on: str = HERE, progress: Tell | None = None
) -> list[Walked]:
    """Play several plans, each stored in a folder AGENT/SUITE and resumed from there."""
    trials = {
        f"{plan.agent} in {plan.suite.name}": {"run": json.dumps(plan.what), "folder": str(folder)}
        for plan, folder in ((plan, run_folder(plan, out)) for plan in plans)
        if plan.asking is not None and not plan.keys().keys() <= set(keys_in(folder))
    }
    # Each run is written by the process that asks, so other machines cannot run it.
    if on != HERE and is_of_this_machine(on) and len(trials) > 1:
        study = Study[None]("language models", f"{__name__}:ask", trials, noun="run")
        carry_out(study, on=on, progress=progress)
        progress = None
    # Models that ran in other processes have their walks in their folders by now.
    return [_play(plan, run_folder(plan, out), progress) for plan in plans]


def ask(run: str, folder: str) -> None:
    """Play every walk of a language model in a worker process; the run is JSON."""
    _play(plan_from(json.loads(run), folder), Path(folder))


def _play(plan: WalkPlan, folder: Path, progress: Tell | None = None) -> Walked:
    if plan.asking is not None:
        # Inspect takes seconds to import, and reference agents do without it.
        from goalmeter.navigation.inspect.run import ask_all

        return ask_all(plan, NavigationOptions(out=folder, progress=progress))
    return play_all(plan, walker=walker_of(plan.agent), out=folder)


def run_folder(plan: WalkPlan, out: Path) -> Path:
    """Return the run directory of a plan."""
    # A model's name has slashes; brackets and dots of an agent's options can stay.
    return out / re.sub(r"[^\w().-]", "_", plan.agent) / plan.suite.name


@dataclass(frozen=True)
class IdealOrganism:
    """A navigator that has learnt an organism's lesson perfectly."""

    name: str
    organism: Organism

    def begin(self, world: GridWorld, draws: Draws) -> Acting:
        """Set out in a world, with moves drawn from the intended distribution."""

        def act(state: State) -> Decision:
            row = _intended(self.organism, world, state)
            return Decision(draws.weighted(row), row)

        return Acting(act)


# Each state occurs in several walks, and a plan on the organism's map is made each time.
_intended = lru_cache(maxsize=4096)(Organism.intended)


def walker_of(name: str) -> IdealOrganism | None:
    """Return the navigator of an ideal organism, such as "ideal-mouse"; None for other agents."""
    is_ideal = name.startswith(IDEAL)
    return IdealOrganism(name, organism(name.removeprefix(IDEAL))) if is_ideal else None
