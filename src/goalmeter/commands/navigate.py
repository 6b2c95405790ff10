"""`goalmeter navigate`: an agent's name in, its behaviour in grid worlds out."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.abilities import Ability
from goalmeter.agents.local_models import HUGGING_FACE, LOCAL
from goalmeter.agents.registry import agent as named_agent
from goalmeter.commands.options import ModelOptions, as_typed, chosen_place
from goalmeter.commands.outcome import Outcome
from goalmeter.navigation import measure, suite_named, suite_names
from goalmeter.navigation.inspect.budget import BudgetReachedError
from goalmeter.pages.navigation_goals import directed_tables
from goalmeter.pages.navigation_tables import suite_tables
from goalmeter.report.page import Column, Table


def navigate(
    agent: str | None,
    *,
    suite: str = "maze",
    meg: bool = False,
    out: str | Path | None = None,
    seed: int = 0,
    on: str | None = None,
    workers: int | None = None,
    progress: Callable[[str], None] | None = None,
    model: ModelOptions | None = None,
    **options: Any,
) -> Outcome:
    """The behaviour of an agent in a suite of grid worlds, beside reference agents.

    `agent` is a name in the grammar of `agents.registry`; `meg` asks for its goal-directedness
    towards goal and key too; walks are kept in the run folder `out`, or continued from there;
    `on` and
    `workers` say where it walks, see `chosen_place`; `model` says how a language model is asked and
    reached; `options` are those of
    `navigation.SuiteOptions`.
    """
    typed = model or ModelOptions()
    name, is_model = _agent(agent)
    if is_model:
        record = suite_named(suite)
        options |= {"asking": typed.asking(name, record, paper=options.get("paper", False))}
        options |= {"prompts": typed.prompts, "history": typed.history or 0}
        options |= {"server": typed.server(), "logs": typed.from_log, "budget": typed.spending()}
        options |= {} if typed.rounds is None else {"rounds": typed.rounds}
        if progress is not None and name.startswith(HUGGING_FACE):
            progress(
                f"{name}: this provider does not record token ids, so `goalmeter probe` cannot use "
                f"the run; a model in a folder can be probed as {LOCAL}FOLDER"
            )
        if on is not None or workers is not None:
            raise InvalidParameterError(
                f"{name} is a language model, which this process asks; leave out --on and "
                f"--workers, and say with --max-connections how many requests are open at once"
            )
    else:
        typed.refuse(name)
    # Walks take less than processes take to start, even as many as the paper has.
    place = chosen_place(on, workers, seconds=0.0)
    options |= {"seed": seed, "on": place, "out": out, "progress": progress}
    try:
        result = measure(name, suite, **options)
    except InvalidParameterError as cause:
        if (message := as_typed(str(cause))) == str(cause):
            raise
        raise InvalidParameterError(message) from cause
    except BudgetReachedError as reached:
        return _unfinished(name, suite, reached, out)
    tables = suite_tables([result, *result.references])
    if meg:
        if progress is not None:
            progress("goal-directedness")
        tables += directed_tables(result.directed_beside)
    if progress is not None and result.plan.asking is not None and result.failed:
        progress(_of_failures(result.failed, len(result.seen.trajectories), out))
    return Outcome(tables=tuple(tables), json=result.to_json(directed=meg))


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
    """The name of an agent in its own spelling, and whether it is asked with prompts."""
    if name is None:
        raise InvalidParameterError(
            f"AGENT is missing: name one, such as greedy, sb3:POLICY.zip or a language model as "
            f"PROVIDER/NAME (`goalmeter agents` lists all); suites are {', '.join(suite_names())}"
        )
    named = named_agent(name)
    # An agent with both abilities walks by itself, without prompts.
    named.require(Ability.GRID, Ability.TEXT, asker="navigation")
    return named.name, Ability.GRID not in named.abilities


def _of_failures(failed: dict[str, int], walks: int, out: str | Path | None) -> str:
    """What to say of walks that the server failed."""
    each = ", ".join(f"{count} × {outcome}" for outcome, count in sorted(failed.items()))
    again = "the same command makes them again" if out is not None else "nothing was kept (--out)"
    return (
        f"goalmeter: {sum(failed.values())} of {walks} walks failed ({each}); they count as not "
        f"arrived, and {again}"
    )
