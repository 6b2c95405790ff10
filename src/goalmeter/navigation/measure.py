"""Measure an agent in a suite of grid worlds against baseline agents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.abilities import Ability
from goalmeter.agents.grid_agents import Navigator
from goalmeter.agents.local_models import HUGGING_FACE, LOCAL, check_folder
from goalmeter.agents.registry import agent as named_agent
from goalmeter.navigation.behaviour import Row, SuiteBehaviour, behaviour
from goalmeter.navigation.distractors import Contrast, Factors, condition_effects
from goalmeter.navigation.frames import Frames, frames
from goalmeter.navigation.inspect.models import Budget
from goalmeter.navigation.keys import Keys, TwoPathTable, keys, two_path_table
from goalmeter.navigation.plan import NavigationOptions, WalkPlan
from goalmeter.navigation.plan import forecast as forecast_of_calls
from goalmeter.navigation.prompts import Asking, paper_effort
from goalmeter.navigation.rationality import Directedness, directedness
from goalmeter.navigation.rollouts import Walked, failures, play_all
from goalmeter.navigation.rollouts import forecast as forecast_of_walks
from goalmeter.navigation.rollouts import load as load_walks
from goalmeter.navigation.steps import Observed, observed
from goalmeter.navigation.suites import suite_named
from goalmeter.navigation.trajectories import condition_name
from goalmeter.report.numbers import percent
from goalmeter.report.tables import data_frame, html_table, text_table
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

CONNECTIONS = 10  # requests at once where nothing is given, as in Inspect
_COLUMNS = {
    "accuracy_detour": "optimal in detour states",
    "accuracy": "optimal actions",
    "success": "goal reached",
    "spl": "SPL",
    "invalid": "invalid answers",
}
_NOTE = (
    "Detour states: states in which the greedy agent may err. Brackets: 95% intervals over grids."
)


@dataclass(frozen=True, eq=False)
class Navigation:
    """Measures of an agent in a suite."""

    agent: str
    plan: WalkPlan  # planned walks
    seen: Observed  # walks as arrays
    behaviour: SuiteBehaviour
    frames: Frames | None  # comparison of frames; None for suites with one frame
    keys: tuple[Keys, ...]  # measures in worlds with a key, for each size and condition
    two_paths: tuple[TwoPathTable, ...]  # in paired worlds, for each object and condition
    factors: tuple[Factors | Contrast, ...] = ()  # effects of prompt and object, if they vary
    reference: bool = False  # whether the agent is a baseline
    references: tuple[Navigation, ...] = ()  # measures of the baseline agents in the same worlds
    folder: Path | None = None  # run directory; None if nothing is stored
    spent: Mapping[str, Any] | None = None  # usage of a language model, see `Walked`

    @property
    def overall(self) -> tuple[Row, ...]:
        """Rows averaged over sizes and complexities, in the original frame."""
        return tuple(row for row in self.behaviour.overall if row.transform is None)

    @property
    def cells(self) -> tuple[Row, ...]:
        """Rows by size and complexity, in the original frame."""
        return tuple(row for row in self.behaviour.cells if row.transform is None)

    @property
    def failed(self) -> dict[str, int]:
        """Number of walks that ended by a failure of the server, by outcome."""
        return failures(self.seen.trajectories)

    @property
    def failed_in_words(self) -> str:
        """How many walks failed, and how; "" if none did."""
        each = ", ".join(f"{count} × {outcome}" for outcome, count in sorted(self.failed.items()))
        walks = f"{sum(self.failed.values())} of {len(self.seen.trajectories)} walks"
        return each and f"{walks} failed ({each}); they count as not arrived"

    @cached_property
    def directed(self) -> tuple[Directedness, ...]:
        """Goal-directedness towards goal and key under each condition; fitted on first access."""
        return tuple(directedness([self]))

    @cached_property
    def directed_beside(self) -> tuple[Directedness, ...]:
        """Goal-directedness of this agent and its baselines."""
        return tuple(directedness([self, *self.references]))

    def to_json(self, *, directed: bool = False) -> dict[str, Any]:
        """Return all measures as JSON values, the output of the command's option `--json`."""
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
        """Return all measures as one record per size, complexity, frame and condition."""
        agents = (self, *(self.references if references else ()))
        return [
            {"agent": result.agent, "suite": result.plan.suite.name} | _record(row)
            for result in agents
            for row in result.behaviour.cells
        ]

    def walk_records(self) -> list[dict[str, Any]]:
        """Return one record per walk: labels, outcome and measures."""
        seen = self.seen
        measures = zip(seen.trajectories, seen.spl.tolist(), seen.accuracy.tolist(), strict=True)
        names = ["suite", "size", "complexity", "grid", "seed", "transform", "condition"]
        names += ["trajectory", "outcome", "arrived", "distance", "cap"]
        return [
            {"agent": self.agent}
            | {name: getattr(walk, name) for name in names}
            | {"condition": condition_name(walk.condition), "steps": len(walk.steps)}
            | {"spl": spl, "accuracy": accuracy}
            | {"invalid": sum(step.action is None for step in walk.steps)}
            for walk, spl, accuracy in measures
        ]

    def to_pandas(self, *, references: bool = False) -> Any:
        """Return `records` as a pandas data frame."""
        return data_frame(self.records(references=references))

    def __str__(self) -> str:
        return text_table(self._caption(), self._rows())

    def __repr__(self) -> str:
        walks = len(self.seen.trajectories)
        return f"<Navigation of {self.agent} in {self.plan.suite.name}: {walks} walks>"

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        return html_table(self._caption(), head, rows, [_NOTE])

    def _caption(self) -> str:
        walks, grids = len(self.seen.trajectories), len(self.seen.grids)
        return f"{self.agent} in the suite {self.plan.suite.name}: {walks} walks in {grids} grids"

    def _rows(self) -> list[list[str]]:
        """Return the header and the rows of the table."""
        rows = [["agent", *_COLUMNS.values()]]
        for result in (self, *self.references):
            for row in result.overall:
                labels = [result.agent]
                if len(result.overall) > 1:
                    condition = json.loads(row.condition).items()
                    labels += [f"{name} {json.dumps(value)}" for name, value in condition]
                shares = [percent(getattr(row, column)) for column in _COLUMNS]
                rows.append([", ".join(labels), *shares])
        return rows


def navigation_of(walked: Walked, **others: Any) -> Navigation:
    """Measure the walks of an agent; `others` are the remaining fields of `Navigation`."""
    seen, suite = observed(walked.trajectories), walked.plan.suite
    return Navigation(
        agent=walked.plan.agent,
        plan=walked.plan,
        seen=seen,
        behaviour=behaviour(seen),
        frames=frames(seen) if suite.has_frames else None,
        keys=keys(seen) if suite.key is not None else (),
        two_paths=two_path_table(seen) if suite.is_paired else (),
        factors=condition_effects(seen) if suite.key is not None else (),
        spent=walked.spent,
        **others,
    )


def _record(row: Row) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, value in vars(row).items():
        if isinstance(value, Estimate):
            out |= value.record(name)
        elif name == "outcomes":
            out |= {f"outcome: {outcome}": count for outcome, count in value.items()}
        else:
            out[name] = value
    return out


def measure(agent: str | Navigator, suite: str = "maze", **options: Any) -> Navigation:
    """Measure the behaviour of an agent in a suite of grid worlds, against baseline agents.

    The agent is a name as on the command line, such as "greedy", "boltzmann(2)" or
    "goalmeter/mouse", or an object with a name and the method `begin(world, draws)`. `options` are
    fields of `NavigationOptions`. The numbers depend neither on the execution backend nor on
    interruptions of a run; after a `BudgetReachedError` the same call resumes it.

    Example: the greedy agent fails in some mazes, the optimal agent in none.
        >>> result = measure("greedy", sizes=[7], complexities=[1], grids=3, beside=["optimal"])
        >>> agents = (result, *result.references)
        >>> [f"{agent.overall[0].success.value:.0%}" for agent in agents]
        ['67%', '100%']
    """
    chosen, plan, walker = _prepared(agent, suite, options)
    tell = chosen.progress
    if plan.asking is not None:
        # Inspect takes seconds to import.
        from goalmeter.navigation.inspect.eval_log import from_logs
        from goalmeter.navigation.inspect.run import ask_all

        if plan.agent.startswith(HUGGING_FACE) and tell is not None:
            tell(
                f"{plan.agent}: this provider does not record token ids, so no probe can use "
                f"the run; a model in a folder can be probed as {LOCAL}FOLDER"
            )
        imported = None
        if chosen.logs:
            imported, others = from_logs(plan, chosen.logs)
            note = f"; {others} skipped (other worlds, or failed)" if others else ""
            if tell is not None:
                tell(f"{plan.agent}: {len(imported)} walks imported from logs{note}")
        walked = ask_all(plan, chosen, imported=imported)
    else:
        walked = play_all(plan, walker=walker, out=chosen.out, on=chosen.on, progress=tell)
    return with_references(walked, chosen.beside, chosen.out, chosen.progress)


def _prepared(
    agent: str | Navigator, suite: str, options: Mapping[str, Any]
) -> tuple[NavigationOptions, WalkPlan, Navigator | None]:
    """The options and the plan of these arguments of `measure`, and an agent that is an object."""
    chosen = NavigationOptions(**options)
    name, walker = ("", None) if isinstance(agent, str) else (agent.name, agent)
    if isinstance(agent, str):
        named = named_agent(agent)
        named.require(Ability.GRID, Ability.TEXT, asker="navigation")
        name = named.name
        # An agent with both abilities walks by itself, without prompts.
        if Ability.GRID not in named.abilities:
            check_folder(name)
            if chosen.on != HERE:
                raise InvalidParameterError(
                    f"{name} is a language model, which this process calls; leave out on (--on, "
                    f"--workers), and set concurrent requests with max_connections"
                )
            if chosen.asking is None:
                effort = paper_effort(name, suite_named(suite)) if chosen.paper else None
                chosen = replace(chosen, asking=Asking(reasoning_effort=effort))
            return chosen, chosen.plan(name, suite), None
    values = {n: getattr(chosen, n) for n in ("asking", "prompts", "history", "budget", "logs")}
    if given := [name for name, value in values.items() if value and value != Budget()]:
        raise InvalidParameterError(
            f"{', '.join(given)}: for language models only, and {name} is not one"
        )
    return chosen, chosen.plan(name, suite), walker


def forecast(
    agent: str,
    suite: str = "maze",
    *,
    answer_tokens: int | None = None,
    call_seconds: float | None = None,
    **options: Any,
) -> Forecast:
    """Estimate the cost of `measure` with these options.

    Of a language model, `answer_tokens` and `call_seconds` are what one answer takes.
    """
    chosen, plan, _ = _prepared(agent, suite, options)
    if plan.asking is None:
        return forecast_of_walks(plan, on=chosen.on, out=chosen.out)
    return forecast_of_calls(
        plan,
        out=chosen.out,
        connections=chosen.server.max_connections or CONNECTIONS,
        answer_tokens=answer_tokens,
        call_seconds=call_seconds,
        price_in=chosen.budget.price_in,
        price_out=chosen.budget.price_out,
    )


def load(
    folder: str | Path, *, beside: Sequence[str] | None = None, progress: Tell | None = None
) -> Navigation:
    """Load the measurement of a run directory.

    `beside` lists names of baseline agents, whose walks are repeated; None: those of the suite.
    Raises `IncompleteRunError` if walks are missing.
    """
    return with_references(load_walks(folder), beside, folder, progress)


def references(
    plan: WalkPlan,
    without: Sequence[str] = (),
    *,
    names: Sequence[str] | None = None,
    progress: Tell | None = None,
) -> list[Navigation]:
    """Measure baseline agents on the tasks of a plan, except those in `without`."""
    results = []
    for name in plan.suite.references if names is None else names:
        agent = named_agent(name).name
        if agent not in without:
            if progress is not None:
                progress(f"baseline agent: {agent}")
            results.append(navigation_of(play_all(replace(plan, agent=agent)), reference=True))
    return results


def with_references(
    walked: Walked, names: Sequence[str] | None, folder: str | Path | None, progress: Tell | None
) -> Navigation:
    """Measure the walks of an agent and of baseline agents in the same worlds."""
    baselines = references(walked.plan, (walked.plan.agent,), names=names, progress=progress)
    directory = None if folder is None else Path(folder)
    return navigation_of(walked, references=tuple(baselines), folder=directory)


@dataclass(frozen=True)
class Group:
    """Agents that were measured in the same worlds."""

    results: tuple[Navigation, ...]  # the measured agents, then the reference agents
    directed: tuple[Directedness, ...]  # the goal-directedness of each

    @property
    def measured(self) -> list[Navigation]:
        """The results of agents that are no reference agents."""
        return [result for result in self.results if not result.reference]


def groups(runs: Sequence[Walked], progress: Tell | None = None) -> list[Group]:
    """Measure runs and group their agents by worlds, with reference agents."""
    by_world: dict[str, list[Walked]] = {}
    for run in runs:
        by_world.setdefault(json.dumps(run.plan.worlds, sort_keys=True), []).append(run)
    out = []
    for together in by_world.values():
        measured = [navigation_of(run) for run in together]
        # Reference agents walk once in these worlds, for all agents that were asked about.
        beside = references(together[0].plan, [r.agent for r in measured], progress=progress)
        results = (*measured, *beside)
        out.append(Group(results, tuple(directedness(results, progress=progress))))
    return out
