"""Sweeps: rows equal single calls, wherever and in whatever order they are made."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from math import log
from pathlib import Path

import numpy as np
import pytest

import goalmeter as gm
from goalmeter._errors import IncompleteRunError, InvalidFileError, InvalidParameterError
from goalmeter.meg.sweeps.plan import plan_sweep
from goalmeter.meg.sweeps.sweep import FAILED, OPEN, load
from goalmeter.tabular import soft_plan

CLIFFS = {"generator": "cliff_world", "goal_length": [1, 4], "horizon": 10}
STAY = [[[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]]
WORLDS = """
import numpy as np
import goalmeter as gm


def random(seed, states=4):
    rng = np.random.default_rng(seed)
    if seed == 3:
        raise ValueError("three is no world")
    transition = rng.dirichlet(np.ones(states), size=(states, 2))
    return gm.TabularMDP(transition, rng.normal(size=states), horizon=3)


def lean(mdp, share):
    return np.tile([share, 1 - share], (mdp.n_states, 1))


def late(mdp):
    return np.arange(mdp.n_states, dtype=float)
"""


def mouse(cheese: int = 1) -> gm.TabularMDP:
    """The paper's Example 1: of two actions one leads to the cheese, for two decisions."""
    reward = [0, 1, -1] if cheese == 1 else [0, -1, 1]
    return gm.TabularMDP([[[0, 1, 0], [0, 0, 1]], *STAY], reward, horizon=2)


@pytest.fixture
def mice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two mice whose cheese is in different places, the policy of each, and a user's file."""
    monkeypatch.chdir(tmp_path)
    Path("mdps").mkdir()
    for number, name in enumerate(("a", "b"), start=1):
        mouse(number).to_npz(f"mdps/{name}.npz")
        np.savez(f"{name}-policy.npz", policy=[[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
    Path("mine.py").write_text(WORLDS, encoding="utf-8")
    return tmp_path


def test_the_mouse_by_hand(mice: Path) -> None:
    result = gm.meg.sweep("mdps", policies=["{world}-policy.npz"])
    value = log(2) + 0.8 * log(0.8) + 0.2 * log(0.2)
    rows = list(result.rows)
    assert [row.world for row in rows] == ["mdps/a.npz", "mdps/b.npz"]
    for row, sign in zip(rows, (1, -1), strict=True):
        assert row.measured.value == pytest.approx(value, abs=1e-9)
        # e^(2b) = 4, since a run ends at 1 or at -1.
        assert row.measured.rationality == pytest.approx(sign * log(4) / 2, abs=1e-5)
        assert row.measured.maximum == pytest.approx(log(2))
        assert row.measured.status == "certified" and row.facts is not None
        assert (row.facts.states, row.facts.actions, row.facts.horizon) == (3, 2, 2)
    assert "1 of 2 rows have a negative rationality" in str(result)


def test_rows_are_single_calls(mice: Path) -> None:
    np.savez("wish.npz", utility=np.arange(40.0))
    np.savez("phi.npz", features=np.eye(40)[:, :3])
    result = gm.meg.sweep(
        [CLIFFS],
        policies=["optimal", "uniform", "epsilon_greedy(0.2)", "soft_optimal(0.3)"],
        utilities=[
            *("reward", "wish.npz", "mine.py:late"),
            *({"unknown": "state"}, {"unknown": "phi.npz"}),
        ],
    )
    rows = iter(result.rows)
    for length in (1, 4):
        mdp = gm.cliff_world(length, horizon=10)
        best = gm.optimal_policy(mdp)
        soft = soft_plan(mdp, 0.3).policy()[..., 0]
        for policy in (best, gm.uniform_policy(mdp), gm.epsilon_greedy(best, 0.2), soft):
            for single in (
                gm.meg.known_utility(mdp, policy),
                *[gm.meg.known_utility(mdp, policy, utility=np.arange(40.0))] * 2,
                gm.meg.unknown_utility(mdp, policy),
                gm.meg.unknown_utility(mdp, policy, features=np.eye(40)[:, :3]),
            ):
                row = next(rows).measured
                assert row.value == pytest.approx(single.value, abs=1e-9)
                assert row.maximum == pytest.approx(single.maximum, abs=1e-9)
                assert row.upper_bound == pytest.approx(single.upper_bound, abs=1e-7)
                assert (row.status == "certified") == single.certified


def test_failures_are_rows_with_their_sentence(mice: Path) -> None:
    Path("mdps/c.npz").write_bytes(b"no archive")
    mouse().to_npz("mdps/d.npz")  # which has no policy
    result = gm.meg.sweep(
        [{"files": "mdps"}, {"generator": "mine.py:random", "seed": [1, 2, 3, 4]}],
        policies=["uniform", {"policy": "mine.py:lean", "share": [0.9, 2]}],
    )
    assert result.counts == {"certified": 2 * (3 + 3), "open": 0, FAILED: 3 + 3 + 6}
    said = result.sentences(FAILED)
    assert sum(said.values()) == result.counts[FAILED]
    assert said["mine.py:random raises ValueError: three is no world (mine.py, line 9)"] == 3
    assert [times for text, times in said.items() if text.startswith("mdps/c.npz")] == [3]
    assert any("policy" in text for text in said)
    (group,) = [group for group in result.summary if group.policy == "uniform"]
    assert (group.measured, group.failed) == (6, 2)
    alone = gm.meg.sweep("mdps", policies=["{world}-policy.npz"])
    assert alone.counts["certified"] == 2
    assert "there is no such file" in [row.measured.note for row in alone.rows][3]


def test_a_search_that_runs_out_of_time_is_open(mice: Path) -> None:
    result = gm.meg.sweep(
        [{"generator": "mine.py:random", "seed": 0, "states": 300}],
        policies=["epsilon_greedy(0.3)"],
        utilities=[{"unknown": "state"}],
        timeout=0.001,
    )
    (row,) = result.rows
    assert row.measured.status == OPEN and result.counts[OPEN] == 1
    assert "the timeout ended the search" in row.measured.note
    assert row.measured.value <= row.measured.upper_bound <= row.measured.maximum + 1e-9
    assert "are not certified" in str(result)


def asked(count: int = 420) -> dict[str, object]:
    """A sweep of three chunks."""
    return {
        "worlds": "mine.py:random",
        "arguments": {"states": 40, "seed": {"from": 10, "count": count}},
        "policies": ["epsilon_greedy(0.1)"],
    }


def test_the_same_bytes_here_and_in_processes(tmp_path: Path) -> None:
    few = {"worlds": [{**CLIFFS, "horizon": [3, 4]}], "policies": ["epsilon_greedy(0.1)"]}
    few["utilities"] = ["reward", {"unknown": "state"}]
    plan = plan_sweep(**few)  # type: ignore[arg-type]
    for on in ("here", "processes:2"):
        gm.meg.sweep(**few, on=on, out=tmp_path / on)  # type: ignore[arg-type]
    lines = {(tmp_path / on / "trials.jsonl").read_text() for on in ("here", "processes:2")}
    about = {(tmp_path / on / "run.json").read_bytes() for on in ("here", "processes:2")}
    assert len(lines) == len(about) == 1 and len(plan.chunks) == 1


@pytest.mark.slow
def test_a_sweep_that_is_killed_goes_on_and_ends_the_same(mice: Path) -> None:
    out = mice / "run"
    program = f"import goalmeter as gm; gm.meg.sweep(**{asked()!r}, out={str(out)!r})"
    process = subprocess.Popen([sys.executable, "-c", program])
    kept = out / "trials.jsonl"
    while not (kept.exists() and kept.read_bytes().count(b"\n")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pytest.raises(IncompleteRunError, match="chunks"):
        load(out)
    before = kept.read_text().splitlines()[0]
    result = gm.meg.sweep(**asked(), out=out)  # type: ignore[arg-type]
    assert kept.read_text().splitlines()[0] == before
    never_killed = gm.meg.sweep(**asked())  # type: ignore[arg-type]
    assert load(out).to_json() == result.to_json() == never_killed.to_json()
    assert result.chunks == never_killed.chunks


def test_another_question_or_a_changed_file_is_refused(mice: Path) -> None:
    gm.meg.sweep("mdps", policies=["{world}-policy.npz"], out="run")
    with pytest.raises(InvalidParameterError, match=r"policy 1 is .*policy.npz.* there, and .*"):
        gm.meg.sweep("mdps", policies=["uniform"], out="run")
    mouse(1).to_npz("mdps/b.npz")
    with pytest.raises(
        InvalidParameterError, match=r"content of mdps/b.npz \(sha256\) is .* there"
    ):
        gm.meg.sweep("mdps", policies=["{world}-policy.npz"], out="run")
    gm.meg.sweep("mine.py:random", policies=["uniform"], out="users")
    Path("mine.py").write_text(WORLDS + "\n", encoding="utf-8")
    with pytest.raises(InvalidParameterError, match=r"content of mine.py \(sha256\)"):
        gm.meg.sweep("mine.py:random", policies=["uniform"], out="users")


def test_an_edited_run_is_one_clear_error(mice: Path) -> None:
    gm.meg.sweep("mdps", policies=["uniform"], out="run")
    trials = Path("run/trials.jsonl")
    whole = trials.read_text()
    trials.write_text(whole.replace('"value": "', '"value": "0.5 ', 1))
    with pytest.raises(InvalidFileError, match=r"line 1, the chunk 'rows 0 to 1': .*2 rows"):
        load("run")
    trials.write_text(whole)
    about = json.loads(Path("run/run.json").read_text())
    about["what"]["rows of chunks"] = [[1, 1]]
    Path("run/run.json").write_text(json.dumps(about))
    with pytest.raises(InvalidFileError, match=r"run.json is of no sweep: its chunks are not"):
        load("run")
