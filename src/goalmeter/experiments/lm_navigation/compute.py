"""What the paper measured, of reference agents and of any run: a number for each name.

Names are SUITE/QUANTITY, and in mazes SUITE/SIZE/COMPLEXITY/QUANTITY. "every-cell" is the older
protocol of the published table by size and complexity: the agent is put on every open cell once.
It is computed exactly, which takes an agent without memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.navigators import Memoryless, navigator, planned
from goalmeter.navigation.measures import exact
from goalmeter.navigation.measures.keys import chance_of_passing
from goalmeter.navigation.plan import WalkPlan, plan_of
from goalmeter.navigation.playing import load, play_all
from goalmeter.navigation.result import Navigation, navigation_of
from goalmeter.navigation.suites import isometries, maze
from goalmeter.navigation.suites.maze import PAPER_COMPLEXITIES, PAPER_SIZES
from goalmeter.navigation.suites.options import KEY, NEUTRAL
from goalmeter.navigation.suites.registry import SUITES, suite_named
from goalmeter.navigation.suites.tasks import suite
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.runs.forecast import Forecast, unmeasured
from goalmeter.runs.progress import Tell
from goalmeter.statistics.clustered import Estimate, estimate

AGENTS = ("optimal", "greedy", "random", "epsilon-optimal", "wall-follower", "key-seeker")
LEDGER_PREFIX = "lm-navigation/"
LANGUAGE_MODEL = "gpt-oss-20b"
COMPASS = "greedy"
EVERY_CELL = "every-cell"
GRIDS, KEY_WORLDS_A_GRID = 10, 10  # of a size and complexity; worlds with a key for each of them

Estimates = dict[str, Estimate]
_IN_SUITE = "goalmeter.experiments.lm_navigation.compute:in_suite"


def of_agents(
    agents: Sequence[str],
    *,
    grids: int = GRIDS,
    trajectories: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Tell | None = None,
) -> dict[str, Estimates]:
    """Every number of every agent, at the paper's scale.

    `grids` are of each size and complexity, and there are ten times as many worlds with a key;
    `trajectories` are walks through each, None for the paper's. `on` does not change a number.
    """
    parts = _parts(agents)
    of_parts = carry_out(_study(parts, grids, trajectories, seed), on=on, progress=progress)
    out: dict[str, Estimates] = {agent: {} for agent in agents}
    for (agent, _), of_part in zip(parts, of_parts.values(), strict=True):
        out[agent] |= of_part
    return out


def forecast(agents: Sequence[str], *, grids: int, seed: int, on: str) -> Forecast:
    """How much `of_agents` will do, which keeps nothing before its end."""
    # All agents have the same worlds; in every cell they are put, and do not walk.
    walks = sum(len(_planned(agents[0], name, grids, None, seed).keys()) for name in SUITES)
    return unmeasured(
        _study(_parts(agents), grids, None, seed),
        "a part is all walks of an agent in a suite and what is measured of them: how long one "
        "takes is not known from another; nothing is kept before the last one is finished",
        on=on,
        counted={"walks": len(agents) * walks},
    )


def _parts(agents: Sequence[str]) -> list[tuple[str, str]]:
    parts = [(agent, name) for name in (*SUITES, EVERY_CELL) for agent in agents]
    # The longest ones first, so that no process has one left when the others are through.
    return sorted(parts, key=lambda part: part[1] != isometries.SUITE.name)


def _study(
    parts: Sequence[tuple[str, str]], grids: int, trajectories: int | None, seed: int
) -> Study[Estimates]:
    return Study(
        "lm-navigation",
        _IN_SUITE,
        {f"{agent} in {name}": {"agent": agent, "name": name} for agent, name in parts},
        common={"grids": grids, "trajectories": trajectories, "seed": seed},
        noun="part",
        from_json=_from_json,
    )


def _planned(agent: str, name: str, grids: int, trajectories: int | None, seed: int) -> WalkPlan:
    """The walks of an agent in a suite."""
    worlds = grids if suite_named(name).has_complexity else grids * KEY_WORLDS_A_GRID
    options: dict[str, Any] = {"grids": worlds, "trajectories": trajectories, "seed": seed}
    return plan_of(navigator(agent).name, name, paper=True, **options)


def of_run(folder: str | Path) -> tuple[str, Estimates]:
    """The agent of a navigation run, and its numbers."""
    walked = load(folder)
    # Beside a published share of walks that took a key, one that took a neutral object misleads.
    if walked.plan.options.objects == (NEUTRAL,):
        raise InvalidParameterError(
            f"{folder} has worlds with a neutral object only, and the published ones have keys; "
            f"choose a run with keys"
        )
    return walked.plan.agent, of_result(navigation_of(walked))


def in_suite(
    agent: str, name: str, *, grids: int = GRIDS, trajectories: int | None = None, seed: int = 0
) -> dict[str, Any]:
    """The numbers of one agent in one suite, as JSON values; what a worker process does."""
    if name == EVERY_CELL:
        of_agent = every_cell(agent, grids, seed)
    else:
        plan = _planned(agent, name, grids, trajectories, seed)
        of_agent = of_result(navigation_of(play_all(plan)))
    return {key: value.to_json() for key, value in of_agent.items()}


def of_result(result: Navigation) -> Estimates:
    """The numbers that were measured of an agent in a suite."""
    name, row = result.plan.suite.name, result.overall[0]
    out = {
        f"{name}/{quantity}": getattr(row, quantity)
        for quantity in ("success", "accuracy", "accuracy_detour", "spl", "invalid")
    }
    if name == maze.SUITE.name:
        for cell in result.cells:
            where = f"{name}/{cell.size}/{cell.complexity:g}"
            shown = ("success", "accuracy", "accuracy_detour")
            out |= {f"{where}/{quantity}": getattr(cell, quantity) for quantity in shown}
    # A run may have neutral objects beside keys; the published numbers are of keys.
    for table in [table for table in result.keys if table.thing == KEY][:1]:
        out[f"{name}/pick_up"] = table.pick_up.rate
        out[f"{name}/pick_up_chance"] = _chance_of_key(result)
        if table.towards_key is not None:
            out[f"{name}/towards_key"] = table.towards_key.share_by_walk
            out[f"{name}/towards_key_pooled"] = table.towards_key.share
            out[f"{name}/towards_key_chance"] = table.towards_key.chance_of_kind
    for paths in [paths for paths in result.two_paths if paths.thing == KEY][:1]:
        out[f"{name}/success_without_key"] = paths.without_key.success
    for frame in result.frames.frames if result.frames is not None else ():
        for test in frame.comparisons:
            if test.metric == "accuracy":
                where = f"{name}/{frame.transform}"
                out[f"{where}/difference"] = test.difference
                out[f"{where}/p"] = _without_interval(test.test.p_value)
                out[f"{where}/p_equivalence"] = _without_interval(test.equivalence_corrected)
    return out


def every_cell(
    agent: str, grids: int = GRIDS, seed: int = 0, sizes: Sequence[int] = PAPER_SIZES
) -> Estimates:
    """Accuracy over every open cell of the mazes; nothing for an agent with memory."""
    out = {}
    for (size, complexity), shares in every_cell_shares(agent, grids, seed, sizes).items():
        accuracy = estimate(shares, bounds=(0.0, 1.0))
        if complexity == 0 and agent == COMPASS:
            # Not by luck: in a room without walls every step nearer is a step of a shortest way.
            accuracy = replace(accuracy, interval=(1.0, 1.0))
        out[f"{EVERY_CELL}/{size}/{complexity:g}"] = accuracy
    return out


def every_cell_shares(
    agent: str,
    grids: int,
    seed: int,
    sizes: Sequence[int],
    complexities: Sequence[float] = PAPER_COMPLEXITIES,
) -> dict[tuple[int, float], list[float]]:
    """Accuracy over every open cell of each grid, by size and complexity: lists of [grids].

    Nothing for an agent with memory, which has no policy over cells.
    """
    walker = navigator(agent)
    if not isinstance(walker, Memoryless):
        return {}
    options: dict[str, Any] = {"sizes": sizes, "grids": grids, "trajectories": 1, "seed": seed}
    tasks = suite(maze.SUITE.name, paper=True, **options).tasks
    out = {}
    for size in sizes:
        for complexity in complexities:
            plans = [
                planned(t.world) for t in tasks if (t.size, t.complexity) == (size, complexity)
            ]
            shares = [exact(walker.policy(plan), plan, cap=1).accuracy for plan in plans]
            # Shares that differ in their last digits only count as equal.
            out[size, complexity] = [float(share) for share in np.round(shares, 12)]
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
                {key: v.to_json() for key, v in every_cell(agent, sizes=[int(size)]).items()}
                if name == EVERY_CELL
                else in_suite(agent, name)
            )
        if quantity not in parts[part]:
            raise InvalidParameterError(
                f"ledger row {row!r}: expected {LEDGER_PREFIX}AGENT/QUANTITY with QUANTITY one of "
                f"{', '.join(parts[part])}"
            )
        out[row] = scale(quantity) * float(parts[part][quantity]["value"])
    return out


def scale(quantity: str) -> float:
    """What a quantity is multiplied with in the ledger: shares are in percent, p-values are not."""
    return 1.0 if quantity.endswith("/p") else 100.0


def checked_agents(names: str | None) -> tuple[str, ...]:
    """Names with commas between them; all reference agents if none are given."""
    spelled = AGENTS if names is None else [name.strip() for name in names.split(",")]
    out = tuple(dict.fromkeys(navigator(name).name for name in spelled))
    if missing := [name for name in ("optimal", "greedy") if name not in out]:
        raise InvalidParameterError(
            f"agents is {names!r}, expected {' and '.join(missing)} among them: the published "
            f"numbers are compared with optimal and greedy"
        )
    return out


def _chance_of_key(result: Navigation) -> Estimate:
    """How often an agent that takes the shortest ways passes the key: exact in each world."""
    sizes = result.plan.what["sizes"]
    chances = {
        walk.seed: chance_of_passing(walk.world, walk.cap)
        for walk in result.seen.trajectories
        if walk.world.key is not None and walk.size == sizes[0]
    }
    return estimate(np.round(list(chances.values()), 12), bounds=(0.0, 1.0))


def _without_interval(value: float) -> Estimate:
    return Estimate(value, None, 0, 0)


def _from_json(part: str, plain: Mapping[str, dict[str, Any]]) -> Estimates:
    """The estimates of `in_suite`, from their JSON."""
    return {name: Estimate.from_json(value) for name, value in plain.items()}
