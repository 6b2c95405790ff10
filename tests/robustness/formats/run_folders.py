"""Run folders of `reflect` and `navigate`, edited: what the run is, its trials, and their bytes.

They are read by the command that continues a run, and by `goalmeter report`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

from robustness.cases import run
from robustness.damage import damage_file, damaged_json, json_bytes
from robustness.formats import Format

REFLECT = ("reflect", "naive", "--steps", "4", "--seeds", "2", "--environment", "IgnoreRewards")
NAVIGATE = (
    *("navigate", "greedy", "--sizes", "5", "--complexities", "1", "--grids", "1"),
    *("--trajectories", "2"),
)
KEYS = (
    *("navigate", "random", "--suite", "key-no-door", "--objects", "key,neutral", "--grids", "1"),
    *("--cap", "5"),
)


def _prepare(*command: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        ended = run([*command, "--out", "run"], folder)
        assert ended.status == 0, ended.err

    return prepare


def _damage(*command: str) -> Callable[[Path, Random], list[str]]:
    def damage(folder: Path, draws: Random) -> list[str]:
        about, trials = folder / "run" / "run.json", folder / "run" / "trials.jsonl"
        match draws.randrange(8):
            case 0:
                damage_file(draws.choice((about, trials)), draws)
            case 1 | 2 | 3:
                about.write_bytes(json_bytes(damaged_json(json.loads(about.read_bytes()), draws)))
            case _:
                # Its last trial may be lost, so that a command has something left to do.
                lines = [json.loads(line) for line in trials.read_bytes().splitlines()]
                at = draws.randrange(len(lines))
                lines[at] = damaged_json(lines[at], draws)
                kept = lines[: draws.choice((len(lines), len(lines), at + 1))]
                trials.write_bytes(b"".join(json_bytes(line) + b"\n" for line in kept))
        return [*command, "--json"]

    return damage


WALKING_AND_REFLECTING = ("goalmeter.commands.navigate", "goalmeter.commands.reflect")
_PAGES = ("goalmeter.commands.runs", "matplotlib.figure", "jinja2")
_KINDS = {"reflection": REFLECT, "navigation": NAVIGATE, "keys": KEYS}
FORMATS = (
    *(
        Format(
            f"{name}-continued",
            _prepare(*command),
            _damage(*command, "--out", "run"),
            valid=(*command, "--out", "run"),
            cases=60,
            imports=WALKING_AND_REFLECTING,
        )
        for name, command in _KINDS.items()
        if name != "keys"
    ),
    *(
        Format(
            f"{name}-reported",
            _prepare(*command),
            _damage("report", "run"),
            valid=("report", "run"),
            cases=25,
            imports=_PAGES,
            needs=("jinja2", "matplotlib"),
        )
        for name, command in _KINDS.items()
    ),
)
