"""One agent through the battery and its opposites, in a process of its own; prints JSON.

    python reflection_run.py AGENT STEPS REPEAT             ours
    python reflection_run.py AGENT STEPS REPEAT LIBRARY     the authors' library, from a checkout

Times are CPU seconds of this process for each run of an environment, the best of REPEAT. The
library remembers what its agents did, so with it a second time costs nothing: REPEAT must be 1.
"""

from __future__ import annotations

import importlib
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def ours(name: str, steps: int) -> dict[tuple[str, bool], Callable[[], float]]:
    """(environment, opposite) -> a run that gives the total reward."""
    from goalmeter.agents.registry import history_agent as agent
    from goalmeter.reflection import run_trial
    from goalmeter.reflection.environments import BATTERY

    def run(environment: Any, opposite: bool) -> float:
        trial = run_trial(agent(name), environment, opposite=opposite, steps=steps, seed=0)
        assert trial.outcome == "ok", trial
        return trial.total_reward

    return {
        (environment.name.lower(), opposite): lambda e=environment, o=opposite: run(e, o)
        for environment in BATTERY
        for opposite in (False, True)
    }


def library(name: str, steps: int, path: str) -> dict[tuple[str, bool], Callable[[], float]]:
    """The same for the authors' library; its names differ from ours by underscores."""
    sys.path.insert(0, path)
    lists, minus, util, agents, naive, check = (
        importlib.import_module(f"extended_rl.{module}")
        for module in (
            "environments.EnvironmentLists",
            "environments.MinusRewards",
            "util",
            "agents.misc_agents",
            "agents.naive_learner",
            "agents.reality_check",
        )
    )
    inner = name.removeprefix("rc(").removesuffix(")")
    agent = {
        "constant": agents.constant_agent,
        "random": agents.random_agent,
        "naive": naive.naive_learner,
    }[inner]
    if inner != name:
        agent = check.reality_check(agent)
    random.seed(0)

    def run(environment: Any, opposite: bool) -> float:
        played = minus.minus_rewards(environment) if opposite else environment
        return float(util.run_environment(played, agent, steps)["total_reward"])

    return {
        (key.replace("_", ""), opposite): lambda e=environment, o=opposite: run(e, o)
        for key, environment in lists.environments.items()
        if key not in lists.slow_envs
        for opposite in (False, True)
    }


def timed(run: Callable[[], float], repeat: int) -> tuple[float, float]:
    """The least CPU seconds that it took, and the total reward."""
    taken = []
    for _ in range(repeat):
        began = time.process_time()
        total = run()
        taken.append(time.process_time() - began)
    return min(taken), total


def peak_mib() -> float:
    """The most memory that this process has held so far."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says may be the parent's
        (line,) = [x for x in status.read_text().splitlines() if x.startswith("VmHWM")]
        return int(line.split()[1]) / 1024
    scale = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale


def main(name: str, steps: str, repeat: str, path: str = "") -> None:
    runs = library(name, int(steps), path) if path else ours(name, int(steps))
    before = peak_mib()
    rows = []
    for (environment, opposite), run in runs.items():
        seconds, total = timed(run, int(repeat))
        rows.append([environment, opposite, seconds, total])
    print(json.dumps({"before_mib": before, "peak_mib": peak_mib(), "runs": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
