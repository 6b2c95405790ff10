"""Output of commands: outcomes, progress, and errors."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import goalmeter
from goalmeter._errors import encodable, message, visible

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome

INCOMPLETE = 3  # exit status of a result in which something failed
SHOW = "GOALMETER_TRACEBACK"
_EVERY = 1.0  # seconds between two looks at a run, as often as a driver writes
_CLEAR = "\x1b[H\x1b[2J"  # to the upper left of a terminal, and nothing below


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


# --- Errors ---------------------------------------------------------------------------------------
def is_usage_error(error: Exception) -> bool:
    """Return whether an error is one of click's, with a message and an exit status."""
    # Newer versions of Typer contain a copy of click and older ones import it, so that there is no
    # single class of errors.
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


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
    words = " ".join(str(error).split())[:200]
    tell(
        f"goalmeter: internal error, {type(error).__name__}: {words}; please report it with {where}"
    )
