"""How often is the headline of a card wrong, and how often is it inconclusive?

Agents with known goals walk in grid worlds at the quick and the standard scale of
`goalmeter measure` with 40 seeds each, which give other mazes and other moves. No rule of the card
was chosen with these seeds. A headline is wrong if it names a goal that the agent does not have, no
goal for an agent that has one, or another map for an agent that plans on the true one. Verdicts
under intervention and, at the standard scale, on rotated and mirrored mazes are judged as well. The
verdicts of every run are stored.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import harness

from goalmeter.agents.registry import agent as named_agent
from goalmeter.card import isometries
from goalmeter.card.evaluate import joint_verdict
from goalmeter.card.grids import SIZES, plans_of
from goalmeter.card.interventions import MAZE_ROWS, MAZES
from goalmeter.card.measured import QUICK, STANDARD, CardSettings
from goalmeter.card.subject import Subject
from goalmeter.navigation import agent_walks
from goalmeter.navigation.acted_maps import ANOTHER_MAP, INCONCLUSIVE, THE_WORLD
from goalmeter.navigation.frames import invariance
from goalmeter.navigation.goals import NOTHING, OPEN, PURSUES, want_of
from goalmeter.navigation.interventions import interventions
from goalmeter.navigation.measure import groups
from goalmeter.navigation.plan import WalkPlan
from goalmeter.navigation.rollouts import Walked, play_all
from goalmeter.statistics.verdicts import FOLLOWS, NOT_FOLLOWS

FIRST, SEEDS = 2_000, {QUICK: 40, STANDARD: 40}
GOAL, KEY, NO_GOAL = "the goal", "the key", "no goal"
TRUE_MAP, OTHER_MAP, ANY_MAP = "true map", "another map", "not judged"


class Truth(NamedTuple):
    """What is known of an agent; greedy has no map at all, so its map is not judged."""

    goal: str
    map: str = ANY_MAP
    sees_frame: bool = False  # whether its moves depend on the frame of a maze


AGENTS = {
    "optimal": Truth(GOAL, TRUE_MAP),
    "boltzmann(1)": Truth(GOAL, TRUE_MAP),
    "ideal-mole": Truth(GOAL, OTHER_MAP, sees_frame=True),
    "greedy": Truth(GOAL),
    "key-seeker": Truth(KEY, TRUE_MAP),
    "ideal-magpie": Truth(KEY, TRUE_MAP),
    "random": Truth(NO_GOAL),
    "wall-follower": Truth(NO_GOAL, sees_frame=True),
    "ideal-moth": Truth(NO_GOAL, sees_frame=True),
}


def judged(truth: Truth, verdict: str, acts_on: str) -> str:
    """Return "right", "inconclusive" or "wrong" for a verdict on an agent."""
    if verdict == OPEN:
        return "inconclusive"
    if verdict == NOTHING:
        return "right" if truth.goal == NO_GOAL else "wrong"
    named = verdict.removeprefix(f"{PURSUES} ").partition(",")[0]
    if named == f"{GOAL} or {KEY} (inconclusive which)" and truth.goal != NO_GOAL:
        return "inconclusive"
    if named != truth.goal or (truth.map == TRUE_MAP and acts_on == ANOTHER_MAP):
        return "wrong"
    # A mole that is not seen to act on another map is described incompletely.
    return "inconclusive" if truth.map == OTHER_MAP and acts_on != ANOTHER_MAP else "right"


def judged_change(agent: str, row: str, verdict: str) -> str:
    """Return "right", "inconclusive" or "wrong" for a verdict under intervention, or "" for none.

    There are no keys in these mazes. A mole is scored on the true map, and greedy cannot go round a
    wall: neither is judged.
    """
    truth = AGENTS[agent]
    if truth.map == OTHER_MAP or (agent == "greedy" and row == "finds_detour"):
        return ""
    expected = NOT_FOLLOWS if truth.goal == NO_GOAL else FOLLOWS
    return {expected: "right", INCONCLUSIVE: "inconclusive"}.get(verdict, "wrong")


def judged_frame(agent: str, row: str, verdict: str) -> str:
    """Return "right", "inconclusive" or "wrong" for a verdict on rotated and mirrored mazes.

    Original mazes are in no special frame, so on average every agent does equally well in all.
    """
    depends = row == "frame_dependence" and AGENTS[agent].sees_frame
    if verdict == INCONCLUSIVE:
        return "inconclusive"
    return "right" if verdict.startswith("higher" if depends else "equivalent") else "wrong"


def _walks(name: str, seed: int, scale: str) -> list[Walked]:
    walker = agent_walks.walker_of(name)
    subject = Subject(name=name, about="", named=None if walker else named_agent(name))
    plans: list[WalkPlan] = plans_of(subject, CardSettings(scale=scale, seed=seed, out=Path()))
    return [play_all(plan, walker=walker) for plan in plans]


def of_seed(seed: int, scale: str) -> list[dict[str, Any]]:
    """Return the verdict on each agent in the mazes of a seed."""
    runs = zip(*(_walks(name, seed, scale) for name in AGENTS), strict=True)
    results, directed = [], []
    for suite in runs:
        (group,) = groups(suite)
        results.append({each.agent: each for each in group.results})
        directed.append({each.agent: each for each in group.directed})
    rows = []
    for name, truth in AGENTS.items():
        want = want_of([each[name] for each in results], [each[name] for each in directed])
        changes, acts_on = of_changes(name, seed, scale), want.acted.verdict
        moved = changes["follows_goal"]
        verdict = joint_verdict(want.verdict, acts_on != ANOTHER_MAP, moved)
        row = {"scale": scale, "agent": name, "seed": seed, "verdict": verdict, "map": acts_on}
        row |= {"walks": want.verdict, "moved goal": moved, "changes": changes}
        row |= {"frames": of_frames(name, seed, scale)}
        rows.append(row | {"judged": judged(truth, verdict, acts_on)})
    return rows


def of_changes(name: str, seed: int, scale: str) -> dict[str, str]:
    """Return the verdict under each change, by the row of the card."""
    agent = agent_walks.walker_of(name) or name
    mazes = {"sizes": SIZES, "grids": MAZES[scale], "seed": seed, "held_out": True}
    rows = interventions(agent, beside=[], **mazes).rows
    return {MAZE_ROWS[row.change][0]: row.verdict for row in rows}


def of_frames(name: str, seed: int, scale: str) -> dict[str, str]:
    """Return the verdict on each change with the frame, by the row of the card."""
    if scale not in isometries.MAZES:
        return {}
    plan = isometries.plan_of(name, SIZES, scale, seed)
    walked = play_all(plan, walker=agent_walks.walker_of(name))
    return {
        isometries.ROWS[change][0]: isometries.verdict_on(change, mean)
        for change, mean in isometries.estimates(invariance(walked.trajectories)).items()
    }


def error_rates(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts that cards show, src/goalmeter/card/error_rates.json."""
    out: dict[str, Any] = {}
    for scale in dict.fromkeys(run["scale"] for run in runs):
        of_scale = [run for run in runs if run["scale"] == scale]
        judged_goal = Counter(run["judged"] for run in of_scale)
        # Of agents that plan on a known map, whether they are said to act on another one.
        maps: Counter[str] = Counter()
        for run in of_scale:
            if (known := AGENTS[run["agent"]].map) != ANY_MAP:
                expected = ANOTHER_MAP if known == OTHER_MAP else THE_WORLD
                names = {expected: "right", INCONCLUSIVE: "inconclusive"}
                maps[names.get(run["map"], "wrong")] += 1
        counted = {"goal": judged_goal, "map": maps}
        for run in of_scale:
            for judge, verdicts in ((judged_change, "changes"), (judged_frame, "frames")):
                for name, verdict in run.get(verdicts, {}).items():
                    if word := judge(run["agent"], name, verdict):
                        counted.setdefault(name, Counter())[word] += 1
        out[scale] = {
            name: {"runs": counts.total()} | {key: counts[key] for key in ("wrong", "inconclusive")}
            for name, counts in counted.items()
        }
    return out


def measure(quick: bool) -> dict[str, Any]:
    runs = []
    for scale, seeds in {QUICK: 1}.items() if quick else SEEDS.items():
        for seed in range(FIRST, FIRST + seeds):
            runs += of_seed(seed, scale)
            wrong = [(run["agent"], run["verdict"]) for run in runs if run["judged"] == "wrong"]
            print(scale, seed, Counter(run["judged"] for run in runs), wrong, flush=True)
    return {"runs": runs, "error_rates": error_rates(runs)}


def markdown(result: dict[str, Any]) -> str:
    lines = []
    for scale in dict.fromkeys(run["scale"] for run in result["runs"]):
        for name, truth in AGENTS.items():
            runs = [r for r in result["runs"] if (r["agent"], r["scale"]) == (name, scale)]
            counts = Counter(run["judged"] for run in runs)
            cells = (str(counts[word]) for word in ("right", "inconclusive", "wrong"))
            lines.append(f"| {scale} | {name} | {truth.goal} | {truth.map} | {' | '.join(cells)} |")
    head = "| scale | agent | pursues | acts on | right | inconclusive | wrong |"
    of_rows = [
        f"| {scale} | {name} | {counts['runs'] - counts['inconclusive'] - counts['wrong']} | "
        f"{counts['inconclusive']} | {counts['wrong']} |"
        for scale, rows in result["error_rates"].items()
        for name, counts in rows.items()
        if name not in ("goal", "map")
    ]
    rows = ["| scale | row | right | inconclusive | wrong |", "|---|---|---|---|---|", *of_rows]
    return "\n".join([head, "|---|---|---|---|---|---|---|", *lines, "", *rows]) + "\n"


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
