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

from goalmeter._errors import GoalmeterError
from goalmeter._files import UNPACK_LIMIT
from goalmeter.navigation.inspect.eval_log import trajectories
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


def edited(log: Path, name: str, edit: Callable[[bytes], bytes]) -> None:
    """Edit the file of the log whose name begins so."""
    with zipfile.ZipFile(log) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    chosen = next(each for each in files if each.startswith(name))
    with zipfile.ZipFile(log, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, data in files.items():
            archive.writestr(each, edit(data) if each == chosen else data)


def refused(log: Path) -> str:
    """What is said of the log, which is one line that names it."""
    with pytest.raises(GoalmeterError) as error:
        trajectories(log)
    message = str(error.value)
    assert str(log) in message and "\n" not in message and len(message) < 1000
    return message


@pytest.mark.parametrize("name", ["header.json", "samples/"])
@pytest.mark.parametrize(
    "data", [b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"version": 2, "eval": {}, "samples": 7}']
)
def test_json_that_is_damaged_nested_or_not_utf_8(name: str, data: bytes, log: Path) -> None:
    edited(log, name, lambda _: data)
    assert "is not a valid Inspect log" in refused(log)


@pytest.mark.parametrize(
    "edit",
    [
        lambda value: value["scores"]["walked"]["metadata"].update(trajectory=None),
        lambda value: value["scores"]["walked"]["metadata"]["trajectory"].update(world=[3]),
        lambda value: value["scores"]["walked"]["metadata"]["trajectory"].update(size=1e400),
        lambda value: value.update(scores={}, metadata={}),
        lambda value: (value.update(scores={}), value["metadata"].update(walks=float("inf"))),
        lambda value: (value.update(scores={}), value["metadata"]["walk"].update(world=[[1]])),
    ],
)
def test_a_record_that_makes_no_sense_names_its_sample(
    edit: Callable[[dict[str, Any]], None], log: Path
) -> None:
    def changed(data: bytes) -> bytes:
        value = json.loads(data)
        edit(value)
        return json.dumps(value).encode()

    edited(log, "samples/", changed)
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
