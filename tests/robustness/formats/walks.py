"""Walks that another tool recorded: lines of JSON, damaged as bytes and as values."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from robustness.damage import damage_file, damaged_json, json_bytes
from robustness.formats import Format

FILE = "walks.jsonl"
MEASURE = ("navigate", "someone", "--walks", FILE, "--json")
RECORDS = [
    {"grid": ["######", "#AK#G#", "#__D_#", "######"], "actions": "RDRRU", "name": "a"},
    {
        "grid": "#####\n#A_G#\n#####",
        "actions": [1, "RIGHT"],
        "states": [[1, 1], "#####\n#_AG#\n#####"],
    },
    {
        "walls": [[1, 1, 1, 1], [1, 0, 0, 1], [1, 0, 0, 1], [1, 1, 1, 1]],
        **{"start": [1, 1], "goal": [2, 2], "key": [1, 2], "actions": [1, None, {"action": 3}]},
        **{"states": [{"cell": [1, 1], "carrying": False}, {"cell": [1, 2]}, [1, 2]], "cap": 9},
    },
]


def _prepare(folder: Path) -> None:
    (folder / FILE).write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS))


def _damage(folder: Path, draws: Random) -> list[str]:
    if draws.random() < 0.3:
        damage_file(folder / FILE, draws)
    else:
        records = [*RECORDS]
        number = draws.randrange(len(records))
        lines = [json_bytes(record) for record in records]
        lines[number] = json_bytes(damaged_json(records[number], draws))
        (folder / FILE).write_bytes(b"\n".join(lines))
    return list(MEASURE)


FORMATS = (
    Format("walks", _prepare, _damage, valid=MEASURE, imports=("goalmeter.commands.navigate",)),
)
