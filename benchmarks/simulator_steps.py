"""Episodes of `meg.from_simulator` cost little more than the steps of their environment.

Steps per second with free choice, with an untrained PPO of Stable-Baselines3, and of single steps
"drawn" from restored states (without such states, the bare loop again), compared with a bare loop
of `reset` and `step`: medians on one core; the ratio in brackets is bare loop over column.
"""

from __future__ import annotations

from importlib.util import find_spec
from statistics import median
from time import perf_counter
from typing import Any

import gymnasium
import harness
import minigrid
import numpy as np
from stable_baselines3 import PPO

from goalmeter.agents.environment_agents import actor_of
from goalmeter.meg.simulator.environments import GymnasiumSimulator
from goalmeter.meg.simulator.protocol import reference_of
from goalmeter.meg.simulator.utilities import Utilities

HORIZON, TOGETHER, TURNS, STEPS = 100, 3200, 3, 1600
IDS = ["FrozenLake-v1", "Taxi-v4", "CartPole-v1", "MiniGrid-Empty-5x5-v0", "Pendulum-v1"]
IDS += ["Hopper-v5"] * (find_spec("mujoco") is not None)
SIDES = ("bare", "free choice", "PPO", "drawn")


def measure(quick: bool) -> dict[str, Any]:
    return {"rows": [_row(name, *((100, 1) if quick else (STEPS, TURNS))) for name in IDS]}


def _row(name: str, steps: int, turns: int) -> dict[str, Any]:
    env: Any = gymnasium.make(name)
    if "MiniGrid" in name:
        env = gymnasium.wrappers.FlattenObservation(minigrid.wrappers.ImgObsWrapper(env))
    named = None if hasattr(env.action_space, "n") else "gaussian(1)"
    reference = reference_of(named, env.action_space)
    utilities = Utilities({"reward": "reward"})
    simulator = GymnasiumSimulator(env, reference, utilities, seed=0, chance="generator")
    actor = actor_of(PPO("MlpPolicy", env, seed=0, device="cpu"), env, HORIZON)
    players = {"free choice": simulator.reference.agent(), "PPO": actor}

    def taken(side: str, turn: int) -> int:
        done, number, rng = 0, turn * steps, np.random.default_rng(turn)
        actions = [env.action_space.sample() for _ in range(HORIZON)]
        while done < steps:
            number += 1
            if side in players:
                done += simulator.play(players[side], HORIZON, number, TOGETHER).steps
            elif side == "drawn" and simulator.returns_to_states:
                state, action = rng.integers([simulator.n_states, simulator.n_actions]).tolist()
                done += simulator.draw(state, action, 1, rng)[0].total()
            else:
                env.reset(seed=number)
                for action in actions:
                    done += 1
                    if any(env.step(action)[2:4]):
                        break
        return done

    rates: dict[str, list[float]] = {side: [] for side in SIDES}
    for turn in range(turns):
        for side, values in rates.items():
            began = perf_counter()
            values.append(taken(side, turn) / (perf_counter() - began))
    return {"environment": name} | {side: median(values) for side, values in rates.items()}


def markdown(result: dict[str, Any]) -> str:
    def cells(row: dict[str, Any]) -> list[str]:
        return [f"{row[side]:,.0f} ({row['bare'] / row[side]:.1f})" for side in SIDES]

    rows = [[row["environment"], *cells(row)] for row in result["rows"]]
    return harness.table(["steps a second (ratio)", *SIDES], rows)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
