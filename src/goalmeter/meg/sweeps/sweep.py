"""Run a sweep: read its specification, plan it, and measure or resume its chunks."""

from __future__ import annotations

import glob
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
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
from goalmeter._files import digest, read_bytes
from goalmeter._names import did_you_mean
from goalmeter.agents.user_code import canonical, files_of, from_here, misspelled, split_name
from goalmeter.meg.sweeps.chunk import FAILED, ChunkColumns, columns_from_json, columns_of, failed
from goalmeter.meg.sweeps.plan import (
    KIND,
    POLICY,
    REWARD,
    UNKNOWN,
    UTILITY,
    WORDS,
    SweepChoice,
    SweepPlan,
    plan_of,
    with_chunks,
)
from goalmeter.meg.sweeps.table import Sweep
from goalmeter.meg.sweeps.worlds import (
    GENERATORS,
    WORLD,
    ArgumentGrid,
    Files,
    Made,
    Source,
    check_argument_names,
    complete_arguments,
    function_of,
    grid_of,
    is_number,
    may_be_world,
)
from goalmeter.runs import JobResult, Study, carry_out, read_run, stored_results
from goalmeter.runs.jobs import REFUSED
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import RUN, another_kind

# --- Entries --------------------------------------------------------------------------------------
# worlds      {files = "mdps/*.npz"}      a file, a folder, a pattern, or a list of these
#             {generator = NAME, ...}     with the generator's arguments, as a grid
# policies    {policy = NAME, ...}        a built-in name, an .npz file or FILE.py:NAME
# utilities   {utility = NAME, ...} or {unknown = NAME, ...}
#
# Every entry is checked before anything runs; an error names the entry.

SECTIONS = ("worlds", "policies", "utilities")
FILES, GENERATOR = "files", "generator"
Entry = Mapping[str, Any]
Worlds = str | Path | Sequence[Entry]
# A built-in name with values in brackets, such as epsilon_greedy(0, 0.1).
_SHORT = re.compile(r"\s*([\w-]+)\s*\((.*)\)\s*", re.DOTALL)
_RETURNS = {POLICY: "policy", UTILITY: "utility", UNKNOWN: "features"}
_MOST_BYTES = 2**26  # of a TOML file
MOST_FILES = 100_000  # each takes some hundred bytes of run.json


class _Entry(NamedTuple):
    """An entry, its place for messages, and the folder that its paths are relative to."""

    value: Any
    where: str
    folder: Path = Path()

    def key(self, keys: Sequence[str]) -> str:
        """Return the one of some keys that the entry has."""
        value, where, _ = self
        if not isinstance(value, Mapping):
            raise InvalidParameterError(
                f"{where} is {shown(value)}, expected a table such as {{generator = 'cliff_world'}}"
            )
        named = [key for key in keys if key in value]
        if len(named) > 1:
            raise InvalidParameterError(
                f"{where}: {' and '.join(named)} are both there, expected one of them"
            )
        if named:
            return named[0]
        expected = f"expected {' or '.join(keys)}"
        for key in value:
            if hint := did_you_mean(key, keys, quoted=True):
                raise InvalidParameterError(f"{where}: there is no key {key!r}{hint} {expected}")
        raise InvalidParameterError(f"{where}: there is no key for its kind; {expected}")


def _source(entry: _Entry, seed: int) -> Source:
    """Return the worlds of an entry; `seed` is the default of generators that take one."""
    key = entry.key((FILES, GENERATOR))
    arguments = {name: value for name, value in entry.value.items() if name != key}
    if key == FILES:
        check_argument_names(FILES, arguments, (), entry.where)
        return Files(_paths(entry))
    name = _text(entry.value[key], f"{entry.where}: generator")
    function = GENERATORS.get(name)
    if split_name(name) is not None:
        name, function = _users_function(name, WORLD, entry)
    if function is None:
        raise _unknown_name(GENERATOR, name, "worlds.py:world", GENERATORS, "or", entry.where)
    arguments = complete_arguments(function, name, arguments, entry.where, seed)
    return Made(name, grid_of(arguments, entry.where))


def _choices(entry: _Entry, roles: Sequence[str], seed: int) -> list[SweepChoice]:
    """Return the policies or utilities of an entry, one for each combination of its arguments."""
    where = entry.where
    if isinstance(entry.value, str):
        entry = entry._replace(value=_in_full(entry.value, roles[0], where))
    role = entry.key(roles)
    name = _text(entry.value[role], f"{where}: {role}")
    arguments = {key: value for key, value in entry.value.items() if key != role}
    if name in WORDS[role]:
        known = WORDS[role][name]
        check_argument_names(name, arguments, known, where)
        if lacks := [argument for argument in known if argument not in arguments]:
            raise InvalidParameterError(
                f"{where}: {name} needs the argument {lacks[0]!r}, a number or a list of numbers"
            )
    elif split_name(name) is not None:
        name, function = _users_function(name, _RETURNS[role], entry)
        without_world = partial(function, None)
        arguments = complete_arguments(without_world, name, arguments, where, seed)
    elif name.endswith(".npz"):
        check_argument_names("a file", arguments, (), where)
        name = from_here(entry.folder / name)
        if "{" not in name and not Path(name).is_file():
            raise InvalidFileError(f"{where}: there is no file {name}; check the path")
    else:
        raise _unknown_role(role, name, where)
    grid = grid_of(arguments, where)
    if role == POLICY and name in WORDS[POLICY]:
        _check_numbers(name, grid, where)
    return [SweepChoice(role, name, combination) for combination in grid]


def _in_full(text: str, role: str, where: str) -> Entry:
    """Return the entry of a short spelling: values in brackets belong to the one argument."""
    parts = _SHORT.fullmatch(text)
    if parts is None or split_name(text) is not None:
        return {role: text.strip()}
    name, values = parts.groups()
    if name not in WORDS[role]:
        raise _unknown_role(role, name, where)
    if len(WORDS[role][name]) != 1:
        raise InvalidParameterError(f"{where}: {name} takes no values, got ({values}); leave them")
    return {role: name, WORDS[role][name][0]: [_number(item, where) for item in values.split(",")]}


def _number(text: str, where: str) -> Any:
    try:
        return float(text) if "inf" in text else json.loads(text)
    except ValueError:
        raise InvalidParameterError(f"{where}: {shown(text)} is no number") from None


def _check_numbers(name: str, grid: ArgumentGrid, where: str) -> None:
    for argument, values in grid.axes.items():
        for value in values:
            if not is_number(value) or (argument == "epsilon" and not 0 <= value <= 1):
                expected = "a probability in [0, 1]" if argument == "epsilon" else "a number"
                raise InvalidParameterError(
                    f"{where}: {argument} of {name} is {shown(value)}, expected {expected}"
                )


def _unknown_role(role: str, name: str, where: str) -> InvalidParameterError:
    files = "a file that ends in .npz, or"
    return _unknown_name(role, name, f"mine.py:{_RETURNS[role]}", WORDS[role], files, where)


def _unknown_name(
    noun: str, name: str, example: str, known: Mapping[str, Any], files: str, where: str
) -> InvalidParameterError:
    hint = misspelled(name, example)
    near = f"; {hint};" if hint else did_you_mean(name, known, quoted=True) or ";"
    return InvalidParameterError(
        f"{where}: there is no {noun} {name!r}{near} expected {', '.join(known)}, {files} "
        f"FILE.py:NAME"
    )


def _users_function(name: str, kind: str, entry: _Entry) -> tuple[str, Callable[..., Any]]:
    """Return the canonical name of a user's function, and the function."""
    path = canonical(str(entry.folder / name.strip()))
    try:
        return path, function_of(path, kind)
    except InvalidFileError as cause:
        raise InvalidFileError(f"{entry.where}: {cause}") from cause


def _paths(entry: _Entry) -> tuple[str, ...]:
    value = entry.value[FILES]
    out: dict[str, None] = {}
    for item in value if isinstance(value, (list, tuple)) else [value]:
        pattern = str(entry.folder / _text(item, f"{entry.where}: files"))
        if Path(pattern).is_dir():
            archives = sorted(map(str, Path(pattern).glob("*.npz")))
            found = [path for path in archives if may_be_world(path)]
            missing = f"the folder {from_here(pattern)} holds no .npz file"
            if archives:
                skipped = ", ".join(map(from_here, archives[:5]))
                missing += f" of an MDP: there is no array 'reward' in {skipped}"
        elif Path(pattern).exists() or not glob.has_magic(pattern):
            found = [pattern] if Path(pattern).exists() else []
            missing = f"there is no file {from_here(pattern)}"
        else:
            # `Path.glob` takes no pattern that begins at the root.
            found = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
            missing = f"no file is like {from_here(pattern)}"
        if not found:
            raise InvalidFileError(f"{entry.where}: {missing}; check the path")
        out |= dict.fromkeys(from_here(path) for path in found)
    if not out:
        raise InvalidParameterError(f"{entry.where}: files is an empty list, expected at least one")
    return tuple(out)


def _text(value: object, name: str) -> str:
    if isinstance(value, (str, Path)) and str(value).strip():
        return str(value)
    raise InvalidParameterError(f"{name} is {shown(value)}, expected text")


# --- Planning -------------------------------------------------------------------------------------
def plan_sweep(
    worlds: Worlds,
    *,
    policies: Sequence[Entry | str] = (),
    utilities: Sequence[Entry | str] = (),
    arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
    timeout: float | None = None,
) -> SweepPlan:
    """Return the plan of `sweep` with these arguments.

    Some worlds are made, to estimate their numbers of states.
    """
    seed = whole(seed, "seed", least=0, most=MOST_SEED)
    if timeout is not None:
        timeout = finite(timeout, "timeout", least=0.001, most=MOST_SECONDS)
    entries = _sections(worlds, arguments)
    sources = [_source(entry, seed) for entry in entries["worlds"]]
    if not sources:
        raise InvalidParameterError("there are no worlds, expected at least one entry")
    for section, more in (("policies", policies), ("utilities", utilities)):
        entries[section] += [_Entry(entry, f"{section} {n}") for n, entry in enumerate(more, 1)]
    if not entries["policies"]:
        raise InvalidParameterError(
            "no policy is asked for, expected at least one: optimal, uniform, epsilon_greedy, "
            "soft_optimal, a file that ends in .npz, or FILE.py:NAME"
        )
    plan = SweepPlan(
        tuple(sources),
        _distinct(entries["policies"], (POLICY,), sources, seed),
        _distinct(
            entries["utilities"] or [_Entry(REWARD, "utilities")],
            (UTILITY, UNKNOWN),
            sources,
            seed,
        ),
        timeout,
    )
    return with_chunks(replace(plan, contents=_contents(plan)))


def _sections(worlds: Worlds, arguments: Mapping[str, Any] | None) -> dict[str, list[_Entry]]:
    """Return the entries of every section."""
    out: dict[str, list[_Entry]] = {section: [] for section in SECTIONS}
    if not isinstance(worlds, (str, Path)):
        return out | {"worlds": [_Entry(entry, f"worlds {n}") for n, entry in enumerate(worlds, 1)]}
    text = str(worlds)
    if split_name(text) is not None:
        return out | {"worlds": [_Entry({GENERATOR: text, **(arguments or {})}, text)]}
    if arguments:
        raise InvalidParameterError(
            f"arguments are given to {text}, expected FILE.py:NAME, which alone takes some"
        )
    if text.endswith(".toml"):
        return _read_toml(Path(text))
    if Path(text).is_dir() or text.endswith(".npz"):
        return out | {"worlds": [_Entry({FILES: text}, text)]}
    raise InvalidParameterError(
        f"{shown(text)} is no sweep, expected a file that ends in .toml, a folder of MDP "
        f"files, or a function of worlds as FILE.py:NAME; "
        f"{misspelled(text, 'worlds.py:world') or 'check the path'}"
    )


def _read_toml(path: Path) -> dict[str, list[_Entry]]:
    try:
        text = read_bytes(path, _MOST_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise InvalidFileError(f"there is no file {path}; check the path") from None
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause}") from cause
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as cause:  # a number with too many digits: ValueError
        raise InvalidFileError(f"{path} is no TOML: {cause}") from cause
    out: dict[str, list[_Entry]] = {section: [] for section in SECTIONS}
    for section, entries in value.items():
        if section not in SECTIONS:
            hint = did_you_mean(section, SECTIONS, quoted=True) or ";"
            raise InvalidParameterError(
                f"{path}: there is no key {section!r}{hint} expected {', '.join(SECTIONS)}"
            )
        if not isinstance(entries, list):
            raise InvalidParameterError(
                f"{path}: {section} is {shown(entries)}, expected one or more tables, each headed "
                f"[[{section}]]"
            )
        out[section] = [
            _Entry(entry, f"{path}, [[{section}]] {n}", path.parent)
            for n, entry in enumerate(entries, 1)
        ]
    return out


def _distinct(
    entries: Sequence[_Entry], roles: Sequence[str], sources: Sequence[Source], seed: int
) -> tuple[SweepChoice, ...]:
    """Return the choices of some entries, with different labels and known placeholders."""
    out: dict[str, SweepChoice] = {}
    for entry in entries:
        for choice in _choices(entry, roles, seed):
            if choice.label in out:
                raise InvalidParameterError(
                    f"{entry.where}: {choice.label} is there twice; name it once"
                )
            for source in sources:
                _check_placeholders(choice, source, entry.where)
            out[choice.label] = choice
    return tuple(out.values())


def _check_placeholders(choice: SweepChoice, source: Source, where: str) -> None:
    known = source.fields(0)
    try:
        names = choice.placeholders
    except ValueError as cause:
        raise InvalidParameterError(
            f"{where}: {choice.name} has a single brace: {cause}"
        ) from cause
    for name in names:
        if name not in known:
            listed = ", ".join(f"{{{key}}}" for key in known) or "none"
            hint = f" ({{{WORLD}}} is the name of an MDP file without its ending)"
            raise InvalidParameterError(
                f"{where}: {choice.name} has {{{name}}}, which {source.label(0)} has no value for, "
                f"expected {listed}{hint if name == WORLD else ''}"
            )


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
    functions = [source.generator for source in plan.sources if isinstance(source, Made)]
    functions += [choice.name for choice in plan.choices if choice.is_users]
    code = {file for parts in map(split_name, functions) if parts for file in files_of(parts[0])}
    out: dict[str, str | None] = {}
    for path in sorted(paths):
        try:
            out[path] = digest(path)
        except GoalmeterError:
            out[path] = None
    return out | {path: digest(path) for path in sorted(code)}


# --- Runs -----------------------------------------------------------------------------------------
def study_of(plan: SweepPlan, what: Mapping[str, Any] | None = None) -> Study[ChunkColumns]:
    """Return the study of a plan: a trial is a chunk of rows.

    With `what`, the description that a run stores, the study can only read its results: the files
    of the sweep may be gone.
    """
    chunks = {chunk.key: chunk for chunk in plan.chunks}

    def read(key: str, value: Any) -> ChunkColumns:
        worlds, _ = plan.part(chunks[key])
        return columns_from_json(value, rows=chunks[key].rows, worlds=len(worlds))

    def lost(key: str, result: JobResult) -> ChunkColumns:
        if result.outcome == REFUSED:
            raise result.refusal()  # a file has changed: stored and new chunks do not fit together
        sentence = f"the process that measured it ended with {result.outcome}: {result.detail}"
        worlds, _ = plan.part(chunks[key])
        return columns_of([None] * len(worlds), [failed(sentence)] * chunks[key].rows)

    return Study(
        KIND,
        "goalmeter.meg.sweeps.chunk:measure",
        {key: {} if what else plan.arguments(chunk) for key, chunk in chunks.items()},
        common=plan.common(),
        noun="chunk",
        what=what or plan.to_json(),
        from_json=read,
        to_json=ChunkColumns.to_json,
        is_failure=lambda columns: FAILED[0] in columns.record["status"],
        instead=lost,
    )


def play(
    plan: SweepPlan, *, on: str, out: str | Path | None, progress: Tell | None
) -> list[ChunkColumns]:
    """Measure every chunk and return the columns in order; see `runs.carry_out`."""
    return list(carry_out(study_of(plan), on=on, out=out, progress=progress).values())


def load(folder: str | Path) -> Sweep:
    """Return the sweep of a finished run.

    Raises:
        InvalidFileError: the folder is no run of a sweep, or was edited.
        IncompleteRunError: some of its chunks are missing.
    """
    run = read_run(folder)
    if run.what.get("kind") != KIND:
        raise another_kind(folder, run.what.get("kind"), KIND)
    try:
        plan = plan_of(run.what)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as cause:
        raise InvalidFileError(
            f"{Path(folder) / RUN} is of no sweep: {cause}; restore it, or begin again in another "
            f"folder"
        ) from cause
    return Sweep(plan, list(stored_results(run, study_of(plan, run.what)).values()))


def sweep(
    worlds: Worlds,
    *,
    policies: Sequence[Entry | str] = (),
    utilities: Sequence[Entry | str] = (),
    arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    on: str = "here",
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Sweep:
    """Measure MEG of every policy towards every utility in every world, one row each.

    Worlds of equal shape are measured together, in chunks that follow from the arguments alone:
    place, order and interruptions change no number. What is wrong with a world, a policy or a
    utility becomes the note of its rows, which count as failed.

    Args:
        worlds: the path of a TOML file, which may hold all other options; the path of a folder of
            MDP files; a function of worlds as FILE.py:NAME; or a list of tables such as
            {"generator": "cliff_world", "goal_length": [1, 2]} and {"files": "mdps/*.npz"}.
        policies: built-in names ("optimal", "uniform", "epsilon_greedy(0, 0.1)",
            "soft_optimal(1, 10)"), .npz files, whose path may contain {world} and arguments of the
            world in braces, functions (world, arguments) as FILE.py:NAME, or tables such as
            {"policy": "epsilon_greedy", "epsilon": [0, 0.1]}.
        utilities: "reward", .npz files or functions in the same way; or, for the best utility of a
            class, {"unknown": "state"}, "state-action", "time-state", or features from a file or a
            function. Default: the reward.
        arguments: of a function of worlds, by name: a list stands for each of its values,
            {"from": 0, "count": 100} for each of these numbers.
        seed: default of functions that have an argument `seed`.
        timeout: seconds that the search for an unknown utility may take per row, on average over
            the rows that are searched together; the row then has the best value and bound so far.
        on: where chunks are measured: "here", "processes:8", or another place.
        out: run directory; an existing run is resumed.
        progress: callback for the number of finished chunks and the remaining time.

    Raises:
        InvalidParameterError: an argument is invalid, or `out` holds another run.
        InvalidFileError: a file is missing, invalid, or has changed.

    Example: two CliffWorlds, and an agent that errs in one decision of ten.
        >>> result = sweep(
        ...     [{"generator": "cliff_world", "goal_length": [1, 4]}],
        ...     policies=["epsilon_greedy(0.1)"],
        ... )
        >>> [round(row.measured.value, 2) for row in result.rows]
        [23.79, 9.57]
    """
    plan = plan_sweep(
        worlds,
        policies=policies,
        utilities=utilities,
        arguments=arguments,
        seed=seed,
        timeout=timeout,
    )
    return Sweep(plan, play(plan, on=on, out=out, progress=progress))
