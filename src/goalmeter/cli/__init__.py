"""The command line: parses options, runs commands of `commands` and prints their outcomes.

Results go to standard output, with --json as one JSON object; progress and errors go to standard
error. Exit status: 0; 2: invalid input; 3: a part failed; 4: a requirement is not met; 1: internal
error; 130: interrupted.
"""

from __future__ import annotations

import inspect
import os
import platform
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import goalmeter
from goalmeter import _errors, _streams
from goalmeter._errors import MOST_SEED, message, visible
from goalmeter._files import strict_json
from goalmeter._names import nearest
from goalmeter._options import REQUIRED, Option, options_in
from goalmeter.commands.declare import Command

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome

__all__ = ["app", "main"]

# 128 + the number of the signal, as shells give it; and what typer gives for a closed pipe.
INTERRUPTED, PIPE_CLOSED, UNWRITTEN, INTERNAL_ERROR, INCOMPLETE, UNMET = 130, 1, 1, 1, 3, 4
SHOW = "GOALMETER_TRACEBACK"
_EVERY = 1.0  # seconds between two looks at a run, as often as a driver writes
_CLEAR = "\x1b[H\x1b[2J"  # to the upper left of a terminal, and nothing below

# Where each command is, or the commands of a group; and its help.
MEG: dict[str, tuple[Any, str]] = {
    "mdp": (".meg:measure_mdp", "Measure the MEG of a policy or of logged trajectories."),
    "simulator": (".meg_simulator:measure_simulator", "Measure MEG of an agent in a simulator."),
    "sweep": (".meg_sweep:sweep_worlds", "Measure policies × utilities × worlds, one row each."),
    "causal": (".meg_causal:measure_causal", "Measure the MEG of variables of a causal model."),
}
COMMANDS: dict[str, tuple[Any, str]] = {
    "measure": (".measure:measure", "Evaluate one agent with every applicable measure."),
    "meg": (MEG, "Measure maximum entropy goal-directedness (MEG)."),
    "navigate": (".navigate:navigate", "Evaluate an agent in grid worlds against baseline agents."),
    "probe": (".probe:probe", "Probe what a model's activations encode and what it uses."),
    "reflect": (".reflect:reflect", "Measure the self-reflection of an agent."),
    "compare": (".card:compare", "Compare the cards of several agents."),
    "card": (".card:card", "Show, check or export the card of an agent."),
    "cite": (".card:cite", "Print the BibTeX entries of what a card used."),
    "agents": (".agents:agents", "List available agents and the measures that support each."),
    "train-organism": (".agents:train_organism", "Train a small model whose goal is known."),
    "demo": (".demo:demo", "Evaluate four small language models and compare their cards."),
    "report": (".runs:report_runs", "Write an HTML report of one or more runs."),
    "replicate": (".replicate:replicate", "Replicate a published table and compare the numbers."),
    "status": (".runs:status", "Show the progress of runs: done, failed, rate, time left."),
    "runs": (".runs:runs", "List the runs in a directory and their progress."),
}


class Commands(TyperGroup):
    """A group of commands, with a suggestion for a name that is not one of them."""

    table = COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return a command; None for an unknown name."""
        where, text = self.table.get(cmd_name, (None, ""))
        if isinstance(where, dict):
            group = Commands(name=cmd_name, help=text, no_args_is_help=True, rich_markup_mode=None)
            group.table = where
            return group
        if where is None:
            return None
        module, _, function = where.partition(":")
        found = getattr(import_module(module, "goalmeter.commands"), function)
        return _command(cmd_name, found)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names with their help, without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names; fail with a suggestion otherwise."""
        name = args[0]
        if name in self.table or name.startswith("-"):
            return super().resolve_command(ctx, args)
        hint = "The measures are meg, reflect, navigate and probe; --help lists all commands."
        if set(name) & set("/.:(") or Path(name).exists():
            hint = f"A command comes first, such as goalmeter report or navigate {name}."
        elif near := nearest(name, self.table):
            hint = f"Did you mean '{near}'?"
        ctx.fail(f"No such command '{name}'. {hint}")


class GroupedCommand(TyperCommand):
    """A command whose options are listed under their groups, also where there are no boxes."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options without a group, and each group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                plain = "Arguments" if param.param_type_name == "argument" else "Options"
                group = getattr(param, "rich_help_panel", None) or plain
                groups.setdefault(group, []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Measure how goal-directed an agent is: towards what, and how strongly."""
    if version:
        print(f"goalmeter {goalmeter.__version__}")
        raise typer.Exit


# --- Commands of records --------------------------------------------------------------------------
_JSON = Option("One JSON object on standard output.", flag="--json", kind=bool, default=False)
_SEED = Option("", flag="--seed", kind=int, least=0, most=MOST_SEED, default=0)


def _command(name: str, command: Command[Any]) -> Any:
    """Return the command of the command line whose options are the fields of a record."""
    options = options_in(command.record)
    text = inspect.cleandoc(command.function.__doc__ or "")
    parameters = [_parameter(*item) for item in options.items()]
    if "seed" not in options:
        # Every command accepts --seed, so that a script need not know which of them draw numbers.
        text += "\n\nNothing here is random; --seed is accepted and has no effect."
        parameters.append(_parameter("seed", _SEED, hidden=True))
    parameters.append(_parameter("json", _JSON))

    def run(*, json: bool, **typed: Any) -> None:
        read = {
            name: typed[name] if each.read is None else each.read(each.flag, typed[name])
            for name, each in options.items()
        }
        values = {name: value for name, value in read.items() if value is not None}
        try:
            outcome = command(progress=tell, **values)
            if values.get("watch"):
                outcome = follow(partial(command, **values), outcome, as_json=json)
        except KeyboardInterrupt:
            if folder := values.get("out") or values.get("run"):
                tell(f"goalmeter: {folder} keeps what is finished; the same command continues it")
            elif {"out", "run"} & options.keys():
                lost = "nothing is kept; with --out RUN the finished results would have been"
                tell(f"goalmeter: {lost}")
            raise
        show(outcome, as_json=json)
        if outcome.is_interrupted:
            raise KeyboardInterrupt
        if outcome.incomplete:
            raise typer.Exit(INCOMPLETE)
        if outcome.unmet:
            raise typer.Exit(UNMET)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=GroupedCommand, help=text)(run)
    return typer.main.get_command(single)


def _parameter(name: str, option: Option, **more: Any) -> inspect.Parameter:
    """Return an option as typer declares it; an option without a default is None if not typed."""
    kind, default = option.kind, option.default
    if (names := option.complete) is not None:
        more["autocompletion"] = lambda incomplete: [
            name for name in dict.fromkeys(names()) if name.startswith(incomplete)
        ]
    declare: Any = typer.Argument if option.is_argument else partial(typer.Option, option.flag)
    look = {"metavar": option.metavar, "rich_help_panel": option.group}
    declared = declare(help=option.help, min=option.least, max=option.most, **look, **more)
    if default is REQUIRED:
        default = inspect.Parameter.empty
    elif default is None or default == ():
        kind, default = kind | None, None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, declared]
    )


# --- Output ---------------------------------------------------------------------------------------
def show(outcome: Outcome, *, as_json: bool) -> None:
    """Print a result: JSON, or its text, its tables and then the path of the report."""
    if as_json:
        print(strict_json(outcome.json))
    else:
        from goalmeter.report.tables import print_tables

        if outcome.text:
            print(f"{visible(outcome.text, lines=True)}\n")
        print_tables(outcome.tables)
        if outcome.report is not None:
            print(outcome.report)  # on the last line, where a script looks for it
    for problem in filter(None, (outcome.incomplete, outcome.unmet)):
        tell(f"goalmeter: {problem}")


def tell(line: str) -> None:
    """Print progress or an error in one line, if standard error is open."""
    if sys.stderr is not None:  # print would take standard output for it
        print(message(line), file=sys.stderr, flush=True)


def follow(look: Callable[[], Outcome], outcome: Outcome, *, as_json: bool) -> Outcome:
    """Print the status of runs until none is running; return the last one, not yet printed."""
    in_terminal, last = sys.stdout.isatty() and not as_json, ""
    while any(run["state"] == "running" for run in outcome.json["runs"]):
        sys.stdout.write(_CLEAR * in_terminal)
        if as_json or in_terminal:
            show(outcome, as_json=as_json)
        elif outcome.text != last:  # in a file or a pipe, a line for each change
            print(visible(outcome.text, lines=True))
        sys.stdout.flush()
        last = outcome.text
        time.sleep(_EVERY)
        outcome = look()
    sys.stdout.write(_CLEAR * in_terminal)
    return outcome


# --- Errors ---------------------------------------------------------------------------------------
def main() -> None:
    """Run the command line; print an error in one line and exit with a status."""
    _streams.prepare()
    try:
        try:
            # Otherwise typer prints its errors itself, with what they quote unescaped.
            status = app(prog_name="goalmeter", standalone_mode=False)
        finally:
            sys.stdout.flush()
        sys.exit(status if isinstance(status, int) else 0)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        _streams.leave(PIPE_CLOSED)  # the reader of our output has closed it
    except _streams.UnwrittenError as error:
        tell(f"goalmeter: the result cannot be written to standard output: {error}")
        _streams.leave(UNWRITTEN)
    except Exception as error:
        sys.exit(_print_error(error))


def _print_error(error: Any) -> int:
    """Print what is wrong and return the exit status."""
    # An error of click's, of which newer versions of Typer have a copy with its own classes.
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        return _print_usage_error(error)
    words = str(error)
    if isinstance(error, _errors.IncompleteRunError):
        from goalmeter.commands.runs import how_to_continue

        words = how_to_continue(error)
    elif isinstance(error, MemoryError):
        words = f"this takes more memory than there is ({error}); use a smaller world"
    elif not isinstance(error, _errors.GoalmeterError | _errors.MissingExtraError):
        words = _report_internal_error(error)
    tell(f"goalmeter: {words}")
    return INTERNAL_ERROR if words.startswith("internal error") else 2


def _print_usage_error(error: Any) -> int:
    text = StringIO()
    error.show(text)
    if sys.stderr is not None:
        print(*map(message, text.getvalue().splitlines()), sep="\n", file=sys.stderr, flush=True)
    return int(error.exit_code)


def _report_internal_error(error: Exception) -> str:
    """Write the traceback of an unexpected error to a file; return a line about it."""
    python = f"Python {platform.python_version()}, {platform.platform()}"
    command = shlex.join(["goalmeter", *sys.argv[1:]])[:2000]
    trace = "".join(traceback.format_exception(error))
    report = f"goalmeter {goalmeter.__version__}, {python}\n{command}\n\n{trace}"
    if os.environ.get(SHOW):
        print(visible(report, lines=True), file=sys.stderr)
    where = f"what {SHOW}=1 prints before this line"
    with suppress(OSError):  # the error itself may be a full disk
        path = Path(tempfile.mkstemp(".txt", "goalmeter-error-")[1])
        path.write_text(_errors.encodable(report), encoding="utf-8")
        where = f"the file {path}"
    words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return f"internal error, {words}; please report it with {where}"
