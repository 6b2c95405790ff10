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


@pytest.mark.parametrize("name", ["header.json", "sample"])
@pytest.mark.parametrize(
    "data", [b"{", b"\xff\xfe\x00", b"[" * 100_000, b'{"version": 2, "eval": {}, "samples": 7}']
)
def test_json_that_is_damaged_nested_or_not_utf_8(name: str, data: bytes, log: Path) -> None:
    rewritten(log, {sample(log) if name == "sample" else name: data})
    assert "is no log of Inspect" in refused(log)


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
