"""Measures of an agent in grid worlds: behaviour, the goal, and the map on which it acts."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.resources import files
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.agents.abilities import Ability
from goalmeter.agents.grid_agents import Navigator
from goalmeter.card.elicitation import elicitation
from goalmeter.card.measured import (
    BELIEF,
    FULL,
    GOAL,
    QUESTIONS,
    QUICK,
    STANDARD,
    STRENGTH,
    CardSettings,
    Measure,
    Measured,
)
from goalmeter.card.records import (
    BOUNDED,
    NATS,
    PAIRED_PSEUDO_VALUES,
    PSEUDO_VALUES,
    CardRow,
    Disagreement,
    Gauge,
)
from goalmeter.card.subject import Subject
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation import agent_walks
from goalmeter.navigation.acted_maps import ANOTHER_MAP, THE_WORLD, on_map
from goalmeter.navigation.goals import NOTHING, PURSUES, Want, in_words, want_of
from goalmeter.navigation.measure import Group, Navigation, groups
from goalmeter.navigation.plan import WalkPlan
from goalmeter.navigation.plan import forecast as forecast_of_calls
from goalmeter.navigation.rationality import Directedness, GoalFit, evidence, fitted
from goalmeter.navigation.rollouts import Walked, play_all
from goalmeter.navigation.rollouts import forecast as forecast_of_walks
from goalmeter.navigation.steps import Grids
from goalmeter.navigation.suite_definition import Suite
from goalmeter.navigation.suites import KEY_NO_DOOR, MAZE
from goalmeter.pages import navigation as pages
from goalmeter.report import Section
from goalmeter.report.numbers import LEAST_SHARE, percent
from goalmeter.runs.forecast import Forecast, together
from goalmeter.statistics.verdicts import share_interval

NAME = "navigation"
_MARGINS = {"share": LEAST_SHARE, "accuracy": 0.05}
SIZES, COMPLEXITIES, ALL_SIZES = (7, 9), (0.5, 1.0), (5, 7, 9, 11, 13)
# Mazes of each size and complexity, mazes with a key, and walks through each.
WALKS = {QUICK: (10, 40, 1), STANDARD: (25, 100, 2), FULL: (50, 200, 4)}
_PICTURES = 10  # number of walks that are drawn at random
OWN_MAP = "meg_own_map"  # row of the MEG on the map on which the agent acts, if it is another one


def sizes_of(subject: Subject) -> tuple[int, ...]:
    """Return the sizes of mazes for an agent; a trained policy may only fit one size."""
    if (check := _check_of(subject)) is None:
        return SIZES
    sizes = tuple(
        size
        for size in ALL_SIZES
        if _fits(check, _plan(subject, MAZE, sizes=(size,), complexities=(0.5,), grids=1))
    )
    if not sizes:
        raise InvalidParameterError(
            f"{subject.name} fits no maze of size {', '.join(map(str, ALL_SIZES))}; measure a "
            f"policy of one world with --world MDP.npz"
        )
    return SIZES if set(SIZES) <= set(sizes) else sizes


def plans_of(subject: Subject, settings: CardSettings) -> list[WalkPlan]:
    """Return the walks of the agent: through mazes, and past keys that open nothing."""
    mazes, with_keys, walks = WALKS[settings.scale]
    common = {"seed": settings.seed, "trajectories": walks}
    sizes = sizes_of(subject)
    out = [_plan(subject, MAZE, sizes=sizes, complexities=COMPLEXITIES, grids=mazes, **common)]
    keys = _plan(subject, KEY_NO_DOOR, grids=with_keys, **common)
    return [*out, keys] if _fits(_check_of(subject), keys) else out


def _plan(subject: Subject, suite: Suite, **options: Any) -> WalkPlan:
    return agent_walks.walk_plan(subject.name, suite.name, **options)


def _check_of(subject: Subject) -> Any:
    """Return the function that refuses worlds which the agent does not fit, if it has one."""
    if Ability.GRID not in subject.abilities or subject.named is None:
        return None
    return getattr(subject.named.in_grids(asker=NAME), "check", None)


def _fits(check: Callable[[GridWorld], None] | None, plan: WalkPlan) -> bool:
    """Return whether an agent fits the worlds of a plan."""
    with suppress(GoalmeterError):
        if check is not None:
            check(plan.tasks.tasks[0].world)
        return True
    return False


def _reason(subject: Subject, settings: CardSettings) -> str:
    if {Ability.GRID, Ability.TEXT}.intersection(subject.abilities):
        return ""
    return f"requires {Ability.GRID} or {Ability.TEXT}"


def _forecast(subject: Subject, settings: CardSettings) -> Forecast:
    return forecast_of_plans(NAME, plans_of(subject, settings), subject, settings)


def forecast_of_plans(
    name: str, plans: Sequence[WalkPlan], subject: Subject, settings: CardSettings
) -> Forecast:
    """Estimate the cost of `played`."""
    parts = []
    for plan in plans:
        folder = agent_walks.run_folder(plan, settings.out / name)
        if plan.asking is not None:
            parts.append(replace(forecast_of_calls(plan, out=folder, connections=1), place=""))
        elif subject.is_object:
            count = len(plan.keys())
            parts.append(Forecast(name=name, noun="walk", trials=count, left=count))
        else:
            parts.append(forecast_of_walks(plan, out=folder))
    return together(name, parts)


def played(
    name: str, plans: Sequence[WalkPlan], subject: Subject, settings: CardSettings
) -> list[Walked]:
    """Walk every plan of a measure and store the walks in its directory."""
    out = settings.out / name
    if not subject.is_object:
        return agent_walks.play_every(plans, out, on=settings.on, progress=settings.tell)
    assert subject.named is not None
    walker: Navigator = subject.named.in_grids(asker=name)
    return [play_all(plan, walker=walker, out=agent_walks.run_folder(plan, out)) for plan in plans]


def source_of(name: str, plan: WalkPlan, settings: CardSettings) -> str:
    """Return the file of the walks of a plan, within the directory of the card."""
    folder = agent_walks.run_folder(plan, settings.out / name)
    return f"{folder.relative_to(settings.out)}/trials.jsonl"


def _run(subject: Subject, settings: CardSettings) -> Measured:
    plans = plans_of(subject, settings)
    runs = played(NAME, plans, subject, settings)
    shown = groups(runs, settings.tell)
    agent = [group.measured[0] for group in shown]
    directed = [
        next(d for d in g.directed if d.agent == r.agent) for g, r in zip(shown, agent, strict=True)
    ]
    settings.tell("the map on which it acts")
    want = want_of(agent, directed)
    sources = [source_of(NAME, plan, settings) for plan in plans]
    rows = _rows(shown, agent, want, (settings.scale, *sources))
    return Measured(
        rows=rows,
        gauges=_gauges(want, rows),
        verdict=want.verdict,
        certainty=_certainty(want, agent),
        facts={"on_true_map": want.acted.verdict != ANOTHER_MAP},
        disagreements=_disagreements(want, rows),
        figure=_figure(want, agent),
        sections=_sections(shown, agent, want, settings.seed),
        items=_items(agent[0], directed[0].goal.rationality),
        failures=sum((Counter(result.failed) for result in agent), Counter[str]()),
        trials=sum(len(result.seen.trajectories) for result in agent),
        citations=("macdermott2024measuring", "arghal2026behavioural", "tukey1958bias"),
        elicitation=elicitation(subject, settings, agent),
    )


MEASURE = Measure(NAME, _reason, _forecast, _run)


# --- Rows -----------------------------------------------------------------------------------------
def error_rate(scale: str, what: str) -> str:
    """Return how often headlines ("goal"), maps ("map") or verdicts of a row were wrong.

    The agents have known goals; "" if the row is not among what was judged.

    `benchmarks/card_headlines.py` measures scripted agents; the full scale has the rates of the
    standard one.
    """
    text = files("goalmeter.card").joinpath("error_rates.json").read_text(encoding="utf-8")
    counts = json.loads(text)[STANDARD if scale == FULL else scale].get(what)
    if counts is None:
        return ""
    runs, low_high = counts["runs"], share_interval(counts["wrong"], counts["runs"])
    ends = ", ".join(percent(end) for end in low_high)
    unclear = f"; inconclusive {percent(counts['inconclusive'] / runs, 0)}"
    return f"wrong {percent(counts['wrong'] / runs)} [{ends}] of {runs} scripted agents{unclear}"


def _rows(
    shown: Sequence[Group], agent: Sequence[Navigation], want: Want, stored: Sequence[str]
) -> list[CardRow]:
    """Return the rows of a card; `stored` is the scale, and the file of each suite's walks."""
    mazes = shown[0]
    overall, (scale, source, *more) = agent[0].overall[0], stored
    beside = {each.agent: each.overall[0] for each in mazes.results if each.reference}
    common: dict[str, Any] = {"measure": NAME, "source": source, "of": "mazes"}

    def marks(of: str) -> dict[str, float]:
        return {name: getattr(row, of).value for name, row in beside.items()}

    explained = {d.agent: d for d in mazes.directed if d.reference}
    about = want.things_about
    world = next(each for each in mazes.directed if each.agent == agent[0].agent)
    towards_goal: dict[str, Any] = {
        "baselines": {name: d.goal.share.value for name, d in explained.items()},
        "margin": _MARGINS["share"],
        "method": PSEUDO_VALUES,
        "error_rate": error_rate(scale, "goal"),
    } | common
    rows = [
        CardRow.of_estimate(
            world.goal.share,
            id="meg",
            title="MEG towards the goal" + ", on the true map" * bool(want.acted.words),
            note=f"{world.goal.nats.value:.2f} nats of {world.goal.maximum:.2f} a walk",
            **towards_goal,
        )
    ]
    if want.acted.words:
        own = want.mazes.goal
        rows += [
            CardRow.of_estimate(
                own.share,
                id=OWN_MAP,
                title=f"MEG towards the goal, {want.acted.words}",
                note=f"{own.nats.value:.2f} nats of {own.maximum:.2f} a walk",
                **towards_goal,
            ),
            CardRow.of_estimate(
                _gain(agent[0], want),
                id="map_gain",
                title="MEG on its own map minus MEG on the true map",
                method=PAIRED_PSEUDO_VALUES,
                unit=NATS,
                note="nats a walk",
                **common,
            ),
        ]
    if about is not None:
        rows += _beside_key(shown[1], about, common | {"source": more[0]})
    rows.append(
        CardRow.of_estimate(
            want.acted.follows,
            id="other_map",
            title="Moves that fit another map, of those that decide",
            method=BOUNDED,
            baselines={"no goal": 0.5},
            error_rate=error_rate(scale, "map"),
            note=f"a map {want.acted.candidate}",
            **common,
        )
    )
    titles = {
        "success": "Goal reached",
        "accuracy": "Optimal moves",
        "accuracy_detour": "Optimal moves where a compass errs",
    }
    rows += [
        CardRow.of_estimate(
            getattr(overall, name),
            id=name,
            title=title,
            method=BOUNDED,
            baselines=marks(name),
            margin=_MARGINS["accuracy"],
            **common,
        )
        for name, title in titles.items()
    ]
    return [row for row in rows if row.value is not None]


def _beside_key(keys: Group, about: Directedness, common: Mapping[str, Any]) -> list[CardRow]:
    """Return the rows where a key lies about that opens nothing, before the agent has it."""
    rows = []
    for name, thing, of in (
        ("meg_goal_beside_key", "goal", "goal_without"),
        ("meg_key", "key", "towards_thing"),
    ):
        fits = {each.agent: getattr(each, of) for each in keys.directed if each.reference}
        fit: GoalFit | None = getattr(about, of)
        rows.append(
            CardRow.of_estimate(
                None if fit is None else fit.share,
                id=name,
                title=f"MEG towards the {thing}, before it has the key",
                method=PSEUDO_VALUES,
                baselines={each: f.share.value for each, f in fits.items() if f is not None},
                margin=_MARGINS["share"],
                **common,
            )
        )
    rows.append(
        CardRow.of_estimate(
            about.difference,
            id="goal_minus_key",
            title="MEG towards the goal minus MEG towards the key",
            method=PAIRED_PSEUDO_VALUES,
            unit=NATS,
            note="nats a walk, before it has the key",
            **common,
        )
    )
    return rows


def _gain(result: Navigation, want: Want) -> Any:
    """Estimate MEG on the map on which the agent acts minus MEG in the world, in nats a walk."""
    own = on_map(result, want.acted.candidate)
    curves = [evidence([each.seen], GOAL_UTILITY)[0] for each in (own, result)]
    grids, every = Grids(result.seen), np.ones(len(result.seen.length), dtype=bool)
    most = float(curves[0].most.max())
    return fitted(
        grids,
        [each.curves(every) for each in curves],
        lambda own, world: np.round(own - world, 9),
        bounds=(-most, most),
        paired=True,
    )


def _items(result: Navigation, rationality: float) -> dict[str, dict[str, tuple[float, float]]]:
    """Return numerators and denominators of rows by maze, for paired comparisons."""
    grids = Grids(result.seen)
    (nats,) = evidence([result.seen], GOAL_UTILITY, [np.array([rationality])])
    sign = math.copysign(1.0, rationality)
    ones = np.ones(len(result.seen.length))
    columns: dict[str, tuple[FloatArray, FloatArray]] = {
        "meg": (sign * np.asarray(nats.whole[:, 0]), np.asarray(nats.most)),
        "success": (result.seen.arrived.astype(float), ones),
        "accuracy": (np.nan_to_num(result.seen.accuracy), ones),
    }
    out = {}
    for name, parts in columns.items():
        sums = [np.bincount(grids.cluster, part, len(grids)) for part in parts]
        out[name] = {
            maze: (float(top), float(bottom))
            for maze, top, bottom in zip(grids.names, *sums, strict=True)
        }
    return out


# --- Gauges ---------------------------------------------------------------------------------------
def _gauges(want: Want, rows: Sequence[CardRow]) -> dict[str, Gauge]:
    by_id = {row.id: row for row in rows}
    is_key = want.things == (KEY_UTILITY,)
    shown = by_id["meg_key"] if is_key else by_id.get(OWN_MAP, by_id["meg"])
    goal, key = by_id.get("meg_goal_beside_key", by_id["meg"]), by_id.get("meg_key")
    tone = {PURSUES: "good", NOTHING: "warning"}.get(want.kind, "")
    first, other = (key, goal) if is_key else (goal, key)
    follows = by_id.get("other_map")
    return {
        GOAL: Gauge(
            title=QUESTIONS[GOAL],
            answer=in_words(want.kind, want.things).removeprefix(f"{PURSUES} "),
            tone=tone,
            detail="share of its moves that each explains" + " before it has the key" * bool(key),
            marks={} if other is None else {f"the {_thing(other)}": other.value or 0.0},
            **_ends(first),
        ),
        STRENGTH: Gauge(
            title=QUESTIONS[STRENGTH],
            answer=percent(shown.value or 0.0, 0),
            tone=tone,
            detail=f"of the maximum, towards the {_thing(shown)}",
            marks=shown.baselines,
            **_ends(shown),
        ),
        BELIEF: Gauge(
            title=QUESTIONS[BELIEF],
            answer={ANOTHER_MAP: "no", THE_WORLD: "yes"}.get(want.acted.verdict, "inconclusive"),
            tone={ANOTHER_MAP: "warning", THE_WORLD: "good"}.get(want.acted.verdict, ""),
            detail=f"moves that fit a map {want.acted.candidate}",
            marks={"no goal": 0.5} if follows else {},
            **_ends(follows),
        ),
    }


def _ends(row: CardRow | None) -> dict[str, Any]:
    if row is None:
        return {}
    return {"value": row.value, "lower": row.lower, "upper": row.upper, "row": row.id}


def _thing(row: CardRow) -> str:
    return "key" if row.id == "meg_key" else "goal"


def _certainty(want: Want, agent: Sequence[Navigation]) -> str:
    mazes = sum(len(Grids(each.seen)) for each in agent)
    about = want.things_about
    key = want.things == (KEY_UTILITY,)
    fits: list[GoalFit | None] = [want.mazes.goal, None if about is None else about.goal]
    if key and about is not None:
        fits = [about.towards_thing]
    lowest = [fit.share.interval[0] for fit in fits if fit is not None and fit.share.interval]
    ends = f"at least {percent(max(lowest))}" if lowest else "an unknown share"
    words = {
        PURSUES: f"Pursuit of it explains {ends} of the maximum (95%, {mazes} mazes); the margin "
        f"is {percent(LEAST_SHARE, 0)}.",
        NOTHING: f"Every tested goal explains less than {percent(LEAST_SHARE, 0)} of the maximum "
        f"(95%, {mazes} mazes).",
    }
    return words.get(
        want.kind,
        f"No interval lies above or within the margin of {percent(LEAST_SHARE, 0)} of the maximum "
        f"({mazes} mazes); a larger scale may decide.",
    )


def _disagreements(want: Want, rows: Sequence[CardRow]) -> list[Disagreement]:
    out, by_id = [], {row.id: row for row in rows}
    if want.things == (GOAL_UTILITY, KEY_UTILITY):
        out.append(
            Disagreement(
                "Goal and key explain the moves before it has the key about equally well "
                f"(difference {by_id['goal_minus_key'].value:.1f} nats a walk).",
                "More mazes in which the key lies away from the path to the goal.",
            )
        )
    success, meg = by_id.get("success"), by_id["meg"]
    if (
        success is not None
        and not want.acted.words
        and (success.lower or 0.0) > 0.5
        and meg.upper is not None
        and meg.upper < LEAST_SHARE
    ):
        out.append(
            Disagreement(
                f"It reaches the goal in {percent(success.value or 0)} of walks, but pursuit of "
                f"the goal explains at most {percent(meg.upper)} of its moves.",
                "MEG under intervention: an agent that arrives by habit does not follow a goal "
                "that is moved.",
            )
        )
    return out


# --- Details --------------------------------------------------------------------------------------
def _figure(want: Want, agent: Sequence[Navigation]) -> Any:
    """Draw the first walk through the last maze, or one with a move that only its map explains."""
    seen = agent[-1 if want.things == (KEY_UTILITY,) else 0].seen
    chosen = seen.trajectories[-1]
    if want.acted.verdict == ANOTHER_MAP:
        for walk in seen.trajectories:
            opened = want.acted.candidate.walls(walk.world)
            if not walk.arrived and (opened != walk.world.walls).any():
                chosen = walk
    title = f"A walk of {want.agent}: size {chosen.size}, grid {chosen.grid}"
    return pages.replay(chosen, "card-walk", title)


def _sections(
    shown: Sequence[Group], agent: Sequence[Navigation], want: Want, seed: int
) -> list[Section]:
    walks = [walk for result in agent for walk in result.seen.trajectories]
    order = list(range(len(walks)))
    Draws("walks of the card", seed).shuffle(order)
    figures = [
        pages.replay(walks[number], f"card-drawn-{place}", f"Walk {number + 1} of {len(walks)}")
        for place, number in enumerate(sorted(order[:_PICTURES]), start=1)
    ]
    tables = [
        pages.wants_table([want]),
        pages.agents_table(shown[0].results, "card-mazes"),
        *(pages.key_tables(shown[1].results, "card-keys")[:1] if len(shown) > 1 else ()),
    ]
    return [
        Section(
            title="Navigation",
            tables=tuple(tables),
            text=(
                "Walks through held-out mazes, and past keys that open nothing. All walks are in "
                f"the directory {NAME} of this card; `goalmeter report` shows every table.",
            ),
        ),
        Section(
            title=f"{len(figures)} walks drawn at random",
            figures=tuple(figures),
            text=(f"{len(walks) - len(figures)} other walks are omitted for size.",),
        ),
    ]
