"""Do intervals of trained agents contain MEG computed from the equations of motion?

The agents are those of `simulator_skill`, whose stored results are read. Their worlds have no
table, but the soft value W(b) of the start can be computed without the estimator. In MountainCar
and Pendulum, backward induction runs on two grids of positions and velocities with linear
interpolation; the difference between them extrapolates to spacing 0 (its error falls with the
square of the spacing). In Acrobot, W(b) is the logarithm of the mean of exp(b return) over episodes
of free choice, at rationalities where its standard error is at most 0.5. MEG is the maximum of
b R - W(b), where R is the stored mean return; the range is for R less and plus two standard errors.
`at least` marks a maximum at the largest rationality. `meets` states whether the interval and the
range overlap. All moves are compared with steps of Gymnasium's environments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import harness
import numpy as np
from gymnasium.envs.classic_control.acrobot import AcrobotEnv

from goalmeter._types import AnyArray, FloatArray

EPISODES, QUICK_EPISODES, SEED, SURE = 200_000, 2_000, 40_000, 0.5
# Next state, payoff and whether the episode ends, of states [N, d] and an action.
Move = Callable[[FloatArray, float], tuple[FloatArray, FloatArray, AnyArray]]


def mountain_car(state: FloatArray, action: float) -> tuple[FloatArray, FloatArray, AnyArray]:
    x, v = state.T
    v = np.clip(v + (action - 1) * 0.001 - 0.0025 * np.cos(3 * x), -0.07, 0.07)
    x = np.clip(x + v, -1.2, 0.6)
    v = np.where((x == -1.2) & (v < 0), 0.0, v)
    return np.stack([x, v], axis=1), np.full(len(x), -1.0), (x >= 0.5) & (v >= 0)


def pendulum(state: FloatArray, action: float) -> tuple[FloatArray, FloatArray, AnyArray]:
    angle, v = state.T
    paid = -(angle**2 + 0.1 * v**2 + 0.001 * action**2)
    v = np.clip(v + (15.0 * np.sin(angle) + 3.0 * action) * 0.05, -8.0, 8.0)
    angle = (angle + v * 0.05 + np.pi) % (2 * np.pi) - np.pi
    return np.stack([angle, v], axis=1), paid, np.zeros(len(v), dtype=bool)


def acrobot(state: FloatArray, action: AnyArray) -> tuple[FloatArray, FloatArray, AnyArray]:
    """One step of 0.2 s by the method of Runge and Kutta; both links have mass and length 1."""
    torque = np.asarray(action) - 1.0

    def slope(s: FloatArray) -> FloatArray:
        first, second, v, w = s.T
        d1 = 3.5 + np.cos(second)
        d2 = 1.25 + 0.5 * np.cos(second)
        pull = 4.9 * np.sin(first + second)
        whole = 14.7 * np.sin(first) + pull
        whole -= 0.5 * np.sin(second) * (w**2 + 2 * v * w)
        bend = torque + d2 / d1 * whole - 0.5 * v**2 * np.sin(second) - pull
        bend /= 1.25 - d2**2 / d1
        return np.stack([v, w, -(d2 * bend + whole) / d1, bend], axis=1)

    h = 0.2
    k1 = slope(state)
    k2 = slope(state + h / 2 * k1)
    k3 = slope(state + h / 2 * k2)
    k4 = slope(state + h * k3)
    after = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    after[:, :2] = (after[:, :2] + np.pi) % (2 * np.pi) - np.pi
    after[:, 2:] = np.clip(after[:, 2:], [-4 * np.pi, -9 * np.pi], [4 * np.pi, 9 * np.pi])
    ends = -np.cos(after[:, 0]) - np.cos(after[:, :2].sum(axis=1)) > 1.0
    return after, ends - 1.0, ends


class Plane(NamedTuple):
    """A world with two numbers as its state.

    Attributes:
        low: least position and velocity.
        high: largest ones.
        periodic: whether the largest position is the least one.
        start: range of positions and of velocities in which episodes begin.
    """

    move: Move
    actions: FloatArray
    low: tuple[float, float]
    high: tuple[float, float]
    periodic: bool
    start: tuple[tuple[float, float], tuple[float, float]]
    spaces: tuple[int, int]  # number of spaces of the coarse grid
    rationalities: FloatArray


HORIZON = 200
TORQUES = -2.0 + 4.0 * (np.arange(16) + 0.5) / 16
PLANES = {
    "MountainCar-v0": Plane(
        mountain_car,
        np.arange(3.0),
        (-1.2, -0.07),
        (0.6, 0.07),
        False,
        ((-0.6, -0.4), (0.0, 0.0)),
        (300, 200),
        np.geomspace(0.2, 3.0, 24),
    ),
    "Pendulum-v1": Plane(
        pendulum,
        TORQUES,
        (-np.pi, -8.0),
        (np.pi, 8.0),
        True,
        ((-np.pi, np.pi), (-1.0, 1.0)),
        (200, 160),
        np.geomspace(0.002, 0.6, 24),
    ),
}


def grid_values(world: Plane, finer: int) -> FloatArray:
    """Return soft values of the start at all rationalities, [B]."""
    counts = np.array(world.spaces) * finer + 1
    low, high = np.array(world.low), np.array(world.high)
    axes = [np.linspace(a, b, n) for a, b, n in zip(low, high, counts, strict=True)]
    states = np.stack([each.ravel() for each in np.meshgrid(*axes, indexing="ij")], axis=1)

    def corners(points: FloatArray) -> tuple[AnyArray, FloatArray]:
        place = (points - low) / (high - low) * (counts - 1)
        first = np.clip(np.floor(place).astype(int), 0, counts - 2)
        share = place - first
        cells, weights = [], []
        for i in (0, 1):
            for j in (0, 1):
                cells.append((first[:, 0] + i) * counts[1] + first[:, 1] + j)
                weights.append(abs(1 - i - share[:, 0]) * abs(1 - j - share[:, 1]))
        return np.stack(cells, axis=1), np.stack(weights, axis=1)

    steps = []
    for action in world.actions:
        after, paid, ends = world.move(states, action)
        cells, weights = corners(after)
        steps.append((paid, cells, np.where(ends[:, None], 0.0, weights)))
    grid = np.meshgrid(*(np.linspace(a, b, 101) for a, b in world.start), indexing="ij")
    starts, shares = corners(np.stack([each.ravel() for each in grid], axis=1))
    out = []
    for b in world.rationalities:
        value = np.zeros(len(states))
        for _ in range(HORIZON):
            q = np.stack([b * paid + (value[cells] * w).sum(axis=1) for paid, cells, w in steps])
            top = q.max(axis=0)
            value = top + np.log(np.exp(q - top).mean(axis=0))
            if world.periodic:
                value[-counts[1] :] = value[: counts[1]]
        out.append(float((value[starts] * shares).sum(axis=1).mean()))
    return np.array(out)


def free_values(episodes: int) -> tuple[FloatArray, FloatArray, float]:
    """Return rationalities and soft values of the start of Acrobot, by episodes of free choice.

    Also return the share of these that reach the goal.
    """
    generator = np.random.default_rng(SEED)
    state, totals = generator.uniform(-0.1, 0.1, size=(episodes, 4)), np.zeros(episodes)
    going = np.arange(episodes)
    for _ in range(500):
        state, paid, ends = acrobot(state, generator.integers(3, size=len(state)))
        totals[going] += paid
        state, going = state[~ends], going[~ends]
    rationalities = np.geomspace(0.002, 0.2, 24)
    weights = np.exp(rationalities[:, None] * totals)
    errors = weights.std(axis=1) / weights.mean(axis=1) / np.sqrt(episodes)
    sure = errors <= SURE
    return rationalities[sure], np.log(weights.mean(axis=1))[sure], 1.0 - len(going) / episodes


def checked(name: str, move: Move) -> None:
    """Compare a move with steps of Gymnasium's environment."""
    env, generator = gymnasium.make(name).unwrapped, np.random.default_rng(SEED)
    env.reset(seed=0)
    scale = {"MountainCar-v0": [0.3, 0.03], "Pendulum-v1": [1.5, 3.0]}.get(name, [1.0, 1.0, 3, 5])
    for state in generator.uniform(-2.0, 2.0, size=(200, len(scale))) * scale:
        number = int(generator.integers(3))
        action = np.array([number - 1.0]) if name == "Pendulum-v1" else number
        env.state = state.copy()
        _, paid, ended, _, _ = env.step(action)
        after, payoff, ends = move(state[None], float(np.ravel(action)[0]))
        seen = np.array(env.state)
        if name == "Pendulum-v1":
            seen[0] = (seen[0] + np.pi) % (2 * np.pi) - np.pi
        np.testing.assert_allclose(after[0], seen, atol=1e-6)
        assert abs(payoff[0] - float(paid)) < 1e-6 and bool(ends[0]) == ended, name


def measure(quick: bool) -> dict[str, Any]:
    assert AcrobotEnv.book_or_nips == "book"
    curves: dict[str, Sequence[FloatArray]] = {}
    for name, world in PLANES.items():
        checked(name, world.move)
        world = world._replace(spaces=(30, 20)) if quick else world
        coarse, fine = grid_values(world, 1), grid_values(world, 2)
        curves[name] = world.rationalities, fine + (fine - coarse) / 3
    checked("Acrobot-v1", acrobot)
    *curves["Acrobot-v1"], goals = free_values(QUICK_EPISODES if quick else EPISODES)
    rows = []
    for row in json.loads((harness.RESULTS / "simulator_skill.json").read_text())["agents"]:
        if row["world"] not in curves or row["rationality"] < 0:
            continue
        b, soft = curves[row["world"]]
        returns = row["return"] + 2 * row["standard_error"] * np.array([-1.0, 0.0, 1.0])
        meg = np.multiply.outer(returns, b) - soft
        least, middle, most = (max(float(each), 0.0) for each in meg.max(axis=1))
        at_least = bool(meg[1].argmax() == len(b) - 1)
        low, high = row["interval"]
        rows.append(
            {key: row[key] for key in ("world", "training", "return", "interval", "meg")}
            | {
                "reference": [least, middle, most],
                "rationality": float(b[meg[1].argmax()]),
                "at_least": at_least,
                "meets": high >= least and (at_least or low <= most),
            }
        )
    return {
        "agents": rows,
        "free_episodes_with_goal": goals,
        "soft_values": {name: [b.tolist(), w.tolist()] for name, (b, w) in curves.items()},
    }


def markdown(result: dict[str, Any]) -> str:
    head = (
        "| world | training | return | interval | reference | range | meets |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    lines = []
    for row in result["agents"]:
        low, middle, high = row["reference"]
        interval = ", ".join(f"{each:.3g}" for each in row["interval"])
        lines.append(
            f"| {row['world']} | {row['training']:,} | {row['return']:.4g} | [{interval}] | "
            f"{'at least ' if row['at_least'] else ''}{middle:.3g} | {low:.3g} to {high:.3g} | "
            f"{'yes' if row['meets'] else 'no'} |\n"
        )
    return head + "".join(lines)


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
