"""Instruments, the questions put to them, their scores, and verdicts against the known answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter.commands.walks import MOLE
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY
from goalmeter.navigation import Trajectory, goal_directedness
from goalmeter.navigation.behaviour import row
from goalmeter.navigation.distractors import towards_key
from goalmeter.navigation.keys import pick_up
from goalmeter.navigation.rationality import Evidence, evidence, signed_nats
from goalmeter.navigation.steps import Grid, Grids, Observed, observed
from goalmeter.organisms import organism
from goalmeter.report import number, percent
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.statistics import Estimate
from goalmeter.statistics.discrimination import NOTHING, clustered_area
from replications.calibration.agents import (
    KEY_DOOR,
    KEY_NO_DOOR,
    MAZE,
    TWO_PATH,
    Subject,
    map_of,
)
from replications.kinds import FloatArray, ProgressCallback
from replications.prose import data

# --- Questions ------------------------------------------------------------------------------------
# Every instrument is a number for an agent's walks in one grid, with its sign so that more of it
# speaks for the first class of a question. It fails only in questions that it is made for;
# elsewhere it is shown beside the others.


@dataclass(frozen=True)
class Instrument:
    """A number for an agent's walks in one grid; `lower` where less speaks for the first class."""

    name: str
    title: str
    meaning: str
    lower: bool = False


@dataclass(frozen=True)
class Question:
    """Two classes of agents, and who is to tell them apart."""

    name: str
    title: str
    suites: tuple[str, ...]  # where it is asked
    first: Callable[[Subject], bool]  # whether an agent is of the class that has more
    second: Callable[[Subject], bool]  # whether it is of the class that has less
    # names of instruments that are to tell them apart; none are, of a control
    made_for: tuple[str, ...]
    shown: tuple[str, ...] = ()  # names of those shown beside them
    on_other_map: bool = False  # whether it is asked only in grids in which the mole's map is wrong

    @property
    def control(self) -> bool:
        """Whether the two classes do the same, so that nothing may tell them apart."""
        return not self.made_for


INSTRUMENTS = {
    name: Instrument(name, **texts) for name, texts in data("calibration", "instruments").items()
}

BEHAVIOUR = ("success", "spl", "accuracy", "accuracy_detour", "regret", "jsd", "entropy")
_TARGET = ("goal_less_key", "learnt_key", "pick_up", "wrong_moves")


def _sees_true(subject: Subject) -> bool:
    return subject.counted and bool(subject.directed) and subject.own_map is None


def _misled(subject: Subject) -> bool:
    return subject.counted and subject.own_map is not None


def _aimless(subject: Subject) -> bool:
    return subject.counted and not subject.directed


def _flawless(target: str) -> Callable[[Subject], bool]:
    return lambda subject: subject.flawless and subject.target == target


QUESTIONS = {
    question.name: question
    for question in (
        Question(
            "directed",
            "the goal-directed from the aimless",
            (MAZE,),
            first=_sees_true,
            second=_aimless,
            made_for=("meg_goal", "meg_any", *BEHAVIOUR),
        ),
        # In the true world it runs into walls: what asks for success may miss its goal, what
        # asks for aim should not, and on its own map nothing should.
        Question(
            "misled",
            "one with a false map from the aimless",
            (MAZE,),
            first=_misled,
            second=_aimless,
            made_for=("meg_map", "meg_any"),
            shown=("meg_goal", *BEHAVIOUR),
            on_other_map=True,
        ),
        Question(
            "map",
            "one with a false map from those with the true one",
            (MAZE,),
            first=_misled,
            second=_sees_true,
            made_for=("map_gain",),
            on_other_map=True,
        ),
        # The mole is left out: in most worlds it reaches neither.
        Question(
            "target",
            "those who want the goal from those who want the key",
            (KEY_NO_DOOR, TWO_PATH),
            first=lambda subject: _sees_true(subject) and subject.target == GOAL_UTILITY,
            second=lambda subject: _sees_true(subject) and subject.target == KEY_UTILITY,
            made_for=_TARGET,
            shown=("meg_goal", "meg_any", "success", "accuracy"),
        ),
        # Behind a door the key is everybody's first target: who takes no wrong step does the same
        # whatever the target, and an instrument that tells them apart makes it up. Organisms that
        # were trained err, so the ideal ones take part even where they stand aside.
        Question(
            "control",
            "the same two behind a door, where both take the key",
            (KEY_DOOR,),
            first=_flawless(GOAL_UTILITY),
            second=_flawless(KEY_UTILITY),
            made_for=(),
            shown=("goal_less_key", "learnt_key", "pick_up", "meg_goal", "meg_any", "accuracy"),
        ),
    )
}


# --- Scores ---------------------------------------------------------------------------------------
# Sums of the same numbers in another order differ by rounding, which is no order.
_DIGITS = 9


@dataclass(frozen=True)
class Score:
    """The instruments' numbers for an agent in one grid."""

    agent: str
    grid: Grid
    other_map: bool  # whether the mole's map of it is wrong
    # by the name of the instrument, as they are usually told; NaN where unknown
    values: dict[str, float]


def scores(
    suite: str,
    agents: Mapping[str, Sequence[Trajectory]],
    *,
    learners: Sequence[str],
    on: str = HERE,
    progress: ProgressCallback | None = None,
) -> list[Score]:
    """Every instrument for every agent in every grid of a suite, all in the same worlds.

    Of the `learners` the simplest utility is learnt where there are keys.
    """
    # The worlds of two paths that have no key are there to be compared with others.
    seen = [
        observed([walk for walk in walks if suite == MAZE or walk.world.key is not None])
        for walks in agents.values()
    ]
    if progress is not None:
        progress(f"{suite}: measuring {len(agents)} agents, grids: {len(seen[0].grids)}")
    by_agent = [
        [
            Score(name, grid, _other_map(walks, index), values)
            for index, (grid, values) in enumerate(
                zip(walks.grids, _plain(walks, suite), strict=True)
            )
        ]
        for name, walks in zip(agents, seen, strict=True)
    ]
    fitted = _learnt(agents, seen, suite, learners, on, progress)
    for name, values in [*_known(seen, suite), *fitted]:
        for rows, numbers in zip(by_agent, values, strict=True):
            for score, index in zip(rows, numbers, strict=True):
                score.values[name] = round(float(index), _DIGITS)
    return [score for rows in by_agent for score in rows]


def _plain(seen: Observed, suite: str) -> list[dict[str, float]]:
    """The behavioural measures of each grid by itself."""
    out = []
    for index in range(len(seen.grids)):
        in_grid = seen.where(seen.grid == index)
        measured = row(in_grid, 0.95, (None, None, None, "{}"))
        values = {name: getattr(measured, name).value for name in BEHAVIOUR}
        if suite != MAZE:
            grids = Grids(in_grid, 0.95)
            values["pick_up"] = pick_up(grids).excess.value
        if suite in (KEY_NO_DOOR, TWO_PATH):
            values["wrong_moves"] = towards_key(grids).excess_of_kind.value
        out.append({name: round(value, _DIGITS) for name, value in values.items()})
    return out


def _known(seen: Sequence[Observed], suite: str) -> list[tuple[str, list[FloatArray]]]:
    """MEG towards what is known, each agent's rationality fitted in each grid."""

    def whole(parts: Sequence[Evidence]) -> list[FloatArray]:
        return [_shares(w, e.whole, e.most) for w, e in zip(seen, parts, strict=True)]

    def until_taken(parts: Sequence[Evidence]) -> list[FloatArray]:
        return [_shares(w, e.without, e.most_without) for w, e in zip(seen, parts, strict=True)]

    def difference(more: list[FloatArray], less: list[FloatArray]) -> list[FloatArray]:
        return [first - second for first, second in zip(more, less, strict=True)]

    goal = evidence(seen, GOAL_UTILITY)
    meg_goal = whole(goal)
    if suite == MAZE:
        meg_map = whole(evidence([_on_map(walks) for walks in seen], GOAL_UTILITY))
        gain = difference(meg_map, meg_goal)
        return [("meg_goal", meg_goal), ("meg_map", meg_map), ("map_gain", gain)]
    until_key = difference(until_taken(goal), until_taken(evidence(seen, KEY_UTILITY)))
    return [("meg_goal", meg_goal), ("goal_less_key", until_key)]


def _shares(seen: Observed, curves: FloatArray, most: FloatArray) -> FloatArray:
    """The best fit to the walks of each grid, as a share of the most that there could be."""
    out = []
    for index in range(len(seen.grids)):
        in_grid = seen.grid == index
        nats = float(signed_nats(curves[in_grid].mean(axis=0)))
        out.append(nats / float(most[in_grid].mean()) if most[in_grid].any() else np.nan)
    return np.array(out)


def _on_map(seen: Observed) -> Observed:
    """The same decisions in the world as the mole sees it."""
    # A walk that runs into a wall which is not on the map is none that the map allows. That is no
    # matter: each decision is judged by itself, in the state and at the step where it was made.
    mole = organism(MOLE)
    walks = [replace(walk, world=map_of(mole, walk.world)) for walk in seen.trajectories]
    return replace(seen, trajectories=tuple(walks))


def _other_map(seen: Observed, number: int) -> bool:
    world = seen.trajectories[int(np.flatnonzero(seen.grid == number)[0])].world
    return map_of(organism(MOLE), world) != world


def _learnt(
    agents: Mapping[str, Sequence[Trajectory]],
    seen: Sequence[Observed],
    suite: str,
    learners: Sequence[str],
    on: str,
    progress: ProgressCallback | None,
) -> list[tuple[str, list[FloatArray]]]:
    """What fitted utilities say: the share that any explains, and what the key is worth."""
    function, places = "", []
    trials: dict[str, Mapping[str, Any]] = {}
    for index, (agent, observations) in enumerate(zip(agents, seen, strict=True)):
        walks = [
            [observations.trajectories[i] for i in np.flatnonzero(observations.grid == number)]
            for number in range(len(observations.grids))
        ]
        # Fits take longest: no more of them are made than questions ask for.
        wanted = {
            "meg_any": suite != KEY_DOOR or agent in learners,
            "learnt_key": suite != MAZE and agent in learners,
        }
        for name in filter(wanted.__getitem__, wanted):
            places.append((name, index))
            function, arguments = goal_directedness.job(walks, simplest=name == "learnt_key")
            trials[f"{name} of {agent}"] = arguments
    study = Study[list[float]](f"utilities in {suite}", function, trials, noun="fit")
    fits = carry_out(study, on=on, progress=progress)
    unknown = [np.full(len(observations.grids), np.nan) for observations in seen]
    out = {name: list(unknown) for name, _ in places}
    for (name, index), fit in zip(places, fits.values(), strict=True):
        out[name][index] = np.array(fit, dtype=float)
    return list(out.items())


# --- Verdicts -------------------------------------------------------------------------------------
# An instrument tells two classes apart if it orders so many pairs rightly; "in part" if it orders
# more than half, beyond chance.
ENOUGH = 0.9
TELLS, IN_PART, FAILS, UPSIDE_DOWN = "tells them", "in part", "does not tell", "upside down"
UNKNOWN = "too few grids"
SAME, MADE_UP, SHOWN = "tells nothing, rightly", "makes a difference up", ""
RIGHT, WRONG, OPEN = "right", "wrong", "open"


@dataclass(frozen=True)
class Verdict:
    """One instrument on one question."""

    question: str
    instrument: str
    # under the curve; above 0.5 if the first class has more of what the instrument counts
    area: Estimate
    judged: bool  # whether the instrument is made for the question, or the question is a control
    words: str  # what that comes to; "" if it is not judged

    @property
    def failed(self) -> bool:
        """Whether the instrument fails its calibration."""
        return self.words in (FAILS, UPSIDE_DOWN, MADE_UP)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return vars(self) | {"area": self.area.to_json(), "failed": self.failed}


def verdicts(scores: Sequence[Score], subjects: Sequence[Subject]) -> list[Verdict]:
    """Every instrument on every question that the agents allow to be asked."""
    reached = []
    for question in QUESTIONS.values():
        first, second = (_names(subjects, of) for of in (question.first, question.second))
        if not first or not second or not _asked(scores, question):
            continue
        for instrument in (*question.made_for, *question.shown):
            area = area_of(scores, question, instrument, first, second)
            judged = question.control or instrument in question.made_for
            words = _in_words(area, question) if judged else SHOWN
            reached.append(Verdict(question.name, instrument, area, judged, words))
    return reached


def area_of(
    scores: Sequence[Score],
    question: Question,
    instrument: str,
    first: Sequence[str],
    second: Sequence[str],
) -> Estimate:
    """How well an instrument tells two groups of agents apart, where a question is asked."""
    sign = -1.0 if INSTRUMENTS[instrument].lower else 1.0
    # Grids are shared by all agents, so both classes are resampled together.
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
    question: Question,
    instrument: str,
    subject: Subject,
    subjects: Sequence[Subject],
) -> str | None:
    """Whether an instrument puts an agent on its side of the other class; None if not counted."""
    first, second = (_names(subjects, of) for of in (question.first, question.second))
    if question.first(subject) and second:
        area = area_of(scores, question, instrument, [subject.name], second)
    elif question.second(subject) and first:
        area = area_of(scores, question, instrument, first, [subject.name])
    else:
        return None
    if area.interval is None or np.isnan(area.value):
        return None if np.isnan(area.value) else OPEN
    if area.interval[0] > NOTHING:
        return RIGHT
    return WRONG if area.interval[1] < NOTHING else OPEN


def mean_of(scores: Sequence[Score], question: Question, instrument: str, agent: str) -> float:
    """The mean over the grids of a question; NaN where it is known in none."""
    asked = (score for score in _asked(scores, question) if score.agent == agent)
    values = [score.values.get(instrument, np.nan) for score in asked]
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _asked(scores: Sequence[Score], question: Question) -> list[Score]:
    return [
        score
        for score in scores
        if score.grid.suite in question.suites and (score.other_map or not question.on_other_map)
    ]


def _names(subjects: Sequence[Subject], of: Callable[[Subject], bool]) -> list[str]:
    return [subject.name for subject in subjects if of(subject)]


def _in_words(area: Estimate, question: Question) -> str:
    if area.interval is None:
        return UNKNOWN
    low, high = area.interval
    if question.control:
        return SAME if low <= NOTHING <= high else MADE_UP
    if high < NOTHING:
        return UPSIDE_DOWN
    if low <= NOTHING:
        # So good an order with so wide an interval says more of the grids than of the instrument.
        return UNKNOWN if area.value >= ENOUGH else FAILS
    return TELLS if area.value >= ENOUGH else IN_PART


# --- In sentences made of the numbers ------------------------------------------------------------


def findings(
    scores: Sequence[Score], reached: Sequence[Verdict], subjects: Sequence[Subject]
) -> list[str]:
    """A sentence for each question, and for agents with a false map."""
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
    return [*sentences, *_misled_in_words(scores, reached, subjects)]


def _misled_in_words(
    scores: Sequence[Score], reached: Sequence[Verdict], subjects: Sequence[Subject]
) -> list[str]:
    """What an agent with a false map looks like on either map, and who takes it for aimless."""
    question = QUESTIONS["misled"]
    sentences = []
    for subject in (s for s in subjects if s.own_map is not None and s.counted):
        true, false = (
            percent(mean_of(scores, question, name, subject.name), 0)
            for name in ("meg_goal", "meg_map")
        )
        sentences.append(
            f"{subject.name}, in mazes that its map has wrong: MEG towards the goal is {true} of "
            f"its maximum in the world and {false} on its own map."
        )
    lost = [
        verdict
        for verdict in reached
        if verdict.question == question.name
        and not verdict.judged
        and verdict.area.interval is not None
        and verdict.area.interval[0] <= NOTHING
    ]
    if lost:
        sentences.append(
            f"{_listed(lost)} judge agents by the true map, and do not tell those with a false map "
            f"from the aimless."
        )
    return sentences


def _listed(group: Sequence[Verdict]) -> str:
    return ", ".join(
        INSTRUMENTS[verdict.instrument].title
        + ("" if math.isnan(verdict.area.value) else f" {number(verdict.area.value, 2)}")
        for verdict in group
    )
