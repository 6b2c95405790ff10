"""Budgets and retries, against a real server on loopback that thinks of nothing."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

pytest.importorskip("inspect_ai")
pytest.importorskip("openai")

import anyio
from lm.mocks import best, mock
from lm.stubbed import Stubbed

from goalmeter import cli
from goalmeter._errors import IncompleteRunError, InvalidFileError, InvalidParameterError
from goalmeter.navigation import Trajectory
from goalmeter.navigation.inspect.budget import (
    ASKED,
    Budget,
    BudgetReachedError,
    Ledger,
    Spent,
    spent_in,
)
from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.inspect.run import ask, ask_all
from goalmeter.navigation.plan import forecast, plan_of
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import load
from goalmeter.runs.forecast import Span

SRC = Path(__file__).resolve().parents[2] / "src"
MODEL = "openai-api/stub/model"
MAZES: dict[str, Any] = {"sizes": [7], "complexities": [1], "grids": 3, "trajectories": 2}
ASKING = Asking(max_tokens=20)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STUB_API_KEY", "none")


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What would have been waited before questions were put again, in seconds."""
    from inspect_ai.model import _retry

    waited: list[float] = []

    async def shortly(seconds: float) -> None:
        waited.append(seconds)
        await anyio.sleep(0.01)

    monkeypatch.setattr(_retry, "_sleep", shortly)
    return waited


def walked(stub: Stubbed, folder: Path, **options: Any) -> list[Trajectory]:
    server = Server(base_url=stub.url, max_connections=4, **options.pop("reached", {}))
    return ask(MODEL, "maze", folder, **{"asking": ASKING, "server": server} | MAZES | options)


def told(stub: Stubbed) -> Spent:
    """What the server says that it was asked."""
    counts = stub.counts()
    return Spent(*(int(counts[n]) for n in ("calls", "input_tokens", "output_tokens")))


def same_walks(some: list[Trajectory], others: list[Trajectory]) -> bool:
    return [each.to_json() for each in some] == [each.to_json() for each in others]


# --- What is told before --------------------------------------------------------------------------
@pytest.mark.parametrize("asking", [ASKING, Asking(max_tokens=20, temperature=0.0)])
def test_calls_and_disk_are_those_that_were_told(asking: Asking, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    plan = plan_of(MODEL, "maze", asking=asking, **MAZES)
    cost = forecast(plan, out=folder)
    assert list(tmp_path.iterdir()) == [] and cost.calls is not None and cost.disk is not None
    with Stubbed(error=0.3) as stub:
        walks = walked(stub, folder, asking=asking)
        assert len(walks) == cost.trials == cost.left
        assert cost.calls.least <= told(stub).calls <= cost.calls.most
    size = (folder / "trials.jsonl").stat().st_size
    assert cost.disk.least / 2 < size < 2 * cost.disk.most
    assert forecast(plan, out=folder).calls == Span(0, 0)


# --- Budgets --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "budget",
    [
        {"calls": 1},
        {"calls": 13},
        {"tokens": 2500},
        {"tokens": 6000},
        {"usd": 0.02, "price_in": 3.0, "price_out": 40.0},
    ],
)
def test_a_budget_is_never_exceeded_and_a_larger_one_goes_on(
    budget: dict[str, Any], tmp_path: Path
) -> None:
    with Stubbed(seconds=0.02, speed=200.0, error=0.3) as stub:
        whole = walked(stub, tmp_path / "whole")
        needed = told(stub)
        limit = Budget(**budget)
        with pytest.raises(BudgetReachedError) as reached:
            walked(stub, tmp_path / "run", budget=limit)
        first = told(stub) - needed
        # What the run says is what the server says, and the budget allows it.
        assert reached.value.spent == spent_in(tmp_path / "run") == first
        assert limit.allows(first) and 0 < first.calls < needed.calls
        # The same budget buys nothing more.
        with pytest.raises(BudgetReachedError):
            walked(stub, tmp_path / "run", budget=limit)
        assert told(stub) - needed == first
        # No step is asked for twice, also of walks that were half-way.
        done = walked(stub, tmp_path / "run")
        assert same_walks(done, whole)
        assert told(stub) - needed == spent_in(tmp_path / "run")
        assert spent_in(tmp_path / "run").calls == needed.calls


def test_no_request_is_sent_that_is_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_pauses: list[float]
) -> None:
    """Inspect would ask OpenAI for a summary of "hello, world" before each question that fails."""
    requests: list[bytes] = []

    class Failing(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            requests.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_error(500)

        def log_message(self, *args: Any) -> None:
            pass

    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        reached = Server(base_url=f"http://127.0.0.1:{server.server_port}/v1", max_connections=1)
        budget = Budget(calls=3)
        with pytest.raises(BudgetReachedError):
            ask("openai/o4-mini", "maze", tmp_path, server=reached, budget=budget, **MAZES)
        server.shutdown()
    assert len(requests) == spent_in(tmp_path).calls == 3
    assert not any(b"hello, world" in request for request in requests)


def test_what_ended_is_kept_and_no_part_is_measured(tmp_path: Path) -> None:
    with Stubbed(error=0.3) as stub, pytest.raises(BudgetReachedError) as reached:
        walked(stub, tmp_path, budget=Budget(calls=20))
    ended, half = reached.value.ended, reached.value.half
    assert ended + half <= reached.value.walks == 6 and half
    kept = (tmp_path / "trials.jsonl").read_text().splitlines()
    assert len(kept) == ended and not any(", failed" in line for line in kept)
    with pytest.raises(IncompleteRunError, match=f"lacks {6 - ended} of 6 walks"):
        load(tmp_path)
    ledger = Ledger(tmp_path)
    ledger.close()
    steps = sum(len(walk.steps) for walk in ledger.half.values())
    steps += sum(len(json.loads(line)["value"]["steps"]) for line in kept)
    assert steps == 20 and len(ledger.half) == half


def test_a_cap_on_tokens_begins_half_walks_anew(tmp_path: Path) -> None:
    # How much of the cap was used is not on record, and the walk must not have it twice.
    asking = Asking(max_tokens=20, token_cap=10_000)
    with Stubbed() as stub:
        with pytest.raises(BudgetReachedError):
            walked(stub, tmp_path, asking=asking, budget=Budget(calls=5))
        walks = walked(stub, tmp_path, asking=asking)
        steps = sum(len(walk.steps) for walk in walks)
        assert told(stub).calls == steps + 5


def test_calls_that_failed_count_as_calls(tmp_path: Path, short_pauses: list[float]) -> None:
    with Stubbed(failing=0.3, retry_after=0.0) as stub:
        walks = walked(stub, tmp_path, reached={"max_retries": 50})
        assert {walk.outcome for walk in walks} == {"arrived"}
        counts = stub.counts()
        assert counts["calls"] > counts["answers"] == sum(len(walk.steps) for walk in walks)
        assert all(counts[name] for name in ("500", "429", "drop", "garbage"))
        assert spent_in(tmp_path) == told(stub)
        # With them too, a budget is not exceeded.
        before = told(stub)
        with pytest.raises(BudgetReachedError) as reached:
            walked(stub, tmp_path / "b", budget=Budget(calls=17), reached={"max_retries": 50})
        assert (told(stub) - before).calls == reached.value.spent.calls == 17


def test_walks_that_failed_for_good_count_and_cost(
    tmp_path: Path, short_pauses: list[float]
) -> None:
    with Stubbed(failing=1.0) as stub:
        walks = walked(stub, tmp_path, rounds=0, reached={"max_retries": 1})
        assert all(walk.steps == () for walk in walks)
        assert spent_in(tmp_path) == told(stub) and spent_in(tmp_path).tokens == 0


def test_what_was_asked_once_at_temperature_0_costs_once(tmp_path: Path) -> None:
    asking = Asking(max_tokens=20, temperature=0.0)
    with Stubbed() as stub:
        walks = walked(stub, tmp_path, asking=asking)
        asked = {step.prompt for walk in walks for step in walk.steps}
        assert spent_in(tmp_path).calls == told(stub).calls == len(asked)
        assert len(asked) < sum(len(walk.steps) for walk in walks)


def test_a_killed_client_loses_no_count(tmp_path: Path) -> None:
    with Stubbed(seconds=0.05, tail=0.1) as stub:
        words = ["--sizes=7", "--complexities=1", "--grids=3", "--max-tokens=20"]
        words += ["--max-connections=4", f"--model-base-url={stub.url}", "--budget=calls=30"]
        command = [sys.executable, "-m", "goalmeter", "navigate", MODEL, *words]
        command += [f"--out={tmp_path}", "--json"]
        environment = os.environ | {"PYTHONPATH": str(SRC)}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        client = subprocess.Popen(command, env=environment, text=True, **pipes)
        while stub.counts()["calls"] < 12:
            time.sleep(0.005)
            assert client.poll() is None, client.communicate()
        client.kill()
        client.communicate()
        time.sleep(0.2)
        # A call is written down before it is sent, so that at most too many are counted.
        counted, sent = spent_in(tmp_path).calls, told(stub).calls
        assert sent <= counted <= sent + 4
        done = subprocess.run(command, env=environment, text=True, check=False, **pipes)
        assert done.returncode == 3
        shown = json.loads(done.stdout)
        assert (
            shown["complete"] is False and shown["cells"] == [] and shown["budget"]["calls"] == 30
        )
        assert shown["spent"]["calls"] == 30 == spent_in(tmp_path).calls
        assert told(stub).calls == 30 - (counted - sent)
        assert "the budget is reached after 30 of 30 calls" in done.stderr
        assert f"with a larger --budget goes on from {tmp_path}" in done.stderr


def test_the_command_says_that_a_run_is_not_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def status(words: list[str]) -> object:
        monkeypatch.setattr("sys.argv", ["goalmeter", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code

    words = ["--sizes=7", "--complexities=1", "--grids=2", "--trajectories=1", "--max-tokens=20"]
    prices = ["--price-in=1", "--price-out=10"]
    with Stubbed() as stub:
        words += [f"--model-base-url={stub.url}", f"--out={tmp_path}"]
        first = ["navigate", MODEL, *words, *prices]
        assert status([*first, "--budget=calls=3,usd=1"]) == 3
        message = capsys.readouterr()
        assert "run is not complete" in message.out and "goal reached" not in message.out
        assert "of 2 walks have ended" in message.err
        assert not status([*first, "--json"])
        shown = json.loads(capsys.readouterr().out)
    spent = spent_in(tmp_path)
    assert shown["spent"]["tokens"] == spent.tokens and shown["spent"]["calls"] == spent.calls
    cost = (spent.input_tokens + 10 * spent.output_tokens) / 1e6
    assert shown["spent"]["usd"] == pytest.approx(cost)


def test_a_server_that_does_not_count_tokens(tmp_path: Path) -> None:
    with Stubbed(says_tokens=False) as stub:
        with pytest.raises(InvalidParameterError, match="does not say how many tokens"):
            walked(stub, tmp_path, budget=Budget(tokens=10**6))
        walked(stub, tmp_path, budget=Budget(calls=10**6))


def test_a_budget_below_one_question(tmp_path: Path) -> None:
    with Stubbed() as stub:
        with pytest.raises(
            InvalidParameterError, match=r"not allow a single question.* max_tokens"
        ):
            walked(stub, tmp_path, budget=Budget(tokens=500))
        assert stub.counts()["calls"] == 0


# --- The file -------------------------------------------------------------------------------------
def test_a_torn_line_is_left_out_and_a_foreign_one_refused(tmp_path: Path) -> None:
    file = tmp_path / ASKED
    whole = '{"calls": 1}\n{"input_tokens": 5, "output_tokens": 2}\n'
    file.write_text(whole + '{"calls"')
    assert spent_in(tmp_path) == Spent(1, 5, 2)
    ledger = Ledger(tmp_path)
    ledger.called()
    ledger.close()
    assert spent_in(tmp_path) == Spent(2, 5, 2)
    for line in ("{", "[]", '{"calls": -1}', '{"calls": true}', '{"dollars": 3}', '{"half": "a"}'):
        file.write_text(whole + line + "\n")
        with pytest.raises(InvalidFileError, match=rf"{ASKED}, line 3: "):
            spent_in(tmp_path)


def test_a_disk_that_is_full_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write

    def full(file: int, data: bytes) -> int:
        if data.startswith(b'{"input_tokens"') and spent_in(tmp_path).calls > 4:
            raise OSError(28, "No space left on device")
        return write(file, data)

    with Stubbed() as stub:
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            with pytest.raises(InvalidFileError, match=rf"{ASKED} cannot be written: No space"):
                walked(stub, tmp_path)
        assert {walk.outcome for walk in walked(stub, tmp_path)} == {"arrived"}


def test_the_longest_walks_begin_first(tmp_path: Path) -> None:
    begun: list[str] = []

    def answer(prompt: str, config: Any) -> str:
        begun.append(prompt)
        return best(prompt)

    plan = plan_of("mockllm/model", "maze", **MAZES, asking=Asking())
    walks = ask_all(plan, out=tmp_path, model=mock(answer), server=Server(max_connections=1))
    distances = {walk.steps[0].prompt: walk.distance for walk in walks.trajectories}
    firsts = [distances[prompt] for prompt in dict.fromkeys(begun) if prompt in distances]
    assert firsts == sorted(firsts, reverse=True) and len(set(firsts)) > 1
    # The order of the results is that of the suite.
    assert [walk.grid for walk in walks.trajectories] == [0, 0, 1, 1, 2, 2]


# --- Retries --------------------------------------------------------------------------------------
def test_a_server_that_is_full_fails_no_walk(tmp_path: Path, short_pauses: list[float]) -> None:
    # Two of four questions at once are too many; none may be put again as a failure.
    with Stubbed(seconds=0.02, most=2, retry_after=7.0) as stub:
        walks = walked(stub, tmp_path, rounds=0, reached={"max_retries": 0})
        counts = stub.counts()
    assert {walk.outcome for walk in walks} == {"arrived"} and counts["429"] > 0
    # The server says when, and questions do not come back all at once.
    assert all(7.0 <= seconds <= 8.75 for seconds in short_pauses)
    assert len(set(short_pauses)) == len(short_pauses) == counts["429"]


def test_a_server_that_is_full_for_good_is_given_up(
    tmp_path: Path, short_pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("goalmeter.navigation.inspect.models.PATIENCE", 0.2)
    options: dict[str, Any] = {"grids": 1, "trajectories": 1, "rounds": 0}
    with Stubbed(seconds=5.0, most=1, retry_after=0.01) as stub:
        body = json.dumps({"model": "m", "messages": [{"content": "none"}]}).encode()

        def occupy() -> None:
            with contextlib.suppress(OSError):
                urlopen(Request(f"{stub.url}/chat/completions", body)).read()

        threading.Thread(target=occupy, daemon=True).start()
        while not stub.counts()["now"]:
            time.sleep(0.01)
        (walk,) = walked(stub, tmp_path, reached={"max_retries": 0}, **options)
    assert walk.outcome == "rate limit"


def test_waits_grow_and_are_scattered(tmp_path: Path, short_pauses: list[float]) -> None:
    options: dict[str, Any] = {"grids": 1, "trajectories": 1, "rounds": 0}
    with Stubbed(failing=1.0, retry_after=0.0) as stub:
        (walk,) = walked(stub, tmp_path, reached={"max_retries": 8}, **options)
    assert walk.outcome == "server error" or walk.outcome == "server unreachable"
    expected = [min(3.0 * 2**n, 60.0) for n in range(len(short_pauses))]
    assert len(short_pauses) >= 8
    for seconds, middle in zip(short_pauses, expected, strict=True):
        assert 0.5 * middle <= seconds <= 1.5 * middle
