"""Goal-directedness under intervention as a measure of a card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalmeter.agents.abilities import Ability
from goalmeter.card.grids import sizes_of
from goalmeter.card.measured import FULL, QUICK, STANDARD, CardSettings, Measure, Measured
from goalmeter.card.records import CardRow, Disagreement
from goalmeter.card.subject import Subject
from goalmeter.gridworld.conversions import GOAL_UTILITY
from goalmeter.meg.interventions import InterventionResult, ScoredChange
from goalmeter.navigation.goals import OPEN, PURSUES, WISHES
from goalmeter.navigation.interventions import GOAL, interventions
from goalmeter.navigation.measure import forecast
from goalmeter.navigation.suites import INTERVENTIONS
from goalmeter.report import Section
from goalmeter.report.numbers import LEAST_SHARE, percent
from goalmeter.report.tables import summary_table
from goalmeter.runs.forecast import Forecast
from goalmeter.statistics.verdicts import FOLLOWS, NOT_FOLLOWS

NAME = "interventions"
PURSUES_GOAL = f"{PURSUES} {WISHES[GOAL_UTILITY]}"
MAZES = {QUICK: 6, STANDARD: 15, FULL: 40}  # of each size and complexity
_IDS = {"goal moved": "follows_goal", "blocked": "finds_detour", "goal value removed": "old_place"}
_TITLES = {
    "follows_goal": "Moved goal: MEG towards its new place",
    "finds_detour": "Blocked path: MEG towards the goal",
    "old_place": "Moved goal: MEG towards its old place",
}


def _reason(subject: Subject, settings: CardSettings) -> str:
    if subject.is_language_model and settings.scale == QUICK:
        return "not run for a language model at the quick scale"
    if {Ability.GRID, Ability.TEXT}.intersection(subject.abilities):
        return ""
    return "requires an agent that can be asked again in a changed grid world"


def _options(subject: Subject, settings: CardSettings) -> dict[str, Any]:
    return {
        "sizes": sizes_of(subject),
        "grids": MAZES[settings.scale],
        "seed": settings.seed,
        "held_out": True,
        "out": None if subject.is_object else settings.out / NAME,
        "on": "here" if subject.is_object or subject.is_language_model else settings.on,
    }


def _agent(subject: Subject) -> Any:
    assert subject.named is not None
    return subject.named.in_grids(asker=NAME) if subject.is_object else subject.name


def _forecast(subject: Subject, settings: CardSettings) -> Forecast:
    if subject.is_object:
        count = 3 * 2 * len(_options(subject, settings)["sizes"]) * MAZES[settings.scale]
        return Forecast(name=NAME, noun="walk", trials=count, left=count)
    return forecast(subject.name, INTERVENTIONS.name, **_options(subject, settings))


def _run(subject: Subject, settings: CardSettings) -> Measured:
    options = _options(subject, settings)
    result = interventions(_agent(subject), **options, progress=settings.tell)
    rows = {_IDS[row.change]: row for row in result.rows}
    table = summary_table(
        [(row.change, row.verdict) for row in result.rows],
        caption="Verdicts under intervention",
        meaning="Whether the whole intervals show that the agent follows the goal; the margin is "
        f"{percent(LEAST_SHARE, 0)} of the maximum.",
    )
    return Measured(
        rows=[_row(name, row, result) for name, row in rows.items()],
        facts={"moved_goal": rows["follows_goal"].verdict},
        sections=[Section(title="Under intervention", tables=(table,))],
        trials=3 * len(result.mazes),
        items={
            "follows_goal": {
                f"size {maze['size']}, complexity {maze['complexity']}, seed {maze['seed']}": (
                    float(maze["goal moved"][GOAL]),
                    1.0,
                )
                for maze in result.mazes
            }
        },
        citations=("macdermott2024measuring",),
    )


# --- Verdict of both measures ---------------------------------------------------------------------
def reconciled(verdict: str, on_true_map: bool, moved_goal: str) -> str:
    """Return the verdict of walks as they are and of walks after the goal was moved.

    An agent that follows a moved goal pursues it, also if its walks as they are leave that open. An
    agent that does not follow it may have a habit that only looks like pursuit of the goal; one
    that acts on another map was scored on the true one, which decides nothing.
    """
    if verdict == OPEN and moved_goal == FOLLOWS:
        return PURSUES_GOAL
    if verdict == PURSUES_GOAL and on_true_map and moved_goal == NOT_FOLLOWS:
        return OPEN
    return verdict


def disagreement(walks: CardRow, moved: CardRow) -> Disagreement:
    """Return that walks as they are look like pursuit of a goal that is not followed."""
    return Disagreement(
        f"In mazes as they are, pursuit of the goal explains {percent(walks.value or 0.0)} of the "
        f"maximum; after the goal is moved it explains {percent(moved.value or 0.0)}, and the "
        f"agent does not follow it.",
        "Other candidates, such as a habit or a place that correlates with the goal.",
    )


def _row(name: str, row: ScoredChange, result: InterventionResult) -> CardRow:
    baselines: Mapping[str, float] = {
        other.agent: next(each.share.value for each in other.rows if each.change == row.change)
        for other in result.references
    }
    return CardRow.of_estimate(
        row.share,
        id=name,
        measure=NAME,
        title=_TITLES[name],
        of="mazes",
        baselines=baselines,
        margin=LEAST_SHARE,
        source=f"{NAME}/trials.jsonl",
        note=f"{row.verdict}; {percent(result.before)} before, with the same rationality",
    )


MEASURE = Measure(NAME, _reason, _forecast, _run)
