"""Run a sweep: read its specification, plan it, and measure or resume its chunks."""

from __future__ import annotations

import glob
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
from goalmeter.agents.user_code import from_here, misspelled, split_name
from goalmeter.meg.sweeps.chunk import FAILED, Columns, columns_from_json, columns_of, failed
from goalmeter.meg.sweeps.plan import (
    KIND,
    POLICY,
    REWARD,
    UNKNOWN,
    UTILITY,
    WORDS,
    Choice,
    SweepPlan,
    check_placeholders,
    chunk_sizes,
    plan_of,
    seconds_of,
)
from goalmeter.meg.sweeps.table import Sweep
from goalmeter.meg.sweeps.worlds import (
    GENERATORS,
    SEED,
    Files,
    Grid,
    Made,
    Source,
    check_arguments,
    contents,
    function_of,
    generator_names,
    grid_of,
    is_number,
    may_be_world,
    takes_seed,
)
from goalmeter.runs import JobResult, StoredRun, Study, carry_out, read_run, stored_results
from goalmeter.runs.jobs import REFUSED
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import RUN, another_kind

# --- Spelling -------------------------------------------------------------------------------------
# worlds      {files = "mdps/*.npz"}            a file, a folder, a pattern, or a list of these
#                 {generator = NAME, ...}           and the arguments of the generator, as a grid
#         policies    {policy = NAME, ...}              a word, an .npz file, FILE.py:NAME; and
#     arguments
#     utilities   {utility = NAME, ...} or {unknown = NAME, ...}
#
# Every entry is looked at before anything runs; an error says in which one it is.

FILES, GENERATOR = "files", "generator"
Entry = Mapping[str, Any]
# A word with values in brackets, such as epsilon_greedy(0, 0.1).
_SHORT = re.compile(r"\s*([\w-]+)\s*\((.*)\)\s*", re.DOTALL)
_EXAMPLE = {POLICY: "mine.py:policy", UTILITY: "mine.py:utility", UNKNOWN: "mine.py:features"}
_RETURNS = {POLICY: "policy", UTILITY: "utility", UNKNOWN: "features"}


def source_asked(entry: Entry, where: str, folder: Path, seed: int) -> Source:
    """The worlds that an entry asks for.

    Args:
        entry: as in this file's heading.
        where: it stands, for the message.
        folder: that paths are relative to.
        seed: of a generator that takes one and is given none.
    """
    named = [key for key in (FILES, GENERATOR) if key in entry]
    if len(named) != 1:
        raise _unclear(entry, named, (FILES, GENERATOR), where)
    if named == [FILES]:
        if extra := [key for key in entry if key != FILES]:
            hint = did_you_mean(extra[0], (FILES, GENERATOR), quoted=True) or ";"
            raise InvalidParameterError(
                f"{where}: there is no key {extra[0]!r}{hint} expected files alone"
            )
        return Files(_paths(entry[FILES], where, folder))
    name = _text(entry[GENERATOR], f"{where}: generator")
    arguments = {key: value for key, value in entry.items() if key != GENERATOR}
    if split_name(name) is not None:
        name = _users(name, folder)
        function = _function(name, "world", where)
    elif name in GENERATORS:
        function = GENERATORS[name]
    else:
        hint = misspelled(name, "worlds.py:world")
        near = did_you_mean(name, generator_names(), quoted=True) or ";"
        raise InvalidParameterError(
            f"{where}: there is no generator {name!r}{'; ' + hint if hint else near} expected "
            f"{', '.join(generator_names())}, or FILE.py:NAME"
        )
    if takes_seed(function):
        arguments.setdefault(SEED, seed)
    check_arguments(function, name, arguments, where, given=0)
    return Made(name, grid_of(arguments, where))


def choices_asked(
    entry: Entry | str, roles: Sequence[str], where: str, folder: Path, seed: int
) -> list[Choice]:
    """The policies or utilities that an entry asks for, one for each combination of arguments.

    Args:
        entry: as in this file's heading; or the name alone, a word perhaps with values in brackets.
        roles: what it may be of: ("policy",) or ("utility", "unknown").
        where: it stands, for the message.
        folder: that paths are relative to.
        seed: of a function that takes one and is given none.
    """
    if isinstance(entry, str):
        entry = _in_full(entry, roles[0], where)
    named = [role for role in roles if role in entry]
    if len(named) != 1:
        raise _unclear(entry, named, roles, where)
    role = named[0]
    name = _text(entry[role], f"{where}: {role}")
    arguments = {key: value for key, value in entry.items() if key != role}
    if name in WORDS[role]:
        _check_word(role, name, arguments, where)
    elif split_name(name) is not None:
        name = _users(name, folder)
        function = _function(name, _RETURNS[role], where)
        if takes_seed(function):
            arguments.setdefault(SEED, seed)
        check_arguments(function, name, arguments, where, given=1)
    elif name.endswith(".npz"):
        if arguments:
            raise InvalidParameterError(
                f"{where}: a file takes no arguments, got {next(iter(arguments))!r}; leave it out"
            )
        name = from_here(folder / name)
        if "{" not in name and not Path(name).is_file():
            raise InvalidFileError(f"{where}: there is no file {name}; check the path")
    else:
        raise _no_word(role, name, where)
    grid = grid_of(arguments, where)
    chosen = [Choice(role, name, combination) for combination in grid]
    _check_placeholders(chosen[0], where)
    if role == POLICY and name in WORDS[POLICY]:
        _check_numbers(name, grid, where)
    return chosen


def _in_full(text: str, role: str, where: str) -> Entry:
    """The entry that a name in short stands for: the values in brackets are its one argument's."""
    parts = _SHORT.fullmatch(text)
    if parts is None or split_name(text) is not None:
        return {role: text.strip()}
    name, values = parts.groups()
    if name not in WORDS[role]:
        raise _no_word(role, name, where)
    if len(WORDS[role][name]) != 1:
        raise InvalidParameterError(f"{where}: {name} takes no values, got ({values}); leave them")
    return {role: name, WORDS[role][name][0]: [_number(item, where) for item in values.split(",")]}


def _number(text: str, where: str) -> Any:
    try:
        return float(text) if "inf" in text else json.loads(text)
    except ValueError:
        raise InvalidParameterError(f"{where}: {shown(text)} is no number") from None


def _check_word(role: str, name: str, arguments: Entry, where: str) -> None:
    known = WORDS[role][name]
    for argument in arguments:
        if argument not in known:
            hint = did_you_mean(argument, (role, *known), quoted=True) or ";"
            raise InvalidParameterError(
                f"{where}: {name} has no argument {argument!r}{hint} expected "
                f"{', '.join(known) or 'none'}"
            )
    if lacks := [argument for argument in known if argument not in arguments]:
        raise InvalidParameterError(
            f"{where}: {name} needs the argument {lacks[0]!r}, a number or a list of numbers"
        )


def _check_numbers(name: str, grid: Grid, where: str) -> None:
    for argument, values in grid.axes.items():
        for value in values:
            if not is_number(value) or (argument == "epsilon" and not 0 <= value <= 1):
                expected = "a probability in [0, 1]" if argument == "epsilon" else "a number"
                raise InvalidParameterError(
                    f"{where}: {argument} of {name} is {shown(value)}, expected {expected}"
                )


def _check_placeholders(choice: Choice, where: str) -> None:
    try:
        wrong = [name for name in choice.placeholders if not name.isidentifier()]
    except ValueError:
        wrong = [choice.name]
    if wrong:
        raise InvalidParameterError(
            f"{where}: {choice.name} has braces around {wrong[0]!r}, expected a name such as "
            f"{{world}} or an argument of the worlds"
        )


def _no_word(role: str, name: str, where: str) -> InvalidParameterError:
    hint = misspelled(name, _EXAMPLE[role])
    near = did_you_mean(name, WORDS[role], quoted=True) or ";"
    return InvalidParameterError(
        f"{where}: there is no {role} {name!r}{'; ' + hint + ';' if hint else near} expected "
        f"{', '.join(WORDS[role])}, a file that ends in .npz, or FILE.py:NAME"
    )


def _unclear(
    entry: Entry, named: Sequence[str], keys: Sequence[str], where: str
) -> InvalidParameterError:
    listed = " or ".join(keys)
    if named:
        return InvalidParameterError(
            f"{where}: {' and '.join(named)} are both there, expected one of them"
        )
    for key in entry:
        if hint := did_you_mean(key, keys, quoted=True):
            return InvalidParameterError(
                f"{where}: there is no key {key!r}{hint} expected {listed}"
            )
    return InvalidParameterError(f"{where}: neither of the keys {listed} is there, expected one")


def _function(name: str, kind: str, where: str) -> Callable[..., Any]:
    try:
        return function_of(name, kind)
    except InvalidFileError as cause:
        raise InvalidFileError(f"{where}: {cause}") from cause


def _users(name: str, folder: Path) -> str:
    """FILE.py:NAME with the file in its one spelling."""
    parts = split_name(name)
    assert parts is not None, "checked before"
    return f"{from_here(folder / parts[0])}:{parts[1]}"


def _paths(value: object, where: str, folder: Path) -> tuple[str, ...]:
    patterns = list(value) if isinstance(value, (list, tuple)) else [value]
    out: dict[str, None] = {}
    for item in patterns:
        pattern = str(folder / _text(item, f"{where}: files"))
        if Path(pattern).is_dir():
            archives = sorted(map(str, Path(pattern).glob("*.npz")))
            there = [path for path in archives if may_be_world(path)]
            lacking = f"the folder {from_here(pattern)} holds no .npz file"
            if archives:
                lacking += f" of an MDP: none of its {len(archives)} has an array 'reward'"
        elif Path(pattern).exists() or not glob.has_magic(pattern):
            there = [pattern] if Path(pattern).exists() else []
            lacking = f"there is no file {from_here(pattern)}"
        else:
            # `Path.glob` takes no pattern that begins at the root.
            there = sorted(glob.glob(pattern, recursive=True))  # noqa: PTH207
            lacking = f"no file is like {from_here(pattern)}"
        if not there:
            raise InvalidFileError(f"{where}: {lacking}; check the path")
        out |= dict.fromkeys(from_here(path) for path in there)
    if not out:
        raise InvalidParameterError(f"{where}: files is an empty list, expected at least one")
    return tuple(out)


def _text(value: object, name: str) -> str:
    # A path is what calls from Python give.
    if isinstance(value, (str, Path)) and str(value).strip():
        return str(value)
    raise InvalidParameterError(f"{name} is {shown(value)}, expected text")


# --- Planning -------------------------------------------------------------------------------------
SECTIONS = ("worlds", "policies", "utilities")
# A file of a sweep says what it is by names and numbers; one of this size does so a million times.
_MOST_BYTES = 2**26
# Files whose contents a run can be told by; each takes some hundred bytes of its run.json.
MOST_FILES = 100_000

Worlds = str | Path | Sequence[Entry]


def plan_sweep(
    worlds: Worlds,
    *,
    policies: Sequence[Entry | str] = (),
    utilities: Sequence[Entry | str] = (),
    arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
    timeout: float | None = None,
) -> SweepPlan:
    """What a sweep would measure; some of its worlds are made, to see how large they are.

    Args:
        worlds: the path of a TOML file, of a folder of MDP files, FILE.py:NAME, or entries as
            `spelling` has them.
        policies: entries, besides those of a TOML file.
        utilities: entries, besides those of a TOML file; the reward where there are none.
        arguments: of FILE.py:NAME, as a grid.
        seed: of generators and functions that take one and are given none.
        timeout: seconds for the search of a row; None for as long as it takes.
    """
    seed = whole(seed, "seed", least=0, most=MOST_SEED)
    if timeout is not None:
        timeout = finite(timeout, "timeout", least=0.001, most=MOST_SECONDS)
    asked = _sections(worlds, arguments)
    sources = [
        source_asked(_table(entry, where), where, folder, seed)
        for entry, where, folder in asked["worlds"]
    ]
    if not sources:
        raise InvalidParameterError("there are no worlds, expected at least one entry")
    for section, more in (("policies", policies), ("utilities", utilities)):
        asked[section] += [
            (entry, f"{section} {number}", Path()) for number, entry in enumerate(more, start=1)
        ]
    if not asked["policies"]:
        raise InvalidParameterError(
            "no policy is asked for, expected at least one: optimal, uniform, epsilon_greedy, "
            "soft_optimal, a file that ends in .npz, or FILE.py:NAME"
        )
    asked["utilities"] = asked["utilities"] or [(REWARD, "utilities", Path())]
    behaviour = _choices(asked["policies"], (POLICY,), sources, seed)
    aims = _choices(asked["utilities"], (UTILITY, UNKNOWN), sources, seed)
    plan = SweepPlan(tuple(sources), behaviour, aims, timeout)
    states = [source.states() for source in sources]
    return SweepPlan(
        plan.sources,
        plan.policies,
        plan.utilities,
        timeout,
        _contents(plan),
        chunk_sizes(states, len(behaviour), aims),
        seconds_of(states, len(behaviour), aims),
    )


_Asked = list[tuple[Any, str, Path]]


def _sections(worlds: Worlds, arguments: Mapping[str, Any] | None) -> dict[str, _Asked]:
    """Every entry of every section, with the words for where it stands and its folder."""
    none: dict[str, _Asked] = {section: [] for section in SECTIONS}
    if isinstance(worlds, (str, Path)):
        text = str(worlds)
        if split_name(text) is not None:
            return none | {"worlds": [({GENERATOR: text, **(arguments or {})}, text, Path())]}
        if arguments:
            raise InvalidParameterError(
                f"arguments are given to {text}, expected FILE.py:NAME, which alone takes some"
            )
        if text.endswith(".toml"):
            return _of_toml(Path(text))
        if Path(text).is_dir() or text.endswith(".npz"):
            return none | {"worlds": [({FILES: text}, text, Path())]}
        raise InvalidParameterError(
            f"{shown(text)} is no sweep, expected a file that ends in .toml, a folder of MDP "
            f"files, or a function of worlds as FILE.py:NAME; "
            f"{misspelled(text, 'worlds.py:world') or 'check the path'}"
        )
    entries = list(worlds)
    asked = [(entry, f"worlds {n}", Path()) for n, entry in enumerate(entries, start=1)]
    return none | {"worlds": asked}


def _of_toml(path: Path) -> dict[str, _Asked]:
    try:
        text = read_bytes(path, _MOST_BYTES).decode("utf-8")
    except FileNotFoundError:
        raise InvalidFileError(f"there is no file {path}; check the path") from None
    except (OSError, UnicodeDecodeError) as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause}") from cause
    try:
        value = tomllib.loads(text)
    except (ValueError, RecursionError) as cause:  # a ValueError is also too long a number
        raise InvalidFileError(f"{path} is no TOML: {cause}") from cause
    out: dict[str, _Asked] = {section: [] for section in SECTIONS}
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
        for number, entry in enumerate(entries, start=1):
            out[section].append((entry, f"{path}, [[{section}]] {number}", path.parent))
    return out


def _table(entry: Any, where: str) -> Entry:
    if not isinstance(entry, Mapping):
        raise InvalidParameterError(
            f"{where} is {shown(entry)}, expected a table such as {{generator = 'cliff_world'}}"
        )
    return entry


def _choices(
    asked: _Asked, roles: Sequence[str], sources: Sequence[Source], seed: int
) -> tuple[Choice, ...]:
    out: dict[str, Choice] = {}
    for entry, where, folder in asked:
        table = entry if isinstance(entry, str) else _table(entry, where)
        for choice in choices_asked(table, roles, where, folder, seed):
            if choice.label in out:
                raise InvalidParameterError(f"{where}: {choice.label} is there twice; name it once")
            for source in sources:
                check_placeholders(choice, source, where)
            out[choice.label] = choice
    return tuple(out.values())


def _contents(plan: SweepPlan) -> dict[str, str | None]:
    """What every file that a row depends on holds; a file that is missing fails its rows alone."""
    choices = (*plan.policies, *plan.utilities)
    functions = {source.generator for source in plan.sources if isinstance(source, Made)}
    functions |= {choice.name for choice in choices if choice.is_users}
    paths = {path for s in plan.sources if isinstance(s, Files) for path in s.paths}
    paths |= {choice.name for choice in choices if choice.is_file and not choice.placeholders}
    for source in plan.sources:
        for choice in choices:
            if choice.placeholders:
                paths |= {choice.path(source.fields(number)) for number in range(len(source))}
    if len(paths) > MOST_FILES:
        raise InvalidParameterError(
            f"the sweep has {len(paths)} files, expected at most {MOST_FILES}; sweep over them in "
            f"parts, or make the worlds by a function, FILE.py:NAME"
        )
    out: dict[str, str | None] = {path: _digest(path) for path in sorted(paths)}
    return out | contents({name for name in functions if split_name(name) is not None})


def _digest(path: str) -> str | None:
    try:
        return digest(path)
    except GoalmeterError:
        return None


# --- Playing --------------------------------------------------------------------------------------
def study_of(plan: SweepPlan) -> Study[Columns]:
    """The study of a plan: a trial is a chunk of rows."""
    chunks = {chunk.key: chunk for chunk in plan.chunks}

    def shape(key: str) -> dict[str, int]:
        return {"rows": chunks[key].rows, "worlds": len(plan.part(chunks[key])[0])}

    def lost(key: str, result: JobResult) -> Columns:
        if result.outcome == REFUSED:
            # A file has changed: what is kept is of the old one, and all to come of the new.
            raise result.refusal()
        sentence = f"the process that measured it ended with {result.outcome}: {result.detail}"
        of = shape(key)
        return columns_of([None] * of["worlds"], [failed(sentence)] * of["rows"])

    return Study(
        KIND,
        "goalmeter.meg.sweeps.chunk:measure",
        {key: plan.arguments(chunk) for key, chunk in chunks.items()},
        common=plan.common(),
        noun="chunk",
        what=plan.to_json(),
        from_json=lambda key, value: columns_from_json(value, **shape(key)),
        to_json=Columns.to_json,
        is_failure=lambda columns: FAILED[0] in columns.record["status"],
        instead=lost,
    )


def play(
    plan: SweepPlan, *, on: str, out: str | Path | None, progress: Tell | None
) -> list[Columns]:
    """The columns of every chunk, in order; see `runs.carry_out`."""
    return list(carry_out(study_of(plan), on=on, out=out, progress=progress).values())


def stored(folder: str | Path) -> tuple[SweepPlan, list[Columns]]:
    """The plan and the columns of a finished run."""
    run = read_run(folder)
    plan = stored_plan(run.what, folder)
    return plan, list(stored_results(run, _to_read(plan, run)).values())


def stored_plan(what: Mapping[str, Any], folder: str | Path) -> SweepPlan:
    """The plan that a run is of, as its run.json has it."""
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    try:
        return plan_of(what)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as cause:
        raise InvalidFileError(
            f"{Path(folder) / RUN} is of no sweep: {cause}; restore it, or begin again in another "
            f"folder"
        ) from cause


def _to_read(plan: SweepPlan, run: StoredRun) -> Study[Columns]:
    """The study of a run as far as its chunks can be read: its files may be gone."""
    chunks = {chunk.key: chunk for chunk in plan.chunks}

    def read(key: str, value: Any) -> Columns:
        worlds, _ = plan.part(chunks[key])
        return columns_from_json(value, rows=chunks[key].rows, worlds=len(worlds))

    return Study(KIND, "", {key: {} for key in chunks}, noun="chunk", what=run.what, from_json=read)


# --- Measure --------------------------------------------------------------------------------------
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
    """MEG of every policy towards every utility in every world, a row each.

    Worlds of like shape are measured together, in chunks that follow from what is asked for alone:
    where they are measured, in what order and with how many interruptions changes no number. What
    is wrong with a world, a policy or a utility is said in its rows, which count as failed.

    Args:
        worlds: the path of a TOML file, which says all that the options say too; the path of a
            folder of MDP files; a function of worlds as FILE.py:NAME; or a list of tables such as
            {"generator": "cliff_world", "goal_length": [1, 2]} and {"files": "mdps/*.npz"}.
        policies: words ("optimal", "uniform", "epsilon_greedy(0, 0.1)", "soft_optimal(1, 10)"),
            .npz files, in whose path {world} and arguments of the world in braces are put in,
            functions (world, arguments) as FILE.py:NAME, or tables such as
            {"policy": "epsilon_greedy", "epsilon": [0, 0.1]}.
        utilities: "reward", .npz files or functions in the same way; or, for the best utility of a
            class, {"unknown": "state"}, "state-action", "time-state", or features from a file or a
            function. Default the reward.
        arguments: of a function of worlds, by name: a list stands for each of its values,
            {"from": 0, "count": 100} for each of these numbers.
        seed: of functions that have an argument `seed` and are given none.
        timeout: seconds that the search for an unknown utility may take for each row, on average
            over those that are searched together; the row then has the best value and the bound
            by then.
        on: where chunks are measured: "here", "processes:8", or another place.
        out: run folder that keeps every chunk; what it holds is not measured again.
        progress: told now and then how many chunks have ended, and what time is left.

    Raises:
        InvalidParameterError: what is asked for cannot be, or `out` holds another run.
        InvalidFileError: a file is not there, is none of its kind, or has changed.

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


def load(folder: str | Path) -> Sweep:
    """The sweep that a finished run holds.

    Raises:
        InvalidFileError: the folder is no run of a sweep, or was edited.
        IncompleteRunError: not all of its chunks are there.
    """
    return Sweep(*stored(folder))
