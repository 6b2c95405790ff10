"""A real Ray cluster of this machine, started once: the same bytes, whatever dies."""

from __future__ import annotations

import os
import signal
import socket
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

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.navigation import measure
from goalmeter.runs import carry_out
from goalmeter.runs.backends import fleet, ray_cluster
from goalmeter.runs.backends import ray_cluster as ray_session
from goalmeter.runs.backends.ray_cluster import RayCluster

# One process of the suite starts the cluster, and runs all of this.
pytestmark = [
    pytest.mark.xdist_group("ray"),
    # What Ray itself gives up or leaves open.
    pytest.mark.filterwarnings("ignore:::ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SMALL: dict[str, Any] = {"sizes": [5], "complexities": [1], "grids": 6, "trajectories": 2}


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayCluster]:
    ray = pytest.importorskip("ray")
    with RayCluster("local", 2, None) as cluster:
        folder = Path(ray_session._JOINED.folder)
        assert folder.is_dir() and processes_of(folder)
        yield cluster
    ray_session.leave(ray)
    assert not folder.exists() and not any(name.startswith("RAY_AUTH") for name in os.environ)


def test_the_bytes_of_a_run_are_those_of_processes(cluster: RayCluster, tmp_path: Path) -> None:
    results = {}
    for on in ("here", "processes:1", "processes:2", "processes:4", "ray", "ray:local,cpus=1"):
        result = measure("boltzmann(2)", **SMALL, on=on, out=tmp_path / on, beside=[])
        results[on] = (kept(tmp_path / on), result.to_json()["overall"])
    assert all(result == results["here"] for result in results.values())


def test_what_users_code_does_is_the_same_outcome(cluster: RayCluster, tmp_path: Path) -> None:
    study = played(user_file(tmp_path), "mixed")
    expected = carry_out(study, on="processes:2")
    assert carry_out(study, on="ray") == expected
    assert {value["outcome"] for value in expected.values()} >= {"crash", "exception"}


def test_a_trial_that_takes_too_long_is_ended(cluster: RayCluster, tmp_path: Path) -> None:
    results = carry_out(played(user_file(tmp_path), "hangs"), on="ray", timeout=8.0)
    assert results["CensoredObservation seed 0"] == {
        "outcome": "timeout",
        "detail": "no answer within 8 s",
    }
    assert [value["outcome"] for value in results.values()].count("ok") == 3


def test_processes_of_ray_that_are_killed_change_nothing(
    cluster: RayCluster, tmp_path: Path
) -> None:
    study = played(user_file(tmp_path), "slow", seeds=20)
    expected = carry_out(study, on="processes:2")
    place = RayCluster("", 2, None)
    seen: set[str] = set()
    killed: list[int] = []
    stop = threading.Event()

    def kill_some() -> None:
        while len(killed) < 3 and not stop.wait(0.3):
            working = list(place.working())
            seen.update(each.worker for each in working)
            for each in working[:1]:
                with suppress(ProcessLookupError):
                    os.kill(int(each.worker.split()[-1]), signal.SIGKILL)
                    killed.append(each.batch)

    thread = threading.Thread(target=kill_some)
    thread.start()
    try:
        results = carry_out(study, on=place)
    finally:
        stop.set()
        thread.join()
    assert results == expected and list(results) == list(expected)
    assert killed and all(name.startswith(f"ray {socket.gethostname()} process ") for name in seen)


def test_a_node_with_another_version_is_a_sentence(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "version", lambda: "9.9")
    with pytest.raises(GoalmeterError, match=r"a node of the Ray cluster cannot be used: .*9\.9"):
        carry_out(played(user_file(tmp_path), "good"), on="ray")


def test_a_cluster_without_a_free_cpu_is_a_sentence(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    cpus = ray.cluster_resources()["CPU"]
    blocker = ray.remote(num_cpus=cpus)(threading.Event).remote()
    ray.get(blocker.is_set.remote())
    monkeypatch.setattr(ray_cluster, "_PATIENCE", 1.0)
    monkeypatch.setattr(ray_cluster, "_LOOK_EVERY", 0.5)
    try:
        with pytest.raises(GoalmeterError, match="no free CPU for 0 minutes; ray status shows"):
            carry_out(played(user_file(tmp_path), "good"), on="ray")
    finally:
        ray.kill(blocker)


# --- Without a cluster ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("address", "kind", "message"),
    [
        ("127.0.0.1:1", GoalmeterError, "nobody answers at 127.0.0.1:1: .*refused; look whether"),
        ("somewhere", InvalidParameterError, "'somewhere' is no address of a Ray cluster, expect"),
    ],
)
def test_an_address_where_nobody_is(address: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        ray_session._reach(address)


class FakeRay:
    """Ray as far as it is joined: what `init` is asked, and what it raises."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors = list(errors)
        self.asked: list[str] = []

    def init(self, *, address: str, **options: Any) -> None:
        self.asked.append(address)
        if (error := self.errors.pop(0)) is not None:
            raise error

    def shutdown(self) -> None:
        self.asked.append("shutdown")


def test_without_a_running_cluster_one_is_started() -> None:
    ray: Any = FakeRay(ConnectionError("none"), None)
    folder = ray_session._connect(ray, "auto")
    assert ray.asked == ["auto", "local"] and Path(folder).is_dir()
    Path(folder).rmdir()
    ray = FakeRay(None)
    assert ray_session._connect(ray, "auto") == "" and ray.asked == ["auto"]
    ray = FakeRay(RuntimeError("no room\nat all"))
    with pytest.raises(GoalmeterError, match="no Ray cluster starts on this machine: no room; run"):
        ray_session._connect(ray, "local")
    assert ray.asked == ["local", "shutdown"]


def test_a_cluster_with_another_ray_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_session, "_reach", lambda address: None)
    ray: Any = FakeRay(RuntimeError("Version mismatch: the cluster has\n Ray: 1.0"))
    message = "at there:1 cannot be joined: Version mismatch: the cluster has Ray: 1.0; install the"
    with pytest.raises(GoalmeterError, match=message):
        ray_session._connect(ray, "there:1")
    ray = FakeRay(ConnectionError("no answer"))
    with pytest.raises(GoalmeterError, match="at there:1 cannot be joined: no answer"):
        ray_session._connect(ray, "there:1")


def test_nothing_of_it_is_imported_unless_asked_for() -> None:
    program = (
        "import sys, goalmeter.cli, goalmeter.runs as runs; runs.check_place('processes:2'); "
        "sys.exit(bool({'ray', 'submitit'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_environment_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "there")
    before = dict(os.environ)
    with ray_session._environment({"RAY_ADDRESS": "", "PYTHONPATH": "/nowhere"}):
        assert "RAY_ADDRESS" not in os.environ and os.environ["PYTHONPATH"] == "/nowhere"
        os.environ["RAY_AUTH_MODE"] = "token"  # as Ray does
    assert dict(os.environ) == before


def test_ctrl_c_ends_what_was_started(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    user = user_file(tmp_path)
    program = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from pathlib import Path\n"
        "from runs.backends.places import played\n"
        "from goalmeter.runs import carry_out\n"
        "from goalmeter.runs.backends import ray_cluster, ray_session\n"
        "take = ray_cluster.RayCluster.took\n"
        "def took(self, *arguments):\n"
        "    print(ray_session._JOINED.folder, flush=True)\n"
        "    return take(self, *arguments)\n"
        "ray_cluster.RayCluster.took = took\n"
        f"carry_out(played(Path({str(user)!r}), 'hangs'), on='ray:local,cpus=1')\n"
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
        folder = Path(driver.stdout.readline().strip())
        assert folder.is_dir()
        driver.send_signal(signal.SIGINT)
        assert driver.wait(timeout=120) != 0
    assert not folder.exists()
    end = time.monotonic() + 20
    while (left := processes_of(folder)) and time.monotonic() < end:
        time.sleep(0.2)
    assert not left


def processes_of(folder: Path) -> list[str]:
    """Command lines in which a cluster's folder stands."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            lines.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if str(folder) in line]
