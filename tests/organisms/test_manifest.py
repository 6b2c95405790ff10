"""Files that are put in their folder at once: after a kill between two they are not whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from goalmeter._errors import InvalidFileError
from goalmeter.organisms.kinds import MANIFEST, check, published

SRC = Path(__file__).resolve().parents[2] / "src"
# A process that ends itself, as a kill does, before it moves its file number argv[2].
KILLED = """
import os, signal, sys
from pathlib import Path
from goalmeter.organisms.kinds import published

moved, move = 0, Path.replace

def replace(self, target):
    global moved
    if moved == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    moved += 1
    return move(self, target)

Path.replace = replace
with published(Path(sys.argv[1])) as fresh:
    for name in ("a", "b", "c"):
        (fresh / name).write_text(f"new {name}")
"""


def written(folder: Path, text: str = "old") -> Path:
    with published(folder) as fresh:
        for name in ("a", "b", "c"):
            (fresh / name).write_text(f"{text} {name}")
    return folder


@pytest.mark.parametrize("before", range(4))  # three files and the manifest
def test_a_process_that_is_killed_leaves_a_folder_that_is_not_whole(
    before: int, tmp_path: Path
) -> None:
    written(tmp_path)
    (tmp_path / "README.md").write_text("a card")
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path), str(before)],
        env=os.environ | {"PYTHONPATH": str(SRC)},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert not check(tmp_path)
    written(tmp_path, "newer")
    assert check(tmp_path)
    # Nothing is left of the one that was killed, but for its manifest that was not moved.
    names = {file.name for file in tmp_path.iterdir() if not file.name.startswith(f".{MANIFEST}")}
    assert names == {"README.md", MANIFEST, "a", "b", "c"}
    assert (tmp_path / "b").read_text() == "newer b"


def test_an_error_while_writing_leaves_what_was_there(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(RuntimeError, match="out of memory"), published(tmp_path) as fresh:
        (fresh / "a").write_text("new a")
        raise RuntimeError("out of memory")
    assert check(tmp_path) and (tmp_path / "a").read_text() == "old a"
    assert len(list(tmp_path.iterdir())) == 4


def test_every_file_that_is_cut_changed_or_lost_is_named(tmp_path: Path) -> None:
    written(tmp_path)
    for text in ("old", "olD b"):
        (tmp_path / "b").write_text(text)
        with pytest.raises(InvalidFileError, match=r"b does not match"):
            check(tmp_path)
    (tmp_path / "b").unlink()
    with pytest.raises(InvalidFileError, match=r"b is missing, but .* lists it"):
        check(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"format": 2, "files": {}}',
        '{"format": 1, "files": {"a": {"bytes": 3}}}',
        '{"format": 1, "files": {"../a": {"bytes": 3, "sha256": ""}}}',
        " " * 2_000_000,
    ],
)
def test_a_damaged_manifest_is_an_error(text: str, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(InvalidFileError, match=r"not a valid manifest|expected names of") as error:
        check(tmp_path)
    assert "\n" not in str(error.value)
