"""Goal-directedness of walks towards the goal and towards the key: one unit for all worlds.

Walks are pooled over worlds: one rationality is fitted to all of them. A walk through a world is a
trajectory of its MDP, whose horizon is the cap; what comes after the goal is not seen. An answer
that is no action has no place among the actions of an MDP, so a walk counts up to the first such
answer; how many were cut there is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from goalmeter.experiments.formats import percent, rationality
from goalmeter.experiments.navigation_results import Measured
from goalmeter.gridworld import GridWorld, tabular_world
from goalmeter.gridworld.tabular_world import GOAL, KEY
from goalmeter.meg.trajectories import TrajectoryMeg, from_trajectories
from goalmeter.navigation.record import Trajectory
from goalmeter.report import Cell, Column, Table
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.trajectories import Trajectories


@dataclass(frozen=True)
class Directed:
    """How goal-directed an agent is towards one thing.

    Attributes:
        agent: its name.
        towards: "goal" or "key".
        found: the estimate, nats a walk; None if no walk begins with an action.
        worlds: how many.
        cut: walks that were cut at an answer that is no action.
        left_out: walks that begin with one.
    """

    agent: str
    towards: str
    found: TrajectoryMeg | None
    worlds: int
    cut: int
    left_out: int

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        counts = {"worlds": self.worlds, "cut": self.cut, "left_out": self.left_out}
        found = {} if self.found is None else self.found.to_json()
        short = ("corrected", "interval", "maximum", "rationality", "p_value", "held_out", "n")
        return {"towards": self.towards, **{name: found.get(name) for name in short}, **counts}


def directed(result: Measured, *, seed: int = 0) -> list[Directed]:
    """Towards the goal, and in worlds with a key towards the key too.

    Grids as they were generated only; a frame is the same world.
    """
    walks = [walk for walk in result.seen.trajectories if walk.transform is None]
    with_key = [walk for walk in walks if walk.world.key is not None]
    out = [_towards(result.agent, GOAL, walks, seed)]
    if with_key:
        out.append(_towards(result.agent, KEY, with_key, seed))
    return out


def directed_table(found: Sequence[Directed]) -> Table:
    """Every agent towards the goal and towards the key."""
    cut = sum(one.cut for one in found)
    left_out = sum(one.left_out for one in found)
    notes = [
        "The interval resamples walks, not grids. p: how likely so good a fit would be if the "
        "agent moved uniformly. Held out: what the goal predicts of walks that it was not fitted "
        "to."
    ]
    if cut or left_out:
        notes.append(
            f"{cut} walks count up to the first answer that is no action, {left_out} begin with "
            f"one and have no decision to count."
        )
    return Table(
        caption="Maximum entropy goal-directedness",
        columns=(
            Column("agent", numeric=False),
            Column("towards", numeric=False),
            "walks",
            "MEG, nats a walk",
            "95% interval",
            "of the maximum",
            "rationality",
            "held out",
            "p",
        ),
        rows=tuple(_row(one) for one in found),
        meaning="How many nats of a walk's decisions the wish for the goal, or for the key, "
        "explains; the maximum would be every decision.",
        notes=tuple(notes),
    )


def measure_all(
    results: Sequence[Measured], *, seed: int, progress: Callable[[str], None] | None = None
) -> list[Directed]:
    """Every agent in turn."""
    out = []
    for result in results:
        if progress is not None:
            progress(f"goal-directedness: {result.agent}")
        out += directed(result, seed=seed)
    return out


def _towards(agent: str, utility: str, walks: Sequence[Trajectory], seed: int) -> Directed:
    lengths = [_length(walk) for walk in walks]
    by_world: dict[tuple[GridWorld, int], list[tuple[Trajectory, int]]] = {}
    for walk, length in zip(walks, lengths, strict=True):
        if length:
            by_world.setdefault((walk.world, walk.cap), []).append((walk, length))
    pairs = [_log(world, cap, own, utility) for (world, cap), own in by_world.items()]
    return Directed(
        agent=agent,
        towards=utility,
        found=from_trajectories(
            [mdp for mdp, _ in pairs],
            [log for _, log in pairs],
            rng=np.random.default_rng(seed),
        )
        if pairs
        else None,
        worlds=len(by_world),
        cut=sum(0 < length < len(walk.steps) for walk, length in zip(walks, lengths, strict=True)),
        left_out=lengths.count(0),
    )


def _length(walk: Trajectory) -> int:
    """Steps before the first one that has no action."""
    invalid = (number for number, step in enumerate(walk.steps) if step.action is None)
    return next(invalid, len(walk.steps))


def _log(
    world: GridWorld, cap: int, walks: Sequence[tuple[Trajectory, int]], utility: str
) -> tuple[TabularMDP, Trajectories]:
    """A world as an MDP, and the walks through it as its trajectories."""
    tabular = tabular_world(world, horizon=cap, utility=utility)
    index = {state: number for number, state in enumerate(tabular.states)}
    states = np.zeros((len(walks), cap), dtype=np.int64)
    actions = np.zeros_like(states)
    for row, (walk, length) in enumerate(walks):
        for column, step in enumerate(walk.steps[:length]):
            assert step.action is not None
            states[row, column], actions[row, column] = index[step.state], step.action
    return tabular.mdp, Trajectories(states, actions, [length for _, length in walks])


def _row(one: Directed) -> tuple[str | Cell, ...]:
    found = one.found
    if found is None:
        return (one.agent, one.towards, "0", *("–",) * 6)
    low, high = found.interval
    share = min(max(found.corrected / found.maximum, 0.0), 1.0) if found.maximum else 0.0
    return (
        one.agent,
        one.towards,
        str(found.n),
        f"{found.corrected:.2f}".replace("-", "−"),
        f"{low:.2f} to {high:.2f}".replace("-", "−"),
        Cell(percent(share), share=share),
        rationality(found.rationality),
        f"{found.held_out:.2f}".replace("-", "−"),
        "<0.001" if found.p_value < 0.001 else f"{found.p_value:.3f}",
    )
