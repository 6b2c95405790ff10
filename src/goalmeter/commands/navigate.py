"""`goalmeter navigate`: behaviour of an agent in grid worlds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from math import inf
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SECONDS, InvalidParameterError, shown
from goalmeter._options import given, optional, options_in, values_by_name
from goalmeter.agents.abilities import Ability
from goalmeter.agents.local_models import HUGGING_FACE, LOCAL
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.registry import listed_names
from goalmeter.commands.declare import PlaceOptions, RunOptions, Tell, argument, command, option
from goalmeter.commands.outcome import Outcome, planned
from goalmeter.navigation import suite_named, suite_names
from goalmeter.navigation.inspect.models import Budget, BudgetReachedError, Server
from goalmeter.navigation.measure import forecast, measure
from goalmeter.navigation.plan import NavigationOptions
from goalmeter.navigation.prompts import Asking, paper_effort
from goalmeter.navigation.suite_definition import SuiteOptions
from goalmeter.navigation.suites import SUITES
from goalmeter.pages import Texts
from goalmeter.pages.navigation_tables import directed_tables, suite_tables


def limits(flag: str, text: str | None) -> dict[str, float] | None:
    """Return the limits of a budget, each written NAME=NUMBER; tokens are an integer."""
    if text is None:
        return None
    try:
        out = {}
        for name, value in (values_by_name(flag, text.split(","), "", float) or {}).items():
            out[name] = {"tokens": int, "usd": float}[name](value)
            if out[name] != value or not 0 <= value < inf:
                raise ValueError
    except (KeyError, TypeError, ValueError, OverflowError) as cause:
        raise InvalidParameterError(
            f"{flag} is {shown(text)}, expected tokens=N, usd=X or both with a comma between "
            f"them, such as tokens=1000000,usd=2.50; Inspect has no limit on calls"
        ) from cause
    return out


_Library: Any = make_dataclass(
    "_Library",
    optional(NavigationOptions, Asking, Server, Budget),
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True, kw_only=True)
class NavigateOptions(_Library, PlaceOptions, RunOptions):  # type: ignore[misc]
    """Options of `goalmeter navigate`; None is left to the library."""

    agent: str | None = argument(
        "AGENT  A reference agent, such as greedy or boltzmann(2), or a language model as Inspect "
        "spells it, such as vllm/openai/gpt-oss-20b.",
        default=None,
        complete=lambda: [*listed_names(Ability.GRID), *listed_names(Ability.TEXT)],
    )
    suite: str = option(
        f"NAME  Grid worlds: {', '.join(SUITES)}, or a suite of another package.",
        default="maze",
        complete=suite_names,
    )
    meg: bool = option("Goal-directedness towards goal and key too.", default=False)
    budget: Mapping[str, float] | None = option(
        "tokens=N,usd=X  Inspect's limits on tokens and cost over all commands of a resumable run.",
        kind=str,
        read=limits,
        group="What it may cost",
    )
    call_seconds: float | None = option(
        "With --dry-run: seconds of a model call.", least=0, most=MOST_SECONDS
    )
    answer_tokens: int | None = option(
        "With --dry-run: tokens of an answer with its reasoning.", least=1, most=10**8
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
    options = given(o, NavigationOptions)
    if Ability.GRID in named.abilities:
        _refuse_model_options(o, name)
    else:
        if o.on is not None or o.workers is not None:
            raise InvalidParameterError(
                f"{name} is a language model, which this process calls; leave out --on and "
                f"--workers, and set concurrent requests with --max-connections"
            )
        if name.startswith(HUGGING_FACE) and not o.dry_run:
            tell(
                f"{name}: this provider does not record token ids, so `goalmeter probe` cannot "
                f"use the run; a model in a folder can be probed as {LOCAL}FOLDER"
            )
        effort = {"reasoning_effort": paper_effort(name, suite_named(o.suite)) if o.paper else None}
        options["asking"] = Asking(**(effort | given(o, Asking)))
        options["server"] = Server(**given(o, Server))
    # Trajectories take less than processes take to start.
    options |= {"on": o.place(seconds=0.0), "out": o.out}
    try:
        if Ability.GRID not in named.abilities:
            options["budget"] = Budget(**(o.budget or {}), **given(o, Budget))
        if o.dry_run:
            costs = {"call_seconds": o.call_seconds, "answer_tokens": o.answer_tokens}
            return planned(forecast(name, o.suite, **options, **costs))
        result = measure(name, o.suite, **options, progress=tell)
    except BudgetReachedError as reached:
        return _unfinished(name, o.suite, reached, o.out)
    except InvalidParameterError as cause:
        raise InvalidParameterError(as_typed(str(cause))) from cause
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
    return Outcome(tables=tables, json=result.to_json(directed=o.meg), incomplete=incomplete)


def _refuse_model_options(o: NavigateOptions, agent: str) -> None:
    # All options with a heading of their own are of language models.
    declared = {name: each.flag for name, each in options_in(NavigateOptions).items() if each.group}
    if flags := [flag.split("/")[-1] for n, flag in declared.items() if getattr(o, n) is not None]:
        raise InvalidParameterError(
            f"{', '.join(flags)}: for language models only, and {agent} is a reference agent; "
            f"leave it out, or let {agent} read prompts as goalmeter/{agent}"
        )


def as_typed(message: str) -> str:
    """Return a message on prices, or on what two runs differ in, with options as they are typed."""
    head, mark, differences = message.partition("holds another run: ")
    for name, declared in options_in(SuiteOptions).items():
        differences = re.sub(rf"\b{name}(?= is )", declared.flag, differences)
    head = head.replace("price_in", "--price-in").replace("price_out", "--price-out")
    return head + mark + differences


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
    return Outcome(tables=[table], json=values, incomplete=f"{reached}; {again}")
