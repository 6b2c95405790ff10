"""Report of behaviour in grid worlds, for any list of runs: figures, replays and sections."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY, State
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.behaviour import DistanceRow
from goalmeter.navigation.goal_directedness import Directedness, directedness
from goalmeter.navigation.measure import Navigation, navigation_of, references
from goalmeter.navigation.rollouts import Walked, load
from goalmeter.navigation.suite_definition import KEY
from goalmeter.navigation.trajectories import Step, Trajectory, condition_name
from goalmeter.pages import navigation_goals, navigation_tables
from goalmeter.pages.navigation_tables import condition_in_words, say
from goalmeter.pages.part import Part
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.canvas import MUTED
from goalmeter.report.charts import STROKES, Curve, Panel, curve_chart, heat_map, short
from goalmeter.report.maps import Move, walk_map
from goalmeter.report.numbers import percent
from goalmeter.report.tables import ColumnOf, column, table_of, words
from goalmeter.statistics.verdicts import Verdict

# --- Pictures -------------------------------------------------------------------------------------
# Fewer decisions at a distance, or from fewer grids, make no point of a curve.
LEAST_STEPS, LEAST_GRIDS = 10, 3
_STROKES = {"optimal": "-", "greedy": "--", "random": ":", "key-seeker": "-."}
_FEW = 3  # columns of a surface that stands beside other pictures
EVERYWHERE, DETOURS = "accuracy", "accuracy_detour"


def surface(results: Sequence[Navigation], name: str) -> Figure:
    """Accuracy by size and complexity: everywhere and in detour states, agent by agent."""
    first = results[0].cells
    sizes = list(dict.fromkeys(row.size for row in first))
    complexities = list(dict.fromkeys(row.complexity for row in first))
    panels = []
    for result in results:
        kinds = [EVERYWHERE] if result.reference else [EVERYWHERE, DETOURS]
        for kind in kinds:
            title = short(result.agent) + (", detour states" if kind == DETOURS else "")
            panels.append(Panel(title=title, values=_surface(result, kind, sizes, complexities)))
    row = results[0].cells[0]
    agents = ", ".join(dict.fromkeys(result.agent for result in results))
    return Figure(
        svg=heat_map(
            name,
            panels,
            rows=[f"size {size}" for size in sizes],
            columns=[f"complexity {complexity:g}" for complexity in complexities],
            label="share of optimal actions",
            limit=1.0,
            signed=False,
        ),
        **say("surface", agents=agents, grids=row.grids, walks=row.trajectories / row.grids),
        wide=len(complexities) > _FEW,
    )


def by_distance(results: Sequence[Navigation], name: str) -> Figure:
    """Accuracy against the distance to the goal, all agents in the same axes."""
    curves: list[Curve] = []
    measured = [result for result in results if not result.reference]
    for result in results:
        rows = _distance_rows(result)
        place = measured.index(result) if result in measured else None
        curves.append(
            Curve(
                # In a legend a dollar sign would begin a formula.
                label=short(result.agent),
                x=[row.distance for row in rows],
                y=[row.accuracy.value for row in rows],
                low=_ends(rows, 0) if place is not None else None,
                high=_ends(rows, 1) if place is not None else None,
                # Reference agents are grey, so strokes tell them apart; the others have colours.
                colour=MUTED if place is None else STROKES[place % len(STROKES)][0],
                stroke="-" if place is not None else _STROKES[result.agent],
            )
        )
    return Figure(
        svg=curve_chart(
            name,
            curves,
            x_label="distance to the goal, steps",
            y_label="share of optimal actions",
            # A little above 1, or the line of an agent without fault is cut in half.
            limits=(0.0, 1.03),
            size=(6.4, 3.8),
        ),
        alt="Share of optimal actions by distance to the goal: "
        + "; ".join(_in_words(result) for result in results),
        caption="Accuracy by the distance to the goal at which a decision was made. A point needs "
        f"at least {LEAST_STEPS} decisions in {LEAST_GRIDS} grids. "
        + " ".join(_numbers_of(result) for result in measured)
        + _condition(results[0])
        + " Grey lines are reference agents in the same grids. Bands are 95% intervals over "
        "grids.",
    )


def replay(walk: Trajectory, name: str, title: str) -> Figure:
    """One walk, step by step."""
    world, states = walk.world, walk.states()
    letters: dict[tuple[int, int], str] = {world.start: "S", world.goal: "G"}
    marks = ((world.key, "K"), (world.door, "D"), (world.neutral, "N"))
    letters |= {place: letter for place, letter in marks if place}
    moves = [
        Move(before.cell, after.cell, step.is_optimal, step.action is not None)
        for step, before, after in zip(walk.steps, states, states[1:], strict=False)
    ]
    wrong = sum(not step.is_optimal for step in walk.steps)
    return Figure(
        svg=walk_map(name, world.walls, letters, moves),
        alt=f"A walk of {len(walk.steps)} steps, {wrong} of them not optimal, that ended with "
        f"{walk.outcome!r}; the steps are in the table.",
        caption=f"{title}: {len(walk.steps)} steps where {walk.distance} would do, {wrong} of them "
        f"not optimal (dashed). {_ended(walk)}",
    )


def _ended(walk: Trajectory) -> str:
    """How a walk ended, in a sentence."""
    known = {"arrived": "It arrived.", "cap": "It was stopped at the limit of steps."}
    return known.get(walk.outcome, f"It ended with: {walk.outcome}.")


def _surface(
    result: Navigation, kind: str, sizes: Sequence[int | None], complexities: Sequence[float | None]
) -> FloatArray:
    """[sizes, complexities]; the mean where a cell has several conditions."""
    out = np.full((len(sizes), len(complexities)), np.nan)
    for at in np.ndindex(out.shape):
        values = [
            getattr(row, kind).value
            for row in result.cells
            if (row.size, row.complexity) == (sizes[at[0]], complexities[at[1]])
        ]
        known = [value for value in values if not np.isnan(value)]
        out[at] = np.mean(known) if known else np.nan
    return out


def _distance_rows(result: Navigation) -> list[DistanceRow]:
    """Of the grids as they were generated, under the first condition."""
    condition = result.overall[0].condition
    return [
        row
        for row in result.behaviour.by_distance
        if row.transform is None
        and row.condition == condition
        and row.accuracy.n >= LEAST_STEPS
        and row.accuracy.clusters >= LEAST_GRIDS
    ]


def _ends(rows: Sequence[DistanceRow], end: int) -> list[float]:
    return [(row.accuracy.interval or (row.accuracy.value,) * 2)[end] for row in rows]


def _condition(result: Navigation) -> str:
    """Which one is shown, where there are several."""
    conditions = list(dict.fromkeys(row.condition for row in result.overall))
    if len(conditions) == 1:
        return ""
    first = condition_in_words(conditions[0]).removeprefix(", ")
    return f" Of {len(conditions)} conditions the first: {first}."


def _numbers_of(result: Navigation) -> str:
    """How many decisions the points of a curve rest on."""
    points = [row.accuracy for row in _distance_rows(result)]
    if not points:
        return f"Of {result.agent} no distance has that many."
    steps, grids = [point.n for point in points], [point.clusters for point in points]
    return (
        f"Each point of {result.agent} rests on {min(steps)} to {max(steps)} decisions in "
        f"{min(grids)} to {max(grids)} grids."
    )


def _in_words(result: Navigation) -> str:
    rows = _distance_rows(result)
    if not rows:
        return f"{result.agent}: too few decisions"
    ends = [rows[0], rows[-1]]
    shares = " and ".join(f"{percent(row.accuracy.value, 0)} at {row.distance}" for row in ends)
    return f"{result.agent}: {shares}"


# --- Replays --------------------------------------------------------------------------------------
_LONGEST = 160  # characters of an output that are shown
_STEPS = 60  # steps of a walk that are listed
LAYER = {WITH_KEY: ", with key", DOOR_OPEN: ", door open"}
NEUTRAL_LAYER = {WITH_KEY: ", with object"}


def replays_section(result: Navigation, prefix: str) -> Section:
    """The walks of one agent that show most."""
    chosen = selected(result)
    return Section(
        tables=tuple(_steps_table(walk, title) for title, walk in chosen),
        figures=tuple(
            replay(walk, f"{prefix}-walk-{number}", title)
            for number, (title, walk) in enumerate(chosen, start=1)
        ),
        figures_first=True,
        **say("walks", agent=result.agent, suite=result.plan.suite.name),
    )


def selected(result: Navigation) -> list[tuple[str, Trajectory]]:
    """The walks to show, each with a title; none twice."""
    seen = result.seen
    lost = np.bincount(seen.trajectory, seen.gap, minlength=len(seen.length))
    # Stable, so that the same walks are shown whatever sorts them.
    order = np.argsort(lost, kind="stable")
    faultless = np.flatnonzero((lost == 0) & seen.arrived)
    picks = [("Most steps lost", int(order[-1])), ("In the middle", int(order[len(order) // 2]))]
    if faultless.size:
        longest = faultless[np.argmax(seen.length[faultless])]
        picks.append(("Longest without a wrong step", int(longest)))
    # By number: the walk in the middle may also be the longest one without a wrong step.
    out: dict[int, tuple[str, Trajectory]] = {}
    for title, number in picks:
        walk = seen.trajectories[number]
        where = f"size {walk.size}"
        if walk.complexity is not None:
            where += f", complexity {walk.complexity:g}"
        if walk.transform is not None:
            where += f", {walk.transform}"
        where += condition_in_words(condition_name(walk.condition))
        where += f", grid {walk.grid}, walk {walk.trajectory}"
        out.setdefault(number, (f"{title} ({where})", walk))
    return list(out.values())


def _steps_table(walk: Trajectory, title: str) -> Table:
    layer = LAYER if walk.world.neutral is None else NEUTRAL_LAYER
    has_output = any(step.raw or step.reasoning for step in walk.steps)
    output: tuple[ColumnOf[tuple[int, Step]], ...] = (
        words("output", lambda row: row[1].raw or "", cut),
        words("reasoning", lambda row: row[1].reasoning or "", cut),
    )
    left = len(walk.steps) - _STEPS
    return table_of(
        list(enumerate(walk.steps[:_STEPS], start=1)),
        (
            column("step", lambda row: row[0]),
            words("row, column", lambda row: _place(row[1].state, layer)),
            words("action", lambda row: _answer(row[1])),
            words("optimal", lambda row: " or ".join(ACTIONS[a] for a in row[1].optimal)),
            words("judged", lambda row: "" if row[1].is_optimal else "not optimal"),
            *(output if has_output else ()),
        ),
        caption=title,
        meaning=f"Every decision of the walk, which ended with {walk.outcome!r}.",
        notes=(f"{left} more steps are in the run.",) if left > 0 else (),
    )


def _place(state: State, layer: Mapping[int, str]) -> str:
    return f"{state.cell.row}, {state.cell.column}{layer.get(state.layer, '')}"


def _answer(step: Step) -> str:
    return f"none: {step.invalid}" if step.action is None else ACTIONS[step.action]


def cut(text: str | None) -> str:
    """A text in one line, its middle left out where it is long."""
    line = " ".join((text or "").split())
    half = _LONGEST // 2
    return line if len(line) <= _LONGEST else f"{line[:half]} … {line[-half:]}"


# --- Page -----------------------------------------------------------------------------------------
GLOSSARY: dict[str, str] = say("glossary")


@dataclass(frozen=True)
class Group:
    """Agents in the same worlds.

    Attributes:
        results: the agents that were asked about, reference agents after them.
        directed: what each goes for.
    """

    results: tuple[Navigation, ...]
    directed: tuple[Directedness, ...]

    @property
    def measured(self) -> list[Navigation]:
        """The agents that were asked about."""
        return [result for result in self.results if not result.reference]


def part_of_runs(runs: Sequence[str | Path], tell: Callable[[str], None]) -> Part:
    """What runs of `goalmeter navigate --out` have to say; see `pages.part`."""
    walked = []
    for run in runs:
        tell(f"reading {run}")
        walked.append(load(run))
    shown = groups(walked, tell)
    return Part(
        **say("part"),
        sections=sections(shown),
        findings=findings(shown),
        glossary=GLOSSARY,
        tables=tuple(navigation_tables.agents_table(group.results) for group in shown),
        runs=in_order(shown, walked),
    )


def groups(runs: Sequence[Walked], progress: Callable[[str], None] | None = None) -> list[Group]:
    """Navigation agents by the worlds that they were put into."""
    by_world: dict[str, list[Walked]] = {}
    for run in runs:
        by_world.setdefault(json.dumps(run.plan.worlds, sort_keys=True), []).append(run)
    out = []
    for together in by_world.values():
        measured = [navigation_of(run) for run in together]
        # Reference agents walk once in these worlds, for all agents that were asked about.
        beside = references(together[0].plan, [r.agent for r in measured], progress=progress)
        results = (*measured, *beside)
        out.append(Group(results, tuple(directedness(results, progress=progress))))
    return out


def sections(shown: Sequence[Group]) -> list[Section]:
    """What to show of each group of agents in the same worlds."""
    out = []
    for number, group in enumerate(shown, start=1):
        prefix = f"navigation-{number}"
        out += _suite(group, prefix)
        out += [
            replays_section(result, f"{prefix}-{index}")
            for index, result in enumerate(group.measured, start=1)
        ]
    return out


def findings(shown: Sequence[Group]) -> list[Finding]:
    """The page in a few sentences, from the numbers: first what each agent wants."""
    leads, lines = [], []
    for number, group in enumerate(shown, start=1):
        # Of reference agents nothing is said: what they want is known.
        for result in group.measured:
            leads.append(_lead(group, result, f"navigation-{number}"))
            lines += _sentences(group, result, f"navigation-{number}")
    return [*leads, *lines]


def in_order(shown: Sequence[Group], runs: Sequence[Walked]) -> list[dict[str, Any]]:
    """What was measured of each run as JSON values, without its cells, in the order of the runs."""
    # By identity: two runs of one agent may have equal plans.
    by_plan = {id(result.plan): (result, group) for group in shown for result in group.measured}
    left_out = ("cells", "by_size", "by_complexity", "by_distance")
    out = []
    for run in runs:
        result, group = by_plan[id(run.plan)]
        plain = {k: v for k, v in result.to_json().items() if k not in left_out}
        rows = [row.to_json() for row in group.directed if row.agent == result.agent]
        out.append(plain | {"meg": rows})
    return out


def _lead(group: Group, result: Navigation, prefix: str) -> Finding:
    """What one agent wants in the worlds of a suite, in a few words and then in numbers."""
    rows = [row for row in group.directed if row.agent == result.agent]
    verdict = navigation_goals.in_words(*navigation_goals.wanted(rows))
    table, *_ = navigation_goals.directed_tables(group.directed, f"{prefix}-explained")
    return Finding(
        lead=f"{result.agent}, {result.plan.suite.name}: {verdict}.",
        text=" ".join(navigation_goals.directedness_sentences(group.directed, result.agent)),
        links=(
            Link(
                "numbers", table.row_anchor(navigation_goals.label_agent(rows[0], group.directed))
            ),
        ),
    )


def _sentences(group: Group, result: Navigation, prefix: str) -> list[Finding]:
    """How one agent behaves, beside a reference agent."""
    suite, row = result.plan.suite.name, result.overall[0]
    # A compass alone is the measure of planning; for greedy, which is that compass, chance is.
    name = "random" if result.agent == "greedy" else "greedy"
    beside = {r.agent: r.overall[0] for r in group.results}[name]
    lines: list[Finding] = []

    def tell(text: str, place: str = "agents", link: str = "numbers") -> None:
        lines.append(Finding(text=text, links=(Link(link, f"{prefix}-{place}"),)))

    # Some worlds have no place where the compass errs, and nothing is said of such places.
    astray = ""
    if not math.isnan(row.accuracy_detour.value):
        astray = (
            f" Where the compass may lead astray, it does in {percent(row.accuracy_detour)}, "
            f"{name} in {percent(beside.accuracy_detour.value)}."
        )
    tell(
        f"{result.agent}, {suite}: it takes an optimal action in {percent(row.accuracy)} of its "
        f"decisions, {name} in {percent(beside.accuracy.value)}.{astray}"
    )
    for keys in result.keys:
        item = "the key" if keys.thing == KEY else "the neutral object"
        tell(
            f"{suite}: {navigation_tables.label_key_row(result, keys)} takes {item} in "
            f"{percent(keys.pick_up.rate)} of its walks, the random agent in "
            f"{percent(keys.pick_up.chance)}, and an agent that takes shortest ways to the goal in "
            f"{percent(keys.pick_up.shortest)}.",
            "keys",
        )
    for sentence in navigation_tables.sentences(result):
        tell(f"{suite}: {sentence}", "keys")
    if result.frames is not None:
        same = [
            frame.transform
            for frame in result.frames.frames
            for comparison in frame.comparisons
            if comparison.metric == "accuracy"
            and navigation_tables.verdict(comparison) is Verdict.EQUAL
        ]
        tell(
            f"{result.agent}, {suite}: its accuracy is shown to be the same, within "
            f"{100 * result.frames.margin:g} percentage points, in {len(same)} of "
            f"{len(result.frames.frames)} frames" + (f" ({', '.join(same)})." if same else "."),
            "frames",
            "tests",
        )
    if row.invalid.value > 0:
        share = percent(row.invalid.value)
        tell(f"{result.agent}, {suite}: {share} of its answers were no action.")
    return lines


def _suite(group: Group, prefix: str) -> list[Section]:
    """All that is shown of the agents in one suite, but for their walks."""
    results = group.results
    suite = results[0].plan.suite
    agents = replace(navigation_tables.agents_table(results), anchor=f"{prefix}-agents")
    shown = [agents, navigation_tables.choices_table(results)]
    figures = [by_distance(results, f"{prefix}-distance")]
    models = [navigation_tables.calibration_table(results)]
    # Only mazes vary in size and complexity: elsewhere there is no surface, and no model of it.
    if suite.has_complexity:
        figures.append(surface(results, f"{prefix}-surface"))
        beside = [result for result in results if result.reference]
        shown += [navigation_tables.cells_table([result, *beside]) for result in group.measured]
        models.insert(0, navigation_tables.mixed_table(results))
    shown += [table for table in models if table is not None]
    out = [
        Section(
            tables=tuple(shown), figures=tuple(figures), **say("suite_section", suite=suite.name)
        )
    ]
    if any(result.frames is not None for result in results):
        out.append(
            Section(
                tables=(
                    replace(
                        navigation_tables.frames_table(results, every=True),
                        anchor=f"{prefix}-frames",
                    ),
                ),
                figures=(navigation_tables.picture(results, f"{prefix}-frames"),),
                **say("frames_section"),
            )
        )
    if suite.key is not None:
        first, *more = navigation_tables.key_tables(results)
        out.append(
            Section(
                tables=(replace(first, anchor=f"{prefix}-keys"), *more),
                **say("keys_section", suite=suite.name),
            )
        )
    out.append(navigation_goals.directedness_section(group.directed, suite.name, prefix))
    return out
