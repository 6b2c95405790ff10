"""`goalmeter replicate`.

A study module has `replicate(out, options)`, which returns an `Outcome`, `planned(options)`, its
forecast, and optionally `OPTIONS`, the names of its own options.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import goalmeter
from goalmeter._errors import MOST_SEED, InvalidParameterError, whole
from goalmeter._files import check_writable
from goalmeter._names import unknown_name
from goalmeter._options import given, optional, words
from goalmeter.commands.declare import RunOptions, Tell, argument, command, option
from goalmeter.commands.outcome import Outcome
from goalmeter.pages import Texts
from goalmeter.runs import HERE

__all__ = ["REPLICATIONS", "StudyOptions", "find_replications", "replicate"]

_ALIKE = (
    *("tempting-button", "lm-navigation", "organisms", "organism-use", "lm-representation"),
    "published-walks",
)
REPLICATIONS = {  # name on the command line -> folder
    "meg-cliffworld": "cliffworld",
    "reflection-table-1": "reflection_table",
    **{name: name.replace("-", "_") for name in (*_ALIKE, "calibration", "goal-misgeneralisation")},
}
VARIABLE = "GOALMETER_REPLICATIONS"


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Options of a study."""

    seeds: int | None = option("Number of seeds; default as in the study.", least=0, most=10_000)
    seed: int = option("The first seed.", default=0, least=0, most=MOST_SEED)
    on: str = HERE  # where trials run
    progress: Callable[[str], None] | None = None  # callback for progress messages
    # Of studies in which they can be chosen.
    agents: str | None = option(
        "scripted|neural|all  Rows of reflection-table-1; or names, with commas between them."
    )
    steps: int | None = option("Length of the trials.", least=1, most=10_000_000)
    data: Path | None = option("FOLDER  Published files, for published-walks.")
    run: Sequence[str | Path] = option(
        "RUN  A run to show in lm-navigation; repeat for more.", default=(), kind=list[Path]
    )

    def count(self, default: int, *, least: int, most: int = 10_000) -> int:
        """Return the number of seeds, if there can be so many."""
        return whole(default if self.seeds is None else self.seeds, "seeds", least=least, most=most)

    def command(self, name: str) -> str:
        """Return the command of a study with these options, for the foot of its page."""
        names = ("agents", "data", "seeds", "steps", "seed")
        values = {n: value for n in names if (value := getattr(self, n)) is not None}
        return " ".join(["goalmeter replicate", name, *words(StudyOptions, values)])


@dataclass(frozen=True, kw_only=True)
class _ReplicateOptions(optional(StudyOptions), RunOptions):  # type: ignore[misc]
    name: str = argument(f"NAME  {', '.join(REPLICATIONS)}.", complete=lambda: REPLICATIONS)
    out: Path | None = option("Output folder; default runs/NAME.")


@command(_ReplicateOptions)
def replicate(o: _ReplicateOptions, tell: Tell) -> Outcome:
    """Replicate a published table and compare the numbers.

    The last line of the output is the path of report.html.
    """
    if o.name not in REPLICATIONS:
        raise unknown_name(o.name, [*REPLICATIONS], "the replication")
    find_replications(o.name)
    module = import_module(f"replications.{REPLICATIONS[o.name]}.study")
    chosen = given(o, StudyOptions)
    # Options are one list on the command line, and each study has some of them.
    for name in chosen.keys() - {"seeds", "seed", *getattr(module, "OPTIONS", ())}:
        raise InvalidParameterError(f"{o.name} has no option --{name}; leave it out")
    options = StudyOptions(on=o.place(), progress=tell, **chosen)
    if o.dry_run:
        counts: dict[str, int] = module.planned(options)
        table = Texts("commands").table("planned", counts.items(), name=o.name)
        return Outcome(tables=[table], json={"replication": o.name, "planned": counts})
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
