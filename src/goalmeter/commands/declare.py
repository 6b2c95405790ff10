"""Commands, each a record of options and a function; options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from goalmeter._errors import MOST_SEED, MOST_WORKERS, InvalidParameterError
from goalmeter._options import REQUIRED, argument, option, options_in

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome

# Of other modules, for commands.
__all__ = ["REQUIRED", "argument", "option"]

Tell = Callable[[str], None]
R = TypeVar("R")
_WORTH_PROCESSES = 3.0  # seconds; processes take one to start, and import what trials need


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
    return partial(Command, record)


def check_exactly_one(options: Mapping[str, Any]) -> None:
    """Refuse none or several of some options, which are here by their flags."""
    named = [flag for flag, value in options.items() if value not in (None, ())]
    if len(named) != 1:
        raise InvalidParameterError(
            f"{', '.join(options)}: {' and '.join(named) or 'none of them'} given, expected "
            f"exactly one of them"
        )


# --- Options of several commands ------------------------------------------------------------------
search_time = partial(option, metavar="SECONDS", least=0.001, most=1e9)


@dataclass(frozen=True, kw_only=True)
class SeedOptions:
    """The seed of a command that draws random numbers."""

    seed: int = option("Seed of everything random.", default=0, least=0, most=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class DryRunOptions:
    """Whether only the cost is wanted."""

    dry_run: bool = option("Print the planned trials and estimated cost, then exit.", default=False)


@dataclass(frozen=True, kw_only=True)
class RunOptions(DryRunOptions):
    """Where trials run, and where results are stored."""

    out: Path | None = option("RUN  Run directory; an existing run is resumed.")
    on: str | None = option(
        "PLACE  here, processes:N, ray, slurm, ...; default a process a core where that is faster.",
        complete=lambda: import_module("goalmeter.runs").place_names(),
    )
    workers: int | None = option("Short for --on processes:N.", least=1, most=MOST_WORKERS)

    def place(self, *, seconds: float = inf) -> str:
        """Return the execution backend; `seconds` are those of all trials, one after the other."""
        from goalmeter.runs import HERE, check_place, cores

        if self.on is not None and self.workers is not None:
            raise InvalidParameterError(
                f"--on and --workers both say where trials run; --workers {self.workers} is short "
                f"for --on processes:{self.workers}"
            )
        count = self.workers
        if count is None and self.on is None and seconds >= _WORTH_PROCESSES and cores() > 1:
            count = cores()
        on = self.on or (HERE if count is None else f"processes:{count}")
        check_place(on)
        return on
