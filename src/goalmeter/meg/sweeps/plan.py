"""The plan of a sweep: policies, utilities, rows, chunks, and a forecast of its cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, groupby
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from goalmeter._errors import json_text
from goalmeter._files import JsonFields
from goalmeter.agents.user_code import split_name
from goalmeter.meg.sweeps.worlds import Files, Source, label, source_of
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, Span, left_of, slots_at
from goalmeter.tabular.batched import MOST_STATES

KIND = "sweep"
POLICY, UTILITY, UNKNOWN = "policy", "utility", "unknown"
OPTIMAL, UNIFORM, EPSILON_GREEDY = "optimal", "uniform", "epsilon_greedy"
SOFT_OPTIMAL, REWARD = "soft_optimal", "reward"
# Built-in names of each role, with their arguments.
WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    POLICY: {
        OPTIMAL: (),
        UNIFORM: (),
        EPSILON_GREEDY: ("epsilon",),
        SOFT_OPTIMAL: ("rationality",),
    },
    UTILITY: {REWARD: ()},
    UNKNOWN: {"state": (), "state-action": (), "time-state": ()},
}


@dataclass(frozen=True)
class SweepChoice(JsonFields):
    """One policy, one known utility, or one class of unknown utilities.

    Attributes:
        role: "policy", "utility" or "unknown".
        name: a key of `WORDS`, the path of an .npz file, or FILE.py:NAME.
        arguments: of the built-in or the user's function.
    """

    role: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name in tables, unique in a sweep."""
        text = label(self.name, self.arguments)
        return f"unknown {text}" if self.role == UNKNOWN else text

    @property
    def is_word(self) -> bool:
        """Whether it is built in."""
        return self.name in WORDS[self.role]

    @property
    def is_users(self) -> bool:
        """Whether it is a function of a user's file."""
        return split_name(self.name) is not None

    @property
    def is_file(self) -> bool:
        """Whether it is read from an .npz file."""
        return not (self.is_word or self.is_users)

    @property
    def placeholders(self) -> list[str]:
        """The {names} in the path of a file."""
        if not self.is_file:
            return []
        return [name for _, name, _, _ in Formatter().parse(self.name) if name is not None]


# --- Plan -----------------------------------------------------------------------------------------
# Rows are numbered: all of the first world, policy by policy and utility by utility, then all of
# the second. A chunk is a range of rows that one job measures: as many worlds as fill a block of
# states, or one policy in one world where a single row is enough work. Chunks follow from the plan
# alone, so results depend neither on the place nor on the order of the jobs.

# Classes with more weights are searched world by world; see `unknown_utility_many`.
_SMALL_CLASS = 100
# Cost of a search, as a multiple of the cost of a known utility in the same world.
_SEARCH = 8
# Seconds per state with a known utility and a horizon of a few tens.
_SECONDS = 5e-5
# Work of a chunk, in states with a known utility: some seconds.
_MOST_WORK = 16 * MOST_STATES


class Chunk(NamedTuple):
    """Rows that one job measures: the number of the first, and the count."""

    first: int
    rows: int

    @property
    def key(self) -> str:
        """The key of its result in a run."""
        return f"rows {self.first} to {self.first + self.rows - 1}"


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep measures.

    Attributes:
        sources: of the worlds, one after the other.
        policies: measured in every world.
        utilities: for each policy.
        timeout: seconds for the search of a row; None for no limit.
        contents: path -> SHA-256 of every file that a row depends on, None for a missing one.
        sizes: rows of each chunk.
        seconds: rough estimate of the time on one core.
    """

    sources: tuple[Source, ...]
    policies: tuple[SweepChoice, ...]
    utilities: tuple[SweepChoice, ...]
    timeout: float | None = None
    contents: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    sizes: Sequence[int] = field(default=(), repr=False)
    seconds: float = 0.0

    @property
    def choices(self) -> tuple[SweepChoice, ...]:
        """Policies and utilities."""
        return (*self.policies, *self.utilities)

    @cached_property
    def _ends(self) -> list[int]:
        """The number of the world after the last one of each source."""
        return list(accumulate(map(len, self.sources)))

    @property
    def worlds(self) -> int:
        """Number of worlds."""
        return self._ends[-1]

    @property
    def rows(self) -> int:
        """Number of rows: worlds × policies × utilities."""
        return self.worlds * len(self.policies) * len(self.utilities)

    @property
    def chunks(self) -> list[Chunk]:
        """All chunks, in the order of their rows."""
        ends = accumulate(self.sizes)
        return [Chunk(end - size, size) for end, size in zip(ends, self.sizes, strict=True)]

    def place(self, world: int) -> tuple[int, int]:
        """Return the number of a world's source, and its own number there."""
        source = bisect_right(self._ends, world)
        return source, world - (self._ends[source - 1] if source else 0)

    def part(self, chunk: Chunk) -> tuple[range, range]:
        """Return the worlds and the policies of a chunk, by their numbers."""
        per_policy, per_world = len(self.utilities), len(self.policies) * len(self.utilities)
        first, last = (
            (row // per_world, row % per_world // per_policy)
            for row in (chunk.first, chunk.first + chunk.rows - 1)
        )
        return range(first[0], last[0] + 1), range(first[1], last[1] + 1)

    def data_paths(self, source: Source, numbers: range) -> Iterator[str]:
        """Yield the files of some worlds of a source, and of the policies and utilities in them."""
        if isinstance(source, Files):
            yield from source.paths[numbers.start : numbers.stop]
        for choice in self.choices:
            if choice.placeholders:
                yield from (choice.name.format_map(source.fields(number)) for number in numbers)
            elif choice.is_file:
                yield choice.name

    @cached_property
    def _code(self) -> dict[str, str | None]:
        return {path: sha for path, sha in self.contents.items() if path.endswith(".py")}

    def arguments(self, chunk: Chunk) -> dict[str, Any]:
        """Return the arguments of `chunk.measure` for one chunk, as JSON."""
        worlds, policies = self.part(chunk)
        number, first = self.place(worlds.start)
        source, numbers = self.sources[number], range(first, first + len(worlds))
        paths = dict.fromkeys(self.data_paths(source, numbers))
        if isinstance(source, Files):  # a chunk gets its own files only
            source, first = Files(source.paths[first : numbers.stop]), 0
        return {
            "source": source.to_json(),
            "first": first,
            "count": len(worlds),
            "policies": [policies.start, policies.stop],
            "contents": {path: self.contents.get(path) for path in paths} | self._code,
        }

    def common(self) -> dict[str, Any]:
        """Return the arguments of `chunk.measure` that all chunks share, as JSON."""
        return {
            "choices": [choice.to_json() for choice in self.choices],
            "timeout": self.timeout,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON, each value under a name that explains it: `RunStore.what`."""
        out: dict[str, Any] = {"kind": KIND}
        for number, source in enumerate(self.sources, start=1):
            if isinstance(source, Files):
                out[f"worlds {number}, files"] = list(source.paths)
            else:
                out[f"worlds {number}"] = source.generator
                for name, values in source.grid.to_json().items():
                    out[f"worlds {number}, {name}"] = values
        for noun, choices in ((POLICY, self.policies), (UTILITY, self.utilities)):
            for number, choice in enumerate(choices, start=1):
                out[f"{noun} {number}"] = choice.to_json()
        if self.timeout is not None:
            out["timeout"] = self.timeout
        out["rows of chunks"] = [[size, len(list(run))] for size, run in groupby(self.sizes)]
        return out | {
            f"content of {path} (sha256)": value
            for path, value in self.contents.items()
            if value is not None
        }


def plan_of(what: Mapping[str, Any]) -> SweepPlan:
    """Return the plan that `to_json` was called on, without the contents of its files.

    Raises ValueError, TypeError, LookupError, AttributeError or OverflowError for anything else.
    """
    sources: list[Source] = []
    while (name := f"worlds {len(sources) + 1}") in what or f"{name}, files" in what:
        if name in what:
            prefix = f"{name}, "
            arguments = {
                key.removeprefix(prefix): value
                for key, value in what.items()
                if key.startswith(prefix)
            }
            sources.append(source_of({"generator": what[name], "arguments": arguments}))
        else:
            sources.append(source_of({"files": what[f"{name}, files"]}))
    runs = [(int(size), int(times)) for size, times in what["rows of chunks"]]
    policies, utilities = _stored_choices(what, POLICY), _stored_choices(what, UTILITY)
    plan = SweepPlan(tuple(sources), policies, utilities, what.get("timeout"))
    rows = sum(size * times for size, times in runs)
    if not (plan.sources and plan.rows and rows == plan.rows and min(map(min, runs)) > 0):
        raise ValueError("its chunks are not its rows")
    return replace(plan, sizes=[size for size, times in runs for _ in range(times)])


def _stored_choices(what: Mapping[str, Any], noun: str) -> tuple[SweepChoice, ...]:
    out: list[SweepChoice] = []
    while (value := what.get(f"{noun} {len(out) + 1}")) is not None:
        choice = SweepChoice(str(value["role"]), str(value["name"]), dict(value["arguments"]))
        if choice.is_word:  # a page draws its arguments as numbers
            list(map(float, choice.arguments.values()))
        out.append(choice)
    return tuple(out)


def with_chunks(plan: SweepPlan) -> SweepPlan:
    """Return the plan with the sizes of its chunks and the estimate of its seconds."""
    policies, utilities = len(plan.policies), len(plan.utilities)
    sizes: list[int] = []
    total = 0
    for source in plan.sources:
        filled = work = worlds = 0
        for known in source.states():
            size = known or 1
            cost = policies * sum(_work(size, utility) for utility in plan.utilities)
            total += cost
            if worlds and (filled + size > MOST_STATES or work + cost > _MOST_WORK):
                sizes.append(worlds * policies * utilities)
                filled = work = worlds = 0
            if cost > _MOST_WORK and policies > 1:
                sizes += [utilities] * policies
                continue
            filled, work, worlds = filled + size, work + cost, worlds + 1
        if worlds:
            sizes.append(worlds * policies * utilities)
    return replace(plan, sizes=sizes, seconds=_SECONDS * total)


def _work(states: int, utility: SweepChoice) -> int:
    """Work of a row, in states with a known utility."""
    if utility.role != UNKNOWN:
        return states
    is_small = utility.name == "state" and states <= _SMALL_CLASS
    return _SEARCH * states if is_small else _MOST_WORK


# --- Forecast -------------------------------------------------------------------------------------
ROW_BYTES, WORLD_BYTES, CHUNK_BYTES = 100, 50, 400


def forecast_of(plan: SweepPlan, *, on: str = HERE, out: str | Path | None = None) -> Forecast:
    """Return the chunks that are left of a sweep, with a rough estimate of their cost."""
    chunks = {chunk.key: chunk for chunk in plan.chunks}
    left = left_of(chunks, out)
    rows = sum(chunks[key].rows for key in left)
    size = rows * ROW_BYTES + len(left) * CHUNK_BYTES
    size += sum(len(plan.part(chunks[key])[0]) for key in left) * WORLD_BYTES
    slots, at_once = slots_at(on, len(left))
    parallel = min(slots, max(len(left), 1))
    return Forecast(
        name=KIND,
        noun="chunk",
        trials=len(chunks),
        kept=len(chunks) - len(left),
        left=len(left),
        slots=slots,
        place=on,
        hours=Span.of(plan.seconds * rows / plan.rows / parallel / 3600),
        disk=Span.of(size + (len(json_text(plan.to_json())) if left else 0)),
        counted={
            "worlds": plan.worlds,
            "policies": len(plan.policies),
            "utilities": len(plan.utilities),
            "rows": plan.rows,
        },
        assumed=(
            "the time is a rough estimate from the numbers of states; nothing was measured for it",
            at_once,
        ),
    )
