"""Files: what is written comes back, what is wrong is named, and nothing is unpickled or lost."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tabular.worlds import random_world

from goalmeter._errors import (
    InvalidFileError,
    InvalidModelError,
    InvalidParameterError,
    InvalidPolicyError,
    InvalidTrajectoryError,
    InvalidUtilityError,
)
from goalmeter.tabular import TabularMDP
from goalmeter.tabular import arrays as files
from goalmeter.tabular.trajectories import Trajectories, load_trajectories, save_trajectories

GOOD: dict[str, Any] = {
    "transition": [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]],
    "reward": [0, 1],
    "initial": 0,
    "horizon": 3,
}


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name not in names}


def assert_same(first: TabularMDP, second: TabularMDP) -> None:
    assert (first.horizon, first.discount) == (second.horizon, second.discount)
    np.testing.assert_array_equal(first.reward, second.reward)
    np.testing.assert_array_equal(first.initial, second.initial)
    np.testing.assert_array_equal(first.transition.to_dense(), second.transition.to_dense())


@pytest.mark.parametrize("n_states", [1, 2, 6])
@pytest.mark.parametrize("on_actions", [False, True])
@pytest.mark.parametrize("changes", [{}, {"horizon": None, "discount": 0.5}, {"discount": 0.9}])
def test_an_mdp_comes_back_exactly(
    tmp_path: Path, n_states: int, on_actions: bool, changes: dict[str, Any]
) -> None:
    mdp = random_world(3, n_states=n_states, on_actions=on_actions).mdp(**changes)
    path = tmp_path / "mdp.npz"
    assert mdp.to_npz(path) == path
    assert_same(TabularMDP.from_npz(path), mdp)


def test_policies_and_features_come_back(tmp_path: Path) -> None:
    world = random_world(5)
    for policy in (world.policy, world.policy[0]):
        path = files.save_policy(policy, tmp_path / "policy.npz")
        np.testing.assert_array_equal(files.load_policy(path), policy)
    features = np.arange(6.0).reshape(3, 2)
    path = files.save_features(features, tmp_path / "features.npz")
    np.testing.assert_array_equal(files.load_features(path), features)


@pytest.mark.parametrize("length", [None, [2, 1]])
def test_trajectories_come_back(tmp_path: Path, length: list[int] | None) -> None:
    path = tmp_path / "t.npz"
    logged = Trajectories([[0, 1], [1, 0]], [[1, 1], [0, 0]], length)
    again = load_trajectories(save_trajectories(logged, path))
    for name in ("states", "actions", "length"):
        np.testing.assert_array_equal(getattr(again, name), getattr(logged, name))
    np.savez(path, states=[[0, 1]], actions=[[1, 1]])
    assert Trajectories.from_npz(path).length.tolist() == [2]


def test_an_interrupted_write_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = files.save_policy([[1.0]], tmp_path / "policy.npz")

    def fill_the_disk(file: Any, **arrays: Any) -> None:
        file.write(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", fill_the_disk)
    with pytest.raises(InvalidFileError, match=r"policy\.npz cannot be written: No space left"):
        files.save_policy([[0.5, 0.5]], path)
    assert files.load_policy(path).tolist() == [[1.0]]
    assert [p.name for p in tmp_path.iterdir()] == ["policy.npz"]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            without("reward"),
            "the array 'reward' is missing; the file has transition, initial, horizon",
        ),
        (
            {**GOOD, "rewards": [0, 1]},
            "the array 'rewards' is not part of this format, expected reward, initial, tr",
        ),
        (
            without("transition"),
            "the file has no array, expected either transition .* or next_state and prob",
        ),
    ],
)
def test_a_bad_mdp_file_gets_one_clear_error_with_its_name(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    path = tmp_path / "mdp.npz"
    np.savez(path, **arrays)
    # What the world itself refuses keeps its own error (test_mdp), with the file's name before it.
    refused = {"reward": InvalidModelError, "horizon is": InvalidParameterError}
    errors = [error for words, error in refused.items() if message.startswith(words)]
    with pytest.raises(errors[0] if errors else InvalidFileError, match=rf"mdp\.npz: {message}"):
        TabularMDP.from_npz(path)


@pytest.mark.parametrize(
    ("load", "arrays", "message"),
    [
        (files.load_policy, {"policy": [[0.5, 0.4]]}, r"policy\[0\] sums to 0\.9, expected 1"),
        (
            load_trajectories,
            {"states": [[0]], "actions": [[0, 1]]},
            r"states has shape \[1, 1\] and actions \[1, 2\]",
        ),
    ],
)
def test_other_bad_files_get_one_clear_error_with_their_name(
    tmp_path: Path, load: Callable[[Path], Any], arrays: dict[str, Any], message: str
) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    error = {
        files.load_policy: InvalidPolicyError,
        files.load_features: InvalidUtilityError,
        load_trajectories: InvalidTrajectoryError,
    }[load]
    if "is missing" in message:
        error = InvalidFileError
    with pytest.raises(error, match=rf"bad\.npz: .*{message}"):
        load(path)


def test_a_pickle_in_disguise_is_not_run(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "sprung",)

    path = tmp_path / "mdp.npz"
    np.savez(path, **{**GOOD, "reward": np.array([Trap(), Trap()], dtype=object)})
    with pytest.raises(InvalidFileError, match="unpickling can run arbitrary code"):
        TabularMDP.from_npz(path)
    path.write_bytes(pickle.dumps(Trap()))
    with pytest.raises(InvalidFileError, match=r"not a valid \.npz archive"):
        TabularMDP.from_npz(path)
    assert not (tmp_path / "sprung").exists()


def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mdp.npz"
    np.savez(path, **GOOD)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidFileError, match=r"not a valid \.npz archive"):
        TabularMDP.from_npz(path)
    # A flipped bit among the numbers, which only the checksum can tell.
    position = whole.index(np.array([0, 1]).tobytes())
    path.write_bytes(whole[:position] + b"\x01" + whole[position + 1 :])
    with pytest.raises(InvalidFileError, match="'reward' is damaged and cannot be read"):
        TabularMDP.from_npz(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("policy", b"no array at all")
    with pytest.raises(InvalidFileError, match="'policy' is damaged and cannot be read"):
        files.load_policy(path)
