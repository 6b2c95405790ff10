"""`goalmeter replicate` and `goalmeter demo`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._files import check_writable
from goalmeter._names import did_you_mean
from goalmeter.commands.declare import (
    DryRunOptions,
    PlaceOptions,
    SeedOptions,
    Tell,
    argument,
    command,
    option,
)
from goalmeter.commands.outcome import Outcome, shown

# Modules of the demo and of each replication, with `replicate(out, *, seeds, seed, on, progress)`
# and `forecasts`, the same without the progress; with options of its own after these.
DEMO = "goalmeter.experiments.demo.run"
REPLICATIONS = {
    "meg-cliffworld": "goalmeter.experiments.meg_cliffworld.study",
    "reflection-table-1": "goalmeter.experiments.reflection_table_1.study",
    "tempting-button": "goalmeter.experiments.tempting_button.study",
    "lm-navigation": "goalmeter.experiments.lm_navigation.study",
    "organisms": "goalmeter.experiments.organisms.study",
    "organism-use": "goalmeter.experiments.organism_use.study",
    "lm-representation": "goalmeter.experiments.lm_representation.study",
    "calibration": "goalmeter.experiments.calibration.study",
    "goal-misgeneralisation": "goalmeter.experiments.goal_misgeneralisation.study",
}


# Upper limits of repetitions and of the length of a trial: more would take weeks.
MOST_SEEDS, MOST_STEPS = 10_000, 10_000_000


@dataclass(frozen=True, kw_only=True)
class ReplicateOptions(PlaceOptions, DryRunOptions, SeedOptions):
    """Options of `goalmeter replicate`."""

    name: str = argument(str, f"{', '.join(REPLICATIONS)}.", "NAME", complete="replications")
    out: Path | None = option(Path, "Output folder; default runs/NAME.")
    seeds: int | None = option(
        int, "Number of seeds; default as in the experiment.", least=0, most=MOST_SEEDS
    )
    agents: str | None = option(
        str,
        "Rows of reflection-table-1; or names, with commas between them.",
        "scripted|neural|all",
    )
    steps: int | None = option(
        int, "Length of the trials, where it can be chosen.", least=1, most=MOST_STEPS
    )
    run: Sequence[Path] | None = option(
        list[Path], "A run to show in lm-navigation; repeat for more.", "RUN"
    )


@command(ReplicateOptions)
def replicate(o: ReplicateOptions, tell: Tell) -> Outcome:
    """Replicate a published table and compare the numbers.

    The last line of the output is the path of report.html.
    """
    own = {"agents": o.agents, "steps": o.steps, "run": o.run}
    options: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    run = replication(o.name, options)
    options |= {"seeds": o.seeds, "seed": o.seed, "on": o.place()}
    folder = Path("runs") / o.name if o.out is None else Path(o.out)
    if o.dry_run:
        return shown(import_module(run.__module__).forecasts(folder, **options))
    check_writable(folder / "report.html")
    outcome: Outcome = run(folder, progress=tell, **options)
    return outcome


def replication(name: str, options: Iterable[str] = ()) -> Any:
    """Return the function of a replication; raise an error if it lacks one of some options."""
    if name not in REPLICATIONS:
        raise InvalidParameterError(
            f"{name!r} is not a known replication, expected one of: {', '.join(REPLICATIONS)}"
            f"{did_you_mean(name, REPLICATIONS, quoted=True)}"
        )
    function = import_module(REPLICATIONS[name]).replicate
    # Options are one list on the command line, and each experiment has some of them.
    for given in options:
        if given not in signature(function).parameters:
            raise InvalidParameterError(f"{name} has no option --{given}; leave it out")
    return function


@dataclass(frozen=True, kw_only=True)
class DemoOptions(PlaceOptions, DryRunOptions, SeedOptions):
    """Options of `goalmeter demo`."""

    out: Path = option(
        Path, "Folder for the report; an existing one is resumed.", default=Path("goalmeter-demo")
    )


@command(DemoOptions)
def demo(o: DemoOptions, tell: Tell) -> Outcome:
    """Measure four small language models and write a report.

    The last line of the output is the path of report.html.
    """
    run = import_module(DEMO)
    if o.dry_run:
        outcome: Outcome = run.dry_run(o.out, seed=o.seed, on=o.place())
    else:
        outcome = run.demo(o.out, seed=o.seed, on=o.place(), progress=tell)
    return outcome
