"""The last resort: an error that nobody foresaw is one line, and the rest is kept in a file.

Such an error is a fault of goalmeter's own. Whoever meets it is told so, what it is, and where the
traceback is that a report of it needs. GOALMETER_TRACEBACK=1 prints the traceback instead.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
import tempfile
import traceback
from pathlib import Path

import goalmeter
from goalmeter._text import encodable, visible
from goalmeter.cli.base import tell

SHOW = "GOALMETER_TRACEBACK"


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
        return None
    return Path(file.name)
