"""Options of every command, one or two of them given something that they were not made for.

The options are read from the application itself, so a new one is tried as soon as it is there.
Values that a command could take for good and then work on for hours are left out.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import typer

from goalmeter.cli import app
from robustness.damage import HOSTILE_TEXT
from robustness.formats import Format
from robustness.formats.arrays import FORMATS as ARRAYS
from robustness.formats.causal import FORMATS as CAUSAL
from robustness.formats.run_folders import WALKING_AND_REFLECTING

NUMBERS = ("-1", "0", "1e400", "nan", "inf", "-inf", "9" * 21, "9" * 5000, "0x10", "1.5", "१", "")
LISTS = (
    *(",", ",,,", "7,nan", "7,7", "1" + ",1" * 50_000, "9" * 21, "-5", "5-", "7-3"),
    "0-" + "9" * 30,
)
NESTED = ("rc(" * 3000 + "naive" + ")" * 3000, "opposite(" * 3000, "(" * 5000, " " * 5000 + "(")
# Beyond these, a command runs on, as it is told to.
BASES: dict[tuple[str, ...], tuple[str, ...]] = {
    ("reflect",): ("naive", "--steps", "3", "--seeds", "1", "--environment", "IgnoreRewards"),
    ("navigate",): ("greedy", "--sizes", "5", "--complexities", "1", "--grids", "1"),
    ("report",): ("nowhere",),
    ("replicate",): ("nothing",),
    ("train-organism",): ("nobody",),
    ("meg", "mdp"): ("mdp.npz", "--policy", "policy.npz"),
    ("meg", "causal"): ("network.bif", "--decision", "D", "--target", "T"),
}
# They print what is asked, wait for a shell, or read what another format damages.
LEFT_OUT = {"help", "install_completion", "show_completion", "version", "device", "logs"}


def _command(path: tuple[str, ...]) -> Any:
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.get_command(None, name)
    return command


def _prepare(folder: Path) -> None:
    CAUSAL[0].prepare(folder)
    ARRAYS[0].prepare(folder)


def _damage(folder: Path, draws: Random) -> list[str]:
    path = draws.choice(sorted(BASES))
    arguments = list(BASES[path])
    options = [p for p in _command(path).params if p.name not in LEFT_OUT]
    for option in draws.sample(options, k=draws.choice((1, 1, 2))):
        hostile = draws.choice((*NUMBERS, *LISTS, *NESTED, *HOSTILE_TEXT))
        if option.param_type_name == "argument":
            arguments[0] = hostile
        elif getattr(option, "is_flag", False):
            arguments.append(draws.choice(option.opts))
        else:
            arguments += [option.opts[-1], hostile]
    if draws.random() < 0.1:
        arguments.append(draws.choice(HOSTILE_TEXT))
    # A command line cannot hold zero bytes.
    return [*path, *(argument.replace("\0", "") for argument in arguments)]


FORMATS = (Format("options", _prepare, _damage, cases=120, imports=WALKING_AND_REFLECTING),)
