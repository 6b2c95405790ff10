"""The plan of a sweep: of a TOML file, of a folder of MDPs, of a function, or of plain tables."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_SECONDS, MOST_SEED, finite, whole
from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidParameterError
from goalmeter._files import digest, read_bytes
from goalmeter._names import did_you_mean
from goalmeter._text import shown
from goalmeter.agents.user_code import misspelled, split_name
from goalmeter.meg.sweeps.choices import (
    POLICY,
    REWARD,
    UNKNOWN,
    UTILITY,
    Choice,
    check_placeholders,
)
from goalmeter.meg.sweeps.plan import SweepPlan, chunk_sizes, seconds_of
from goalmeter.meg.sweeps.sources import Files, Made, Source
from goalmeter.meg.sweeps.spelling import FILES, GENERATOR, Entry, choices_asked, source_asked
from goalmeter.meg.sweeps.users import contents

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
