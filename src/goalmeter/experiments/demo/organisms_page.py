"""What the demo's page shows of the organisms, for readers who meet them for the first time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from goalmeter.experiments.calibration import tables as judged
from goalmeter.experiments.calibration.page import area_chart
from goalmeter.experiments.calibration.players import KEY_NO_DOOR, MAZE
from goalmeter.experiments.calibration.questions import INSTRUMENTS, QUESTIONS
from goalmeter.experiments.calibration.truth import Subject
from goalmeter.experiments.calibration.verdicts import IN_PART, UNKNOWN
from goalmeter.experiments.demo.organisms import OrganismResults
from goalmeter.navigation.record import Trajectory
from goalmeter.pages.navigation import (
    key_tables,
    learnt_pictures,
    meg_page,
    pictures,
    tables,
    wants_page,
)
from goalmeter.pages.navigation.page import GLOSSARY, Group
from goalmeter.pages.navigation.replays import cut
from goalmeter.pages.part import Part
from goalmeter.report import Finding, Link, Section, Table
from goalmeter.report.table_of import table_of, words

# Ids of the sections that findings lead to.
_WALKS, _VERDICTS = "walks", "instruments"


def part(results: OrganismResults) -> Part:
    """Who they are, what they want and do, and which instruments see it."""
    in_mazes, with_keys = results.groups
    return Part(
        sections=(
            _wants(results),
            _walks(results),
            _mazes(in_mazes),
            _keys(with_keys),
            learnt_pictures.section(results.learnt),
            *_instruments(results),
        ),
        findings=_findings(results),
        glossary=GLOSSARY,
    )


def _findings(results: OrganismResults) -> list[Finding]:
    """What the organisms want, a line for each, and how the instruments did."""
    asked = [verdict for verdict in results.calibration.verdicts if verdict.judged]
    unsure = sum(verdict.words in (IN_PART, UNKNOWN) for verdict in asked)
    failed = [
        f"{INSTRUMENTS[verdict.instrument].title} ({QUESTIONS[verdict.question].title})"
        for verdict in asked
        if verdict.failed
    ]
    return [
        *wants_page.findings(results.wants, walks=_WALKS),
        Finding(
            text=f"The instruments were asked {len(asked)} questions about agents whose goals are "
            f"known. {len(asked) - unsure - len(failed)} answers are right, {unsure} are right in "
            f"part or rest on too few grids to say, {len(failed)} are wrong"
            f"{': ' * bool(failed)}{', '.join(failed)}.",
            links=(Link("each answer", _VERDICTS),),
        ),
    ]


def _instruments(results: OrganismResults) -> list[Section]:
    """How the instruments do on agents whose goals are known."""
    calibration = results.calibration
    by_agent = [
        replace(
            judged.agent_table(calibration.scores, calibration.subjects, QUESTIONS[question], also),
            caption=caption,
            meaning="Each number is the mean over grids. A tick says that the instrument puts the "
            "agent on the right side of the other class of agents, beyond chance; a cross, on the "
            "wrong side; a question mark, that the grids do not tell. No mark stands where the "
            "question is not asked of an agent.",
        )
        for question, also, caption in (
            ("directed", ["misled", "map"], "In mazes: is the agent goal-directed, on which map?"),
            ("target", [], "Beside a key that opens nothing: the goal or the key?"),
        )
    ]
    return [
        Section(
            title="Which instruments see the difference?",
            anchor=_VERDICTS,
            text=(
                "Every instrument gives a number for an agent’s walks in one grid. The agents fall "
                "into classes, and it is known which class has more of what the instrument counts. "
                "An instrument is good if its numbers are in that order, whatever the grids.",
            ),
            tables=(judged.area_table(calibration.verdicts),),
            figures=(area_chart(calibration.verdicts),),
        ),
        Section(title="What each instrument says of each agent", tables=tuple(by_agent)),
    ]


def _wants(results: OrganismResults) -> Section:
    text = [
        "An instrument is as good as its calibration, and for that the goals of some agents have "
        "to be known. These are known because we made them: four small language models, each "
        "trained to a purpose of its own. They read a grid as text, reason, and answer with a "
        "move, and are loaded and asked like any other language model.",
        "The first table says what was measured of them, the second what they were made for. "
        "Beside them walk reference agents, whose goals are known by definition.",
    ]
    if results.missing:
        text.append(
            f"Here the language models were not asked. {results.missing}. In their place walk the "
            f"ideal organisms, which draw each move from what the models were trained to do."
        )
    return Section(
        title="Four language models whose goals are known",
        text=tuple(text),
        tables=(wants_page.wants_table(results.wants), _made(results)),
    )


def _made(results: OrganismResults) -> Table:
    """What each agent was made to want: the truth that the measurement is held against."""
    return table_of(
        results.calibration.subjects,
        (
            words("agent", lambda subject: subject.name),
            words("made to want", _target, answer=True),
            words("what it does", lambda subject: subject.why),
        ),
        caption="What each agent was made to want",
        anchor="made",
        meaning="What it goes for first where a key lies about that opens nothing. This table "
        "comes from how the agents were made, the one above from their walks alone.",
    )


def _target(subject: Subject) -> str:
    wrong_map = ", on a wrong map" * (subject.own_map is not None)
    return f"the {subject.target}{wrong_map}" if subject.target else "nothing"


def _walks(results: OrganismResults) -> Section:
    mouse, magpie, mole, moth = results.names
    # In pairs, which stand beside each other.
    shown = {MAZE: (mouse, mole), KEY_NO_DOOR: (mouse, magpie)}
    pairs = [(suite, name) for suite, names in shown.items() for name in names]
    pairs += [(suite, moth) for suite in shown]
    chosen = [(name, _walk(results, suite, name)) for suite, name in pairs]
    answered = [(name, walk) for name, walk in chosen if walk.steps and walk.steps[0].raw]
    return Section(
        title="The same worlds, other goals",
        anchor=_WALKS,
        text=(
            "Here the organisms walk through a maze of which the mole does not see every wall, and "
            "through a world whose key (K) opens nothing. S is the start and G the goal; the "
            "numbers count the steps. A dashed arrow is a move that is not optimal, a ring a move "
            "that led nowhere, a cross an answer that was no action.",
        ),
        tables=(_answers(answered),) if answered else (),
        figures=tuple(
            pictures.replay(walk, f"organisms-walk-{number}", name)
            for number, (name, walk) in enumerate(chosen, start=1)
        ),
        figures_first=True,
    )


def _walk(results: OrganismResults, suite: str, name: str) -> Trajectory:
    """The first walk through the world whose learnt utility is drawn."""
    (world,) = (d.world for d in results.calibration.drawn if (d.agent, d.suite) == (name, suite))
    walks = results.calibration.walked[suite][name].trajectories
    return next(walk for walk in walks if walk.world == world)


def _answers(walks: Sequence[tuple[str, Trajectory]]) -> Table:
    return table_of(
        walks,
        (
            words("agent", lambda row: row[0]),
            words("suite", lambda row: row[1].suite),
            words("answer", lambda row: cut(row[1].steps[0].raw)),
        ),
        caption="What they said at the first step",
        meaning="Between the tags an organism looks for the way from its target back to itself, "
        "cell by cell (row, column), or names the moves that are open, and states its plan. Its "
        "action follows. Long texts are cut in the middle here; the runs hold all of them.",
        notes=(f"What {walks[0][0]} had read: {cut(walks[0][1].steps[0].prompt)}",),
    )


def _mazes(group: Group) -> Section:
    return Section(
        title="In mazes: do they plan?",
        text=(
            "An agent that only follows a compass, always nearer to the goal as the crow flies, is "
            "right most of the time. So accuracy by itself says little. What counts is accuracy in "
            "the places where the compass leads astray (detour states), and how an agent compares "
            "with reference agents in the same mazes.",
        ),
        tables=(tables.agents_table(group.results),),
        figures=(meg_page.picture(group.directed, "organisms-maze-meg"),),
    )


def _keys(group: Group) -> Section:
    return Section(
        title="Beside a key that opens nothing: what do they want?",
        text=(
            "Nearly every agent that wants anything arrives at the goal here, so success does not "
            "say what an agent wants. A key may be taken because it lies on the way, so each share "
            "is compared with the random agent and with shortest ways. To tell a wish for the key "
            "from a wish for the goal, only the decisions before the key is taken are looked at.",
        ),
        tables=(tables.agents_table(group.results), key_tables.keys_table(group.results)),
        figures=(meg_page.picture(group.directed, "organisms-key-meg"),),
    )
