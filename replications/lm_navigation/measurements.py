"""Estimate the paper's numbers for baseline agents and any run, and compare them.

Names of numbers are SUITE/QUANTITY, and in mazes SUITE/SIZE/COMPLEXITY/QUANTITY. "every-cell" is
the older protocol of the published table by size and complexity: the agent is put on every open
cell once. It is computed exactly, which takes an agent without memory.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from goalmeter import InvalidParameterError
from goalmeter.agents import agent as named
from goalmeter.gridworld import plan
from goalmeter.navigation import SUITES, Navigation, exact, load, measure, suite, suite_named
from goalmeter.report import plus
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.statistics import Estimate, difference, estimate, share_interval, verdict, words
from replications import ledger
from replications.kinds import Interval, ProgressCallback
from replications.ledger import Number
from replications.prose import Texts, plain

say = Texts("lm_navigation")
AGENTS = ("optimal", "greedy", "random", "epsilon-optimal", "wall-follower", "key-seeker")
LEDGER_PREFIX = "lm-navigation/"
COMPASS, EVERY_CELL = "greedy", "every-cell"
SIZES, COMPLEXITIES = (7, 9, 11, 13, 15), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the paper
GRIDS, KEY_WORLDS_A_GRID = 10, 10  # of a size and complexity; worlds with a key for each of them
FRAMES = {"reflect": "Reflection", "rotate": "Rotation", "transpose": "Transpose", "swap": "Swap"}
KINDS = {(size, c): f"{EVERY_CELL}/{size}/{c:g}" for size in SIZES for c in COMPLEXITIES}

Estimates = dict[str, Estimate]
Agents = Mapping[str, Estimates]


# --- Compute --------------------------------------------------------------------------------------
def of_agents(
    agents: Sequence[str],
    *,
    grids: int = GRIDS,
    trajectories: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: ProgressCallback | None = None,
) -> dict[str, Estimates]:
    """Return every number of every agent, at the paper's scale.

    `grids` are of each size and complexity, and there are ten times as many worlds with a key;
    `trajectories` are walks through each, None for the paper's.
    """
    parts = [(agent, name) for name in (*SUITES, EVERY_CELL) for agent in agents]
    # The longest ones first, so that no process has one left when the others are through.
    parts.sort(key=lambda part: part[1] != "isometries")
    study = Study[Estimates](
        "lm-navigation",
        f"{__name__}:in_suite",
        {f"{agent} in {name}": {"agent": agent, "name": name} for agent, name in parts},
        common={"grids": grids, "trajectories": trajectories, "seed": seed},
        noun="part",
        from_json=lambda key, value: {n: Estimate.from_json(each) for n, each in value.items()},
    )
    out: dict[str, Estimates] = {agent: {} for agent in agents}
    of_parts = carry_out(study, on=on, progress=progress).values()
    for (agent, _), of_part in zip(parts, of_parts, strict=True):
        out[agent] |= of_part
    return out


def walks(agents: Sequence[str], grids: int, seed: int) -> int:
    """Count the walks of `of_agents`; all agents have the same worlds."""
    return len(agents) * sum(len(suite(n, **_paper(n, grids, None, seed))) for n in SUITES)


def _paper(name: str, grids: int, trajectories: int | None, seed: int) -> dict[str, Any]:
    """The options of a suite at the paper's scale."""
    worlds = grids if suite_named(name).has_complexity else grids * KEY_WORLDS_A_GRID
    return {"paper": True, "grids": worlds, "trajectories": trajectories, "seed": seed}


def of_run(folder: str | Path) -> tuple[str, Estimates]:
    """Return the agent of a navigation run, and its numbers."""
    result = load(folder, beside=[])
    # Beside a published share of walks that took a key, one that took a neutral object misleads.
    if result.plan.options.objects == ("neutral",):
        raise InvalidParameterError(
            f"{folder} has worlds with a neutral object only, and the published ones have keys; "
            f"choose a run with keys"
        )
    return result.agent, of_result(result)


def in_suite(
    agent: str, name: str, *, grids: int = GRIDS, trajectories: int | None = None, seed: int = 0
) -> Any:
    """Return the numbers of one agent in one suite, as JSON values; a trial."""
    if name == EVERY_CELL:
        return plain(every_cell(agent, grids, seed))
    return plain(
        of_result(measure(agent, name, beside=[], **_paper(name, grids, trajectories, seed)))
    )


def of_result(result: Navigation) -> Estimates:
    """Return the numbers that were measured of an agent in a suite."""
    name, overall = result.plan.suite.name, result.overall[0]
    shown = ("success", "accuracy", "accuracy_detour")
    out = {f"{name}/{each}": getattr(overall, each) for each in (*shown, "spl", "invalid")}
    for cell in result.cells if name == "maze" else ():
        where = f"{name}/{cell.size}/{cell.complexity:g}"
        out |= {f"{where}/{quantity}": getattr(cell, quantity) for quantity in shown}
    # A run may have neutral objects beside keys; the published numbers are of keys.
    for table in [table for table in result.keys if table.thing == "key"][:1]:
        out[f"{name}/pick_up"] = table.pick_up.rate
        out[f"{name}/pick_up_chance"] = _chance_of_key(result)
        if (towards := table.towards_key) is not None:
            out[f"{name}/towards_key"] = towards.share_by_walk
            out[f"{name}/towards_key_pooled"] = towards.share
            out[f"{name}/towards_key_chance"] = towards.chance_of_kind
    for paths in [paths for paths in result.two_paths if paths.thing == "key"][:1]:
        out[f"{name}/success_without_key"] = paths.without_key.success
    for frame in result.frames.frames if result.frames is not None else ():
        where = f"{name}/{frame.transform}"
        for test in frame.comparisons:
            if test.metric == "accuracy":
                out[f"{where}/difference"] = test.difference
                out[f"{where}/p"] = Estimate(test.test.p_value, None, 0, 0)
                out[f"{where}/p_equivalence"] = Estimate(test.equivalence_corrected, None, 0, 0)
    return out


def _chance_of_key(result: Navigation) -> Estimate:
    """How often an agent that takes the shortest ways passes the key: exact in each world."""
    size = result.plan.what["sizes"][0]
    walker: Any = named("optimal").in_grids()
    walks = {
        walk.seed: walk
        for walk in result.seen.trajectories
        if walk.world.key is not None and walk.size == size
    }
    chances = [
        exact(walker.policy(shortest), shortest, cap=walk.cap).key
        for walk in walks.values()
        for shortest in [plan(walk.world)]
    ]
    return estimate(np.round(chances, 12), bounds=(0.0, 1.0))


def every_cell(
    agent: str, grids: int = GRIDS, seed: int = 0, sizes: Sequence[int] = SIZES
) -> Estimates:
    """Estimate accuracy over every open cell of the mazes; nothing for an agent with memory."""
    out = {}
    for kind, shares in _every_cell_shares(agent, grids, seed, sizes, COMPLEXITIES).items():
        accuracy = estimate(shares, bounds=(0.0, 1.0))
        if kind[1] == 0 and agent == COMPASS:
            # Not by luck: in a room without walls every step nearer is a step of a shortest way.
            accuracy = replace(accuracy, interval=(1.0, 1.0))
        out[KINDS[kind]] = accuracy
    return out


def _every_cell_shares(
    agent: str, grids: int, seed: int, sizes: Sequence[int], complexities: Sequence[float]
) -> dict[tuple[int, float], list[float]]:
    """Return accuracy over every open cell of each grid, by size and complexity: lists of [grids].

    Nothing for an agent with memory, which has no policy over cells.
    """
    walker: Any = named(agent).in_grids()
    if not hasattr(walker, "policy"):
        return {}
    out: dict[tuple[int, float], list[float]] = {(s, c): [] for s in sizes for c in complexities}
    mazes = suite("maze", paper=True, sizes=sizes, grids=grids, trajectories=1, seed=seed)
    for task in mazes.tasks:
        kind = task.size, task.complexity
        if kind in out:
            shortest = plan(task.world)
            accuracy = exact(walker.policy(shortest), shortest, cap=1).accuracy
            # Shares that differ in their last digits only count as equal.
            out[kind].append(float(np.round(accuracy, 12)))
    return out


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Return the values of ledger rows lm-navigation/AGENT/QUANTITY, shares in percent."""
    parts: dict[tuple[str, ...], Any] = {}
    out = {}
    for row in ids:
        agent, _, quantity = row.removeprefix(LEDGER_PREFIX).partition("/")
        name, size, *_ = (*quantity.split("/"), "")
        # One size at a time is enough of the exact protocol.
        part = (agent, name, size) if name == EVERY_CELL else (agent, name)
        if part not in parts and name == EVERY_CELL:
            parts[part] = plain(every_cell(agent, sizes=[int(size)]))
        elif part not in parts:
            parts[part] = in_suite(agent, name)
        # Shares are in percent in the ledger, p-values are not.
        scale = 1.0 if quantity.endswith("/p") else 100.0
        out[row] = scale * float(parts[part][quantity]["value"])
    return out


# --- Spread of published means --------------------------------------------------------------------
# The authors give a mean over some ten grids of a kind and not how grids differ. How grids of that
# kind differ can be seen in the compass, which walks through ours: its standard deviation over many
# grids stands for the model's. (Where the authors say more, it fits: at size 11 and complexity 0.8
# their grids go from 59% to 87%, which ten draws with a standard deviation of about 9 points do;
# the compass has about 10.) Nor can a share with mean p vary by more than √(p (1 − p)).


def compass_shares(size: int, complexity: float, grids: int = 10) -> list[float]:
    """Return accuracy of the compass on grids of a kind, of four seeds, on every open cell."""
    return [
        share
        for seed in range(4)
        for shares in _every_cell_shares(COMPASS, grids, seed, [size], [complexity]).values()
        for share in shares
    ]


def interval_of_mean(mean: float, rounding: float, n: int, alike: ArrayLike) -> Interval:
    """Return the 95% interval of a published mean of n shares, by how much others, `alike`, vary.

    `rounding` is half a unit of the mean's last digit. Where the others do not vary, the spread is
    the largest that a share with this mean can have.

    Example: ten shares around 0.8 that vary like 0.7 and 0.9; t at 97.5% is 2.262.
        >>> [round(end, 3) for end in interval_of_mean(0.8, 0.0005, 10, [0.7, 0.9] * 20)]
        [0.728, 0.872]
    """
    if n < 2:
        raise InvalidParameterError(f"n is {n}, expected at least 2, for an interval of a mean")
    from scipy.stats import t

    # A mean that was printed as 1 may have been a little less.
    inner = min(max(mean, rounding), 1 - rounding)
    most = math.sqrt(inner * (1 - inner))
    spread = float(np.std(np.asarray(alike, dtype=float), ddof=1))
    deviation = min(spread, most) if spread > 0 else most
    half = float(t.ppf((1 + 0.95) / 2, n - 1)) * deviation / math.sqrt(n)
    return (max(mean - half, 0.0), min(mean + half, 1.0))


# --- Published numbers beside ours ----------------------------------------------------------------
def published() -> dict[str, Number]:
    """Return the published numbers, by quantity; those with a standard error of their own first."""
    # A quantity has a row for each agent of ours that it stands beside; the first one is kept.
    out: dict[str, Number] = {}
    for row in sorted(ledger.load(LEDGER_PREFIX), key=lambda row: row.relation != "estimate"):
        _, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
        out.setdefault(quantity, row)
    out["key-no-door/towards_key"] = out["key-no-door/towards_key_chance"]
    return out


def beside(number: Number, ours: Estimate) -> Number:
    """Return a published share as a row beside what an agent of ours has, in percent.

    The interval of the published share is the ledger's, of this run only ours is.
    """
    ends = ours.interval
    interval = None if ends is None else (100 * ends[0], 100 * ends[1])
    of = {"ours": 100 * ours.value, "interval": interval, "seeds": ours.clusters}
    return replace(number, relation="reference", **of)


def beside_the_compass(references: Agents, quantities: Iterable[str]) -> list[Number]:
    """Return the published shares beside those of the compass."""
    theirs = published()
    return [beside(theirs[name], references[COMPASS][name]) for name in quantities]


def counted(rows: Iterable[Number]) -> str:
    """Return how many verdicts there are of each kind: "above it in 2, below it in 1, ..."."""
    return say.line("counted", n=Counter(r.counted.removesuffix(" the reference") for r in rows))


def difference_points(row: Number) -> str:
    """Return the published share less ours, points, with its interval."""
    return _with_interval(row.theirs - row.ours, row.difference_interval(row.theirs))


def _with_interval(value: float, interval: Interval | None) -> str:
    ends = f" [{', '.join(plus(end, 1) for end in interval)}]" if interval else ""
    return plus(value, 1) + ends


# --- Findings -------------------------------------------------------------------------------------
def findings(references: Agents) -> list[str]:
    """Return what the published numbers show, given the baselines."""
    theirs, chance = published(), "key-no-door/pick_up_chance"
    number = beside(theirs[chance], references["optimal"][chance])
    verdicts = say.declared("pick_up_verdicts")
    pick_up = {
        "difference": difference_points(number),
        "verdict": verdicts.get(number.verdict, number.verdict),
    }
    erring = ", ".join(
        say.line("erring", name=name, share=100 * references[name][f"{towards}_chance"].value)
        for towards in ["key-no-door/towards_key"]
        for name in ("epsilon-optimal", "random", "greedy")
        if name in references
    )
    return [
        _compass(references),
        say.line("pick_up", number=number, **pick_up),
        say.line("towards", number=theirs["key-no-door/towards_key"], chance=erring),
        _two_paths(theirs["two-path/pick_up"]),
        _successes(theirs["two-path/success"], theirs["two-path/success_without_key"]),
        _same_frames(references[COMPASS]),
    ]


def _compass(references: Agents) -> str:
    parts = []
    for sizes in ((7, 9), (11,), (13, 15)):
        keys = [key for (size, _), key in KINDS.items() if size in sizes]
        name = f"size{'s' * (len(sizes) > 1)} {' and '.join(map(str, sizes))}"
        verdicts = counted(beside_the_compass(references, keys))
        parts.append(say.line("compass_part", name=name, verdicts=verdicts, kinds=len(keys)))
    return say.line("compass", parts="; ".join(parts))


def _count(number: Number) -> int:
    """The count behind a share: not published, but shares are rounded, and one count fits."""
    return round(number.published_value / 100 * number.published_seeds)


def _two_paths(number: Number) -> str:
    from scipy.stats import binomtest

    taken = _count(number)
    p = binomtest(taken, number.published_seeds).pvalue
    return say.line("two_paths", number=number, taken=taken, p=p)


def _successes(with_key: Number, without: Number) -> str:
    shares, intervals = [], []
    for number in (with_key, without):
        low, high = share_interval(_count(number), number.published_seeds)
        shares.append(100 * _count(number) / number.published_seeds)
        intervals.append((100 * low, 100 * high))
    between = difference(shares[0], intervals[0], shares[1], intervals[1])
    margin = with_key.margin
    within, unit = (0.0, "") if margin is None else (margin.within, margin.unit)
    return say.line(
        "successes",
        with_key=with_key,
        without=without,
        difference=_with_interval(shares[0] - shares[1], between),
        verdict=words(verdict(between, within), within, unit),
    )


def _same_frames(compass: Estimates) -> str:
    ps = [compass[f"isometries/{frame}/p"].value for frame in FRAMES]
    same = sum(compass[f"isometries/{f}/p_equivalence"].value < 0.05 for f in FRAMES)
    # NaN: nothing differs between the frames, and Wilcoxon's test cannot be made.
    known = [p for p in ps if not math.isnan(p)]
    tested = f"its smallest p-value is {min(known):.3f}" if known else "it cannot be made"
    end = ": being robust to frames does not take a plan." if same else "."
    return say.line("same_frames", tested=tested, same=same, frames=len(FRAMES), end=end)
