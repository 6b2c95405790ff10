"""Outcomes of commands: tables, a JSON object, a report; and cost forecasts for `--dry-run`."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import goalmeter
from goalmeter import _errors
from goalmeter._errors import InvalidParameterError
from goalmeter.agents.abilities import Ability
from goalmeter.agents.registry import agent as named_agent
from goalmeter.commands.options import ModelOptions, as_typed, chosen_place
from goalmeter.navigation import suite_named
from goalmeter.navigation.plan import WalkPlan, plan_of
from goalmeter.navigation.plan import forecast as forecast_of_model
from goalmeter.navigation.rollouts import study_of
from goalmeter.report import Column, Finding, Section, Table, write_report, write_text
from goalmeter.report.numbers import DASH, storage
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, Span, forecast_of
from goalmeter.runs.progress import in_words


# --- Outcome --------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Tables and JSON say the same.

    `text` is shown before the tables; `report` is the path of the page, if one was written.
    `incomplete` says, in a line to be told as an error, what failed so that the numbers say nothing
    or not all; "" if nothing did.
    """

    tables: tuple[Table, ...]
    json: dict[str, Any]
    report: Path | None = None
    text: str = ""
    incomplete: str = ""


def json_text(value: dict[str, Any]) -> str:
    """One JSON object on one line; infinities become "inf" and "-inf", NaN null."""
    return _errors.json_text(_plain(value), allow_nan=False)


def write_outcome(
    out: str | Path,
    title: str,
    sections: Sequence[Section],
    result: dict[str, Any],
    *,
    command: str,
    lede: str,
    findings: Sequence[Finding | str],
    glossary: Mapping[str, str],
    tables: Iterable[Table] | None = None,
    text: str = "",
    figures: bool = True,
) -> Outcome:
    """Write report.html, results.json and figures/*.svg of an experiment into a folder.

    `title`, `lede`, `sections`, `findings` and `glossary` are the page's, and `command`, as it was
    typed, stands at its foot. results.json holds `result`; the outcome's JSON has the paths of both
    files besides. `tables`, by default all of the page's, are for a terminal, `text` before them.
    """
    folder = Path(out)
    report = write_report(
        folder / "report.html",
        title,
        sections,
        lede=lede,
        findings=findings,
        glossary=glossary,
        provenance=provenance(command),
    ).resolve()
    # The page shows the pictures too; as files they can be put into a paper.
    for figure in (f for section in sections for f in section.figures) if figures else ():
        write_text(folder / "figures" / f"{figure.name}.svg", figure.svg + "\n")
    results = write_text(folder / "results.json", json_text(result) + "\n").resolve()
    if tables is None:
        tables = (table for section in sections for table in section.tables)
    return Outcome(
        tables=tuple(tables),
        json=result | {"report": str(report), "results": str(results)},
        report=report,
        text=text,
    )


def provenance(command: str) -> list[str]:
    """How a page was made, for its foot. No date, so that the same run gives the same page."""
    return [
        f"Made by goalmeter {goalmeter.__version__} with the command {command}, "
        f"Python {platform.python_version()}, NumPy {np.__version__}.",
        "All numbers in full precision, with notes: results.json beside this page.",
    ]


# JSON has no infinities and no NaN, and many programs do not read Python's spelling of them.
def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case np.ndarray() | np.generic():
            return _plain(value.tolist())
        case float() if not math.isfinite(value):
            return None if math.isnan(value) else ("inf" if value > 0 else "-inf")
        case _:
            return value


# --- Dry run --------------------------------------------------------------------------------------
CONNECTIONS = 10  # questions at once where nothing is said, as Inspect has it


def of_navigation(
    agent: str | None,
    *,
    suite: str,
    model: ModelOptions,
    out: str | Path | None = None,
    on: str | None = None,
    workers: int | None = None,
    call_seconds: float | None = None,
    answer_tokens: int | None = None,
    **options: Any,
) -> Outcome:
    """What `goalmeter navigate` with these options will cost; `options` are those of the suite."""
    if agent is None:
        raise InvalidParameterError("AGENT is missing: name one, such as greedy")
    named = named_agent(agent)
    named.require(Ability.GRID, Ability.TEXT, asker="navigation")
    asking: dict[str, Any] = {}
    if Ability.GRID in named.abilities:
        model.refuse(named.name)
    else:
        record = suite_named(suite)
        asking = {"asking": model.asking(named.name, record, paper=bool(options.get("paper")))}
        asking |= {"prompts": model.prompts, "history": model.history or 0}
    try:
        plan = plan_of(named.name, suite, **asking, **options)
    except InvalidParameterError as cause:
        raise InvalidParameterError(as_typed(str(cause))) from cause
    if plan.asking is None:
        return shown([of_reference(plan, on=chosen_place(on, workers, seconds=0.0), out=out)])
    given = forecast_of_model(
        plan,
        out=out,
        connections=model.max_connections or CONNECTIONS,
        answer_tokens=answer_tokens,
        call_seconds=call_seconds,
        price_in=getattr(model, "price_in", None),
        price_out=getattr(model, "price_out", None),
    )
    return shown([given])


def of_reference(plan: WalkPlan, *, on: str = HERE, out: str | Path | None = None) -> Forecast:
    """What the walks of an agent that goalmeter plays itself will cost."""
    walks = plan.keys()
    keys = {key: {"key": key} for key in walks}
    function = "goalmeter.navigation.rollouts:play"
    study = study_of(plan, function, keys, common={"what": json.dumps(plan.what)})
    return forecast_of(study, on=on, out=out)


# --- Shown, whatever it is of ---------------------------------------------------------------------
def shown(forecasts: Sequence[Forecast]) -> Outcome:
    """Forecasts as a table, a column each, and as JSON."""
    names = dict.fromkeys(name for forecast in forecasts for name in forecast.counted)
    counted: list[Row] = [(name, partial(_counted, name), _count) for name in names]
    rows = [
        (head, *(_cell(forecast, value, text) for forecast in forecasts))
        for head, value, text in (*_TRIALS, *counted, *_COSTS)
        if any(value(forecast) is not None for forecast in forecasts)
    ]
    notes = dict.fromkeys(
        (f"{f.name}: " if len(forecasts) > 1 else "") + sentence
        for f in forecasts
        for sentence in f.assumed
    )
    heads = tuple(Column(forecast.name, numeric=False) for forecast in forecasts)
    table = Table(
        caption="What it will cost",
        columns=(Column("", numeric=False), *heads),
        rows=tuple(rows),
        meaning="Nothing is begun, and no folder made. These numbers rest on what stands below.",
        notes=tuple(notes),
    )
    return Outcome(tables=(table,), json={"forecasts": [f.to_json() for f in forecasts]})


Value = Callable[[Forecast], Any]


def _cell(forecast: Forecast, value: Value, text: Callable[[Any], str]) -> str:
    return DASH if value(forecast) is None else text(value(forecast))


def _counted(name: str, forecast: Forecast) -> int | None:
    return forecast.counted.get(name)


def _at_once(forecast: Forecast) -> str:
    return f"{forecast.slots} ({forecast.place})" if forecast.place else str(forecast.slots)


def _span(number: Callable[[float], str]) -> Callable[[Span], str]:
    def in_words(span: Span) -> str:
        least, most = number(span.least), number(span.most)
        return least if least == most else f"{least} to {most}"

    return in_words


def _count(value: float) -> str:
    return f"{round(value):,}"


def _time(seconds: float) -> str:
    return "under 1 s" if 0 < seconds < 1 else in_words(seconds)


Row = tuple[str, Value, Callable[[Any], str]]
_TRIALS: tuple[Row, ...] = (
    ("a trial is a", lambda f: f.noun, str),
    ("trials", lambda f: f.trials, _count),
    ("kept already", lambda f: f.kept, _count),
    ("left", lambda f: f.left, _count),
)
_COSTS: tuple[Row, ...] = (
    ("made at once", lambda f: f, _at_once),
    ("calls", lambda f: f.calls, _span(_count)),
    ("prompt tokens", lambda f: f.prompt_tokens, _span(_count)),
    ("output tokens", lambda f: f.output_tokens, _span(_count)),
    ("output tokens at most", lambda f: f.output_cap, _count),
    ("US dollars", lambda f: f.usd, _span(lambda usd: f"{usd:,.2f}")),
    ("time", lambda f: f.hours, _span(lambda hours: _time(hours * 3600))),
    ("disk", lambda f: f.disk, _span(lambda size: storage(round(size)))),
)
