"""The command that plays what a run still lacks."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from goalmeter.reflection.environments.registry import BATTERY, opposite
from goalmeter.reflection.plan import readings_of


def command(what: dict[str, Any], folder: str | Path) -> str:
    """What to type to continue a run: a command, or where none can say it a call from Python.

    Args:
        what: what the run is.
        folder: where it is.

    >>> print(command({"agent": "rc(naive)", "steps": 9, "seeds": [3, 4],
    ...          "environments": ["IgnoreRewards", "opposite(IgnoreRewards)"],
    ...          "opposite_reading": "literal"}, "run"))
    goalmeter reflect 'rc(naive)' --environment IgnoreRewards --steps 9 --seeds 2 --seed 3 --out run
    """
    agent, seeds, names = what["agent"], what["seeds"], what["environments"]
    first = seeds[0]
    readings = readings_of(what)
    given = [name for name in names if not (name[:9] == "opposite(" and name[9:-1] in names)]
    if names == [way for e in BATTERY for way in (e.name, opposite(e.name))]:
        given = []
    if seeds != list(range(first, first + len(seeds))):
        return (
            f"goalmeter.reflection.measure({agent!r}, {what['steps']}, {seeds}, out={str(folder)!r}"
            + (f", environments={given}" if given else "")
            + "".join(f", {option}={value!r}" for option, value in readings.items())
            + ")"
        )
    words = ["goalmeter", "reflect", agent]
    for name in given:
        words += ["--environment", name]
    words += ["--steps", what["steps"], "--seeds", len(seeds)]
    words += ["--seed", first] if first else []
    for option, value in readings.items():
        words += [f"--{option.replace('_', '-')}", value]
    return shlex.join(map(str, [*words, "--out", folder]))
