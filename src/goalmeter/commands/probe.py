"""`goalmeter probe`: what a language model's activations encode and what it uses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from goalmeter._files import write_text
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.options import DryRunOptions, SeedOptions
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.pages.representation.page import part_of_results
from goalmeter.report.markdown import in_markdown
from goalmeter.representation.measure import forecast, measure
from goalmeter.representation.options import PARTS, ProbeOptions
from goalmeter.representation.result import FOLDER

# In the folder of the probe, beside its result: all tables of its page.
TABLES = "tables.md"


@dataclass(frozen=True, kw_only=True)
class ProbeCommandOptions(DryRunOptions, SeedOptions):
    """Options of `goalmeter probe`; None stands for the default of `representation.measure`."""

    run: Path = argument("Navigation run of a language model that ran on this machine.", "RUN")
    model: str | None = option(
        "Whose activations; default the model of the run, or a copy of it.", "NAME"
    )
    layers: Sequence[int] | None = option(
        "Blocks; default all of up to eight, otherwise at a third, two thirds and the end.",
        "K,...",
        commas=True,
    )
    positions: Sequence[str] | None = option(
        "Tokens by their names; default pre/end,post/end.", "NAME,...", commas=True
    )
    probes: Sequence[str] | None = option(
        "ridge, logistic, bilinear, mlp or those of the paper; default ridge.",
        "NAME,...",
        commas=True,
    )
    parts: Sequence[str] | None = option("maps, use, plan; default all.", "PART,...", commas=True)
    interventions: Sequence[str] | None = option(
        "knock-out, patch, windows, write, ablate, open; default all but windows.",
        "KIND,...",
        commas=True,
    )
    use_decisions: int = option(
        "Maximum number of decisions whose prompts are repeated with a changed cell.",
        default=120,
        least=4,
        most=100_000,
    )
    draws: int = option(
        "Answers for each of them, to measure the effect in nats; 0 for none.",
        default=0,
        least=0,
        most=1000,
    )
    decoders: Sequence[int] | None = option(
        "Layers of the transformers that read plans; default 2.", "K,...", commas=True
    )
    token_rate: float | None = option(
        "With --dry-run: tokens that the model reads a second, instead of measuring it.",
        least=1e-3,
        most=1e12,
    )


@command(ProbeCommandOptions)
def probe(o: ProbeCommandOptions, tell: Tell) -> Outcome:
    """Probe what a model's activations encode and what it uses.

    Activations and results are stored in the folder "probe" of the run; the same command resumes
    where it was interrupted, and `goalmeter report RUN` shows them. The exit status is 3 if a part
    could not be measured.
    """
    names = ["model", *(each.name for each in fields(ProbeOptions))]
    options: dict[str, Any] = {name: getattr(o, name) for name in names}
    if o.dry_run:
        return shown([forecast(o.run, token_rate=o.token_rate, **options)])
    result = measure(o.run, **options, progress=tell)
    part = part_of_results([result], tell)
    tables = [table for section in part.sections for table in section.tables]
    write_text(Path(o.run) / FOLDER / TABLES, in_markdown(tables))
    incomplete = ""
    if missing := [part for part in o.parts or PARTS if part in result.left_out]:
        reasons = "; ".join(f"{name}: {result.left_out[name]}" for name in missing)
        incomplete = f"{', '.join(missing)} could not be measured ({reasons})"
    return Outcome(tables=part.tables, json=result.to_json(), incomplete=incomplete)
