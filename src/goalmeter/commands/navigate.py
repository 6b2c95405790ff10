"""`goalmeter navigate`: behaviour of an agent in grid worlds."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SECONDS, InvalidParameterError
from goalmeter.agents.abilities import Ability
from goalmeter.agents.local_models import HUGGING_FACE, LOCAL
from goalmeter.agents.registry import agent as named_agent
from goalmeter.commands.declare import (
    DryRunOptions,
    PlaceOptions,
    SeedOptions,
    Tell,
    argument,
    command,
    option,
    out_option,
)
from goalmeter.commands.options import ModelOptions, SuiteFields, as_typed
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.navigation import measure, suite_named, suite_names
from goalmeter.navigation.inspect.budget import BudgetReachedError
from goalmeter.navigation.plan import WalkPlan, forecast, plan_of
from goalmeter.navigation.rollouts import study_of
from goalmeter.navigation.suites import SUITES
from goalmeter.pages.navigation_goals import directed_tables
from goalmeter.pages.navigation_tables import suite_tables
from goalmeter.report.page import Column, Table
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, forecast_of

# Requests at once where nothing is given, as in Inspect.
CONNECTIONS = 10


@dataclass(frozen=True, kw_only=True)
class NavigateOptions(SuiteFields, PlaceOptions, DryRunOptions, SeedOptions):
    """Options of `goalmeter navigate`."""

    agent: str | None = argument(
        str,
        "A reference agent, such as greedy or boltzmann(2), or a language model as Inspect spells "
        "it, such as vllm/openai/gpt-oss-20b.",
        "AGENT",
        default=None,
        complete="navigators",
    )
    suite: str = option(
        str,
        f"Grid worlds: {', '.join(SUITES)}, or a suite of another package.",
        "NAME",
        default="maze",
        complete="suites",
    )
    meg: bool = option(bool, "Goal-directedness towards goal and key too.", default=False)
    out: Path | None = out_option()
    call_seconds: float | None = option(
        float, "With --dry-run: seconds of a model call.", least=0, most=MOST_SECONDS
    )
    answer_tokens: int | None = option(
        int, "With --dry-run: tokens of an answer with its reasoning.", least=1, most=10**8
    )
    model: ModelOptions = field(default_factory=ModelOptions)


@command(NavigateOptions)
def navigate(o: NavigateOptions, tell: Tell) -> Outcome:
    """Evaluate an agent in grid worlds against baseline agents.

    Trajectories that the server of a language model failed count as not arrived, and the exit
    status then is 3; the same command makes them again. It is 3 too where --budget ended the run; a
    larger one resumes it.
    """
    name, is_model = _agent(o.agent)
    if not is_model:
        o.model.refuse(name)
    if o.dry_run:
        return shown([_forecast(o, name, is_model)])
    options = o.of_suite()
    if is_model:
        options |= _asking(o, name)
        options |= {"server": o.model.server(), "logs": o.model.from_log}
        options |= {"budget": o.model.spending()}
        options |= {} if o.model.rounds is None else {"rounds": o.model.rounds}
        if name.startswith(HUGGING_FACE):
            tell(
                f"{name}: this provider does not record token ids, so `goalmeter probe` cannot use "
                f"the run; a model in a folder can be probed as {LOCAL}FOLDER"
            )
        if o.on is not None or o.workers is not None:
            raise InvalidParameterError(
                f"{name} is a language model, which this process calls; leave out --on and "
                f"--workers, and set concurrent requests with --max-connections"
            )
    # Trajectories take less than processes take to start.
    options |= {"seed": o.seed, "on": o.place(seconds=0.0), "out": o.out, "progress": tell}
    try:
        result = measure(name, o.suite, **options)
    except InvalidParameterError as cause:
        if (message := as_typed(str(cause))) == str(cause):
            raise
        raise InvalidParameterError(message) from cause
    except BudgetReachedError as reached:
        return _unfinished(name, o.suite, reached, o.out)
    tables = suite_tables([result, *result.references])
    if o.meg:
        tell("goal-directedness")
        tables += directed_tables(result.directed_beside)
    incomplete = ""
    if result.plan.asking is not None and result.failed:
        incomplete = _failures(result.failed, len(result.seen.trajectories), o.out)
    json_values = result.to_json(directed=o.meg)
    return Outcome(tables=tuple(tables), json=json_values, incomplete=incomplete)


def _asking(o: NavigateOptions, name: str) -> dict[str, Any]:
    """Return how a model is asked, as `measure` and `plan_of` take it."""
    asking = o.model.asking(name, suite_named(o.suite), paper=o.paper)
    return {"asking": asking, "prompts": o.model.prompts, "history": o.model.history or 0}


def _forecast(o: NavigateOptions, name: str, is_model: bool) -> Forecast:
    """Return the cost of the command."""
    asking = _asking(o, name) if is_model else {}
    try:
        plan = plan_of(name, o.suite, seed=o.seed, **asking, **o.of_suite())
    except InvalidParameterError as cause:
        raise InvalidParameterError(as_typed(str(cause))) from cause
    if plan.asking is None:
        return of_reference(plan, on=o.place(seconds=0.0), out=o.out)
    return forecast(
        plan,
        out=o.out,
        connections=o.model.max_connections or CONNECTIONS,
        answer_tokens=o.answer_tokens,
        call_seconds=o.call_seconds,
        price_in=o.model.price_in,
        price_out=o.model.price_out,
    )


def of_reference(plan: WalkPlan, *, on: str = HERE, out: str | Path | None = None) -> Forecast:
    """Return the cost of the trajectories of a reference agent."""
    trials = plan.keys()
    keys = {key: {"key": key} for key in trials}
    function = "goalmeter.navigation.rollouts:play"
    study = study_of(plan, function, keys, common={"what": json.dumps(plan.what)})
    return forecast_of(study, on=on, out=out)


def _unfinished(
    agent: str, suite: str, reached: BudgetReachedError, out: str | Path | None
) -> Outcome:
    """Describe a run that reached its budget; it has no measures, as its walks are a part."""
    go_on = (
        "nothing was kept (--out)"
        if out is None
        else f"the same command with a larger --budget goes on from {shlex.quote(str(out))}"
    )
    walks = {"ended": reached.ended, "left": reached.walks - reached.ended}
    table = Table(
        caption=f"{agent} in the suite {suite}: the run is not complete",
        columns=(Column("walks", numeric=False), "number"),
        rows=tuple((name, str(count)) for name, count in walks.items()),
        meaning="There are no measures before all walks have ended.",
    )
    json = {
        "agent": agent,
        "suite": suite,
        "complete": False,
        "cells": [],
        "walks": walks | {"all": reached.walks},
        "spent": dict(reached.spent),
        "budget": reached.budget.to_json(),
    }
    return Outcome(
        tables=(table,),
        json=json | ({} if out is None else {"run": str(Path(out).resolve())}),
        incomplete=f"{reached}; {go_on}",
    )


def _agent(name: str | None) -> tuple[str, bool]:
    """Return the name of an agent in its own spelling, and whether it is asked with prompts."""
    if name is None:
        raise InvalidParameterError(
            f"AGENT is missing: name one, such as greedy, sb3:POLICY.zip or a language model as "
            f"PROVIDER/NAME (`goalmeter agents` lists all); suites are {', '.join(suite_names())}"
        )
    named = named_agent(name)
    # An agent with both abilities walks by itself, without prompts.
    named.require(Ability.GRID, Ability.TEXT, asker="navigation")
    return named.name, Ability.GRID not in named.abilities


def _failures(failed: dict[str, int], walks: int, out: str | Path | None) -> str:
    """Return what to say of trajectories that the server failed."""
    each = ", ".join(f"{count} × {outcome}" for outcome, count in sorted(failed.items()))
    again = "the same command makes them again" if out is not None else "nothing was kept (--out)"
    return (
        f"{sum(failed.values())} of {walks} walks failed ({each}); they count as not "
        f"arrived, and {again}"
    )
