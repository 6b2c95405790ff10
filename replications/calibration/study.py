"""`goalmeter replicate calibration`: do the instruments recover goals that are known?"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "calibration")

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import InvalidParameterError, MissingExtraError
from goalmeter.commands.outcome import Outcome, write_outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.commands.walks import IDEAL, MOLE, TRAINED, play_every, require_models
from goalmeter.navigation import Trajectory
from goalmeter.navigation.goal_directedness import Drawn, answers, learn
from goalmeter.navigation.rollouts import Walked
from goalmeter.organisms import organism, organism_names
from goalmeter.pages import navigation_goals
from goalmeter.pages.navigation import GLOSSARY
from goalmeter.report import (
    Cell,
    ColumnOf,
    Figure,
    Section,
    Table,
    column,
    in_markdown,
    number,
    require_report_extra,
    table_of,
    words,
    write_text,
)
from goalmeter.report.charts import DotPanel, Dots, dot_chart
from goalmeter.report.numbers import DASH
from goalmeter.runs import HERE
from replications.calibration import agents as players
from replications.calibration import instruments as judged
from replications.calibration.agents import Scale, Subject, map_of, subjects_of
from replications.calibration.instruments import (
    INSTRUMENTS,
    QUESTIONS,
    Question,
    Score,
    Verdict,
    findings,
    scores,
    verdicts,
)
from replications.calibration.population import page as population_page
from replications.calibration.population.evidence import BESIDE, PopulationScale
from replications.calibration.population.result import (
    calibrate_population,
    population_seeds,
)
from replications.prose import prose

say = partial(prose, "calibration")

# --- Measuring ------------------------------------------------------------------------------------
# Suites in one world of which a utility is learnt of each organism.
_LEARNT_IN = (players.MAZE, players.KEY_NO_DOOR)


@dataclass(frozen=True)
class Calibration:
    """What the instruments say of agents whose goals are known."""

    subjects: tuple[Subject, ...]  # the agents, and what is known of them
    walked: Mapping[str, Mapping[str, Walked]]  # their walks, by suite and agent
    scores: tuple[Score, ...]  # of each agent in each grid
    verdicts: tuple[Verdict, ...]  # of each instrument on each question
    drawn: tuple[Drawn, ...]  # utilities that were learnt of the organisms

    @property
    def findings(self) -> list[str]:
        """All of it in sentences."""
        return findings(self.scores, self.verdicts, self.subjects)


def calibrate(
    subjects: Sequence[Subject],
    out: Path,
    *,
    scale: players.Scale,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
) -> Calibration:
    """Let agents walk, each in a run folder below `out`, and measure them with every instrument.

    What was walked before is not walked again.
    """
    require_models(subject.name for subject in subjects)
    # Fits of the simplest utility take longest, so they are left out where no question needs them:
    # of agents that have no class in the one question that they are made for.
    learners = [subject.name for subject in subjects if subject.directed and not subject.own_map]
    places = _places(subjects, scale)
    plans = [players.plan_for(name, suite, scale, seed=seed) for suite, name in places]
    walked: dict[str, dict[str, Walked]] = {suite: {} for suite in scale.suites}
    runs = play_every(plans, out, on=on, progress=progress)
    for (suite, name), run in zip(places, runs, strict=True):
        walked[suite][name] = run
    every_score: list[Score] = []
    drawn: list[Drawn] = []
    for suite, by_name in walked.items():
        walks = {name: run.trajectories for name, run in by_name.items()}
        every_score += scores(suite, walks, learners=learners, on=on, progress=progress)
        drawn += _learnt_of(suite, walks, subjects)
    return Calibration(
        tuple(subjects),
        walked,
        tuple(every_score),
        tuple(verdicts(every_score, subjects)),
        tuple(drawn),
    )


def _places(subjects: Sequence[Subject], scale: players.Scale) -> list[tuple[str, str]]:
    return [(suite, subject.name) for suite in scale.suites for subject in subjects]


def _learnt_of(
    suite: str, agents: Mapping[str, Sequence[Trajectory]], subjects: Sequence[Subject]
) -> list[Drawn]:
    """What every organism that counts seems to want in one world; nothing for other suites."""
    if suite not in _LEARNT_IN:
        return []
    mole = organism(MOLE)
    drawn = []
    for name in (subject.name for subject in subjects if subject.organism and subject.counted):
        walks = agents[name]
        # The largest kind in which the mole's map is wrong, so that all four differ.
        wrong = [walk for walk in walks if map_of(mole, walk.world) != walk.world] or list(walks)
        world = wrong[-1].world
        through = [walk for walk in walks if walk.world == world]
        drawn.append(Drawn(name, suite, world, learn(world, through[0].cap, answers(through))))
    return drawn


# --- Tables ---------------------------------------------------------------------------------------
_MARKS = {judged.RIGHT: "✓", judged.WRONG: "✗", judged.OPEN: "?"}
_SIGNS = {judged.TELLS: "✓", judged.SAME: "✓", judged.IN_PART: "~", judged.UNKNOWN: "?"}
_HEADS = {
    "directed": "goal-directed, aimless",
    "misled": "false map, aimless",
    "map": "false map, true map",
    "target": "goal, key",
    "control": "goal, key behind a door",
}


def truth_table(subjects: Sequence[Subject]) -> Table:
    """Who is directed, to what, and on which map."""
    notes = []
    if any(subject.directed is None for subject in subjects):
        notes.append("Not counted: language models of which nobody knows what they want.")
    if any(subject.aside for subject in subjects):
        notes.append(
            "Shown beside the trained one: an ideal organism draws each move from what the trained "
            "one was made to do. It is not counted, so that no organism counts twice. Behind the "
            "door it is, because there only agents count that take no wrong step."
        )
    return table_of(
        subjects,
        (
            words("agent", lambda subject: subject.name),
            words(
                "goal-directed",
                lambda subject: (
                    {True: "yes", False: "no", None: "not counted"}[subject.directed]
                    + ", shown beside the trained one" * subject.aside
                ),
            ),
            words("first target", lambda subject: subject.target or "none"),
            words("map", lambda s: f"the {s.own_map.name}'s" if s.own_map else "true"),
            words("what it does", lambda subject: subject.why),
        ),
        **say("what_is_known"),
        notes=notes,
    )


def area_table(verdicts: Sequence[Verdict]) -> Table:
    """How well every instrument tells classes of agents apart."""
    by_place = {(verdict.instrument, verdict.question): verdict for verdict in verdicts}
    questions = [name for name in QUESTIONS if any(v.question == name for v in verdicts)]
    instruments = [name for name in INSTRUMENTS if any(v.instrument == name for v in verdicts)]

    def area(question: str) -> ColumnOf[str]:
        return column(_HEADS[question], lambda name: _area(by_place.get((name, question))))

    return table_of(
        instruments,
        (words("instrument", lambda name: INSTRUMENTS[name].title), *map(area, questions)),
        **say("areas_under_the_curve"),
        notes=(
            "✓ at least 0.9 and beyond chance; ~ beyond chance; ✗ not, or upside down; ? too few "
            "grids to say. Without a "
            "mark: the instrument is not made for the question. Behind a door both do the same: "
            "✓ if the interval holds 0.5.",
            "False map: mazes in which the mole's map is wrong.",
            "Less is better of "
            + ", ".join(i.title for i in INSTRUMENTS.values() if i.lower)
            + ": their areas are those of the negative.",
        ),
    )


def agent_table(
    scores: Sequence[Score], subjects: Sequence[Subject], question: Question, also: Sequence[str]
) -> Table:
    """One row an agent, one column an instrument made for any of several questions."""
    asked = (question, *(QUESTIONS[name] for name in also))
    instruments = list(dict.fromkeys(name for each in asked for name in each.made_for))

    def cell(subject: Subject, name: str) -> str:
        value = judged.mean_of(scores, question, name, subject.name)
        # Of the questions that instrument is made for, the first in which the agent has a class.
        marks = (
            judged.mark(scores, each, name, subject, subjects)
            for each in asked
            if name in each.made_for
        )
        sign = next((_MARKS[each] for each in marks if each is not None), "")
        return DASH if math.isnan(value) else f"{number(value, 2)} {sign}".strip()

    def instrument(name: str) -> ColumnOf[Subject]:
        return column(INSTRUMENTS[name].title, lambda subject: cell(subject, name))

    return table_of(
        subjects,
        (words("agent", lambda subject: subject.name), *map(instrument, instruments)),
        **say("agent_table", title=question.title),
        notes=tuple(f"{INSTRUMENTS[i].title}: {INSTRUMENTS[i].meaning}." for i in instruments),
    )


def _area(verdict: Verdict | None) -> Cell | str:
    if verdict is None or math.isnan(verdict.area.value):
        return DASH
    sign = _SIGNS.get(verdict.words, "✗") if verdict.judged else ""
    return Cell(f"{number(verdict.area, 2)} {sign}".strip(), share=verdict.area.value)


# --- Page -----------------------------------------------------------------------------------------
# What learnt utilities are compared with: an agent that takes shortest ways, and one without aim.
SHORTEST, AIMLESS = "optimal", "random"


def page_sections(calibration: Calibration) -> list[Section]:
    """Which instrument tells whom apart, what it says of each agent, and who was measured."""
    scores, subjects = calibration.scores, calibration.subjects
    in_mazes, with_keys = QUESTIONS["directed"], QUESTIONS["target"]
    parts = [
        Section(
            **say("which_instruments_tell_agents_apart"),
            tables=(area_table(calibration.verdicts),),
            figures=(area_chart(calibration.verdicts),),
        ),
        Section(
            title="What each instrument says of each agent",
            tables=(
                agent_table(scores, subjects, in_mazes, ["misled", "map"]),
                agent_table(scores, subjects, with_keys, []),
            ),
        ),
    ]
    if calibration.drawn:
        parts.append(navigation_goals.learnt_section(learnt(calibration)))
    who = Section(title="Who was measured", tables=(truth_table(subjects),))
    return [*parts, who]


def area_chart(verdicts: Sequence[Verdict]) -> Figure:
    """The areas of the two main questions beside each other."""
    questions = [n for n in ("directed", "target") if any(v.question == n for v in verdicts)]
    judged = [verdict for verdict in verdicts if verdict.judged and verdict.question in questions]
    names = list(dict.fromkeys(verdict.instrument for verdict in judged))
    by_place = {(verdict.instrument, verdict.question): verdict.area for verdict in judged}
    # An instrument that is made for one of the questions only has a gap in the other's panel.
    panels = []
    for question in questions:
        areas = [by_place.get((name, question)) for name in names]
        panels.append(
            DotPanel(
                title=QUESTIONS[question].title,
                x_label="area under the curve",
                series=(Dots.of("all counted agents", areas),),
                band=(0.5, 0.9),
            )
        )
    areas_in_words = "; ".join(
        f"{QUESTIONS[verdict.question].title}: {INSTRUMENTS[verdict.instrument].title} "
        f"{number(verdict.area.value, 2)}"
        for verdict in judged
        if not np.isnan(verdict.area.value)
    )
    return Figure(
        svg=dot_chart("calibration-areas", [INSTRUMENTS[name].title for name in names], panels),
        **say("area_chart", areas_in_words=areas_in_words),
        wide=True,
    )


def learnt(calibration: Calibration) -> list[navigation_goals.Explained]:
    """The learnt utilities, with the share that each explains."""
    walks = {
        suite: {name: agent.trajectories for name, agent in by_name.items()}
        for suite, by_name in calibration.walked.items()
    }
    return navigation_goals.explain(calibration.drawn, walks, shortest=SHORTEST, aimless=AIMLESS)


def to_json(calibration: Calibration) -> dict[str, Any]:
    """All of it as JSON values, without the walks."""
    return {
        "findings": calibration.findings,
        "agents": [
            {
                "name": row.name,
                "directed": row.directed,
                "counted": row.counted,
                "target": row.target,
                "map": None if row.own_map is None else row.own_map.name,
                "why": row.why,
            }
            for row in calibration.subjects
        ],
        "instruments": {row.name: row.meaning for row in INSTRUMENTS.values()},
        "verdicts": [row.to_json() for row in calibration.verdicts],
        "scores": [
            {"agent": row.agent} | row.grid._asdict() | {"values": row.values}
            for row in calibration.scores
        ],
        "learnt": [
            {
                "world": str(row.drawn.world).splitlines(),
                "cells": [[*cell, value] for cell, value in row.drawn.learnt.cells.items()],
                "key": row.drawn.learnt.key,
            }
            | row.to_json()
            for row in learnt(calibration)
        ],
    }


# --- Replicate ------------------------------------------------------------------------------------
COMMAND = "goalmeter replicate calibration"
_IDEAL = (
    *(f"{IDEAL}{name}" for name in organism_names()),
    *("optimal", "epsilon-optimal(0.3)", "boltzmann(1)", "key-seeker", "random"),
    *("greedy", "wall-follower"),
)
AGENTS = (*(f"{TRAINED}{name}" for name in organism_names()), *_IDEAL)
SCALE = Scale()
POPULATION = PopulationScale()
NOBODY = "none"
WALKS = "walks"


OPTIONS = ("agents",)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Measure agents whose goals are known, and write report.html and results.json.

    Two populations of simulated agents walk anew each time. The walks of organisms and reference
    agents are stored in the folder and reused. Seeds are grids of each size and complexity, 2 by
    default; there are four times as many worlds of each kind with a key, and for the populations as
    many mazes as are given, or 6. `agents` are language models ("goalmeter/mouse"), ideal organisms
    ("ideal-mouse") and reference agents; "none" for the populations alone.
    """
    subjects = _subjects(options.agents)
    grids = options.count(SCALE.grids, least=1)
    require_report_extra()
    _require_models(subjects)
    population = calibrate_population(
        _population(options.seeds),
        seed=options.seed,
        on=options.on,
        progress=options.progress,
    )
    sections = population_page.sections(population)
    findings = came_of_it = population_page.findings(population)
    result: dict[str, Any] = {"replication": "calibration", "population": population.to_json()}
    if subjects:
        calibration = calibrate(
            subjects,
            out / WALKS,
            scale=replace(SCALE, grids=grids),
            seed=options.seed,
            on=options.on,
            progress=options.progress,
        )
        sections += page_sections(calibration)
        findings = [*findings, *calibration.findings]
        result |= to_json(calibration)
    result["findings"] = findings
    tables = tuple(table for section in sections for table in section.tables)
    write_text(out / "tables.md", in_markdown(tables, {"What came of the aims": came_of_it}))
    return write_outcome(
        out,
        "Calibration of the instruments",
        sections,
        result,
        command=options.command("calibration"),
        **say("page"),
        findings=findings,
        glossary=GLOSSARY,
        text="\n".join(findings),
    )


def planned(options: StudyOptions) -> dict[str, int]:
    """How much `replicate` with these options will do."""
    subjects, scale = _subjects(options.agents), _population(options.seeds)
    plans = [
        players.plan_for(
            subject.name,
            suite,
            replace(SCALE, grids=options.count(SCALE.grids, least=1)),
            seed=options.seed,
        )
        for suite in SCALE.suites
        for subject in subjects
    ]
    mazes = [len(scale.pairs(each)) for each in population_seeds(options.seed)]
    return {
        "mazes of populations": sum(mazes),
        "walks of populations": 2 * sum(mazes) * scale.walks * (scale.agents + len(BESIDE)),
        "walks of single agents": sum(len(plan.keys()) for plan in plans),
    }


def _population(seeds: int | None) -> PopulationScale:
    return POPULATION if seeds is None else replace(POPULATION, grids=seeds)


def _subjects(names: str | None) -> list[Subject]:
    if names == NOBODY:
        return []
    subjects = subjects_of(AGENTS if names is None else names.split(","))
    if not any(
        any(map(question.first, subjects)) and any(map(question.second, subjects))
        for question in QUESTIONS.values()
        if not question.control
    ):
        raise InvalidParameterError(
            f"agents is {names!r}, expected some that are to be told apart: a goal-directed one "
            f"and an aimless one, such as optimal,random, or one that wants the goal and one that "
            f"wants the key, such as optimal,key-seeker"
        )
    return subjects


def _require_models(subjects: list[Subject]) -> None:
    try:
        require_models(subject.name for subject in subjects)
    except MissingExtraError as error:
        raise MissingExtraError(
            f"{error}, or do without: {COMMAND} --agents '{','.join(_IDEAL)}'"
        ) from error
