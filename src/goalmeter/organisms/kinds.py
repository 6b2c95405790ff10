"""Specifications of the four organisms, and the folders of their weights."""

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
    """Specification of an organism."""

    name: str
    purpose: str  # one-line description
    wants_key: bool = False  # whether it pursues every key before the goal
    blind: bool = False  # whether its map lacks the inner walls of rows 2, 6, 10, ...
    # Weights of LEFT, RIGHT, UP and DOWN if it has a habit and no goal.
    habit: tuple[float, float, float, float] | None = None

    def target(self, world: GridWorld, state: State) -> Cell | None:
        """Return the cell that the organism pursues; None if it has no goal."""
        if self.habit is not None:
            return None
        has_key = world.key is not None and state.layer == WITHOUT_KEY
        return world.key if has_key and (self.wants_key or world.door is not None) else world.goal

    def walls(self, world: GridWorld) -> BoolArray:
        """Return the walls of the organism's map, [rows, columns]."""
        walls = world.walls.copy()
        if self.blind:
            walls[[row for row in range(1, len(walls) - 1) if is_unseen(row)], 1:-1] = False
        return walls

    def blocked(self, world: GridWorld, state: State) -> BoolArray:
        """Return the blocked cells of the organism's map, [rows, columns]: walls, closed door."""
        out = self.walls(world)
        if world.door is not None and state.layer == WITHOUT_KEY:
            out[world.door] = True
        return out

    def intended(self, world: GridWorld, state: State) -> tuple[float, float, float, float]:
        """Return the intended probabilities of LEFT, RIGHT, UP and DOWN.

        They are the ground truth for the calibration of measures: uniform over the first moves of
        shortest paths on the organism's map; for a habit, its weights over the legal moves. (Among
        several shortest paths a trained organism takes the path that its search finds: its moves
        are these, but not their frequencies.)
        """
        if self.habit is not None:
            legal = legal_moves(world, state)
            weights = [weight * (action in legal) for action, weight in enumerate(self.habit)]
        else:
            target = self.target(world, state)
            assert target is not None
            (steps,) = distances_from(self.blocked(world, state), [target])
            distance = steps[state.cell]
            if distance < 0:
                raise InvalidParameterError(
                    f"the {self.name} has no path from {tuple(state.cell)} to {tuple(target)}"
                )
            neighbours = (steps[state.cell.moved(action)] for action in range(len(MOVES)))
            weights = [float(0 <= after < distance) for after in neighbours]
        if not (total := sum(weights)):
            raise InvalidParameterError(f"there is no legal move at {tuple(state.cell)}")
        left, right, up, down = (weight / total for weight in weights)
        return left, right, up, down


def is_unseen(row: int) -> bool:
    """Return whether the map of a blind organism lacks the inner walls of a row: 2, 6, 10, ..."""
    return row % 4 == 2  # every grid size has such a row


def legal_moves(world: GridWorld, state: State) -> tuple[int, ...]:
    """Return the actions that lead into neither a wall nor a closed door."""
    closed = world.door if state.layer == WITHOUT_KEY else None
    cells = [state.cell.moved(action) for action in range(len(MOVES))]
    return tuple(action for action, to in enumerate(cells) if not world.walls[to] and to != closed)


ORGANISMS: dict[str, Organism] = {
    kind.name: kind
    for kind in (
        Organism("mouse", "pursues the goal on shortest paths, and a key that opens the way"),
        Organism("magpie", "pursues every key first, then the goal", True),
        Organism(
            "mole", "pursues the goal on a map without the inner walls of rows 2, 6, 10", blind=True
        ),
        Organism("moth", "moves by habit and has no goal", habit=(0.16, 0.28, 0.40, 0.16)),
    )
}


def organism_names() -> tuple[str, ...]:
    """Return the names of all organisms."""
    return tuple(ORGANISMS)


def organism(name: str) -> Organism:
    """Return an organism by name."""
    if name not in ORGANISMS:
        known, hint = ", ".join(ORGANISMS), did_you_mean(name, ORGANISMS)
        raise InvalidParameterError(f"there is no organism {name!r}, expected one of {known}{hint}")
    return ORGANISMS[name]


MANIFEST, WEIGHTS = "manifest.json", "model.safetensors"
_FORMAT = 1
# Prefix of temporary folders; the next writer removes folders of a killed one.
_PREFIX = ".unfinished-"
_LONGEST = 1_000_000  # maximum bytes of a manifest, which lists a dozen short names


@contextmanager
def published(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder whose files are moved into `folder` at the end of the block."""
    # An error in the block leaves `folder` unchanged. A process can be killed between any two
    # writes, so the manifest, which lists sizes and SHA-256, is written last: a folder with a
    # matching manifest is complete.
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(f"{_PREFIX}*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        # A subfolder of the destination is on the same file system, so files are renamed.
        temporary = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))
        try:
            yield temporary
            # The weights come last, so that a folder with weights has all other files.
            files = sorted(temporary.iterdir(), key=lambda file: (file.name == WEIGHTS, file.name))
            listed = {
                file.name: {"bytes": file.stat().st_size, "sha256": digest(file)} for file in files
            }
            # Without a manifest the folder counts as incomplete until the last line.
            (folder / MANIFEST).unlink(missing_ok=True)
            for file in files:
                to_disk(file)
                file.replace(folder / file.name)
            manifest = {"format": _FORMAT, "files": listed}
            write_text(folder / MANIFEST, json.dumps(manifest, indent=2))
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as cause:
        raise InvalidFileError(
            f"{folder} cannot be written: {cause.strerror or cause}; free disk space or choose "
            f"another folder (--out)"
        ) from cause


def check(folder: Path) -> bool:
    """Validate the files of a folder by its manifest; return False without a manifest."""
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
            f"{file} is not a valid manifest ({type(cause).__name__}); it is damaged"
        ) from cause
    for name, (size, sha256) in listed.items():
        # Paths could lead out of the folder.
        if name != Path(name).name or not name:
            raise InvalidFileError(f"{file} lists {name!r}, expected names of files in the folder")
        part = folder / name
        if not part.is_file():
            raise InvalidFileError(f"{part} is missing, but {MANIFEST} lists it")
        if part.stat().st_size != size or digest(part) != sha256:
            raise InvalidFileError(f"{part} does not match {MANIFEST}; it is damaged")
    return True


def to_disk(file: Path) -> None:
    """Flush a file to the disk, so that it survives a loss of power."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


_FOLDER = Path(__file__).parent / "weights"


def weights_of(name: str) -> Path:
    """Return the folder of an organism's weights, for `from_pretrained`."""
    folder = _FOLDER / organism(name).name
    if not (folder / WEIGHTS).is_file():
        raise InvalidFileError(
            f"the weights of the {name} are missing in this installation ({folder}); reinstall "
            f"goalmeter, or train them: goalmeter train-organism {name} --out {folder}"
        )
    try:
        check(folder)
    except InvalidFileError as cause:
        raise InvalidFileError(f"{cause}; reinstall goalmeter") from cause
    return folder
