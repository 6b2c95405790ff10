"""Declaration of commands: a record of options for each, from which the command line derives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, get_args, get_origin
from typing import get_type_hints as hints_of

from goalmeter._errors import InvalidParameterError, shown

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome

Tell = Callable[[str], None]
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
    write: Callable[[Any], str] = str  # makes the typed value of one value of run.json
    group: str | None = None  # heading in the help; None for the general one
    complete: str = ""  # entry of `cli.application.COMPLETIONS` that lists its values in a shell
    is_argument: bool = False  # whether it is typed without a flag
    default: Any = None  # of the field; `REQUIRED` if there is none


def option(text: str, metavar: str | None = None, *, default: Any = None, **spelling: Any) -> Any:
    """Declare a field of a record as an option; `REQUIRED` is the default of one without any.

    The text may begin as the help does, with two spaces before it: "--policy POLICY  The policy."
    """
    spelled, _, text = text.rpartition("  ")
    for word in (*spelled.split(), *filter(None, [metavar])):
        spelling["flag" if word.startswith("-") else "metavar"] = word
    return field(default=default, metadata={"help": text} | spelling)


def several(text: str, *, default: Any = (), **spelling: Any) -> Any:
    """Declare a field of a record as an option that may be repeated, as its help then says."""
    text = text if "repeat " in text else f"{text.removesuffix('.')}; repeat for more."
    return option(text, default=default, **spelling)


def shared(**spelling: Any) -> tuple[tuple[str, Any], ...]:
    """Return what all options of an annotated type have in common."""
    return tuple(spelling.items())


def argument(
    text: str, metavar: str | None = None, *, default: Any = REQUIRED, **spelling: Any
) -> Any:
    """Declare a field of a record as an argument."""
    return option(text, metavar, default=default, is_argument=True, **spelling)


def options_in(record: Any) -> Mapping[str, Option]:
    """Return the options of a record by field: arguments, its own, and those of its bases."""
    hints, own = hints_of(record, include_extras=True), vars(record).get("__annotations__", {})
    options = {}
    for each in fields(record):
        kind, spelling = hints[each.name], dict[str, Any]()
        if get_origin(kind) not in (Sequence, Annotated, None):  # of a union the last but None
            kind = [one for one in get_args(kind) if one is not type(None)][-1]
        is_list = get_origin(kind) is Sequence
        item: Any = get_args(kind)[0] if is_list else kind
        if get_origin(item) is Annotated:
            item, spelling = item.__origin__, dict(*item.__metadata__)
        said: dict[str, Any] = {"flag": f"--{each.name.replace('_', '-')}"}
        said |= {"kind": list[item] if is_list else item} | spelling | dict(each.metadata)
        if said.get("commas"):
            said |= {"kind": str, "read": partial(_listed, item)}
            said["write"] = lambda values: ",".join(map(str, values))
        options[each.name] = Option(**said, default=each.default)
    order = sorted(options, key=lambda name: (not options[name].is_argument, name not in own))
    return {name: options[name] for name in order}


def _listed(kind: Any, flag: str, text: str | None) -> list[Any] | None:
    try:
        return None if text is None else [kind(part.strip()) for part in text.split(",")]
    except ValueError as cause:  # also for integers of thousands of digits
        numbers = "whole numbers" if kind is int else "numbers"
        raise InvalidParameterError(
            f"{flag} is {shown(text)}, expected {numbers} with commas between them"
        ) from cause


def pairs(flag: str, texts: Sequence[str], expected: str) -> dict[str, str]:
    """Return options that are each written NAME=VALUE; `expected` says what with an example."""
    out: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (equals and name) or name in out:
            what = f"has {name} twice" if name in out else f"is {shown(text)}"
            raise InvalidParameterError(f"{flag} {what}, expected each once as {expected}")
        out[name] = value
    return out


class InterruptedCommand(KeyboardInterrupt):
    """A measurement was interrupted at the keyboard; `outcome` is what it had by then."""

    def __init__(self, outcome: Outcome, note: str) -> None:
        super().__init__(note)
        self.outcome = outcome


R = TypeVar("R")


@dataclass(frozen=True)
class Command(Generic[R]):
    """A command: a record of options, and a function of the record and a progress callback."""

    record: type[R]
    function: Callable[[R, Tell], Outcome]

    def __call__(self, *arguments: Any, progress: Tell | None = None, **options: Any) -> Outcome:
        """Run the command; `arguments` are fields of its record in the order of the help."""
        typed = dict(zip(options_in(self.record), arguments, strict=False)) | options
        return self.function(self.record(**typed), progress or (lambda line: None))


def command(record: type[R]) -> Callable[[Callable[[R, Tell], Outcome]], Command[R]]:
    """Declare a function as a command with this record of options."""
    return lambda function: Command(record, function)
