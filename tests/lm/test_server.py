"""The whole path against a real server of a tiny model, which is killed in the middle."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")
pytest.importorskip("transformers")

from goalmeter.navigation import SUITES, Trajectory, suite
from goalmeter.navigation.eval_log import trajectories, written
from goalmeter.navigation.inspect_run import ask

SERVER = Path(__file__).with_name("server.py")
SMALL: dict[str, Any] = {"grids": 1, "cap": 4}
MAZES: dict[str, Any] = SMALL | {"sizes": [7], "complexities": [1], "trajectories": 2}


class Served:
    """A server that can be killed and started again on its port."""

    def __init__(self, folder: Path, calls: Path, seconds: float = 0.0) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.calls = calls
        self._command = [sys.executable, SERVER, folder, str(self.port), calls, str(seconds)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == str(self.port)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def answered(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture(scope="module")
def served(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(models / "speaking-llama", tmp_path_factory.mktemp("server") / "calls", 0.02)
    yield server
    server.kill()


@pytest.fixture(autouse=True)
def address(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPBACK_BASE_URL", f"http://127.0.0.1:{served.port}/v1")
    monkeypatch.setenv("LOOPBACK_API_KEY", "none")


def all_there(walks: list[Trajectory], name: str, **options: Any) -> bool:
    """Whether each walk of a suite is there once."""
    prompt = "plain/1" if name in ("maze", "isometries") else "keys/1"
    made = suite(name, conditions=[{"prompt": prompt}], **options)
    expected = [(str(task.world), str(task.condition), n) for task, n in made.walks()]
    found = [(str(t.world), str(t.condition), t.trajectory) for t in walks]
    return sorted(found) == sorted(expected)


@pytest.mark.parametrize("name", SUITES)
def test_every_suite(name: str, tmp_path: Path) -> None:
    options = MAZES if name in ("maze", "isometries") else SMALL
    limits = {"max_tokens": 12, "logprobs": True, "top_logprobs": 4}
    out = tmp_path / "walks.jsonl"
    walks = ask(
        "openai-api/loopback/tiny",
        name,
        tmp_path / "logs",
        inspect_options=limits | {"temperature": 1.0, "top_p": 1.0},
        out=str(out),
        **options,
    )
    assert all_there(walks, name, **options)
    assert sorted(map(repr, written(out))) == sorted(map(repr, walks))
    for done in walks:
        assert done.outcome in ("arrived", "cap")
        for step in done.steps:
            assert step.action is not None and isinstance(step.prompt_tokens, int)
            assert step.probabilities == pytest.approx((0.1, 0.4, 0.2, 0.3), abs=1e-4)


@pytest.mark.parametrize(
    ("model", "outcome"),
    [("broken", "server error"), ("refuses", "request refused"), ("slow", "timeout")],
)
def test_a_server_that_misbehaves(model: str, outcome: str, tmp_path: Path) -> None:
    walks = ask(
        f"openai-api/loopback/{model}",
        "maze",
        tmp_path / "logs",
        model_options={"max_retries": 0},
        inspect_options={"max_retries": 0, "attempt_timeout": 1},
        rounds=0,
        **MAZES,
    )
    assert all_there(walks, "maze", **MAZES)
    assert {(t.outcome, t.steps) for t in walks} == {(outcome, ())}


def test_a_server_that_says_nothing(tmp_path: Path) -> None:
    (walk, _) = ask("openai-api/loopback/mute", "maze", tmp_path / "logs", **MAZES)
    assert walk.outcome == "cap" and {s.invalid for s in walk.steps} == {"an empty answer"}


def test_a_server_that_keeps_the_reasoning_apart(tmp_path: Path) -> None:
    options = {"max_tokens": 12}
    walks = ask(
        "openai-api/loopback/thinks", "maze", tmp_path / "logs", inspect_options=options, **MAZES
    )
    steps = [step for done in walks for step in done.steps]
    assert steps and {step.reasoning for step in steps} == {"UP or DOWN?"}
    assert all("UP or" not in (step.raw or "") for step in steps)


def test_a_server_that_is_killed_and_comes_back(served: Served, tmp_path: Path) -> None:
    # Questions on their way are lost with it; clients ask again until it is back.
    options = MAZES | {"trajectories": 12, "cap": 8}
    before = served.answered()

    def replaced() -> None:
        while served.answered() < before + 15:
            time.sleep(0.01)
        served.kill()
        time.sleep(0.5)
        served.start()

    thread = threading.Thread(target=replaced)
    thread.start()
    walks = ask(
        "openai-api/loopback/tiny",
        "maze",
        tmp_path / "logs",
        inspect_options={"max_tokens": 12, "max_retries": 6, "max_connections": 4},
        **options,
    )
    thread.join()
    assert all_there(walks, "maze", **options)
    assert {t.outcome for t in walks} <= {"arrived", "cap"}


def test_a_server_that_stays_away_and_a_run_that_goes_on(served: Served, tmp_path: Path) -> None:
    options = MAZES | {"trajectories": 8, "cap": 8}

    def run() -> list[Trajectory]:
        return ask(
            "openai-api/loopback/tiny",
            "maze",
            tmp_path / "logs",
            model_options={"max_retries": 0},
            inspect_options={"max_tokens": 12, "max_retries": 0, "max_connections": 2},
            rounds=0,
            **options,
        )

    before = served.answered()

    def gone() -> None:
        while served.answered() < before + 20:
            time.sleep(0.01)
        served.kill()

    thread = threading.Thread(target=gone)
    thread.start()
    first = run()
    thread.join()
    assert all_there(first, "maze", **options)
    outcomes = {t.outcome for t in first}
    assert "server unreachable" in outcomes and outcomes <= {"arrived", "cap", "server unreachable"}
    finished = [t for t in first if t.outcome != "server unreachable"]
    assert finished
    served.start()
    second = run()
    assert all_there(second, "maze", **options)
    assert {t.outcome for t in second} <= {"arrived", "cap"}
    # What was finished is what it was.
    assert all(t in second for t in finished)


CLIENT = """
import sys
from goalmeter.navigation.inspect_run import ask
ask("openai-api/loopback/tiny", "maze", sys.argv[1], sizes=[7], complexities=[1], grids=1, cap=6,
    trajectories=16, inspect_options={"max_tokens": 12, "max_connections": 2}, out=sys.argv[2])
"""


def test_a_client_that_is_killed(served: Served, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "walks.jsonl"
    command = [sys.executable, "-c", CLIENT, str(logs), str(out)]
    before = served.answered()
    client = subprocess.Popen(command, start_new_session=True)
    while served.answered() < before + 50:
        time.sleep(0.01)
        assert client.poll() is None
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    at_the_kill = served.answered() - before
    kept = trajectories(logs)
    ended_before = written(out)
    assert kept and all(t.outcome in ("arrived", "cap") for t in kept)
    assert len(kept) <= len(ended_before) < 16
    assert subprocess.run(command, check=False).returncode == 0
    walks = trajectories(logs)
    options = MAZES | {"cap": 6, "trajectories": 16}
    assert all_there(walks, "maze", **options)
    # What the log had is kept and not asked again, the rest is there, and seeds make it the same.
    assert all(t in walks for t in kept) and all(t in walks for t in ended_before)
    steps = sum(len(t.steps) for t in walks) - sum(len(t.steps) for t in kept)
    assert served.answered() - before - at_the_kill <= steps + 2
    assert sorted(map(repr, written(out))) == sorted(map(repr, walks))
