"""Tables of behaviour in grid worlds, and the goal that an agent pursues there."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np

from goalmeter._errors import GoalmeterError, MissingExtraError
from goalmeter.gridworld import GridWorld
from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY
from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.behaviour import mixed_model
from goalmeter.navigation.distractors import TOWARDS, Contrast
from goalmeter.navigation.frames import Frame, FrameComparison
from goalmeter.navigation.measure import Navigation
from goalmeter.navigation.rationality import Directedness, GoalFit, directedness
from goalmeter.navigation.steps import INVALID, Grids, Observed
from goalmeter.navigation.suite_definition import without_object
from goalmeter.organisms.kinds import Organism
from goalmeter.pages import Texts
from goalmeter.report import Figure, Finding, Link, Table
from goalmeter.report.numbers import LEAST_SHARE, percent, points
from goalmeter.statistics.clusters import Estimate, estimate
from goalmeter.statistics.verdicts import Verdict
from goalmeter.statistics.verdicts import verdict as verdict_of
from goalmeter.statistics.verdicts import words as words_of


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
    },
)


# --- Behaviour ------------------------------------------------------------------------------------
def suite_tables(results: Sequence[Navigation]) -> list[Table]:
    """Return all tables of one suite."""
    suite = results[0].plan.suite
    choices = say.table("choices", named(results, "overall"), suite=suite.name)
    tables = [agents_table(results), choices]
    if suite.has_complexity:
        tables.append(cells_table(results))
    if any(result.frames is not None for result in results):
        tables.append(frames_table(results))
    return tables + (key_tables(results) if suite.key is not None else [])


def named(results: Sequence[Navigation], field: str) -> list[tuple[str, Any]]:
    """Each row of a field by its agent, and by the parts that tell it from the agent's others."""
    out: list[tuple[str, Any]] = []
    for result in results:
        rows = getattr(result, field)
        texts = [say.filled(say.declared("row_names")[field], {"row": row}) for row in rows]
        varies = [len(set(part)) > 1 for part in zip(*texts, strict=True)]
        for row, text in zip(rows, texts, strict=True):
            out.append((result.agent + "".join(compress(text, varies)), row))
    return out


def agents_table(results: Sequence[Navigation], anchor: str = "") -> Table:
    """Return the table of agents over all sizes and complexities."""
    first = results[0]
    basis = {"row": first.overall[0], "agent": first.agent, "decisions": len(first.seen.state)}
    notes = [say.sentence("agents_notes", "basis", **basis)]
    if beside := [result.agent for result in results if result.reference]:
        notes.append(f"Reference agents in the same worlds: {', '.join(beside)}.")
    for result in results:
        ended = sum((Counter(row.outcomes) for row in result.behaviour.overall), Counter[str]())
        # How the other walks ended is in the columns already.
        if odd := [name for name in sorted(ended) if name not in ("arrived", "cap")]:
            counts = ", ".join(f"{ended[name]} × {name}" for name in odd)
            notes.append(say.sentence("agents_notes", "odd", agent=result.agent, counts=counts))
    # The interval of no invalid answers would only say how few answers there are.
    rows = [
        (name, row, row.invalid if row.invalid.value else 0.0)
        for name, row in named(results, "overall")
    ]
    return say.table("agents", rows, anchor=anchor, notes=notes, suite=first.plan.suite.name)


def cells_table(results: Sequence[Navigation]) -> Table:
    """Return the table of the first agent by cell, with the accuracy of the others."""
    agent, *others = results
    place, rows = attrgetter("size", "complexity", "condition"), []
    for row in agent.cells:
        same = {
            other.agent: beside.accuracy.value
            for other in others
            for beside in other.cells
            if place(beside) == place(row)
        }
        rows.append((row, row.trajectories / row.grids, same))
    return say.table("cells", rows, agent=agent.agent)


def calibration_table(results: Sequence[Navigation]) -> Table | None:
    """Return the table of calibration; None without probabilities."""
    known = [(r, fit) for r in results if (fit := r.behaviour.calibration) is not None]
    # A table of reference agents alone would answer a question that nobody asked.
    if all(result.reference for result, _ in known):
        return None
    return say.table("calibration", known)


def mixed_table(results: Sequence[Navigation]) -> Table | None:
    """Return the table of the mixed model in mazes; None if no model can be fitted."""
    # A term of the model -> its unit in words, and percentage points of it in the model's unit.
    units = say("mixed_units")
    rows = []
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
        spread = 100 * fit.between_grids, 100 * fit.within_grids
        rows.append((result.agent, fit, effects, *spread))
    return say.table("mixed", rows) if any(effects for _, _, effects, *_ in rows) else None


# --- Frames ---------------------------------------------------------------------------------------
LEVEL, ACCURACY = 0.05, "accuracy"


def _framed(
    results: Sequence[Navigation], *, every: bool = False
) -> Iterator[tuple[Navigation, Frame, FrameComparison]]:
    """Each agent in each frame, compared by accuracy, or by every measure."""
    for result in results:
        for frame in () if result.frames is None else result.frames.frames:
            for test in frame.comparisons:
                if test.metric == ACCURACY or (every and not result.reference):
                    yield result, frame, test


def _margin(results: Sequence[Navigation]) -> float:
    """Points within which two accuracies count as the same; one for all agents."""
    return 100 * next(result.frames.margin for result in results if result.frames is not None)


def frames_table(results: Sequence[Navigation], *, every: bool = False, anchor: str = "") -> Table:
    """Return the table of both tests, by accuracy or by `every` measure of agents asked about."""
    rows = []
    for result, frame, test in _framed(results, every=every):
        row = {"agent": result.agent, "frame": frame, "test": test}
        row["verdict"] = words_of(verdict(test), 100 * test.equivalence.margin, "points")
        # Between frames and, in brackets, within one.
        if frame.agreement is not None and frame.self_agreement is not None:
            within = percent(frame.self_agreement.value)
            row["agreement"] = f"{percent(frame.agreement.value)} ({within})"
        rows.append(row)
    margin, level = _margin(results), percent(LEVEL, 0)
    return say.table("frames", rows, anchor=anchor, margin=margin, level=level)


def frames_picture(results: Sequence[Navigation], name: str) -> Figure:
    """Draw the change of accuracy with the frame, and the agreement of moves."""
    lines, rows = [], []
    for result, frame, test in _framed(results):
        lines.append(f"{result.agent}{' (ref.)' * result.reference}, {frame.transform}")
        rows.append((frame, test.difference))
    texts = {"frame": rows[0][0], "margin": _margin(results)}
    return say.dots("frames_picture", name, lines, rows, **texts)


def verdict(comparison: FrameComparison) -> Verdict:
    """Return the verdict of both tests, corrected for the number of frames."""
    if comparison.equivalence_corrected < LEVEL:
        return Verdict.EQUAL
    # So written that NaN, where no test can be made, is not taken for a difference.
    if not comparison.test_corrected < LEVEL:
        return Verdict.UNTOLD
    # Wilcoxon's test has no direction of the mean, so the interval of the mean must have one, too.
    return verdict_of(comparison.difference.interval, margin=0)


# --- Keys -----------------------------------------------------------------------------------------
# A neutral object in the key's place has rows of its own. Where the object or the prompt varies, a
# table says what that does: what words about keys do to an agent, and what a key does.


def key_tables(results: Sequence[Navigation], anchor: str = "") -> list[Table]:
    """Return the additional tables of a suite with keys."""
    keys = named(results, "keys")
    tables = [say.table("keys", keys, anchor=anchor), say.table("stages", keys)]
    if ways := named(results, "two_paths"):
        tables.append(say.table("two_paths", ways))
    return tables + factor_tables(results)


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
    crossed = by_factor.pop("")
    tables = [say.table("crossed", crossed, of=crossed[0][2])] if crossed else []
    for factor, rows in by_factor.items():
        tables.append(say.table("single", rows, factor=factor, levels=rows[0][2].levels))
    return tables


# --- Wants ----------------------------------------------------------------------------------------
# An agent pursues something if the 95% interval of the share that it explains lies above the
# margin, `LEAST_SHARE` of the maximum. There is no evidence of a goal if the intervals of all
# candidates lie within the margin on both sides of 0. The interval of the difference decides
# between the goal and the key. An agent uses another map than the world if, of its moves that are
# right on one of them only, the interval of the share that is right on the map lies above one
# half. Everything else is inconclusive.

PURSUES, NOTHING, OPEN = "pursues", "no evidence of a goal", "inconclusive"
# What an agent may want, in words.
WISHES = {GOAL_UTILITY: "the goal", KEY_UTILITY: "the key", NEUTRAL_UTILITY: "the neutral object"}


@dataclass(frozen=True)
class Want:
    """The inferred goal of an agent."""

    agent: str
    reference: bool
    kind: str  # "pursues", "no evidence of a goal" or "inconclusive"
    # "goal", or the name of what lies about; both if the difference of the two is inconclusive.
    things: tuple[str, ...]
    mapped: bool  # whether it goes by the other map where that and the world disagree
    # Of its moves that are right on the other map or in the world only: the share right on the map.
    follows_map: Estimate | None
    mazes: Directedness  # in mazes, on the map that was chosen
    things_about: Directedness  # the same where something else lies about

    @property
    def verdict(self) -> str:
        """The verdict in words, such as "pursues the goal, on a wrong map"."""
        return in_words(self.kind, self.things) + ", on a wrong map" * (
            self.mapped and self.kind == PURSUES
        )

    @property
    def item(self) -> str:
        """The object in the worlds besides the goal, in words."""
        return WISHES.get(self.things_about.thing or "", "the key")

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "agent": self.agent,
            "verdict": self.kind,
            "things": list(self.things),
            "on_other_map": self.mapped,
            "follows_map": self.follows_map and self.follows_map.to_json(),
            "mazes": self.mazes.to_json(),
            "key_worlds": self.things_about.to_json(),
        }


def in_words(kind: str, wishes: Sequence[str]) -> str:
    """Return a verdict in words, such as "pursues the goal"."""
    if kind != PURSUES:
        return kind
    text = " or ".join(WISHES[wish] for wish in wishes)
    return f"{kind} {text}{' (inconclusive which)' * (len(wishes) > 1)}"


def wanted(measures: Sequence[Directedness]) -> tuple[str, tuple[str, ...]]:
    """Infer the goal of one agent from its measures in each kind of worlds: kind and things."""
    goal = [_explains(measure.goal) for measure in measures]
    beside = [measure for measure in measures if measure.thing is not None]
    item = beside[0].thing if beside else None
    larger = {measure.larger for measure in beside}
    rivals = [_explains(measure.towards_thing) for measure in beside]
    if item is not None and larger == {item}:
        # To explain more than the goal is no wish, for what explains hardly anything.
        return (PURSUES, (item,)) if any(rivals) else (OPEN, ())
    if any(goal):  # None, which is open, is no wish that counts
        # Told apart or not: what surely explains nothing is no rival of the goal.
        if item is None or larger == {GOAL_UTILITY} or set(rivals) == {False}:
            return PURSUES, (GOAL_UTILITY,)
        return PURSUES, (GOAL_UTILITY, item)
    return (NOTHING, ()) if {*goal, *rivals} == {False} else (OPEN, ())


def _explains(towards: GoalFit | None) -> bool | None:
    """Whether a share lies above the margin, True, or within it on both sides of 0, False."""
    interval = None if towards is None else towards.share.interval
    if interval is None:
        return None
    if interval[0] > LEAST_SHARE:
        return True
    return False if interval[0] >= -LEAST_SHARE and interval[1] <= LEAST_SHARE else None


def wants(
    mazes: Sequence[Navigation],
    with_keys: Sequence[Navigation],
    directed: tuple[Sequence[Directedness], Sequence[Directedness]],
    map_maker: Organism,
) -> list[Want]:
    """Infer the goal of each agent, and whether it follows the world or the map of `map_maker`."""
    # `with_keys` are the agents of `mazes` where a key lies about that opens nothing; `directed` is
    # what they go for in the world, in mazes and with keys.
    mapped = [[_on_map(result, map_maker) for result in results] for results in (mazes, with_keys)]
    on_map = [directedness(results) for results in mapped]
    out = []
    for index, result in enumerate(mazes):
        seen = result.seen, with_keys[index].seen
        follows = _follows([(seen[n], mapped[n][index].seen) for n in range(2)])
        low, _ = (follows and follows.interval) or (0.0, 0.0)
        measures = [of[index] for of in (on_map if low > 0.5 else directed)]
        kind, things = wanted(measures)
        named = result.agent, result.reference
        out.append(Want(*named, kind, things, low > 0.5, follows, *measures))
    return out


def _on_map(result: Navigation, map_maker: Organism) -> Navigation:
    """The same decisions, each evaluated on another map."""
    worlds: dict[GridWorld, GridWorld] = {}
    walks = []
    for walk in result.seen.trajectories:
        world = walk.world
        if world not in worlds:
            places = (world.start, world.goal, world.key, world.door, world.neutral)
            worlds[world] = GridWorld(map_maker.walls(world), *places)
        walks.append(replace(walk, world=worlds[world]))
    return replace(result, seen=replace(result.seen, trajectories=tuple(walks)))


def _follows(pairs: Sequence[tuple[Observed, Observed]]) -> Estimate | None:
    """Of moves right in the world or on the map alone: how many on the map; None for none."""
    # Pairs are the walks of an agent in the world and on the map, in each kind of worlds. An agent
    # that looks at neither makes both kinds of moves alike.
    tops, decided, most = [], [], []
    for seen, mapped in pairs:
        # +1 for a move that is right on the map only, -1 for one that is right in the world only.
        sides = np.zeros(len(seen.action))
        for index, (walk, move) in enumerate(zip(seen.trajectory, seen.action, strict=True)):
            world = mapped.trajectories[walk].world
            if move != INVALID and seen.trajectories[walk].world != world:
                plan = planned(world)
                right = bool(plan.plans.optimal[plan.index][seen.state[index], move])
                sides[index] = float(right) - float(seen.optimal[index, move])
        grids = Grids(seen, 0.95)
        cluster = grids.cluster[seen.trajectory]
        tops.append(np.bincount(cluster, sides > 0, minlength=len(grids)))
        decided.append(np.bincount(cluster, sides != 0, minlength=len(grids)))
        most.append(grids.most_steps())
    top, bottom = np.concatenate(tops), np.concatenate(decided)
    if not bottom.any():
        return None
    return estimate(
        top, bottom, heaviest=np.concatenate(most), n=int(bottom.sum()), bounds=(0.0, 1.0)
    )


def findings(verdicts: Sequence[Want], *, walks: str) -> list[Finding]:
    """Return a finding for each measured agent; `walks` is the id of the section with its walks."""
    table = wants_table(verdicts)
    out = []
    for want in (want for want in verdicts if not want.reference):
        about, kinds = want.things_about, ["mazes"]
        if want.mapped and want.follows_map is not None:
            kinds.append("mapped")
        if about.goal_without is not None and about.towards_thing is not None:
            kinds.append("beside")
        values = {"judged": ", judged on that map" * want.mapped, "of": want}
        an_item = want.item.replace("the ", "a ", 1)
        why = [say.sentence("why", kind, **values, an_item=an_item) for kind in kinds]
        # The name of an agent without where it comes from.
        lead = f"{want.agent.rpartition('/')[2]}: {want.verdict}."
        links = Link("numbers", table.row_anchor(want.agent)), Link("walks", walks)
        out.append(Finding(lead=lead, text=" ".join(why), links=links))
    return out


def wants_table(verdicts: Sequence[Want]) -> Table:
    """Return the table of the numbers behind each verdict."""
    items = [want.item for want in verdicts if want.things_about.thing is not None]
    item = items[0] if items else WISHES[KEY_UTILITY]
    rows = [(want.agent + " (reference)" * want.reference, want) for want in verdicts]
    texts = {"margin": percent(LEAST_SHARE, 0), "item": item, "bare": item.removeprefix("the ")}
    return say.table("wants", rows, anchor="wants", **texts)


# --- Goal-directedness ----------------------------------------------------------------------------
def directedness_chart(agents: Sequence[Directedness], name: str) -> Figure:
    """Draw the goal-directedness of all agents in the same axes."""
    lines = [label_agent(agent, agents) + " (ref.)" * agent.reference for agent in agents]
    texts = {"item": item_of(agents), "nats": agents[0].goal.nats}
    return say.dots("explained_picture", name, lines, agents, **texts)


def directedness_sentences(agents: Sequence[Directedness], agent: str) -> list[str]:
    """Return one or two sentences on the goal-directedness of one agent."""
    rows = [row for row in agents if row.agent == agent]
    if len(rows) == 1:
        out = [say.sentence("found_goal", "share", goal=rows[0].goal)]
    else:
        each = "; ".join(say.sentence("found_goal", "under", row=row) for row in rows)
        out = [say.sentence("found_goal", "each", each=each)]
    # Where nothing lies about, or no fit could be made, there is no wish beside the goal.
    asked = [row for row in rows if row.thing is not None and row.difference is not None]
    if len(asked) > 1:
        winners = [row.larger for row in asked]
        counts = [f"{text} in {winners.count(w)}" for w, text in WISHES.items() if w in winners]
        texts = {"item": item_of(agents), "counts": ", ".join(counts) or "either in none"}
        numbers = {"asked": len(asked), "unclear": winners.count(None)}
        out.append(say.sentence("found_goal", "winners", **texts, **numbers))
    elif asked:
        row = asked[0]
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
    notes = [f"Answers that were no action count as not explained: {counts}."] if silent else []
    rows = [
        (label_agent(agent, agents), agent, WISHES.get(agent.larger or "", OPEN))
        for agent in agents
    ]
    goal = say.table("goal", rows, anchor=anchor, notes=notes)
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
