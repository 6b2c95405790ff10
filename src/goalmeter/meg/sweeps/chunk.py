"""Measure one chunk of a sweep, and store its rows as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidUtilityError,
    MissingExtraError,
    shown,
)
from goalmeter._files import digest
from goalmeter._types import FloatArray
from goalmeter.meg.known import known_utility_many
from goalmeter.meg.result import MegResult
from goalmeter.meg.sweeps.plan import (
    EPSILON_GREEDY,
    OPTIMAL,
    POLICY,
    SOFT_OPTIMAL,
    UNIFORM,
    UNKNOWN,
    UTILITY,
    SweepChoice,
)
from goalmeter.meg.sweeps.worlds import Source, call, function_of, source_of, world_digest
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

CERTIFIED, OPEN, FAILED = "certified", "open", "failed"
STATUSES = (CERTIFIED, OPEN, FAILED)
NUMBERS = ("value", "upper_bound", "maximum", "rationality", "bound_size")
_TEXTS = ("method", "note")
_ERRORS = (GoalmeterError, MissingExtraError)


# --- Rows as columns ------------------------------------------------------------------------------
class WorldFacts(NamedTuple):
    """Size of a world, and the digest of its arrays.

    Attributes:
        states, actions: counts.
        horizon: decisions; None for the infinite problem.
        discount: in (0, 1].
        digest: see `worlds.world_digest`.
    """

    states: int
    actions: int
    horizon: int | None
    discount: float
    digest: str


class SweepValues(NamedTuple):
    """The measured numbers of one row; NaN where it failed."""

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


_STATUS = {status[0]: status for status in STATUSES}
_RECORD = {
    "worlds": Field("a list", lambda value: isinstance(value, list)),
    **dict.fromkeys((*NUMBERS, *_TEXTS, "status"), text()),
    "words": Field(
        "a list of texts",
        lambda value: isinstance(value, list) and all(isinstance(word, str) for word in value),
    ),
}


@dataclass(frozen=True, eq=False)
class ChunkColumns:
    """The rows of a chunk, column by column.

    A column of numbers is one text, which takes a tenth of the memory of as many Python floats.
    Sentences that rows share are stored once.

    Attributes:
        worlds: of the chunk; None for one that could not be made.
        record: columns as JSON, by name.
    """

    worlds: Sequence[WorldFacts | None]
    record: Mapping[str, Any] = field(repr=False)

    def numbers(self, name: str) -> list[float]:
        """Return a column of `NUMBERS`; NaN in rows that failed."""
        return [float(number) for number in self.record[name].split()]

    def statuses(self) -> list[str]:
        """Return the status of each row."""
        return [_STATUS[letter] for letter in self.record["status"]]

    def words(self, name: str) -> list[str]:
        """Return the column "method" or "note"."""
        sentences: list[str] = self.record["words"]
        return [sentences[int(number)] for number in self.record[name].split()]

    def rows(self) -> list[SweepValues]:
        """Return every row."""
        columns = [self.statuses(), *map(self.numbers, NUMBERS), *map(self.words, _TEXTS)]
        return [SweepValues(*cells) for cells in zip(*columns, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """Return the columns as JSON."""
        return dict(self.record)


def columns_of(worlds: Sequence[WorldFacts | None], rows: Sequence[SweepValues]) -> ChunkColumns:
    """Return the columns of some rows."""
    words: dict[str, int] = {}
    record: dict[str, Any] = {
        "worlds": [None if world is None else list(world) for world in worlds]
    }
    for name in NUMBERS:
        record[name] = " ".join(repr(float(getattr(row, name))) for row in rows)
    for name in _TEXTS:
        numbers = [words.setdefault(getattr(row, name), len(words)) for row in rows]
        record[name] = " ".join(map(str, numbers))
    record["status"] = "".join(row.status[0] for row in rows)
    return ChunkColumns(worlds, record | {"words": list(words)})


def columns_from_json(value: Any, *, rows: int, worlds: int) -> ChunkColumns:
    """Read columns that a run stores, and check the numbers of rows and worlds."""
    record = check_record(value, _RECORD, "the rows")
    try:
        facts = [None if entry is None else _stored_facts(*entry) for entry in record["worlds"]]
        out = ChunkColumns(facts, record)
        sizes = {len(out.numbers(name)) for name in NUMBERS} | {len(out.statuses())}
        sizes |= {len(out.words(name)) for name in _TEXTS}
    except (ValueError, TypeError, LookupError, OverflowError) as cause:
        raise InvalidFileError(f"its columns cannot be read: {shown(str(cause))}") from cause
    if sizes != {rows} or len(facts) != worlds:
        raise InvalidFileError(
            f"its columns are not of {rows} rows in {worlds} worlds, as its key has it"
        )
    return out


def _stored_facts(
    states: int, actions: int, horizon: int | None, discount: float, digest: str
) -> WorldFacts:
    decisions = None if horizon is None else int(horizon)
    return WorldFacts(int(states), int(actions), decisions, float(discount), digest)


def _row_of(result: MegResult) -> SweepValues:
    notes = list(result.notes)
    if not result.certified:
        ended = f" when the {result.stopped} ended the search" if result.stopped else ""
        notes.insert(
            0,
            f"the optimum is not certified: the bound was {general(result.gap, 2)} nats above the "
            f"value{ended}",
        )
    return SweepValues(
        CERTIFIED if result.certified else OPEN,
        **{name: getattr(result, name) for name in NUMBERS},
        method=result.method,
        note="; ".join(notes),
    )


def failed(sentence: str) -> SweepValues:
    """Return a row that could not be measured, with the reason."""
    return SweepValues(FAILED, note=sentence)


# --- Measurement ----------------------------------------------------------------------------------
# Arguments and result are JSON, so any process can do it. What is wrong with a world, a policy or a
# utility becomes the note of its rows and stops no other row.


class _Case(NamedTuple):
    """`aim`: the utility or the features; None for the reward or a named class."""

    world: TabularMDP
    policy: FloatArray
    aim: FloatArray | None


def measure(
    choices: Sequence[Mapping[str, Any]],
    timeout: float | None,
    source: Mapping[str, Any],
    first: int,
    count: int,
    policies: Sequence[int],
    contents: Mapping[str, str | None],
) -> dict[str, Any]:
    """Return the rows of a chunk, as `ChunkColumns.to_json`; see `SweepPlan` for the arguments.

    Raises:
        InvalidFileError: a file has changed since the sweep was planned.
    """
    for path, expected in contents.items():
        if expected is not None and digest(path) != expected:
            raise InvalidFileError(
                f"{path} has changed since the sweep began; restore it, or begin again in another "
                f"folder"
            )
    origin = source_of(source)
    numbers = range(first, first + count)
    every = [SweepChoice(**choice) for choice in choices]
    behaviour = [choice for choice in every if choice.role == POLICY][slice(*policies)]
    aims = [choice for choice in every if choice.role != POLICY]
    worlds = _worlds(origin, numbers)
    made = {
        n: world for n, world in zip(numbers, worlds, strict=True) if not isinstance(world, str)
    }
    rows = _rows(made, origin, behaviour, aims, timeout)
    facts: list[WorldFacts | None] = []
    out: list[SweepValues] = []
    for number, world in zip(numbers, worlds, strict=True):
        if isinstance(world, str):
            out += [failed(world)] * (len(behaviour) * len(aims))
            facts.append(None)
        else:
            out += rows[number]
            size = (world.n_states, world.n_actions, world.horizon, world.discount)
            facts.append(WorldFacts(*size, world_digest(world)))
    return columns_of(facts, out).to_json()


def _worlds(source: Source, numbers: range) -> list[TabularMDP | str]:
    """Return each world, or the sentence of why it could not be made."""
    try:
        make = source.maker()
    except GoalmeterError as error:
        return [str(error)] * len(numbers)
    out: list[TabularMDP | str] = []
    for number in numbers:
        try:
            out.append(make(number))
        except _ERRORS as error:
            out.append(str(error))
    return out


def _rows(
    worlds: Mapping[int, TabularMDP],
    source: Source,
    policies: Sequence[SweepChoice],
    utilities: Sequence[SweepChoice],
    timeout: float | None,
) -> dict[int, list[SweepValues]]:
    """Return the rows of each world that could be made, by policy and utility."""
    every = list(worlds.values())
    fields = [source.fields(number) for number in worlds]
    best = cache(lambda: optimal_policies(every))
    behaviour = [_arrays(choice, every, fields, best) for choice in policies]
    columns: dict[tuple[int, int], list[SweepValues]] = {}
    for u, utility in enumerate(utilities):
        aims = _arrays(utility, every, fields, best)
        cases: list[_Case] = []
        rows: list[SweepValues | None] = []
        for each in behaviour:
            for world, policy, aim in zip(every, each, aims, strict=True):
                if isinstance(policy, str) or isinstance(aim, str):
                    rows.append(failed(policy if isinstance(policy, str) else str(aim)))
                    continue
                assert policy is not None
                cases.append(_Case(world, policy, aim))
                rows.append(None)
        results = iter(_isolated(cases, utility, timeout))
        filled = [next(results) if row is None else row for row in rows]
        for p in range(len(policies)):
            columns[p, u] = filled[p * len(every) : (p + 1) * len(every)]
    places = [(p, u) for p in range(len(policies)) for u in range(len(utilities))]
    return {number: [columns[at][n] for at in places] for n, number in enumerate(worlds)}


def _arrays(
    choice: SweepChoice,
    worlds: Sequence[TabularMDP],
    fields: Sequence[Mapping[str, Any]],
    best: Callable[[], Sequence[FloatArray]],
) -> Sequence[FloatArray | str | None]:
    """Return the array of each world, None for its reward or a named class, or what is wrong.

    `best` returns the optimal policies, which all values of epsilon share.
    """
    if not worlds:
        return []
    try:
        if choice.role != POLICY and choice.is_word:
            return [None] * len(worlds)
        match choice.name:
            case name if name == OPTIMAL:
                return best()
            case name if name == UNIFORM:
                return [uniform_policy(world) for world in worlds]
            case name if name == EPSILON_GREEDY:
                epsilon = choice.arguments["epsilon"]
                return [epsilon_greedy(policy, epsilon) for policy in best()]
            case name if name == SOFT_OPTIMAL:
                return soft_optimal_policies(worlds, choice.arguments["rationality"])
        return _users_arrays(choice, worlds, fields)
    except _ERRORS as error:
        return [str(error)] * len(worlds)


def _users_arrays(
    choice: SweepChoice, worlds: Sequence[TabularMDP], fields: Sequence[Mapping[str, Any]]
) -> list[FloatArray | str]:
    """Return what a file or a user's function has for each world, or what is wrong with it."""
    function = function_of(choice.name, choice.role) if choice.is_users else None
    load = {POLICY: load_policy, UTILITY: load_utility, UNKNOWN: load_features}[choice.role]
    loaded: dict[str, FloatArray] = {}

    def checked(world: TabularMDP, value: Any) -> FloatArray:
        if choice.role == POLICY:
            check_policy(world, value)
            return np.asarray(value, dtype=np.float64)
        return as_floats(value, "the array", InvalidUtilityError)  # its shape is checked later

    def array(world: TabularMDP, names: Mapping[str, Any]) -> FloatArray:
        if function is not None:
            return checked(world, call(function, choice.label, world, **choice.arguments))
        path = choice.name.format_map(names)
        if path not in loaded:
            loaded[path] = load(path)
        try:
            return checked(world, loaded[path])
        except GoalmeterError as cause:
            raise type(cause)(f"{path}: {cause}") from cause

    out: list[FloatArray | str] = []
    for world, names in zip(worlds, fields, strict=True):
        try:
            out.append(array(world, names))
        except _ERRORS as error:
            out.append(str(error))
    return out


def _results(
    cases: Sequence[_Case], utility: SweepChoice, timeout: float | None
) -> list[MegResult]:
    worlds, policies, aims = zip(*cases, strict=True)
    if utility.role != UNKNOWN:
        return known_utility_many(worlds, policies, utilities=aims)
    if not utility.is_word:
        search: Callable[..., MegResult] = unknown_utility
        return [
            search(world, policy, features=aim, progress=False, timeout=timeout)
            for world, policy, aim in cases
        ]
    over: Any = utility.name
    # The time of a joint search is the sum over its rows.
    limit = None if timeout is None else timeout * len(cases)
    return unknown_utility_many(worlds, policies, over=over, timeout=limit)


def _isolated(
    cases: Sequence[_Case], utility: SweepChoice, timeout: float | None
) -> list[SweepValues]:
    """Return the row of each case; a case with an error fails alone."""
    if not cases:
        return []
    try:
        return [_row_of(result) for result in _results(cases, utility, timeout)]
    except _ERRORS as error:
        if len(cases) == 1:
            return [failed(str(error))]
    half = len(cases) // 2
    first, second = cases[:half], cases[half:]
    return [*_isolated(first, utility, timeout), *_isolated(second, utility, timeout)]
