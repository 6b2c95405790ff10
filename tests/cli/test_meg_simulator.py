"""`goalmeter meg simulator`: an environment and an agent in, an interval out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter.meg import known_utility
from goalmeter.tabular import TabularMDP

pytest.importorskip("gymnasium")

Run = Callable[..., Any]

# A corridor of four cells, of which the last one ends the episode; each step pays -1.
MINE = """
import gymnasium
import numpy as np

with open("runs.txt", "a") as file:
    file.write("run ")


class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, pays=-1.0):
        self.pays = float(pays)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return 0, {}

    def step(self, action):
        self.cell = max(self.cell + (1 if action else -1), 0)
        return self.cell, self.pays, self.cell == 3, False, {"cell": self.cell}


def walker(observation):
    print("thinking")
    return np.array([0.3, 0.7])


class Memory:
    def begin(self, generator):
        return lambda observation: int(generator.random() < 0.7)


def makes():
    return walker


def nothing():
    return None


def breaks(observation):
    return {}["food"]


def wrong(observation, info):
    return float("nan")


"""
WORLD = ["mine.py:Corridor", "--state", "observation", "--horizon", "6", "--budget", "2000"]
WORLD += ["--chance", "none"]


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def exact(pays: float = -1.0) -> float:
    p = np.zeros((4, 2, 4))
    for cell in range(3):
        p[cell, 0, max(cell - 1, 0)] = p[cell, 1, cell + 1] = 1
    p[3, :, 3] = 1
    mdp = TabularMDP(p, [pays] * 3 + [0.0], horizon=6)
    return known_utility(mdp, [[0.3, 0.7]] * 4).value


def of_json(done: Any) -> dict[str, Any]:
    assert done.status == 0, done.err
    assert done.out.count("\n") == 1
    result: dict[str, Any] = json.loads(done.out)
    return result


@pytest.mark.parametrize("agent", ["makes", "Memory"])
def test_an_environment_and_an_agent_of_ones_own(run: Run, mine: Path, agent: str) -> None:
    done = run("meg", "simulator", *WORLD, "--agent", f"mine.py:{agent}", "--json")
    result = of_json(done)
    low, high = result["interval"]
    assert low <= exact() + 1e-4 and exact() <= high + 1e-4
    assert low > (0.999 if agent != "Memory" else 0.4) * exact()
    assert result["upper_bound"] == high and result["level"] == 0.95
    assert {"agent", "states"} <= result["steps"].keys()
    assert result["guaranteed"] is None
    assert (result["steps_to_halve"] is None) == (agent == "makes")
    assert {"meg", "maximum", "fraction", "rationality", "method"} <= result.keys()
    assert result["horizon"] == 6 and result["agent"] == f"mine.py:{agent}"
    # The file may train what it holds: it is run once, though it is asked for two things.
    assert (mine / "runs.txt").read_text() == "run "


def test_a_folder_keeps_results_and_a_page(run: Run, mine: Path) -> None:
    command = ["meg", "simulator", *WORLD, "--agent", "mine.py:walker", "--out", "run", "--json"]
    result = of_json(run(*command))
    kept = json.loads((mine / "run" / "results.json").read_text())
    assert kept["meg"] == result["meg"] and kept["tightening"]
    assert result["report"] == str((mine / "run" / "report.html").resolve())
    page = (mine / "run" / "report.html").read_text()
    assert "mine.py:walker" in page and "Estimates by number of steps" in page
    assert ">None<" not in page
    done = run(*command)
    assert of_json(done) == result and "holds this measurement already" in done.err
    refused = run(*command, "--seed", "3")
    assert refused.status == 2 and "holds another run: seed is 0 there, and 3 here" in refused.err
    assert "already" not in refused.err
    assert "finished" in run("status", "run").out
    again = of_json(run("report", "run", "--out", "again.html", "--json"))
    assert again["runs"][0]["meg"] == result["meg"]
    assert "Estimates by number of steps" in (mine / "again.html").read_text()


def test_an_interrupt_stores_nothing(run: Run, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_the_keyboard(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "goalmeter.meg.simulator.collection.Collection._allocation", at_the_keyboard
    )
    command = ["meg", "simulator", *WORLD, "--agent", "mine.py:Memory"]
    done = run(*command, "--json", "--out", "run")
    assert done.status == 130
    assert not done.out and "steps: MEG towards reward" in done.err  # the estimate so far
    assert run("report", "run").status == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["None-v0", "--agent", "mine.py:walker"], "gymnasium cannot make 'None-v0'"),
        (["mine.py:corridor", "--agent", "mine.py:walker"], "did you mean mine.py:Corridor?"),
        (["mine.py:nothing", "--agent", "mine.py:walker"], "expected a Gymnasium environment"),
        ([*WORLD, "--agent", "mine.py:nothing"], "returned nothing, expected an agent"),
        ([*WORLD, "--agent", "mine.py:breaks"], "raised KeyError: 'food'; expected code"),
        ([*WORLD, "--agent", "greedy"], "acts only in grid worlds"),
        ([*WORLD, "--agent", "sb3:broken.zip"], "can be measured as FILE.py:FUNCTION"),
        ([*WORLD, "--utility", "a=mine.py:wrong"], "the utility 'a' is nan"),
        ([*WORLD, "--utility", "reward", "--utility", "reward"], "'reward' is given twice"),
        ([*WORLD, "--bounds", "1"], "--bounds is '1', expected"),
        ([*WORLD, "--bounds", "0,1", "--bounds", "a=0,1"], "with a name and without"),
        ([*WORLD, "--env-option", "=3"], "expected each once as KEY=JSON"),
        ([*WORLD[:1], "--state", "cells"], "'cells' names no state in a file"),
    ],
)
def test_bad_input_is_one_line_on_standard_error(
    run: Run, mine: Path, arguments: list[str], message: str
) -> None:
    (mine / "broken.zip").write_text("this is no archive")
    agent = [] if "--agent" in arguments else ["--agent", "mine.py:walker"]
    done = run("meg", "simulator", *arguments, *agent)
    assert done.status == 2, done.err
    assert done.out == "" and "Traceback" not in done.err
    errors = [line for line in done.err.splitlines() if line.startswith("goalmeter: ")]
    assert len(errors) == 1 and message in errors[0]


@pytest.mark.slow
def test_continuous_actions_and_a_learnt_utility(run: Run, mine: Path) -> None:
    (mine / "swing.py").write_text(
        "def agent(observation):\n    return [2.0 if observation[2] > 0 else -2.0]\n"
    )
    command = ["meg", "simulator", "Pendulum-v1", "--agent", "swing.py:agent", "--horizon", "10"]
    utilities = ["--utility", "reward", "--utility", "learnt", "--budget", "3000"]
    result = of_json(run(*command, *utilities, "--reference", "uniform", "--out", "run", "--json"))
    assert [each["utility"] for each in result["utilities"]] == ["reward", "learnt"]
    assert "uniform" in result["reference"] and result["maximum"] is None
    assert result["interval"][0] <= result["meg"]
    refused = run(*command, "--reference", "flat")
    assert refused.status == 2 and "uniform" in refused.err and "flat" in refused.err
