"""How accurate is the estimate of MEG where states have no names?

The tables of the worlds are hidden. `from_simulator` steps an environment that shows arrays,
noisy cells or images, and the exact MEG is computed from the table. Continuous actions in [-1, 1]
are those of the table by thirds, and compared with the uniform density, which is free choice. Run i
has the seed 80,000 + i (140,000 + i where steps are counted); the method was chosen with others.
`unknown` counts runs whose interval includes a difference of both estimators larger than its
statistical error. Agents whose mean width is more than a fifth of the exact value are measured
again with a million steps.

Rows marked `counted` are measured with `state="observation"`: the caller states that observations
identify states, as they do in these worlds. Steps are then counted instead of fitted. As in the
other rows, the agent acts by the hidden state and time, so only its answers in episodes are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import gymnasium
import harness
import numpy as np
import simulator_references
from simulator_coverage import frozen_lake, mixed

import goalmeter as gm
from goalmeter._types import AnyArray, FloatArray
from goalmeter.gridworld import key_door, maze, tabular_world
from goalmeter.gridworld.gymnasium_worlds import encoded

# First seed and number of runs, where steps are fitted and counted.
FITTED, COUNTED = (80_000, 2), (140_000, 10)
BUDGET, LARGE_BUDGET, NARROW = 200_000, 1_000_000, 0.2
# Observation of a state, which may be noisy.
Shown = Callable[[int, np.random.Generator], AnyArray]


class HiddenTable(gymnasium.Env[Any, Any]):
    """A `TabularMDP` as an environment that shows an array instead of the state."""

    state = 0

    def __init__(self, mdp: gm.TabularMDP, shown: Shown, continuous: bool = False) -> None:
        first = shown(0, np.random.default_rng(0))
        self.observation_space = gymnasium.spaces.Box(
            -np.inf if first.dtype != np.uint8 else 0,
            np.inf if first.dtype != np.uint8 else 255,
            first.shape,
            first.dtype.type,
        )
        self.action_space: Any = gymnasium.spaces.Discrete(mdp.n_actions)
        if continuous:
            self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
        self._shown = shown
        self._starts = np.cumsum(mdp.initial)
        self._after, probability = mdp.transition.to_successors()
        self._sums = np.cumsum(probability, axis=-1).round(12)
        reward = np.asarray(mdp.reward)
        wide = reward[:, None] if reward.ndim == 1 else reward
        self._reward = np.broadcast_to(wide, (mdp.n_states, mdp.n_actions))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        is_fixed = self._starts[0] >= 1
        self.state = 0 if is_fixed else int(np.searchsorted(self._starts, self.np_random.random()))
        return self._shown(self.state, self.np_random), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if isinstance(action, np.ndarray):
            count = self._reward.shape[1]
            action = min(int((action[0] + 1.0) / 2.0 * count), count - 1)
        paid = float(self._reward[self.state, action])
        sums, after = self._sums[self.state, action], self._after[self.state, action]
        chosen = 0 if sums[0] >= 1 else int(np.searchsorted(sums, self.np_random.random()))
        self.state = int(after[min(chosen, len(after) - 1)])
        return self._shown(self.state, self.np_random), paid, False, False, {}


# --- Worlds ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Hidden:
    """A world with a table, and what the estimator sees of it."""

    name: str
    mdp: gm.TabularMDP
    shown: Shown
    levels: tuple[tuple[float, float], ...]  # rationality and share of free choice of the agents
    continuous: bool = False
    noisy: bool = False  # whether a state is shown in different ways


def one_hot(n: int) -> Shown:
    rows = np.eye(n, dtype=np.float32)
    return lambda state, generator: rows[state]


def rows(observations: Sequence[AnyArray]) -> Shown:
    return lambda state, generator: observations[state]


def noisy_cell(columns: int) -> Shown:
    """Row and column with noise, and two entries that are only noise."""
    return lambda state, generator: np.concatenate(
        [
            np.array(divmod(state, columns)) + 0.05 * generator.normal(size=2),
            generator.normal(size=2),
        ]
    ).astype(np.float32)


def grid(
    axes: tuple[FloatArray, FloatArray],
    move: Callable[[FloatArray, FloatArray, int], tuple[FloatArray, FloatArray]],
    pays: Callable[[FloatArray, FloatArray], FloatArray],
    start: tuple[float, float],
    horizon: int,
) -> tuple[gm.TabularMDP, Shown]:
    """Dynamics of two numbers on a grid: the next state is the nearest grid point."""
    x, v = (each.ravel() for each in np.meshgrid(*axes, indexing="ij"))
    columns = [
        nearest(axes[0], after[0]) * len(axes[1]) + nearest(axes[1], after[1])
        for action in range(3)
        for after in [move(x, v, action)]
    ]
    after = np.stack(columns, axis=1)[..., None]
    first = int(nearest(axes[0], start[0]) * len(axes[1]) + nearest(axes[1], start[1]))
    mdp = gm.TabularMDP((after, np.ones(after.shape)), pays(x, v), horizon=horizon, initial=first)
    cells = np.stack([x, v], axis=1).astype(np.float32)
    return mdp, lambda state, generator: cells[state]


def nearest(axis: FloatArray, value: Any) -> AnyArray:
    step = axis[1] - axis[0]
    return np.clip(np.rint((np.asarray(value) - axis[0]) / step), 0, len(axis) - 1).astype(int)


def mountain_car() -> tuple[gm.TabularMDP, Shown]:
    """Mountain car with four steps a decision; the goal pays 0, everything else -1."""

    def move(x: FloatArray, v: FloatArray, action: int) -> tuple[FloatArray, FloatArray]:
        arrived = x >= 0.5
        for _ in range(4):
            x, v = simulator_references.mountain_car(np.stack([x, v], axis=1), action)[0].T
        return np.where(arrived, 0.6, x), np.where(arrived, 0.0, v)

    axes = np.linspace(-1.2, 0.6, 100), np.linspace(-0.07, 0.07, 100)
    return grid(axes, move, lambda x, v: np.where(x >= 0.5, 0.0, -1.0), (-0.5, 0.0), 50)


def pendulum() -> tuple[gm.TabularMDP, Shown]:
    """Pendulum with three torques and two steps a decision."""

    def move(x: FloatArray, v: FloatArray, action: int) -> tuple[FloatArray, FloatArray]:
        for _ in range(2):
            torque = 2.0 * (action - 1)
            x, v = simulator_references.pendulum(np.stack([x, v], axis=1), torque)[0].T
        return x, v

    axes = np.linspace(-np.pi, np.pi, 100, endpoint=False), np.linspace(-8, 8, 100)
    return grid(axes, move, lambda x, v: -(x**2 + 0.1 * v**2), (np.pi - 0.1, 0.0), 40)


def worlds() -> list[Hidden]:
    cliff, lake = gm.cliff_world(1), frozen_lake(True, 8, 60)
    cab = gm.TabularMDP.from_gymnasium("Taxi-v4", horizon=25)
    out = [
        Hidden(
            "CliffWorld, noisy cells", cliff, noisy_cell(10), ((0.5, 0.0), (0.5, 0.3)), noisy=True
        ),
        Hidden("FrozenLake 8x8, one-hot", lake, one_hot(65), ((40.0, 0.0), (40.0, 0.3))),
        Hidden("Taxi, one-hot", cab, one_hot(cab.n_states), ((1.0, 0.0), (1.0, 0.3))),
    ]
    for name, world in (("maze 9", maze(9, 0.8, 1).world), ("key and door", key_door(0))):
        table = tabular_world(world, horizon=30)
        images = [encoded(world, state) for state in table.states]
        out.append(Hidden(f"{name}, images", table.mdp, rows(images), ((1.0, 0.0), (1.0, 0.3))))
    for name, (mdp, shown), b in (
        ("mountain car, 10,000 states", mountain_car(), 1.0),
        ("pendulum, 10,000 states", pendulum(), 0.2),
    ):
        out.append(Hidden(name, mdp, shown, ((b, 0.0), (b, 0.3))))
        out.append(Hidden(f"{name}, continuous", mdp, shown, ((b, 0.0), (b, 0.3)), True))
    return out


class Hider:
    """An agent that acts by the hidden state of an environment, with a policy [T, S, A]."""

    def __init__(self, env: HiddenTable, policy: FloatArray) -> None:
        self._env, self._policy = env, policy

    def begin(self, generator: np.random.Generator) -> Callable[[Any], FloatArray]:
        rows: Iterator[FloatArray] = iter(self._policy)

        def answer(observation: Any) -> FloatArray:
            row = np.asarray(next(rows)[self._env.state])
            if isinstance(self._env.action_space, gymnasium.spaces.Discrete):
                return row
            place = generator.choice(len(row), p=row) + generator.random()
            return np.array([place * 2.0 / len(row) - 1.0])

        return answer


def covered(
    world: Hidden, level: tuple[float, float], counted: bool, budget: int, runs: int | None = None
) -> dict[str, Any]:
    """Estimates of one agent in one world."""
    mdp, (b, noise) = world.mdp, level
    first, usual = COUNTED if counted else FITTED
    runs = runs or usual
    policy = mixed(mdp, b, noise)
    exact = gm.meg.known_utility(mdp, policy)
    values, ends, seconds, unknown = [], [], [], 0
    for seed in range(first, first + runs):
        env = HiddenTable(mdp, world.shown, world.continuous)
        options = {"horizon": mdp.steps, "chance": "generator", "seed": seed, "budget": budget}
        options |= {"reference": "uniform"} if world.continuous else {}
        options |= {"state": "observation"} if counted else {}
        result, took = harness.processor(
            lambda env=env, options=options: gm.meg.from_simulator(
                env, Hider(env, policy), progress=False, **options
            )
        )
        values.append(result.value)
        ends.append(list(result.interval))
        seconds.append(took)
        unknown += any("two estimates" in note for note in result.notes)
        print(world.name, level, exact.value, result.value, result.interval, f"{took:.0f} s")
    low, high = np.array(ends).T
    return {
        "name": f"{world.name}, β = {b:g}, ε = {noise:g}{', counted' if counted else ''}",
        "budget": budget,
        "exact": exact.value,
        "values": values,
        "intervals": ends,
        "width": float((high - low).mean()),
        "covered": int(((low <= exact.value) & (exact.value <= high)).sum()),
        "runs": runs,
        "unknown": unknown,
        "seconds": float(np.mean(seconds)),
    }


def measure(quick: bool) -> dict[str, Any]:
    rows = []
    for world in worlds()[3:4] if quick else worlds():
        ways = (False,) if world.continuous or world.noisy else (False, True)
        for level, counted in product(world.levels[: 1 if quick else None], ways):
            row = covered(world, level, counted, BUDGET, 1 if quick else None)
            rows.append(row)
            if row["width"] > NARROW * row["exact"] and not quick:
                rows.append(covered(world, level, counted, LARGE_BUDGET))
    return {"hidden": rows}


def markdown(result: dict[str, Any]) -> str:
    head = (
        "| world and agent | steps | exact | estimates | width | covered | unknown | CPU s |\n"
        "|---|---|---|---|---|---|---|---|\n"
    )
    lines = [
        f"| {row['name']} | {row['budget']:,} | {row['exact']:.2f} | {min(row['values']):.2f} to "
        f"{max(row['values']):.2f} | {row['width']:.2f} | {row['covered']}/{row['runs']} | "
        f"{row['unknown']} | {row['seconds']:.0f} |\n"
        for row in result["hidden"]
    ]
    return head + "".join(lines)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
