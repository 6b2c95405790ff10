"""Worlds paired with their logs and classes of utilities: the arguments of an estimate, checked."""

from __future__ import annotations

from typing import Any, get_args

from goalmeter._errors import InvalidParameterError
from goalmeter._types import ArrayLike
from goalmeter.meg.samples import Group
from goalmeter.meg.utility_class import LinearClass, Over, linear_class
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import log_policy
from goalmeter.tabular.rewards import check_resolved, rewards_of
from goalmeter.tabular.trajectories import Trajectories, check_trajectories

TrajectoriesLike = (
    Trajectories | tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike]
)


def group_trajectories(
    mdp: Any, trajectories: Any, *, utility: Any = None, unknown: Any = None, reference: Any = None
) -> list[Group]:
    """Check the arguments of `from_trajectories` and pair each world with its log and class."""
    many = not isinstance(mdp, TabularMDP)
    worlds = list(mdp) if many else [mdp]
    logs = list(trajectories) if many else [trajectories]
    if len(worlds) != len(logs) or not worlds:
        raise InvalidParameterError(
            f"got {len(worlds)} MDPs and {len(logs)} sets of trajectories, "
            f"expected one set for each MDP"
        )
    if many and reference is not None:
        raise InvalidParameterError(
            "reference is given with several MDPs, expected None: a policy fits one MDP only"
        )
    groups = [
        Group(
            world,
            check_trajectories(world, _as_trajectories(log)),
            classes,
            None if reference is None else log_policy(world, reference, "reference"),
        )
        for world, log, classes in zip(
            worlds, logs, _classes(worlds, utility, unknown, many), strict=True
        )
    ]
    counts = {g.utilities.n_weights for g in groups}
    if len(counts) > 1:
        raise InvalidParameterError(
            f"the MDPs' utility classes have {sorted(counts)} weights, expected the same "
            f"number in each, since one weight vector is fitted to all"
        )
    return groups


def _as_trajectories(log: Any) -> Trajectories:
    if isinstance(log, Trajectories):
        return log
    if isinstance(log, (tuple, list)) and len(log) in (2, 3):
        return Trajectories(*log)
    raise InvalidParameterError(
        f"trajectories is {type(log).__name__}, expected Trajectories, or a tuple "
        f"(states, actions) or (states, actions, length)"
    )


def _classes(worlds: list[TabularMDP], utility: Any, unknown: Any, many: bool) -> list[LinearClass]:
    """The class of utilities of each world; a known utility is a class of one weight."""
    if utility is not None and unknown is not None:
        raise InvalidParameterError("utility and unknown are both given, expected one of them")
    if isinstance(unknown, str) and unknown not in get_args(Over):
        raise InvalidParameterError(
            f"unknown is {unknown!r}, expected one of {', '.join(map(repr, get_args(Over)))}, or "
            f"features [S, D] or [S, A, D]"
        )
    if isinstance(unknown, str):
        return [linear_class(world, None, unknown) for world in worlds]  # type: ignore[arg-type]
    shared = utility if unknown is None else unknown
    each = list(shared) if many and shared is not None else [shared] * len(worlds)
    if len(each) != len(worlds):
        raise InvalidParameterError(
            f"got {len(worlds)} MDPs and {len(each)} utilities or feature matrices, expected one "
            f"for each MDP"
        )
    if unknown is not None:
        return [linear_class(world, features) for world, features in zip(worlds, each, strict=True)]
    name = "the reward" if utility is None else "the given utility"
    utilities = [rewards_of(world, pair) for world, pair in zip(worlds, each, strict=True)]
    for every in utilities:
        check_resolved(every)
    pairs = [every.normalised() for every in utilities]
    # One rationality for all worlds takes one unit for all.
    unit = max(float(pair[0]) for _, pair in pairs)
    return [
        LinearClass(
            rewards.array.shape[:3],
            rewards.array.reshape(-1, 1) * (float(pair[0]) / unit),
            rewards.discount,
            name,
            unit,
        )
        for rewards, pair in pairs
    ]
