"""Archives that unpack to more than a limit, or claim to, are refused before they are unpacked."""

from __future__ import annotations

import io
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from goalmeter import cli
from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._files import DEFAULT_LIMIT, UNPACK_LIMIT, listed, unpack_limit
from goalmeter.tabular.arrays import load_arrays


def head(shape: str, kind: str = "<f8") -> bytes:
    """The head of an array, as version 1.0 of the format writes it."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def archive(path: Path, data: bytes, times: int = 1, name: str = "policy.npy") -> Path:
    """An archive of one file, which is some data many times over."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made, made.open(name, "w") as file:
        for _ in range(times):
            file.write(data)
    return path


@pytest.fixture
def modest() -> Iterator[None]:
    """The test asks for less than 16 MiB of memory at any time, by numpy or otherwise."""
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 2**20


def test_the_limit_is_two_gibibytes_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(UNPACK_LIMIT, raising=False)
    assert unpack_limit() == DEFAULT_LIMIT == 2 * 1024**3
    monkeypatch.setenv(UNPACK_LIMIT, " 4096 ")
    assert unpack_limit() == 4096
    for text in ("0", "-1", "2e9", "2GB", "²", "9" * 5000):
        monkeypatch.setenv(UNPACK_LIMIT, text)
        with pytest.raises(InvalidParameterError, match=r"GOALMETER_UNPACK_LIMIT is .*, expected"):
            unpack_limit()


def test_a_small_file_that_unpacks_to_much_is_refused_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, modest: None
) -> None:
    # 64 MiB of zeros in a sixteenth of a mebibyte.
    bomb = archive(tmp_path / "bomb.npz", head("(8388608,)") + bytes(2**20 - 128), 64)
    assert bomb.stat().st_size < 2**20
    monkeypatch.setenv(UNPACK_LIMIT, str(40 * 2**20))
    with pytest.raises(InvalidFileError, match=r"unpacks to 67,108,864 bytes, more than .* 41,943"):
        load_arrays(bomb, required=("policy",))


def test_the_limit_holds_for_all_files_of_an_archive_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "two.npz", a=np.zeros(10), b=np.zeros(10))
    monkeypatch.setenv(UNPACK_LIMIT, "415")  # each of them is a head of 128 bytes and 80 of numbers
    with pytest.raises(InvalidFileError, match=r"unpacks to 416 bytes.*LIMIT=416$"):
        load_arrays(tmp_path / "two.npz", required=("a", "b"))
    monkeypatch.setenv(UNPACK_LIMIT, "416")
    assert load_arrays(tmp_path / "two.npz", required=("a", "b"))["a"].shape == (10,)


@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ("(1000000000000,)", "<f8", r"shape \[1000000000000\] requires 8,000,000,000,000 bytes"),
        ("(99999, 99999, 99999)", "<f8", r"requires 7,99\d,\d{3},\d{3},\d{3},\d{3} bytes"),
        ("(100000000,)", "|b1", r"requires 100,000,000 bytes, but there are 16"),
        ("(1,)", "<f8", r"requires 8 bytes, but there are 16"),
        ("(-2,)", "<f8", "cannot be read"),
        ("(4.5,)", "<f8", "cannot be read"),
        ("(2,)", "<c1000000000", "cannot be read"),
    ],
)
def test_a_head_that_asks_for_more_than_there_is_is_refused(
    shape: str, kind: str, message: str, tmp_path: Path, modest: None
) -> None:
    made = archive(tmp_path / "head.npz", head(shape, kind) + bytes(16))
    with pytest.raises(InvalidFileError, match=message):
        load_arrays(made, required=("policy",))


def test_a_head_of_another_version_is_refused_unread(tmp_path: Path, modest: None) -> None:
    version_3 = head("(1000000000000,)").replace(b"Y\x01", b"Y\x03", 1)
    made = archive(tmp_path / "version.npz", version_3 + bytes(16))
    with pytest.raises(InvalidFileError, match=r"'policy' has format \(3, 0\), expected the"):
        load_arrays(made, required=("policy",))


def test_a_single_array_is_refused_unread(tmp_path: Path, modest: None) -> None:
    (tmp_path / "array.npz").write_bytes(head("(1000000000000,)"))
    with pytest.raises(InvalidFileError, match=r"a single array \(\.npy\)"):
        load_arrays(tmp_path / "array.npz", required=("policy",))


def test_a_directory_that_says_too_little_unpacks_to_no_more(tmp_path: Path, modest: None) -> None:
    # The directory and the file's own head say 1 MiB; 64 MiB are packed.
    bomb = archive(tmp_path / "lies.npz", head("(131056,)") + bytes(2**20 - 128), 64)
    data = bomb.read_bytes().replace((64 * 2**20).to_bytes(4, "little"), bytes([0, 0, 16, 0]))
    bomb.write_bytes(data)
    with bomb.open("rb") as file:
        assert [entry.file_size for entry in listed(file)] == [2**20]
    with pytest.raises(InvalidFileError, match="'policy' is damaged and cannot be read"):
        load_arrays(bomb, required=("policy",))


def test_what_is_no_archive_is_said_in_a_line() -> None:
    for data in (b"", b"PK", b"PK\x05\x06" + bytes(18)[:9], b"x" * 1000):
        with pytest.raises(InvalidFileError, match="not a valid archive") as error:
            listed(io.BytesIO(data))
        assert "\n" not in str(error.value)


def test_the_command_line_says_how_to_lift_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "policy.npz", policy=np.full((100, 2), 0.5))
    monkeypatch.setenv(UNPACK_LIMIT, "1000")
    world = str(tmp_path / "policy.npz")
    monkeypatch.setattr("sys.argv", ["goalmeter", "meg", "mdp", world, "--policy", world])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    message = capsys.readouterr().err
    assert stopped.value.code == 2 and message.count("goalmeter: ") == 1
    assert "policy.npz: the file unpacks to 1,728 bytes, more than the limit of 1,000" in message
