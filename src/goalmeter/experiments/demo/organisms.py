"""The organisms in the demo: walks, calibration, beliefs, and their parts of the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goalmeter._errors import MissingExtraError, require
from goalmeter.experiments.calibration import study
from goalmeter.experiments.calibration import study as judged
from goalmeter.experiments.calibration.agents import (
    IDEAL,
    KEY_NO_DOOR,
    MAZE,
    MOLE,
    TRAINED,
    Scale,
    Subject,
    require_models,
    subjects_of,
)
from goalmeter.experiments.calibration.instruments import IN_PART, INSTRUMENTS, QUESTIONS, UNKNOWN
from goalmeter.experiments.calibration.study import (
    Calibration,
    area_chart,
    calibrate,
    walks_forecasts,
)
from goalmeter.experiments.organism_use.questions import (
    POSITION,
    RANDOM_WEIGHTS,
    SEEN,
    UNSEEN,
    Question,
    answer,
    decoding,
)
from goalmeter.experiments.organism_use.questions import TRAINED_WEIGHTS as questions_TRAINED
from goalmeter.navigation.rollouts import Walked
from goalmeter.navigation.trajectories import Trajectory
from goalmeter.organisms.kinds import organism, organism_names
from goalmeter.pages import navigation, navigation_goals, navigation_tables
from goalmeter.pages import navigation as navigation_page
from goalmeter.pages.navigation import GLOSSARY, Group, cut
from goalmeter.pages.navigation_goals import Explained, Want, wants
from goalmeter.pages.part import Part
from goalmeter.report import Finding, Link, Section, Table
from goalmeter.report.numbers import hundredths, percent
from goalmeter.report.tables import column, table_of, words
from goalmeter.representation.network import Network
from goalmeter.representation.use.causal_use import NOT_USED, USED
from goalmeter.runs import Study, carry_out
from goalmeter.runs.forecast import Forecast
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate

# --- Organisms ------------------------------------------------------------------------------------
# As many walks as two cores make in about a minute. Many mazes rather than many walks through
# each, since intervals rest on mazes; all of them with walls that the mole may not see. Reference
# agents make the classes of which there is only one organism larger.
SCALE = Scale(grids=5, complexities=(0.5, 1.0), key_worlds=4, walks=2, suites=(MAZE, KEY_NO_DOOR))
BESIDE = (study.SHORTEST, "key-seeker", study.AIMLESS)


@dataclass(frozen=True)
class OrganismResults:
    """The organisms, and what was measured of them.

    Attributes:
        missing: why ideal organisms walk in place of the trained ones; "" if they do not.
        prefix: before the name of an organism.
        calibration: all instruments on all agents.
        groups: how the organisms behave, in mazes and in worlds with a key.
        wants: what each organism, and each reference agent, was measured to want.
        learnt: utilities that were learnt of the organisms, with what they explain.
    """

    missing: str
    prefix: str
    calibration: Calibration
    groups: tuple[Group, ...]
    wants: tuple[Want, ...]
    learnt: tuple[Explained, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the organisms that walked."""
        return tuple(f"{self.prefix}{name}" for name in organism_names())

    def walked(self, suite: str) -> list[Walked]:
        """The organisms' walks in a suite."""
        return [self.calibration.walked[suite][name] for name in self.names]

    def to_json(self) -> dict[str, Any]:
        """All measures as JSON values."""
        runs = [run for suite in self.calibration.walked for run in self.walked(suite)]
        return {
            "missing": self.missing or None,
            "calibration": study.to_json(self.calibration),
            "behaviour": navigation_page.in_order(self.groups, runs),
            "wants": [want.to_json() for want in self.wants],
            "learnt": [utility.to_json() for utility in self.learnt],
        }


def measure(
    out: Path, *, seed: int, on: str, progress: Callable[[str], None] | None = None
) -> OrganismResults:
    """Let the organisms walk, and measure them; walks that are there are not made again.

    Without what language models need, ideal organisms walk in their place.

    Raises:
        InvalidFileError: the folder cannot be written to, or holds other walks.
    """
    prefix, missing = _prefix()
    names = tuple(f"{prefix}{name}" for name in organism_names())
    calibration = calibrate(
        subjects_of((*names, *BESIDE)),
        out,
        scale=SCALE,
        seed=seed,
        on=on,
        progress=progress,
    )
    runs = [by_name[name] for by_name in calibration.walked.values() for name in names]
    groups = tuple(navigation_page.groups(runs, progress))
    return OrganismResults(
        missing,
        prefix,
        calibration,
        groups,
        tuple(_wants(*groups)),
        tuple(study.learnt(calibration)),
    )


def forecasts(out: Path, *, seed: int, on: str) -> list[Forecast]:
    """What the walks of `measure` will cost."""
    names = (f"{_prefix()[0]}{name}" for name in organism_names())
    return walks_forecasts(subjects_of((*names, *BESIDE)), out, scale=SCALE, seed=seed, on=on)


def _prefix() -> tuple[str, str]:
    """What is before the names of the organisms that walk, and why the trained ones do not."""
    try:
        require_models(f"{TRAINED}{name}" for name in organism_names())
    except MissingExtraError as error:
        return IDEAL, str(error)
    return TRAINED, ""


def _wants(in_mazes: Group, with_keys: Group) -> list[Want]:
    """What the agents want that walked in both kinds of worlds, on the true map or the mole's."""
    place = {result.agent: n for n, result in enumerate(with_keys.results)}
    agents = [result.agent for result in in_mazes.results]
    both = [(n, place[agent]) for n, agent in enumerate(agents) if agent in place]
    return wants(
        [in_mazes.results[n] for n, _ in both],
        [with_keys.results[n] for _, n in both],
        ([in_mazes.directed[n] for n, _ in both], [with_keys.directed[n] for _, n in both]),
        organism(MOLE),
    )


# --- Organisms page -------------------------------------------------------------------------------
# Ids of the sections that findings lead to.
_WALKS, _VERDICTS = "walks", "instruments"


def part(results: OrganismResults) -> Part:
    """Who they are, what they want and do, and which instruments see it."""
    in_mazes, with_keys = results.groups
    return Part(
        sections=(
            _wants_section(results),
            _walks(results),
            _mazes(in_mazes),
            _keys(with_keys),
            navigation_goals.learnt_section(results.learnt),
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
        *navigation_goals.findings(results.wants, walks=_WALKS),
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


def _wants_section(results: OrganismResults) -> Section:
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
        tables=(navigation_goals.wants_table(results.wants), _made(results)),
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
            navigation.replay(walk, f"organisms-walk-{number}", name)
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
        tables=(navigation_tables.agents_table(group.results),),
        figures=(navigation_goals.directedness_chart(group.directed, "organisms-maze-meg"),),
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
        tables=(
            navigation_tables.agents_table(group.results),
            navigation_tables.keys_table(group.results),
        ),
        figures=(navigation_goals.directedness_chart(group.directed, "organisms-key-meg"),),
    )


# --- Beliefs --------------------------------------------------------------------------------------
# The mole was made not to see the walls of some rows. They stand in its activations all the same,
# so what decodes is not what is believed; what it acts on is told by knocking cells out.

TITLE = "What they read of a map, and what of it they act on"
SIZE, LAYER = 7, 3
# Mazes of each of three complexities: as many as take a minute. Reading a prompt is cheap, and
# a probe needs many grids; each of those that are asked about is answered six times.
READ, ASKED = 120, 32
ORGANISMS = ("mouse", "mole")
_QUESTIONS = [(name, cells) for name in ORGANISMS for cells in (SEEN, UNSEEN)]
_ANCHOR = "believed-cells"
_ROWS = {SEEN: "rows that both see", UNSEEN: "rows that the mole does not see"}


@dataclass(frozen=True)
class Belief:
    """What an organism holds of some cells, and whether it acts on it.

    Attributes:
        organism: its name.
        cells: "seen" or "unseen".
        read: AUROC of walls, by what they are read from.
        flips: share of first moves that change when a needed cell is knocked out.
        null: the same when another cell is.
        verdict: "used", "not used" or "cannot be told".
    """

    organism: str
    cells: str
    read: dict[str, Estimate | None]
    flips: Estimate
    null: Estimate
    verdict: str

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        read = {name: each and each.to_json() for name, each in self.read.items()}
        numbers = {"flips": self.flips.to_json(), "null": self.null.to_json()}
        return vars(self) | {"read": read} | numbers


def measure_beliefs(
    out: Path, *, seed: int, on: str, progress: Tell | None = None
) -> tuple[Belief, ...] | str:
    """Read the maps of mouse and mole, and knock cells out while they answer.

    Returns:
        What was measured, or why language models cannot be asked on this machine.

    Raises:
        InvalidFileError: the folder cannot be written to, or holds something else.
    """
    try:
        for package in ("torch", "transformers", "safetensors"):
            require(package, extra="lm", feature="reading activations")
    except MissingExtraError as error:
        return str(error)
    values = carry_out(study_of_beliefs(seed), on=on, out=out, progress=progress)
    return tuple(
        Belief(
            name,
            cells,
            {key: each and Estimate.from_json(each) for key, each in value["read"].items()},
            Estimate.from_json(value["flips"]),
            Estimate.from_json(value["null"]),
            value["verdict"],
        )
        for (name, cells), value in zip(_QUESTIONS, values.values(), strict=True)
    )


def study_of_beliefs(seed: int) -> Study[dict[str, Any]]:
    """The questions of `measure`."""
    common = {"read": READ, "asked": ASKED, "seed": seed}
    return Study[dict[str, Any]](
        "beliefs",
        "goalmeter.experiments.demo.organisms:part_of",
        {f"{name}, {_ROWS[cells]}": {"name": name, "cells": cells} for name, cells in _QUESTIONS},
        common=common,
        noun="question",
        what={"kind": "beliefs"} | common,
    )


def part_of(name: str, cells: str, read: int, asked: int, seed: int) -> dict[str, Any]:
    """What an organism holds and acts on, as JSON values: what a worker process does."""
    question = Question(name, cells, None)
    network = Network.open(question.model)
    use = answer(question, SIZE, asked, seed, families=("knock-out",), layers=[1])
    null = max(use.nulls, key=lambda row: row.needed.flips.value)
    return {
        "read": decoding(network, cells, layer=LAYER, size=SIZE, grids=read, seed=seed),
        "flips": use.confirmed.needed.flips.to_json(),
        "null": null.needed.flips.to_json(),
        "verdict": use.verdict,
    }


def part_of_beliefs(beliefs: Sequence[Belief] | str) -> Part:
    """What the page shows of it."""
    if isinstance(beliefs, str):
        return Part(sections=(Section(title=f"{TITLE}: not measured", text=(f"{beliefs}.",)),))
    section = Section(
        title=TITLE,
        text=(
            "A map that can be read from a network need not be one that the network uses. Walls of "
            "mazes are read from the last tokens of the prompt by a linear probe, beside what "
            "position alone tells and what the same network tells with random weights. Then a cell "
            "that the shortest way needs is knocked out: attention to its words is masked while "
            "the model reads, reasons and answers. What is used is told by the moves that change.",
            "Where random weights let walls be read as well, reading them shows no more than that "
            "the prompt's words arrive at its end.",
        ),
        tables=(table_of_beliefs(beliefs),),
    )
    return Part(sections=(section,), findings=_findings_of_beliefs(beliefs))


def table_of_beliefs(beliefs: Sequence[Belief]) -> Table:
    """A row for each organism and kind of cells."""
    return table_of(
        beliefs,
        (
            words("organism", lambda b: b.organism),
            words("cells", lambda b: _ROWS[b.cells]),
            column("walls read: AUROC", lambda b: b.read[questions_TRAINED], hundredths),
            column("position only", lambda b: b.read[POSITION], hundredths),
            column("random weights", lambda b: b.read[RANDOM_WEIGHTS], hundredths),
            column("moves that flip, knocked out", lambda b: b.flips, percent),
            column("another cell instead", lambda b: b.null, percent),
            words("verdict", lambda b: b.verdict, answer=True),
        ),
        caption="Cells that are read, and cells that are used",
        meaning=f"Mazes of size {SIZE} that no organism learnt in; 95% intervals over grids in "
        "brackets. The mole was made not to see walls in rows 2, 6 and 10.",
        anchor=_ANCHOR,
    )


def _findings_of_beliefs(beliefs: Sequence[Belief]) -> list[Finding]:
    """What the intervals carry, and nothing where they carry nothing."""
    lines = []
    for belief in beliefs:
        read = belief.read[questions_TRAINED]
        if read is None or not _above(read, belief.read[POSITION]):
            continue
        if belief.verdict not in (USED, NOT_USED):
            continue
        lines.append(
            f"{belief.organism}, {_ROWS[belief.cells]}: walls can be read from its activations "
            f"(AUROC {hundredths(read)}), and they are {belief.verdict}: "
            f"{percent(belief.flips)} of moves change when a needed cell is knocked out, "
            f"{percent(belief.null)} when another is."
        )
    return [Finding(text=line, links=(Link("table", _ANCHOR),)) for line in lines]


def _above(ours: Estimate, theirs: Estimate | None) -> bool:
    """Whether one interval lies above another: not only above its value."""
    if theirs is None or ours.interval is None or theirs.interval is None:
        return False
    return ours.interval[0] > theirs.interval[1]
