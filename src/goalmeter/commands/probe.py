"""`goalmeter probe`: a navigation run in, what its model reads and acts on out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from goalmeter._files import write_text
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.pages.representation.page import part_of_results
from goalmeter.report.markdown import in_markdown
from goalmeter.representation.forecast import forecast
from goalmeter.representation.measure import measure
from goalmeter.representation.result import FOLDER
from goalmeter.representation.stages.decoding import DECODERS, PARTS, POSITIONS, PROBES
from goalmeter.representation.use.trials import TRIED
from goalmeter.runs.progress import Tell

# In the folder of the probe, beside its result: all tables of its page.
TABLES = "tables.md"


def probe(
    run: str | Path,
    *,
    model: str | None = None,
    layers: Sequence[int] | None = None,
    positions: Sequence[str] | None = None,
    probes: Sequence[str] | None = None,
    parts: Sequence[str] | None = None,
    interventions: Sequence[str] | None = None,
    use_decisions: int = 120,
    draws: int = 0,
    decoders: Sequence[int] | None = None,
    seed: int = 0,
    dry_run: bool = False,
    token_rate: float | None = None,
    progress: Tell | None = None,
) -> Outcome:
    """Probe the model of a run, and keep activations, results and tables in Markdown in the run.

    Options are those of `representation.measure`; None stands for its default. A `dry_run` says
    what it all will cost, and begins nothing; see `representation.forecast` for `token_rate`.
    """
    options: dict[str, Any] = {
        "model": model,
        "layers": layers,
        "positions": positions or POSITIONS,
        "probes": probes or PROBES,
        "parts": parts or PARTS,
        "interventions": interventions or TRIED,
        "use_decisions": use_decisions,
        "draws": draws,
        "decoders": decoders or DECODERS,
        "seed": seed,
    }
    if dry_run:
        return shown([forecast(run, token_rate=token_rate, **options)])
    result = measure(run, **options, progress=progress)
    part = part_of_results([result], progress or (lambda line: None))
    tables = [table for section in part.sections for table in section.tables]
    write_text(Path(run) / FOLDER / TABLES, in_markdown(tables))
    missing = [part for part in parts or PARTS if part in result.left_out]
    incomplete = ""
    if missing:
        reasons = "; ".join(f"{name}: {result.left_out[name]}" for name in missing)
        incomplete = f"{', '.join(missing)} could not be measured ({reasons})"
    return Outcome(tables=part.tables, json=result.to_json(), incomplete=incomplete)
