"""`goalmeter navigate`: behaviour of an agent in grid worlds."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, fields
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SECONDS, InvalidParameterError
from goalmeter._options import given, optional, options_in
from goalmeter.agents import Ability, agent, listed_names
from goalmeter.agents.user_code import UserCode, caller_guard
from goalmeter.commands.declare import RunOptions, Tell, argument, command, option
from goalmeter.commands.outcome import Outcome, planned
from goalmeter.navigation import suite_named, suite_names
from goalmeter.navigation.inspect.models import Budget, BudgetReachedError, Server
from goalmeter.navigation.measure import Navigation, forecast, measure
from goalmeter.navigation.plan import NavigationOptions
from goalmeter.navigation.prompts import Asking, paper_effort
from goalmeter.navigation.recorded import WalkOptions, from_walks, read_walks
from goalmeter.navigation.suite_definition import SuiteOptions
from goalmeter.navigation.suites import SUITES
from goalmeter.pages import Texts
from goalmeter.pages.navigation import directed_tables, suite_tables

_LOST = "nothing was kept (--out)"
_Library = optional(NavigationOptions, Asking, Server, Budget, WalkOptions)
_OF_WALKS = [each.name for each in fields(WalkOptions)]  # options that apply with --walks


@dataclass(frozen=True, kw_only=True)
class _NavigateOptions(_Library, RunOptions):  # type: ignore[misc, valid-type]
    agent: str | None = argument(
        "AGENT  A reference agent, or a language model as Inspect spells it; with --walks a label.",
        default=None,
        complete=lambda: [*listed_names(Ability.GRID), *listed_names(Ability.TEXT)],
    )
    suite: str | None = option(
        f"NAME  Grid worlds: {', '.join(SUITES)}, or a suite of another package; default maze, "
        f"with --walks by their objects.",
        complete=suite_names,
    )
    walks: Path | None = option("FILE.jsonl  Measure walks that another tool recorded.")
    converter: str | None = option(
        "FILE.py:FUNCTION  With --walks: makes records of a file in another format."
    )
    meg: bool = option("Goal-directedness towards goal and key too.", default=False)
    call_seconds: float | None = option(
        "With --dry-run: seconds of a model call.", least=0, most=MOST_SECONDS
    )
    answer_tokens: int | None = option("With --dry-run: tokens of an answer.", least=1, most=10**8)


@command(_NavigateOptions)
def navigate(o: _NavigateOptions, tell: Tell) -> Outcome:
    """Evaluate an agent in grid worlds against baseline agents.

    Trajectories that the server of a language model failed count as not arrived, and the exit
    status then is 3; the same command makes them again. It is 3 too where --budget ended the run; a
    larger one resumes it.
    """
    if o.walks is not None:
        return _recorded(o, tell)
    if unused := [n for n in ("converter", "collisions", "doors") if getattr(o, n) is not None]:
        raise InvalidParameterError(f"--{unused[0]} needs --walks, the file of recorded walks")
    suite = o.suite or "maze"
    if o.agent is None:
        raise InvalidParameterError(
            f"AGENT is missing: name one, such as greedy, sb3:POLICY.zip or a language model as "
            f"PROVIDER/NAME (`goalmeter agents` lists all); suites are {', '.join(suite_names())}"
        )
    named = agent(o.agent)
    name = named.name
    options = given(o, NavigationOptions)
    if Ability.GRID in named.abilities:
        _refuse_model_options(o, name)
    else:
        effort = {"reasoning_effort": paper_effort(name, suite_named(suite)) if o.paper else None}
        options["asking"] = Asking(**(effort | given(o, Asking)))
        options["server"] = Server(**given(o, Server))
    # Trajectories take less than processes take to start.
    options |= {"on": o.place(seconds=0.0), "out": o.out}
    try:
        if Ability.GRID not in named.abilities:
            options["budget"] = Budget(**options.get("budget", {}), **given(o, Budget))
        if o.dry_run:
            costs: dict[str, Any] = {
                "call_seconds": o.call_seconds,
                "answer_tokens": o.answer_tokens,
            }
            return planned(forecast(name, suite, **options, **costs))
        result = measure(name, suite, **options, progress=tell)
    except BudgetReachedError as reached:
        json, again = {"agent": name, "suite": suite} | reached.to_json(), _LOST
        if o.out is not None:
            json["run"] = str(Path(o.out).resolve())
            folder = shlex.quote(str(o.out))
            again = f"the same command with a larger --budget goes on from {folder}"
        walks = [(part, json["walks"][part]) for part in ("ended", "left")]
        table = Texts("commands").table("unfinished", walks, agent=name, suite=suite)
        return Outcome(tables=[table], json=json, incomplete=f"{reached}; {again}")
    except InvalidParameterError as cause:
        raise InvalidParameterError(as_typed(str(cause))) from cause
    incomplete = result.failed_in_words
    if incomplete:
        incomplete += f", and {'the same command makes them again' if o.out else _LOST}"
    return _outcome(result, o, tell, incomplete=incomplete)


def _outcome(result: Navigation, o: _NavigateOptions, tell: Tell, **more: Any) -> Outcome:
    tables = suite_tables([result, *result.references])
    if o.meg:
        tell("goal-directedness")
        tables += directed_tables(result.directed_beside)
    return Outcome(tables=tables, json=result.to_json(directed=o.meg), **more)


def _recorded(o: _NavigateOptions, tell: Tell) -> Outcome:
    assert o.walks is not None
    apply = {*_OF_WALKS, "agent", "walks", "converter", "meg"}
    declared = options_in(_NavigateOptions).items()
    if flags := [e.flag for n, e in declared if n not in apply and getattr(o, n) != e.default]:
        raise InvalidParameterError(
            f"{', '.join(flags)}: not with --walks, whose walks have been made; leave it out"
        )
    records = read_walks(o.walks)
    if o.converter is not None:
        convert = UserCode().member(o.converter, "converter")
        with caller_guard(o.converter):
            records = iter([*convert(o.walks)])
    options = {n: value for n in _OF_WALKS if (value := getattr(o, n, None)) is not None}
    try:
        result = from_walks(records, o.agent or "recorded", **options, progress=tell)
    except InvalidParameterError as cause:
        raise InvalidParameterError(as_typed(str(cause))) from cause
    return _outcome(result, o, tell)


def _refuse_model_options(o: _NavigateOptions, agent: str) -> None:
    # All options with a heading of their own are of language models.
    declared = options_in(_NavigateOptions).items()
    if flags := [each.flag for n, each in declared if each.group and getattr(o, n) is not None]:
        raise InvalidParameterError(
            f"{', '.join(flags)}: for language models only, and {agent} is a reference agent; "
            f"leave it out, or let {agent} read prompts as goalmeter/{agent}"
        )


def as_typed(message: str) -> str:
    """Return a message on options of suites, or on prices, with options as they are typed."""
    options = [options_in(record) for record in (SuiteOptions, Budget, WalkOptions)]
    for name, declared in reduce(or_, options).items():
        message = re.sub(rf"\b{name}(?= is | are | and price)", declared.flag, message)
    return message
