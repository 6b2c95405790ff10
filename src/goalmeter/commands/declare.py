"""Declaration of commands: one record of options per command, from which the command line derives.

A field of the record states an option once: its type, bounds, default and help. The command is a
function of the record and a progress callback, and can be called from Python with its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_origin

from goalmeter._errors import MOST_SEED, MOST_WORKERS, InvalidParameterError, whole

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Option:
    """An option of the command line.

    Attributes:
        kind: type that the command line reads; a list is an option that may be repeated.
        help: description in one line.
        metavar: example of its value; None for numbers and flags.
        flag: as it is typed; "--yes/--no" for two; "" for "--" and the name of the field.
        least, most: bounds of a number.
        read: makes the field's value of the flag and the typed value; None where these are equal.
        write: makes the typed value of one value of run.json.
        group: heading in the help; None for the general one.
        complete: function of `cli.completion` that lists its values in a shell.
        is_argument: whether it is typed without a flag.
    """

    kind: Any
    help: str
    metavar: str | None = None
    flag: str = ""
    least: float | None = None
    most: float | None = None
    read: Callable[[str, Any], Any] | None = None
    write: Callable[[Any], str] = str
    group: str | None = None
    complete: str = ""
    is_argument: bool = False

    @property
    def repeated(self) -> bool:
        """Whether the option is typed once for each of its values."""
        return get_origin(self.kind) is list


REQUIRED: Any = ...


def option(
    kind: Any, text: str, metavar: str | None = None, *, default: Any = None, **spelling: Any
) -> Any:
    """Declare a field of a record as an option; `REQUIRED` is the default of one without any."""
    return field(default=default, metadata={"option": Option(kind, text, metavar, **spelling)})


def argument(
    kind: Any, text: str, metavar: str, *, default: Any = REQUIRED, **spelling: Any
) -> Any:
    """Declare a field of a record as an argument."""
    return option(kind, text, metavar, default=default, is_argument=True, **spelling)


@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """Where trials run."""

    on: str | None = option(
        str,
        "Where trials run: here, processes:N, ray, slurm, or a place of another package; default "
        "one process a core where that is faster.",
        "PLACE",
        complete="places",
    )
    workers: int | None = option(
        int, "So many processes: short for --on processes:N.", least=1, most=MOST_WORKERS
    )

    def place(self, *, seconds: float = inf) -> str:
        """Return the execution backend.

        Without --on and --workers it is a process for each core, if trials that take so many
        seconds one after the other are worth their start, and otherwise this process.
        """
        from goalmeter.runs import HERE, check_place, cores

        if self.on is not None and self.workers is not None:
            raise InvalidParameterError(
                f"--on and --workers both say where trials run; give one of them: --workers "
                f"{self.workers} is short for --on processes:{self.workers}"
            )
        if self.workers is not None:
            return f"processes:{whole(self.workers, 'workers', least=1, most=MOST_WORKERS)}"
        if self.on is not None:
            check_place(self.on)
            return self.on
        return f"processes:{cores()}" if cores() > 1 and seconds >= _WORTH_PROCESSES else HERE


_WORTH_PROCESSES = 3.0  # seconds; processes take one to start, and import what trials need


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """The seed of a command that draws random numbers."""

    seed: int = option(int, "Seed of everything random.", default=0, least=0, most=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class DryRunOptions:
    """Whether only the cost is wanted."""

    dry_run: bool = option(
        bool, "Print the planned trials and estimated cost, then exit.", default=False
    )


def out_option(what: str = "Run directory; an existing run is resumed.") -> Any:
    """Declare the field of a run directory."""
    return option(Path, what, "RUN")


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
        names = [name for name, _ in options_in(self.record)]
        typed = dict(zip(names, arguments, strict=False)) | options
        return self.function(self.record(**typed), progress or (lambda line: None))


def command(record: type[R]) -> Callable[[Callable[[R, Tell], Outcome]], Command[R]]:
    """Declare a function as a command with this record of options."""

    def decorate(function: Callable[[R, Tell], Outcome]) -> Command[R]:
        return Command(record, function)

    return decorate


def options_in(record: Any) -> Iterator[tuple[str, Option]]:
    """Give the options of a record by field: arguments, its own options, and those of its bases."""
    own = vars(record).get("__annotations__", {})
    declared = [(each.name, each.metadata["option"]) for each in fields(record) if each.metadata]
    yield from sorted(declared, key=lambda named: (not named[1].is_argument, named[0] not in own))
