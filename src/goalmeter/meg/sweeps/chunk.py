"""Measure one chunk of a sweep: its arrays, its rows, and the columns of results."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidUtilityError,
    MissingExtraError,
    shown,
)
from goalmeter._files import digest
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.meg.known import known_utility_many
from goalmeter.meg.result import MegResult
from goalmeter.meg.sweeps.plan import (
    EPSILON_GREEDY,
    OPTIMAL,
    REWARD,
    SOFT_OPTIMAL,
    UNIFORM,
    UNKNOWN,
    UTILITY,
    Choice,
)
from goalmeter.meg.sweeps.worlds import Files, called, function_of, source_of, world_digest
from goalmeter.meg.unknown import unknown_utility, unknown_utility_many
from goalmeter.report.numbers import general
from goalmeter.runs.reading import Field, check_record, text
from goalmeter.tabular import (
    TabularMDP,
    epsilon_greedy,
    load_features,
    load_policy,
    load_utility,
    uniform_policy,
)
from goalmeter.tabular.arrays import as_floats
from goalmeter.tabular.batched import optimal_policies, soft_optimal_policies
from goalmeter.tabular.policies import check_policy

# --- Arrays ---------------------------------------------------------------------------------------
# What is measured where there is an array, and said where there is none.
ArrayOrError = FloatArray | None | str


class Arrays:
    """What is chosen, for the worlds of a chunk.

    Args:
        worlds: those that could be made.
        fields: what {names} in the path of a file stand for, one for each world.
    """

    def __init__(self, worlds: Sequence[TabularMDP], fields: Sequence[Mapping[str, Any]]) -> None:
        self._worlds = worlds
        self._fields = fields

    @cached_property
    def _optimal(self) -> list[FloatArray]:
        # Every epsilon departs from the same one.
        return optimal_policies(self._worlds)

    def policies(self, choice: Choice) -> list[FloatArray | str]:
        """The policy in each world, or what is wrong with it."""
        match choice.name:
            case name if name == OPTIMAL:
                return list(self._optimal)
            case name if name == UNIFORM:
                return [uniform_policy(world) for world in self._worlds]
            case name if name == EPSILON_GREEDY:
                epsilon = choice.arguments["epsilon"]
                return [epsilon_greedy(policy, epsilon) for policy in self._optimal]
            case name if name == SOFT_OPTIMAL:
                return list(soft_optimal_policies(self._worlds, choice.arguments["rationality"]))

        def checked(world: TabularMDP, policy: Any) -> FloatArray:
            check_policy(world, policy)
            return np.asarray(policy, dtype=np.float64)

        return self._each(choice, load_policy, checked)

    def utilities(self, choice: Choice) -> list[ArrayOrError]:
        """The known utility of each world, None for its own reward, or what is wrong with it."""
        if choice.role == UTILITY and choice.name == REWARD:
            return [None] * len(self._worlds)
        return list(self._each(choice, load_utility, _as_array))

    def features(self, choice: Choice) -> list[ArrayOrError]:
        """The features of each world, None for a class by name, or what is wrong with them."""
        if choice.role == UNKNOWN and choice.is_word:
            return [None] * len(self._worlds)
        return list(self._each(choice, load_features, _as_array))

    def _each(
        self,
        choice: Choice,
        read: Callable[[str], FloatArray],
        checked: Callable[[TabularMDP, Any], FloatArray],
    ) -> list[FloatArray | str]:
        """What a file or a user's function has for each world."""
        function = function_of(choice.name, choice.role) if choice.is_users else None
        once: dict[str, FloatArray] = {}

        def made(world: TabularMDP, fields: Mapping[str, Any]) -> FloatArray:
            if function is not None:
                return checked(world, called(function, choice.label, (world,), choice.arguments))
            path = choice.path(fields)
            if path not in once:
                once[path] = read(path)
            try:
                return checked(world, once[path])
            except GoalmeterError as cause:
                raise type(cause)(f"{path}: {cause}") from cause

        out: list[FloatArray | str] = []
        for world, fields in zip(self._worlds, self._fields, strict=True):
            try:
                out.append(made(world, fields))
            except (GoalmeterError, MissingExtraError) as error:
                out.append(str(error))
        return out


def _as_array(world: TabularMDP, value: ArrayLike) -> FloatArray:
    # Whether it fits the world is checked where it is measured.
    return as_floats(value, "the array", InvalidUtilityError)


# --- Columns --------------------------------------------------------------------------------------
# As JSON, a column of numbers is one text with spaces between them, of which Python keeps a tenth
# of what it would keep of as many numbers. Sentences, which many rows share, stand in a list
# once.

CERTIFIED, OPEN, FAILED = "certified", "open", "failed"
STATUSES = (CERTIFIED, OPEN, FAILED)
NUMBERS = ("value", "upper_bound", "maximum", "rationality", "bound_size")
_WORDS = ("method", "note")
_BETWEEN = "; "
_RECORD = {
    "worlds": Field("a list", lambda value: isinstance(value, list)),
    **dict.fromkeys((*NUMBERS, *_WORDS), text()),
    "status": text(),
    "words": Field(
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value),
    ),
}


@dataclass(frozen=True)
class WorldFacts:
    """What is known of a world once it was made.

    Attributes:
        states: how many.
        actions: how many.
        horizon: decisions; None for the infinite problem.
        discount: in (0, 1].
        digest: of its arrays, see `sources.world_digest`.
    """

    states: int
    actions: int
    horizon: int | None
    discount: float
    digest: str


@dataclass(frozen=True)
class Measured:
    """One row as it was measured; numbers of one that failed are NaN."""

    status: str
    value: float = math.nan
    upper_bound: float = math.nan
    maximum: float = math.nan
    rationality: float = math.nan
    bound_size: float = math.nan
    method: str = ""
    note: str = ""

    @property
    def fraction(self) -> float:
        """Value / maximum, in [0, 1]; 0 where no decision can matter, NaN of a row that failed."""
        if math.isnan(self.value):
            return math.nan
        return min(self.value / self.maximum, 1.0) if self.maximum > 0 else 0.0


@dataclass(frozen=True, eq=False)
class Columns:
    """The rows of a chunk, column by column.

    Attributes:
        worlds: what is known of each world of the chunk; None of one that could not be made.
        record: the columns as JSON values, by name.
    """

    worlds: Sequence[WorldFacts | None]
    record: Mapping[str, Any] = field(repr=False)

    def __len__(self) -> int:
        return len(self.record["status"])

    def numbers(self, name: str) -> list[float]:
        """A column of `NUMBERS`; NaN in rows that failed."""
        return [float(number) for number in self.record[name].split()]

    def statuses(self) -> list[str]:
        """The status of each row."""
        return [_STATUS[letter] for letter in self.record["status"]]

    def words(self, name: str) -> list[str]:
        """The column "method" or "note"."""
        said: list[str] = self.record["words"]
        return [said[int(number)] for number in self.record[name].split()]

    def rows(self) -> list[Measured]:
        """Every row."""
        return [
            Measured(*cells)
            for cells in zip(
                self.statuses(),
                *map(self.numbers, NUMBERS),
                *map(self.words, _WORDS),
                strict=True,
            )
        ]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return dict(self.record)


_STATUS = {status[0]: status for status in STATUSES}


def columns_of(worlds: Sequence[WorldFacts | None], rows: Sequence[Measured]) -> Columns:
    """The columns of some rows."""
    words: dict[str, int] = {}
    record: dict[str, Any] = {
        "worlds": [None if world is None else list(vars(world).values()) for world in worlds]
    }
    for name in NUMBERS:
        record[name] = " ".join(repr(float(getattr(row, name))) for row in rows)
    for name in _WORDS:
        numbers = [words.setdefault(getattr(row, name), len(words)) for row in rows]
        record[name] = " ".join(map(str, numbers))
    record["status"] = "".join(row.status[0] for row in rows)
    return Columns(worlds, record | {"words": list(words)})


def columns_from_json(value: Any, *, rows: int, worlds: int) -> Columns:
    """The columns that `to_json` was of.

    Args:
        value: JSON values, which may come from a file that anybody edited.
        rows: how many there have to be.
        worlds: the same of worlds.
    """
    record = check_record(value, _RECORD, "the rows")
    try:
        facts = [None if entry is None else _facts(*entry) for entry in record["worlds"]]
        out = Columns(facts, record)
        lengths = {len(facts) - worlds, *(len(out.numbers(name)) - rows for name in NUMBERS)}
        lengths |= {len(out.words(name)) - rows for name in _WORDS} | {len(out.statuses()) - rows}
    except (ValueError, TypeError, LookupError, OverflowError) as cause:
        raise InvalidFileError(f"its columns cannot be read: {shown(str(cause))}") from cause
    if lengths != {0}:
        raise InvalidFileError(
            f"its columns are not of {rows} rows in {worlds} worlds, as its key has it"
        )
    return out


def measured(result: MegResult) -> Measured:
    """A row of what was measured."""
    notes = list(result.notes)
    if not result.certified:
        ended = f" when the {result.stopped} ended the search" if result.stopped else ""
        notes.insert(
            0,
            f"the optimum is not certified: the bound was {general(result.gap, 2)} nats above the "
            f"value{ended}",
        )
    return Measured(
        CERTIFIED if result.certified else OPEN,
        result.value,
        result.upper_bound,
        result.maximum,
        result.rationality,
        result.bound_size,
        result.method,
        _BETWEEN.join(notes),
    )


def failed(sentence: str) -> Measured:
    """A row that could not be measured, and why."""
    return Measured(FAILED, note=sentence)


def _facts(
    states: int, actions: int, horizon: int | None, discount: float, digest: str
) -> WorldFacts:
    return WorldFacts(
        int(states),
        int(actions),
        None if horizon is None else int(horizon),
        float(discount),
        digest,
    )


# --- Chunk ----------------------------------------------------------------------------------------
# Plain JSON goes in and comes out, so that it can be done in any process. What is wrong with a
# world, a policy or a utility is said in its rows and stops no other.

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
            facts.append(_chunk_facts(world))
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


def _chunk_facts(world: TabularMDP) -> WorldFacts:
    return WorldFacts(
        world.n_states, world.n_actions, world.horizon, world.discount, world_digest(world)
    )
