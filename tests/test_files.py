"""Files written in a single step: links are followed, and only files are replaced."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from goalmeter._errors import InvalidFileError
from goalmeter._files import check_writable, read_bytes, replacing, write_bytes, write_text


def test_a_file_is_replaced_in_one_step_and_keeps_its_permissions(tmp_path: Path) -> None:
    path = write_text(tmp_path / "new" / "a.txt", "first")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o600)
    write_text(path, "ü")
    assert path.read_bytes() == "ü".encode() and stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == "ü".encode()
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    target = tmp_path / "store" / "result.json"
    target.write_text("old")
    link = tmp_path / "result.json"
    link.symlink_to(Path("store") / "result.json")
    write_text(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(tmp_path / "store" / "later")
    write_text(dangling, "made")
    assert dangling.is_symlink() and (tmp_path / "store" / "later").read_text() == "made"


@pytest.mark.parametrize("kind", ["a folder", "a pipe", "a link that leads back to itself"])
@pytest.mark.parametrize("behind_a_link", [False, True])
def test_what_is_no_file_is_refused_and_left_alone(
    tmp_path: Path, kind: str, behind_a_link: bool
) -> None:
    path = tmp_path / "thing"
    if kind == "a folder":
        path.mkdir()
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    before = path.lstat()
    named = path
    if behind_a_link:
        named = tmp_path / "link"
        named.symlink_to(path)
    for refused in (lambda: write_bytes(named, b"x"), lambda: check_writable(named)):
        with pytest.raises(InvalidFileError, match=f"{named} is {kind}, expected a file; name an"):
            refused()
    after = path.lstat()  # reading a link may change its time of access
    assert (after.st_ino, after.st_mode, after.st_mtime_ns) == (
        before.st_ino,
        before.st_mode,
        before.st_mtime_ns,
    )


def test_devices_stay_devices() -> None:
    # As root this replaced /dev/full by a file.
    for device in ("/dev/full", "/dev/null"):
        with pytest.raises(InvalidFileError, match=f"{device} is a device, expected a file"):
            write_bytes(device, b"x")
        assert stat.S_ISCHR(Path(device).stat().st_mode)


def test_a_place_that_cannot_be_written_is_found_out_beforehand(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for check in (check_writable, lambda path: write_bytes(path, b"")):
        with pytest.raises(InvalidFileError, match=r"file/page cannot be written: .*choose a fold"):
            check(tmp_path / "file" / "page")
    check_writable(tmp_path / "new" / "page")
    assert list((tmp_path / "new").iterdir()) == []


def test_neither_pipes_nor_devices_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidFileError, match="pipe is a pipe, expected a file"):
        read_bytes(tmp_path / "pipe")
    with pytest.raises(InvalidFileError, match="/dev/zero is a device, expected a file"):
        read_bytes("/dev/zero")
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(InvalidFileError, match="large has 11 bytes, expected at most 10"):
        read_bytes(tmp_path / "large", 10)
    assert read_bytes(tmp_path / "large") == b"x" * 11
