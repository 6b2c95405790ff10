"""Measuring a chunk: its worlds are made, its policies planned, and its rows measured, in one go.

Plain JSON goes in and comes out, so that it can be done in any process. What is wrong with a world,
a policy or a utility is said in its rows and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from goalmeter._errors import GoalmeterError, InvalidFileError, MissingExtraError
from goalmeter._files import digest
from goalmeter._types import FloatArray
from goalmeter.meg.known import known_utility_many
from goalmeter.meg.result import MegResult
from goalmeter.meg.sweeps.arrays import Arrays
from goalmeter.meg.sweeps.choices import UNKNOWN, Choice
from goalmeter.meg.sweeps.columns import Measured, WorldFacts, columns_of, failed, measured
from goalmeter.meg.sweeps.sources import Files, source_of, world_digest
from goalmeter.meg.unknown import unknown_utility
from goalmeter.meg.unknown_worlds import unknown_utility_many
from goalmeter.tabular import TabularMDP

# World, policy, and the utility or the features; None for the reward or a class by name.
_Case = tuple[TabularMDP, FloatArray, FloatArray | None]


def measure(
    sources: Sequence[Mapping[str, Any]],
    choices: Sequence[Mapping[str, Any]],
    timeout: float | None,
    shared: Mapping[str, str | None],
    source: int,
    first: int,
    count: int,
    paths: Sequence[str],
    policies: Sequence[int],
    contents: Mapping[str, str | None],
) -> dict[str, Any]:
    """The rows of a chunk, as `Columns.to_json`; its arguments are those of `SweepPlan`.

    Raises:
        InvalidFileError: a file is no longer what it was when the sweep was planned.
    """
    _check_unchanged({**shared, **contents})
    place = Files(tuple(paths)) if paths else source_of(sources[source])
    numbers = range(len(paths)) if paths else range(first, first + count)
    chosen = [Choice(**choice) for choice in choices]
    asked = [choice for choice in chosen if choice.role == "policy"][slice(*policies)]
    towards = [choice for choice in chosen if choice.role != "policy"]
    worlds = _worlds(place.maker, numbers)
    made = [world for world in worlds if isinstance(world, TabularMDP)]
    fields = [
        place.fields(number)
        for number, world in zip(numbers, worlds, strict=True)
        if isinstance(world, TabularMDP)
    ]
    rows = _rows(Arrays(made, fields), made, asked, towards, timeout)
    facts: list[WorldFacts | None] = []
    out: list[Measured] = []
    behind = iter(range(len(made)))
    for world in worlds:
        if isinstance(world, TabularMDP):
            place_in = next(behind)
            out += [rows[p][u][place_in] for p in range(len(asked)) for u in range(len(towards))]
            facts.append(_facts(world))
        else:
            out += [failed(world)] * (len(asked) * len(towards))
            facts.append(None)
    return columns_of(facts, out).to_json()


def _check_unchanged(contents: Mapping[str, str | None]) -> None:
    for path, expected in contents.items():
        if expected is not None and digest(path) != expected:
            raise InvalidFileError(
                f"{path} has changed since the sweep began; restore it, or begin again in another "
                f"folder"
            )


def _worlds(maker: Callable[[], Callable[[int], TabularMDP]], numbers: range) -> list[Any]:
    """Each world, or the sentence of why it could not be made."""
    try:
        make = maker()
    except GoalmeterError as error:
        return [str(error)] * len(numbers)
    out: list[TabularMDP | str] = []
    for number in numbers:
        try:
            out.append(make(number))
        except (GoalmeterError, MissingExtraError) as error:
            out.append(str(error))
    return out


def _rows(
    arrays: Arrays,
    worlds: Sequence[TabularMDP],
    policies: Sequence[Choice],
    utilities: Sequence[Choice],
    timeout: float | None,
) -> list[list[list[Measured]]]:
    """The rows of worlds that could be made, by policy, utility and world."""
    behaviour = [_or_errors(len(worlds), arrays.policies, choice) for choice in policies]
    out: list[list[list[Measured]]] = [[[] for _ in utilities] for _ in policies]
    for u, utility in enumerate(utilities):
        get = arrays.features if utility.role == UNKNOWN else arrays.utilities
        aims = _or_errors(len(worlds), get, utility)
        cases: list[_Case] = []
        rows: list[Measured | None] = []
        for each in behaviour:
            for world, policy, aim in zip(worlds, each, aims, strict=True):
                if wrong := [text for text in (policy, aim) if isinstance(text, str)]:
                    rows.append(failed(wrong[0]))
                    continue
                cases.append((world, policy, aim))
                rows.append(None)
        results = iter(_isolated(cases, _measuring(utility, timeout)))
        filled = [next(results) if row is None else row for row in rows]
        for p in range(len(policies)):
            out[p][u] = filled[p * len(worlds) : (p + 1) * len(worlds)]
    return out


def _or_errors(n: int, get: Callable[[Choice], Sequence[Any]], choice: Choice) -> Sequence[Any]:
    """What is chosen for each world; what is wrong with the choice itself is so in each."""
    if not n:
        return []
    try:
        return get(choice)
    except (GoalmeterError, MissingExtraError) as error:
        return [str(error)] * n


def _measuring(
    utility: Choice, timeout: float | None
) -> Callable[[Sequence[_Case]], list[MegResult]]:
    def known(cases: Sequence[_Case]) -> list[MegResult]:
        worlds, policies, utilities = zip(*cases, strict=True)
        return known_utility_many(worlds, policies, utilities=utilities)

    def search(cases: Sequence[_Case]) -> list[MegResult]:
        worlds, policies, _ = zip(*cases, strict=True)
        over: Any = utility.name
        # The time of those that are searched together is that of all of them.
        limit = None if timeout is None else timeout * len(cases)
        return unknown_utility_many(worlds, policies, over=over, timeout=limit)

    def with_features(cases: Sequence[_Case]) -> list[MegResult]:
        return [
            unknown_utility(world, policy, features=features, progress=False, timeout=timeout)
            for world, policy, features in cases
        ]

    if utility.role != UNKNOWN:
        return known
    return search if utility.is_word else with_features


def _isolated(
    cases: Sequence[_Case], measure_all: Callable[[Sequence[_Case]], list[MegResult]]
) -> list[Measured]:
    """The row of each case; a case that brings an error has it as its row, the others theirs."""
    if not cases:
        return []
    try:
        return [measured(result) for result in measure_all(cases)]
    except (GoalmeterError, MissingExtraError) as error:
        if len(cases) == 1:
            return [failed(str(error))]
    middle = len(cases) // 2
    return [*_isolated(cases[:middle], measure_all), *_isolated(cases[middle:], measure_all)]


def _facts(world: TabularMDP) -> WorldFacts:
    return WorldFacts(
        world.n_states, world.n_actions, world.horizon, world.discount, world_digest(world)
    )
