from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import goalmeter as gm
from goalmeter import GoalmeterError
from goalmeter.agents.abilities import NamedAgent
from goalmeter.commands.meg import measure_mdp
from goalmeter.tabular.trajectories import sample_trajectories


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    mdp = gm.cliff_world()
    policy = gm.epsilon_greedy(gm.optimal_policy(mdp), 0.1)
    mdp.to_npz(folder / "mdp.npz")
    np.savez(folder / "policy.npz", policy=policy)
    np.savez(folder / "uniform.npz", policy=gm.uniform_policy(mdp))
    np.savez(folder / "features.npz", features=np.eye(mdp.n_states))
    log = sample_trajectories(mdp, policy, 20, rng=np.random.default_rng(0))
    np.savez(folder / "log.npz", states=log.states, actions=log.actions)
    return folder


def test_the_reward_is_the_default_goal(files: Path) -> None:
    outcome = measure_mdp(files / "mdp.npz", policy=files / "policy.npz")
    assert outcome.json["meg"] == pytest.approx(23.788597, abs=1e-6)
    assert outcome.json["baselines"] == {"uniform": 0.0, "optimal": pytest.approx(40.2025365)}
    names = [row[0] for row in outcome.tables[0].rows]
    assert names[:2] == ["MEG", "proven gap to the bound"] and "baseline: optimal policy" in names


def test_trajectories_give_an_interval(files: Path) -> None:
    outcome = measure_mdp(files / "mdp.npz", trajectories=files / "log.npz")
    low, high = outcome.json["interval"]
    assert 0 < low < outcome.json["corrected"] < high < 40.3
    assert outcome.json["n"] == 20
    assert outcome.tables[0].rows[0][0] == "MEG, estimate"
    again = measure_mdp(files / "mdp.npz", trajectories=files / "log.npz", seed=1)
    assert again.json["interval"] != outcome.json["interval"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "--policy, --trajectories: none of them given, expected exactly one"),
        (
            {"policy": "p", "trajectories": "t"},
            "--policy and --trajectories given, expected exactly one",
        ),
        ({"policy": "p", "timeout": 1.0}, "--timeout goes with --policy and --unknown only"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(GoalmeterError, match=re.escape(message)):
        measure_mdp("mdp.npz", **options)


def test_a_search_that_is_interrupted_hands_on_what_it_has(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_the_keyboard(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("goalmeter.meg.linear._climb", at_the_keyboard)
    outcome = measure_mdp(files / "mdp.npz", policy=files / "policy.npz", unknown="state")
    assert outcome.is_interrupted and outcome.json["stopped"] == "interrupt"


def test_a_trained_agent_without_a_table_is_sent_to_its_simulator(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "goalmeter.agents.registry.agent"
    monkeypatch.setattr(path, lambda name: NamedAgent(name, "sees arrays", {}))
    with pytest.raises(GoalmeterError, match=r"meg mdp, unlike meg simulator, requires a dist"):
        measure_mdp(files / "mdp.npz", policy="sb3:cart.zip")
