"""Policies of many worlds at once: those of like shape are planned for side by side.

A small world costs the interpreter's overhead more than arithmetic, so planning for a hundred of
them one by one takes ten times as long as planning for all in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from goalmeter._types import FloatArray
from goalmeter.tabular.backup import SoftProblem, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import SoftPlan, optimal_policy, plan, soft_plan
from goalmeter.tabular.rewards import Rewards, rewards_of, stack_rewards
from goalmeter.tabular.side_by_side import MOST_STATES, column, side_by_side


def optimal_policies(worlds: Sequence[TabularMDP]) -> list[FloatArray]:
    """`optimal_policy` of each world, in order."""
    return _each(worlds, _optimal_together, optimal_policy)


def soft_optimal_policies(worlds: Sequence[TabularMDP], rationality: float) -> list[FloatArray]:
    """The soft-optimal policy of each world, in order: [H, S, A], or [S, A] without a horizon.

    Args:
        worlds: any; each is planned for with its own reward.
        rationality: in inverse reward units; infinities included.
    """

    def alone(world: TabularMDP) -> FloatArray:
        return soft_plan(world, rationality).policy()[..., 0]

    def together(some: Sequence[TabularMDP]) -> list[FloatArray]:
        joined = _plan_together(some, rationality).policy()[..., 0]
        return _split(joined, len(some))

    return _each(worlds, together, alone)


def spread_out(task: SoftProblem, n_states: int) -> SoftProblem:
    """The problems of W worlds side by side, of which `task` has each as a column.

    Args:
        task: of the joined world, with rewards [T, A or 1, S, W] and as many rationalities.
        n_states: S, of each world.
    """
    return task._replace(
        rewards=Rewards(column(task.rewards.array), task.rewards.discount),
        rationality=np.repeat(task.rationality, n_states)[None, :, None],
        tie=np.repeat(task.tie, n_states)[:, None],
    )


def _plan_together(worlds: Sequence[TabularMDP], rationality: float) -> SoftPlan:
    rewards, unit = stack_rewards([rewards_of(world) for world in worlds]).normalised()
    # A rationality beyond a double, in the utility's own unit, is the limit.
    with np.errstate(over="ignore"):
        in_units = rationality * unit
    return plan(spread_out(problem(side_by_side(worlds), rewards, in_units), worlds[0].n_states))


def _optimal_together(worlds: Sequence[TabularMDP]) -> list[FloatArray]:
    solved = _plan_together(worlds, np.inf)
    mdp = solved.task.mdp
    out = np.zeros((mdp.steps, mdp.n_states, mdp.n_actions))
    states = np.arange(mdp.n_states)
    for step in range(mdp.steps):
        # As in `optimal_policy`: gaps of tied actions are exactly 0, and the first one counts.
        out[step, states, solved.backup_at(step).gap[..., 0].argmin(axis=0)] = 1.0
    return _split(out, len(worlds))


def _split(policy: FloatArray, n_worlds: int) -> list[FloatArray]:
    """[H, W * S, A] as W policies [H, S, A]."""
    return [np.ascontiguousarray(part) for part in np.split(policy, n_worlds, axis=1)]


def _each(
    worlds: Sequence[TabularMDP],
    together: Callable[[Sequence[TabularMDP]], list[FloatArray]],
    alone: Callable[[TabularMDP], FloatArray],
) -> list[FloatArray]:
    groups: dict[object, list[int]] = {}
    for i, world in enumerate(worlds):
        # The infinite problem is solved by factorising, which gains nothing from neighbours.
        like = (world.n_states, world.n_actions, world.horizon, world.discount)
        groups.setdefault(like if world.horizon is not None else i, []).append(i)
    out: dict[int, FloatArray] = {}
    for members in groups.values():
        room = max(1, MOST_STATES // worlds[members[0]].n_states)
        for start in range(0, len(members), room):
            part = members[start : start + room]
            some = [worlds[i] for i in part]
            made = together(some) if len(some) > 1 else [alone(some[0])]
            out.update(zip(part, made, strict=True))
    return [out[i] for i in range(len(worlds))]
