"""Measure an agent in a suite of grid worlds against baseline agents: `measure` and its result."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.abilities import Ability
from goalmeter.agents.grid_agents import Navigator
from goalmeter.agents.registry import agent as named_agent
from goalmeter.navigation.behaviour import Behaviour, Row, behaviour
from goalmeter.navigation.distractors import Contrast, Factors, told_apart
from goalmeter.navigation.frames import Frames, frames
from goalmeter.navigation.goal_directedness import Directedness, directedness
from goalmeter.navigation.inspect.budget import Budget
from goalmeter.navigation.keys import Keys, TwoPathTable, keys, two_path_table
from goalmeter.navigation.plan import WalkPlan, plan_of
from goalmeter.navigation.prompts import Asking, paper_effort
from goalmeter.navigation.rollouts import Walked, failures, play_all
from goalmeter.navigation.rollouts import load as load_walks
from goalmeter.navigation.steps import Observed, observed
from goalmeter.navigation.suite_definition import Bounds
from goalmeter.navigation.suites import suite_named
from goalmeter.report.numbers import percent
from goalmeter.report.tables import data_frame, html_table, text_table
from goalmeter.runs import HERE
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

if TYPE_CHECKING:
    from goalmeter.navigation.inspect.models import Server


# --- Result ---------------------------------------------------------------------------------------
# It prints, is a small table in a notebook, and is the JSON object of the command; both are made
# here, so they cannot differ.

_COLUMNS = {
    "accuracy_detour": "optimal in detour states",
    "accuracy": "optimal actions",
    "success": "goal reached",
    "spl": "SPL",
    "invalid": "invalid answers",
}
_NOTE = (
    "Detour states are places where a compass may lead astray. In brackets: 95% intervals over "
    "grids."
)


@dataclass(frozen=True, eq=False)
class Navigation:
    """An agent in a suite, and all that was measured of it.

    Attributes:
        agent: its name.
        plan: which walks it took.
        seen: the walks as columns.
        behaviour: the measures that every suite has.
        frames: of suites in several frames; None elsewhere.
        keys: of worlds with a key, an entry for each size and condition.
        two_paths: of worlds that come with a key and without, an entry for each thing and
            condition.
        factors: of worlds with a key: effects of the prompt and of the object, where they vary.
        reference: whether it is shown beside the agent that was asked about.
        references: the reference agents in the same worlds.
        folder: of the run that keeps the walks; None where they are not kept.
        spent: what a language model's run has cost, over all commands, as JSON values; None for
            other agents.
    """

    agent: str
    plan: WalkPlan
    seen: Observed
    behaviour: Behaviour
    frames: Frames | None
    keys: tuple[Keys, ...]
    two_paths: tuple[TwoPathTable, ...]
    factors: tuple[Factors | Contrast, ...] = ()
    reference: bool = False
    references: tuple[Navigation, ...] = ()
    folder: Path | None = None
    spent: Mapping[str, Any] | None = None

    @property
    def overall(self) -> tuple[Row, ...]:
        """Over sizes and complexities, in the grids as they were generated."""
        return tuple(row for row in self.behaviour.overall if row.transform is None)

    @property
    def cells(self) -> tuple[Row, ...]:
        """By size and complexity, in the grids as they were generated."""
        return tuple(row for row in self.behaviour.cells if row.transform is None)

    @property
    def failed(self) -> dict[str, int]:
        """How many walks a language model's server ended, by outcome; they count as not arrived."""
        return failures(self.seen.trajectories)

    @cached_property
    def directed(self) -> tuple[Directedness, ...]:
        """The goal-directedness of the walks, under each condition: towards the goal and the key.

        Fitted when it is first asked for, which takes longer than all the rest.
        """
        return tuple(directedness([self]))

    @cached_property
    def directed_beside(self) -> tuple[Directedness, ...]:
        """The same of this agent and then of its references, which share the work."""
        return tuple(directedness([self, *self.references]))

    def to_json(self, *, directed: bool = False) -> dict[str, Any]:
        """All measures as JSON values: what the command prints with --json.

        Args:
            directed: whether to fit the goal-directedness of the walks too, under "meg".
        """
        out = self._measures()
        out["references"] = {agent.agent: agent._measures() for agent in self.references}
        if self.folder is not None:
            out["run"] = str(self.folder.resolve())
        if self.plan.asking is not None:
            out["failed"] = self.failed
        if self.spent is not None:
            out["spent"] = dict(self.spent)
        if directed:
            fits = self.directed_beside
            for agent, part in ((self.agent, out), *out["references"].items()):
                part["meg"] = [fit.to_json() for fit in fits if fit.agent == agent]
        return out

    def _measures(self) -> dict[str, Any]:
        out: dict[str, Any] = {"agent": self.agent} | self.behaviour.to_json()
        if self.frames is not None:
            out["frames"] = self.frames.to_json()
        for name in ("keys", "two_paths", "factors"):
            if parts := getattr(self, name):
                out[name] = [part.to_json() for part in parts]
        return out

    def records(self, *, references: bool = False) -> list[dict[str, Any]]:
        """A record for each size, complexity, frame and condition, with every measure.

        A measure has three more entries: NAME_low and NAME_high, the ends of its interval, None
        where there is none, and NAME_n, how many observations it rests on.

        Args:
            references: whether to add those of the reference agents.
        """
        agents = (self, *(self.references if references else ()))
        return [
            {"agent": result.agent, "suite": result.plan.suite.name} | _record(row)
            for result in agents
            for row in result.behaviour.cells
        ]

    def walk_records(self) -> list[dict[str, Any]]:
        """A record for each walk: its labels, how it ended, and how well it went."""
        return list(_walk_records(self))

    def to_pandas(self, *, references: bool = False) -> Any:
        """`records` as a pandas data frame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return data_frame(self.records(references=references))

    def __str__(self) -> str:
        return text_table(self._caption(), self._rows())

    def __repr__(self) -> str:
        return (
            f"<Navigation of {self.agent} in {self.plan.suite.name}: {self.seen.length.size} walks>"
        )

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        return html_table(self._caption(), head, rows, [_NOTE])

    def _caption(self) -> str:
        walks, grids = len(self.seen.trajectories), len(self.seen.grids)
        return f"{self.agent} in the suite {self.plan.suite.name}: {walks} walks in {grids} grids"

    def _rows(self) -> list[list[str]]:
        """The table as text: its head, then this agent and its references."""
        rows = [["agent", *_COLUMNS.values()]]
        for result in (self, *self.references):
            several = len(result.overall) > 1
            for row in result.overall:
                condition = json.loads(row.condition).items() if several else ()
                labels = [f"{name} {json.dumps(value)}" for name, value in condition]
                rows.append(
                    [
                        ", ".join([result.agent, *labels]),
                        *(_share(getattr(row, column)) for column in _COLUMNS),
                    ]
                )
        return rows


def navigation_of(
    walked: Walked,
    *,
    reference: bool = False,
    references: Sequence[Navigation] = (),
    folder: str | Path | None = None,
) -> Navigation:
    """Measure an agent's walks.

    Raises InvalidTrajectoryError if a walk does not agree with its world.
    """
    seen, suite = observed(walked.trajectories), walked.plan.suite
    return Navigation(
        agent=walked.plan.agent,
        plan=walked.plan,
        seen=seen,
        behaviour=behaviour(seen),
        frames=frames(seen) if suite.has_frames else None,
        keys=keys(seen) if suite.key is not None else (),
        two_paths=two_path_table(seen) if suite.is_paired else (),
        factors=told_apart(seen) if suite.key is not None else (),
        reference=reference,
        references=tuple(references),
        folder=None if folder is None else Path(folder),
        spent=walked.spent,
    )


def _record(row: Row) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for each in fields(row):
        value = getattr(row, each.name)
        if isinstance(value, Estimate):
            out |= value.record(each.name)
        elif each.name == "outcomes":
            out |= {f"outcome: {name}": count for name, count in value.items()}
        else:
            out[each.name] = value
    return out


def _walk_records(result: Navigation) -> Iterator[dict[str, Any]]:
    seen = result.seen
    columns = {"spl": seen.spl, "accuracy": seen.accuracy}
    for number, walk in enumerate(seen.trajectories):
        yield {
            "agent": result.agent,
            "suite": walk.suite,
            "size": walk.size,
            "complexity": walk.complexity,
            "grid": walk.grid,
            "seed": walk.seed,
            "transform": walk.transform,
            "condition": seen.kinds[seen.kind[number]].condition,
            "trajectory": walk.trajectory,
            "outcome": walk.outcome,
            "arrived": walk.arrived,
            "distance": walk.distance,
            "cap": walk.cap,
            "steps": len(walk.steps),
            **{name: float(column[number]) for name, column in columns.items()},
            "invalid": sum(step.action is None for step in walk.steps),
        }


def _share(estimate: Estimate) -> str:
    """A share in percent, with its interval where there is one."""
    if estimate.value != estimate.value:
        return "–"
    if estimate.interval is None:
        return percent(estimate.value)
    low, high = (percent(end) for end in estimate.interval)
    return f"{percent(estimate.value)} [{low}, {high}]"


# --- Measure --------------------------------------------------------------------------------------
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
