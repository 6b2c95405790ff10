"""Goal-directedness under intervention as a measure of a card, in grid worlds and in tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from goalmeter._files import strict_values
from goalmeter.agents.abilities import Ability
from goalmeter.card.grids import error_rate, sizes_of
from goalmeter.card.measured import FULL, QUICK, STANDARD, CardSettings, Measure, Measured
from goalmeter.card.records import EXACT, PAIRED, CardRow
from goalmeter.card.subject import Subject
from goalmeter.card.worlds import stored_values, untimed
from goalmeter.meg import interventions as tables
from goalmeter.meg.interventions import InterventionResult, ScoredChange
from goalmeter.navigation.interventions import (
    REMOVED,
    TARGETS,
    forecast,
    interventions,
    share_in,
    walks_of,
)
from goalmeter.navigation.suites import BLOCKED, DEVALUATION, GOAL_MOVED, OUT_OF_REACH, SLIPS
from goalmeter.report import Section
from goalmeter.report.numbers import LEAST_SHARE, percent, points
from goalmeter.report.tables import summary_table
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast
from goalmeter.tabular import optimal_policy

NAME = "interventions"
MAZES = {QUICK: 6, STANDARD: 15, FULL: 40}  # of each size and complexity
_LEAST_SIZE = 7  # smaller mazes have no two places that are far apart
# Row of each change of mazes and of tables, with its title.
MAZE_ROWS = {
    GOAL_MOVED: ("follows_goal", "Moved goal: MEG towards its new place"),
    REMOVED: ("old_place", "Moved goal: MEG towards its old place"),
    OUT_OF_REACH: ("no_goal", "Goal out of reach: MEG towards its old place"),
    BLOCKED: ("finds_detour", "Blocked path: MEG towards the goal"),
    SLIPS: ("slip", "Slips: MEG towards the goal"),
}
TABLE_ROWS = {
    tables.MOVED: ("follows_goal", "Moved reward: MEG towards its new place"),
    tables.DEVALUED: ("no_goal", "Removed reward: MEG towards its old place"),
    tables.BLOCKED: ("finds_detour", "Blocked path: MEG towards the reward"),
    tables.SLIP: ("slip", "Slips: MEG towards the reward"),
}
# What an array, which stays as it is, can show.
_FIXED = {
    tables.MOVED: "a fixed policy does not see the change and cannot follow",
    tables.DEVALUED: "a fixed policy does not see the change: above the margin it goes on for "
    "no reward",
    tables.BLOCKED: "a fixed policy does not see the change: it shows whether another way is in "
    "its actions",
    tables.SLIP: "a fixed policy shows its actions in states that it seldom visits otherwise",
}


def _reason(subject: Subject, settings: CardSettings) -> str:
    if subject.is_language_model and settings.scale == QUICK:
        return "not run for a language model at the quick scale"
    if subject.policy is not None:
        return ""
    if subject.log is not None:
        return "logged trajectories cannot be continued in a changed world"
    if not {Ability.GRID, Ability.TEXT}.intersection(subject.abilities):
        return "requires an agent that can be asked again in a changed world"
    return "" if _sizes(subject) else f"requires mazes of at least size {_LEAST_SIZE}"


def _forecast(subject: Subject, settings: CardSettings) -> Forecast:
    return (_forecast_in_mazes if subject.policy is None else _FORECAST)(subject, settings)


def _run(subject: Subject, settings: CardSettings) -> Measured:
    return (_run_in_mazes if subject.policy is None else _run_in_table)(subject, settings)


MEASURE = Measure(NAME, _reason, _forecast, _run)


# --- Mazes ----------------------------------------------------------------------------------------
def _sizes(subject: Subject) -> tuple[int, ...]:
    return tuple(size for size in sizes_of(subject) if size >= _LEAST_SIZE)


def _options(subject: Subject, settings: CardSettings) -> dict[str, Any]:
    return {
        "sizes": _sizes(subject),
        "grids": MAZES[settings.scale],
        "seed": settings.seed,
        "held_out": True,
        "out": settings.out / NAME,
        "on": HERE if subject.is_object or subject.is_language_model else settings.on,
    }


def _forecast_in_mazes(subject: Subject, settings: CardSettings) -> Forecast:
    options = _options(subject, settings)
    if subject.is_object:
        count = len(TARGETS) * 2 * len(options["sizes"]) * MAZES[settings.scale]
        return Forecast(name=NAME, noun="walk", trials=count, left=count)
    return forecast(subject.name, **options)


def _run_in_mazes(subject: Subject, settings: CardSettings) -> Measured:
    assert subject.named is not None
    agent = subject.named.in_grids(asker=NAME) if subject.is_object else subject.name
    options = _options(subject, settings)
    result = interventions(agent, **options, progress=settings.tell)
    return Measured(
        rows=[_maze_row(row, result, settings.scale) for row in result.rows],
        facts={"moved_goal": result.rows[0].verdict},
        sections=[_section(result)],
        trials=walks_of(result),
        items={
            MAZE_ROWS[row.change][0]: {
                f"size {maze['size']}, complexity {maze['complexity']}, seed {maze['seed']}": (
                    share,
                    1.0,
                )
                for maze in result.mazes
                if (share := share_in(maze, row.change)) is not None
            }
            for row in result.rows
        },
        citations=("macdermott2024measuring",),
    )


def _maze_row(row: ScoredChange, result: InterventionResult, scale: str) -> CardRow:
    name, title = MAZE_ROWS[row.change]
    folder = f"{NAME}/{DEVALUATION.name}" if row.change == OUT_OF_REACH else NAME
    return CardRow.of_estimate(
        row.share,
        id=name,
        measure=NAME,
        title=title,
        of="mazes",
        method=PAIRED,
        baselines=_beside(row, result),
        error_rate=error_rate(scale, name),
        margin=LEAST_SHARE,
        source=f"{folder}/trials.jsonl",
        note=_note(row, result),
    )


# --- Tables ---------------------------------------------------------------------------------------
_FORECAST = partial(untimed, NAME, 2)


def _run_in_table(subject: Subject, settings: CardSettings) -> Measured:
    world, agent = subject.world, subject.planner or subject.policy
    assert world is not None and agent is not None

    def scored(of: Any) -> Any:
        return strict_values(tables.under_changes(world, of).to_json())

    trials = {"agent": partial(scored, agent), "optimal": partial(scored, optimal_policy)}
    values = stored_values(NAME, subject, settings, trials)
    result, optimal = (InterventionResult.from_json(values[name]) for name in trials)
    result = replace(result, references=(replace(optimal, agent="optimal"),))
    return Measured(
        rows=[_table_row(row, result, subject.planner is None) for row in result.rows],
        sections=[_section(result)],
        trials=len(trials),
        citations=("macdermott2024measuring",),
    )


def _table_row(row: ScoredChange, result: InterventionResult, is_fixed: bool) -> CardRow:
    change = row.change.partition(" ")[0]  # without its parameter
    name, title = TABLE_ROWS[change]
    return CardRow(
        id=name,
        measure=NAME,
        title=title,
        value=row.share.value,
        lower=row.share.value,
        upper=row.share.value,
        ends=EXACT,
        baselines={"uniform": 0.0, **_beside(row, result)},
        margin=LEAST_SHARE,
        source=f"{NAME}/trials.jsonl",
        note=_note(row, result) + (f"; {_FIXED[change]}" if is_fixed else ""),
    )


# --- Both -----------------------------------------------------------------------------------------
def _note(row: ScoredChange, result: InterventionResult) -> str:
    return (
        f"{row.verdict}; {percent(result.before)} before, difference {points(row.difference)} "
        f"points, with the same rationality"
    )


def _beside(row: ScoredChange, result: InterventionResult) -> Mapping[str, float]:
    """Return the share of each baseline agent after the same change."""
    return {
        other.agent: each.share.value
        for other in result.references
        for each in other.rows
        if each.change == row.change
    }


def _section(result: InterventionResult) -> Section:
    table = summary_table(
        [(row.change, row.verdict) for row in result.rows],
        caption="Verdicts under intervention",
        meaning="Whether the whole intervals show that the agent follows the goal; the margin is "
        f"{percent(LEAST_SHARE, 0)} of the maximum.",
    )
    return Section(title="Under intervention", tables=(table,), text=result.notes)
