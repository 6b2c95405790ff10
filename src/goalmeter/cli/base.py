"""The application, common options, shell completion, and error output of all commands."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import goalmeter
from goalmeter._errors import MOST_SEED, MOST_WORKERS, encodable, message, visible
from goalmeter._names import nearest

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome


# --- Completion -----------------------------------------------------------------------------------
# Each function gets what was typed so far and gives all names that go on from there. A shell waits
# for it, so what it needs is imported only then.


def suites(incomplete: str) -> list[str]:
    """Suites of grid worlds."""
    from goalmeter.navigation.suites import suite_names

    return _beginning(incomplete, suite_names())


def navigators(incomplete: str) -> list[str]:
    """Agents that `goalmeter navigate` can measure."""
    from goalmeter.agents import Ability, listed_names

    names = [name for able in (Ability.GRID, Ability.TEXT) for name in listed_names(able)]
    return _beginning(incomplete, dict.fromkeys(names))


def agents(incomplete: str) -> list[str]:
    """Agents that `goalmeter reflect` can measure, and their reality checks."""
    from goalmeter.agents import Ability, listed_names

    names = listed_names(Ability.HISTORY)
    return _beginning(incomplete, [*names, *(f"rc({name})" for name in names)])


def environments(incomplete: str) -> list[str]:
    """Environments that simulate their agent, and their opposites."""
    from goalmeter.reflection.environments.registry import environment_names, opposite

    names = environment_names()
    return _beginning(incomplete, [*names, *map(opposite, names)])


def replications(incomplete: str) -> list[str]:
    """Studies that can be replicated."""
    from goalmeter.commands.replicate import REPLICATIONS

    return _beginning(incomplete, REPLICATIONS)


def places(incomplete: str) -> list[str]:
    """Places where trials run."""
    from goalmeter.runs import place_names

    return _beginning(incomplete, place_names())


def organisms(incomplete: str) -> list[str]:
    """The small language models whose goals are known."""
    from goalmeter.organisms import organism_names

    return _beginning(incomplete, organism_names())


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


# --- Base -----------------------------------------------------------------------------------------
MEASURES = "meg, reflect, navigate and probe"


class Commands(TyperGroup):
    """The commands, `meg` first, with a suggestion for a name that is not one of them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return sorted(super().list_commands(ctx), key=lambda name: name != "meg")

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names; fail with a suggestion otherwise."""
        name, names = args[0], self.list_commands(ctx)
        if name in names or name.startswith("-"):
            return super().resolve_command(ctx, args)
        if set(name) & set("/.:(") or Path(name).exists():
            hint = (
                f"A command comes first: `goalmeter report {name}` for a run, "
                f"`goalmeter navigate {name}` for an agent."
            )
        elif (near := nearest(name, names)) is not None:
            hint = f"Did you mean '{near}'?"
        else:
            hint = f"The measures are {MEASURES}; `goalmeter --help` lists all commands."
        ctx.fail(f"No such command '{name}'. {hint}")


app = typer.Typer(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Measure how goal-directed an agent is: towards what, and how strongly.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Seed = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="Seed of everything random.")]
# Every command accepts --seed, so that a script need not know which of them draw anything; the help
# of those that draw nothing says so and does not list it.
UnusedSeed = Annotated[int, typer.Option("--seed", min=0, max=MOST_SEED, hidden=True)]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=MOST_WORKERS, help="So many processes: short for --on processes:N."),
]
On = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="Where trials run: here, processes:N, ray, slurm, or a place of another package; "
        "default one process a core where that is faster.",
        autocompletion=places,
    ),
]
# Exit status of a result in which something failed: walks that a server failed, or every trial.
INCOMPLETE = 3


# Typer would have the type annotated with its option, which takes four lines where this takes one.
def option(
    text: str, metavar: str | None = None, *, default: Any = None, flag: str = "", **more: Any
) -> Any:
    """An option of a command, with its help, as the default of its parameter."""
    return typer.Option(default, *filter(None, [flag]), help=text, metavar=metavar, **more)


def argument(text: str, metavar: str, *, default: Any = ..., **more: Any) -> Any:
    """An argument of a command, which has to be given unless it has a default."""
    return typer.Argument(default, help=text, metavar=metavar, **more)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Measure how goal-directed an agent is: towards what, and how strongly."""
    if version:
        print(f"goalmeter {goalmeter.__version__}")
        raise typer.Exit


def show(outcome: Outcome, *, as_json: bool) -> None:
    """Print a result: JSON, or its text, its tables and then the report's path."""
    if as_json:
        from goalmeter.commands.outcome import json_text

        print(json_text(outcome.json))
    else:
        from goalmeter.report.tables import print_tables, printable

        if outcome.text:
            print(f"{printable(outcome.text)}\n")
        print_tables(outcome.tables)
        if outcome.report is not None:
            print(outcome.report)  # on the last line, where a script looks for it
    if outcome.incomplete:
        tell(f"goalmeter: {outcome.incomplete}")
        raise typer.Exit(INCOMPLETE)


def tell(line: str) -> None:
    """Report progress or an error in one line, if standard error is open."""
    if sys.stderr is not None:  # print would take standard output for it
        print(message(line), file=sys.stderr, flush=True)


# --- Errors ---------------------------------------------------------------------------------------
# An error that nobody foresaw is a fault of goalmeter's own. Whoever meets it is told so in one
# line, with what it is and the file that keeps the traceback, which a report of it needs.
# GOALMETER_TRACEBACK=1 prints the traceback too.

SHOW = "GOALMETER_TRACEBACK"


def is_usage_error(error: Exception) -> bool:
    """Whether an error is one of click's: it has a message and an exit status of its own."""
    # Newer versions of Typer carry a copy of click with them and older ones import click, so the
    # errors are known by what they can do and not by their class.
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def print_usage_error(error: Any) -> int:
    """Print the usage of the command and what is wrong; returns the exit status."""
    context = getattr(error, "ctx", None)
    lines = []
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its help is all
        lines.append(visible(error.format_message(), lines=True))
    else:
        if context is not None:
            asks = f"Try '{context.command_path} --help' for help."
            lines += [visible(text, lines=True) for text in (context.get_usage(), asks, "")]
        lines.append(message(f"Error: {' '.join(error.format_message().split())}"))
    if sys.stderr is not None:
        print("\n".join(lines), file=sys.stderr, flush=True)
    return int(error.exit_code)


def report_fault(error: Exception) -> None:
    """Say in a line that goalmeter failed, and keep what a report of it needs."""
    kind = type(error).__name__
    if os.environ.get(SHOW):
        print(visible(_report(error), lines=True), file=sys.stderr)
    told = f"goalmeter: a fault of goalmeter's own, {kind}: {' '.join(str(error).split())[:200]}"
    path = _kept(_report(error))
    where = f"the file {path}" if path else f"what {SHOW}=1 prints before this line"
    tell(f"{told}; please report it to those who make goalmeter, with {where}")


def _report(error: Exception) -> str:
    """The command, the versions and the traceback."""
    command = shlex.join(["goalmeter", *sys.argv[1:]])
    return (
        f"goalmeter {goalmeter.__version__}, Python {platform.python_version()}, "
        f"{platform.platform()}\n{command[:2000]}\n\n{''.join(traceback.format_exception(error))}"
    )


def _kept(report: str) -> Path | None:
    """The file that a report is kept in; None where none can be written."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="goalmeter-fault-", suffix=".txt", encoding="utf-8", delete=False
        ) as file:
            file.write(encodable(report))
    except OSError:
        return None  # the fault itself may be a full disk
    return Path(file.name)
