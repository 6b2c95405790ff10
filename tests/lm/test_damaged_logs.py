"""Logs of Inspect that are damaged, foreign or too large: one clear line each, no traceback."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from goalmeter import cli
from goalmeter._errors import GoalmeterError
from goalmeter._files import UNPACK_LIMIT
from goalmeter.navigation.inspect.eval_log import trajectories, written
from goalmeter.navigation.inspect.run import ask

OPTIONS: dict[str, Any] = {"sizes": [5], "complexities": [1], "grids": 1, "trajectories": 2}


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two walks."""
    run = tmp_path_factory.mktemp("run")
    ask("goalmeter/greedy", "maze", run, cap=4, **OPTIONS)
    (file,) = (run / "inspect").glob("*.eval")
    return file


@pytest.fixture
def log(walked: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(walked, tmp_path / "walks.eval"))


def members(log: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(log) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(log: Path, changed: dict[str, bytes]) -> None:
    """The log with some of its files changed."""
    there = members(log) | changed
    with zipfile.ZipFile(log, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in there.items():
            archive.writestr(name, data)


def sample(log: Path) -> str:
    return next(name for name in members(log) if name.startswith("samples/"))


def edited(log: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """The log with its first sample edited."""
    name = sample(log)
    value = json.loads(members(log)[name])
    edit(value)
    rewritten(log, {name: json.dumps(value).encode()})


def refused(log: Path) -> str:
    """What is said of the log, which is one line that names it."""
    with pytest.raises(GoalmeterError) as error:
        trajectories(log)
    message = str(error.value)
    assert str(log) in message and "\n" not in message and len(message) < 1000
    return message


def test_the_log_itself_is_read_from_its_path_and_from_its_folder(log: Path) -> None:
    # Its folder has a name that an address would spell otherwise.
    folder = log.parent / "a b%20\N{LATIN SMALL LETTER U WITH DIAERESIS}"
    folder.mkdir()
    shutil.copy(log, folder)
    assert len(trajectories(log)) == 2
    assert trajectories(folder) == trajectories(log)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99])
def test_a_log_that_is_cut_short(share: float, log: Path) -> None:
    data = log.read_bytes()
    log.write_bytes(data[: int(share * len(data))])
    assert "not a valid archive" in refused(log)


def test_zstd_that_is_damaged(log: Path) -> None:
    data = bytearray(log.read_bytes())
    with zipfile.ZipFile(log) as archive:
        at = archive.getinfo("header.json").header_offset
    begins = at + 30 + len("header.json")
    assert data[begins : begins + 4] == b"\x28\xb5\x2f\xfd"  # what zstd begins with
    data[begins + 8 : begins + 40] = bytes(32)
    log.write_bytes(data)
    assert "is no log of Inspect" in refused(log)


@pytest.mark.parametrize("name", ["header.json", "sample"])
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"{}",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"version": ' + b"9" * 5000 + b"}",
        b'{"version": 2, "eval": {}, "samples": 7}',
    ],
)
def test_json_that_is_damaged_nested_or_not_utf_8(name: str, data: bytes, log: Path) -> None:
    rewritten(log, {sample(log) if name == "sample" else name: data})
    assert "is no log of Inspect" in refused(log)


def test_an_archive_of_something_else(log: Path) -> None:
    with zipfile.ZipFile(log, "w") as archive:
        archive.writestr("hello.txt", "world")
    assert "is no log of Inspect" in refused(log)


@pytest.mark.parametrize(
    "edit",
    [
        lambda value: value["scores"]["walked"]["metadata"].update(trajectory=None),
        lambda value: value["scores"]["walked"]["metadata"].update(trajectory=[1, 2]),
        lambda value: value["scores"]["walked"]["metadata"]["trajectory"].update(world=[3]),
        lambda value: value["scores"]["walked"]["metadata"]["trajectory"].update(world="###"),
        lambda value: value["scores"]["walked"]["metadata"]["trajectory"].update(world=[[]]),
        lambda value: value["scores"]["walked"]["metadata"]["trajectory"].update(size=1e400),
        lambda value: value.update(scores={}, metadata={}),
        lambda value: value.update(scores={}, metadata={"walk": None, "walks": 1}),
        lambda value: (value.update(scores={}), value["metadata"].update(walks=float("inf"))),
        lambda value: (value.update(scores={}), value["metadata"]["walk"].update(world=[[1]])),
    ],
)
def test_a_record_that_makes_no_sense_names_its_sample(
    edit: Callable[[dict[str, Any]], None], log: Path
) -> None:
    edited(log, edit)
    assert "sample 'maze, size 5" in refused(log)


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, 93])
def test_a_log_that_unpacks_beyond_the_limit_is_refused_before(
    compression: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        zipfile.ZipFile(log, "a", compression) as archive,
        archive.open("samples/zeros_epoch_1.json", "w") as file,
    ):
        for _ in range(100):
            file.write(bytes(2**20))
    assert log.stat().st_size < 2**20
    monkeypatch.setenv(UNPACK_LIMIT, str(50 * 2**20))

    def read(*_: Any, **__: Any) -> Any:
        raise AssertionError("it was unpacked")

    monkeypatch.setattr("inspect_ai.log.read_eval_log", read)
    assert "unpacks to 104,8" in (message := refused(log)) and f"set {UNPACK_LIMIT}=" in message


def test_files_that_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "walks.json").write_text('{"version": ')
    refused(tmp_path / "walks.json")
    (tmp_path / "walks.txt").write_text("hello")
    refused(tmp_path / "walks.txt")
    refused(tmp_path / "nowhere.eval")
    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty")


def test_a_file_of_walks_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "walks.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(GoalmeterError, match=r"walks\.jsonl cannot be read: 'utf-8' codec"):
        written(tmp_path / "walks.jsonl")
    # Lines that no reader of JSON takes are taken for torn ones.
    (tmp_path / "walks.jsonl").write_text("[" * 100_000 + "\n" + "9" * 5000 + "\n")
    assert written(tmp_path / "walks.jsonl") == []


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda value: value["eval"].update(model="goalmeter/mouze"), "did you mean goalmeter/mou"),
        (lambda value: value["eval"].update(model="hf/other"), "is a log of hf/other"),
        (lambda value: value["eval"].update(model_args={"api_key": "x"}), "looks like a secret"),
        (
            lambda value: value["eval"].update(model_args={"dtype": "x\n" * 5000}),
            "was asked in another way",
        ),
        (lambda value: value.update(plan={"steps": [], "config": {}}), "was asked in another way"),
        (lambda value: value.update(eval=[]), "is no log of Inspect"),
    ],
)
def test_the_command_says_it_in_a_line(
    edit: Callable[[dict[str, Any]], None],
    message: str,
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    value = json.loads(members(log)["header.json"])
    edit(value)
    rewritten(log, {"header.json": json.dumps(value).encode()})
    words = ["goalmeter/greedy", "--sizes=5", "--complexities=1", "--grids=1", "--trajectories=2"]
    command = ["goalmeter", "navigate", *words, "--cap=4", f"--from-log={log}"]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    told = capsys.readouterr().err
    assert stopped.value.code == 2 and told.count("\n") == 1 and len(told) < 1500
    assert message in told and str(log) in told
