"""Report of behaviour in grid worlds, for any list of runs: figures, replays and sections."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY
from goalmeter.navigation.distractors import PICK_UP, Factors
from goalmeter.navigation.measure import Navigation, navigation_of, references
from goalmeter.navigation.rationality import Directedness, directedness
from goalmeter.navigation.rollouts import Walked
from goalmeter.navigation.rollouts import load as load
from goalmeter.navigation.suite_definition import KEY
from goalmeter.navigation.trajectories import Trajectory, condition_name
from goalmeter.pages import Content, navigation_tables
from goalmeter.pages.navigation_tables import condition_in_words, say
from goalmeter.pages.navigation_tables import cut as cut
from goalmeter.pages.part import Part, without
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.canvas import MUTED, STROKES
from goalmeter.report.charts import Curve, Move, short, walk_map
from goalmeter.report.numbers import percent
from goalmeter.runs.progress import Tell
from goalmeter.statistics.verdicts import Verdict

# --- Pictures -------------------------------------------------------------------------------------
# Fewer decisions at a distance, or from fewer grids, make no point of a curve.
LEAST_STEPS, LEAST_GRIDS = 10, 3
_STROKES = {"optimal": "-", "greedy": "--", "random": ":", "key-seeker": "-."}


def surface(results: Sequence[Navigation], name: str) -> Figure | None:
    """Draw the accuracy of each agent by size and complexity, overall and in detour states."""
    first = results[0].cells
    cells = []
    for result in results:
        suffixes = {"accuracy": "", "accuracy_detour": ", detour states"}
        for measure, suffix in [*suffixes.items()][: 1 if result.reference else 2]:
            for row in result.cells:
                place = f"size {row.size}", f"complexity {row.complexity:g}"
                value = getattr(row, measure).value
                cells.append((short(result.agent) + suffix, *place, value))
    agents = ", ".join(dict.fromkeys(result.agent for result in results))
    texts = {"agents": agents, "row": first[0], "walks": first[0].trajectories / first[0].grids}
    rows = list(dict.fromkeys(f"size {row.size}" for row in first))
    columns = list(dict.fromkeys(f"complexity {row.complexity:g}" for row in first))
    figure = say.heat("surface", name, cells, rows, columns, **texts)
    # A surface of few columns stands beside other pictures.
    return figure and replace(figure, wide=len(columns) > 3)


def by_distance(results: Sequence[Navigation], name: str) -> Figure:
    """Draw the accuracy of all agents by the distance to the goal."""
    curves: list[Curve] = []
    values: list[str] = []
    points: list[str] = []
    for result in results:
        # The rows of unchanged grids under the first condition.
        first = result.overall[0].condition
        rows = [
            row
            for row in result.behaviour.by_distance
            if row.transform is None and row.condition == first
            if row.accuracy.n >= LEAST_STEPS and row.accuracy.clusters >= LEAST_GRIDS
        ]
        distances, accuracies = [row.distance for row in rows], [row.accuracy for row in rows]
        shares = [f"{percent(row.accuracy.value, 0)} at {row.distance}" for row in rows]
        ends = " and ".join(shares[:1] + shares[-1:]) or "too few decisions"
        values.append(f"{result.agent}: {ends}")
        # Reference agents are grey, so strokes tell them apart; the others have colours.
        style: dict[str, Any] = {"colour": MUTED, "stroke": _STROKES.get(result.agent)}
        if not result.reference:
            style = {"colour": STROKES[len(points) % len(STROKES)][0]}
            counts = [[a.n for a in accuracies], [a.clusters for a in accuracies]]
            ranges = [(min(of, default=0), max(of, default=0)) for of in counts]
            known = "basis" if rows else "no_basis"
            points.append(say.sentence("distances", known, agent=result.agent, of=ranges))
        curve = Curve.of(short(result.agent), distances, accuracies, **style)
        curves.append(replace(curve, low=None, high=None) if result.reference else curve)
    conditions = list(dict.fromkeys(row.condition for row in results[0].overall))
    condition = ""
    if len(conditions) > 1:
        first = condition_in_words(conditions[0]).removeprefix(", ")
        condition = f" Of {len(conditions)} conditions the first: {first}."
    texts = {"condition": condition, "points": " ".join(points), "values": "; ".join(values)}
    least: dict[str, Any] = {"steps": LEAST_STEPS, "grids": LEAST_GRIDS}
    return say.curves("by_distance", name, curves, **texts, **least)


# --- Replays --------------------------------------------------------------------------------------
_STEPS = 60  # steps of a walk that are listed


def replay(walk: Trajectory, name: str, title: str) -> Figure:
    """Draw one walk, step by step."""
    world, states = walk.world, walk.states()
    marks = {"S": world.start, "G": world.goal, "K": world.key, "D": world.door, "N": world.neutral}
    moves = [
        Move(before.cell, after.cell, step.is_optimal, step.action is not None)
        for step, before, after in zip(walk.steps, states, states[1:], strict=False)
    ]
    known = {"arrived": "It arrived.", "cap": "It was stopped at the limit of steps."}
    return say.figure(
        "replay",
        walk_map(name, world.walls, {place: x for x, place in marks.items() if place}, moves),
        title=title,
        walk=walk,
        steps=len(walk.steps),
        wrong=sum(not step.is_optimal for step in walk.steps),
        ended=known.get(walk.outcome, f"It ended with: {walk.outcome}."),
    )


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
        under = complexity + transform + condition_in_words(condition_name(walk.condition))
        where = f"size {walk.size}{under}, grid {walk.grid}, walk {walk.trajectory}"
        out.setdefault(number, (f"{title} ({where})", walk))
    return list(out.values())


def steps_table(walk: Trajectory, title: str) -> Table:
    """Return the table of a walk's decisions, with the output of a model."""
    layers = {WITH_KEY: ", with key", DOOR_OPEN: ", door open"}
    if walk.world.neutral is not None:
        layers = {WITH_KEY: ", with object"}
    rows = [
        (number, step, layers.get(step.state.layer, ""), "" if step.is_optimal else "not optimal")
        for number, step in enumerate(walk.steps[:_STEPS], start=1)
    ]
    left = len(walk.steps) - _STEPS
    notes = [f"{left} more steps are in the run."] if left > 0 else []
    return say.table("steps", rows, notes=notes, title=title, outcome=walk.outcome)


# --- Page -----------------------------------------------------------------------------------------
GLOSSARY: dict[str, str] = say("glossary")


@dataclass(frozen=True)
class Group:
    """Agents that were measured in the same worlds."""

    results: tuple[Navigation, ...]  # the measured agents, then the reference agents
    directed: tuple[Directedness, ...]  # the goal-directedness of each

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


def sections(shown: Sequence[Group]) -> list[Section]:
    """Return the sections of each group of agents."""
    out = []
    for number, group in enumerate(shown, start=1):
        prefix = f"navigation-{number}"
        out += _suite(group, prefix)
        for index, result in enumerate(group.measured, start=1):
            chosen = selected(result)
            figures = [
                replay(walk, f"{prefix}-{index}-walk-{place}", title)
                for place, (title, walk) in enumerate(chosen, start=1)
            ]
            tables = [steps_table(walk, title) for title, walk in chosen]
            names = {"agent": result.agent, "suite": result.plan.suite.name}
            out.append(say.section("walks", figures, tables, **names))
    return out


def _suite(group: Group, prefix: str) -> list[Section]:
    """The sections of one suite, except for the walks."""
    results = group.results
    suite = results[0].plan.suite
    content: list[Content] = [
        navigation_tables.agents_table(results, f"{prefix}-agents"),
        say.table("choices", navigation_tables.named(results, "overall"), suite=suite.name),
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
    explained = say.section(
        "explained",
        navigation_tables.directed_tables(group.directed, f"{prefix}-explained"),
        navigation_tables.directedness_chart(group.directed, f"{prefix}-meg"),
        suite=suite.name,
    )
    if item := navigation_tables.item_of(group.directed):
        text = (*explained.text, say.sentence("explained_more", "beside", item=item))
        explained = replace(explained, text=text)
    return [*out, explained]


def findings(shown: Sequence[Group]) -> list[Finding]:
    """Return the findings, first the goal of each agent."""
    leads, lines = [], []
    for number, group in enumerate(shown, start=1):
        prefix, directed = f"navigation-{number}", group.directed
        table, *_ = navigation_tables.directed_tables(directed, f"{prefix}-explained")
        # Of reference agents nothing is said: what they want is known.
        for result in group.measured:
            rows = [row for row in directed if row.agent == result.agent]
            verdict = navigation_tables.in_words(*navigation_tables.wanted(rows))
            lead = f"{result.agent}, {result.plan.suite.name}: {verdict}."
            text = " ".join(navigation_tables.directedness_sentences(directed, result.agent))
            place = table.row_anchor(navigation_tables.label_agent(rows[0], directed))
            leads.append(Finding(lead=lead, text=text, links=(Link("numbers", place),)))
            for text, place in _sentences(group, result):
                words = "tests" if place == "frames" else "numbers"
                lines.append(Finding(text=text, links=(Link(words, f"{prefix}-{place}"),)))
    return [*leads, *lines]


def _sentences(group: Group, result: Navigation) -> list[tuple[str, str]]:
    """Sentences on the behaviour of one agent, each with the table that it leads to."""
    suite, row = result.plan.suite.name, result.overall[0]
    # A compass alone is the measure of planning; for greedy, which is that compass, chance is.
    name = "random" if result.agent == "greedy" else "greedy"
    beside = {other.agent: other.overall[0] for other in group.results}[name]
    found = say("found", agent=result.agent, suite=suite, row=row, name=name, beside=beside)
    # Some worlds have no place where the compass errs, and nothing is said of such places.
    has_detours = not math.isnan(row.accuracy_detour.value)
    lines = [(found["optimal"] + (found["astray"] if has_detours else ""), "agents")]
    for label, keys in navigation_tables.named([result], "keys"):
        item = "the key" if keys.thing == KEY else "the neutral object"
        texts = {"suite": suite, "label": label, "item": item}
        lines.append((say.sentence("found_keys", taken=keys.pick_up, **texts), "keys"))
    for effect in (effect for effect in result.factors if effect.measure == PICK_UP):
        kind = "factors_found" if isinstance(effect, Factors) else "factor_found"
        lines.append((f"{suite}: {say.sentence(kind, agent=result.agent, of=effect)}", "keys"))
    if result.frames is not None:
        frames = result.frames.frames
        same = [
            frame.transform
            for frame in frames
            for test in frame.comparisons
            if test.metric == navigation_tables.ACCURACY
            and navigation_tables.verdict(test) is Verdict.EQUAL
        ]
        counts = {"margin": 100 * result.frames.margin, "same": len(same), "frames": len(frames)}
        named = f" ({', '.join(same)})" if same else ""
        names = {"agent": result.agent, "suite": suite, "named": named}
        lines.append((say.sentence("found_frames", **names, **counts), "frames"))
    return lines + ([(found["invalid"], "agents")] if row.invalid.value > 0 else [])
