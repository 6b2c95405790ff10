"""The whole path against a real server of a tiny model; it and its clients are killed."""

from __future__ import annotations

import json
import os
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

import anyio
from lm.tiny_models import Models

from goalmeter.navigation import SUITES, Trajectory, suite
from goalmeter.navigation.inspect.eval_log import trajectories
from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.inspect.run import ask
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import load
from goalmeter.runs.reading import read_run

SRC = Path(__file__).resolve().parents[2] / "src"
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
        command = [sys.executable, SERVER, folder, str(self.port), calls, str(seconds)]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, **pipes)
        self.start()

    def start(self) -> None:
        assert self._told("start") == str(self.port)

    def kill(self) -> None:
        assert self._told("kill") == "killed"

    def end(self) -> None:
        self._process.communicate()

    def _told(self, what: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{what}\n")
        self._process.stdin.flush()
        return str(self._process.stdout.readline().strip())

    def answered(self) -> int:
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0


@pytest.fixture(scope="module")
def served(models: Models, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(models / "speaking-llama", tmp_path_factory.mktemp("server") / "calls", 0.02)
    yield server
    server.end()


@pytest.fixture(autouse=True)
def address(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPBACK_BASE_URL", f"http://127.0.0.1:{served.port}/v1")
    monkeypatch.setenv("LOOPBACK_API_KEY", "none")
    monkeypatch.setenv("VLLM_BASE_URL", f"http://127.0.0.1:{served.port}/v1")


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inspect waits three seconds and more before it puts a question again."""
    from inspect_ai.model import _retry

    async def shortly(seconds: float) -> None:
        await anyio.sleep(0.2)

    monkeypatch.setattr(_retry, "_sleep", shortly)


def all_there(walks: list[Trajectory], name: str, **options: Any) -> bool:
    """Whether each walk of a suite is there once."""
    prompt = "plain/1" if name in ("maze", "isometries") else "keys/1"
    made = suite(name, conditions=[{"prompt": prompt}], **options)
    expected = [(str(task.world), str(task.condition), n) for task, n in made.walks()]
    measured = [(str(t.world), str(t.condition), t.trajectory) for t in walks]
    return sorted(measured) == sorted(expected)


def through_mazes(model: str, folder: Path, **options: Any) -> list[Trajectory]:
    """The walks of a model of the server through two mazes, or through others."""
    return ask(f"openai-api/loopback/{model}", "maze", folder, **MAZES | options)


@pytest.mark.parametrize("name", SUITES)
def test_every_suite(name: str, tmp_path: Path) -> None:
    options = MAZES if name in ("maze", "isometries") else SMALL
    asking = Asking(max_tokens=12, logprobs=True, temperature=1.0, top_p=1.0)
    walks = ask("vllm/tiny", name, tmp_path / "run", asking=asking, **options)
    assert all_there(walks, name, **options)
    # The run says what Inspect's log says.
    assert sorted(map(repr, trajectories(tmp_path / "run"))) == sorted(map(repr, walks))
    measured = load(tmp_path / "run")
    assert list(measured.trajectories) == walks and measured.plan.asking == asking
    for done in walks:
        assert done.outcome in ("arrived", "cap")
        for step in done.steps:
            assert step.action is not None and isinstance(step.prompt_tokens, int)
            assert step.probabilities == pytest.approx((0.1, 0.4, 0.2, 0.3), abs=1e-4)


@pytest.mark.parametrize(
    ("model", "outcome", "why"),
    [
        ("broken", "server error", "out of memory"),
        ("refuses", "request refused", "no such thing"),
        ("slow", "timeout", "Timeout"),
    ],
)
def test_a_server_that_misbehaves(model: str, outcome: str, why: str, tmp_path: Path) -> None:
    message: list[str] = []
    server = Server(max_retries=0, timeout=1 if model == "slow" else 60)
    asking = Asking(options={"max_retries": 0})
    told = {"rounds": 0, "progress": message.append}
    walks = through_mazes(model, tmp_path, asking=asking, server=server, **told)
    assert all_there(walks, "maze", **MAZES)
    assert {(t.outcome, t.steps) for t in walks} == {(outcome, ())}
    # They are on record as tries, and count in every table.
    assert all(key.endswith(", failed 1") for key in read_run(tmp_path).values)
    assert list(load(tmp_path).trajectories) == walks
    assert why in message[-1] and "messages" not in message[-1]


def test_a_server_that_says_nothing(tmp_path: Path) -> None:
    (walk, _) = through_mazes("mute", tmp_path)
    assert walk.outcome == "cap" and {s.invalid for s in walk.steps} == {"an empty answer"}


@pytest.mark.parametrize(
    ("model", "why"), [("none", "no choices"), ("null", "null as its content")]
)
def test_a_reply_without_content_is_the_servers_failure(
    model: str, why: str, served: Served, tmp_path: Path, short_pauses: None
) -> None:
    message: list[str] = []
    before = served.answered()
    told = {"rounds": 0, "progress": message.append}
    walks = through_mazes(model, tmp_path, server=Server(max_retries=1), **told)
    assert all_there(walks, "maze", **MAZES)
    assert {(t.outcome, t.steps) for t in walks} == {("server error", ())}
    assert served.answered() - before == 2 * len(walks)  # each question was put again once
    assert why in message[-1]


@pytest.mark.parametrize("model", ["none-once", "null-once"])
def test_a_question_is_put_again_after_a_reply_without_content(
    model: str, tmp_path: Path, short_pauses: None
) -> None:
    # One walk of one step, whose first reply or second one is empty.
    asking = Asking(max_tokens=12, attempts=1)
    for run in ("a", "b"):
        (walk,) = through_mazes(model, tmp_path / run, asking=asking, trajectories=1, cap=1)
        assert walk.outcome == "cap" and walk.steps[0].action is not None


@pytest.mark.parametrize("provider", ["openai-api/loopback", "vllm"])
def test_a_context_overflow_is_an_outcome_of_its_own(provider: str, tmp_path: Path) -> None:
    message: list[str] = []
    walks = ask(f"{provider}/long", "maze", tmp_path, progress=message.append, **MAZES)
    assert all_there(walks, "maze", **MAZES)
    # It ends the walk, is no answer of the model, and is not asked for again.
    assert {(t.outcome, t.steps) for t in walks} == {("context overflow", ())}
    assert list(load(tmp_path).trajectories) == walks
    assert not any(", failed" in key for key in read_run(tmp_path).values)
    assert "2 walks ended with a context overflow: the prompt and --max-tokens" in message[-1]


def test_a_server_that_keeps_the_reasoning_apart(tmp_path: Path) -> None:
    walks = through_mazes("thinks", tmp_path, asking=Asking(max_tokens=12))
    steps = [step for done in walks for step in done.steps]
    assert steps and {step.reasoning for step in steps} == {"UP or DOWN?"}
    assert all("UP or" not in (step.raw or "") for step in steps)


def test_a_server_that_is_killed_and_comes_back(
    served: Served, tmp_path: Path, short_pauses: None
) -> None:
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
    server = Server(max_retries=300, max_connections=4)
    walks = through_mazes("tiny", tmp_path, asking=Asking(max_tokens=12), server=server, **options)
    thread.join()
    assert all_there(walks, "maze", **options)
    assert {t.outcome for t in walks} <= {"arrived", "cap"}


WALKS = 10


def test_nothing_is_lost_when_the_client_and_then_the_server_is_killed(
    served: Served, tmp_path: Path
) -> None:
    name, worlds = "key-door", {"grids": WALKS, "cap": 6}
    words = [f"--{option}={value}" for option, value in worlds.items()]
    limits = ["--max-tokens=12", "--max-connections=3", "--max-retries=0", "--rounds=0"]
    command = [sys.executable, "-m", "goalmeter", "navigate", "vllm/tiny", "--suite", name, *words]
    command += [*limits, "--out", str(tmp_path), "--json"]
    run: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run["env"] = os.environ | {"PYTHONPATH": str(SRC)}
    trials = tmp_path / "trials.jsonl"

    def lines() -> list[str]:
        return trials.read_text().splitlines() if trials.exists() else []

    def begun(walks: int) -> subprocess.Popen[str]:
        """A client that has ended some more walks."""
        more = len(lines()) + walks
        client = subprocess.Popen(command, **run)
        while len(lines()) < more:
            time.sleep(0.005)
            assert client.poll() is None, client.communicate()
        return client

    client = begun(2)
    client.kill()
    client.communicate()
    first = lines()
    assert 2 <= len(first) < WALKS

    client = begun(1)
    served.kill()
    message, told = client.communicate()
    second = lines()
    # Every walk is in the table, those that the server failed as such, and the status says so.
    assert client.returncode == 3 and second[: len(first)] == first
    failed = json.loads(message)["failed"]
    assert set(failed) == {"server unreachable"}
    assert f"{sum(failed.values())} of {WALKS} walks failed" in told
    assert "the same command makes them again" in told
    outcomes = [t.outcome for t in load(tmp_path).trajectories]
    assert len(outcomes) == WALKS and outcomes.count("server unreachable") == sum(failed.values())
    ended = [line for line in second if ", failed 1" not in line]
    assert len(ended) == WALKS - sum(failed.values()) > len(first)

    served.start()
    before = served.answered()
    last = subprocess.run(command, **run, check=False)
    assert last.returncode == 0, last.stderr
    assert lines()[: len(second)] == second
    walks = list(load(tmp_path).trajectories)
    assert all_there(walks, name, **worlds) and json.loads(last.stdout)["failed"] == {}
    assert {t.outcome for t in walks} <= {"arrived", "cap"}
    # Only the walks that failed were asked for again.
    again = [t for t in walks if json.dumps(t.to_json(), ensure_ascii=False) not in "".join(ended)]
    assert len(again) == WALKS - len(ended)
    assert served.answered() - before == sum(s.attempts or 0 for t in again for s in t.steps)
