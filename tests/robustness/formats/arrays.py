"""Worlds, policies, features and trajectories as .npz files, damaged as arrays and as bytes."""

from __future__ import annotations

import zipfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from robustness.damage import damage_file, damaged_arrays, damaged_bytes
from robustness.formats import Format

WORLD: dict[str, Any] = {
    "transition": [[[0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]],
    "reward": [0.0, 1.0, -1.0],
    "initial": [1.0, 0.0, 0.0],
    "horizon": 2,
}
SPARSE: dict[str, Any] = {
    "next_state": [[[1, 2], [2, 0]], [[1, 0], [1, 0]], [[2, 0], [2, 0]]],
    "probability": [[[0.5, 0.5], [1, 0]], [[1, 0], [1, 0]], [[1, 0], [1, 0]]],
    "reward": [[0.0, 0.5], [1.0, 1.0], [-1.0, 0.0]],
    "initial": 0,
    "horizon": 3,
    "discount": 0.9,
}
FILES: dict[str, dict[str, Any]] = {
    "mdp.npz": WORLD,
    "sparse.npz": SPARSE,
    "policy.npz": {"policy": [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]]},
    "features.npz": {"features": [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]},
    "trajectories.npz": {
        "states": [[0, 1], [0, 2], [0, 1]],
        "actions": [[0, 0], [1, 0], [0, 1]],
        "length": [2, 2, 1],
    },
}
COMMANDS: dict[str, tuple[str, ...]] = {
    "mdp.npz": ("mdp.npz", "--policy", "policy.npz"),
    "sparse.npz": ("sparse.npz", "--policy", "policy.npz", "--unknown", "state"),
    "policy.npz": ("mdp.npz", "--policy", "policy.npz", "--unknown", "state-action"),
    "features.npz": ("mdp.npz", "--policy", "policy.npz", "--unknown", "features.npz"),
    "trajectories.npz": ("mdp.npz", "--trajectories", "trajectories.npz"),
}


def _prepare(folder: Path) -> None:
    for name, arrays in FILES.items():
        np.savez(folder / name, **{key: np.array(value) for key, value in arrays.items()})


def _damage_member(path: Path, draws: Random) -> None:
    """Damage the bytes of an array, in an archive whose checksums then agree with them."""
    with zipfile.ZipFile(path) as archive:
        members = {member: archive.read(member) for member in archive.namelist()}
    member = draws.choice(sorted(members))
    if draws.random() < 0.5:  # its head, which says how large it is
        sizes = (b"(0,)", b"(1000000000000,)", b"(-1,)", b"(99999, 99999, 99999)", b"()")
        before, _, after = members[member].partition(b"(")
        members[member] = before + draws.choice(sizes) + after.partition(b")")[2]
    else:
        members[member] = damaged_bytes(members[member], draws)
    with zipfile.ZipFile(path, "w") as archive:
        for each, data in members.items():
            archive.writestr(each, data)


def _format(name: str) -> Format:
    def damage(folder: Path, draws: Random) -> list[str]:
        match draws.randrange(6):
            case 0:
                damage_file(folder / name, draws)
            case 1 | 2:
                _damage_member(folder / name, draws)
            case _:
                np.savez(folder / name, **damaged_arrays(FILES[name], draws))
        return ["meg", "mdp", *COMMANDS[name], "--json"]

    # Importing the instrument takes memory too, which is not the input's doing.
    return Format(
        name,
        _prepare,
        damage,
        valid=("meg", "mdp", *COMMANDS[name]),
        imports=("goalmeter.commands.meg",),
    )


FORMATS = tuple(map(_format, FILES))
