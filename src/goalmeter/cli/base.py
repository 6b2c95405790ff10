"""What all commands share: the application, common options, and how results are printed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

import goalmeter
from goalmeter._arguments import MOST_SEED, MOST_WORKERS
from goalmeter._names import nearest
from goalmeter._text import message
from goalmeter.cli import completion

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome

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
        autocompletion=completion.places,
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
        from goalmeter.report.terminal import print_tables, printable

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
