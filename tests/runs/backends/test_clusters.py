"""Ray tasks and submitit arrays of this machine: the same bytes as processes, whatever dies."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from runs.backends.places import kept, played, user_file

from goalmeter._errors import GoalmeterError, InvalidFileError
from goalmeter._files import digest
from goalmeter.navigation import measure
from goalmeter.runs import carry_out
from goalmeter.runs.backends import clusters
from goalmeter.runs.backends.clusters import RayCluster, move_to, setup_of, workers_here

pytestmark = [
    pytest.mark.xdist_group("ray"),  # one process of the suite starts the cluster
    # What Ray itself gives up or leaves open.
    pytest.mark.filterwarnings("ignore:::ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SLURM = "slurm:cluster=local"
PLACES = ["ray:cpus=2", f"{SLURM},jobs=2,cores=2"]
SMALL: dict[str, Any] = {"sizes": [5], "complexities": [1], "grids": 6, "trajectories": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    ray = pytest.importorskip("ray")
    with RayCluster("local,cpus=2", trials=2, timeout=None) as cluster:
        yield cluster
    ray.shutdown()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder in which nothing is left."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    yield tmp_path
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("on", PLACES)
def test_the_bytes_of_a_run_are_those_of_processes(
    cluster: RayCluster, folder: Path, on: str
) -> None:
    results = []
    for number, place in enumerate(("here", on)):
        result = measure("boltzmann(2)", **SMALL, on=place, out=folder / str(number), beside=[])
        results.append((kept(folder / str(number)), result.to_json()["overall"]))
    assert results[0] == results[1]


@pytest.mark.slow
@pytest.mark.parametrize("on", PLACES)
def test_what_users_code_does_is_the_same_outcome(
    cluster: RayCluster, folder: Path, on: str
) -> None:
    user = user_file(folder)
    assert carry_out(played(user, "mixed"), on=on) == carry_out(
        played(user, "mixed"), on="processes:2"
    )
    results = carry_out(played(user, "hangs"), on=on, timeout=8.0)
    assert results["CensoredObservation seed 0"]["detail"] == "no answer within 8 s"


@pytest.mark.slow
@pytest.mark.parametrize("on", PLACES)
def test_another_version_is_a_sentence(
    cluster: RayCluster, folder: Path, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    monkeypatch.setattr(clusters, "version", lambda: "9.9")
    with pytest.raises(GoalmeterError, match=r"(node|job) of .* cannot be used: .*expected 9\.9"):
        carry_out(played(user_file(folder), "good"), on=on)


# --- Slurm ----------------------------------------------------------------------------------------
def test_a_folder_that_cannot_be_made(folder: Path) -> None:
    pytest.importorskip("submitit")
    (folder / "file").touch()
    with pytest.raises(InvalidFileError, match=r"cannot be written: .*slurm:folder=PATH"):
        carry_out(played(user_file(folder), "good"), on=f"{SLURM},folder={folder}/file/in")


def test_slurm_that_takes_no_job_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("submitit")
    # A program of that name that fails as Slurm's does.
    programs = folder / "bin"
    programs.mkdir()
    for name in ("sbatch", "srun"):
        (programs / name).write_text("#!/bin/sh\necho 'invalid partition' >&2\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(GoalmeterError, match=r"Slurm takes no job: .*invalid partition"):
        carry_out(played(user_file(folder), "good"), on="slurm:partition=none,jobs=2")


# --- Ray without a cluster ------------------------------------------------------------------------


# --- Remote workers -------------------------------------------------------------------------------
@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the driver, with a user's file and what this imports."""
    place = tmp_path / "mine"
    (place / "agents").mkdir(parents=True)
    user = "def agent(history, *_):\n    import helper\n    return helper.CHOICE\n"
    (place / "agents" / "user.py").write_text(user)
    (place / "agents" / "helper.py").write_text("CHOICE = 1\n")
    monkeypatch.chdir(place)  # which comes back at the end, wherever a worker moves
    return place


def made(setup: str) -> dict[str, object]:
    study = played(Path("agents/user.py"), "agent", names=["IgnoreRewards"])
    with workers_here(setup, 1) as worker:
        ((_, batch),) = worker.run(iter([study.batch(list(study.trials))]))
    (result,) = batch.results
    return dict(result.value)


def test_a_users_file_travels_with_what_it_imports(mine: Path) -> None:
    files = ("agents/user.py", "agents/helper.py")
    setup = setup_of({file: digest(file) for file in files}, timeout=None)
    expected = made(setup)
    assert expected["outcome"] == "ok" and Path.cwd() == mine
    version, folder, around, timeout, contents = json.loads(setup)
    move_to(str(mine / "nowhere"), contents)  # another machine
    (mine / "agents" / "helper.py").write_text("CHOICE = 0\n")  # another file of that name
    os.chdir(mine)
    move_to(folder, contents)
    assert Path.cwd() != mine and Path("agents/helper.py").read_text() == "CHOICE = 1\n"
    assert made(json.dumps([version, "nowhere", around, timeout, contents])) == expected


def test_files_that_differ_are_refused(mine: Path, tmp_path: Path) -> None:
    file = tmp_path / "policy.npz"
    file.write_bytes(b"1")
    known = {str(file): digest(file)}
    setup = setup_of(known, timeout=None)
    file.write_bytes(b"2")
    with pytest.raises(InvalidFileError, match=r"has no .*policy\.npz with the same content, and"):
        workers_here(setup, 1)
    with pytest.raises(InvalidFileError, match=r"policy\.npz has changed since this began"):
        setup_of(known, timeout=None)
