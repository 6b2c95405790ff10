"""A worker that is asked in text computes what the one who asks would, or says why not."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from goalmeter._errors import GoalmeterError, InvalidFileError
from goalmeter._files import digest
from goalmeter.reflection import measure
from goalmeter.runs import Answer, Batch
from goalmeter.runs.backends import fleet
from goalmeter.runs.backends.fleet import HostedWorker, Setup, answered, move_to
from goalmeter.runs.backends.processes import Processes
from goalmeter.runs.backends.registry import BACKENDS, Here
from goalmeter.runs.jobs import call

AGENT = "def agent(history, *_):\n    import helper\n    return helper.CHOICE\n"


def trial(agent: str) -> Batch:
    arguments = {"environment": "IgnoreRewards", "opposite": False, "steps": 4, "seed": 0}
    play = "goalmeter.reflection.trial:play"
    return Batch(play, [arguments], {"agent": agent, "opposite_reading": "literal"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder of the one who asks, with a user's file and what this imports."""
    place = tmp_path / "mine"
    (place / "agents").mkdir(parents=True)
    (place / "agents" / "user.py").write_text(AGENT)
    (place / "agents" / "helper.py").write_text("CHOICE = 1\n")
    monkeypatch.chdir(place)  # which comes back at the end, wherever a worker moves
    return place


def setup_here() -> Setup:
    files = ["agents/user.py", "agents/helper.py"]
    return Setup.of({file: digest(file) for file in files}, timeout=None)


def played(setup: Setup) -> dict[str, object]:
    worker = HostedWorker(setup.to_text())
    try:
        text = worker.answer(json.dumps(trial("agents/user.py:agent").to_json()))
    finally:
        worker.close()
    (result,) = answered(text).results
    assert result.outcome == "ok", result.detail
    return dict(result.value)


def test_a_users_file_travels_with_what_it_imports(folder: Path) -> None:
    setup = setup_here()
    where_it_is = played(setup)
    assert where_it_is["outcome"] == "ok" and Path.cwd() == folder
    # Another machine, which has no such folder.
    elsewhere = replace(setup, folder=str(folder / "nowhere"))
    os.chdir("/")
    assert played(elsewhere) == where_it_is
    assert Path.cwd().name.startswith("goalmeter-")
    # One that has the folder, and in it another file of that name.
    os.chdir(folder)
    (folder / "agents" / "helper.py").write_text("CHOICE = 0\n")
    assert played(setup) == where_it_is
    assert Path.cwd() != folder and (folder / "agents" / "helper.py").read_text() == "CHOICE = 0\n"


def test_a_file_elsewhere_has_to_be_there_with_its_content(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.npz"
    file.write_bytes(b"1")
    setup = Setup.of({str(file): digest(file)}, timeout=None)
    move_to(setup.folder, setup.files)
    file.write_bytes(b"2")
    with pytest.raises(InvalidFileError, match=r"has no .*policy\.npz with the same content, and"):
        HostedWorker(setup.to_text())


def test_a_file_that_changed_is_not_sent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = digest("agents/user.py")
    (folder / "agents" / "user.py").write_text("agent = None\n")
    with pytest.raises(InvalidFileError, match=r"agents/user\.py has changed since this began"):
        Setup.of({"agents/user.py": known}, timeout=None)
    monkeypatch.setattr(fleet, "MOST_BYTES", 10)
    with pytest.raises(InvalidFileError, match="files have 0 MiB, expected at most 0 to be sent"):
        setup_here()


def test_another_version_is_a_sentence(folder: Path) -> None:
    other = replace(setup_here(), version="9.9 (source 00000000), Python 3.1")
    with pytest.raises(GoalmeterError, match=r"has goalmeter .*, expected 9\.9 \(source 0") as info:
        HostedWorker(other.to_text())
    assert str(info.value).endswith("install the same there")


def test_the_version_is_of_the_source_too() -> None:
    assert fleet.version() == fleet.version()
    assert "(source " in fleet.version() and ", Python 3." in fleet.version()


def test_an_answer_crosses_whole(folder: Path) -> None:
    exits = "import os\ndef agent(*_):\n    os._exit(3)\n"
    (folder / "agents" / "user.py").write_text(exits)
    worker = HostedWorker(setup_here().to_text())
    try:
        text = worker.answer(json.dumps(trial("agents/user.py:agent").to_json()))
    finally:
        worker.close()
    with Processes(1) as pool:
        ((_, expected),) = pool.run(iter([trial("agents/user.py:agent")]))
    assert answered(text).lost == expected.lost and not answered(text).results
    assert expected.lost is not None and expected.lost.outcome == "crash"


def test_a_measurement_names_the_files_that_its_trials_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[Batch] = []

    class Notes(Here):
        def run(self, given: Iterator[Batch]) -> Iterator[tuple[int, Answer]]:
            for number, batch in enumerate(given):
                batches.append(batch)
                yield number, call(batch)

    monkeypatch.setitem(BACKENDS, "notes", lambda argument, **_: Notes())
    measure("agents/user.py:agent", 4, 1, environments="DejaVu", on="notes")
    files = ["agents/helper.py", "agents/user.py"]
    assert len(batches) == 3  # what is asked first, the environment, and its opposite
    for batch in batches:
        assert dict(batch.files) == {file: digest(file) for file in files}
