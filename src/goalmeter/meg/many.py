"""Many worlds, a policy in each: which go together, and which bring an error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter._types import ArrayLike
from goalmeter.tabular._threads import map_all
from goalmeter.tabular._validation import naming
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import is_nearly_endless
from goalmeter.tabular.side_by_side import MOST_STATES
from goalmeter.tabular.stationary import DIRECT_STATES

_T = TypeVar("_T")


class Case(NamedTuple):
    """A policy in a world, what it is compared with, and what an error calls it."""

    name: str
    mdp: TabularMDP
    policy: ArrayLike
    utility: ArrayLike | None
    reference: ArrayLike | None

    @property
    def shape(self) -> tuple[int, int, int | None, float]:
        """What worlds that are worked on together have in common."""
        return self.mdp.n_states, self.mdp.n_actions, self.mdp.horizon, self.mdp.discount


def cases_of(
    mdp: TabularMDP | Sequence[TabularMDP],
    policies: Sequence[ArrayLike],
    utilities: Sequence[ArrayLike | None] | None,
    reference: ArrayLike | None,
    references: Sequence[ArrayLike | None] | None,
) -> list[Case]:
    """The cases that a caller means, who gives as many of each, or one for all."""
    if reference is not None and references is not None:
        raise InvalidParameterError(
            "reference and references are both given, expected one of them: reference is shared "
            "by all, references are one for each"
        )
    alone = isinstance(mdp, TabularMDP)
    worlds = [mdp] if isinstance(mdp, TabularMDP) else list(mdp)
    for i, world in enumerate(worlds):
        if not isinstance(world, TabularMDP):
            raise InvalidParameterError(
                f"worlds[{i}] is of type {type(world).__name__}, expected a TabularMDP"
            )
    compared = [None] if utilities is None else list(utilities)
    habits = [reference] if references is None else list(references)
    counts = {len(worlds), len(policies), len(compared), len(habits)}
    if 0 in counts or len(counts - {1}) > 1:
        raise InvalidParameterError(
            f"got {len(worlds)} worlds, {len(policies)} policies, {len(compared)} utilities and "
            f"{len(habits)} references, expected as many of each, or a single one that is used "
            f"for all"
        )
    return [
        Case(
            f"{'policies' if alone else 'worlds'}[{i}]",
            worlds[i % len(worlds)],
            policies[i % len(policies)],
            compared[i % len(compared)],
            habits[i % len(habits)],
        )
        for i in range(max(counts))
    ]


def measure_parts(
    cases: Sequence[Case],
    together: Callable[[Sequence[Case]], Sequence[_T]],
    alone: Callable[[Case], _T],
    alike: Callable[[Case], float] = lambda case: 0.0,
) -> list[_T]:
    """The results of all cases in order: of those of like shape together, of the others alone.

    Cases that are measured together are `alike` as far as possible. Parts are shared out among
    threads. What is measured together or alone is the same however many there are, and so are the
    numbers.
    """
    groups: dict[object, list[int]] = {}
    for i, case in enumerate(cases):
        key = (case.shape, case.reference is None) if _joins(case.mdp) else i
        groups.setdefault(key, []).append(i)
    parts, single = [], []
    for members in groups.values():
        if len(members) == 1:
            single += members
            continue
        size = _room(cases[members[0]].mdp)
        members.sort(key=lambda i: alike(cases[i]))
        parts += [members[start : start + size] for start in range(0, len(members), size)]
    results: dict[int, _T] = {}

    def work(part: list[int]) -> Sequence[_T]:
        chosen = [cases[i] for i in part]
        try:
            return together(chosen)
        except GoalmeterError:
            # Which of them it was is known by asking each.
            return [_named(case, alone) for case in chosen]

    if parts:
        for part, done in zip(parts, map_all(work, parts), strict=True):
            results.update(zip(part, done, strict=True))
    for i in single:
        results[i] = _named(cases[i], alone)
    return [results[i] for i in range(len(cases))]


def _named(case: Case, alone: Callable[[Case], _T]) -> _T:
    with naming(case.name):
        return alone(case)


def _room(mdp: TabularMDP) -> int:
    """How many worlds like this one stand side by side."""
    # Of the infinite problem, so many that policies are still evaluated by a factorisation.
    return (MOST_STATES if mdp.horizon is not None else DIRECT_STATES) // mdp.n_states


def _joins(mdp: TabularMDP) -> bool:
    """Whether a world may stand beside others."""
    return _room(mdp) > 1 and not is_nearly_endless(mdp)
