"""The command line. It reads options and prints; what a command does is in `commands`.

Results go to standard output, as tables, or with --json as one JSON object and nothing else.
Progress and errors go to standard error. Exit status: 0; 2 for anything the user can mend; 3 for a
result in which something failed, walks that a model's server failed or every trial of an agent; 1
for a result that could not be written, or a fault of goalmeter's own; 130 after Ctrl-C.
"""

from __future__ import annotations

import sys

from goalmeter._errors import GoalmeterError, IncompleteRunError, MissingExtraError

# Each file adds its commands to the application.
from goalmeter.cli import instruments, management, meg
from goalmeter.cli.base import app, is_usage_error, print_usage_error, report_fault, tell
from goalmeter.runs import progress

__all__ = ["app", "instruments", "main", "management", "meg"]

# 128 + the number of the signal, as shells give it; and what typer gives for a closed pipe.
INTERRUPTED, PIPE_CLOSED = 130, 1
UNWRITTEN = 1
FAULT = 1


def main() -> None:
    """The entry point: runs the command and turns errors into one line and a status."""
    progress.prepare()
    try:
        try:
            # Otherwise typer prints its errors itself, and what they quote as it is.
            status = app(prog_name="goalmeter", standalone_mode=False)
        finally:
            sys.stdout.flush()
    except IncompleteRunError as error:
        from goalmeter.commands.runs import how_to_continue

        tell(f"goalmeter: {how_to_continue(error)}")
        sys.exit(2)
    except (GoalmeterError, MissingExtraError) as error:
        tell(f"goalmeter: {error}")
        sys.exit(2)
    except MemoryError as error:
        tell(f"goalmeter: this takes more memory than there is ({error}); use a smaller world")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        progress.leave(PIPE_CLOSED)  # whoever read our output has closed it
    except progress.UnwrittenError as error:
        tell(f"goalmeter: the result cannot be written to standard output: {error}")
        progress.leave(UNWRITTEN)
    except Exception as error:
        if is_usage_error(error):
            sys.exit(print_usage_error(error))
        report_fault(error)
        sys.exit(FAULT)
    sys.exit(status if isinstance(status, int) else 0)
