"""`goalmeter navigate`: behaviour of an agent in grid worlds."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SECONDS, InvalidParameterError
from goalmeter.agents.abilities import Ability
from goalmeter.agents.local_models import HUGGING_FACE, LOCAL, check_folder
from goalmeter.agents.registry import agent as named_agent
from goalmeter.commands import options as shared
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.navigation import measure, suite_named, suite_names
from goalmeter.navigation.inspect.models import Budget, BudgetReachedError, Server
from goalmeter.navigation.plan import WalkPlan, forecast, plan_of
from goalmeter.navigation.rollouts import study_of
from goalmeter.navigation.suites import SUITES
from goalmeter.pages import Texts
from goalmeter.pages.navigation import directed_tables, suite_tables
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, forecast_of

CONNECTIONS = 10  # requests at once where nothing is given, as in Inspect


@dataclass(frozen=True, kw_only=True)
class NavigateOptions(
    shared.ModelOptions,
    shared.SuiteFields,
    shared.PlaceOptions,
    shared.SeedOptions,
    shared.RunOptions,
):
    """Options of `goalmeter navigate`."""

    agent: str | None = argument(
        "AGENT  A reference agent, such as greedy or boltzmann(2), or a language model as Inspect "
        "spells it, such as vllm/openai/gpt-oss-20b.",
        default=None,
        complete="navigators",
    )
    suite: str = option(
        f"NAME  Grid worlds: {', '.join(SUITES)}, or a suite of another package.",
        default="maze",
        complete="suites",
    )
    meg: bool = option("Goal-directedness towards goal and key too.", default=False)
    call_seconds: float | None = option(
        "With --dry-run: seconds of a model call.", least=0, most=MOST_SECONDS
    )
    answer_tokens: shared.Tokens | None = option(
        "With --dry-run: tokens of an answer with its reasoning."
    )


@command(NavigateOptions)
def navigate(o: NavigateOptions, tell: Tell) -> Outcome:
    """Evaluate an agent in grid worlds against baseline agents.

    Trajectories that the server of a language model failed count as not arrived, and the exit
    status then is 3; the same command makes them again. It is 3 too where --budget ended the run; a
    larger one resumes it.
    """
    if o.agent is None:
        raise InvalidParameterError(
            f"AGENT is missing: name one, such as greedy, sb3:POLICY.zip or a language model as "
            f"PROVIDER/NAME (`goalmeter agents` lists all); suites are {', '.join(suite_names())}"
        )
    named = named_agent(o.agent)
    named.require(Ability.GRID, Ability.TEXT, asker="navigation")
    name = named.name
    # An agent with both abilities walks by itself, without prompts.
    is_model = Ability.GRID not in named.abilities
    options = {name: getattr(o, name) for name in shared.SUITE_OPTIONS} | {"seed": o.seed}
    if is_model:
        check_folder(name)
        options["asking"] = o.asking(name, suite_named(o.suite))
        options |= {"prompts": o.prompts, "history": o.history or 0}
    else:
        o.refuse(name)
    # Trajectories take less than processes take to start.
    place = o.place(seconds=0.0)
    try:
        if o.dry_run:
            plan = plan_of(name, o.suite, **options)
            if plan.asking is None:
                return shown([of_reference(plan, on=place, out=o.out)])
            names = ("price_in", "price_out", "call_seconds", "answer_tokens")
            costs: dict[str, Any] = {name: getattr(o, name) for name in names}
            connections = o.max_connections or CONNECTIONS
            return shown([forecast(plan, out=o.out, connections=connections, **costs)])
        if is_model:
            options |= {"server": Server(**o.given(Server)), "logs": o.from_log}
            limits: Any = o.budget or {}
            options["budget"] = Budget(**limits, price_in=o.price_in, price_out=o.price_out)
            options |= {} if o.rounds is None else {"rounds": o.rounds}
            if name.startswith(HUGGING_FACE):
                tell(
                    f"{name}: this provider does not record token ids, so `goalmeter probe` cannot "
                    f"use the run; a model in a folder can be probed as {LOCAL}FOLDER"
                )
            if o.on is not None or o.workers is not None:
                raise InvalidParameterError(
                    f"{name} is a language model, which this process calls; leave out --on and "
                    f"--workers, and set concurrent requests with --max-connections"
                )
        result = measure(name, o.suite, **options, on=place, out=o.out, progress=tell)
    except BudgetReachedError as reached:
        return _unfinished(name, o.suite, reached, o.out)
    except InvalidParameterError as cause:
        raise InvalidParameterError(shared.as_typed(str(cause))) from cause
    tables = suite_tables([result, *result.references])
    if o.meg:
        tell("goal-directedness")
        tables += directed_tables(result.directed_beside)
    incomplete = ""
    if result.plan.asking is not None and result.failed:
        each = ", ".join(f"{count} × {outcome}" for outcome, count in sorted(result.failed.items()))
        again = "the same command makes them again" if o.out else "nothing was kept (--out)"
        incomplete = (
            f"{sum(result.failed.values())} of {len(result.seen.trajectories)} walks failed "
            f"({each}); they count as not arrived, and {again}"
        )
    values = result.to_json(directed=o.meg)
    return Outcome(tables=tuple(tables), json=values, incomplete=incomplete)


def of_reference(plan: WalkPlan, *, on: str = HERE, out: str | Path | None = None) -> Forecast:
    """Return the cost of the trajectories of a reference agent."""
    keys = {walk.name: {"key": walk.name} for walk in plan.tasks.walks()}
    what = {"what": json.dumps(plan.what)}
    study = study_of(plan, "goalmeter.navigation.rollouts:play", keys, common=what)
    return forecast_of(study, on=on, out=out)


def _unfinished(agent: str, suite: str, reached: BudgetReachedError, out: Path | None) -> Outcome:
    """Describe a run that reached its budget; it has no measures, as its walks are a part."""
    walks = {"ended": reached.ended, "left": reached.walks - reached.ended}
    table = Texts("commands").table("unfinished", walks.items(), agent=agent, suite=suite)
    values = {
        "agent": agent,
        "suite": suite,
        "complete": False,
        "cells": [],
        "walks": walks | {"all": reached.walks},
        "spent": dict(reached.spent),
        "budget": reached.budget.to_json(),
    }
    again = "nothing was kept (--out)"
    if out is not None:
        values["run"] = str(Path(out).resolve())
        again = f"the same command with a larger --budget goes on from {shlex.quote(str(out))}"
    return Outcome(tables=(table,), json=values, incomplete=f"{reached}; {again}")
