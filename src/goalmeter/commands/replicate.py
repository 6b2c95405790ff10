"""`goalmeter replicate` and `goalmeter demo`.

The module of a study has `replicate(out, options)`, which returns an `Outcome`, `planned(options)`,
which says how much of what it will do, and perhaps `OPTIONS`, the names of options of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import goalmeter
from goalmeter._errors import InvalidParameterError
from goalmeter._files import check_writable
from goalmeter._names import unknown_name
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.options import PlaceOptions, SeedOptions, Steps
from goalmeter.commands.outcome import Outcome
from goalmeter.pages import Texts
from goalmeter.runs import HERE

__all__ = ["REPLICATIONS", "StudyOptions", "demo", "find_replications", "replicate"]

REPLICATIONS = {  # name on the command line -> folder
    "meg-cliffworld": "cliffworld",
    "reflection-table-1": "reflection_table",
    "tempting-button": "tempting_button",
    "lm-navigation": "lm_navigation",
    "organisms": "organisms",
    "organism-use": "organism_use",
    "lm-representation": "lm_representation",
    "calibration": "calibration",
    "goal-misgeneralisation": "goal_misgeneralisation",
}
VARIABLE, DEMO = "GOALMETER_REPLICATIONS", "goalmeter.demo.run"


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Options of a study."""

    seeds: int | None = None  # number of seeds; None for the study's default
    seed: int = 0  # the first seed
    on: str = HERE  # where trials run
    progress: Callable[[str], None] | None = None  # callback for progress messages
    # Of studies in which they can be chosen: names with commas between them, length of the trials,
    # and run directories to show.
    agents: str | None = None
    steps: int | None = None
    run: Sequence[str | Path] = ()

    def count(self, default: int, *, least: int, most: int = 10_000) -> int:
        """Return the number of seeds, if there can be so many."""
        count = default if self.seeds is None else self.seeds
        if not least <= count <= most:
            raise InvalidParameterError(f"seeds is {count}, expected at least {least}")
        return count

    def command(self, name: str) -> str:
        """Return the command of a study with these options, for the foot of its page."""
        given = {name: getattr(self, name) for name in ("agents", "seeds", "steps", "seed")}
        options = [f" --{name} {value}" for name, value in given.items() if value is not None]
        return f"goalmeter replicate {name}{''.join(options)}"


@dataclass(frozen=True, kw_only=True)
class ReplicateOptions(PlaceOptions, SeedOptions):
    """Options of `goalmeter replicate`."""

    name: str = argument(f"NAME  {', '.join(REPLICATIONS)}.", complete="replications")
    out: Path | None = option("Output folder; default runs/NAME.")
    seeds: int | None = option("Number of seeds; default as in the study.", least=0, most=10_000)
    agents: str | None = option(
        "scripted|neural|all  Rows of reflection-table-1; or names, with commas between them."
    )
    steps: Steps | None = option("Length of the trials, where it can be chosen.")
    run: Sequence[Path] | None = option("RUN  A run to show in lm-navigation; repeat for more.")


@command(ReplicateOptions)
def replicate(o: ReplicateOptions, tell: Tell) -> Outcome:
    """Replicate a published table and compare the numbers.

    The last line of the output is the path of report.html.
    """
    if o.name not in REPLICATIONS:
        raise unknown_name(o.name, [*REPLICATIONS], "the replication")
    find_replications(o.name)
    module = import_module(f"replications.{REPLICATIONS[o.name]}.study")
    own = {"agents": o.agents, "steps": o.steps, "run": o.run}
    chosen: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    # Options are one list on the command line, and each study has some of them.
    for given in chosen:
        if given not in getattr(module, "OPTIONS", ()):
            raise InvalidParameterError(f"{o.name} has no option --{given}; leave it out")
    options = StudyOptions(seeds=o.seeds, seed=o.seed, on=o.place(), progress=tell, **chosen)
    if o.dry_run:
        counts: dict[str, int] = module.planned(options)
        table = Texts("commands").table("planned", counts.items(), name=o.name)
        return Outcome(tables=(table,), json={"replication": o.name, "planned": counts})
    folder = Path("runs") / o.name if o.out is None else Path(o.out)
    check_writable(folder / "report.html")
    outcome: Outcome = module.replicate(folder, options)
    return outcome


def find_replications(name: str) -> None:
    """Make `replications` importable, here and in worker processes."""
    folder = Path(os.environ.get(VARIABLE) or Path(goalmeter.__file__).parents[2] / "replications")
    if folder.name != "replications" or not (folder / "__init__.py").is_file():
        raise InvalidParameterError(
            f"{name}: the studies are not part of the installed package; check out goalmeter's "
            f"repository and set {VARIABLE} to its folder replications (now {folder})"
        )
    if str(folder.parent) not in sys.path:
        sys.path.append(str(folder.parent))  # which worker processes inherit


@dataclass(frozen=True, kw_only=True)
class DemoOptions(PlaceOptions, SeedOptions):
    """Options of `goalmeter demo`."""

    out: Path = option(
        "Folder for the report; an existing one is resumed.", default=Path("goalmeter-demo")
    )


@command(DemoOptions)
def demo(o: DemoOptions, tell: Tell) -> Outcome:
    """Measure four small language models and write a report.

    The last line of the output is the path of report.html.
    """
    run = import_module(DEMO)
    make = run.dry_run if o.dry_run else partial(run.demo, progress=tell)
    outcome: Outcome = make(o.out, seed=o.seed, on=o.place())
    return outcome
