"""`goalmeter probe`: what a language model's activations encode and what it uses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._files import write_text
from goalmeter._options import given, optional
from goalmeter.commands.declare import DryRunOptions, Tell, argument, command, option
from goalmeter.commands.outcome import Outcome, planned
from goalmeter.pages.representation import part_of_results
from goalmeter.report.tables import in_markdown
from goalmeter.representation.measure import forecast, measure
from goalmeter.representation.result import FOLDER
from goalmeter.representation.stages import PARTS, ProbeOptions

TABLES = "tables.md"  # in the folder of the probe: all tables of its page


@dataclass(frozen=True, kw_only=True)
class _ProbeCommandOptions(optional(ProbeOptions), DryRunOptions):  # type: ignore[misc]
    run: Path = argument("RUN  Navigation run of a language model that ran here.")
    model: str | None = option("NAME  Default the model of the run, or a copy of it.")
    token_rate: float | None = option(
        "With --dry-run: tokens that the model reads a second.", least=1e-3, most=1e12
    )


@command(_ProbeCommandOptions)
def probe(o: _ProbeCommandOptions, tell: Tell) -> Outcome:
    """Probe what a model's activations encode and what it uses.

    Activations and results are stored in the folder "probe" of the run; the same command resumes
    where it was interrupted, and `goalmeter report RUN` shows them. The exit status is 3 if a part
    could not be measured.
    """
    options: dict[str, Any] = {"model": o.model} | given(o, ProbeOptions)
    if o.dry_run:
        return planned(forecast(o.run, token_rate=o.token_rate, **options))
    result = measure(o.run, **options, progress=tell)
    part = part_of_results([result], tell)
    tables = [table for section in part.sections for table in section.tables]
    write_text(Path(o.run) / FOLDER / TABLES, in_markdown(tables))
    incomplete = ""
    if missing := [part for part in o.parts or PARTS if part in result.left_out]:
        reasons = "; ".join(f"{name}: {result.left_out[name]}" for name in missing)
        incomplete = f"{', '.join(missing)} could not be measured ({reasons})"
    return Outcome(tables=part.tables, json=result.to_json(), incomplete=incomplete)
