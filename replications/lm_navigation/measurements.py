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
from goalmeter.statistics import (
    Estimate,
    Verdict,
    difference,
    estimate,
    share_interval,
    verdict,
    words,
)
from replications import ledger
from replications.kinds import Interval, ProgressCallback
from replications.prose import Texts, plain

say = Texts("lm_navigation")
AGENTS = ("optimal", "greedy", "random", "epsilon-optimal", "wall-follower", "key-seeker")
LEDGER_PREFIX = "lm-navigation/"
LANGUAGE_MODEL = "gpt-oss-20b"
COMPASS = "greedy"
EVERY_CELL = "every-cell"
SIZES, COMPLEXITIES = (7, 9, 11, 13, 15), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)  # of the paper
GRIDS, KEY_WORLDS_A_GRID = 10, 10  # of a size and complexity; worlds with a key for each of them
FRAMES = {"reflect": "Reflection", "rotate": "Rotation", "transpose": "Transpose", "swap": "Swap"}
KINDS = {
    (size, complexity): f"{EVERY_CELL}/{size}/{complexity:g}"
    for size in SIZES
    for complexity in COMPLEXITIES
}

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
) -> dict[str, Any]:
    """Return the numbers of one agent in one suite, as JSON values; a trial."""
    if name == EVERY_CELL:
        return plain(every_cell(agent, grids, seed))  # type: ignore[no-any-return]
    options = _paper(name, grids, trajectories, seed)
    return plain(of_result(measure(agent, name, beside=[], **options)))  # type: ignore[no-any-return]


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
        if table.towards_key is not None:
            out[f"{name}/towards_key"] = table.towards_key.share_by_walk
            out[f"{name}/towards_key_pooled"] = table.towards_key.share
            out[f"{name}/towards_key_chance"] = table.towards_key.chance_of_kind
    for paths in [paths for paths in result.two_paths if paths.thing == "key"][:1]:
        out[f"{name}/success_without_key"] = paths.without_key.success
    for frame in result.frames.frames if result.frames is not None else ():
        for test in frame.comparisons:
            if test.metric == "accuracy":
                where = f"{name}/{frame.transform}"
                out[f"{where}/difference"] = test.difference
                for p, value in (
                    ("p", test.test.p_value),
                    ("p_equivalence", test.equivalence_corrected),
                ):
                    out[f"{where}/{p}"] = Estimate(value, None, 0, 0)
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
    for kind, shares in every_cell_shares(agent, grids, seed, sizes).items():
        accuracy = estimate(shares, bounds=(0.0, 1.0))
        if kind[1] == 0 and agent == COMPASS:
            # Not by luck: in a room without walls every step nearer is a step of a shortest way.
            accuracy = replace(accuracy, interval=(1.0, 1.0))
        out[KINDS[kind]] = accuracy
    return out


def every_cell_shares(
    agent: str,
    grids: int,
    seed: int,
    sizes: Sequence[int],
    complexities: Sequence[float] = COMPLEXITIES,
) -> dict[tuple[int, float], list[float]]:
    """Return accuracy over every open cell of each grid, by size and complexity: lists of [grids].

    Nothing for an agent with memory, which has no policy over cells.
    """
    walker: Any = named(agent).in_grids()
    if not hasattr(walker, "policy"):
        return {}
    options: dict[str, Any] = {"sizes": sizes, "grids": grids, "trajectories": 1, "seed": seed}
    out: dict[tuple[int, float], list[float]] = {(s, c): [] for s in sizes for c in complexities}
    for task in suite("maze", paper=True, **options).tasks:
        kind = task.size, task.complexity
        if kind in out:
            shortest = plan(task.world)
            accuracy = exact(walker.policy(shortest), shortest, cap=1).accuracy
            # Shares that differ in their last digits only count as equal.
            out[kind].append(float(np.round(accuracy, 12)))
    return out


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Return the values of ledger rows lm-navigation/AGENT/QUANTITY, shares in percent."""
    parts: dict[tuple[str, ...], dict[str, Any]] = {}
    out = {}
    for row in ids:
        agent, _, quantity = row.removeprefix(LEDGER_PREFIX).partition("/")
        name, size, *_ = (*quantity.split("/"), "")
        # One size at a time is enough of the exact protocol.
        part = (agent, name, size) if name == EVERY_CELL else (agent, name)
        if part not in parts:
            parts[part] = (
                plain(every_cell(agent, sizes=[int(size)]))
                if name == EVERY_CELL
                else in_suite(agent, name)
            )
        if quantity not in parts[part]:
            raise InvalidParameterError(
                f"ledger row {row!r}: expected {LEDGER_PREFIX}AGENT/QUANTITY with QUANTITY one of "
                f"{', '.join(parts[part])}"
            )
        # Shares are in percent in the ledger, p-values are not.
        scale = 1.0 if quantity.endswith("/p") else 100.0
        out[row] = scale * float(parts[part][quantity]["value"])
    return out


def checked_agents(names: str | None) -> tuple[str, ...]:
    """Return names with commas between them; all reference agents if none are given."""
    spelled = AGENTS if names is None else [name.strip() for name in names.split(",")]
    out = tuple(dict.fromkeys(named(name).in_grids().name for name in spelled))
    if missing := [name for name in ("optimal", "greedy") if name not in out]:
        raise InvalidParameterError(
            f"agents is {names!r}, expected {' and '.join(missing)} among them: the published "
            f"numbers are compared with optimal and greedy"
        )
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
        for share in every_cell_shares(COMPASS, grids, seed, [size], [complexity])[size, complexity]
    ]


def interval_of_mean(mean: float, rounding: float, n: int, alike: ArrayLike) -> Interval:
    """Return the 95% interval of a published mean of n shares, by how much others vary.

    Args:
        mean: published, in [0, 1].
        rounding: half a unit of its last digit.
        n: what it is the mean of.
        alike: shares whose spread stands for that of the n; without any spread, the largest that
            a share with this mean can have does.

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
def published() -> dict[str, ledger.Number]:
    """Return the published numbers, by quantity; those with a standard error of their own first."""
    # A quantity has a row for each agent of ours that it stands beside; the first one is kept.
    out: dict[str, ledger.Number] = {}
    for row in sorted(ledger.load(LEDGER_PREFIX), key=lambda row: row.relation != "estimate"):
        _, _, quantity = row.id.removeprefix(LEDGER_PREFIX).partition("/")
        out.setdefault(quantity, row)
    out["key-no-door/towards_key"] = out["key-no-door/towards_key_chance"]
    return out


def beside(number: ledger.Number, ours: Estimate) -> ledger.Number:
    """Return a published share as a row beside what an agent of ours has, in percent.

    The interval of the published share is the ledger's, of this run only ours is.
    """
    interval = ours.interval
    return replace(
        number,
        relation="reference",
        ours=100 * ours.value,
        interval=None if interval is None else (100 * interval[0], 100 * interval[1]),
        seeds=ours.clusters,
    )


def beside_the_compass(references: Agents, quantities: Iterable[str]) -> list[ledger.Number]:
    """Return the published shares beside those of the compass."""
    theirs = published()
    return [beside(theirs[name], references[COMPASS][name]) for name in quantities]


def counted(rows: Iterable[ledger.Number]) -> str:
    """Return how many verdicts there are of each kind: "above it in 2, below it in 1, ..."."""
    count = Counter(row.counted.removesuffix(" the reference") for row in rows)
    return (
        f"above it in {count[Verdict.ABOVE]}, below it in {count[Verdict.BELOW]}, equal within 5 "
        f"points in {count[Verdict.EQUAL]}, and in {count[Verdict.UNTOLD]} it cannot be told"
    )


def difference_points(row: ledger.Number) -> str:
    """Return the published share less ours, points, with its interval."""
    value = row.theirs - row.ours
    return with_interval(value, row.difference_interval(row.theirs))


def with_interval(value: float, interval: Interval | None) -> str:
    """Return a difference in points with its interval, as tables print it."""
    if interval is None:
        return plus(value, 1)
    return f"{plus(value, 1)} [{', '.join(plus(end, 1) for end in interval)}]"


# --- Findings -------------------------------------------------------------------------------------
def findings(references: Agents) -> list[str]:
    """Return what the published numbers show, given the baselines."""
    return [
        _compass(references),
        _pick_up(references),
        _towards(references),
        _two_paths(),
        _successes(),
        _same_frames(references),
    ]


def _compass(references: Agents) -> str:
    parts = []
    for sizes in ((7, 9), (11,), (13, 15)):
        keys = [key for (size, _), key in KINDS.items() if size in sizes]
        verdicts = counted(beside_the_compass(references, keys))
        name = f"size{'s' * (len(sizes) > 1)} {' and '.join(map(str, sizes))}"
        parts.append(f"at {name} the model is {verdicts}, of {len(keys)} kinds of grids")
    return say.line("compass", parts="; ".join(parts))


def _pick_up(references: Agents) -> str:
    chance = "key-no-door/pick_up_chance"
    number = beside(published()[chance], references["optimal"][chance])
    in_words = {
        "above the reference": "more often than by chance",
        "below the reference": "less often than by chance",
    }
    return say.line(
        "pick_up",
        published=number.published,
        ours=f"{number.ours:.2f}",
        difference=difference_points(number),
        verdict=in_words.get(number.verdict, number.verdict),
    )


def _towards(references: Agents) -> str:
    by_chance = [
        f"{100 * references[name]['key-no-door/towards_key_chance'].value:.1f}% of those of {name}"
        for name in ("epsilon-optimal", "random", "greedy")
        if name in references
    ]
    number = published()["key-no-door/towards_key"]
    return say.line("towards", published=number.published, chance=", ".join(by_chance))


def _two_paths() -> str:
    from scipy.stats import binomtest

    number = published()["two-path/pick_up"]
    # The count is not published; the share and the number of pairs leave one that fits.
    n = number.published_seeds
    taken = round(number.published_value / 100 * n)
    p = f"{binomtest(taken, n).pvalue:.4f}"
    return say.line("two_paths", published=number.published, taken=taken, n=n, p=p)


def _successes() -> str:
    theirs = published()
    with_key, without = (theirs[f"two-path/{name}"] for name in ("success", "success_without_key"))
    # Both shares are printed rounded; the counts that they come from are told by the pairs.
    shares, intervals = [], []
    for number in (with_key, without):
        reached = round(number.published_value / 100 * number.published_seeds)
        low, high = share_interval(reached, number.published_seeds)
        shares.append(100 * reached / number.published_seeds)
        intervals.append((100 * low, 100 * high))
    between = difference(shares[0], intervals[0], shares[1], intervals[1])
    margin = with_key.margin
    within, unit = (0.0, "") if margin is None else (margin.within, margin.unit)
    return say.line(
        "successes",
        with_key=with_key.published,
        without=without.published,
        difference=with_interval(shares[0] - shares[1], between),
        verdict=words(verdict(between, within), within, unit),
    )


def _same_frames(references: Agents) -> str:
    greedy = references[COMPASS]
    ps = [greedy[f"isometries/{frame}/p"].value for frame in FRAMES]
    same = sum(greedy[f"isometries/{f}/p_equivalence"].value < 0.05 for f in FRAMES)
    # NaN: nothing differs between the frames, and Wilcoxon's test cannot be made.
    known = [p for p in ps if not math.isnan(p)]
    return say.line(
        "same_frames",
        tested=f"its smallest p-value is {min(known):.3f}" if known else "it cannot be made",
        same=same,
        frames=len(FRAMES),
        end=": being robust to frames does not take a plan." if same else ".",
    )
