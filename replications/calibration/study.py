"""`goalmeter replicate calibration`: do the instruments recover goals that are known?"""

from __future__ import annotations

if __name__ == "__main__":
    from goalmeter.__main__ import main

    main("replicate", "calibration")

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

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
from goalmeter.runs import HERE
from replications.calibration import instruments as judged
from replications.calibration.instruments import (
    IDEAL,
    INSTRUMENTS,
    KEY_NO_DOOR,
    MAZE,
    QUESTIONS,
    SUITES,
    TRAINED,
    CalibrationQuestion,
    InstrumentVerdict,
    Scale,
    Score,
    Subject,
    map_of,
    say,
    scores,
    subjects_of,
    verdicts,
)
from replications.calibration.learnt import (
    Drawn,
    ExplainedUtility,
    answers,
    explain,
    learn,
    learnt_section,
)
from replications.calibration.population import page as population_page
from replications.calibration.population.evidence import BESIDE, PopulationScale
from replications.calibration.population.scores import calibrate_population, population_seeds
from replications.kinds import ProgressCallback
from replications.prose import plain

Walks = Mapping[str, Mapping[str, Sequence[Trajectory]]]  # by suite and agent


# --- Measuring ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Calibration:
    """What the instruments say of agents whose goals are known."""

    subjects: Sequence[Subject]
    walks: Walks
    scores: Sequence[Score]
    verdicts: Sequence[InstrumentVerdict]
    drawn: Sequence[Drawn]  # utilities that were learnt of the organisms

    @property
    def findings(self) -> list[str]:
        """Summary sentences generated from the results."""
        return judged.findings(self.scores, self.verdicts, self.subjects)

    @property
    def learnt(self) -> list[ExplainedUtility]:
        """The learnt utilities, with the share that each explains."""
        return explain(self.drawn, self.walks)


def calibrate(
    subjects: Sequence[Subject],
    out: Path,
    *,
    scale: Scale,
    seed: int = 0,
    on: str = HERE,
    progress: ProgressCallback | None = None,
) -> Calibration:
    """Let agents walk, each in a run directory below `out`, and measure them.

    Existing runs are resumed.
    """
    require_models(subject.name for subject in subjects)
    # Fits of the simplest utility take longest, so they are left out where no question needs them:
    # of agents that have no class in the one question that they are made for.
    learners = [subject.name for subject in subjects if subject.directed and not subject.own_map]
    places = [(suite, subject.name) for suite in SUITES for subject in subjects]
    plans = [scale.plan(name, suite, seed=seed) for suite, name in places]
    walks: dict[str, dict[str, Sequence[Trajectory]]] = {suite: {} for suite in SUITES}
    runs = play_every(plans, out, on=on, progress=progress)
    for (suite, name), run in zip(places, runs, strict=True):
        walks[suite][name] = run.trajectories
    every_score = [
        score
        for suite, agents in walks.items()
        for score in scores(suite, agents, learners=learners, on=on, progress=progress)
    ]
    learnt_of = [subject.name for subject in subjects if subject.organism and subject.counted]
    drawn = [
        _drawn(suite, name, walks[suite][name])
        for suite in (MAZE, KEY_NO_DOOR)
        for name in learnt_of
    ]
    return Calibration(subjects, walks, every_score, verdicts(every_score, subjects), drawn)


def _drawn(suite: str, name: str, walks: Sequence[Trajectory]) -> Drawn:
    """What an organism seems to want in one world."""
    # The largest kind in which the mole's map is wrong, so that all four organisms differ.
    mole = organism("mole")
    wrong = [walk for walk in walks if map_of(mole, walk.world) != walk.world] or list(walks)
    world = wrong[-1].world
    through = [walk for walk in walks if walk.world == world]
    return Drawn(name, suite, world, learn(world, through[0].cap, answers(through)))


# --- Tables ---------------------------------------------------------------------------------------
_MARKS = {judged.RIGHT: "✓", judged.WRONG: "✗", judged.OPEN: "?"}
_SIGNS = {judged.TELLS: "✓", judged.SAME: "✓", judged.IN_PART: "~", judged.UNKNOWN: "?"}


def truth_table(subjects: Sequence[Subject]) -> Table:
    """Tabulate who is directed, to what, and on which map."""
    directed = {True: "yes", False: "no", None: "not counted"}
    rows = [
        {
            "name": subject.name,
            "stands": directed[subject.directed] + ", shown beside the trained one" * subject.aside,
            "first_target": subject.target or "none",
            "map": f"the {subject.own_map.name}'s" if subject.own_map else "true",
            "why": subject.why,
        }
        for subject in subjects
    ]
    notes = say.declared("what_is_known_notes")
    shown = {
        "models": any(subject.directed is None for subject in subjects),
        "aside": any(subject.aside for subject in subjects),
    }
    return say.table("what_is_known", rows, notes=[notes[name] for name in shown if shown[name]])


def area_table(verdicts: Sequence[InstrumentVerdict]) -> Table:
    """Tabulate how well every instrument tells classes of agents apart."""
    by_place = {(verdict.instrument, verdict.question): verdict for verdict in verdicts}
    questions = [q for q in QUESTIONS if any(verdict.question == q for verdict in verdicts)]

    def area(name: str, question: str) -> Cell | None:
        verdict = by_place.get((name, question))
        if verdict is None or math.isnan(verdict.area.value):
            return None
        sign = _SIGNS.get(verdict.words, "✗") if verdict.judged else ""
        return Cell(f"{number(verdict.area, 2)} {sign}".strip(), share=verdict.area.value)

    return say.table(
        "areas_under_the_curve",
        [
            (INSTRUMENTS[name].title, *(area(name, question) for question in questions))
            for name in INSTRUMENTS
            if any(name in place for place in by_place)
        ],
        more=[(say.declared("heads")[q], f"{i}", "text") for i, q in enumerate(questions, 1)],
        lower=", ".join(each.title for each in INSTRUMENTS.values() if each.lower),
    )


def agent_table(
    scores: Sequence[Score], subjects: Sequence[Subject], asked: Sequence[CalibrationQuestion]
) -> Table:
    """Tabulate agents by instruments made for some questions, in the grids of the first one."""
    instruments = list(dict.fromkeys(name for each in asked for name in each.made_for))

    def cell(subject: Subject, name: str) -> str | None:
        value = judged.mean_of(scores, asked[0], name, subject.name)
        # Of the questions that instrument is made for, the first in which the agent has a class.
        marks = (
            judged.mark(scores, each, name, subject, subjects)
            for each in asked
            if name in each.made_for
        )
        sign = next((_MARKS[each] for each in marks if each is not None), "")
        return None if math.isnan(value) else f"{number(value, 2)} {sign}".strip()

    return say.table(
        "agent_table",
        [(subject.name, *(cell(subject, name) for name in instruments)) for subject in subjects],
        more=[(INSTRUMENTS[n].title, f"{i}", "text") for i, n in enumerate(instruments, 1)],
        notes=[f"{INSTRUMENTS[n].title}: {INSTRUMENTS[n].meaning}." for n in instruments],
        title=asked[0].title,
    )


# --- Page -----------------------------------------------------------------------------------------
def page_sections(calibration: Calibration) -> list[Section]:
    """Return which instrument tells whom apart, what each says, and who was measured."""
    scores, subjects = calibration.scores, calibration.subjects
    learnt = calibration.learnt
    return [
        say.section(
            "which_instruments_tell_agents_apart",
            area_table(calibration.verdicts),
            area_chart(calibration.verdicts),
        ),
        Section(
            title="What each instrument says of each agent",
            tables=tuple(
                agent_table(scores, subjects, [QUESTIONS[name] for name in names])
                for names in (("directed", "misled", "map"), ("target",))
            ),
        ),
        *([learnt_section(learnt)] if learnt else []),
        Section(title="Who was measured", tables=(truth_table(subjects),)),
    ]


def area_chart(verdicts: Sequence[InstrumentVerdict]) -> Figure:
    """Plot the areas of the two main questions, one panel each."""
    shown = [v for v in verdicts if v.judged and v.question in ("directed", "target")]
    names = list(dict.fromkeys(verdict.instrument for verdict in shown))
    by_place = {(verdict.instrument, verdict.question): verdict.area for verdict in shown}
    # An instrument that is made for one of the questions only has a gap in the other's panel.
    panels = [
        DotPanel(
            title=QUESTIONS[question].title,
            x_label="area under the curve",
            series=(
                Dots.of("all counted agents", [by_place.get((name, question)) for name in names]),
            ),
            band=(judged.CHANCE, judged.ENOUGH),
        )
        for question in dict.fromkeys(verdict.question for verdict in shown)
    ]
    areas_in_words = "; ".join(
        f"{QUESTIONS[verdict.question].title}: {INSTRUMENTS[verdict.instrument].title} "
        f"{number(verdict.area.value, 2)}"
        for verdict in shown
        if not np.isnan(verdict.area.value)
    )
    return Figure(
        svg=dot_chart("calibration-areas", [INSTRUMENTS[name].title for name in names], panels),
        **say("area_chart", areas_in_words=areas_in_words),
        wide=True,
    )


def to_json(calibration: Calibration) -> dict[str, Any]:
    """Return all of it as JSON values, without the walks."""
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
        "instruments": {name: each.meaning for name, each in INSTRUMENTS.items()},
        "verdicts": plain(calibration.verdicts),
        "scores": [
            {"agent": row.agent} | row.grid._asdict() | {"values": row.values}
            for row in calibration.scores
        ],
        "learnt": plain(calibration.learnt),
    }


# --- Replicate ------------------------------------------------------------------------------------
_IDEAL = (
    *(f"{IDEAL}{name}" for name in organism_names()),
    *("optimal", "epsilon-optimal(0.3)", "boltzmann(1)", "key-seeker", "random"),
    *("greedy", "wall-follower"),
)
AGENTS = (*(f"{TRAINED}{name}" for name in organism_names()), *_IDEAL)
SCALE, POPULATION = Scale(), PopulationScale()
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
        calibration = calibrate(subjects, out / "walks", scale=scale, seed=options.seed, **place)
        sections += page_sections(calibration)
        findings = [*findings, *calibration.findings]
        result |= to_json(calibration)
    result["findings"] = findings
    tables = tuple(table for section in sections for table in section.tables)
    write_text(out / "tables.md", in_markdown(tables, {"What came of the aims": came_of_it}))
    return say.report(
        out,
        options,
        sections,
        result,
        findings,
        glossary=navigation_page.GLOSSARY,
        text="\n".join(findings),
    )


def planned(options: StudyOptions) -> dict[str, int]:
    """Return how much `replicate` with these options will do."""
    subjects, scale, population = _chosen(options)
    plans = [scale.plan(s.name, suite, seed=options.seed) for suite in SUITES for s in subjects]
    mazes = sum(len(population.pairs(seed)) for seed in population_seeds(options.seed))
    return {
        "mazes of populations": mazes,
        "walks of populations": 2 * mazes * population.walks * (population.agents + len(BESIDE)),
        "walks of single agents": sum(len(plan.keys()) for plan in plans),
    }


def _chosen(options: StudyOptions) -> tuple[list[Subject], Scale, PopulationScale]:
    """The agents, and how much they and the populations walk."""
    scale = replace(SCALE, grids=options.count(SCALE.grids, least=1))
    population = replace(POPULATION, grids=options.seeds or POPULATION.grids)
    if options.agents == "none":
        return [], scale, population
    subjects = subjects_of(AGENTS if options.agents is None else options.agents.split(","))
    if not any(
        all(question.classes(subjects)) for question in QUESTIONS.values() if not question.control
    ):
        raise InvalidParameterError(
            f"agents is {options.agents!r}, expected some that are to be told apart: a "
            f"goal-directed one and an aimless one, such as optimal,random, or one that wants the "
            f"goal and one that wants the key, such as optimal,key-seeker"
        )
    return subjects, scale, population
