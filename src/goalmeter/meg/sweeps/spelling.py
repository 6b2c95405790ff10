"""What is asked of a sweep, made of entries: plain tables, as TOML has them and calls give them.

    worlds      {files = "mdps/*.npz"}            a file, a folder, a pattern, or a list of these
                {generator = NAME, ...}           and the arguments of the generator, as a grid
    policies    {policy = NAME, ...}              a word, an .npz file, FILE.py:NAME; and arguments
    utilities   {utility = NAME, ...} or {unknown = NAME, ...}

Every entry is looked at before anything runs; an error says in which one it is.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter._text import shown
from goalmeter.agents.user_code import from_here, misspelled, split_name
from goalmeter.meg.sweeps.choices import POLICY, UNKNOWN, UTILITY, WORDS, Choice
from goalmeter.meg.sweeps.generators import GENERATORS, generator_names
from goalmeter.meg.sweeps.grids import SEED, Grid, grid_of, is_number
from goalmeter.meg.sweeps.sources import Files, Made, Source, may_be_world
from goalmeter.meg.sweeps.users import check_arguments, function_of, takes_seed

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
