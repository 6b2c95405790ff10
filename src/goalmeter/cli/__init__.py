"""The command line: parses options, runs commands of `commands` and prints their outcomes.

Results go to standard output, as tables, or with --json as one JSON object and nothing else.
Progress and errors go to standard error. Exit status: 0; 2 for invalid input; 3 for a result in
which something failed; 1 for a result that could not be written, or an internal error; 130 after
Ctrl-C.
"""

from __future__ import annotations

import sys

from goalmeter import _streams
from goalmeter._errors import GoalmeterError, IncompleteRunError, MissingExtraError
from goalmeter.cli.application import app, print_usage_error, report_internal_error, tell

__all__ = ["app", "main"]

# 128 + the number of the signal, as shells give it; and what typer gives for a closed pipe.
INTERRUPTED, PIPE_CLOSED, UNWRITTEN, INTERNAL_ERROR = 130, 1, 1, 1


def main() -> None:
    """Run the command line; print an error in one line and exit with a status."""
    _streams.prepare()
    try:
        try:
            # Otherwise typer prints its errors itself, with what they quote unescaped.
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
        _streams.leave(PIPE_CLOSED)  # the reader of our output has closed it
    except _streams.UnwrittenError as error:
        tell(f"goalmeter: the result cannot be written to standard output: {error}")
        _streams.leave(UNWRITTEN)
    except Exception as error:
        # An error of click's, of which newer versions of Typer have a copy with its own classes.
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            sys.exit(print_usage_error(error))
        report_internal_error(error)
        sys.exit(INTERNAL_ERROR)
    sys.exit(status if isinstance(status, int) else 0)
