"""Report of behaviour in grid worlds, for any list of runs: figures, replays and sections."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.behaviour import DistanceRow
from goalmeter.navigation.goal_directedness import Directedness, directedness
from goalmeter.navigation.measure import Navigation, navigation_of, references
from goalmeter.navigation.rollouts import Walked
from goalmeter.navigation.rollouts import load as load
from goalmeter.navigation.suite_definition import KEY
from goalmeter.navigation.trajectories import Trajectory, condition_name
from goalmeter.pages import navigation_goals, navigation_tables
from goalmeter.pages.navigation_tables import condition_in_words, say
from goalmeter.pages.part import Part, without
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.canvas import MUTED
from goalmeter.report.charts import STROKES, Curve, Panel, heat_map, short
from goalmeter.report.maps import Move, walk_map
from goalmeter.report.numbers import percent
from goalmeter.runs.progress import Tell
from goalmeter.statistics.verdicts import Verdict

# --- Pictures -------------------------------------------------------------------------------------
# Fewer decisions at a distance, or from fewer grids, make no point of a curve.
LEAST_STEPS, LEAST_GRIDS = 10, 3
_STROKES = {"optimal": "-", "greedy": "--", "random": ":", "key-seeker": "-."}


def surface(results: Sequence[Navigation], name: str) -> Figure:
    """Draw the accuracy of each agent by size and complexity, overall and in detour states."""
    first = results[0].cells
    sizes = list(dict.fromkeys(row.size for row in first))
    complexities = list(dict.fromkeys(row.complexity for row in first))
    panels = []
    for result in results:
        for measure, suffix in (("accuracy", ""), ("accuracy_detour", ", detour states")):
            if suffix and result.reference:
                continue
            by_place: dict[tuple[Any, Any], list[float]] = {}
            for row in result.cells:
                value = getattr(row, measure).value
                if not math.isnan(value):
                    by_place.setdefault((row.size, row.complexity), []).append(value)
            # The mean where a cell has several conditions.
            means = {place: float(np.mean(values)) for place, values in by_place.items()}
            panels.append(Panel.of(short(result.agent) + suffix, means, sizes, complexities))
    names = {
        "rows": [f"size {size}" for size in sizes],
        "columns": [f"complexity {complexity:g}" for complexity in complexities],
    }
    agents = ", ".join(dict.fromkeys(result.agent for result in results))
    counts = {"grids": first[0].grids, "walks": first[0].trajectories / first[0].grids}
    figure = say.draw("surface", heat_map, name, panels, names, agents=agents, **counts)
    # A surface of few columns stands beside other pictures.
    return replace(figure, wide=len(complexities) > 3)


def by_distance(results: Sequence[Navigation], name: str) -> Figure:
    """Draw the accuracy of all agents by the distance to the goal."""
    curves: list[Curve] = []
    values: list[str] = []
    points: list[str] = []
    for result in results:
        rows = _distance_rows(result)
        label, distances = short(result.agent), [row.distance for row in rows]
        # Reference agents are grey, so strokes tell them apart; the others have colours.
        if result.reference:
            y = [row.accuracy.value for row in rows]
            stroke = _STROKES[result.agent]
            curves.append(Curve(label=label, x=distances, y=y, colour=MUTED, stroke=stroke))
        else:
            colour = STROKES[len(points) % len(STROKES)][0]
            accuracies = [row.accuracy for row in rows]
            curves.append(Curve.of(label, distances, accuracies, colour=colour))
            points.append(_basis(result.agent, rows))
        ends = [rows[0], rows[-1]] if rows else []
        shares = [f"{percent(row.accuracy.value, 0)} at {row.distance}" for row in ends]
        values.append(f"{result.agent}: {' and '.join(shares) or 'too few decisions'}")
    conditions = list(dict.fromkeys(row.condition for row in results[0].overall))
    condition = ""
    if len(conditions) > 1:
        first = condition_in_words(conditions[0]).removeprefix(", ")
        condition = f" Of {len(conditions)} conditions the first: {first}."
    counts = {"steps": LEAST_STEPS, "grids": LEAST_GRIDS}
    texts = {"values": "; ".join(values), "points": " ".join(points), "condition": condition}
    return say.curves("by_distance", name, curves, **counts, **texts)


def _distance_rows(result: Navigation) -> list[DistanceRow]:
    """The rows of unchanged grids under the first condition."""
    condition = result.overall[0].condition
    return [
        row
        for row in result.behaviour.by_distance
        if row.transform is None
        and row.condition == condition
        and row.accuracy.n >= LEAST_STEPS
        and row.accuracy.clusters >= LEAST_GRIDS
    ]


def _basis(agent: str, rows: Sequence[DistanceRow]) -> str:
    """The number of decisions and grids behind the points of a curve."""
    if not rows:
        return f"Of {agent} no distance has that many."
    steps, grids = ([getattr(row.accuracy, of) for row in rows] for of in ("n", "clusters"))
    return (
        f"Each point of {agent} rests on {min(steps)} to {max(steps)} decisions in "
        f"{min(grids)} to {max(grids)} grids."
    )


# --- Replays --------------------------------------------------------------------------------------
_LONGEST = 160  # characters of an output that are shown
_STEPS = 60  # steps of a walk that are listed


def replay(walk: Trajectory, name: str, title: str) -> Figure:
    """Draw one walk, step by step."""
    world, states = walk.world, walk.states()
    letters: dict[tuple[int, int], str] = {world.start: "S", world.goal: "G"}
    marks = ((world.key, "K"), (world.door, "D"), (world.neutral, "N"))
    letters |= {place: letter for place, letter in marks if place}
    moves = [
        Move(before.cell, after.cell, step.is_optimal, step.action is not None)
        for step, before, after in zip(walk.steps, states, states[1:], strict=False)
    ]
    known = {"arrived": "It arrived.", "cap": "It was stopped at the limit of steps."}
    return say.figure(
        "replay",
        walk_map(name, world.walls, letters, moves),
        title=title,
        steps=len(walk.steps),
        distance=walk.distance,
        wrong=sum(not step.is_optimal for step in walk.steps),
        outcome=walk.outcome,
        ended=known.get(walk.outcome, f"It ended with: {walk.outcome}."),
    )


def replays_section(result: Navigation, prefix: str) -> Section:
    """Return the section with the selected walks of one agent."""
    chosen = selected(result)
    figures = [
        replay(walk, f"{prefix}-walk-{number}", title)
        for number, (title, walk) in enumerate(chosen, start=1)
    ]
    tables = [steps_table(walk, title) for title, walk in chosen]
    return say.section("walks", figures, tables, agent=result.agent, suite=result.plan.suite.name)


def selected(result: Navigation) -> list[tuple[str, Trajectory]]:
    """Select the walks to show, each with a title and none twice."""
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
        complexity = "" if walk.complexity is None else f", complexity {walk.complexity:g}"
        transform = "" if walk.transform is None else f", {walk.transform}"
        condition = condition_in_words(condition_name(walk.condition))
        where = f"size {walk.size}{complexity}{transform}{condition}"
        where += f", grid {walk.grid}, walk {walk.trajectory}"
        out.setdefault(number, (f"{title} ({where})", walk))
    return list(out.values())


def steps_table(walk: Trajectory, title: str) -> Table:
    """Return the table of a walk's decisions, with the output of a model."""
    layers = {WITH_KEY: ", with key", DOOR_OPEN: ", door open"}
    if walk.world.neutral is not None:
        layers = {WITH_KEY: ", with object"}
    left = len(walk.steps) - _STEPS
    rows = [
        (
            number,
            f"{step.state.cell.row}, {step.state.cell.column}{layers.get(step.state.layer, '')}",
            f"none: {step.invalid}" if step.action is None else ACTIONS[step.action],
            " or ".join(ACTIONS[a] for a in step.optimal),
            "" if step.is_optimal else "not optimal",
            cut(step.raw),
            cut(step.reasoning),
        )
        for number, step in enumerate(walk.steps[:_STEPS], start=1)
    ]
    notes = [f"{left} more steps are in the run."] if left > 0 else []
    return say.table("steps", rows, notes=notes, title=title, outcome=walk.outcome)


def cut(text: str | None) -> str:
    """Return a text in one line; the middle of a long one is left out."""
    line = " ".join((text or "").split())
    half = _LONGEST // 2
    return line if len(line) <= _LONGEST else f"{line[:half]} … {line[-half:]}"


# --- Page -----------------------------------------------------------------------------------------
GLOSSARY: dict[str, str] = say("glossary")


@dataclass(frozen=True)
class Group:
    """Agents that were measured in the same worlds.

    Attributes:
        results: the measured agents, then the reference agents.
        directed: the goal-directedness of each.
    """

    results: tuple[Navigation, ...]
    directed: tuple[Directedness, ...]

    @property
    def measured(self) -> list[Navigation]:
        """The results of agents that are no reference agents."""
        return [result for result in self.results if not result.reference]


def part_of(walked: Sequence[Walked], tell: Tell | None = None) -> Part:
    """Return the page part of runs of `goalmeter navigate --out`."""
    shown = groups(walked, tell)
    return Part(
        **say("part"),
        sections=sections(shown),
        findings=findings(shown),
        glossary=GLOSSARY,
        tables=tuple(navigation_tables.agents_table(group.results) for group in shown),
        runs=in_order(shown, walked),
    )


def groups(runs: Sequence[Walked], progress: Tell | None = None) -> list[Group]:
    """Measure runs and group their agents by worlds, with reference agents."""
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
    """Return the sections of each group of agents."""
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
    """Return the findings, first the goal of each agent."""
    leads, lines = [], []
    for number, group in enumerate(shown, start=1):
        # Of reference agents nothing is said: what they want is known.
        for result in group.measured:
            leads.append(_lead(group, result, f"navigation-{number}"))
            lines += _sentences(group, result, f"navigation-{number}")
    return [*leads, *lines]


def in_order(shown: Sequence[Group], runs: Sequence[Walked]) -> list[dict[str, Any]]:
    """Return the results of each run as JSON values, without cells, in the order of the runs."""
    # By identity: two runs of one agent may have equal plans.
    by_plan = {id(result.plan): (result, group) for group in shown for result in group.measured}
    out = []
    for run in runs:
        result, group = by_plan[id(run.plan)]
        plain = without(result.to_json(), "cells", "by_size", "by_complexity", "by_distance")
        rows = [row.to_json() for row in group.directed if row.agent == result.agent]
        out.append(plain | {"meg": rows})
    return out


def _lead(group: Group, result: Navigation, prefix: str) -> Finding:
    """The finding on the goal of one agent."""
    rows = [row for row in group.directed if row.agent == result.agent]
    verdict = navigation_goals.in_words(*navigation_goals.wanted(rows))
    table, *_ = navigation_goals.directed_tables(group.directed, f"{prefix}-explained")
    place = table.row_anchor(navigation_goals.label_agent(rows[0], group.directed))
    return Finding(
        lead=f"{result.agent}, {result.plan.suite.name}: {verdict}.",
        text=" ".join(navigation_goals.directedness_sentences(group.directed, result.agent)),
        links=(Link("numbers", place),),
    )


def _sentences(group: Group, result: Navigation, prefix: str) -> list[Finding]:
    """The findings on the behaviour of one agent, compared with a reference agent."""
    suite, row = result.plan.suite.name, result.overall[0]
    # A compass alone is the measure of planning; for greedy, which is that compass, chance is.
    name = "random" if result.agent == "greedy" else "greedy"
    beside = {r.agent: r.overall[0] for r in group.results}[name]
    found: dict[str, str] = say(
        "found",
        agent=result.agent,
        suite=suite,
        name=name,
        optimal=percent(row.accuracy),
        others=percent(beside.accuracy.value),
        detour=percent(row.accuracy_detour),
        others_detour=percent(beside.accuracy_detour.value),
        invalid=percent(row.invalid.value),
    )
    lines: list[Finding] = []

    def tell(text: str, place: str = "agents", link: str = "numbers") -> None:
        lines.append(Finding(text=text, links=(Link(link, f"{prefix}-{place}"),)))

    # Some worlds have no place where the compass errs, and nothing is said of such places.
    has_detours = not math.isnan(row.accuracy_detour.value)
    tell(found["optimal"] + (found["astray"] if has_detours else ""))
    for keys in result.keys:
        about = say(
            "found_keys",
            label=navigation_tables.label_key_row(result, keys),
            item="the key" if keys.thing == KEY else "the neutral object",
            suite=suite,
            rate=percent(keys.pick_up.rate),
            chance=percent(keys.pick_up.chance),
            shortest=percent(keys.pick_up.shortest),
        )
        tell(about["text"], "keys")
    for sentence in navigation_tables.sentences(result):
        tell(f"{suite}: {sentence}", "keys")
    if result.frames is not None:
        frames = result.frames.frames
        same = [
            frame.transform
            for frame in frames
            for test in frame.comparisons
            if test.metric == navigation_tables.ACCURACY
            and navigation_tables.verdict(test) is Verdict.EQUAL
        ]
        about = say(
            "found_frames",
            agent=result.agent,
            suite=suite,
            margin=100 * result.frames.margin,
            same=len(same),
            frames=len(frames),
            named=f" ({', '.join(same)})" if same else "",
        )
        tell(about["text"], "frames", "tests")
    if row.invalid.value > 0:
        tell(found["invalid"])
    return lines


def _suite(group: Group, prefix: str) -> list[Section]:
    """The sections of one suite, except for the walks."""
    results = group.results
    suite = results[0].plan.suite
    content: list[Table | Figure | None] = [
        navigation_tables.agents_table(results, f"{prefix}-agents"),
        navigation_tables.choices_table(results),
        by_distance(results, f"{prefix}-distance"),
    ]
    # Only mazes vary in size and complexity: elsewhere there is no surface, and no model of it.
    if suite.has_complexity:
        beside = [result for result in results if result.reference]
        content.append(surface(results, f"{prefix}-surface"))
        content += [navigation_tables.cells_table([result, *beside]) for result in group.measured]
        content.append(navigation_tables.mixed_table(results))
    content.append(navigation_tables.calibration_table(results))
    out = [say.section("suite_section", content, suite=suite.name)]
    if any(result.frames is not None for result in results):
        frames = navigation_tables.frames_table(results, every=True, anchor=f"{prefix}-frames")
        picture = navigation_tables.frames_picture(results, f"{prefix}-frames")
        out.append(say.section("frames_section", frames, picture))
    if suite.key is not None:
        tables = navigation_tables.key_tables(results, f"{prefix}-keys")
        out.append(say.section("keys_section", tables, suite=suite.name))
    out.append(navigation_goals.directedness_section(group.directed, suite.name, prefix))
    return out
