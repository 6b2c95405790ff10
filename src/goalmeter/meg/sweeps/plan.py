"""Plan of a sweep: read its entries, number its rows, and split them into chunks."""

from __future__ import annotations

import glob
import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate, groupby, product
from pathlib import Path
from typing import Any, NamedTuple

from goalmeter._errors import (
    MOST_SECONDS,
    MOST_SEED,
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    finite,
    shown,
    whole,
)
from goalmeter._files import JsonFields, digest, read_bytes
from goalmeter._names import did_you_mean
from goalmeter.agents.user_code import canonical, files_of, from_here, misspelled, split_name
from goalmeter.meg.sweeps import worlds as world_tools
from goalmeter.meg.sweeps.worlds import FILES, GENERATOR, GENERATORS, WORLD, Axes, WorldSource
from goalmeter.tabular.arrays import naming
from goalmeter.tabular.planning import MOST_STATES

KIND = "sweep"
POLICY, UTILITY, UNKNOWN = "policy", "utility", "unknown"
# Built-in names of each role, with their arguments.
WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    POLICY: {
        **{"optimal": (), "uniform": ()},
        **{"epsilon_greedy": ("epsilon",), "soft_optimal": ("rationality",)},
    },
    UTILITY: {"reward": ()},
    UNKNOWN: {"state": (), "state-action": (), "time-state": ()},
    GENERATOR: dict.fromkeys(GENERATORS, ()),
}
# What a user's function of each role returns.
_RETURNS = {POLICY: "policy", UTILITY: "utility", UNKNOWN: "features", GENERATOR: WORLD}


@dataclass(frozen=True)
class SweepChoice(JsonFields):
    """One policy, one known utility, or one class of unknown utilities."""

    role: str  # "policy", "utility" or "unknown"
    name: str  # a key of `WORDS`, the path of an .npz file, or FILE.py:NAME
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name in tables, unique in a sweep."""
        text = world_tools.label(self.name, self.arguments)
        return f"unknown {text}" if self.role == UNKNOWN else text

    @property
    def is_word(self) -> bool:
        """Whether it is built in."""
        return self.name in WORDS[self.role]

    def path_in(self, source: WorldSource, number: int) -> str:
        """Return the path of a file in a world, whose {names} are filled in."""
        if "{" not in self.name:
            return self.name
        world = {} if source.generator else {WORLD: Path(source.paths[number]).stem}
        fields = source.arguments(number) | world
        try:
            return self.name.format_map(fields)
        except KeyError as cause:
            listed = ", ".join(f"{{{name}}}" for name in fields) or "none"
            raise InvalidParameterError(
                f"{self.name} has {{{cause.args[0]}}}, which {source.label(number)} has no value "
                f"for, expected {listed}; {{{WORLD}}} is the name of an MDP file without its ending"
            ) from None
        except (ValueError, LookupError, AttributeError) as cause:
            raise InvalidParameterError(f"{self.name} has a stray brace: {cause}") from cause


# --- Plan -----------------------------------------------------------------------------------------
# Rows are numbered: all of the first world, policy by policy and utility by utility, then all of
# the second. A chunk is a range of rows that one job measures: as many worlds as fill a block of
# states, or one policy in one world where a single row is enough work. Chunks follow from the plan
# alone, so results depend neither on the place nor on the order of the jobs.

# Classes with more weights are searched world by world; see `unknown_utility_many`.
_SMALL_CLASS = 100
_SEARCH = 8  # cost of a search, as a multiple of that of a known utility in the same world
_SECONDS = 5e-5  # per state with a known utility and a horizon of a few tens
_MOST_WORK = 16 * MOST_STATES  # of a chunk, in states with a known utility: some seconds
_CONTENT = re.compile(r"content of (.*) \(sha256\)", re.DOTALL)


class Chunk(NamedTuple):
    """Rows that one job measures: how many, and their worlds and policies by their numbers."""

    rows: int
    worlds: range
    policies: range


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep measures."""

    sources: tuple[WorldSource, ...]  # of the worlds, one after the other
    policies: tuple[SweepChoice, ...]
    utilities: tuple[SweepChoice, ...]
    timeout: float | None = None  # seconds for the search of a row
    # SHA-256 by path of every file that a row depends on, None for a missing one
    contents: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    sizes: Sequence[int] = field(default=(), repr=False)  # rows of each chunk
    seconds: float = 0.0  # rough estimate of the time on one core

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

    @cached_property
    def chunks(self) -> dict[str, Chunk]:
        """All chunks by their keys in a run, in the order of their rows."""
        out = {}
        policies, utilities = len(self.policies), len(self.utilities)
        for end, size in zip(accumulate(self.sizes), self.sizes, strict=True):
            world, policy = divmod((end - size) // utilities, policies)
            last_world, last_policy = divmod((end - 1) // utilities, policies)
            ranges = range(world, last_world + 1), range(policy, last_policy + 1)
            out[f"rows {end - size} to {end - 1}"] = Chunk(size, *ranges)
        return out

    def place(self, world: int) -> tuple[WorldSource, int]:
        """Return the source of a world, and its number there."""
        source = bisect_right(self._ends, world)
        return self.sources[source], world - (self._ends[source - 1] if source else 0)

    def data_paths(self, source: WorldSource, numbers: range) -> Iterator[str]:
        """Yield the files of some worlds of a source, and of the policies and utilities in them."""
        yield from source.paths[numbers.start : numbers.stop]
        for choice in (*self.policies, *self.utilities):
            if choice.name.endswith(".npz"):
                each = numbers if "{" in choice.name else numbers[:1]
                yield from (choice.path_in(source, number) for number in each)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON, each value under a name that explains it: `RunStore.what`."""
        out: dict[str, Any] = {"kind": KIND}
        for number, source in enumerate(self.sources, start=1):
            if source.generator is not None:
                out[f"worlds {number}"] = source.generator
            for name, values in source.axes.items():
                is_range = isinstance(values, range)
                written = {"from": values[0], "count": len(values)} if is_range else list(values)
                out[f"worlds {number}, {name}"] = written
        for noun, choices in ((POLICY, self.policies), (UTILITY, self.utilities)):
            for number, choice in enumerate(choices, start=1):
                out[f"{noun} {number}"] = choice.to_json()
        if self.timeout is not None:
            out["timeout"] = self.timeout
        out["rows of chunks"] = [[size, len(list(run))] for size, run in groupby(self.sizes)]
        contents = {f"content of {path} (sha256)": text for path, text in self.contents.items()}
        return out | {name: text for name, text in contents.items() if text is not None}


def plan_of(what: Mapping[str, Any]) -> SweepPlan:
    """Return the plan that `to_json` was called on."""
    sources: list[WorldSource] = []
    while (name := f"worlds {len(sources) + 1}") in what or f"{name}, {FILES}" in what:
        start = f"{name}, "
        axes = world_tools.axes_of(
            {key[len(start) :]: what[key] for key in what if key.startswith(start)}
        )
        sources.append(WorldSource(str(what[name]) if name in what else None, axes))
    choices: dict[str, list[SweepChoice]] = {POLICY: [], UTILITY: []}
    for noun, found in choices.items():
        while (value := what.get(f"{noun} {len(found) + 1}")) is not None:
            choice = SweepChoice(str(value["role"]), str(value["name"]), dict(value["arguments"]))
            if choice.is_word:  # a page draws its arguments as numbers
                list(map(float, choice.arguments.values()))
            found.append(choice)
    contents = {match[1]: str(what[match[0]]) for match in map(_CONTENT.fullmatch, what) if match}
    policies, utilities = map(tuple, choices.values())
    plan = SweepPlan(tuple(sources), policies, utilities, what.get("timeout"), contents)
    runs = [(int(size), int(times)) for size, times in what["rows of chunks"]]
    rows = sum(size * times for size, times in runs)
    if not (plan.sources and plan.rows and rows == plan.rows and min(map(min, runs)) > 0):
        raise ValueError("its chunks are not its rows")
    return replace(plan, sizes=[size for size, times in runs for _ in range(times)])


def _with_chunks(plan: SweepPlan) -> SweepPlan:
    policies, utilities = len(plan.policies), len(plan.utilities)
    sizes: list[int] = []
    total = 0
    for source in plan.sources:
        filled = work = worlds = 0
        for size in source.states():
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
    """Return the work of a row, in states with a known utility."""
    if utility.role != UNKNOWN:
        return states
    is_small = utility.name == "state" and states <= _SMALL_CLASS
    return _SEARCH * states if is_small else _MOST_WORK


# --- Entries --------------------------------------------------------------------------------------
# worlds      {files = "mdps/*.npz"}      a file, a folder, a pattern, or a list of these
#             {generator = NAME, ...}     with the generator's arguments, as a grid
# policies    {policy = NAME, ...}        a built-in name, an .npz file or FILE.py:NAME
# utilities   {utility = NAME, ...} or {unknown = NAME, ...}
#
# Every entry is checked before anything runs; an error names the entry.

# The keys of the entries in each section of a file.
SECTIONS = {"worlds": (FILES, GENERATOR), "policies": (POLICY,), "utilities": (UTILITY, UNKNOWN)}
Entry = Mapping[str, Any]
Worlds = str | Path | Sequence[Entry]
# A built-in name with values in brackets, such as epsilon_greedy(0, 0.1).
_SHORT = re.compile(r"\s*([\w-]+)\s*\((.*)\)\s*", re.DOTALL)
_MOST_BYTES = 2**26  # of a TOML file
MOST_FILES = 100_000  # each takes some hundred bytes of run.json


_Entry = tuple[str, Any, Path]  # its place for messages, its value, the folder of its paths


def plan_sweep(
    worlds: Worlds,
    *,
    policies: Sequence[Entry | str] = (),
    utilities: Sequence[Entry | str] = (),
    arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
    timeout: float | None = None,
) -> SweepPlan:
    """Return the plan of a sweep; some worlds are made, to estimate their numbers of states."""
    seed = whole(seed, "seed", least=0, most=MOST_SEED)
    if timeout is not None:
        timeout = finite(timeout, "timeout", least=0.001, most=MOST_SECONDS)
    entries: dict[str, list[_Entry]] = {section: [] for section in SECTIONS}
    given = {"policies": policies, "utilities": utilities}
    if isinstance(worlds, (str, Path)):
        entries |= _entries_of(str(worlds), arguments)
    else:
        given["worlds"] = worlds
    for section, more in given.items():
        entries[section] += _numbered(more, section)
    if not entries["worlds"]:
        raise InvalidParameterError("there are no worlds, expected at least one entry")
    if not entries["policies"]:
        raise InvalidParameterError(
            f"no policy is asked for, expected at least one: {', '.join(WORDS[POLICY])}, a file "
            f"that ends in .npz, or FILE.py:NAME"
        )
    entries["utilities"] = entries["utilities"] or [("utilities", "reward", Path())]
    sources: list[WorldSource] = []
    choices: dict[str, dict[str, SweepChoice]] = {"policies": {}, "utilities": {}}
    for section, (where, value, folder) in ((s, entry) for s in entries for entry in entries[s]):
        with naming(where):
            key, name, axes = _read_entry(value, section, folder, seed)
            if section == "worlds":
                sources.append(WorldSource(name if key == GENERATOR else None, axes))
                continue
            for values in product(*axes.values()):
                choice = SweepChoice(key, name, dict(zip(axes, values, strict=True)))
                if choice.label in choices[section]:
                    raise InvalidParameterError(f"{choice.label} is there twice; name it once")
                choices[section][choice.label] = choice
    chosen, aims = (tuple(choices[section].values()) for section in SECTIONS if section in choices)
    plan = SweepPlan(tuple(sources), chosen, aims, timeout)
    return _with_chunks(replace(plan, contents=_contents(plan)))


def _numbered(values: Sequence[Any], section: str, folder: Path = Path()) -> list[_Entry]:
    return [(f"{section} {n}", value, folder) for n, value in enumerate(values, start=1)]


def _entries_of(text: str, arguments: Mapping[str, Any] | None) -> dict[str, list[_Entry]]:
    """Return the entries by section of a TOML file, a folder of MDPs, or a function of worlds."""
    if split_name(text) is not None:
        return {"worlds": [(text, {GENERATOR: text, **(arguments or {})}, Path())]}
    if arguments:
        raise InvalidParameterError(
            f"arguments are given to {text}, expected FILE.py:NAME, which alone takes some"
        )
    path = Path(text)
    if path.is_dir() or text.endswith(".npz"):
        return {"worlds": [(text, {FILES: text}, Path())]}
    if not text.endswith(".toml"):
        raise InvalidParameterError(
            f"{shown(text)} is no sweep, expected a file that ends in .toml, a folder of MDP "
            f"files, or a function of worlds as FILE.py:NAME; "
            f"{misspelled(text, 'worlds.py:world') or 'check the path'}"
        )
    try:
        sections = tomllib.loads(read_bytes(path, _MOST_BYTES).decode("utf-8"))
    except FileNotFoundError:
        raise InvalidFileError(f"there is no file {path}; check the path") from None
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause}") from cause
    except GoalmeterError:
        raise
    except (ValueError, RecursionError) as cause:  # a number with too many digits: ValueError
        raise InvalidFileError(f"{path} is no TOML: {cause}") from cause
    for name, values in sections.items():
        if name not in SECTIONS:
            hint = did_you_mean(name, SECTIONS, quoted=True) or ";"
            raise InvalidParameterError(
                f"{path}: there is no key {name!r}{hint} expected {', '.join(SECTIONS)}"
            )
        if not isinstance(values, list):
            raise InvalidParameterError(
                f"{path}: {name} is {shown(values)}, expected one or more tables, each headed "
                f"[[{name}]]"
            )
    return {
        name: _numbered(sections[name], f"{path}, [[{name}]]", path.parent) for name in sections
    }


def _read_entry(value: Any, section: str, folder: Path, seed: int) -> tuple[str, str, Axes]:
    """Return the key of an entry, its name, and the grid of its arguments."""
    keys = SECTIONS[section]
    if isinstance(value, str) and section != "worlds":
        value = _in_full(value, keys[0])
    named = [key for key in keys if isinstance(value, Mapping) and key in value]
    if len(named) != 1:
        raise InvalidParameterError(
            f"{shown(value)} is no entry, expected a table with one key of {', '.join(keys)}, such "
            f"as {{{keys[-1]} = '{next(iter(WORDS[keys[-1]]))}'}}"
        )
    (key,) = named
    arguments = {name: item for name, item in value.items() if name != key}
    if key == FILES:
        world_tools.check_arguments(FILES, arguments)
        return key, FILES, {FILES: _paths(value[key], folder)}
    name, known = _text(value[key], key), WORDS[key]
    if split_name(name) is not None:
        name = canonical(str(folder / name.strip()))
        function = world_tools.function_of(name, _RETURNS[key])
        if key != GENERATOR:
            function = partial(function, None)  # in place of the world
        arguments = world_tools.complete_arguments(function, name, arguments, seed)
    elif key == GENERATOR and name in GENERATORS:
        arguments = world_tools.complete_arguments(GENERATORS[name], name, arguments, seed)
    elif name in known:
        world_tools.check_arguments(name, arguments, known[name], known[name])
    elif key != GENERATOR and name.endswith(".npz"):
        world_tools.check_arguments("a file", arguments)
        name = from_here(folder / name)
        if "{" not in name and not Path(name).is_file():
            raise InvalidFileError(f"there is no file {name}; check the path")
    else:
        hint = misspelled(name, f"mine.py:{_RETURNS[key]}")
        near = f"; {hint};" if hint else did_you_mean(name, known, quoted=True) or ";"
        files = "" if key == GENERATOR else " a file that ends in .npz,"
        raise InvalidParameterError(
            f"there is no {key} {name!r}{near} expected {', '.join(known)},{files} or FILE.py:NAME"
        )
    axes = world_tools.axes_of(arguments)
    for argument, values in axes.items() if name in WORDS[POLICY] else ():
        is_share = argument == "epsilon"
        for number in values:
            if not world_tools.is_number(number) or (is_share and not 0 <= number <= 1):
                expected = "a probability in [0, 1]" if is_share else "a number"
                raise InvalidParameterError(
                    f"{argument} of {name} is {shown(number)}, expected {expected}"
                )
    return key, name, axes


def _in_full(text: str, role: str) -> Entry:
    """Return the entry of a short spelling: values in brackets belong to the one argument."""
    parts = _SHORT.fullmatch(text)
    if parts is None or split_name(text) is not None:
        return {role: text.strip()}
    name, values = parts.groups()
    if name not in WORDS[role]:
        return {role: name}  # an unknown name, whose error is the same without the values
    if len(WORDS[role][name]) != 1:
        raise InvalidParameterError(f"{name} takes no values, got ({values}); leave them")
    try:
        numbers = [float(item) if "inf" in item else json.loads(item) for item in values.split(",")]
    except ValueError:
        raise InvalidParameterError(f"{shown(values)} are no numbers") from None
    return {role: name, WORDS[role][name][0]: numbers}


def _paths(value: Any, folder: Path) -> tuple[str, ...]:
    """Return the MDP files of an entry: each item is a file, a folder, or a pattern."""
    out: dict[str, None] = {}
    for item in value if isinstance(value, (list, tuple)) else [value]:
        pattern = str(folder / _text(item, FILES))
        missing = f"there is no file {from_here(pattern)}"
        # `Path.glob` takes no pattern that begins at the root.
        found = [pattern] if Path(pattern).exists() else sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
        if Path(pattern).is_dir():
            archives = sorted(map(str, Path(pattern).glob("*.npz")))
            found = [path for path in archives if world_tools.may_be_world(path)]
            missing = f"the folder {from_here(pattern)} holds no .npz file"
            if archives:
                skipped = ", ".join(map(from_here, archives[:5]))
                missing += f" of an MDP: there is no array 'reward' in {skipped}"
        if not found:
            raise InvalidFileError(f"{missing}; check the path")
        out |= dict.fromkeys(map(from_here, found))
    if not out:
        raise InvalidParameterError("files is an empty list, expected at least one")
    return tuple(out)


def _text(value: object, name: str) -> str:
    if isinstance(value, (str, Path)) and str(value).strip():
        return str(value)
    raise InvalidParameterError(f"{name} is {shown(value)}, expected text")


def _contents(plan: SweepPlan) -> dict[str, str | None]:
    """Return the digest of every file of a row; a missing file fails its rows alone."""
    paths = {
        path for source in plan.sources for path in plan.data_paths(source, range(len(source)))
    }
    if len(paths) > MOST_FILES:
        raise InvalidParameterError(
            f"the sweep has {len(paths)} files, expected at most {MOST_FILES}; sweep over them in "
            f"parts, or make the worlds by a function, FILE.py:NAME"
        )
    names = [source.generator or "" for source in plan.sources]
    names += [choice.name for choice in (*plan.policies, *plan.utilities)]
    code = {file for parts in map(split_name, names) if parts for file in files_of(parts[0])}
    out: dict[str, str | None] = {}
    for path in sorted(paths):
        try:
            out[path] = digest(path)
        except GoalmeterError:
            out[path] = None
    return out | {path: digest(path) for path in sorted(code)}
