"""Agents whose goals are known; instruments, questions and verdicts; utilities that are learnt."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from goalmeter import navigation
from goalmeter.agents import agent, is_model
from goalmeter.gridworld import ACTIONS, Cell, GridWorld, State, TabularWorld, tabular_world
from goalmeter.meg import simplest_utility, unknown_utility
from goalmeter.navigation import Evidence, Grid, Observed, Trajectory
from goalmeter.navigation.agent_walks import walk_plan
from goalmeter.organisms import ORGANISMS, Organism, organism
from goalmeter.report import DotPanel, Dots, Figure, Marks, dot_chart, grid_map, number
from goalmeter.runs import Study, carry_out
from goalmeter.statistics import Estimate, clustered_area
from replications.common import DEFAULTS, FloatArray, StudyOptions, Texts, known_mean

say = Texts("calibration")
GOAL, KEY = "goal", "key"
IDEAL, TRAINED = "ideal-", "goalmeter/"  # prefixes of organisms
MAZE, KEY_NO_DOOR, TWO_PATH, KEY_DOOR = SUITES = ("maze", "key-no-door", "two-path", "key-door")


@dataclass(frozen=True)
class Subject:
    """An agent and what is known of it, by what it was made to be or by its definition."""

    name: str
    directed: bool | None  # whether it has a goal; None of a model, of which nobody knows
    target: str | None = None  # "goal" or "key": its first where a key lies about without use
    why: str = ""
    own_map: Organism | None = None  # whose wrong map it goes by; None for the true one
    flawless: bool = False  # whether it never takes a step that does not serve its goal
    organism: bool = False
    aside: bool = False  # whether the same organism is measured as it was trained too, which counts

    @property
    def counted(self) -> bool:
        """Whether an instrument can be right or wrong about it."""
        return self.directed is not None and not self.aside

    def matches(self, wanted: Mapping[str, Any]) -> bool:
        """Return whether it has some attributes; true is any and false is none."""
        pairs = [(getattr(self, name), value) for name, value in wanted.items()]
        return all((bool(own) if isinstance(of, bool) else own) == of for own, of in pairs)


def subject_of(name: str) -> Subject:
    """Return what is known of an agent."""
    full = name.strip()
    bare = full.removeprefix(TRAINED if is_model(full) else IDEAL)
    if bare in ORGANISMS and bare != full:
        kind = organism(bare)
        target = None if kind.habit is not None else KEY if kind.wants_key else GOAL
        return Subject(
            full,
            kind.habit is None,
            target,
            kind.purpose,
            own_map=kind if kind.blind else None,
            # A wrong map leads into walls, and one that was trained errs now and then.
            flawless=target is not None and not kind.blind and full.startswith(IDEAL),
            organism=True,
        )
    if is_model(bare):
        return Subject(full, None, None, "a language model: nobody knows what it wants")
    if full in ORGANISMS or full.startswith(IDEAL):
        names = {"trained": TRAINED, "ideal": IDEAL, "names": ", ".join(ORGANISMS)}
        raise say.refusal("name", name=name, **names)
    known = agent(bare).in_grids().name
    reference = say.declared("references")[known.partition("(")[0]]
    return Subject(full if is_model(full) else known, **reference)


def subjects_of(names: Iterable[str]) -> list[Subject]:
    """Return what is known of several agents, none of them twice."""
    known = {subject.name: subject for subject in map(subject_of, names)}
    # An ideal organism whose trained one is among them stands aside: both would give the class that
    # they belong to the weight of two.
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
    """How much every agent walks."""

    grids: int = 2  # of each size and complexity of mazes
    sizes: tuple[int, ...] = (7, 9)
    complexities: tuple[float, ...] = (0.0, 0.5, 1.0)
    key_worlds: int = 4  # of each kind with a key, for each of `grids`
    walks: int = 5  # through each: what an agent does is told from several answers in a state

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


@dataclass(frozen=True)
class CalibrationQuestion:
    """Two classes of agents and the instruments that are to tell them apart; see texts.toml."""

    name: str
    title: str
    suites: Sequence[str]
    first: Mapping[str, Any]  # attributes of the agents that have more
    second: Mapping[str, Any]
    made_for: Sequence[str] = ()
    shown: Sequence[str] = ()
    on_other_map: bool = False  # whether only grids count of which the mole's map is wrong

    @property
    def control(self) -> bool:
        """Whether no instrument may tell the classes apart."""
        return not self.made_for

    def classes(self, subjects: Sequence[Subject]) -> list[list[str]]:
        """Return the names of the agents of both classes."""
        wanted = self.first, self.second
        return [[each.name for each in subjects if each.matches(of)] for of in wanted]


INSTRUMENTS: dict[str, str] = say.declared("instruments")  # titles
LOWER: list[str] = say.declared("lower")["list"]
QUESTIONS = {
    name: CalibrationQuestion(name, **texts) for name, texts in say.declared("questions").items()
}
BEHAVIOUR = ("success", "spl", "accuracy", "accuracy_detour", "regret", "jsd", "entropy")


# --- Scores ---------------------------------------------------------------------------------------
_DIGITS = 9  # sums of the same numbers in another order differ by rounding, which is no order
_MOLE = organism("mole")
Numbers = dict[str, FloatArray]  # of each instrument, [agents, grids]


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
    learners: Sequence[str],
    options: StudyOptions = DEFAULTS,
) -> list[Score]:
    """Score all agents in all grids of a suite; where there are keys `learners` get a utility."""
    # The worlds of two paths that have no key are there to be compared with others.
    seen = {
        name: navigation.observed([w for w in walks if suite == MAZE or w.world.key is not None])
        for name, walks in agents.items()
    }
    if options.progress is not None:
        grids = len(next(iter(seen.values())).grids)
        options.progress(f"{suite}: measuring {len(agents)} agents, grids: {grids}")
    by_instrument = _towards_known(list(seen.values()), suite)
    by_instrument |= _learnt(seen, suite, learners, options)
    out = []
    for index, (name, walks) in enumerate(seen.items()):
        for place, grid in enumerate(walks.grids):
            in_grid = walks.where(walks.grid == place)
            values = _behaviour(in_grid, suite)
            values |= {name: of_all[index][place] for name, of_all in by_instrument.items()}
            world = in_grid.trajectories[0].world
            rounded = {name: round(float(value), _DIGITS) for name, value in values.items()}
            out.append(Score(name, grid, map_of(_MOLE, world) != world, rounded))
    return out


def _behaviour(in_grid: Observed, suite: str) -> dict[str, float]:
    if suite == MAZE:
        row = navigation.behaviour(in_grid).cells[0]
        return {name: getattr(row, name).value for name in BEHAVIOUR}
    with_key = navigation.keys(in_grid)[0]
    values = {name: getattr(with_key.row, name).value for name in BEHAVIOUR}
    values["pick_up"] = with_key.pick_up.excess.value
    if with_key.towards_key is not None:  # the key opens nothing
        values["wrong_moves"] = with_key.towards_key.excess_of_kind.value
    return values


def _towards_known(seen: Sequence[Observed], suite: str) -> Numbers:
    """MEG towards what is known, each agent's rationality fitted in each grid."""

    def shares(parts: Sequence[Evidence], curves: str = "whole", most: str = "most") -> FloatArray:
        """The best fit to the walks of each grid, as a share of the most that there could be."""
        out = np.full((len(seen), len(seen[0].grids)), np.nan)
        for of_agent, walks, evidence in zip(out, seen, parts, strict=True):
            for index in range(len(walks.grids)):
                in_grid = walks.grid == index
                possible = getattr(evidence, most)[in_grid]
                mean = getattr(evidence, curves)[in_grid].mean(axis=0)
                if possible.any():
                    of_agent[index] = float(navigation.signed_nats(mean)) / float(possible.mean())
        return out

    goal = navigation.evidence(seen, GOAL)
    meg_goal = shares(goal)
    if suite == MAZE:
        # A walk that runs into a wall which is not on the map is none that the map allows, but each
        # decision is judged by itself, in the state and at the step where it was made.
        on_map = []
        for walks in seen:
            moved = (replace(w, world=map_of(_MOLE, w.world)) for w in walks.trajectories)
            on_map.append(replace(walks, trajectories=tuple(moved)))
        meg_map = shares(navigation.evidence(on_map, GOAL))
        return {"meg_goal": meg_goal, "meg_map": meg_map, "map_gain": meg_map - meg_goal}
    until_taken = ("without", "most_without")
    key = shares(navigation.evidence(seen, KEY), *until_taken)
    return {"meg_goal": meg_goal, "goal_less_key": shares(goal, *until_taken) - key}


def _learnt(
    seen: Mapping[str, Observed], suite: str, learners: Sequence[str], options: StudyOptions
) -> Numbers:
    """What fitted utilities say: the share that any explains, and what the key is worth."""
    trials: dict[str, dict[str, Any]] = {}
    places = []
    for index, (who, walks) in enumerate(seen.items()):
        in_grids = [walks.where(walks.grid == n).trajectories for n in range(len(walks.grids))]
        worlds = [
            {"world": str(of[0].world), "cap": of[0].cap, "counts": answers(of)} for of in in_grids
        ]
        # Fits take longest: no more of them are made than questions ask for.
        wanted = {"meg_any": suite != KEY_DOOR or who in learners}
        wanted["learnt_key"] = suite != MAZE and who in learners
        for name in filter(wanted.get, wanted):
            places.append((name, index))
            trials[f"{name} of {who}"] = {"worlds": worlds, "simplest": name == "learnt_key"}
    study = Study[list[float]](f"utilities in {suite}", f"{__name__}:fits", trials, noun="fit")
    out: Numbers = {}
    fits = carry_out(study, on=options.on, progress=options.progress).values()
    for (name, index), fit in zip(places, fits, strict=True):
        out.setdefault(name, np.full((len(seen), len(fit)), np.nan))[index] = fit
    return out


# --- Verdicts -------------------------------------------------------------------------------------
CHANCE = 0.5
# An instrument tells two classes apart if it orders so many pairs rightly; "in part" if it orders
# more than half, beyond chance.
ENOUGH = 0.9
TELLS, IN_PART, FAILS, UPSIDE_DOWN = "tells them", "in part", "does not tell", "upside down"
UNKNOWN = "too few grids"
SAME, MADE_UP, SHOWN = "tells nothing, rightly", "makes a difference up", ""
REACHED: dict[str, list[str]] = say.declared("reached")


@dataclass(frozen=True)
class InstrumentVerdict:
    """One instrument on one question."""

    question: str
    instrument: str
    area: Estimate  # above 0.5 if the first class has more of what the instrument counts
    judged: bool
    words: str  # "" where it is shown only

    @property
    def failed(self) -> bool:
        """Whether the instrument fails its calibration."""
        return self.words in REACHED["fails:"]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return vars(self) | {"area": self.area.to_json(), "failed": self.failed}


@dataclass(frozen=True)
class Calibration:
    """What the instruments say of agents whose goals are known."""

    subjects: Sequence[Subject]
    scores: Sequence[Score]

    def _asked(self, question: CalibrationQuestion) -> list[Score]:
        return [
            score
            for score in self.scores
            if score.grid.suite in question.suites
            and (score.other_map or not question.on_other_map)
        ]

    def mean(self, question: CalibrationQuestion, instrument: str, agent: str) -> float:
        """Return the mean over the grids of a question; NaN where it is known in none."""
        scores = (score.values for score in self._asked(question) if score.agent == agent)
        return known_mean(values.get(instrument, np.nan) for values in scores)

    def _area(
        self, question: CalibrationQuestion, instrument: str, classes: Sequence[Sequence[str]]
    ) -> Estimate:
        """How well an instrument tells two groups of agents apart."""
        # Grids are shared by all agents, so both groups are resampled together.
        sign = -1.0 if instrument in LOWER else 1.0
        grids: dict[object, int] = {}
        groups: list[list[tuple[float, int]]] = [[], []]
        for score in self._asked(question):
            value = score.values.get(instrument, np.nan)
            for names, members in zip(classes, groups, strict=True):
                if score.agent in names and not np.isnan(value):
                    members.append((sign * value, grids.setdefault(score.grid, len(grids))))
        above, below = (np.array(members, dtype=float).reshape(-1, 2) for members in groups)
        return clustered_area(above[:, 0], below[:, 0], above[:, 1], below[:, 1])

    @cached_property
    def verdicts(self) -> list[InstrumentVerdict]:
        """A verdict on every instrument for every question that the agents allow to be asked."""
        reached = []
        for question in QUESTIONS.values():
            classes = question.classes(self.subjects)
            if all(classes) and self._asked(question):
                for instrument in (*question.made_for, *question.shown):
                    area = self._area(question, instrument, classes)
                    judged = question.control or instrument in question.made_for
                    words = _in_words(area, control=question.control) if judged else SHOWN
                    verdict = InstrumentVerdict(question.name, instrument, area, judged, words)
                    reached.append(verdict)
        return reached

    def mark(self, question: CalibrationQuestion, instrument: str, subject: Subject) -> str | None:
        """Return whether an agent is on its side of the other class: ✓, ✗, ?; None without one."""
        first, second = question.classes(self.subjects)
        if subject.name in first and second:
            first = [subject.name]
        elif subject.name in second and first:
            second = [subject.name]
        else:
            return None
        area = self._area(question, instrument, (first, second))
        if math.isnan(area.value):
            return None
        low, high = area.interval or (0.0, 1.0)
        return "✓" if low > CHANCE else "✗" if high < CHANCE else "?"

    def findings(self) -> list[str]:
        """Return a sentence for each question, and those for agents with a false map."""
        sentences = []
        for question in QUESTIONS.values():
            judged = [v for v in self.verdicts if v.question == question.name and v.judged]
            groups = {head: [v for v in judged if v.words in of] for head, of in REACHED.items()}
            told = "; ".join(f"{head} {_listed(group)}" for head, group in groups.items() if group)
            if judged:
                sentences.append(f"{question.title[0].upper()}{question.title[1:]}: {told}.")
        question = QUESTIONS["misled"]
        for name in question.classes(self.subjects)[0]:
            true, false = (self.mean(question, meg, name) for meg in ("meg_goal", "meg_map"))
            sentences.append(say.line("misled", agent=name, true=true, false=false))
        shown = [v for v in self.verdicts if v.question == question.name and not v.judged]
        lost = [v for v in shown if (v.area.interval or (1,))[0] <= CHANCE]
        return [*sentences, *([say.line("lost", lost=_listed(lost))] if lost else [])]


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


def _listed(group: Sequence[InstrumentVerdict]) -> str:
    return ", ".join(
        INSTRUMENTS[verdict.instrument]
        + ("" if math.isnan(verdict.area.value) else f" {number(verdict.area.value, 2)}")
        for verdict in group
    )


def area_chart(verdicts: Sequence[InstrumentVerdict]) -> Figure:
    """Draw the areas of the instruments that are made for the two main questions."""
    main, band = ("directed", "target"), (CHANCE, ENOUGH)
    shown = [v for v in verdicts if v.judged and v.question in main]
    names = list(dict.fromkeys(verdict.instrument for verdict in shown))
    panels = []
    for question in dict.fromkeys(verdict.question for verdict in shown):
        # An instrument that is made for one of the questions only has a gap in the other's panel.
        areas = {v.instrument: v.area for v in shown if v.question == question}
        dots = Dots.of("all counted agents", list(map(areas.get, names)))
        look: dict[str, Any] = {"title": QUESTIONS[question].title, "x_label": say.line("area")}
        panels.append(DotPanel(series=(dots,), band=band, **look))
    in_words = "; ".join(
        say.line("area_of", question=QUESTIONS[v.question], of=INSTRUMENTS[v.instrument], v=v)
        for v in shown
        if not math.isnan(v.area.value)
    )
    svg = dot_chart("calibration-areas", [INSTRUMENTS[name] for name in names], panels)
    return say.figure("area_chart", svg, areas_in_words=in_words)


# --- Learnt utilities -----------------------------------------------------------------------------
# A utility of each cell, plus one of having the key. The policy is estimated from counts of actions
# in each state with a prior of a quarter of an answer for each action.

SHARE = 0.9  # of what any utility explains, that the simplest one has to explain
_PRIOR = 1.0  # answers per state, spread over the four actions
Counts = Sequence[Sequence[int]]  # rows of row, column, layer, action, count


@dataclass(frozen=True)
class Learnt:
    """Simplest utility that explains `SHARE` of what any could, scaled to 0 .. 1 over states."""

    cells: Mapping[Cell, float]  # without the key, or with it where a cell is entered only so
    key: float  # value of having the key; NaN without one
    share: float  # of the nats that any utility explains


def answers(walks: Iterable[Trajectory]) -> list[list[int]]:
    """Count actions by state."""
    counts = Counter(
        (*step.state.cell, step.state.layer, step.action)
        for walk in walks
        for step in walk.steps
        if step.action is not None
    )
    return [[*place, count] for place, count in sorted(counts.items())]


def explained(world: GridWorld, cap: int, counts: Counts) -> float:
    """Return the MEG of the utility that explains most, as a share of its maximum."""
    tabular, policy, features = _problem(world, cap, counts)
    return unknown_utility(tabular.mdp, policy, features=features).fraction


def learn(world: GridWorld, cap: int, counts: Counts) -> Learnt:
    """Return the simplest utility that explains `SHARE` of what any does."""
    tabular, policy, features = _problem(world, cap, counts)
    result = simplest_utility(tabular.mdp, policy, features=features, share=SHARE)
    weights = np.linalg.lstsq(features, result.utility, rcond=None)[0]
    key = float(weights[-1]) if world.key is not None else math.nan
    states = sorted(zip(tabular.states, result.utility.tolist(), strict=True), reverse=True)
    return Learnt({state.cell: value for state, value in states}, key, result.share)


def fits(worlds: Sequence[Mapping[str, Any]], simplest: bool) -> list[float]:
    """Return for each world the value of the key, or the share explained; a trial."""
    places = [(GridWorld.from_text(each["world"]), each["cap"], each["counts"]) for each in worlds]
    return [learn(*place).key if simplest else explained(*place) for place in places]


def _problem(
    world: GridWorld, cap: int, counts: Counts
) -> tuple[TabularWorld, FloatArray, FloatArray]:
    """The world, the policy estimated from answers, [S, 4], and features of utilities, [S, D]."""
    tabular = tabular_world(world, horizon=cap)
    cells = sorted({state.cell for state in tabular.states})
    # One column for each cell, and one for having the key.
    features = [
        [state.cell == cell for cell in cells] + [state.has_key] * (world.key is not None)
        for state in tabular.states
    ]
    policy = np.full((len(features), len(ACTIONS)), _PRIOR / len(ACTIONS))
    for row, column, layer, action, count in counts:
        policy[tabular.index(State(Cell(row, column), layer)), action] += count
    policy = np.asarray(policy / policy.sum(axis=1, keepdims=True))
    return tabular, policy, np.array(features, dtype=float)


# What explains less than this of the way from random moves to shortest ways is drawn in grey. The
# maximum itself is no yardstick: a few answers tell so little of a policy that even of one without
# fault less than half is explained; nor is 0, since cells' utilities explain any walk a little.
FAINT = 0.5


@dataclass(frozen=True)
class ExplainedUtility:
    """Utility learnt from walks through a world, and its share of the most that could be there."""

    agent: str
    suite: str
    world: GridWorld
    learnt: Learnt
    share: float
    shortest: float  # the same of an agent that takes shortest ways there; NaN if it did not walk
    aimless: float  # the same of an agent that moves at random

    def to_json(self) -> dict[str, Any]:
        """Return the utility and the shares as JSON values."""
        cells = [[*cell, value] for cell, value in self.learnt.cells.items()]
        world = str(self.world).splitlines()
        return {"world": world, "cells": cells} | say.record("learnt_record", of=self)

    @property
    def faint(self) -> bool:
        """Whether the utility explains too little for any statement."""
        # Without agents to compare with, which are NaN, nothing is enough.
        return not self.share >= self.aimless + FAINT * (self.shortest - self.aimless)


def explain(
    places: Iterable[tuple[str, str, GridWorld]],
    walks: Mapping[str, Mapping[str, Sequence[Trajectory]]],
) -> list[ExplainedUtility]:
    """Learn utilities in places (suite, agent and world), with shares; walks are by the same."""

    @cache
    def fit(suite: str, who: str, world: GridWorld) -> tuple[Learnt, float]:
        there = [walk for walk in walks[suite].get(who, ()) if walk.world == world]
        if not there:
            return Learnt({}, math.nan, math.nan), math.nan
        asked = world, there[0].cap, answers(there)
        learnt = learn(*asked)
        return learnt, learnt.share * explained(*asked)

    out = []
    for suite, who, world in places:
        others = (fit(suite, other, world)[1] for other in ("optimal", "random"))
        out.append(ExplainedUtility(who, suite, world, *fit(suite, who, world), *others))
    return out


def utility_map(utility: ExplainedUtility) -> Figure:
    """Draw the utility of each cell with start, goal and key; grey if it explains little."""
    world, learnt = utility.world, utility.learnt
    values = np.zeros(world.shape)
    unreached = ~world.walls
    for cell, value in learnt.cells.items():
        # Tiny numbers below 0 are rounding.
        values[cell] = max(round(value, 6), 0.0)
        unreached[cell] = False
    places = {"S": world.start, "G": world.goal, "K": world.key}
    marks = Marks(
        letters={p.row * world.shape[1] + p.column: n for n, p in places.items() if p is not None},
        walls=frozenset(np.flatnonzero(world.walls | unreached).tolist()),
        beside=None if math.isnan(learnt.key) else ("having K", learnt.key),
    )
    ends = "map_faint" if utility.faint else "map" if math.isnan(learnt.key) else "map_key"
    caption = say.line("map", of=utility) + say.line(f"{ends}_end", key=learnt.key)
    svg = grid_map(
        # Names of pictures are ids on the page, and agents may be named anything.
        re.sub(r"[^a-z0-9]+", "-", f"learnt-{utility.agent}-{utility.suite}".lower()),
        values,
        label="utility" + ", explains little" * utility.faint,
        palette="faint" if utility.faint else "utility",
        marks=marks,
        limit=1.0,
    )
    return Figure(svg=svg, alt=f"Learnt utility of each cell. {caption}", caption=caption)
