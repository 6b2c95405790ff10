"""Errors that end a command: how it was written, and what nobody foresaw.

An error that nobody foresaw is a fault of goalmeter's own. Whoever meets it is told so in one line,
with what it is and the file that keeps the traceback, which a report of it needs.
GOALMETER_TRACEBACK=1 prints the traceback too.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import goalmeter
from goalmeter._text import encodable, message, visible
from goalmeter.cli.base import tell

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
