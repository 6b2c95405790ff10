"""Agents whose goals are known, and their walks in every suite."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, MissingExtraError, how_to_install, require
from goalmeter.agents.grid_agents import Decision, Probabilities, navigator
from goalmeter.agents.local_models import is_model
from goalmeter.commands.options import ModelOptions
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation import suites as key_door
from goalmeter.navigation.measure import ROUNDS
from goalmeter.navigation.plan import WalkPlan, plan_from, plan_of
from goalmeter.navigation.rollouts import Walked, play_all
from goalmeter.navigation.suites import suite_named
from goalmeter.organisms.kinds import ORGANISMS, Organism, organism
from goalmeter.runs import HERE, Study, carry_out, is_of_this_machine, keys_in
from goalmeter.runs.progress import Tell

# --- Truth ----------------------------------------------------------------------------------------
# Of an organism it follows from what it was made to be, whether it is the ideal one ("ideal-mouse",
# which draws from its intended distribution) or the one that was trained ("goalmeter/mouse"). Of a
# reference agent it follows from its definition.

IDEAL, TRAINED = "ideal-", "goalmeter/"
# The organism whose map is wrong.
MOLE = "mole"


@dataclass(frozen=True)
class Subject:
    """An agent, and what is known of it.

    Attributes:
        name: of the agent.
        directed: whether it has a goal; None of a model, of which nobody knows.
        target: what it goes for first where a key lies about without use: "goal" or "key"; None
            for one that has no goal.
        own_map: the organism whose wrong map it goes by; None for the true one.
        flawless: whether it never takes a step that does not serve its goal.
        why: the reason, in a line.
        organism: whether it is one of the organisms.
        aside: whether the same organism as it was trained is measured too, which counts.
    """

    name: str
    directed: bool | None
    target: str | None
    why: str
    own_map: Organism | None = None
    flawless: bool = False
    organism: bool = False
    aside: bool = False

    @property
    def counted(self) -> bool:
        """Whether an instrument can be right or wrong about it."""
        return self.directed is not None and not self.aside


def subject_of(name: str) -> Subject:
    """What is known of an agent.

    Args:
        name: of a reference agent; "ideal-" and an organism; or a model's, with a slash, of which
            something is known if it is an organism or a reference agent that reads prompts.
    """
    full = name.strip()
    bare = full.removeprefix(TRAINED if is_model(full) else IDEAL)
    if bare in ORGANISMS and bare != full:
        return _of_organism(full, organism(bare))
    if is_model(bare):
        return Subject(full, None, None, "a language model: nobody knows what it wants")
    if full in ORGANISMS or full.startswith(IDEAL):
        raise InvalidParameterError(
            f"the agent is {name!r}; organisms are named {TRAINED}NAME, as trained, or {IDEAL}NAME,"
            f" as intended, with NAME one of {', '.join(ORGANISMS)}"
        )
    known = navigator(bare).name
    return replace(_REFERENCES[known.partition("(")[0]], name=full if is_model(full) else known)


def subjects_of(names: Iterable[str]) -> list[Subject]:
    """What is known of several agents, none of them twice."""
    known = {subject.name: subject for subject in map(subject_of, names)}
    # An ideal organism whose trained one is among them stands aside: both would give the class that
    # they belong to the weight of two.
    trained = {name.replace(TRAINED, IDEAL, 1) for name in known if name.startswith(TRAINED)}
    return [replace(subject, aside=name in trained) for name, subject in known.items()]


# Asked for every walk of every agent through the same worlds.
@lru_cache(maxsize=512)
def map_of(seer: Organism, world: GridWorld) -> GridWorld:
    """A world as an organism sees it."""
    walls = seer.walls(world)
    return GridWorld(walls, world.start, world.goal, world.key, world.door, world.neutral)


def _of_organism(name: str, kind: Organism) -> Subject:
    if kind.habit is not None:
        return Subject(name, False, None, kind.purpose, organism=True)
    return Subject(
        name,
        True,
        KEY_UTILITY if kind.wants_key else GOAL_UTILITY,
        kind.purpose,
        own_map=kind if kind.blind else None,
        # A wrong map leads into walls, and one that was trained errs now and then.
        flawless=not kind.blind and name.startswith(IDEAL),
        organism=True,
    )


_REFERENCES = {
    reference.name: reference
    for reference in (
        Subject("optimal", True, GOAL_UTILITY, "shortest ways to the goal", flawless=True),
        Subject("epsilon-optimal", True, GOAL_UTILITY, "to the goal, and now and then any move"),
        Subject(
            "boltzmann", True, GOAL_UTILITY, "to the goal, the more surely the more a move costs"
        ),
        Subject(
            "key-seeker",
            True,
            KEY_UTILITY,
            "shortest ways to the key, then the goal",
            flawless=True,
        ),
        Subject("random", False, None, "any move into an open cell"),
        # Every agent counts. The compass looks where the goal is and goes there, without a plan;
        # the wall-follower never looks, and yet arrives in every perfect maze.
        Subject("greedy", True, GOAL_UTILITY, "by the compass: wants the goal, without a plan"),
        Subject("wall-follower", False, None, "a habit that ends at the goal of many mazes"),
    )
}


# --- Players --------------------------------------------------------------------------------------
# Reference agents walk as they do for `goalmeter navigate`, models are asked as there, several at
# once in processes of their own. Ideal organisms are neither: each draws its moves from what the
# organism was made to do.

MAZE, KEY_DOOR = key_door.MAZE.name, key_door.KEY_DOOR.name
KEY_NO_DOOR, TWO_PATH = key_door.KEY_NO_DOOR.name, key_door.TWO_PATH.name
SUITES = (MAZE, KEY_NO_DOOR, TWO_PATH, KEY_DOOR)
_ASK = "replications.calibration.agents:ask"
_NEEDED = ("inspect_ai", "torch", "transformers")


@dataclass(frozen=True)
class Scale:
    """How much every agent walks.

    Attributes:
        grids: of each size and complexity.
        sizes: of mazes.
        complexities: of mazes.
        key_worlds: worlds of each kind with a key, for each of the grids.
        walks: through each world; what an agent does is told from several answers in a state.
        suites: in which it walks.
    """

    grids: int = 2
    sizes: tuple[int, ...] = (7, 9)
    complexities: tuple[float, ...] = (0.0, 0.5, 1.0)
    key_worlds: int = 4
    walks: int = 5
    suites: tuple[str, ...] = SUITES


def plan_for(agent: str, suite: str, scale: Scale, *, seed: int) -> WalkPlan:
    """The walks of an agent, as `truth.subject_of` spells it; every agent has the same worlds."""
    many: dict[str, Any] = {"grids": scale.key_worlds * scale.grids}
    if suite == MAZE:
        many = {"grids": scale.grids, "sizes": scale.sizes, "complexities": scale.complexities}
    record = suite_named(suite)
    asking = ModelOptions().asking(agent, record, paper=False) if is_model(agent) else None
    return plan_of(
        agent, suite, trajectories=scale.walks, held_out=True, seed=seed, asking=asking, **many
    )


def require_models(agents: Iterable[str]) -> None:
    """Check that the packages which language models need are installed, before anybody walks."""
    models = [agent for agent in agents if is_model(agent)]
    # Not imported here: the processes that ask do so, and it takes seconds.
    lacking = [name for name in _NEEDED if find_spec(name) is None]
    if models and lacking:
        raise MissingExtraError(
            f"{', '.join(models)}: language models need the package {lacking[0]!r}, which is not "
            f"installed; {how_to_install('lm')}"
        )


def play_every(
    plans: Sequence[WalkPlan], out: Path, *, on: str = HERE, progress: Tell | None = None
) -> list[Walked]:
    """The walks of several plans, each kept in a folder AGENT/SUITE; errors as those of `play`.

    Processes of this machine ask language models, each for one plan at a time.
    """
    models = [
        plan
        for plan in plans
        if plan.asking is not None and not plan.keys().keys() <= set(keys_in(_folder(plan, out)))
    ]
    # Each run is written by the process that asks, so other machines cannot. One model alone is
    # asked in this process, which tells how far it is.
    elsewhere = on != HERE and is_of_this_machine(on) and len(models) > 1
    if elsewhere:
        trials = {
            f"{plan.agent} in {plan.suite.name}": {
                "run": json.dumps(plan.what),
                "folder": str(_folder(plan, out)),
            }
            for plan in models
        }
        study = Study[None]("language models", _ASK, trials, noun="run")
        carry_out(study, on=on, progress=progress)
    # Models that were asked elsewhere have their walks in their folders by now.
    return [play(plan, out, None if elsewhere else progress) for plan in plans]


def ask(run: str, folder: str) -> None:
    """What a worker process does: every walk of a language model, whose run is told as JSON."""
    # Each run loads a small model at once; a bar for each would say nothing.
    transformers = require("transformers", extra="lm", feature="Asking language models")
    transformers.utils.logging.disable_progress_bar()
    _ask(plan_from(json.loads(run), folder), Path(folder), None)


def play(plan: WalkPlan, out: Path, progress: Tell | None = None) -> Walked:
    """Every walk of a plan; walks that its folder below `out` holds are not taken again.

    Raises:
        InvalidParameterError: the folder holds another run.
        InvalidFileError: the folder cannot be used.
        MissingExtraError: a language model is named, and inspect_ai is not installed.
    """
    folder = _folder(plan, out)
    if plan.asking is not None:
        return _ask(plan, folder, progress)
    return play_all(plan, walker=_walker(plan.agent), out=folder)


def _ask(plan: WalkPlan, folder: Path, progress: Tell | None) -> Walked:
    # Inspect takes seconds to import, and reference agents do without it.
    from goalmeter.navigation.inspect.run import ask_all

    return ask_all(
        plan, out=folder, server=ModelOptions().server(), rounds=ROUNDS, progress=progress
    )


def _folder(plan: WalkPlan, out: Path) -> Path:
    # A model's name has slashes; brackets and dots of an agent's options can stay.
    return out / re.sub(r"[^\w().-]", "_", plan.agent) / plan.suite.name


# --- Ideal organisms -----------------------------------------------------------------------------


def _walker(agent: str) -> IdealOrganism | None:
    return ideal_organism(agent) if agent.startswith(IDEAL) else None


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


def ideal_organism(name: str) -> IdealOrganism:
    """The navigator of a name such as "ideal-mouse"."""
    return IdealOrganism(name, organism(name.removeprefix(IDEAL)))


# Each state is asked about in several walks, and a plan on the organism's map is made each time.
@lru_cache(maxsize=4096)
def _intended(kind: Organism, world: GridWorld, state: State) -> Probabilities:
    return kind.intended(world, state)
