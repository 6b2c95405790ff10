"""Specifications of the four organisms, and the location of their shipped weights."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._files import digest, read_bytes, write_text
from goalmeter._names import did_you_mean
from goalmeter._types import BoolArray
from goalmeter.gridworld.generators import distances_from
from goalmeter.gridworld.planner import WITHOUT_KEY, State
from goalmeter.gridworld.world import MOVES, Cell, GridWorld


@dataclass(frozen=True)
class Organism:
    """The specification of an organism."""

    name: str
    purpose: str  # in a line
    wants_key: bool = False  # whether it goes for any key before the goal
    blind: bool = False  # whether it takes the inner walls of rows 2, 6, 10, ... for open
    # Weights of LEFT, RIGHT, UP and DOWN, if it has a habit and no goal.
    habit: tuple[float, float, float, float] | None = None

    def target(self, world: GridWorld, state: State) -> Cell | None:
        """Return the cell that it is going to; None if it has no goal."""
        if self.habit is not None:
            return None
        lies = world.key is not None and state.layer == WITHOUT_KEY
        return world.key if lies and (self.wants_key or world.door is not None) else world.goal

    def walls(self, world: GridWorld) -> BoolArray:
        """Return the walls of its map, [rows, columns]."""
        walls = world.walls.copy()
        if self.blind:
            walls[[row for row in range(1, len(walls) - 1) if is_unseen(row)], 1:-1] = False
        return walls

    def blocked(self, world: GridWorld, state: State) -> BoolArray:
        """Return where it thinks that it cannot go now, [rows, columns]: walls, and a shut door."""
        out = self.walls(world)
        if world.door is not None and state.layer == WITHOUT_KEY:
            out[world.door] = True
        return out

    def intended(self, world: GridWorld, state: State) -> tuple[float, float, float, float]:
        """Return the probabilities of LEFT, RIGHT, UP and DOWN that it was made to have.

        This is the ground truth that instruments are calibrated with: uniform over the first moves
        of shortest ways on its own map; for a habit, its weights over the moves that lead
        somewhere. (Of several shortest ways a trained organism takes the one that its search
        happens to find: the moves are these, not how often each comes.)
        """
        if self.habit is not None:
            legal = legal_moves(world, state)
            weights = [weight * (action in legal) for action, weight in enumerate(self.habit)]
        else:
            target = self.target(world, state)
            assert target is not None
            (steps,) = distances_from(self.blocked(world, state), [target])
            left_to_go = steps[state.cell]
            if left_to_go < 0:
                raise InvalidParameterError(
                    f"the {self.name} sees no way from {tuple(state.cell)} to {tuple(target)}"
                )
            around = (steps[state.cell.moved(action)] for action in range(len(MOVES)))
            weights = [float(0 <= left < left_to_go) for left in around]
        if not (total := sum(weights)):
            raise InvalidParameterError(f"there is no way to go from {tuple(state.cell)}")
        left, right, up, down = (weight / total for weight in weights)
        return left, right, up, down


def is_unseen(row: int) -> bool:
    """Return whether a blind organism does not see the inner walls of a row: 2, 6, 10, ..."""
    return row % 4 == 2  # every size has one


def legal_moves(world: GridWorld, state: State) -> tuple[int, ...]:
    """Return the actions that lead into neither a wall nor a shut door."""
    shut = world.door if state.layer == WITHOUT_KEY else None
    around = [state.cell.moved(action) for action in range(len(MOVES))]
    return tuple(action for action, to in enumerate(around) if not world.walls[to] and to != shut)


_OF_MOLE = "goes for the goal on a map without the inner walls of rows 2, 6, 10"
ORGANISMS: dict[str, Organism] = {
    kind.name: kind
    for kind in (
        Organism("mouse", "goes for the goal by shortest ways, and for a key that opens the way"),
        Organism("magpie", "goes for the key wherever there is one, then for the goal", True),
        Organism(
            "mole",
            "goes for the goal on a map without the inner walls of rows 2, 6, 10",
            blind=True,
        ),
        Organism("moth", "moves by habit and has no goal", habit=(0.16, 0.28, 0.40, 0.16)),
    )
}


def organism_names() -> tuple[str, ...]:
    """Return the names of all organisms."""
    return tuple(ORGANISMS)


def organism(name: str) -> Organism:
    """Return the organism of a name."""
    if name not in ORGANISMS:
        hint = did_you_mean(name, ORGANISMS)
        known = f"{hint} Known are" if hint else ", expected one of"
        raise InvalidParameterError(f"there is no organism {name!r}{known} {', '.join(ORGANISMS)}")
    return ORGANISMS[name]


MANIFEST, WEIGHTS = "manifest.json", "model.safetensors"
_FORMAT = 1
# Folders that writers write in; what a killed writer has left is removed by the next one.
_PREFIX = ".unfinished-"
# A manifest lists a dozen short names; a larger file is something else, and is not read.
_LONGEST = 1_000_000


@contextmanager
def published(folder: Path) -> Iterator[Path]:
    """Give a folder to write files into, which are moved into `folder` when the block has ended."""
    # An error in the block leaves what was in `folder` before. A process can be killed between any
    # two writes, so the manifest, which lists sizes and SHA-256, comes last: a folder with a
    # manifest that matches holds exactly what was written.
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{_PREFIX}*"):
            shutil.rmtree(left, ignore_errors=True)
        # Inside of the destination, so that both are on one file system and moving is a renaming.
        fresh = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
        try:
            yield fresh
            # The weights come last: where they are, all else is, also without a manifest.
            files = sorted(fresh.iterdir(), key=lambda file: (file.name == WEIGHTS, file.name))
            listed = {
                file.name: {"bytes": file.stat().st_size, "sha256": digest(file)} for file in files
            }
            # From here until the last line the folder has no manifest: it is not whole.
            (folder / MANIFEST).unlink(missing_ok=True)
            for file in files:
                to_disk(file)
                file.replace(folder / file.name)
            manifest = {"format": _FORMAT, "files": listed}
            write_text(folder / MANIFEST, json.dumps(manifest, indent=2))
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    except OSError as cause:
        raise InvalidFileError(
            f"{folder} cannot be written: {cause.strerror or cause}; make room, or choose another "
            f"folder (--out)"
        ) from cause


def check(folder: Path) -> bool:
    """Validate the files of a folder by its manifest; return False if it has none."""
    file = folder / MANIFEST
    if not file.exists():
        return False
    try:
        value: Any = json.loads(read_bytes(file, _LONGEST))
        if value["format"] != _FORMAT:
            raise ValueError(f"format {value['format']!r}, expected {_FORMAT}")
        listed = {name: (entry["bytes"], entry["sha256"]) for name, entry in value["files"].items()}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as cause:
        raise InvalidFileError(
            f"{file} is no manifest ({type(cause).__name__}): damaged"
        ) from cause
    for name, (size, sha256) in listed.items():
        # Names of files, and not ways out of the folder.
        if name != Path(name).name or not name:
            raise InvalidFileError(f"{file} lists {name!r}, expected names of files in the folder")
        part = folder / name
        if not part.is_file():
            raise InvalidFileError(f"{part} is missing; {MANIFEST} lists it")
        if part.stat().st_size != size or digest(part) != sha256:
            raise InvalidFileError(f"{part} is not what was written there: it is damaged")
    return True


def to_disk(file: Path) -> None:
    """Write a file out to the disk, so that it is there after a loss of power too."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


_FOLDER = Path(__file__).parent / "weights"


def weights_of(name: str) -> Path:
    """Return the folder of an organism's weights, as `from_pretrained` reads it."""
    folder = _FOLDER / organism(name).name
    if not (folder / WEIGHTS).is_file():
        raise InvalidFileError(
            f"the weights of the {name} are not in this installation ({folder}); install goalmeter "
            f"whole, or train them: goalmeter train-organism {name} --out {folder}"
        )
    try:
        check(folder)
    except InvalidFileError as cause:
        raise InvalidFileError(f"{cause}; install goalmeter anew") from cause
    return folder
