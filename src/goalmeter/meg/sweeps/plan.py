"""Plan of a sweep: what its entries name, its rows by number, and the chunks that jobs measure."""

from __future__ import annotations

import glob
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from inspect import Signature, signature
from itertools import accumulate, chain, groupby
from math import inf, prod
from pathlib import Path
from typing import Any

from goalmeter._errors import (
    MOST_SECONDS,
    MOST_SEED,
    InvalidFileError,
    InvalidParameterError,
    finite,
    json_text,
    shown,
    whole,
)
from goalmeter._files import JsonFields, digest, is_number, read_bytes
from goalmeter._names import did_you_mean
from goalmeter._types import FloatArray
from goalmeter.agents.user_code import canonical, files_of, from_here, load, misspelled, split_name
from goalmeter.gridworld import key_door, key_no_door, maze, two_paths
from goalmeter.gridworld.conversions import mdp_maker
from goalmeter.runs.jobs import in_a_line
from goalmeter.tabular import TabularMDP, cliff_world, epsilon_greedy, uniform_policy
from goalmeter.tabular.arrays import naming, states_in
from goalmeter.tabular.planning import MOST_STATES, soft_optimal_policies

KIND = "sweep"
# The roles of what an entry names: worlds are MDP files or come from a generator.
FILES, GENERATOR = "files", "generator"
POLICY, UTILITY, UNKNOWN = "policy", "utility", "unknown"
SEED, WORLD = "seed", "world"
MOST_WORLDS = 10_000_000


# --- Built-in names -------------------------------------------------------------------------------
GENERATORS: dict[str, Callable[..., TabularMDP]] = {
    "cliff_world": cliff_world,
    "maze": mdp_maker(partial(maze, complexity=1.0)),
    "key_door": mdp_maker(key_door),
    "key_no_door": mdp_maker(key_no_door),
    "two_paths": mdp_maker(two_paths),
    "gymnasium": lambda id, **options: TabularMDP.from_gymnasium(id, **options),  # as gym.make(id)
}
# Policies of many worlds; `best` returns the optimal ones, which all values of epsilon share.
POLICIES: dict[str, Callable[..., Sequence[FloatArray]]] = {
    "optimal": lambda worlds, best: best(),
    "uniform": lambda worlds, best: list(map(uniform_policy, worlds)),
    "epsilon_greedy": lambda worlds, best, epsilon: [epsilon_greedy(p, epsilon) for p in best()],
    "soft_optimal": lambda worlds, best, rationality: soft_optimal_policies(worlds, rationality),
}
# The arguments of each built-in name.
WORDS: dict[str, dict[str, Signature]] = {
    FILES: {FILES: Signature()},
    GENERATOR: {name: signature(make) for name, make in GENERATORS.items()},
    POLICY: {name: signature(partial(make, None, None)) for name, make in POLICIES.items()},
    UTILITY: {"reward": Signature()},
    UNKNOWN: dict.fromkeys(("state", "state-action", "time-state"), Signature()),
}


# --- Arguments ------------------------------------------------------------------------------------
# The different values of each argument of a grid, the last one fastest.
Axes = dict[str, Sequence[Any]]


def axes_of(arguments: Mapping[str, Any]) -> Axes:
    """Parse a grid: each argument is a value, a list, or {"from": ..., "count": ...}."""
    axes = {name: _axis(name, value) for name, value in arguments.items()}
    if SEED in axes:
        axes[SEED] = axes.pop(SEED)  # always the last
    size = prod(map(len, axes.values()))
    whole(size, "the number of combinations of the arguments", least=1, most=MOST_WORLDS)
    return axes


def _axis(name: str, value: Any) -> Sequence[Any]:
    if isinstance(value, range) and value.step == 1:
        value = {"from": value.start, "count": len(value)}
    if isinstance(value, Mapping) and set(value) == {"from", "count"}:
        first = whole(value["from"], f"{name}, from", least=-MOST_SEED, most=MOST_SEED)
        count = whole(value["count"], f"{name}, count", least=1, most=MOST_WORLDS)
        return range(first, first + count)
    values = list(value) if isinstance(value, (list, tuple, range)) else [value]
    texts: set[str] = set()
    with suppress(TypeError, ValueError):
        texts = set(map(json_text, values))
    # Arguments reach other processes as JSON, which has no NaN.
    if isinstance(value, Mapping) or "NaN" in texts or not 0 < len(texts) == len(values):
        raise InvalidParameterError(
            f"{name} is {shown(value)}, expected one or more different values (numbers, text, true "
            f"or false, or lists of these), or a range such as {{ from = 0, count = 100 }}"
        )
    return values


# --- Choices --------------------------------------------------------------------------------------
@dataclass(frozen=True)
class SweepChoice(JsonFields):
    """One world, one policy, one known utility, or one class of unknown utilities."""

    role: str
    name: str  # a key of `WORDS`, the path of an .npz file, or FILE.py:NAME
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name in tables, unique in a sweep: "maze(size=7, seed=0)", "unknown state"."""
        given = ", ".join(
            f"{name}={v if isinstance(v, str) or v in (inf, -inf) else json_text(v)}"
            for name, v in self.arguments.items()
        )
        return "unknown " * (self.role == UNKNOWN) + self.name + f"({given})" * bool(given)

    @property
    def is_word(self) -> bool:
        """Whether it is built in."""
        return self.name in WORDS[self.role]

    def path_in(self, world: SweepChoice) -> str:
        """Return the path of a file in a world, whose {names} are filled in."""
        if "{" not in self.name:
            return self.name
        values = {WORLD: Path(world.name).stem} if world.role == FILES else world.arguments
        try:
            return self.name.format_map(values)
        except (ValueError, LookupError, AttributeError) as cause:
            known = ", ".join(f"{{{name}}}" for name in values) or "none"
            raise InvalidParameterError(
                f"{self.name} cannot be filled in for {world.label}: {in_a_line(cause)}; expected "
                f"{known}"
            ) from cause


def function_of(choice: SweepChoice) -> Any:
    """Return a built-in generator, or run a file and return its function FILE.py:NAME."""
    if choice.role == GENERATOR and choice.is_word:
        return GENERATORS[choice.name]
    path, name = split_name(choice.name) or ("", choice.name)
    kind = "features" if choice.role == UNKNOWN else choice.role
    return load(path, name, kind=kind)


def call(function: Callable[..., Any], choice: SweepChoice, *before: Any) -> Any:
    """Call a function with the arguments of a choice; errors become InvalidParameterErrors."""
    try:
        return function(*before, **choice.arguments)
    except (Exception, SystemExit) as cause:
        # The table shows the arguments, so the message omits them and can be counted.
        text = str(cause) if choice.is_word else f"{choice.name} raises {in_a_line(cause)}"
        raise InvalidParameterError(text) from cause


SAMPLES = 64  # worlds of a generator that are made to estimate how many states they have


@dataclass(frozen=True)
class SweepEntry:
    """Choices by number, one for each combination of arguments."""

    role: str
    name: str  # of each choice; of files, it is the value of the only argument
    axes: Axes

    def __len__(self) -> int:
        return prod(map(len, self.axes.values()))

    def choice(self, number: int) -> SweepChoice:
        """Return the choice of a number."""
        arguments: dict[str, Any] = {}
        for name, values in reversed(self.axes.items()):  # the last one is the fastest
            number, place = divmod(number, len(values))
            arguments = {name: values[place]} | arguments
        if self.role == FILES:
            return SweepChoice(FILES, arguments[FILES])
        return SweepChoice(self.role, self.name, arguments)

    @cached_property
    def _function(self) -> Any:
        return function_of(self.choice(0))

    def make(self, number: int) -> TabularMDP:
        """Return the world of a number."""
        world = self.choice(number)
        if self.role == FILES:
            return TabularMDP.from_npz(world.name)
        made = call(self._function, world)
        if not isinstance(made, TabularMDP):
            raise InvalidParameterError(
                f"{self.name} gives {shown(made)}, of type {type(made).__name__}, expected "
                f"one TabularMDP; a sweep calls it once for each combination of its arguments"
            )
        return made

    def states(self) -> list[int]:
        """Return the number of states of each world, 1 where unknown; a file's header has it."""
        if self.role == FILES:
            return [states_in(path) or 1 for path in self.axes[FILES]]
        if self.name not in GENERATORS:
            name = self.choice(0).label
            with naming(f"the first world, {name}"):
                first, second = self.make(0).digest(), self.make(0).digest()
            if first != second:
                raise InvalidParameterError(
                    f"{name} gives another world when it is called again; a world is made wherever "
                    f"its rows are, so it has to depend on the arguments alone: draw from "
                    f"numpy.random.default_rng(seed), with seed an argument"
                )
        stride = -(-len(self) // SAMPLES)
        out: list[int] = []
        for number in range(0, len(self), stride):
            size = 1
            with suppress(Exception):  # the row of this world will have the message
                size = self.make(number).n_states
            out += [size] * stride
        return out[: len(self)]


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
_BEFORE, _AFTER = "content of ", " (sha256)"  # around the path of a file


@dataclass(frozen=True)
class SweepPlan:
    """What a sweep measures."""

    sources: tuple[SweepEntry, ...]  # of the worlds, one after the other
    policies: tuple[SweepChoice, ...]
    utilities: tuple[SweepChoice, ...]
    timeout: float | None = None  # seconds for the search of a row
    # SHA-256 by path of every file that a row depends on; a missing one fails its rows alone
    contents: Mapping[str, str] = field(default_factory=dict, repr=False)
    sizes: Sequence[int] = field(default=(), repr=False)  # rows of each chunk
    seconds: float = 0.0  # rough estimate of the time on one core

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of worlds, policies and utilities; their product is the number of rows."""
        return sum(map(len, self.sources)), len(self.policies), len(self.utilities)

    def worlds(self) -> Iterator[SweepChoice]:
        """Yield every world in order."""
        return (source.choice(n) for source in self.sources for n in range(len(source)))

    @cached_property
    def chunks(self) -> dict[str, range]:
        """The rows of each chunk by its key in a run, in order."""
        ends = accumulate(self.sizes)
        every = [range(end - size, end) for end, size in zip(ends, self.sizes, strict=True)]
        return {f"rows {rows[0]} to {rows[-1]}": rows for rows in every}

    def part(self, rows: range) -> tuple[SweepEntry, range, range]:
        """Return the source of a chunk, and the numbers of its worlds there and of its policies."""
        _, policies, utilities = self.shape
        ends = (divmod(row // utilities, policies) for row in (rows[0], rows[-1]))
        (world, policy), (last_world, last_policy) = ends
        for source in self.sources:
            if world < len(source):
                break
            world, last_world = world - len(source), last_world - len(source)
        return source, range(world, last_world + 1), range(policy, last_policy + 1)

    def data_paths(self, source: SweepEntry, numbers: range) -> Iterator[str]:
        """Yield the files of some worlds of a source, and of the policies and utilities in them."""
        if source.role == FILES:
            yield from source.axes[FILES][numbers.start : numbers.stop]
        for choice in (*self.policies, *self.utilities):
            if choice.name.endswith(".npz"):
                each = numbers if "{" in choice.name else numbers[:1]
                yield from (choice.path_in(source.choice(number)) for number in each)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON, each value under a name that explains it: `RunStore.what`."""
        out: dict[str, Any] = {"kind": KIND}
        for n, source in enumerate(self.sources, start=1):
            if source.role == GENERATOR:
                out[f"worlds {n}"] = source.name
            for name, values in source.axes.items():
                span = {"from": values[0], "count": len(values)}
                out[f"worlds {n}, {name}"] = span if isinstance(values, range) else list(values)
        for noun, choices in ((POLICY, self.policies), (UTILITY, self.utilities)):
            out |= {f"{noun} {n}": choice.to_json() for n, choice in enumerate(choices, start=1)}
        if self.timeout is not None:
            out["timeout"] = self.timeout
        out["rows of chunks"] = [[size, len(list(run))] for size, run in groupby(self.sizes)]
        return out | {f"{_BEFORE}{path}{_AFTER}": text for path, text in self.contents.items()}


def plan_of(what: Mapping[str, Any]) -> SweepPlan:
    """Return the plan that `to_json` was called on."""

    def after(start: str) -> dict[str, Any]:
        return {key[len(start) :]: what[key] for key in what if key.startswith(start)}

    sources: list[SweepEntry] = []
    while (name := f"worlds {len(sources) + 1}") in what or f"{name}, {FILES}" in what:
        role, generator = (GENERATOR, str(what[name])) if name in what else (FILES, FILES)
        sources.append(SweepEntry(role, generator, axes_of(after(f"{name}, "))))
    policies, utilities = (
        tuple(SweepChoice(**choice) for choice in after(f"{noun} ").values())
        for noun in (POLICY, UTILITY)
    )
    contents = {name.removesuffix(_AFTER): str(text) for name, text in after(_BEFORE).items()}
    runs = [(int(size), int(times)) for size, times in what["rows of chunks"]]
    plan = SweepPlan(tuple(sources), policies, utilities, what.get("timeout"), contents)
    rows = sum(size * times for size, times in runs)
    if rows != prod(plan.shape) or min(map(min, runs)) <= 0:
        raise ValueError("its chunks are not its rows")
    return replace(plan, sizes=[size for size, times in runs for _ in range(times)])


def _completed(plan: SweepPlan) -> SweepPlan:
    """Return a plan with the digests of its files, its chunks, and the estimate of its time."""
    contents: dict[str, str] = {}
    data = (plan.data_paths(source, range(len(source))) for source in plan.sources)
    for path in sorted(set(chain.from_iterable(data))):
        with suppress(InvalidFileError):
            contents[path] = digest(path)
    named = [source.name for source in plan.sources]
    named += [choice.name for choice in (*plan.policies, *plan.utilities)]
    code = {file for parts in map(split_name, named) if parts for file in files_of(parts[0])}
    contents |= {path: digest(path) for path in sorted(code)}

    _, policies, utilities = plan.shape
    searched = [utility.name for utility in plan.utilities if utility.role == UNKNOWN]
    sizes: list[int] = []
    total = 0
    for source in plan.sources:
        filled = work = worlds = 0
        for size in source.states():
            known = size * (utilities - len(searched))
            over_states = _SEARCH * size if size <= _SMALL_CLASS else _MOST_WORK
            searches = (over_states if name == "state" else _MOST_WORK for name in searched)
            cost = policies * (known + sum(searches))
            total += cost
            if worlds and (filled + size > MOST_STATES or work + cost > _MOST_WORK):
                sizes.append(worlds * policies * utilities)
                filled = work = worlds = 0
            if cost > _MOST_WORK and policies > 1:
                sizes += [utilities] * policies
            else:
                filled, work, worlds = filled + size, work + cost, worlds + 1
        if worlds:
            sizes.append(worlds * policies * utilities)
    return replace(plan, contents=contents, sizes=sizes, seconds=_SECONDS * total)


# --- Entries --------------------------------------------------------------------------------------
# Every entry is checked before anything runs; an error names the entry. Each has one of the keys of
# its section, with a name, and else arguments, as a grid.
SECTIONS = {"worlds": (FILES, GENERATOR), "policies": (POLICY,), "utilities": (UTILITY, UNKNOWN)}
Entry = Mapping[str, Any]
Worlds = str | Path | Sequence[Entry]
# A built-in name with values in brackets, such as epsilon_greedy(0, 0.1).
_SHORT = re.compile(r"\s*([\w-]+)\s*\((.*)\)\s*", re.DOTALL)
_MOST_BYTES = 2**26  # of a TOML file


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
    folder, sections = _sections(worlds, arguments or {})
    sources: list[SweepEntry] = []
    choices: dict[str, dict[str, SweepChoice]] = {"policies": {}, "utilities": {}}
    for section, more in {"worlds": (), "policies": policies, "utilities": utilities}.items():
        entries = [(value, folder) for value in sections.get(section, ())]
        for number, (value, base) in enumerate([*entries, *((v, Path()) for v in more)], start=1):
            with naming(f"{section} {number}"):
                entry = _read_entry(value, section, base, seed)
                if section == "worlds":
                    sources.append(entry)
                    continue
                for choice in map(entry.choice, range(len(entry))):
                    if choice.label in choices[section]:
                        raise InvalidParameterError(f"{choice.label} is there twice; name it once")
                    choices[section][choice.label] = choice
    if not sources:
        raise InvalidParameterError("there are no worlds, expected at least one entry")
    if not choices["policies"]:
        raise InvalidParameterError(
            f"no policy is asked for, expected at least one: {', '.join(WORDS[POLICY])}, a file "
            f"that ends in .npz, or FILE.py:NAME"
        )
    measured, towards = (tuple(each.values()) for each in choices.values())
    aims = towards or (SweepChoice(UTILITY, "reward"),)
    return _completed(SweepPlan(tuple(sources), measured, aims, timeout))


def _sections(worlds: Worlds, arguments: Entry) -> tuple[Path, Mapping[str, Sequence[Any]]]:
    """Return the folder that paths start from, and the entries by section."""
    if not isinstance(worlds, (str, Path)):
        return Path(), {"worlds": worlds}
    text, path = str(worlds), Path(worlds)
    if split_name(text) is not None:
        return Path(), {"worlds": [{GENERATOR: text, **arguments}]}
    if arguments:
        raise InvalidParameterError(
            f"arguments are given to {text}, expected FILE.py:NAME, which alone takes some"
        )
    if path.is_dir() or text.endswith(".npz"):
        return Path(), {"worlds": [{FILES: text}]}
    if not text.endswith(".toml"):
        raise InvalidParameterError(
            f"{shown(text)} is no sweep, expected a file that ends in .toml, a folder of MDP "
            f"files, or a function of worlds as FILE.py:NAME; "
            f"{misspelled(text, 'worlds.py:world') or 'check the path'}"
        )
    try:
        sections = tomllib.loads(read_bytes(path, _MOST_BYTES).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as cause:  # too many digits: ValueError
        raise InvalidFileError(f"{path} cannot be read as TOML: {cause}") from cause
    for name, values in sections.items():
        if name not in SECTIONS or not isinstance(values, list):
            heads = ", ".join(f"[[{section}]]" for section in SECTIONS)
            raise InvalidParameterError(
                f"{path}: {name} is {shown(values)}, expected tables that are headed {heads}"
            )
    return path.parent, sections


def _read_entry(value: Any, section: str, folder: Path, seed: int) -> SweepEntry:
    roles = SECTIONS[section]
    if isinstance(value, str) and section != "worlds":
        value = _in_full(value, roles[0])
    present = [role for role in roles if isinstance(value, Mapping) and role in value]
    if len(present) != 1:
        raise InvalidParameterError(
            f"{shown(value)} is no entry, expected a table with one key of {', '.join(roles)}, "
            f"such as {{{roles[-1]} = '{next(iter(WORDS[roles[-1]]))}'}}"
        )
    (role,) = present
    arguments = {name: item for name, item in value.items() if name != role}
    known, takes = WORDS[role], Signature()
    name = FILES if role == FILES else str(value[role])
    if split_name(name) is not None:
        name = canonical(str(folder / name.strip()))
        function = function_of(SweepChoice(role, name))
        # Functions but generators take the world first.
        takes = signature(function if role == GENERATOR else partial(function, None))
    elif name in known:
        takes = known[name]
    elif role != GENERATOR and name.endswith(".npz"):
        name = from_here(folder / name)
        if "{" not in name and not Path(name).is_file():
            raise InvalidFileError(f"there is no file {name}; check the path")
    else:
        hint = misspelled(name, f"mine.py:{role}")
        near = f"; {hint};" if hint else did_you_mean(name, known, quoted=True) or ";"
        files = "" if role == GENERATOR else " a file that ends in .npz,"
        raise InvalidParameterError(
            f"there is no {role} {name!r}{near} expected {', '.join(known)},{files} or FILE.py:NAME"
        )
    if SEED in takes.parameters:
        arguments = {SEED: seed} | arguments
    try:
        takes.bind(**arguments)
    except TypeError as cause:
        listed = ", ".join(takes.parameters) or "none"
        raise InvalidParameterError(f"{name}: {cause}; its arguments are: {listed}") from cause
    axes: Axes = {FILES: _paths(value[FILES], folder)} if role == FILES else axes_of(arguments)
    is_share = "epsilon" in axes
    for number in chain(*axes.values()) if name in WORDS[POLICY] else ():
        if not is_number(number, inf) or (is_share and not 0 <= number <= 1):
            expected = "a probability in [0, 1]" if is_share else "a number"
            raise InvalidParameterError(f"{name} takes {expected}, got {shown(number)}")
    return SweepEntry(role, name, axes)


def _in_full(text: str, role: str) -> Entry:
    """Return the entry of a short spelling: values in brackets belong to the one argument."""
    parts = _SHORT.fullmatch(text)
    takes = list(WORDS[role][parts[1]].parameters) if parts and parts[1] in WORDS[role] else []
    if parts is None or len(takes) != 1:
        return {role: text.strip()}
    try:
        numbers = tomllib.loads(f"numbers = [{parts[2]}]")["numbers"]
    except ValueError:
        raise InvalidParameterError(f"{shown(parts[2])} are no numbers") from None
    return {role: parts[1], takes[0]: numbers}


def _paths(value: Any, folder: Path) -> tuple[str, ...]:
    """Return the MDP files of an entry: each item is a file, a folder, or a pattern."""
    out: dict[str, None] = {}
    for item in value if isinstance(value, (list, tuple)) else [value]:
        pattern = str(folder / str(item))
        # `Path.glob` takes no pattern that begins at the root.
        found = [pattern] if Path(pattern).exists() else sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
        if Path(pattern).is_dir():
            found = list(filter(states_in, sorted(map(str, Path(pattern).glob("*.npz")))))
        if not found:
            raise InvalidFileError(
                f"{from_here(pattern)} is no MDP file and holds none, expected an .npz file with "
                f"the array 'reward'; check the path"
            )
        out |= dict.fromkeys(map(from_here, found))
    return tuple(out)
