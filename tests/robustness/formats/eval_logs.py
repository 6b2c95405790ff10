"""Inspect's logs: archives of JSON, damaged as bytes, file by file, and as values; and bombs."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from pathlib import Path
from random import Random

from goalmeter._files import UNPACK_LIMIT
from robustness.cases import run
from robustness.damage import damage_file, damaged_bytes, damaged_json, json_bytes
from robustness.formats import Format

WALK = (
    *("navigate", "goalmeter/greedy", "--sizes", "5", "--complexities", "1", "--grids", "1"),
    *("--trajectories", "1", "--cap", "3"),
)
# Zeros, more than the limit that is set for them; with the usual one they would take a minute.
MEBIBYTES, LIMIT = 64, 32 * 2**20


def _prepare(folder: Path) -> None:
    ended = run([*WALK, "--out", "run"], folder)
    assert ended.status == 0, ended.err
    (log,) = (folder / "run" / "inspect").glob("*.eval")
    log.rename(folder / "walk.eval")
    shutil.rmtree(folder / "run")


def _damage(folder: Path, draws: Random) -> list[str]:
    log = folder / "walk.eval"
    with zipfile.ZipFile(log) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    # What is read of a log of which all walks were finished.
    name = draws.choice([n for n in members if n == "header.json" or n.startswith("samples/")])
    match draws.randrange(6):
        case 0:
            damage_file(log, draws)
        case 1:
            members[name] = damaged_bytes(members[name], draws)
            _write(log, members)
        case 2:
            del members[draws.choice(sorted(members))]
            _write(log, members)
        case _:
            members[name] = json_bytes(damaged_json(json.loads(members[name]), draws))
            _write(log, members)
    return [*WALK, "--from-log", "walk.eval", "--json"]


def _write(log: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(log, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def _prepare_bombs(folder: Path) -> None:
    _prepare(folder)
    os.environ[UNPACK_LIMIT] = str(LIMIT)
    # Deflate packs a mebibyte of zeros into a kibibyte.
    for name, kind in (("samples/bomb_epoch_1.json", "walk.eval"), ("policy.npy", "policy.npz")):
        with (
            zipfile.ZipFile(folder / kind, "a", zipfile.ZIP_DEFLATED) as archive,
            archive.open(name, "w") as file,
        ):
            for _ in range(MEBIBYTES):
                file.write(bytes(2**20))


def _damage_bombs(folder: Path, draws: Random) -> list[str]:
    if draws.random() < 0.5:
        return [*WALK, "--from-log", "walk.eval", "--json"]
    return ["meg", "mdp", "policy.npz", "--policy", "policy.npz", "--json"]


_COMMANDS = ("goalmeter.commands.navigate", "goalmeter.commands.meg")
_IMPORTS = (*_COMMANDS, "inspect_ai.log", "goalmeter.navigation.inspect.run")
FORMATS = (
    Format(
        "eval-log", _prepare, _damage, cases=50, imports=_IMPORTS, needs=("inspect_ai", "openai")
    ),
    Format(
        "bombs",
        _prepare_bombs,
        _damage_bombs,
        cases=4,
        imports=_IMPORTS,
        needs=("inspect_ai", "openai"),
    ),
)
