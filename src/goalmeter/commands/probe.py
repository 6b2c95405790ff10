"""`goalmeter probe`: probe the model of a navigation run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from goalmeter._files import write_text
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.pages.representation.page import part_of_results
from goalmeter.report.markdown import in_markdown
from goalmeter.representation.measure import forecast, measure
from goalmeter.representation.options import ProbeOptions
from goalmeter.representation.result import FOLDER
from goalmeter.runs.progress import Tell

# In the folder of the probe: all tables of its page.
TABLES = "tables.md"


def probe(
    run: str | Path,
    *,
    model: str | None = None,
    dry_run: bool = False,
    token_rate: float | None = None,
    progress: Tell | None = None,
    **options: Any,
) -> Outcome:
    """Probe the model of a run, and store activations, results and tables in Markdown in the run.

    Options are the fields of `ProbeOptions`; None stands for the default. With `dry_run` nothing is
    begun, and the outcome is a forecast; see `measure.forecast` for `token_rate`.
    """
    if dry_run:
        return shown([forecast(run, model=model, token_rate=token_rate, **options)])
    result = measure(run, model=model, progress=progress, **options)
    part = part_of_results([result], progress or (lambda line: None))
    tables = [table for section in part.sections for table in section.tables]
    write_text(Path(run) / FOLDER / TABLES, in_markdown(tables))
    missing = [part for part in ProbeOptions.of(options).parts if part in result.left_out]
    incomplete = ""
    if missing:
        reasons = "; ".join(f"{name}: {result.left_out[name]}" for name in missing)
        incomplete = f"{', '.join(missing)} could not be measured ({reasons})"
    return Outcome(tables=part.tables, json=result.to_json(), incomplete=incomplete)
