"""A package outside the tree that registers an agent and an environment is picked up.

The package is installed for real: a folder on the import path with a module and the metadata that
an installer writes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from goalmeter import cli
from goalmeter._names import plugins

SRC = Path(__file__).resolve().parents[1] / "src"
MODULE = '''
from goalmeter.reflection.environments import Run


def rightwards(world, state):
    """Always to the right."""
    return [0, 1, 0, 0]


def repeats(history, n_actions, n_observations):
    """Does again what it did."""
    return history.actions[-1] if history.actions else n_actions - 1


class Paradise(Run):
    """Paradise: every action pays."""

    n_actions, n_observations = 3, 1

    def begin(self):
        return 0, 0

    def react(self, action):
        return self.sign, 0
'''
ENTRY_POINTS = """
[goalmeter.agents]
rightwards = outside_the_tree:rightwards
repeats = outside_the_tree:repeats

[goalmeter.environments]
Paradise = outside_the_tree:Paradise
"""
BROKEN = """
[goalmeter.agents]
lost = a_module_that_is_nowhere:agent
"""


def install(site: Path, name: str, entry_points: str, modules: dict[str, str]) -> None:
    """Write what an installer writes."""
    info = site / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(entry_points)
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    install(folder, "outside-the-tree", ENTRY_POINTS, {"outside_the_tree": MODULE})
    return folder


class Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def goalmeter(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Done]]:
    """The command line in this process, with a site's packages; workers have the same path."""

    def call(site: Path, *words: str) -> Done:
        monkeypatch.syspath_prepend(site)
        monkeypatch.setattr(sys, "argv", ["goalmeter", *words])
        plugins.cache_clear()
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return Done(int(stopped.value.code or 0), *capsys.readouterr())

    yield call
    plugins.cache_clear()
    sys.modules.pop("outside_the_tree", None)


def test_they_are_listed_with_what_can_measure_them(site: Path) -> None:
    # In a process of its own, as after an installation.
    path = os.pathsep.join(map(str, (SRC, site)))
    done = subprocess.run(
        [sys.executable, "-m", "goalmeter", "agents", "--json"],
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": path, "PYTHONUTF8": "1"},
        cwd=site,
    )
    listed = {line["name"]: line for line in json.loads(done.stdout)["agents"]}
    assert listed["rightwards"] == {
        "name": "rightwards",
        "about": "Always to the right.",
        "abilities": ["grid"],
        "instruments": ["navigate"],
        "package": "outside-the-tree 1.2",
        "problem": None,
    }
    assert listed["repeats"]["instruments"] == ["reflect"]
    assert listed["greedy"]["package"] is None


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_agent_walks_also_in_other_processes(
    goalmeter: Callable[..., Done], site: Path, tmp_path: Path, workers: str
) -> None:
    options = ["--sizes", "5", "--complexities", "1", "--grids", "2", "--trajectories", "2"]
    done = goalmeter(
        site, "navigate", "rightwards", *options, "--workers", workers, "--json", "--out",
        str(tmp_path / "run"),
    )  # fmt: skip
    assert done.status == 0, done.err
    assert json.loads(done.out)["agent"] == "rightwards"
    described = json.loads((tmp_path / "run" / "run.json").read_text())["what"]
    assert described["package of the agent"] == "outside-the-tree 1.2"
    walks = (tmp_path / "run" / "trials.jsonl").read_text().splitlines()
    assert len(walks) == 4 and not any('"action": 0' in walk for walk in walks)


def test_an_agent_reflects_in_an_environment_of_the_same_package(
    goalmeter: Callable[..., Done], site: Path
) -> None:
    done = goalmeter(
        site, "reflect", "rc(repeats)", "--environment", "Paradise", "--steps", "9", "--seeds", "2",
        "--workers", "2", "--json",
    )  # fmt: skip
    assert done.status == 0, done.err
    played = json.loads(done.out)["environments"]
    rewards = {(row["name"], row["opposite"]): row["total_reward"] for row in played}
    assert rewards == {("Paradise", False): 8, ("Paradise", True): -8}


def test_a_package_that_cannot_be_loaded_is_said_and_hinders_nobody(
    goalmeter: Callable[..., Done], tmp_path: Path
) -> None:
    install(tmp_path, "broken", BROKEN, {})
    done = goalmeter(tmp_path, "agents", "--json")
    (lost,) = [a for a in json.loads(done.out)["agents"] if a["name"] == "lost"]
    assert lost["instruments"] == [] and "ModuleNotFoundError" in lost["problem"]
    done = goalmeter(tmp_path, "navigate", "lost")
    assert done.status == 2 and done.err.count("\n") == 1
    assert "broken 1.2 registers 'lost' in goalmeter.agents" in done.err


def test_a_name_of_ours_cannot_be_taken(goalmeter: Callable[..., Done], tmp_path: Path) -> None:
    taken = "[goalmeter.agents]\ngreedy = outside_the_tree:rightwards\n"
    install(tmp_path, "greedy-one", taken, {"outside_the_tree": MODULE})
    done = goalmeter(tmp_path, "agents", "--json")
    problems = [a["problem"] for a in json.loads(done.out)["agents"] if a["problem"]]
    assert len(problems) == 1 and "which is a name of goalmeter's own" in problems[0]
