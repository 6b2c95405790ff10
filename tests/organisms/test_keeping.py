"""A training's folder: claimed, gone on with, and whole or refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from goalmeter import cli  # noqa: E402
from goalmeter._errors import InvalidFileError  # noqa: E402
from goalmeter.organisms import kinds  # noqa: E402
from goalmeter.organisms.kinds import MANIFEST, WEIGHTS  # noqa: E402
from goalmeter.organisms.network import (  # noqa: E402
    CHECKPOINT,
    SETTINGS,
    claim,
    new_network,
    read_settings,
    save,
    write_network,
)
from goalmeter.organisms.training import Settings  # noqa: E402

TINY = asdict(Settings("moth", rounds=((6, 0.02),), words=200, sizes=(5,), keys=False))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose training is over."""
    folder = tmp_path_factory.mktemp("trained")
    assert not claim(folder, TINY)
    write_network(new_network(0), folder)
    return folder


@pytest.fixture
def trained(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(whole, tmp_path / "trained"))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:100])


def resized(file: Path, **sizes: int) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | sizes))


@pytest.mark.parametrize("manifest", [True, False])
def test_weights_that_are_cut_short_do_not(manifest: bool, trained: Path) -> None:
    cut(trained / WEIGHTS)
    if not manifest:
        (trained / MANIFEST).unlink()
    with pytest.raises(InvalidFileError, match=r"Remove the folder to train again") as e:
        claim(trained, TINY)
    assert "\n" not in str(e.value)
    # With a checkpoint there is something to go on from, and the weights are written anew.
    (trained / CHECKPOINT).write_bytes(b"")
    assert not claim(trained, TINY)


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"\xff\xfe", b"[" * 100_000],
)
def test_broken_settings_are_an_error_and_stay(text: bytes, tmp_path: Path) -> None:
    (tmp_path / SETTINGS).write_bytes(text)
    for read in (lambda: claim(tmp_path, TINY), lambda: read_settings(tmp_path)):
        with pytest.raises(InvalidFileError, match="not contain valid training settings") as error:
            read()
        assert "\n" not in str(error.value)
    assert (tmp_path / SETTINGS).read_bytes() == text


def _out_of_a_file(folder: Path) -> list[str]:
    (folder / "file").write_text("mine")
    return ["--out", str(folder / "file")]


def _below_a_file(folder: Path) -> list[str]:
    return [*_out_of_a_file(folder)[:1], str(folder / "file" / "below")]


def _broken_settings(folder: Path) -> list[str]:
    (folder / SETTINGS).write_text('{"name": ')
    return ["--out", str(folder)]


def _from(damage: Callable[[Path], Any]) -> Callable[[Path], list[str]]:
    def options(folder: Path) -> list[str]:
        write_network(new_network(0), folder / "from")
        (folder / "from" / MANIFEST).unlink()
        damage(folder / "from")
        return ["--from", str(folder / "from"), "--out", str(folder / "out")]

    return options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (_out_of_a_file, "cannot be used: File exists; choose a writable folder"),
        (_below_a_file, "cannot be used: Not a directory"),
        (_broken_settings, "training.json does not contain valid training settings"),
        (_from(lambda folder: cut(folder / WEIGHTS)), "contains no organism: the model in"),
        (
            _from(lambda folder: cut(folder / "config.json")),
            "contains no organism: config.json cannot be read",
        ),
        (
            _from(lambda folder: resized(folder / "config.json", num_hidden_layers=10**6)),
            "has num_hidden_layers 1000000, expected 4 for an organism of this version",
        ),
        (lambda folder: ["--device", "moon"], "device 'moon' is not available: "),
    ],
)
def test_a_folder_that_cannot_be_used_is_one_line(
    options: Callable[[Path], list[str]],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    arguments = options(tmp_path)
    capfd.readouterr()
    few = ["--steps", "1", "--sizes", "5", "--no-keys", "--workers", "1", "--device", "cpu"]
    monkeypatch.setattr("sys.argv", ["goalmeter", "train-organism", "moth", *few, *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    told = capfd.readouterr()
    assert stopped.value.code == 2 and told.out == ""
    assert told.err.count("\n") == 1 and told.err.startswith("goalmeter: ")
    assert message in told.err


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path: Path) -> None:
    model = new_network(0)
    save(tmp_path / CHECKPOINT, model, [], 1)
    before = (tmp_path / CHECKPOINT).read_bytes()
    (tmp_path / "checkpoint.new").mkdir()
    with pytest.raises(InvalidFileError, match=r"cannot be written .*; free disk space"):
        save(tmp_path / CHECKPOINT, model, [], 2)
    assert (tmp_path / CHECKPOINT).read_bytes() == before


def test_shipped_weights_that_are_damaged_are_an_error(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained.rename(tmp_path / "moth")
    monkeypatch.setattr(kinds, "_FOLDER", tmp_path)
    assert kinds.weights_of("moth") == tmp_path / "moth"
    cut(tmp_path / "moth" / WEIGHTS)
    with pytest.raises(InvalidFileError, match=r"damaged; reinstall goalmeter"):
        kinds.weights_of("moth")
