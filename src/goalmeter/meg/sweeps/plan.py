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

from goalmeter._errors import InvalidParameterError, json_text
from goalmeter.agents.user_code import split_name
from goalmeter.meg.sweeps.worlds import WORLD, Files, Source, label, source_of
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, Span, left_of, slots_at
from goalmeter.tabular.batched import MOST_STATES

# --- Choices --------------------------------------------------------------------------------------
POLICY, UTILITY, UNKNOWN = "policy", "utility", "unknown"
OPTIMAL, UNIFORM, EPSILON_GREEDY, SOFT_OPTIMAL = (
    "optimal",
    "uniform",
    "epsilon_greedy",
    "soft_optimal",
)
REWARD = "reward"
# What can be named in each role, with the arguments that it takes.
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
class Choice:
    """One policy, one known utility, or one class of unknown ones.

    Attributes:
        role: "policy", "utility" or "unknown".
        name: a word of `WORDS`, the path of an .npz file, or FILE.py:NAME.
        arguments: of the word or the function.
    """

    role: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What it is called in tables; all that a sweep has are different."""
        text = label(self.name, self.arguments)
        return f"unknown {text}" if self.role == UNKNOWN else text

    @property
    def is_word(self) -> bool:
        """Whether it is one of goalmeter's own."""
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

    def path(self, fields: Mapping[str, Any]) -> str:
        """The path of the file for a world of which {names} are these."""
        return self.name.format_map(fields)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"role": self.role, "name": self.name, "arguments": dict(self.arguments)}


def check_placeholders(choice: Choice, source: Source, where: str) -> None:
    """Raises if the path of a file has a {name} that a world has no value for."""
    known = source.fields(0)
    for name in choice.placeholders:
        if name not in known:
            listed = ", ".join(f"{{{key}}}" for key in known) or "none"
            hint = f" ({{{WORLD}}} is the name of an MDP file without its ending)"
            raise InvalidParameterError(
                f"{where}: {choice.name} has {{{name}}}, which {source.label(0)} has no value for, "
                f"expected {listed}{hint if name == WORLD else ''}"
            )


# --- Plan -----------------------------------------------------------------------------------------
# Rows are numbered: all of the first world, policy by policy and utility by utility, then all of
# the
# second. A chunk is a range of rows that is measured in one go: as many worlds as fill a block of
# states together, or one policy in one world where a row is work enough. Chunks follow from the
# plan
# alone, so that results depend neither on where nor in what order they are measured.

KIND = "sweep"
# Classes of more weights are searched world by world; see `unknown_utility_many`.
_SMALL_CLASS = 100
# A search costs so many times what a known utility of the same world does.
_SEARCH = 8
# Seconds for a state in which a known utility is measured, with a horizon of some tens.
_SECONDS = 5e-5
# Work of a chunk, in states that a known utility is measured in: some seconds.
_MOST_WORK = 16 * MOST_STATES
_WORLDS, _POLICY, _UTILITY = "worlds", "policy", "utility"


class Cell(NamedTuple):
    """What a row is of: numbers of its world, its policy and its utility, from 0."""

    world: int
    policy: int
    utility: int


class Chunk(NamedTuple):
    """Rows that are measured in one go: the number of the first, and how many."""

    first: int
    rows: int

    @property
    def key(self) -> str:
        """What its result is kept under."""
        return f"rows {self.first} to {self.first + self.rows - 1}"


@dataclass(frozen=True)
class SweepPlan:
    """What is to be measured.

    Attributes:
        sources: of the worlds, one after the other.
        policies: measured in every world.
        utilities: each policy is measured towards each of them.
        timeout: seconds for the search of a row; None for as long as it takes.
        contents: path -> SHA-256 of every file that a row depends on, None for one that is missing.
        sizes: rows of each chunk.
        seconds: that all of it takes one core, to within a factor of some.
    """

    sources: tuple[Source, ...]
    policies: tuple[Choice, ...]
    utilities: tuple[Choice, ...]
    timeout: float | None = None
    contents: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    sizes: Sequence[int] = field(default=(), repr=False)
    seconds: float = 0.0

    @cached_property
    def _ends(self) -> list[int]:
        """The number of the world behind the last one of each source."""
        return list(accumulate(map(len, self.sources)))

    @property
    def worlds(self) -> int:
        """How many there are."""
        return self._ends[-1]

    @property
    def rows(self) -> int:
        """How many there are: worlds × policies × utilities."""
        return self.worlds * self.rows_of_a_world

    @property
    def rows_of_a_world(self) -> int:
        """How many rows each world has."""
        return len(self.policies) * len(self.utilities)

    @property
    def chunks(self) -> list[Chunk]:
        """All of them, in the order of their rows."""
        ends = accumulate(self.sizes)
        return [Chunk(end - size, size) for end, size in zip(ends, self.sizes, strict=True)]

    def cell(self, row: int) -> Cell:
        """What a row is of."""
        world, place = divmod(row, self.rows_of_a_world)
        return Cell(world, *divmod(place, len(self.utilities)))

    def place(self, world: int) -> tuple[int, int]:
        """The number of a world's source, and its own number there."""
        source = bisect_right(self._ends, world)
        return source, world - (self._ends[source - 1] if source else 0)

    def part(self, chunk: Chunk) -> tuple[range, range]:
        """The worlds and the policies of a chunk, by their numbers."""
        first, last = self.cell(chunk.first), self.cell(chunk.first + chunk.rows - 1)
        return range(first.world, last.world + 1), range(first.policy, last.policy + 1)

    def arguments(self, chunk: Chunk) -> dict[str, Any]:
        """What `chunk.measure` is told of a chunk, as JSON values."""
        worlds, policies = self.part(chunk)
        number, first = self.place(worlds.start)
        source = self.sources[number]
        numbers = range(first, first + len(worlds))
        paths = [source.paths[n] for n in numbers] if isinstance(source, Files) else []
        needed = [*paths, *self._paths(source, numbers)]
        return {
            "source": number,
            "first": first,
            "count": len(worlds),
            "paths": paths,
            "policies": [policies.start, policies.stop],
            "contents": {path: self.contents.get(path) for path in needed},
        }

    def common(self) -> dict[str, Any]:
        """What `chunk.measure` is told of all chunks, as JSON values."""
        of_a_world = {
            path
            for source in self.sources
            for path in (
                *(source.paths if isinstance(source, Files) else ()),
                *self._paths(source, range(len(source))),
            )
        }
        # The paths of files come with their chunk: all of them would be sent with each.
        sources = [
            {"files": []} if isinstance(source, Files) else source.to_json()
            for source in self.sources
        ]
        return {
            "sources": sources,
            "choices": [choice.to_json() for choice in (*self.policies, *self.utilities)],
            "timeout": self.timeout,
            "shared": {k: v for k, v in self.contents.items() if k not in of_a_world},
        }

    def _paths(self, source: Source, numbers: range) -> Iterator[str]:
        """Files of policies and utilities that differ from world to world."""
        for choice in (*self.policies, *self.utilities):
            if choice.placeholders:
                yield from (choice.path(source.fields(number)) for number in numbers)

    # --- What tells a sweep from others, and the sweep that a run is of -----------------------
    def to_json(self) -> dict[str, Any]:
        """The plan as JSON values, each under a name that says what it is: `RunStore.what`."""
        out: dict[str, Any] = {"kind": KIND}
        for number, source in enumerate(self.sources, start=1):
            if isinstance(source, Files):
                out[f"{_WORLDS} {number}, files"] = list(source.paths)
            else:
                out[f"{_WORLDS} {number}"] = source.generator
                for name, values in source.grid.to_json().items():
                    out[f"{_WORLDS} {number}, {name}"] = values
        for noun, choices in ((_POLICY, self.policies), (_UTILITY, self.utilities)):
            for number, choice in enumerate(choices, start=1):
                out[f"{noun} {number}"] = choice.to_json()
        if self.timeout is not None:
            out["timeout"] = self.timeout
        lengths = [[size, len(list(run))] for size, run in groupby(self.sizes)]
        contents = {
            f"content of {path} (sha256)": value
            for path, value in self.contents.items()
            if value is not None
        }
        return out | {"rows of chunks": lengths} | contents


def plan_of(what: Mapping[str, Any]) -> SweepPlan:
    """The plan that `to_json` was of, without the contents of files, which may be gone."""
    sources: list[Source] = []
    for number in range(1, len(what) + 1):
        name = f"{_WORLDS} {number}"
        if f"{name}, files" in what and name not in what:
            sources.append(source_of({"files": what[f"{name}, files"]}))
        elif name in what:
            arguments = {
                key.removeprefix(f"{name}, "): value
                for key, value in what.items()
                if key.startswith(f"{name}, ")
            }
            sources.append(source_of({"generator": what[name], "arguments": arguments}))
        else:
            break
    runs = [(int(size), int(times)) for size, times in what["rows of chunks"]]
    plan = SweepPlan(
        tuple(sources),
        _choices(what, _POLICY),
        _choices(what, _UTILITY),
        what.get("timeout"),
    )
    rows = sum(size * times for size, times in runs)
    if not (plan.sources and plan.rows and rows == plan.rows and min(map(min, runs)) > 0):
        raise ValueError("its chunks are not its rows")
    return replace(plan, sizes=[size for size, times in runs for _ in range(times)])


def _choices(what: Mapping[str, Any], noun: str) -> tuple[Choice, ...]:
    out: list[Choice] = []
    while (value := what.get(f"{noun} {len(out) + 1}")) is not None:
        choice = Choice(str(value["role"]), str(value["name"]), dict(value["arguments"]))
        if choice.is_word:  # its arguments are drawn as numbers
            list(map(float, choice.arguments.values()))
        out.append(choice)
    return tuple(out)


def chunk_sizes(
    states: Sequence[Sequence[int | None]], policies: int, utilities: Sequence[Choice]
) -> list[int]:
    """Rows of each chunk of a sweep.

    Args:
        states: of each world of each source; None where it is not known.
        policies: how many there are.
        utilities: those that each policy is measured towards.
    """
    out: list[int] = []
    for source in states:
        filled = work = worlds = 0
        for known in source:
            size = known or 1
            cost = policies * sum(_work(size, utility) for utility in utilities)
            if worlds and (filled + size > MOST_STATES or work + cost > _MOST_WORK):
                out.append(worlds * policies * len(utilities))
                filled = work = worlds = 0
            if cost > _MOST_WORK and policies > 1:
                out += [len(utilities)] * policies
                continue
            filled, work, worlds = filled + size, work + cost, worlds + 1
        if worlds:
            out.append(worlds * policies * len(utilities))
    return out


def seconds_of(
    states: Sequence[Sequence[int | None]], policies: int, utilities: Sequence[Choice]
) -> float:
    """Seconds that a sweep takes one core, to within a factor of some; as `chunk_sizes`."""
    rows = (
        _work(size or 1, utility) for source in states for size in source for utility in utilities
    )
    return _SECONDS * policies * sum(rows)


def _work(states: int, utility: Choice) -> int:
    """Work of a row, in states that a known utility is measured in."""
    if utility.role != UNKNOWN:
        return states
    is_small = utility.name == "state" and states <= _SMALL_CLASS
    return _SEARCH * states if is_small else _MOST_WORK


# --- Forecast -------------------------------------------------------------------------------------
# trials      chunks of rows, each kept as it ends
#     rows        worlds * policies * utilities
#     hours       seconds of the plan * rows left / rows / chunks that are made at once / 3600
#         disk        of what is left: 100 bytes a row, 50 a world, 400 a chunk, and the plan as
#     JSON text
#
# Seconds of the plan are of one core. They go by the worlds' numbers of states (`plan.seconds_of`),
# to within a factor of some.

ROW_BYTES, WORLD_BYTES, CHUNK_BYTES = 100, 50, 400


def forecast_of(plan: SweepPlan, *, on: str = HERE, out: str | Path | None = None) -> Forecast:
    """What is left of a sweep, and what measuring it will cost.

    Raises:
        InvalidFileError: a line of the folder is no chunk.
    """
    chunks = {chunk.key: chunk for chunk in plan.chunks}
    left = left_of(chunks, out)
    rows = sum(chunks[key].rows for key in left)
    worlds = sum(len(plan.part(chunks[key])[0]) for key in left)
    size = rows * ROW_BYTES + worlds * WORLD_BYTES + len(left) * CHUNK_BYTES
    slots, at_once = slots_at(on, len(left))
    return Forecast(
        name=KIND,
        noun="chunk",
        trials=len(chunks),
        kept=len(chunks) - len(left),
        left=len(left),
        # There may be fewer chunks than places for them.
        slots=slots,
        place=on,
        hours=Span.of(plan.seconds * rows / plan.rows / min(slots, max(len(left), 1)) / 3600),
        disk=Span.of(size + (len(json_text(plan.to_json())) if left else 0)),
        counted={
            "worlds": plan.worlds,
            "policies": len(plan.policies),
            "utilities": len(plan.utilities),
            "rows": plan.rows,
        },
        assumed=(
            "the time is guessed from the numbers of states, to within a factor of some, and "
            "nothing was measured for it",
            f"a row takes some {ROW_BYTES} bytes, a world {WORLD_BYTES} more, a chunk "
            f"{CHUNK_BYTES} more",
            at_once,
        ),
    )
