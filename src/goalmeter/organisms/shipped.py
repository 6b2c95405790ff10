"""Where the weights of the organisms lie that come with the package."""

from __future__ import annotations

from pathlib import Path

from goalmeter._errors import InvalidFileError
from goalmeter.organisms.kinds import organism
from goalmeter.organisms.manifest import WEIGHTS, check

_FOLDER = Path(__file__).parent / "weights"


def weights_of(name: str) -> Path:
    """The folder of an organism's weights, as `from_pretrained` reads it."""
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
