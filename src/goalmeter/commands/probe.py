"""`goalmeter probe`: what a language model's activations encode and what it uses."""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from goalmeter._files import write_text
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.options import DryRunOptions, SeedOptions
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.pages.representation import part_of_results
from goalmeter.report.tables import in_markdown
from goalmeter.representation.measure import forecast, measure
from goalmeter.representation.result import FOLDER
from goalmeter.representation.stages import PARTS, ProbeOptions

# In the folder of the probe, beside its result: all tables of its page.
TABLES = "tables.md"


def _declared() -> list[tuple[str, Any, Any]]:
    """Return the fields of the command: those of `ProbeOptions`, lists with commas, and its own."""
    run = argument("Navigation run of a language model that ran on this machine.", "RUN")
    model = option("Whose activations; default the model of the run, or a copy of it.", "NAME")
    rate = option(
        "With --dry-run: tokens that the model reads a second, not measured.", least=1e-3, most=1e12
    )
    declared = [("run", Path, run), ("model", str | None, model)]
    kinds = get_type_hints(ProbeOptions)
    for each in fields(ProbeOptions):
        text, values, bounds = each.metadata.values()
        # None stands for the default of a list.
        default = each.default if values is None else None
        made = option(text, values, default=default, commas=values is not None, **bounds)
        if each.name != "seed":
            declared.append((each.name, kinds[each.name], made))
    return [*declared, ("token_rate", float | None, rate)]


CommandOptions: Any = make_dataclass(
    "CommandOptions", _declared(), bases=(DryRunOptions, SeedOptions), frozen=True, kw_only=True
)


@command(CommandOptions)
def probe(o: Any, tell: Tell) -> Outcome:
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
