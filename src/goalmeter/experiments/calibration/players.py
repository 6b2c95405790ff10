"""The walks of every agent in every suite, kept in run folders that are gone on with.

Reference agents walk as they do for `goalmeter navigate`, models are asked as there, several at
once in processes of their own. Ideal organisms are none of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError, how_to_install, require
from goalmeter.agents.language_models.names import is_model
from goalmeter.commands.model_options import ROUNDS, ModelOptions
from goalmeter.experiments.calibration.ideal import play_ideal
from goalmeter.experiments.calibration.truth import IDEAL
from goalmeter.navigation.plan import Plan, plan_from, plan_of
from goalmeter.navigation.playing import Walked, play_all
from goalmeter.runs import Job, run_jobs
from goalmeter.runs.jobs import OK
from goalmeter.runs.reading import TRIALS, read_trials

MAZE, KEY_DOOR, KEY_NO_DOOR, TWO_PATH = "maze", "key-door", "key-no-door", "two-path"
SUITES = (MAZE, KEY_NO_DOOR, TWO_PATH, KEY_DOOR)
_ASK = "goalmeter.experiments.calibration.players:ask"
_NEEDED = ("inspect_ai", "torch", "transformers")
Progress = Callable[[str], None]


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


def plan_for(agent: str, suite: str, scale: Scale, *, seed: int) -> Plan:
    """The walks of an agent in a suite; every agent has the same worlds.

    Args:
        agent: its name, as `truth.subject` spells it.
        suite: one of `SUITES`.
        scale: how much it walks.
        seed: of grids and walks.
    """
    many: dict[str, Any] = {"grids": scale.key_worlds * scale.grids}
    if suite == MAZE:
        many = {
            "grids": scale.grids,
            "sizes": scale.sizes,
            "complexities": scale.complexities,
        }
    asking = ModelOptions().asking(agent, suite, paper=False) if is_model(agent) else None
    return plan_of(
        agent, suite, trajectories=scale.walks, held_out=True, seed=seed, asking=asking, **many
    )


def require_models(agents: Iterable[str]) -> None:
    """Check that the language models among some agents can be asked, before anybody walks.

    Raises:
        MissingExtraError: a package that they need is not installed.
    """
    models = [agent for agent in agents if is_model(agent)]
    # Not imported here: the processes that ask do so, and it takes seconds.
    lacking = [name for name in _NEEDED if find_spec(name) is None]
    if models and lacking:
        raise MissingExtraError(
            f"{', '.join(models)}: language models need the package {lacking[0]!r}, which is not "
            f"installed; {how_to_install('lm')}"
        )


def play_every(
    plans: Sequence[Plan], out: Path, *, workers: int = 1, progress: Progress | None = None
) -> list[Walked]:
    """The walks of several plans, in their order; errors as those of `play`.

    Args:
        plans: of any agents.
        out: folder of all their runs, each in a folder AGENT/SUITE below it.
        workers: processes that ask language models, each one plan at a time.
        progress: told which walks are there.
    """
    tell = progress or (lambda line: None)
    models = [plan for plan in plans if plan.asking is not None and _unfinished(plan, out)]
    elsewhere = workers > 1 and len(models) > 1
    if elsewhere:
        tell(f"language models walk, {len(models)} runs in {min(workers, len(models))} processes")
        jobs = [
            Job(_ASK, {"what": json.dumps(plan.what), "folder": str(_folder(plan, out))})
            for plan in models
        ]
        with closing(run_jobs(jobs, workers=workers)) as results:
            for number, result in results:
                plan = models[number]
                result.raise_refusal()
                if result.outcome != OK:
                    raise RuntimeError(f"{plan.agent} in {plan.suite.name}: {result.detail}")
                tell(f"{plan.agent}, {plan.suite.name}: {result.value}")
    # Of those that have walked this reads what was kept, of which there is nothing to tell.
    return [play(plan, out, None if elsewhere else progress) for plan in plans]


def ask(what: str, folder: str) -> str:
    """What a worker process does: every walk of a language model, and how many arrived.

    Args:
        what: what the run is, as JSON.
        folder: of the run.
    """
    # Each run loads a small model at once; a bar for each would say nothing.
    transformers = require("transformers", extra="lm", feature="Asking language models")
    transformers.utils.logging.disable_progress_bar()
    walked = _ask(plan_from(json.loads(what), folder), Path(folder), None)
    arrived = sum(one.arrived for one in walked.trajectories)
    return f"{arrived} of {len(walked.trajectories)} walks arrived"


def play(plan: Plan, out: Path, progress: Progress | None = None) -> Walked:
    """Every walk of a plan; those that its folder below `out` holds are not taken again.

    Raises:
        InvalidParameterError: the folder holds another run.
        InvalidFileError: the folder cannot be used.
        MissingExtraError: a language model is named, and inspect_ai is not installed.
    """
    folder = _folder(plan, out)
    if plan.asking is not None:
        return _ask(plan, folder, progress)
    if plan.agent.startswith(IDEAL):
        return play_ideal(plan, folder)
    return play_all(plan, out=folder)


def _ask(plan: Plan, folder: Path, progress: Progress | None) -> Walked:
    from goalmeter.navigation.inspect.run import ask_all

    return ask_all(
        plan, out=folder, server=ModelOptions().server(), rounds=ROUNDS, progress=progress
    )


def _folder(plan: Plan, out: Path) -> Path:
    return out / re.sub(r"[^\w().-]", "_", plan.agent) / plan.suite.name


def _unfinished(plan: Plan, out: Path) -> bool:
    return not plan.keys().keys() <= read_trials(_folder(plan, out) / TRIALS)[0].keys()
