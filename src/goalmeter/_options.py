"""Options of the command line, declared once: as fields of the records that take their values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from functools import partial
from typing import Any, get_args, get_origin, get_type_hints

from goalmeter._errors import InvalidParameterError, shown

REQUIRED: Any = ...


@dataclass(frozen=True)
class Option:
    """An option of the command line; its type and its default are those of the field."""

    help: str  # description in one line
    metavar: str | None = None  # example of its value; None for numbers and flags
    flag: str = ""  # as it is typed, by default "--" and the name; "--yes/--no" for two
    least: float | None = None  # bounds of a number
    most: float | None = None
    kind: Any = None  # type that the command line reads; a list is an option that may be repeated
    commas: bool = False  # whether the values of a list are typed as one word
    read: Callable[[str, Any], Any] | None = None  # makes the value of the flag and what is typed
    group: str | None = None  # heading in the help; None for the general one
    complete: Callable[[], Iterable[str]] | None = None  # lists its values in a shell
    is_argument: bool = False  # whether it is typed without a flag
    default: Any = None  # of the field; `REQUIRED` if there is none


def option(text: str, *, default: Any = None, factory: Any = None, **spelling: Any) -> Any:
    """Declare a field of a record as an option; `REQUIRED` is the default of one without any.

    The text may begin as the help does, with two spaces before it: "--policy POLICY  The policy."
    """
    spelled, _, text = text.rpartition("  ")
    for word in spelled.split():
        spelling["flag" if word.startswith("-") else "metavar"] = word
    metadata = {"help": text} | spelling
    if factory is not None:
        return field(default_factory=factory, metadata=metadata)
    return field(default=default, metadata=metadata)


argument = partial(option, default=REQUIRED, is_argument=True)
count = partial(option, least=1)


def options_in(record: Any) -> dict[str, Option]:
    """Return the options of a record by field: arguments, its own, and those of its bases."""
    hints, own = get_type_hints(record), vars(record).get("__annotations__", {})
    options = {}
    for each in fields(record):
        if "help" not in each.metadata:
            continue
        kind, spelling = hints[each.name], dict(each.metadata)
        if get_origin(kind) not in (Sequence, tuple, Mapping, None):  # of a union the last but None
            kind = [item for item in get_args(kind) if item is not type(None)][-1]
        item: Any = get_args(kind)[0] if get_args(kind) else kind
        declared: dict[str, Any] = {
            "kind": kind if item is kind else list[item],
            "default": each.default,
        }
        declared |= {"flag": f"--{each.name.replace('_', '-')}"} | spelling
        if spelling.get("commas"):
            declared |= {"kind": str, "read": partial(_listed, item)}
        is_repeated = get_origin(declared["kind"]) is list and not spelling.get("is_argument")
        if is_repeated and "repeat" not in spelling["help"]:
            declared["help"] = f"{spelling['help'].removesuffix('.')}; repeat for more."
        options[each.name] = Option(**declared)
    order = sorted(options, key=lambda name: (not options[name].is_argument, name not in own))
    return {name: options[name] for name in order}


def optional(*records: Any) -> Any:
    """Return a record of the options of several, each of which None leaves to its record."""
    made = []
    for record in records:
        hints = get_type_hints(record)
        for each in fields(record):
            if text := each.metadata.get("help"):
                usual = each.default
                is_plain = isinstance(usual, tuple | str | float | int) and usual != ()
                if is_plain and not isinstance(usual, bool) and "default" not in text:
                    values = usual if isinstance(usual, tuple) else (usual,)
                    text = f"{text.removesuffix('.')}; default {','.join(map(str, values))}."
                left = field(default=None, metadata={**each.metadata, "help": text})
                made.append((each.name, hints[each.name] | None, left))
    return make_dataclass("LibraryOptions", made, frozen=True, kw_only=True)


def given(options: Any, record: Any) -> dict[str, Any]:
    """Return the fields of a record that were given as options."""
    names = [each.name for each in fields(record) if "help" in each.metadata]
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def words(record: Any, values: Mapping[str, Any]) -> list[str]:
    """Return the words that give these values, by field, to the options of a record."""
    options, typed = options_in(record), list[str]()
    for name, value in values.items():
        flag = options[name].flag
        if isinstance(value, bool):
            typed.append(flag.split("/")[0 if value else -1])
            continue
        items: Any = [value]
        if options[name].commas:
            items = [",".join(map(str, value))]
        elif isinstance(value, Mapping):
            texts = {key: v if isinstance(v, str) else json.dumps(v) for key, v in value.items()}
            items = [f"{key}={text}" for key, text in texts.items()]
        elif isinstance(value, list):
            items = ["-".join(map(str, v)) if isinstance(v, list) else v for v in value]
        for item in items:
            typed += [flag, str(item)]
    return typed


# --- Values as they are typed ---------------------------------------------------------------------
def _listed(kind: Any, flag: str, text: str | None) -> tuple[Any, ...] | None:
    try:
        return None if text is None else tuple(kind(part.strip()) for part in text.split(","))
    except ValueError as cause:  # also for integers of thousands of digits
        numbers = "whole numbers" if kind is int else "numbers"
        raise InvalidParameterError(
            f"{flag} is {shown(text)}, expected {numbers} with commas between them"
        ) from cause


def values_by_name(
    flag: str,
    texts: Sequence[str] | None,
    expected: str,
    read: Callable[[str], Any] = json.loads,
) -> dict[str, Any] | None:
    """Return options that are each written NAME=VALUE; what cannot be read is a word.

    `expected` says, with an example, what can be written.
    """
    if texts is None:
        return None
    out: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and name) or name in out:
            what = f"has {name} twice" if name in out else f"is {shown(text)}"
            raise InvalidParameterError(f"{flag} {what}, expected each once as {expected}")
        try:
            out[name] = read(value)
        except (ValueError, RecursionError):
            out[name] = value
    return out
