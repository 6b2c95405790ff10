"""`goalmeter replicate calibration`: do the instruments recover goals that are known?"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "calibration")

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from goalmeter import InvalidParameterError, MissingExtraError
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import StudyOptions
from goalmeter.commands.walks import play_every, require_models
from goalmeter.navigation import Trajectory
from goalmeter.organisms import organism, organism_names
from goalmeter.pages import navigation as navigation_page
from goalmeter.report import (
    Cell,
    DotPanel,
    Dots,
    Figure,
    Section,
    Table,
    dot_chart,
    in_markdown,
    number,
    require_report_extra,
    write_text,
)
from replications.calibration import instruments
from replications.calibration.instruments import INSTRUMENTS, QUESTIONS, Calibration, Subject, say
from replications.calibration.population import page as population_page
from replications.calibration.population.evidence import BESIDE, PopulationScale
from replications.calibration.population.scores import calibrate_population, population_seeds
from replications.common import plain


def _calibrate(
    subjects: Sequence[Subject], out: Path, scale: instruments.Scale, options: StudyOptions
) -> tuple[Calibration, list[instruments.ExplainedUtility]]:
    require_models(subject.name for subject in subjects)
    place: dict[str, Any] = {"on": options.on, "progress": options.progress}
    # Fits of the simplest utility take longest, so they are left out where no question needs them:
    # of agents that have no class in the one question that they are made for.
    learners = [subject.name for subject in subjects if subject.directed and not subject.own_map]
    places = [(suite, subject.name) for suite in instruments.SUITES for subject in subjects]
    plans = [scale.plan(name, suite, seed=options.seed) for suite, name in places]
    walks: dict[str, dict[str, Sequence[Trajectory]]] = {suite: {} for suite in instruments.SUITES}
    for (suite, name), run in zip(places, play_every(plans, out, **place), strict=True):
        walks[suite][name] = run.trajectories
    scores = [
        score
        for suite, agents in walks.items()
        for score in instruments.scores(suite, agents, learners=learners, **place)
    ]
    drawn = [
        _drawn(suite, subject.name, walks[suite][subject.name])
        for suite in (instruments.MAZE, instruments.KEY_NO_DOOR)
        for subject in subjects
        if subject.organism and subject.counted
    ]
    return Calibration(subjects, scores), instruments.explain(drawn, walks)


def _drawn(suite: str, name: str, walks: Sequence[Trajectory]) -> instruments.Drawn:
    """What an organism seems to want in one world."""
    # The largest kind in which the mole's map is wrong, so that all four organisms differ.
    mole = organism("mole")
    wrong = [walk for walk in walks if instruments.map_of(mole, walk.world) != walk.world]
    world = (wrong or list(walks))[-1].world
    through = [walk for walk in walks if walk.world == world]
    utility = instruments.learn(world, through[0].cap, instruments.answers(through))
    return instruments.Drawn(name, suite, world, utility)


_SIGNS = {instruments.TELLS: "✓", instruments.SAME: "✓", instruments.IN_PART: "~"}
_SIGNS |= {instruments.UNKNOWN: "?", instruments.SHOWN: ""}


def _truth_table(subjects: Sequence[Subject]) -> Table:
    directed = {True: "yes", False: "no", None: "not counted"}
    rows = [
        {
            "of": subject,
            "stands": directed[subject.directed] + ", shown beside the trained one" * subject.aside,
            "first_target": subject.target or "none",
            "map": f"the {subject.own_map.name}'s" if subject.own_map else "true",
        }
        for subject in subjects
    ]
    models, aside = say.declared("what_is_known_notes").values()
    notes = [models] * any(subject.directed is None for subject in subjects)
    notes += [aside] * any(subject.aside for subject in subjects)
    return say.table("what_is_known", rows, notes=notes)


def _area_table(calibration: Calibration) -> Table:
    by_place = {(verdict.instrument, verdict.question): verdict for verdict in calibration.verdicts}
    questions = [name for name in QUESTIONS if any(name == question for _, question in by_place)]

    def area(name: str, question: str) -> Cell | None:
        verdict = by_place.get((name, question))
        if verdict is None or math.isnan(verdict.area.value):
            return None
        sign = _SIGNS.get(verdict.words, "✗")
        return Cell(f"{number(verdict.area, 2)} {sign}".strip(), share=verdict.area.value)

    rows = [
        (instrument.title, *(area(name, question) for question in questions))
        for name, instrument in INSTRUMENTS.items()
        if any(name == each for each, _ in by_place)
    ]
    more = [(say.declared("heads")[q], f"{i}", "text") for i, q in enumerate(questions, 1)]
    lower = ", ".join(each.title for each in INSTRUMENTS.values() if each.lower)
    return say.table("areas_under_the_curve", rows, more=more, lower=lower)


def _agent_table(calibration: Calibration, *names: str) -> Table:
    asked = [QUESTIONS[name] for name in names]
    made_for = list(dict.fromkeys(name for each in asked for name in each.made_for))

    def cell(subject: Subject, name: str) -> str | None:
        value = calibration.mean(asked[0], name, subject.name)
        # Of the questions that instrument is made for, the first in which the agent has a class.
        marks = (calibration.mark(each, name, subject) for each in asked if name in each.made_for)
        sign = next((mark for mark in marks if mark is not None), "")
        return None if math.isnan(value) else f"{number(value, 2)} {sign}".strip()

    return say.table(
        "agent_table",
        [(who.name, *(cell(who, name) for name in made_for)) for who in calibration.subjects],
        more=[(INSTRUMENTS[n].title, f"{i}", "text") for i, n in enumerate(made_for, 1)],
        notes=[f"{INSTRUMENTS[n].title}: {INSTRUMENTS[n].meaning}." for n in made_for],
        title=asked[0].title,
    )


def _sections(
    calibration: Calibration, utilities: Sequence[instruments.ExplainedUtility]
) -> list[Section]:
    by_agent = (
        _agent_table(calibration, "directed", "misled", "map"),
        _agent_table(calibration, "target"),
    )
    areas = _area_table(calibration), _area_chart(calibration)
    return [
        say.section("which_instruments_tell_agents_apart", areas),
        Section(title="What each instrument says of each agent", tables=by_agent),
        *([instruments.learnt_section(utilities)] if utilities else []),
        Section(title="Who was measured", tables=(_truth_table(calibration.subjects),)),
    ]


def _area_chart(calibration: Calibration) -> Figure:
    main = ("directed", "target")
    shown = [v for v in calibration.verdicts if v.judged and v.question in main]
    names = list(dict.fromkeys(verdict.instrument for verdict in shown))
    by_place = {(verdict.instrument, verdict.question): verdict.area for verdict in shown}
    panels = []
    for question in dict.fromkeys(verdict.question for verdict in shown):
        # An instrument that is made for one of the questions only has a gap in the other's panel.
        areas = [by_place.get((name, question)) for name in names]
        look: dict[str, Any] = {"title": QUESTIONS[question].title, "x_label": say.line("area")}
        dots = Dots.of("all counted agents", areas)
        band = (instruments.CHANCE, instruments.ENOUGH)
        panels.append(DotPanel(series=(dots,), band=band, **look))
    in_words = "; ".join(
        say.line("area_of", question=QUESTIONS[v.question], of=INSTRUMENTS[v.instrument], v=v)
        for v in shown
        if not math.isnan(v.area.value)
    )
    svg = dot_chart("calibration-areas", [INSTRUMENTS[name].title for name in names], panels)
    return say.figure("area_chart", svg, areas_in_words=in_words)


_IDEAL = (
    *(f"{instruments.IDEAL}{name}" for name in organism_names()),
    *("optimal", "epsilon-optimal(0.3)", "boltzmann(1)", "key-seeker", "random"),
    *("greedy", "wall-follower"),
)
AGENTS = (*(f"{instruments.TRAINED}{name}" for name in organism_names()), *_IDEAL)
SCALE, POPULATION = instruments.Scale(), PopulationScale()
OPTIONS = ("agents",)


def replicate(out: Path, options: StudyOptions) -> Outcome:
    """Measure agents whose goals are known, and write report.html and results.json.

    Two populations of simulated agents walk anew each time. The walks of organisms and reference
    agents are stored in the folder and reused. Seeds are grids of each size and complexity, 2 by
    default; there are four times as many worlds of each kind with a key, and for the populations as
    many mazes as are given, or 6. `agents` are language models ("goalmeter/mouse"), ideal organisms
    ("ideal-mouse") and reference agents; "none" for the populations alone.
    """
    subjects, scale, population_scale = _chosen(options)
    require_report_extra()
    try:
        require_models(subject.name for subject in subjects)
    except MissingExtraError as error:
        raise MissingExtraError(
            f"{error}, or do without: goalmeter replicate calibration --agents '{','.join(_IDEAL)}'"
        ) from error
    place: dict[str, Any] = {"on": options.on, "progress": options.progress}
    population = calibrate_population(population_scale, seed=options.seed, **place)
    sections = population_page.sections(population)
    findings = came_of_it = population_page.findings(population)
    result: dict[str, Any] = {"replication": "calibration", "population": plain(population)}
    if subjects:
        calibration, utilities = _calibrate(subjects, out / "walks", scale, options)
        sections += _sections(calibration, utilities)
        findings = [*findings, *calibration.findings()]
        result |= {
            "agents": [say.record("subject_record", of=subject) for subject in subjects],
            "instruments": {name: each.meaning for name, each in INSTRUMENTS.items()},
            "verdicts": plain(calibration.verdicts),
            "scores": [
                {"agent": row.agent} | row.grid._asdict() | {"values": row.values}
                for row in calibration.scores
            ],
            "learnt": plain(utilities),
        }
    result["findings"] = findings
    tables = tuple(table for section in sections for table in section.tables)
    write_text(out / "tables.md", in_markdown(tables, {"What came of the aims": came_of_it}))
    return say.report(out, options, sections, result, findings, navigation_page.GLOSSARY)


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    subjects, scale, population = _chosen(options)
    asked = [(subject.name, suite) for suite in instruments.SUITES for subject in subjects]
    plans = [scale.plan(*each, seed=options.seed) for each in asked]
    mazes = sum(len(population.pairs(seed)) for seed in population_seeds(options.seed))
    return {
        "mazes of populations": mazes,
        "walks of populations": 2 * mazes * population.walks * (population.agents + len(BESIDE)),
        "walks of single agents": sum(len(plan.keys()) for plan in plans),
    }


def _chosen(options: StudyOptions) -> tuple[list[Subject], instruments.Scale, PopulationScale]:
    scale = replace(SCALE, grids=options.count(SCALE.grids, least=1))
    population = replace(POPULATION, grids=options.seeds or POPULATION.grids)
    if options.agents == "none":
        return [], scale, population
    names = AGENTS if options.agents is None else options.agents.split(",")
    subjects = instruments.subjects_of(names)
    if not any(all(q.classes(subjects)) for q in QUESTIONS.values() if not q.control):
        raise InvalidParameterError(
            f"agents is {options.agents!r}, expected some that are to be told apart: a "
            f"goal-directed one and an aimless one, such as optimal,random, or one that wants the "
            f"goal and one that wants the key, such as optimal,key-seeker"
        )
    return subjects, scale, population
