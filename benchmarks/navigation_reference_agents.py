"""Six reference agents walk and are measured at the paper's scale in under a minute on two cores.

The whole of `goalmeter replicate lm-navigation`, which is `values` of its module, in two processes:
optimal, greedy, random, epsilon-optimal, wall-follower and key-seeker, each through 3,000 walks in
mazes (5 sizes, 6 complexities, 10 grids, 10 walks), the same in four changed frames, the worlds
with keys and their controls, and the older protocol that asks in every cell. Wall-clock time, from
starting the processes to the last table; worlds are generated again for each agent and suite. The
parts are measured separately in one process, in CPU time over all agents: worlds and plans,
walking, and measures with intervals and tests.

The peer scores walks literally: for each step, shortest paths to the goal by a breadth-first search
of networkx over the grid, and whether the action led one step closer; and the same with the search
kept for each grid. Ours is `observed` without a cache: it plans every world, validates every record
and looks up every step. Both score the random agent's walks in one grid of each size and
complexity, and must agree on every step; medians of CPU time.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import harness
import networkx as nx

from goalmeter.gridworld.planner import planned
from goalmeter.gridworld.world import MOVES
from goalmeter.navigation.measure import navigation_of
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.rollouts import play_all
from goalmeter.navigation.steps import _greedy_accuracy as compass
from goalmeter.navigation.steps import observed
from goalmeter.navigation.suites import SUITES
from goalmeter.navigation.trajectories import Trajectory

# The studies lie beside the package, in the same checkout.
sys.path.append(str(Path(__file__).resolve().parents[1]))
from goalmeter.commands.replicate import StudyOptions
from replications.lm_navigation.study import AGENTS, of_agents

WORKERS = 2


def measure(quick: bool) -> dict[str, Any]:
    agents = AGENTS[:1] if quick else AGENTS
    grids, walks = (1, 2) if quick else (10, None)
    before, began = _cpu(), time.perf_counter()
    of_agents(agents, StudyOptions(on=f"processes:{WORKERS}"), grids=grids, trajectories=walks)
    whole = {"seconds": time.perf_counter() - began, "cpu_seconds": _cpu() - before}
    return {
        "agents": list(agents),
        "whole": whole,
        "rows": [_row(name, agents, grids, walks) for name in SUITES],
        "scoring": _scoring(2 if quick else 10, 1 if quick else 5),
    }


def _cpu() -> float:
    """CPU seconds of this process and of those that it waited for."""
    used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _row(name: str, agents: tuple[str, ...], grids: int, walks: int | None) -> dict[str, Any]:
    """The parts of one suite, over all agents."""
    row: dict[str, Any] = {"suite": name, "walks": 0, "steps": 0}
    parts = {"worlds": 0.0, "walking": 0.0, "measuring": 0.0}
    for agent in agents:
        times = [time.process_time()]
        number = grids if name in ("maze", "isometries") else 10 * grids
        plan = plan_of(agent, name, paper=True, grids=number, trajectories=walks)
        times.append(time.process_time())
        walked = play_all(plan)
        times.append(time.process_time())
        navigation_of(walked)
        times.append(time.process_time())
        for part, begin, end in zip(parts, times[:-1], times[1:], strict=True):
            parts[part] += end - begin
        row["walks"] += len(walked.trajectories)
        row["steps"] += sum(len(walk.steps) for walk in walked.trajectories)
    return row | parts


def _scoring(walks: int, repeat: int) -> dict[str, Any]:
    """Ours and the peer's time for scoring the same walks."""
    plan = plan_of("random", "maze", paper=True, grids=1, trajectories=walks)
    trajectories = play_all(plan).trajectories
    judged: dict[str, list[bool]] = {}

    def ours() -> None:
        planned.cache_clear()
        compass.cache_clear()
        judged["ours"] = observed(trajectories).correct.tolist()

    def each_step() -> None:
        judged["each step"] = _scored(trajectories, _search)

    def each_grid() -> None:
        kept: dict[int, dict[Any, int]] = {}

        def search(walk: Trajectory) -> dict[Any, int]:
            if id(walk.world) not in kept:
                kept[id(walk.world)] = _search(walk)
            return kept[id(walk.world)]

        judged["each grid"] = _scored(trajectories, search)

    calls = {"ours": ours, "each grid": each_grid, "each step": each_step}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeat):
        for name, call in calls.items():
            began = time.process_time()
            call()
            times[name].append(time.process_time() - began)
    assert judged["ours"] == judged["each grid"] == judged["each step"]
    return {
        "walks": len(trajectories),
        "steps": len(judged["ours"]),
        "seconds": {name: median(taken) for name, taken in times.items()},
    }


def _scored(
    trajectories: tuple[Trajectory, ...], search: Callable[[Trajectory], dict[Any, int]]
) -> list[bool]:
    """Whether each step led one step closer."""
    out = []
    for walk in trajectories:
        for step in walk.steps:
            far, cell = search(walk), step.state.cell
            assert step.action is not None
            down, right = MOVES[step.action]
            after = (cell.row + down, cell.column + right)
            out.append(far.get(after, far[tuple(cell)]) == far[tuple(cell)] - 1)
    return out


def _search(walk: Trajectory) -> dict[Any, int]:
    """Steps to the goal from every cell."""
    world = walk.world
    grid = nx.grid_2d_graph(*world.shape)
    grid.remove_nodes_from([cell for cell in list(grid) if world.walls[cell]])
    return dict(nx.single_source_shortest_path_length(grid, tuple(world.goal)))


def markdown(result: dict[str, Any]) -> str:
    whole, scoring = result["whole"], result["scoring"]
    header = ["suite", "walks", "steps", "worlds", "walking", "measuring", "walks a second"]
    rows = []
    for row in result["rows"]:
        parts = [row[part] for part in ("worlds", "walking", "measuring")]
        rows.append(
            [row["suite"], f"{row['walks']:,}", f"{row['steps']:,}"]
            + [harness.short(part) for part in parts]
            + [f"{row['walks'] / sum(parts):,.0f}"]
        )
    times = scoring["seconds"]
    peers = [
        [f"networkx, {name}", harness.short(times[name]), f"{times[name] / times['ours']:.1f}x"]
        for name in ("each step", "each grid")
    ]
    return "\n\n".join(
        [
            f"- All {len(result['agents'])} agents in {WORKERS} processes: "
            f"{whole['seconds']:.0f} s by the clock, {whole['cpu_seconds']:.0f} s of CPU time.",
            harness.table(header, rows),
            harness.table(
                [f"scoring {scoring['steps']:,} steps", "CPU time", "ours is faster"],
                [["ours", harness.short(times["ours"]), "1x"], *peers],
            ),
        ]
    )


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
