"""Policies that Stable-Baselines3 saved: read without unpickling, they do what the library does."""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidFileError
from goalmeter.agents import agent
from goalmeter.agents.grid_agents import Memoryless
from goalmeter.agents.trained_policies import read_policy
from goalmeter.commands.navigate import navigate
from goalmeter.gridworld.generators import maze
from goalmeter.gridworld.planner import planned

pytest.importorskip("stable_baselines3")
pytest.importorskip("minigrid")
WORLD = maze(5, 1.0, seed=0).world
SMALL: dict[str, Any] = {"sizes": [5], "complexities": [1.0], "grids": 2, "trajectories": 1}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A model of each algorithm, trained for some steps, and saved as NAME.zip in `folder`."""
    import gymnasium
    import torch
    from stable_baselines3 import A2C, DQN, PPO

    torch.manual_seed(0)
    options: dict[str, Any] = {"size": 5, "complexity": 1.0, "reward": "sparse"}
    states = gymnasium.make("goalmeter/Maze-v0", observation="state", seed=0, **options)
    grids = gymnasium.wrappers.FlattenObservation(gymnasium.make("goalmeter/Maze-v0", **options))
    layers = {"net_arch": {"pi": [8], "vf": [4]}, "activation_fn": torch.nn.ReLU}
    made = {
        "ppo": PPO("MlpPolicy", states, n_steps=32, batch_size=16, n_epochs=2, device="cpu",
                   seed=0, policy_kwargs=layers).learn(64),
        "a2c": A2C("MlpPolicy", grids, device="cpu", seed=0).learn(20),
        "dqn": DQN("MlpPolicy", grids, learning_starts=8, buffer_size=50, device="cpu",
                   seed=0, policy_kwargs={"net_arch": [8]}).learn(24),
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("models")
    for name, model in made.items():
        model.save(folder / name)
    return {**made, "folder": folder}


def name_of(models: dict[str, Any], kind: str) -> str:
    return f"sb3:{models['folder'] / kind}.zip"


def rewritten(path: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of an archive with its description changed."""
    out = folder / "changed.zip"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.namelist():
            content = old.read(entry)
            if entry == "data":
                data = json.loads(content)
                change(data)
                content = json.dumps(data).encode()
            new.writestr(entry, content)
    return out


@pytest.mark.parametrize("kind", ["ppo", "a2c", "dqn"])
def test_probabilities_are_those_of_the_model_that_was_saved(
    models: dict[str, Any], kind: str
) -> None:
    """The library's own policy, asked at observations that its environment gave."""
    import torch

    model = models[kind]
    policy = read_policy(models["folder"] / f"{kind}.zip")
    if kind == "ppo":
        seen = np.arange(policy.observations.count or 0)
    else:
        seen = np.random.default_rng(0).integers(0, 9, (20, policy.observations.length or 0))
    ours = policy.probabilities(seen)
    with torch.no_grad():
        tensor, _ = model.policy.obs_to_tensor(seen)
        if kind == "dqn":
            chosen = model.predict(seen, deterministic=True)[0]
            theirs = np.eye(4)[chosen]
        else:
            theirs = model.policy.get_distribution(tensor).distribution.probs.numpy()
    assert ours.shape == (len(seen), 4)
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_a_policy_sees_in_each_state_what_the_environment_shows(models: dict[str, Any]) -> None:
    import gymnasium

    env = gymnasium.wrappers.FlattenObservation(
        gymnasium.make("goalmeter/Maze-v0", size=5, complexity=1.0, seed=0)
    )
    walker = agent(name_of(models, "dqn")).in_grids()
    assert isinstance(walker, Memoryless)
    table, plan = walker.policy(planned(WORLD)), planned(WORLD)
    seen, _ = env.reset(seed=0)
    assert env.unwrapped.world == WORLD  # type: ignore[attr-defined]
    for _ in range(10):
        state = env.unwrapped.state  # type: ignore[attr-defined]
        (chosen,) = models["dqn"].predict(seen[None], deterministic=True)[0]
        assert table[plan.number(state)].argmax() == chosen
        seen, _, over, _, _ = env.step(int(env.action_space.sample()))
        if over:
            seen, _ = env.reset(seed=0)


@pytest.mark.parametrize("kind", ["ppo"])
def test_it_has_a_navigation_table_and_a_meg(models: dict[str, Any], kind: str) -> None:
    outcome = navigate(name_of(models, kind), **SMALL, meg=True)
    assert outcome.json["agent"] == name_of(models, kind)
    (cell,) = outcome.json["cells"]
    assert cell["trajectories"] == 2 and cell["invalid"] == 0
    (directed,) = outcome.json["meg"]
    assert directed["agent"] == name_of(models, kind)
    assert directed["goal"]["nats"]["value"] <= directed["goal"]["maximum"]


class Trap:
    """Unpickled, it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_nothing_of_an_archive_is_unpickled(models: dict[str, Any], tmp_path: Path) -> None:
    import cloudpickle
    import torch

    sprung = tmp_path / "sprung"
    trap = base64.b64encode(cloudpickle.dumps(Trap(sprung))).decode()

    def arm(data: dict[str, Any]) -> None:
        for value in data.values():
            if isinstance(value, dict) and ":serialized:" in value:
                value[":serialized:"] = trap

    armed = rewritten(models["folder"] / "ppo.zip", tmp_path, arm)
    policy = read_policy(armed)
    expected = read_policy(models["folder"] / "ppo.zip").probabilities(np.arange(4))
    np.testing.assert_array_equal(policy.probabilities(np.arange(4)), expected)
    torch.save({"weights": Trap(sprung)}, tmp_path / "weights")
    with zipfile.ZipFile(armed) as old, zipfile.ZipFile(tmp_path / "evil.zip", "w") as new:
        new.writestr("data", old.read("data"))
        new.writestr("policy.pth", (tmp_path / "weights").read_bytes())
    with pytest.raises(InvalidFileError, match=r"policy.pth does not contain the weights of this"):
        read_policy(tmp_path / "evil.zip").probabilities(np.arange(4))
    assert not sprung.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["policy_class"].update(__module__="theirs"), r"its policy is theirs.ActorCri"),
        (lambda d: d["action_space"].update(n="-3"), "its actions are Discrete, not Discrete"),
        (
            lambda d: d.update(observation_space={":type:": "<class 'x.Dict'>"}),
            "its observations are Dict, not Discrete or flat Box",
        ),
        (lambda d: d["policy_kwargs"].update(net_arch=[10**9]), "has the setting net_arch"),
        (lambda d: d["policy_kwargs"].update(activation_fn="<class 'os.system'>"), "activation_fn"),
    ],
)
def test_what_is_no_policy_of_the_library_is_refused(
    models: dict[str, Any], tmp_path: Path, change: Any, message: str
) -> None:
    with pytest.raises(InvalidFileError, match=message):
        read_policy(rewritten(models["folder"] / "ppo.zip", tmp_path, change))
