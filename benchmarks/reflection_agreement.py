"""Every environment gives the same percepts as in the authors' library.

The library at the paper commit (e38e3dc of semitrivial/ExtendedEnvironments), from a checkout named
in GOALMETER_REFLECTION_LIBRARY, which the script requires. All 25 environments of the battery, the
two that reward or punish determinism, and the opposites of all, with deterministic agents: constant
0 and 1, turn parity, last reward's sign, win-stay lose-shift, echo, four that hash the history, and
the reality check of each. Both sides get the same random numbers for their rooms. The library's
reality check forwards no settings, so ours does not here. The two environments of runtime are
excluded: the library counts steps of its debugger, we count lines.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

import harness

from goalmeter.agents.history import FunctionAgent, RealityCheck
from goalmeter.reflection import History, Percept
from goalmeter.reflection.environments import ENVIRONMENTS, Environment

LIBRARY = "GOALMETER_REFLECTION_LIBRARY"
STEPS, CHECKED_STEPS = 120, 40  # the library's reality check takes cubic time
LEFT_OUT = ("PunishSlowAgent", "PunishFastAgent", "FlipEveryOther")
# Where the first percept is not drawn; we draw a number for it all the same.
FIRST_IS_FIXED = ("IgnoreObservations", "CensoredObservation")
Percepts = list[tuple[float, int]]
Agent = Callable[[History, int, int], int]


def win_stay(history: History, n_actions: int, n_observations: int) -> int:
    if not history.actions:
        return 0
    return (history.actions[-1] + (history.percepts[-1].reward <= 0)) % n_actions


def hashing(salt: int) -> Agent:
    def agent(history: History, n_actions: int, n_observations: int) -> int:
        told = [*map(tuple, history.percepts), history.actions, n_actions, salt]
        return crc32(repr(told).encode()) // 7 % n_actions

    return agent


AGENTS: dict[str, Agent] = {
    "constant 0": lambda *_: 0,
    "constant 1": lambda *_: 1,
    "turn parity": lambda history, *_: len(history.actions) % 2,
    "last reward's sign": lambda history, *_: int(history.percepts[-1].reward > 0),
    "win-stay lose-shift": win_stay,
    "echo": lambda history, n_actions, _: history.percepts[-1].observation % n_actions,
    **{f"hash {salt}": hashing(salt) for salt in range(4)},
}


def measure(quick: bool) -> dict[str, Any]:
    checkout = os.environ.get(LIBRARY, "")
    if not checkout:
        return {"library": "", "rows": []}
    sys.path.insert(0, checkout)
    lists, minus, check, inspector = (
        importlib.import_module(f"extended_rl.{module}")
        for module in (
            "environments.EnvironmentLists",
            "environments.MinusRewards",
            "agents.reality_check",
            "environments.DeterminismInspector",
        )
    )
    theirs = {key.replace("_", ""): value for key, value in lists.environments.items()}
    theirs["punishnondeterministicagent"] = inspector.PunishNondeterministicAgent
    rows = []
    for name, environment in ENVIRONMENTS.items():
        if name in LEFT_OUT:
            continue
        runs = differ = 0
        for agent in list(AGENTS.values())[: 3 if quick else None]:
            for checked in (False, True):
                steps = (CHECKED_STEPS if checked else STEPS) // (4 if quick else 1)
                told = from_prompt(agent)
                told = check.reality_check(told) if checked else told
                ours = FunctionAgent(agent)
                player = RealityCheck(ours, forward_options=False) if checked else ours
                for opposite in (False, True):
                    peer = theirs[name.lower()]
                    peer = minus.minus_rewards(peer) if opposite else peer
                    runs += 1
                    differ += _library_percepts(peer, told, steps, _rooms(name)) != (
                        _our_percepts(environment, player, steps, opposite)
                    )
        rows.append({"environment": name, "runs": runs, "differ": differ})
    return {"library": "e38e3dc", "rows": rows}


def from_prompt(agent: Agent) -> Callable[..., int]:
    """The agent as the library has them: a function of a flat history."""

    def told(prompt: tuple[Any, ...], n_actions: int, n_observations: int) -> int:
        percepts = tuple(map(Percept, prompt[0::3], prompt[1::3]))
        return agent(History(percepts, prompt[2::3]), n_actions, n_observations)

    return told


def _rooms(name: str) -> Random:
    draws = Random(f"{name} in both")
    if name in FIRST_IS_FIXED:
        draws.random()
    return draws


def _library_percepts(
    environment: Any, agent: Callable[..., int], steps: int, draws: Random
) -> Percepts:
    for key, module in list(sys.modules.items()):
        if key.startswith("extended_rl.environments.") and hasattr(module, "random"):
            module.random = draws.random  # type: ignore[attr-defined]
    run = environment()
    counts = {"num_legal_actions": run.num_legal_actions, "num_possible_obs": run.num_possible_obs}

    def source(prompt: Any, **options: Any) -> int:
        known = {key: options.pop(key, value) for key, value in counts.items()}
        return agent(prompt, *known.values(), **options)

    play: tuple[Any, ...] = ()
    percepts: Percepts = []
    for _ in range(steps):
        percepts.append(run.react(source, play))
        prompt = (*play, *percepts[-1])
        play = (*prompt, source(prompt))
    return percepts


def _our_percepts(environment: Environment, agent: Any, steps: int, opposite: bool) -> Percepts:
    draws = Random(f"{environment.name} in both")
    run = environment.start(agent, draws, opposite=opposite)
    mind = agent.begin(environment.n_actions, environment.n_observations)
    percepts = [run.begin()]
    while len(percepts) < steps:
        mind.perceive(*percepts[-1])
        action = mind.act()
        mind.take(action)
        percepts.append(run.react(action))
    return percepts


def markdown(result: dict[str, Any]) -> str:
    rows = [[r["environment"], str(r["runs"]), str(r["differ"])] for r in result["rows"]]
    runs, differ = (sum(row[key] for row in result["rows"]) for key in ("runs", "differ"))
    remark = f"- {runs} runs, of which {differ} differ from the library's in some percept."
    if not result["library"]:
        remark = f"- Nothing was compared: {LIBRARY} names no checkout."
    return "\n".join([harness.table(["environment", "runs", "differ"], rows), "", remark])


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
