"""`measure`: how an agent behaves in a suite of grid worlds, beside reference agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.abilities import Ability
from goalmeter.agents.navigators.protocol import Navigator
from goalmeter.agents.registry import agent as named_agent
from goalmeter.navigation.asking.settings import Asking, paper_effort
from goalmeter.navigation.asking.spending import Budget
from goalmeter.navigation.plan import WalkPlan, plan_of
from goalmeter.navigation.playing import Walked, play_all
from goalmeter.navigation.playing import load as load_walks
from goalmeter.navigation.result import Navigation, navigation_of
from goalmeter.navigation.suites.options import Bounds
from goalmeter.navigation.suites.registry import suite_named
from goalmeter.runs import HERE
from goalmeter.runs.progress import Tell

if TYPE_CHECKING:
    from goalmeter.navigation.inspect.models import Server

# How often walks that a model's server failed are made again before a measurement ends.
ROUNDS = 2


def measure(
    agent: str | Navigator,
    suite: str = "maze",
    *,
    paper: bool = False,
    sizes: Sequence[int] | None = None,
    complexities: Sequence[float] | None = None,
    grids: int | None = None,
    trajectories: int | None = None,
    transforms: Sequence[str] | None = None,
    objects: Sequence[str] | None = None,
    distances: Sequence[Bounds] | None = None,
    detours: Sequence[Bounds] | None = None,
    cap: int | None = None,
    cap_factor: float | None = None,
    held_out: bool | None = None,
    seed: int = 0,
    beside: Sequence[str] | None = None,
    prompts: Sequence[str] | None = None,
    history: int = 0,
    asking: Asking | None = None,
    server: Server | None = None,
    rounds: int = ROUNDS,
    budget: Budget | None = None,
    logs: Sequence[str | Path] = (),
    on: str = HERE,
    out: str | Path | None = None,
    progress: Tell | None = None,
) -> Navigation:
    """Measure the behaviour of an agent in a suite of grid worlds.

    The numbers are the same wherever agents walk, and however often a run is
    interrupted and continued.

    Args:
        agent: its name as on the command line, such as "greedy" or "boltzmann(2)"; a language
            model as Inspect spells it, such as "goalmeter/mouse"; or an object with a name and the
            method `begin`, as `agents.navigators.protocol.Navigator` describes.
        suite: name of the suite: which worlds.
        paper: take the paper's scale and caps for whatever is not given.
        sizes: of the grids.
        complexities: of mazes.
        grids: of each size and complexity.
        trajectories: walks through each grid.
        transforms: names of the changed frames, in suites that have some.
        objects: what lies about where keys open nothing: "key", "neutral" or both.
        distances: strata of mazes by the shortest path, (least, greatest).
        detours: strata of mazes by how much longer it is than the Manhattan distance.
        cap: steps after which a walk is ended.
        cap_factor: the same as a multiple of the shortest path; default 3.
        held_out: take only grids that no recipe of an organism teaches; None for what suits the
            agent: true for organisms, false for others.
        seed: of the grids and of the walks.
        beside: names of reference agents that walk in the same worlds; None for those of the suite.
        prompts: templates that a language model is asked in, which are compared.
        history: how many past steps a prompt shows.
        asking: how a language model is asked.
        server: how it is reached.
        rounds: how often walks that its server failed are made again.
        budget: the most that a language model may cost, over all calls with the folder `out`.
        logs: logs of Inspect whose walks are taken over.
        on: where agents walk: "here", in this process; "processes:8", in eight of this machine; or
            any other place, such as "ray" or "slurm:partition=cpu". A language model is asked by
            this process, and reference agents beside another walk in it.
        out: folder that keeps every finished walk. If it holds some of this measurement, only the
            others are made.
        progress: told now and then how many walks are finished.

    Raises:
        InvalidParameterError: there is no such agent or suite, or an option is out of range or not
            one of the suite's.
        InvalidFileError: `out` holds something else.
        BudgetReachedError: the budget was spent before all walks had ended, so that there is
            nothing to measure yet; a larger one goes on.
        MissingExtraError: a language model is named, and inspect_ai is not installed.

    Example: a compass leads astray in a maze, and a plan does not.
        >>> result = measure("greedy", sizes=[7], complexities=[1], grids=3, beside=["optimal"])
        >>> agents = (result, *result.references)
        >>> [f"{agent.overall[0].success.value:.0%}" for agent in agents]
        ['67%', '100%']
    """
    walker = None if isinstance(agent, str) else agent
    name, is_model = _name(agent) if isinstance(agent, str) else (agent.name, False)
    record = suite_named(suite)
    if is_model:
        asking = asking or Asking(reasoning_effort=paper_effort(name, record) if paper else None)
    elif asking is not None or prompts or history or logs or budget is not None:
        raise InvalidParameterError(
            f"asking, prompts, history, budget and logs are for language models only, and {name} "
            f"is none"
        )
    plan = plan_of(
        name,
        suite,
        prompts=prompts,
        history=history,
        asking=asking,
        paper=paper,
        sizes=sizes,
        complexities=complexities,
        grids=grids,
        trajectories=trajectories,
        transforms=transforms,
        objects=objects,
        distances=distances,
        detours=detours,
        cap=cap,
        cap_factor=cap_factor,
        held_out=held_out,
        seed=seed,
    )
    if asking is None:
        walked = play_all(plan, walker=walker, out=out, on=on, progress=progress)
    else:
        walked = _asked(plan, server, rounds, budget or Budget(), logs, out, progress)
    return _beside(walked, beside, out, progress)


def load(
    folder: str | Path,
    *,
    beside: Sequence[str] | None = None,
    progress: Tell | None = None,
) -> Navigation:
    """The measurement that a run folder holds.

    Args:
        folder: what `measure` was given as `out`.
        beside: names of reference agents, which walk anew; None for those of the suite.
        progress: told what is being done.

    Raises:
        InvalidFileError: it holds no navigation run, or a walk that is no trajectory.
        IncompleteRunError: it holds not all of its walks.
    """
    return _beside(load_walks(folder), beside, folder, progress)


def references(
    plan: WalkPlan,
    without: Sequence[str] = (),
    *,
    names: Sequence[str] | None = None,
    progress: Tell | None = None,
) -> list[Navigation]:
    """Reference agents on the walks of a plan.

    They are the named ones, or those of the suite, but for those in `without`, which are measured
    already.
    """
    results = []
    for name in plan.suite.references if names is None else names:
        spelled = named_agent(name).name
        if spelled in without:
            continue
        if progress is not None:
            progress(f"reference agent: {spelled}")
        # They walk in milliseconds, and processes or a cluster would be started for each of them.
        walked = play_all(replace(plan, agent=spelled))
        results.append(navigation_of(walked, reference=True))
    return results


def _beside(
    walked: Walked,
    names: Sequence[str] | None,
    folder: str | Path | None,
    progress: Tell | None,
) -> Navigation:
    plan = walked.plan
    beside = references(plan, (plan.agent,), names=names, progress=progress)
    return navigation_of(walked, references=beside, folder=folder)


def _name(agent: str) -> tuple[str, bool]:
    """The name of an agent in its one spelling, and whether it is asked with prompts."""
    named = named_agent(agent)
    named.require(Ability.GRID, Ability.TEXT, asker="navigation")
    return named.name, Ability.GRID not in named.abilities


def _asked(
    plan: WalkPlan,
    server: Server | None,
    rounds: int,
    budget: Budget,
    logs: Sequence[str | Path],
    out: str | Path | None,
    progress: Tell | None,
) -> Walked:
    """The walks of a language model, those from logs among them."""
    # Inspect takes seconds to import, and reference agents do without it.
    from goalmeter.navigation.inspect.eval_log import from_logs
    from goalmeter.navigation.inspect.models import Server
    from goalmeter.navigation.inspect.run import ask_all

    imported = from_logs(plan, logs) if logs else None
    if imported is not None and progress is not None:
        note = f"{plan.agent}: {len(imported.walks)} walks taken from logs"
        if imported.left_out:
            note += f"; {imported.left_out} others are of other worlds, or had failed"
        progress(note)
    options: dict[str, Any] = {"imported": imported.walks} if imported is not None else {}
    return ask_all(
        plan,
        out=out,
        server=server or Server(),
        rounds=rounds,
        budget=budget,
        progress=progress,
        **options,
    )
