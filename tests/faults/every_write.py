"""Every single call that writes, failing in turn: python -m faults.every_write

What is written is a study of some trials, a page, and a folder of files that belong together. Each
call fails alone, and with all that come after it, for a full disk, a quota and a folder that became
read-only. Then the same is done again, and what is there is compared.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import filelock  # noqa: F401  # once, and not in every fork

from faults.spoiling import Disk, NoLocks
from goalmeter._errors import InvalidFileError
from goalmeter._files import write_text
from goalmeter.organisms.kinds import check, published
from goalmeter.runs import Study, carry_out

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_FINE, _REFUSED, _ODD = 0, 2, 1
_STUDY = Study[str](
    "clock",
    "goalmeter.runs.progress:in_words",
    {f"time {n}": {"seconds": float(n)} for n in range(4)},
    what={"kind": "test"},
)


def a_study(folder: Path) -> None:
    """Four trials, kept as they end."""
    carry_out(_STUDY, out=folder / "run")


def a_study_without_locks(folder: Path) -> None:
    """The same on a file system that has none."""
    NoLocks(errno.ENOLCK).enter()
    a_study(folder)


def a_page(folder: Path) -> None:
    """A page of some length."""
    write_text(folder / "page.html", "<p>a line</p>\n" * 10_000)


def files_together(folder: Path) -> None:
    """Three files, which count only together."""
    with published(folder / "weights") as fresh:
        for name in ("config.json", "model.safetensors", "tokenizer.json"):
            (fresh / name).write_bytes(name.encode() * 1000)


WRITERS = (a_study, a_study_without_locks, a_page, files_together)


def main() -> None:
    """Print how many calls were made to fail; the exit status is 1 if anything went wrong."""
    wrong = 0
    for write in WRITERS:
        with tempfile.TemporaryDirectory(prefix="goalmeter-writes-") as temporary:
            struck, problems = _all(write, Path(temporary))
        wrong += len(problems)
        print(f"{write.__name__}: {struck} faults, {len(problems)} wrong", *problems, sep="\n  ")
    sys.exit(1 if wrong else 0)


def _all(write: Callable[[Path], None], top: Path) -> tuple[int, list[str]]:
    usual = top / "usual"
    disk = Disk(usual)
    assert _in_a_fork(write, usual, disk) == _FINE, "nothing disturbs this one"
    expected, struck, problems = _contents(usual), 0, []
    for number, (error, first, calls) in enumerate(_cases(disk.asked)):
        folder = top / str(number)
        spoilt = Disk(folder, error, first, calls)
        status = _in_a_fork(write, folder, spoilt)
        struck += spoilt.struck > 0
        again = _in_a_fork(write, folder, Disk(folder))
        name = f"call {first}, {'alone' if calls else 'and all after it'}, {os.strerror(error)}"
        if status == _ODD or (status == _FINE and calls is None and _contents(folder) != expected):
            problems.append(f"{name}: ended with {status}")
        elif again != _FINE or _contents(folder) != expected:
            problems.append(f"{name}: given again it ended with {again}, and differs")
    return struck, problems


def _cases(calls: int) -> Iterator[tuple[int, int, int | None]]:
    for error in ERRORS:
        for first in range(calls):
            yield error, first, 1
            yield error, first, None


def _in_a_fork(write: Callable[[Path], None], folder: Path, disk: Disk) -> int:
    child = os.fork()
    if child == 0:
        _become(write, folder, disk)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _become(write: Callable[[Path], None], folder: Path, disk: Disk) -> NoReturn:
    status = _ODD
    try:
        folder.mkdir(exist_ok=True)
        disk.enter()
        write(folder)
        status = _FINE
    except InvalidFileError:
        status = _REFUSED
    finally:
        os._exit(status)


def _contents(folder: Path) -> object:
    """What counts of a folder: its trials in any order, and its whole files."""
    weights = folder / "weights"
    whole = not weights.is_dir() or check(weights)
    files = {
        str(path.relative_to(folder)): path.read_bytes()
        for pattern in ("run/*.json*", "*.html", "weights/*")
        for path in folder.glob(pattern)
        if not path.name.startswith(".") and path.name != "status.json"
    }
    trials = files.pop("run/trials.jsonl", b"").splitlines(keepends=True)
    lines = sorted(line for line in trials if line.endswith(b"\n"))
    return lines, files if whole else "not whole"


if __name__ == "__main__":
    main()
