"""Folders of organisms: settings, weights, words and configuration, damaged and cut short."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

from robustness.damage import damage_file, damaged_json, json_bytes
from robustness.formats import Format

FOLDER = "organism"
FEW = ("--steps", "1", "--sizes", "5", "--no-keys", "--workers", "1", "--device", "cpu")
TRAIN = ("train-organism", "moth", *FEW)
WALK = (
    *("--sizes", "5", "--complexities", "1", "--grids", "1", "--trajectories", "1", "--cap", "1"),
    *("--prompt", "compact/2", "--max-tokens", "4", "-M", "device=cpu", "--rounds", "0"),
)


def _prepare(folder: Path) -> None:
    from goalmeter.organisms.network import claim, new_network, write_network
    from goalmeter.organisms.training import recipe

    usual = recipe("moth")
    rate = usual.rounds[0][1]
    settings = replace(usual, rounds=((1, rate),), sizes=(5,), keys=False)
    assert not claim(folder / FOLDER, asdict(settings))
    write_network(new_network(0), folder / FOLDER)


def _damage(folder: Path, draws: Random) -> None:
    """One of its files; its manifest, which tells of that, is mostly taken away."""
    place = folder / FOLDER
    names = ("training.json", "config.json", "tokenizer.json", "manifest.json", "model.safetensors")
    file = place / draws.choice((*names, "tokenizer_config.json", "generation_config.json"))
    if file.name == "model.safetensors" and draws.random() < 0.5:
        data = file.read_bytes()
        file.write_bytes(data[: draws.choice((0, 7, 8, 100, 1000, 10_000, len(data) - 1))])
    elif file.suffix == ".json" and draws.random() < 0.6:
        file.write_bytes(json_bytes(damaged_json(json.loads(file.read_bytes()), draws)))
    else:
        damage_file(file, draws)
    if file.name != "manifest.json" and draws.random() < 0.8:
        (place / "manifest.json").unlink()


def _gone_on(folder: Path, draws: Random) -> list[str]:
    _damage(folder, draws)
    return [*TRAIN, "--out", FOLDER, "--json"]


def _begun_with(folder: Path, draws: Random) -> list[str]:
    _damage(folder, draws)
    return [*TRAIN, "--from", FOLDER, "--out", "out", "--json"]


def _asked(folder: Path, draws: Random) -> list[str]:
    _damage(folder, draws)
    return ["navigate", f"goalmeter-local/{FOLDER}", *WALK, "--json"]


# The same for all three, so that they share a process: to import these takes longer than the cases.
_IMPORTS = (
    "goalmeter.commands.agents",
    "goalmeter.organisms.network",
    "transformers",
    "torch",
    "transformers.models.llama.modeling_llama",
    "goalmeter.commands.navigate",
    "goalmeter.navigation.inspect.run",
)
_NEEDS = ("torch", "transformers", "inspect_ai", "openai")
FORMATS = (
    Format("organism-gone-on", _prepare, _gone_on, cases=20, imports=_IMPORTS, needs=_NEEDS),
    Format("organism-begun-with", _prepare, _begun_with, cases=5, imports=_IMPORTS, needs=_NEEDS),
    Format("organism-asked", _prepare, _asked, cases=6, imports=_IMPORTS, needs=_NEEDS),
)
