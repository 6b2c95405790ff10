"""Jobs of submitit's local executor: the same bytes as processes, whatever ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from runs.backends.places import kept, played, user_file

from goalmeter._errors import GoalmeterError, InvalidFileError
from goalmeter.navigation import measure
from goalmeter.runs import carry_out
from goalmeter.runs.backends import fleet
from goalmeter.runs.backends import slurm as slurm_module
from goalmeter.runs.backends.registry import opened

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
LOCAL = "slurm:cluster=local"
SMALL: dict[str, Any] = {"sizes": [5], "complexities": [1], "grids": 6, "trajectories": 2}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder, in which nothing is left."""
    pytest.importorskip("submitit")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    yield tmp_path
    assert list((tmp_path / "work").iterdir()) == []


def test_the_bytes_of_a_run_are_those_of_processes(folder: Path) -> None:
    results = []
    for number, on in enumerate(("here", f"{LOCAL},jobs=1", f"{LOCAL},jobs=2,cores=2")):
        out = folder / f"run-{number}"
        result = measure("boltzmann(2)", **SMALL, on=on, out=out, beside=[])
        results.append((kept(out), result.to_json()["overall"]))
    assert results[0] == results[1] == results[2]


def test_what_users_code_does_is_the_same_outcome(folder: Path) -> None:
    user = user_file(folder)
    expected = carry_out(played(user, "mixed"), on="processes:2")
    assert carry_out(played(user, "mixed"), on=f"{LOCAL},jobs=2") == expected
    results = carry_out(played(user, "hangs"), on=f"{LOCAL},jobs=2", timeout=10.0)
    assert results["CensoredObservation seed 0"]["detail"] == "no answer within 10 s"


def test_jobs_that_end_are_submitted_again(folder: Path) -> None:
    study = played(user_file(folder), "slow", seeds=40)
    expected = carry_out(study, on="processes:2")
    place = opened(f"{LOCAL},jobs=2", trials=len(study.trials), timeout=None)
    killed: list[int] = []
    names: set[str] = set()
    stop = threading.Event()

    def kill_some() -> None:
        while len(killed) < 2 and not stop.wait(0.5):
            working = place.working()
            names.update(each.worker for each in working)
            if working:
                # A local job is named after its process, which ends what it has started.
                number = int(working[0].worker.split()[2])
                if number in killed:
                    continue
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGINT)
                    killed.append(number)

    thread = threading.Thread(target=kill_some)
    thread.start()
    try:
        results = carry_out(study, on=place)
    finally:
        stop.set()
        thread.join()
    assert results == expected and list(results) == list(expected)
    assert killed and all(name.startswith("slurm job ") and " on " in name for name in names)


def test_a_job_with_another_version_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "version", lambda: "9.9")
    with pytest.raises(GoalmeterError, match=r"a job of Slurm cannot be used: .*expected 9\.9"):
        carry_out(played(user_file(folder), "good"), on=f"{LOCAL},jobs=1")


def test_a_folder_that_cannot_be_made(folder: Path) -> None:
    (folder / "file").touch()
    place = f"{LOCAL},folder={folder}/file/in"
    with pytest.raises(InvalidFileError, match=r"cannot be written: .*slurm:folder=PATH"):
        carry_out(played(user_file(folder), "good"), on=place)


def test_jobs_leave_when_their_driver_is_killed(folder: Path) -> None:
    user = user_file(folder)
    program = (
        "from pathlib import Path\n"
        "from runs.backends.places import played\n"
        "from goalmeter.runs import carry_out\n"
        "from goalmeter.runs.backends import slurm\n"
        "slurm.PATIENCE, slurm._BEAT_EVERY = 4.0, 0.5\n"
        "take = slurm.SlurmJobs.took\n"
        "def took(self, *arguments):\n"
        "    print(self._folder, flush=True)\n"
        "    return take(self, *arguments)\n"
        "slurm.SlurmJobs.took = took\n"
        f"on = '{LOCAL},jobs=1,folder={folder}/box'\n"
        f"carry_out(played(Path({str(user)!r}), 'hangs'), on=on)\n"
    )
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as driver:
        assert driver.stdout is not None
        mailbox = driver.stdout.readline().strip()
        assert Path(mailbox).is_dir() and processes_of(mailbox)
        driver.kill()
    end = time.monotonic() + 60
    while (left := processes_of(mailbox)) and time.monotonic() < end:
        time.sleep(0.2)
    assert not left


def test_jobs_end_without_a_word_where_the_mailbox_cannot_be_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    removed = slurm_module.shutil.rmtree
    monkeypatch.setattr(slurm_module, "_LEAVING", 4.0)
    with (
        monkeypatch.context() as disk,
        opened(f"{LOCAL},jobs=1", trials=1, timeout=None) as place,
    ):
        study = played(user_file(folder), "good")
        list(place.run(iter([study.batch(list(study.trials)[:1])])))
        (mailbox,) = (folder / "work" / ".goalmeter-slurm").iterdir()
        assert processes_of(str(mailbox))
        disk.setattr(slurm_module.shutil, "rmtree", lambda *path, **options: None)
    assert not processes_of(str(mailbox))
    assert "Traceback" not in capfd.readouterr().err
    removed(mailbox.parent)


def processes_of(folder: str) -> list[str]:
    """Command lines in which a folder stands."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if folder in line]


def test_slurm_that_takes_no_job_is_a_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A program of that name that fails as Slurm's does.
    programs = folder / "bin"
    programs.mkdir()
    for name in ("sbatch", "srun"):
        (programs / name).write_text("#!/bin/sh\necho 'invalid partition' >&2\nexit 1\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(GoalmeterError, match=r"Slurm takes no job: .*invalid partition"):
        carry_out(played(user_file(folder), "good"), on="slurm:partition=none,jobs=2")
    assert slurm_module._LOOK_AT_JOBS["slurm"] > 1  # Slurm is not asked in vain
