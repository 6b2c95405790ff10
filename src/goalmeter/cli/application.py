"""The application: its commands, each imported when it is used, their options and output."""

from __future__ import annotations

import inspect
import os
import platform
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import goalmeter
from goalmeter._errors import MOST_SEED, encodable, message, visible
from goalmeter._names import nearest
from goalmeter._options import REQUIRED, Option, options_in
from goalmeter.commands.declare import Command, InterruptedCommand

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome

_Table = Mapping[str, tuple[str, str]]  # where each command is, and its help
MEG: _Table = {
    "mdp": ("meg:measure_mdp", "Measure the MEG of a policy or of logged trajectories."),
    "simulator": ("meg_simulator:measure_simulator", "Measure the MEG of an agent in a simulator."),
    "sweep": ("meg_sweep:sweep_worlds", "Measure policies × utilities × worlds, one row each."),
    "causal": ("meg_causal:measure_causal", "Measure the MEG of variables of a causal model."),
}
COMMANDS: _Table = {
    "meg": ("", "Measure maximum entropy goal-directedness (MEG)."),
    "navigate": ("navigate:navigate", "Evaluate an agent in grid worlds against baseline agents."),
    "probe": ("probe:probe", "Probe what a model's activations encode and what it uses."),
    "reflect": ("reflect:reflect", "Measure the self-reflection of an agent."),
    "agents": ("agents:agents", "List available agents and the measures that support each."),
    "train-organism": ("agents:train_organism", "Train a small model whose goal is known."),
    "demo": ("replicate:demo", "Measure four small language models and write a report."),
    "report": ("runs:report_runs", "Write an HTML report of one or more runs."),
    "replicate": ("replicate:replicate", "Replicate a published table and compare the numbers."),
    "status": ("runs:status", "Show the progress of runs: done, failed, rate, time left."),
    "runs": ("runs:runs", "List the runs in a directory and their progress."),
}
INCOMPLETE = 3  # exit status of a result in which something failed
SHOW = "GOALMETER_TRACEBACK"
_EVERY = 1.0  # seconds between two looks at a run, as often as a driver writes
_CLEAR = "\x1b[H\x1b[2J"  # to the upper left of a terminal, and nothing below


class Commands(TyperGroup):
    """A group of commands, with a suggestion for a name that is not one of them."""

    table = COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the help."""
        return list(self.table)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, which is imported now; None if there is none of this name."""
        if cmd_name not in self.table:
            return None
        where, text = self.table[cmd_name]
        if not where:
            return typer.main.get_command(_group(MegCommands, text))
        module, _, function = where.partition(":")
        found = getattr(import_module(f"goalmeter.commands.{module}"), function)
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
        if set(name) & set("/.:(") or Path(name).exists():
            hint = (
                f"A command comes first: `goalmeter report {name}` for a run, "
                f"`goalmeter navigate {name}` for an agent."
            )
        elif (near := nearest(name, self.table)) is not None:
            hint = f"Did you mean '{near}'?"
        else:
            measures = "meg, reflect, navigate and probe"
            hint = f"The measures are {measures}; `goalmeter --help` lists all commands."
        ctx.fail(f"No such command '{name}'. {hint}")


class MegCommands(Commands):
    """The commands of `goalmeter meg`."""

    table = MEG


class GroupedCommand(TyperCommand):
    """A command whose options are listed under their groups, also where there are no boxes."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options without a group, and each group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                plain = "Arguments" if param.param_type_name == "argument" else "Options"
                group = getattr(param, "rich_help_panel", None) or plain
                groups.setdefault(group, []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


def _group(cls: type[Commands], text: str, **settings: Any) -> typer.Typer:
    group = typer.Typer(cls=cls, help=text, no_args_is_help=True, rich_markup_mode=None, **settings)
    group.callback()(lambda: None)
    return group


app = _group(
    Commands,
    "Measure how goal-directed an agent is: towards what, and how strongly.",
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
    options = dict(options_in(command.record))
    text = inspect.cleandoc(command.function.__doc__ or "")
    parameters = [_parameter(*item) for item in options.items()]
    if "seed" not in options:
        # Every command accepts --seed, so that a script need not know which of them draw numbers.
        text += "\n\nNothing here is random; --seed is accepted and has no effect."
        parameters.append(_parameter("seed", _SEED, hidden=True))
    parameters.append(_parameter("json", _JSON))

    def run(**typed: Any) -> None:
        values: dict[str, Any] = {}
        for field, declared in options.items():
            value = typed[field]
            if declared.read is not None:
                value = declared.read(declared.flag, value)
            if value is not None:
                values[field] = value
        as_json = typed["json"]
        try:
            outcome = command(progress=tell, **values)
            if values.get("watch"):
                outcome = follow(partial(command, **values), outcome, as_json=as_json)
        except InterruptedCommand as so_far:
            show(so_far.outcome, as_json=as_json)
            tell(f"goalmeter: {so_far}")
            raise
        except KeyboardInterrupt:
            if {"out", "run"} & options.keys():
                folder = values.get("out") or values.get("run")
                lost = "nothing is kept; with --out RUN the finished results would have been"
                kept = f"{folder} keeps what is finished; the same command continues it"
                tell(f"goalmeter: {lost if folder is None else kept}")
            raise
        show(outcome, as_json=as_json)
        if outcome.incomplete:
            raise typer.Exit(INCOMPLETE)

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
    declare = typer.Argument if option.is_argument else partial(typer.Option, option.flag)
    declared = declare(
        help=option.help,
        metavar=option.metavar,
        min=option.least,
        max=option.most,
        rich_help_panel=option.group,
        **more,
    )
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
        from goalmeter.commands.outcome import json_text

        print(json_text(outcome.json))
    else:
        from goalmeter.report.tables import print_tables

        if outcome.text:
            print(f"{visible(outcome.text, lines=True)}\n")
        print_tables(outcome.tables)
        if outcome.report is not None:
            print(outcome.report)  # on the last line, where a script looks for it
    if outcome.incomplete:
        tell(f"goalmeter: {outcome.incomplete}")


def tell(line: str) -> None:
    """Print progress or an error in one line, if standard error is open."""
    if sys.stderr is not None:  # print would take standard output for it
        print(message(line), file=sys.stderr, flush=True)


def follow(look: Callable[[], Outcome], outcome: Outcome, *, as_json: bool) -> Outcome:
    """Print the status of runs until none is running; return the last one, not yet printed."""
    in_terminal = sys.stdout.isatty() and not as_json
    last = ""
    while any(run["state"] == "running" for run in outcome.json["runs"]):
        if as_json or in_terminal:
            sys.stdout.write(_CLEAR * in_terminal)
            show(outcome, as_json=as_json)
        elif outcome.text != last:  # in a file or a pipe, a line for each change
            print(visible(outcome.text, lines=True))
        sys.stdout.flush()
        last = outcome.text
        time.sleep(_EVERY)
        outcome = look()
    sys.stdout.write(_CLEAR * in_terminal)
    return outcome


def print_usage_error(error: Any) -> int:
    """Print the usage of the command and what is wrong; return the exit status."""
    text = message(f"Error: {' '.join(error.format_message().split())}")
    if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its help is all
        text = visible(error.format_message(), lines=True)
    elif (context := getattr(error, "ctx", None)) is not None:
        asks = f"Try '{context.command_path} --help' for help."
        text = f"{visible(context.get_usage(), lines=True)}\n{visible(asks)}\n\n{text}"
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)
    return int(error.exit_code)


def report_internal_error(error: Exception) -> None:
    """Print an unexpected error in one line, and write its traceback to a file."""
    command = shlex.join(["goalmeter", *sys.argv[1:]])
    report = (
        f"goalmeter {goalmeter.__version__}, Python {platform.python_version()}, "
        f"{platform.platform()}\n{command[:2000]}\n\n{''.join(traceback.format_exception(error))}"
    )
    if os.environ.get(SHOW):
        print(visible(report, lines=True), file=sys.stderr)
    where = f"what {SHOW}=1 prints before this line"
    with suppress(OSError):  # the error itself may be a full disk
        handle, path = tempfile.mkstemp(".txt", "goalmeter-error-")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(encodable(report))
        where = f"the file {path}"
    words = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    tell(f"goalmeter: internal error, {words}; please report it with {where}")
