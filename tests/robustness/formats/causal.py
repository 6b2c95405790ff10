"""Networks as BIF and XMLBIF, and utilities as JSON, damaged as bytes and as values."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import goalmeter as gm
from robustness.damage import damage_file, damaged_json, json_bytes
from robustness.formats import Format

UTILITY: list[dict[str, Any]] = [
    {"variables": ["T"], "values": [1, -1]},
    {"variables": ["S", "T"], "values": [[0, 0.5], [0.25, 0]]},
]
READ = {
    "network.bif": ("network.bif", "--decision", "D", "--target", "T"),
    "network.xmlbif": ("network.xmlbif", "--decision", "D", "--target", "T"),
    "utility.json": ("network.bif", "--decision", "D", "--utility", "utility.json"),
    "table.csv": ("network.bif", "--decision", "D", "--target", "T", "--data", "table.csv"),
}


def _prepare(folder: Path) -> None:
    side = ["left", "right"]
    mouse = gm.CausalBayesianNetwork(
        {"S": side, "D": side, "T": ["cheese", "none"]},
        {"D": ["S"], "T": ["S", "D"]},
        {
            "S": [0.5, 0.5],
            "D": [[0.8, 0.2], [0.2, 0.8]],
            "T": lambda s, d: "cheese" if s == d else "none",
        },
    )
    mouse.to_bif(folder / "network.bif")
    mouse.to_xmlbif(folder / "network.xmlbif")
    (folder / "utility.json").write_bytes(json_bytes(UTILITY))
    (folder / "table.csv").write_text("S,D\n" + "left,left\n" * 8 + "right,left\n" * 2)


def _format(name: str) -> Format:
    def damage(folder: Path, draws: Random) -> list[str]:
        if name == "utility.json" and draws.random() < 0.7:
            (folder / name).write_bytes(json_bytes(damaged_json(UTILITY, draws)))
        else:
            damage_file(folder / name, draws)
        return ["meg", "causal", *READ[name], "--json"]

    return Format(
        name,
        _prepare,
        damage,
        valid=("meg", "causal", *READ[name]),
        imports=("goalmeter.commands.meg_causal",),
    )


FORMATS = tuple(map(_format, READ))
