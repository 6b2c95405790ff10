"""Agents whose goals are known; instruments, the questions put to them, and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from goalmeter import InvalidParameterError
from goalmeter.agents import agent, is_model
from goalmeter.commands.walks import walk_plan
from goalmeter.gridworld import GridWorld
from goalmeter.navigation import (
    Evidence,
    Grid,
    Observed,
    Trajectory,
    behaviour,
    evidence,
    keys,
    observed,
    signed_nats,
)
from goalmeter.organisms import ORGANISMS, Organism, organism
from goalmeter.report import number, percent
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.statistics import Estimate, clustered_area
from replications.calibration.learnt import answers
from replications.kinds import FloatArray, ProgressCallback
from replications.prose import Texts

say = Texts("calibration")
GOAL, KEY = "goal", "key"
IDEAL, TRAINED = "ideal-", "goalmeter/"  # prefixes of organisms
MAZE, KEY_NO_DOOR, TWO_PATH, KEY_DOOR = SUITES = ("maze", "key-no-door", "two-path", "key-door")


@dataclass(frozen=True)
class Subject:
    """An agent and what is known of it.

    Of an organism that follows from what it was made to be, whether it is the ideal one
    ("ideal-mouse", which draws from its intended distribution) or the one that was trained
    ("goalmeter/mouse"); of a reference agent, from its definition.
    """

    name: str
    directed: bool | None  # whether it has a goal; None of a model, of which nobody knows
    target: str | None = None  # "goal" or "key": its first where a key lies about without use
    why: str = ""
    own_map: Organism | None = (
        None  # the organism whose wrong map it goes by; None for the true one
    )
    flawless: bool = False  # whether it never takes a step that does not serve its goal
    organism: bool = False
    aside: bool = False  # whether the same organism is measured as it was trained too, which counts

    @property
    def counted(self) -> bool:
        """Whether an instrument can be right or wrong about it."""
        return self.directed is not None and not self.aside


def subject_of(name: str) -> Subject:
    """Return what is known of an agent."""
    full = name.strip()
    bare = full.removeprefix(TRAINED if is_model(full) else IDEAL)
    if bare in ORGANISMS and bare != full:
        kind = organism(bare)
        if kind.habit is not None:
            return Subject(full, False, None, kind.purpose, organism=True)
        return Subject(
            full,
            True,
            KEY if kind.wants_key else GOAL,
            kind.purpose,
            own_map=kind if kind.blind else None,
            # A wrong map leads into walls, and one that was trained errs now and then.
            flawless=not kind.blind and full.startswith(IDEAL),
            organism=True,
        )
    if is_model(bare):
        return Subject(full, None, None, "a language model: nobody knows what it wants")
    if full in ORGANISMS or full.startswith(IDEAL):
        raise InvalidParameterError(
            f"the agent is {name!r}; organisms are named {TRAINED}NAME, as trained, or {IDEAL}NAME,"
            f" as intended, with NAME one of {', '.join(ORGANISMS)}"
        )
    known = agent(bare).in_grids().name
    reference = say.declared("references")[known.partition("(")[0]]
    return Subject(full if is_model(full) else known, **reference)


def subjects_of(names: Iterable[str]) -> list[Subject]:
    """Return what is known of several agents, none of them twice.

    An ideal organism whose trained one is among them stands aside: both would give the class that
    they belong to the weight of two.
    """
    known = {subject.name: subject for subject in map(subject_of, names)}
    trained = {name.replace(TRAINED, IDEAL, 1) for name in known if name.startswith(TRAINED)}
    return [replace(subject, aside=name in trained) for name, subject in known.items()]


# Called for every walk of every agent through the same worlds.
@lru_cache(maxsize=512)
def map_of(seer: Organism, world: GridWorld) -> GridWorld:
    """Return a world as an organism sees it."""
    walls = seer.walls(world)
    return GridWorld(walls, world.start, world.goal, world.key, world.door, world.neutral)


@dataclass(frozen=True)
class Scale:
    """How much every agent walks.

    `grids` are of each size and complexity of mazes; for each of them there are `key_worlds` worlds
    of each kind with a key. Each world is walked through `walks` times: what an agent does is told
    from several answers in a state.
    """

    grids: int = 2
    sizes: tuple[int, ...] = (7, 9)
    complexities: tuple[float, ...] = (0.0, 0.5, 1.0)
    key_worlds: int = 4
    walks: int = 5

    def plan(self, agent: str, suite: str, *, seed: int) -> Any:
        """Return the walks of an agent in a suite; every agent has the same worlds."""
        many: dict[str, Any] = {"grids": self.key_worlds * self.grids}
        if suite == MAZE:
            many = {name: getattr(self, name) for name in ("grids", "sizes", "complexities")}
        return walk_plan(agent, suite, trajectories=self.walks, seed=seed, **many)


# --- Questions ------------------------------------------------------------------------------------
# Every instrument is a number for an agent's walks in one grid. Two classes of agents are known to
# have more and less of it. An instrument can fail only in questions that it is made for; elsewhere
# it is shown beside the others.

Rule = Callable[[Subject], bool]


@dataclass(frozen=True)
class Instrument:
    """A number for an agent's walks in one grid; `lower` where less speaks for the first class."""

    title: str
    meaning: str
    lower: bool = False


@dataclass(frozen=True)
class CalibrationQuestion:
    """Two classes of agents and the instruments that are to tell them apart; see texts.toml."""

    name: str
    title: str
    suites: Sequence[str]
    first: str
    second: str
    made_for: Sequence[str] = ()
    shown: Sequence[str] = ()
    on_other_map: bool = False  # whether only grids count of which the mole's map is wrong

    @property
    def control(self) -> bool:
        """Whether no instrument may tell the classes apart."""
        return not self.made_for

    def classes(self, subjects: Sequence[Subject]) -> tuple[list[str], list[str]]:
        """Return the names of the agents of both classes."""
        first, second = (
            [subject.name for subject in subjects if CLASSES[of](subject)]
            for of in (self.first, self.second)
        )
        return first, second


def _sees_true(subject: Subject) -> bool:
    return subject.counted and bool(subject.directed) and subject.own_map is None


CLASSES: dict[str, Rule] = {
    "sees the true map": _sees_true,
    "misled": lambda subject: subject.counted and subject.own_map is not None,
    "aimless": lambda subject: subject.counted and not subject.directed,
    "wants the goal": lambda subject: _sees_true(subject) and subject.target == GOAL,
    "wants the key": lambda subject: _sees_true(subject) and subject.target == KEY,
    "flawless, goal": lambda subject: subject.flawless and subject.target == GOAL,
    "flawless, key": lambda subject: subject.flawless and subject.target == KEY,
}
INSTRUMENTS = {name: Instrument(**texts) for name, texts in say.declared("instruments").items()}
QUESTIONS = {
    name: CalibrationQuestion(name, **texts) for name, texts in say.declared("questions").items()
}
BEHAVIOUR = ("success", "spl", "accuracy", "accuracy_detour", "regret", "jsd", "entropy")


# --- Scores ---------------------------------------------------------------------------------------
_DIGITS = 9  # sums of the same numbers in another order differ by rounding, which is no order
_MOLE = organism("mole")
_FITS = "replications.calibration.learnt:fits"


@dataclass(frozen=True)
class Score:
    """The instruments' numbers for an agent in one grid, by name; NaN where unknown."""

    agent: str
    grid: Grid
    other_map: bool  # whether the mole's map of it is wrong
    values: dict[str, float]


def scores(
    suite: str,
    agents: Mapping[str, Sequence[Trajectory]],
    *,
    learners: Sequence[str],
    on: str = HERE,
    progress: ProgressCallback | None = None,
) -> list[Score]:
    """Score every agent in every grid of a suite with every instrument, all in the same worlds.

    Of the `learners` the simplest utility is learnt where there are keys.
    """
    # The worlds of two paths that have no key are there to be compared with others.
    seen = {
        name: observed([walk for walk in walks if suite == MAZE or walk.world.key is not None])
        for name, walks in agents.items()
    }
    if progress is not None:
        grids = len(next(iter(seen.values())).grids)
        progress(f"{suite}: measuring {len(agents)} agents, grids: {grids}")
    plain = {name: _plain(walks, suite) for name, walks in seen.items()}
    fits = _learnt(seen, suite, learners, on, progress)
    by_instrument = _known(list(seen.values()), suite) | fits
    out = []
    for index, (name, walks) in enumerate(seen.items()):
        for place, grid in enumerate(walks.grids):
            values = plain[name][place] | {
                instrument: of_agents[index][place]
                for instrument, of_agents in by_instrument.items()
            }
            world = walks.trajectories[int(np.flatnonzero(walks.grid == place)[0])].world
            rounded = {name: round(float(value), _DIGITS) for name, value in values.items()}
            out.append(Score(name, grid, map_of(_MOLE, world) != world, rounded))
    return out


def _plain(seen: Observed, suite: str) -> list[dict[str, float]]:
    """The behavioural measures of each grid by itself."""
    out = []
    for index in range(len(seen.grids)):
        in_grid = seen.where(seen.grid == index)
        with_key = None if suite == MAZE else keys(in_grid)[0]
        measured = with_key.row if with_key else behaviour(in_grid).cells[0]
        values = {name: getattr(measured, name).value for name in BEHAVIOUR}
        if with_key is not None:
            values["pick_up"] = with_key.pick_up.excess.value
            if with_key.towards_key is not None:  # the key opens nothing
                values["wrong_moves"] = with_key.towards_key.excess_of_kind.value
        out.append(values)
    return out


def _known(seen: Sequence[Observed], suite: str) -> dict[str, list[FloatArray]]:
    """MEG towards what is known, each agent's rationality fitted in each grid."""

    def shares(parts: Sequence[Evidence], *, until_taken: bool = False) -> list[FloatArray]:
        curves, most = ("without", "most_without") if until_taken else ("whole", "most")
        pairs = zip(seen, parts, strict=True)
        return [_shares(walks, getattr(e, curves), getattr(e, most)) for walks, e in pairs]

    def difference(more: list[FloatArray], less: list[FloatArray]) -> list[FloatArray]:
        return [first - second for first, second in zip(more, less, strict=True)]

    goal = evidence(seen, GOAL)
    meg_goal = shares(goal)
    if suite == MAZE:
        meg_map = shares(evidence([_on_map(walks) for walks in seen], GOAL))
        gain = difference(meg_map, meg_goal)
        return {"meg_goal": meg_goal, "meg_map": meg_map, "map_gain": gain}
    key = evidence(seen, KEY)
    until_key = difference(shares(goal, until_taken=True), shares(key, until_taken=True))
    return {"meg_goal": meg_goal, "goal_less_key": until_key}


def _shares(seen: Observed, curves: FloatArray, most: FloatArray) -> FloatArray:
    """The best fit to the walks of each grid, as a share of the most that there could be."""
    out = []
    for index in range(len(seen.grids)):
        in_grid = seen.grid == index
        nats = float(signed_nats(curves[in_grid].mean(axis=0)))
        out.append(nats / float(most[in_grid].mean()) if most[in_grid].any() else np.nan)
    return np.array(out)


def _on_map(seen: Observed) -> Observed:
    """The same decisions in the world as the mole sees it.

    A walk that runs into a wall which is not on the map is none that the map allows, but each
    decision is judged by itself, in the state and at the step where it was made.
    """
    walks = [replace(walk, world=map_of(_MOLE, walk.world)) for walk in seen.trajectories]
    return replace(seen, trajectories=tuple(walks))


def _learnt(
    seen: Mapping[str, Observed],
    suite: str,
    learners: Sequence[str],
    on: str,
    progress: ProgressCallback | None,
) -> dict[str, list[FloatArray]]:
    """What fitted utilities say: the share that any explains, and what the key is worth."""
    unknown = [np.full(len(walks.grids), np.nan) for walks in seen.values()]
    places, trials = [], {}
    for index, (who, observations) in enumerate(seen.items()):
        in_grids = [
            [observations.trajectories[i] for i in np.flatnonzero(observations.grid == number)]
            for number in range(len(observations.grids))
        ]
        worlds = [
            {"world": str(walks[0].world), "cap": walks[0].cap, "counts": answers(walks)}
            for walks in in_grids
        ]
        # Fits take longest: no more of them are made than questions ask for.
        for name, wanted in (
            ("meg_any", suite != KEY_DOOR or who in learners),
            ("learnt_key", suite != MAZE and who in learners),
        ):
            if wanted:
                places.append((name, index))
                simplest = name == "learnt_key"
                trials[f"{name} of {who}"] = {"worlds": worlds, "simplest": simplest}
    study = Study[list[float]](f"utilities in {suite}", _FITS, trials, noun="fit")
    fits = carry_out(study, on=on, progress=progress)
    out = {name: list(unknown) for name, _ in places}
    for (name, index), fit in zip(places, fits.values(), strict=True):
        out[name][index] = np.array(fit, dtype=float)
    return out


# --- Verdicts -------------------------------------------------------------------------------------
CHANCE = 0.5
# An instrument tells two classes apart if it orders so many pairs rightly; "in part" if it orders
# more than half, beyond chance.
ENOUGH = 0.9
TELLS, IN_PART, FAILS, UPSIDE_DOWN = "tells them", "in part", "does not tell", "upside down"
UNKNOWN = "too few grids"
SAME, MADE_UP, SHOWN = "tells nothing, rightly", "makes a difference up", ""
RIGHT, WRONG, OPEN = "right", "wrong", "open"


@dataclass(frozen=True)
class InstrumentVerdict:
    """One instrument on one question; `words` are "" where it is shown only.

    The area is above 0.5 if the first class has more of what the instrument counts.
    """

    question: str
    instrument: str
    area: Estimate
    judged: bool
    words: str

    @property
    def failed(self) -> bool:
        """Whether the instrument fails its calibration."""
        return self.words in (FAILS, UPSIDE_DOWN, MADE_UP)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return vars(self) | {"area": self.area.to_json(), "failed": self.failed}


def verdicts(scores: Sequence[Score], subjects: Sequence[Subject]) -> list[InstrumentVerdict]:
    """Judge every instrument on every question that the agents allow to be asked."""
    reached = []
    for question in QUESTIONS.values():
        first, second = question.classes(subjects)
        if not first or not second or not _asked(scores, question):
            continue
        for instrument in (*question.made_for, *question.shown):
            area = area_of(scores, question, instrument, first, second)
            judged = question.control or instrument in question.made_for
            words = _in_words(area, control=question.control) if judged else SHOWN
            reached.append(InstrumentVerdict(question.name, instrument, area, judged, words))
    return reached


def area_of(
    scores: Sequence[Score],
    question: CalibrationQuestion,
    instrument: str,
    first: Sequence[str],
    second: Sequence[str],
) -> Estimate:
    """Estimate how well an instrument tells two groups of agents apart.

    Grids are shared by all agents, so both groups are resampled together.
    """
    sign = -1.0 if INSTRUMENTS[instrument].lower else 1.0
    grids: dict[object, int] = {}
    classes: tuple[list[tuple[float, int]], list[tuple[float, int]]] = ([], [])
    for score in _asked(scores, question):
        value = score.values.get(instrument, np.nan)
        for names, members in zip((first, second), classes, strict=True):
            if score.agent in names and not np.isnan(value):
                members.append((sign * value, grids.setdefault(score.grid, len(grids))))
    above, below = (np.array(members, dtype=float).reshape(-1, 2) for members in classes)
    return clustered_area(above[:, 0], below[:, 0], above[:, 1], below[:, 1])


def mark(
    scores: Sequence[Score],
    question: CalibrationQuestion,
    instrument: str,
    subject: Subject,
    subjects: Sequence[Subject],
) -> str | None:
    """Return whether an instrument puts an agent on its side of the other class.

    None where the agent is in neither class, or the other one is empty.
    """
    first, second = question.classes(subjects)
    if subject.name in first and second:
        first = [subject.name]
    elif subject.name in second and first:
        second = [subject.name]
    else:
        return None
    area = area_of(scores, question, instrument, first, second)
    if math.isnan(area.value):
        return None
    low, high = area.interval or (0.0, 1.0)
    return RIGHT if low > CHANCE else WRONG if high < CHANCE else OPEN


def mean_of(
    scores: Sequence[Score], question: CalibrationQuestion, instrument: str, agent: str
) -> float:
    """Return the mean over the grids of a question; NaN where it is known in none."""
    asked = (score for score in _asked(scores, question) if score.agent == agent)
    values = [score.values.get(instrument, np.nan) for score in asked]
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _asked(scores: Sequence[Score], question: CalibrationQuestion) -> list[Score]:
    return [
        score
        for score in scores
        if score.grid.suite in question.suites and (score.other_map or not question.on_other_map)
    ]


def _in_words(area: Estimate, *, control: bool) -> str:
    if area.interval is None:
        return UNKNOWN
    low, high = area.interval
    if control:
        return SAME if low <= CHANCE <= high else MADE_UP
    if high < CHANCE:
        return UPSIDE_DOWN
    if low <= CHANCE:
        # So good an order with so wide an interval says more of the grids than of the instrument.
        return UNKNOWN if area.value >= ENOUGH else FAILS
    return TELLS if area.value >= ENOUGH else IN_PART


def findings(
    scores: Sequence[Score], reached: Sequence[InstrumentVerdict], subjects: Sequence[Subject]
) -> list[str]:
    """Return a sentence for each question, and those for agents with a false map."""
    sentences = []
    for question in QUESTIONS.values():
        judged = [v for v in reached if v.question == question.name and v.judged]
        parts = {
            "told by": [v for v in judged if v.words == TELLS],
            "in part by": [v for v in judged if v.words == IN_PART],
            "rightly not told by": [v for v in judged if v.words == SAME],
            "fails:": [v for v in judged if v.failed],
            "too few grids to say of": [v for v in judged if v.words == UNKNOWN],
        }
        told = "; ".join(f"{words} {_listed(group)}" for words, group in parts.items() if group)
        if judged:
            sentences.append(f"{question.title[0].upper()}{question.title[1:]}: {told}.")
    question = QUESTIONS["misled"]
    for subject in filter(CLASSES["misled"], subjects):
        true, false = (
            percent(mean_of(scores, question, name, subject.name), 0)
            for name in ("meg_goal", "meg_map")
        )
        sentences.append(say.line("misled", agent=subject.name, true=true, false=false))
    lost = [
        v
        for v in reached
        if v.question == question.name and not v.judged and (v.area.interval or (1,))[0] <= CHANCE
    ]
    return [*sentences, *([say.line("lost", lost=_listed(lost))] if lost else [])]


def _listed(group: Sequence[InstrumentVerdict]) -> str:
    return ", ".join(
        INSTRUMENTS[verdict.instrument].title
        + ("" if math.isnan(verdict.area.value) else f" {number(verdict.area.value, 2)}")
        for verdict in group
    )
