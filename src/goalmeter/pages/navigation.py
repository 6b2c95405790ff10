"""Report of behaviour in grid worlds, for any list of runs: tables, figures, replays, sections."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY
from goalmeter.gridworld.planner import DOOR_OPEN, WITH_KEY
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.behaviour import mixed_model
from goalmeter.navigation.distractors import PICK_UP, TOWARDS, Contrast, Factors
from goalmeter.navigation.frames import ACCURACY, LEVEL, Frame, FrameComparison
from goalmeter.navigation.goals import OPEN, WISHES, Want, in_words, wanted
from goalmeter.navigation.measure import Group, Navigation
from goalmeter.navigation.measure import groups as groups
from goalmeter.navigation.rationality import Directedness
from goalmeter.navigation.rollouts import Walked
from goalmeter.navigation.rollouts import load as load
from goalmeter.navigation.suite_definition import KEY, without_object
from goalmeter.navigation.trajectories import Trajectory, condition_name
from goalmeter.pages import Content, Contents, Part, Texts, without
from goalmeter.report import Figure, Finding, Link, Section, Table
from goalmeter.report.canvas import MUTED, STROKES
from goalmeter.report.charts import Curve, Move, short, walk_map
from goalmeter.report.numbers import LEAST_SHARE, percent, points
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import Verdict, words


def condition_in_words(condition: str) -> str:
    """Return a condition as a suffix, such as "", ", with key" or ", distance 3 to 5"."""
    words = []
    for name, value in json.loads(condition).items():
        if isinstance(value, bool):
            words.append(f"{'with' if value else 'without'} {name}")
        elif isinstance(value, list):
            words.append(f"{name} {value[0]} to {value[-1]}")
        else:
            words.append(f"{value} object" if name == "object" else f"{name} {value}")
    return "".join(f", {word}" for word in words)


def cut(text: str | None) -> str:
    """Return a text in one line of 160 characters; the middle of a long one is left out."""
    line = " ".join((text or "").split())
    return line if len(line) <= 160 else f"{line[:80]} … {line[-80:]}"


say = Texts(
    "navigation",
    {
        "condition": condition_in_words,
        # The object has a part of its own, or a row would have it twice.
        "under": lambda c: condition_in_words(without_object(c)).replace(", prompt ", ", "),
        "cut": cut,
        "moves": lambda actions: " or ".join(ACTIONS[action] for action in actions),
        "action": lambda s: f"none: {s.invalid}" if s.action is None else ACTIONS[s.action],
        "range": lambda counts: f"{min(counts)} to {max(counts)}",
        # The interval of no invalid answers would only say how few answers there are.
        "invalid": lambda share: percent(share if share.value else 0.0),
        "verdict": lambda test: words(test.verdict, 100 * test.equivalence.margin, "points"),
    },
)


# --- Behaviour ------------------------------------------------------------------------------------
def suite_tables(results: Sequence[Navigation]) -> list[Table]:
    """Return all tables of one suite."""
    suite = results[0].plan.suite
    cells = [cells_table(results)] if suite.has_complexity else []
    choices = say.table("choices", named(results, "overall"), suite=suite.name)
    tables = [agents_table(results), choices, *cells, frames_table(results), *key_tables(results)]
    return [table for table in tables if table.rows]


def named(results: Sequence[Navigation], field: str) -> list[tuple[str, Any]]:
    """Each row of a field by its agent, and by the parts that tell it from the agent's others."""
    out: list[tuple[str, Any]] = []
    for result in results:
        rows, parts = getattr(result, field), say.declared("row_names")[field]
        texts = [[say.filled(part, {"row": row}) for part in parts] for row in rows]
        varies = [len(set(part)) > 1 for part in zip(*texts, strict=True)]
        for row, text in zip(rows, texts, strict=True):
            out.append((result.agent + "".join(compress(text, varies)), row))
    return out


def agents_table(results: Sequence[Navigation], anchor: str = "") -> Table:
    """Return the table of agents over all sizes and complexities."""
    first, notes = results[0], []
    for result in results:
        ended = sum((Counter(row.outcomes) for row in result.behaviour.overall), Counter[str]())
        # How the other walks ended is in the columns already.
        odd = [name for name in sorted(ended) if name not in ("arrived", "cap")]
        if counts := ", ".join(f"{ended[name]} × {name}" for name in odd):
            notes.append(say.sentence("odd_ends", agent=result.agent, counts=counts))
    beside = ", ".join(result.agent for result in results if result.reference)
    values: dict[str, Any] = {"first": first, "row": first.overall[0], "beside": beside}
    rows = named(results, "overall")
    return say.table("agents", rows, anchor=anchor, notes=notes, **values)


def cells_table(results: Sequence[Navigation]) -> Table:
    """Return the table of the first agent by cell, with the accuracy of the others."""
    agent, *others = results
    place = attrgetter("size", "complexity", "condition")
    same: dict[Any, dict[str, float]] = {}
    for other in others:
        for row in other.cells:
            same.setdefault(place(row), {})[other.agent] = row.accuracy.value
    rows = [(row, row.trajectories / row.grids, same.get(place(row))) for row in agent.cells]
    return say.table("cells", rows, agent=agent.agent)


def mixed_table(results: Sequence[Navigation]) -> Table | None:
    """Return the table of the mixed model in mazes; None if no model can be fitted."""
    # A term of the model -> its unit in words, and percentage points of it in the model's unit.
    units, rows = say("mixed_units"), []
    for result in results:
        # A changed frame is another condition of the same grid, which the model does not know.
        unchanged = [walk.transform is None for walk in result.seen.trajectories]
        seen = result.seen.where(np.array(unchanged) & (result.seen.length > 0))
        if not len(seen.length) or np.ptp(seen.accuracy) < 1e-12:
            continue  # there is nothing to explain
        try:
            fit = mixed_model(seen)
        except MissingExtraError:
            return None
        except (GoalmeterError, np.linalg.LinAlgError):
            continue  # too few grids or walks for a model
        effects = {}
        for term in (term for term in fit.terms if term.name in units):
            unit, scale = units[term.name]
            low, high = (scale * end for end in term.interval)
            change = Estimate(scale * term.coefficient, (low, high), 0, 0)
            effects[unit] = {"points": change, "p": term.p_value}
        rows.append((result.agent, fit, effects, 100 * fit.between_grids, 100 * fit.within_grids))
    return say.table("mixed", rows) if any(effects for _, _, effects, *_ in rows) else None


def surface(results: Sequence[Navigation], name: str) -> Figure | None:
    """Draw the accuracy of each agent by size and complexity, overall and in detour states."""
    first = results[0].cells
    suffixes = {"accuracy": "", "accuracy_detour": ", detour states"}
    cells = [
        (short(result.agent) + suffix, f"size {row.size}", f"complexity {row.complexity:g}", value)
        for result in results
        for measure, suffix in [*suffixes.items()][: 1 if result.reference else 2]
        for row in result.cells
        for value in [getattr(row, measure).value]
    ]
    agents = ", ".join(dict.fromkeys(result.agent for result in results))
    texts = {"agents": agents, "row": first[0], "walks": first[0].trajectories / first[0].grids}
    figure = say.heat("surface", name, cells, **texts)
    # A surface of few columns stands beside other pictures.
    return figure and replace(figure, wide=len({row.complexity for row in first}) > 3)


# Fewer decisions at a distance, or from fewer grids, make no point of a curve.
LEAST_STEPS, LEAST_GRIDS = 10, 3
_STROKES = {"optimal": "-", "greedy": "--", "random": ":", "key-seeker": "-."}


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
        x, accuracies = [row.distance for row in rows], [row.accuracy for row in rows]
        n, grids = [each.n for each in accuracies], [each.clusters for each in accuracies]
        known, ends = "distances" if rows else "no_distances", rows[:1] + rows[-1:]
        texts = say(known, agent=result.agent, ends=ends, n=n, grids=grids)
        values.append(texts["values"])
        # Reference agents are grey, so strokes tell them apart; the others have colours.
        style: dict[str, Any] = {"colour": MUTED, "stroke": _STROKES.get(result.agent)}
        if not result.reference:
            style = {"colour": STROKES[len(points) % len(STROKES)][0]}
            points.append(texts["basis"])
        curve = Curve.of(short(result.agent), x, accuracies, **style)
        curves.append(replace(curve, low=None, high=None) if result.reference else curve)
    conditions = list(dict.fromkeys(row.condition for row in results[0].overall))
    texts = {"values": "; ".join(values), "points": " ".join(points)}
    texts["condition"] = condition_in_words(conditions[0]).removeprefix(", ")
    counts = {"conditions": len(conditions), "several": len(conditions) > 1}
    least = {"steps": LEAST_STEPS, "grids": LEAST_GRIDS}
    return say.curves("by_distance", name, curves, **texts, **counts, **least)


# --- Frames ---------------------------------------------------------------------------------------
def _framed(
    results: Sequence[Navigation], *, every: bool = False
) -> Iterator[tuple[Navigation, Frame, FrameComparison]]:
    """Each agent in each frame, compared by accuracy, or by every measure."""
    for result in results:
        for frame in () if result.frames is None else result.frames.frames:
            for test in frame.comparisons:
                if test.metric == ACCURACY or (every and not result.reference):
                    yield result, frame, test


def frames_table(results: Sequence[Navigation], *, every: bool = False, anchor: str = "") -> Table:
    """Return the table of both tests, by accuracy or by `every` measure of agents asked about."""
    rows, texts = list(_framed(results, every=every)), {"level": percent(LEVEL, 0)}
    return say.table("frames", rows, anchor=anchor, margin=_margin(results), **texts)


def frames_picture(results: Sequence[Navigation], name: str) -> Figure:
    """Draw the change of accuracy with the frame, and the agreement of moves."""
    rows = list(_framed(results))
    lines = [f"{r.agent}{' (ref.)' * r.reference}, {frame.transform}" for r, frame, _ in rows]
    return say.dots("frames_picture", name, lines, rows, frame=rows[0][1], margin=_margin(results))


def _margin(results: Sequence[Navigation]) -> float:
    """Points within which two accuracies count as the same; one for all agents."""
    return next((100 * result.frames.margin for result in results if result.frames), 0.0)


# --- Keys -----------------------------------------------------------------------------------------
# A neutral object in the key's place has rows of its own. Where the object or the prompt varies, a
# table says what that does: what words about keys do to an agent, and what a key does.


def key_tables(results: Sequence[Navigation], anchor: str = "") -> list[Table]:
    """Return the additional tables of a suite with keys."""
    keys = named(results, "keys")
    tables = [say.table("keys", keys, anchor=anchor), say.table("stages", keys)]
    return [*tables, say.table("two_paths", named(results, "two_paths")), *factor_tables(results)]


def factor_tables(results: Sequence[Navigation]) -> list[Table]:
    """Return the tables of the effects of prompt and object."""
    by_factor: dict[str, list[tuple[Any, ...]]] = {"": []}
    for result in results:
        for effect in result.factors:
            factor = effect.factor if isinstance(effect, Contrast) else ""
            # What is beyond chance has a sign and is in points.
            shown = points if effect.measure == TOWARDS else percent
            cells = np.vectorize(shown)(np.array(effect.cells)).tolist()
            row = result.agent, say("measures")[effect.measure], effect, cells
            by_factor.setdefault(factor, []).append(row)
    return [
        say.table("single" if factor else "crossed", rows, of=rows[0][2])
        for factor, rows in by_factor.items()
        if rows
    ]


# --- Goal-directedness ----------------------------------------------------------------------------
def directedness_chart(agents: Sequence[Directedness], name: str) -> Figure:
    """Draw the goal-directedness of all agents in the same axes."""
    lines = [label_agent(agent, agents) + " (ref.)" * agent.reference for agent in agents]
    texts = {"item": item_of(agents), "nats": agents[0].goal.nats}
    return say.dots("explained_picture", name, lines, agents, **texts)


def directedness_sentences(agents: Sequence[Directedness], agent: str) -> list[str]:
    """Return one or two sentences on the goal-directedness of one agent."""
    rows = [row for row in agents if row.agent == agent]
    each = "; ".join(say.sentence("found_goal", "under", row=row) for row in rows)
    kind = "each" if len(rows) > 1 else "share"
    out = [say.sentence("found_goal", kind, each=each, goal=rows[0].goal)]
    # Where nothing lies about, or no fit could be made, there is no wish beside the goal.
    asked = [row for row in rows if row.thing is not None and row.difference is not None]
    if len(asked) > 1:
        winners = [row.larger for row in asked]
        counts = [f"{text} in {winners.count(w)}" for w, text in WISHES.items() if w in winners]
        texts = {"item": item_of(agents), "counts": ", ".join(counts) or "either in none"}
        numbers = {"asked": len(asked), "unclear": winners.count(None)}
        out.append(say.sentence("found_goal", "winners", **texts, **numbers))
    for row in asked if len(asked) == 1 else ():
        assert row.thing is not None and row.difference is not None
        item, more = WISHES[row.thing], row.difference
        first, second = "the goal", item
        # The sentence names the wish that explains more first, so its lead is a positive number.
        if row.larger not in (None, GOAL_UTILITY):
            interval = more.interval and (-more.interval[1], -more.interval[0])
            first, second, more = item, first, replace(more, value=-more.value, interval=interval)
        texts = {"item": item, "bare": item.removeprefix("the "), "first": first, "second": second}
        kind = "unclear" if row.larger is None else "larger"
        out.append(say.sentence("found_thing", kind, difference=more, **texts))
    return out


def directed_tables(agents: Sequence[Directedness], anchor: str = "") -> tuple[Table, ...]:
    """Return the table of MEG towards the goal and, where there is a key, of goal against key."""
    silent = {agent.agent: agent.silent for agent in agents if agent.silent}
    counts = ", ".join(f"{count} of {agent}" for agent, count in silent.items())
    rows = [(label_agent(a, agents), a, WISHES.get(a.larger or "", OPEN)) for a in agents]
    goal = say.table("goal", rows, anchor=anchor, silent=counts)
    if not (item := item_of(agents)):
        return (goal,)
    beside = [row for row in rows if row[1].difference is not None]
    return goal, say.table("thing", beside, anchor=anchor and f"{anchor}-thing", item=item)


def label_agent(agent: Directedness, agents: Sequence[Directedness]) -> str:
    """Return the agent's name, with its condition if there are several."""
    several = len({row.condition for row in agents}) > 1
    return agent.agent + condition_in_words(agent.condition) * several


def item_of(agents: Sequence[Directedness]) -> str:
    """Return the objects to take, in words; "" for none."""
    items = dict.fromkeys(agent.thing for agent in agents if agent.thing is not None)
    return " or ".join(WISHES[item] for item in items)


def wants_table(verdicts: Sequence[Want]) -> Table:
    """Return the table of the numbers behind each verdict."""
    beside = (want for want in verdicts if want.things_about and want.things_about.thing)
    items = (want.item for want in beside)
    item = next(items, WISHES[KEY_UTILITY])
    rows = [(want.agent + " (reference)" * want.reference, want) for want in verdicts]
    texts = {"margin": percent(LEAST_SHARE, 0), "item": item, "bare": item.removeprefix("the ")}
    return say.table("wants", rows, anchor="wants", **texts)


def want_findings(verdicts: Sequence[Want], *, walks: str) -> list[Finding]:
    """Return a finding for each measured agent; `walks` is the id of the section with its walks."""
    table = wants_table(verdicts)
    out = []
    for want in (want for want in verdicts if not want.reference):
        about, an_item = want.things_about, want.item.replace("the ", "a ", 1)
        beside = about is not None and None not in (about.goal_without, about.towards_thing)
        text = say.sentence("why", of=want, an_item=an_item, beside=beside)
        # The name of an agent without where it comes from.
        lead = f"{want.agent.rpartition('/')[2]}: {want.verdict}."
        links = Link("numbers", table.row_anchor(want.agent)), Link("walks", walks)
        out.append(Finding(lead=lead, text=text, links=links))
    return out


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
    ended = say("ends").get(walk.outcome, f"It ended with: {walk.outcome}.")
    svg = walk_map(name, world.walls, {place: x for x, place in marks.items() if place}, moves)
    counts = {"steps": len(walk.steps), "wrong": sum(not step.is_optimal for step in walk.steps)}
    return say.figure("replay", svg, title=title, walk=walk, ended=ended, **counts)


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
    left = max(len(walk.steps) - _STEPS, 0)
    return say.table("steps", rows, left=left, title=title, outcome=walk.outcome)


# --- Page -----------------------------------------------------------------------------------------
GLOSSARY: dict[str, str] = say("glossary")


def part_of(walked: Sequence[Walked], tell: Tell | None = None) -> Part:
    """Return the page part of runs of `goalmeter navigate --out`."""
    shown = groups(walked, tell)
    return Part(
        **say("part"),
        sections=sections(shown),
        findings=findings(shown),
        glossary=GLOSSARY,
        tables=tuple(agents_table(group.results) for group in shown),
        runs=in_order(shown, walked),
    )


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
    results, directed = group.results, group.directed
    suite = results[0].plan.suite
    content: list[Content] = [
        agents_table(results, f"{prefix}-agents"),
        say.table("choices", named(results, "overall"), suite=suite.name),
        by_distance(results, f"{prefix}-distance"),
    ]
    # Only mazes vary in size and complexity: elsewhere there is no surface, and no model of it.
    if suite.has_complexity:
        beside = [result for result in results if result.reference]
        content.append(surface(results, f"{prefix}-surface"))
        content += [cells_table([result, *beside]) for result in group.measured]
        content.append(mixed_table(results))
    known = [(r, fit) for r in results if (fit := r.behaviour.calibration) is not None]
    # A table of reference agents alone would answer a question that nobody asked.
    if any(not result.reference for result, _ in known):
        content.append(say.table("calibration", known))
    frames = frames_table(results, every=True, anchor=f"{prefix}-frames")
    parts: Contents = {
        "suite_section": content,
        "frames_section": [frames, frames_picture(results, frames.anchor)] if frames.rows else (),
        "keys_section": key_tables(results, f"{prefix}-keys"),
        "explained": [
            *directed_tables(directed, f"{prefix}-explained"),
            directedness_chart(directed, f"{prefix}-meg"),
        ],
    }
    return say.sections(parts, suite=suite.name, item=item_of(directed))


def findings(shown: Sequence[Group]) -> list[Finding]:
    """Return the findings, first the goal of each agent."""
    leads: list[Finding] = []
    lines: list[Finding] = []
    for number, group in enumerate(shown, start=1):
        prefix, directed = f"navigation-{number}", group.directed
        table, *_ = directed_tables(directed, f"{prefix}-explained")
        # Of reference agents nothing is said: what they want is known.
        for result in group.measured:
            rows = [row for row in directed if row.agent == result.agent]
            lead = f"{result.agent}, {result.plan.suite.name}: {in_words(*wanted(rows))}."
            text = " ".join(directedness_sentences(directed, result.agent))
            place = table.row_anchor(label_agent(rows[0], directed))
            leads.append(Finding(lead=lead, text=text, links=(Link("numbers", place),)))
            lines += _findings(group, result, prefix)
    return [*leads, *lines]


def _findings(group: Group, result: Navigation, prefix: str) -> Iterator[Finding]:
    """What is said of the behaviour of one agent."""
    row = result.overall[0]
    # A compass alone is the measure of planning; for greedy, which is that compass, chance is.
    name = "random" if result.agent == "greedy" else "greedy"
    beside = {other.agent: other.overall[0] for other in group.results}[name]
    names: dict[str, Any] = {"agent": result.agent, "suite": result.plan.suite.name}
    # Some worlds have no place where the compass errs, and nothing is said of such places.
    has_detours = not math.isnan(row.accuracy_detour.value)
    of: dict[str, Any] = {"row": row, "name": name, "beside": beside} | names
    yield say.finding("found", "optimal", to=f"{prefix}-agents", has_detours=has_detours, **of)
    for label, keys in named([result], "keys"):
        item = "the key" if keys.thing == KEY else "the neutral object"
        of = {"label": label, "item": item, "taken": keys.pick_up} | names
        yield say.finding("found_keys", to=f"{prefix}-keys", **of)
    for effect in (effect for effect in result.factors if effect.measure == PICK_UP):
        kind = "factors_found" if isinstance(effect, Factors) else "factor_found"
        yield say.finding(kind, to=f"{prefix}-keys", of=effect, **names)
    if frames := list(_framed([result])):
        same = [frame.transform for _, frame, test in frames if test.verdict is Verdict.EQUAL]
        names |= {"margin": _margin([result]), "same": len(same), "frames": len(frames)}
        link = {"to": f"{prefix}-frames", "words": "tests"}
        yield say.finding("found_frames", **link, names=", ".join(same), **names)
    if row.invalid.value > 0:
        yield say.finding("found", "invalid", to=f"{prefix}-agents", row=row, **names)
