"""`goalmeter navigate MODEL` in one process: what it keeps, makes again, takes over and refuses."""

from __future__ import annotations

import signal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("inspect_ai")

from inspect_ai import eval
from lm.mocks import best, mock

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.commands.navigate import navigate
from goalmeter.navigation.inspect import run as inspect_run
from goalmeter.navigation.inspect.eval_log import trajectories
from goalmeter.navigation.inspect.run import ask_all
from goalmeter.navigation.inspect.task import navigation
from goalmeter.navigation.plan import NavigationOptions, plan_of
from goalmeter.navigation.prompts import Asking
from goalmeter.navigation.rollouts import load
from goalmeter.runs import read_run

ONE: dict[str, Any] = {"sizes": [7], "complexities": [1.0], "grids": 2, "trajectories": 2}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_run, "WAIT", 0.0)


def test_what_failed_is_made_again_and_stays_on_record(tmp_path: Path) -> None:
    turn = count()

    def answer(prompt: str, config: Any) -> str:
        if next(turn) < 3:
            raise ConnectionError("gone")
        return best(prompt)

    message: list[str] = []
    plan = plan_of("mockllm/model", "maze", **ONE, asking=Asking())
    options = NavigationOptions(out=tmp_path, progress=message.append, rounds=1)
    walked = ask_all(plan, options, model=mock(answer))
    assert all(t.arrived for t in walked.trajectories)
    values = read_run(tmp_path).values
    failed = {key for key in values if key.endswith(", failed 1")}
    assert len(failed) == 3 and len(values) == 7
    assert {values[key]["outcome"] for key in failed} == {"server unreachable"}
    again = "mockllm/model: repeating 3 walks (ConnectionError: gone"
    assert any(line.startswith(again) for line in message)
    assert message[-1] == "mockllm/model: 4 of 4 walks, 3 failed"
    assert load(tmp_path).trajectories == walked.trajectories


def test_an_interrupt_goes_through_and_what_ended_is_kept(tmp_path: Path) -> None:
    turn = count()

    def answer(prompt: str, config: Any) -> str:
        if next(turn) == 20:
            signal.raise_signal(signal.SIGINT)
        return best(prompt)

    plan = plan_of("mockllm/model", "maze", **(ONE | {"grids": 10}), asking=Asking())
    # What a shell has put into the background ignores the signal, and so would the test.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            ask_all(plan, NavigationOptions(out=tmp_path), model=mock(answer))
    finally:
        signal.signal(signal.SIGINT, before)
    values = read_run(tmp_path).values
    assert 0 < len(values) < 20 and {value["outcome"] for value in values.values()} == {"arrived"}


def test_walks_of_inspects_own_command_are_taken_over(tmp_path: Path) -> None:
    def logs(name: str, model: str = "goalmeter/optimal", **set_there: Any) -> Path:
        task = navigation("maze", **(ONE | {"grids": 1}))
        eval(task, model=model, display="none", log_dir=str(tmp_path / name), **set_there)
        return tmp_path / name

    made, run = logs("made"), tmp_path / "run"
    message: list[str] = []
    navigate("goalmeter/optimal", **ONE, out=run, logs=[made], progress=message.append)
    assert message[:2] == [
        "goalmeter/optimal: 2 walks imported from logs",
        "goalmeter/optimal: 2 of 4 walks were there already",
    ]
    # Only the others were asked for, and those that were taken over are as the log has them.
    assert [t.grid for t in trajectories(run)] == [1, 1]
    assert load(run).trajectories[:2] == tuple(
        sorted(trajectories(made), key=lambda t: t.trajectory)
    )
    message.clear()
    navigate("goalmeter/optimal", **ONE, seed=1, logs=[made], progress=message.append)
    assert "0 walks imported from logs; 2 skipped (other worlds, or failed)" in message[0]
    with pytest.raises(InvalidParameterError, match=r"temperature is 1\.0, expected 0\.7"):
        navigate("goalmeter/optimal", **ONE, logs=[logs("warm", temperature=1.0)])
    with pytest.raises(InvalidParameterError, match="a log of goalmeter/greedy, expected the run"):
        navigate("goalmeter/optimal", **ONE, logs=[logs("greedy", "goalmeter/greedy")])


def test_models_that_cannot_be_asked_leave_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("VLLM_BASE_URL", "OPENAI_API_KEY", "ZIP_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    for model, message in {
        "nope/x": "cannot query the model 'nope/x': .*not recognized.*PROVIDER/NAME",
        "openai-api/zip/x": "ZIP_API_KEY",
        "goalmeter/wall-follower": "has memory",
        "goalmeter/gredy": "did you mean goalmeter/greedy",
        "goalmeter-local/nowhere": "there is no folder 'nowhere'",
    }.items():
        with pytest.raises(GoalmeterError, match=message):
            navigate(model, **ONE, out=tmp_path / "run")
    with pytest.raises(InvalidParameterError, match=r"model 'goalmeter/greedy': .*quick"):
        navigate("goalmeter/greedy", **ONE, options={"quick": 1})
    assert not (tmp_path / "run").exists()
