"""The demo: the embedded agents measured, and one page written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from goalmeter.commands.declare import RunOptions, SeedOptions, Tell, command, option

if TYPE_CHECKING:
    from goalmeter.commands.outcome import Outcome


@dataclass(frozen=True, kw_only=True)
class _DemoOptions(RunOptions, SeedOptions):
    out: Path = option(
        "Folder for the report; an existing one is resumed.", default=Path("goalmeter-demo")
    )


@command(_DemoOptions)
def demo(o: _DemoOptions, tell: Tell) -> Outcome:
    """Measure four small language models and write a report.

    The last line of the output is the path of report.html.
    """
    run = import_module("goalmeter.demo.run")
    make = run.dry_run if o.dry_run else partial(run.demo, progress=tell)
    outcome: Outcome = make(o.out, seed=o.seed, on=o.place())
    return outcome
