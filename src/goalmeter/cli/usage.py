"""Errors in how a command is written: unknown names and options, and values that are none.

Typer carries a copy of click with it in newer versions and imports click in older ones, so its
errors are known by what they can do and not by their class.
"""

from __future__ import annotations

import sys
from typing import Any

from goalmeter._text import message, visible


def is_usage_error(error: Exception) -> bool:
    """Whether an error is one of click's: it has a message and an exit status of its own."""
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
