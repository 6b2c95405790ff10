"""Commands in an installation without any extra name the extra that they need."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# Packages that only the extras bring, directly or through others.
EXTRAS = (
    *("accelerate", "anyio", "gymnasium", "httpx", "inspect_ai", "jinja2", "matplotlib"),
    *("openai", "pandas", "pgmpy", "safetensors", "stable_baselines3", "statsmodels", "tokenizers"),
    *("minigrid", "torch", "transformers"),
)
COMMANDS = {
    "navigate goalmeter/mouse --sizes 7": "lm",
    "navigate hf/some-model --sizes 7": "lm",
    "navigate openai/gpt-5 --sizes 7": "lm",
    "navigate sb3:policy.zip --sizes 5 --complexities 0": "sb3",
    "meg mdp world.npz --policy sb3:policy.zip": "sb3",
    "demo --dry-run": "report",
    "demo": "report",
}
PROGRAM = """
import sys
from importlib.machinery import PathFinder

blocked, lines = sys.argv[1].split(), sys.argv[2:]

class Base:
    @staticmethod
    def find_spec(name, path=None, target=None):
        missing = name.partition(".")[0] in blocked
        return None if missing else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Base
from goalmeter.cli import main
for line in lines:
    sys.argv = ["goalmeter", *line.split()]
    try:
        main()
    except SystemExit as ended:
        print(f"status {ended.code}", file=sys.stderr)
"""


@pytest.mark.slow
def test_a_command_that_needs_an_extra_names_it(tmp_path: Path) -> None:
    import numpy as np

    import goalmeter as gm

    # Nine states: those of an empty room of 5 x 5 cells.
    states = np.zeros((9, 4, 9))
    states[..., 0] = 1
    gm.TabularMDP(states, np.arange(9.0), horizon=2).to_npz(tmp_path / "world.npz")
    _write_policy(tmp_path / "policy.zip")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, " ".join(EXTRAS), *COMMANDS],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    answers = done.stderr.split("status ")
    for answer, after, (line, extra) in zip(answers, answers[1:], COMMANDS.items(), strict=False):
        assert after.startswith("2\n"), f"{line}: {answer}"
        assert f"pip install 'goalmeter[{extra}]'" in answer, f"{line}: {answer}"
    assert len(answers) == len(COMMANDS) + 1


def _write_policy(path: Path) -> None:
    """What goalmeter reads of an archive of Stable-Baselines3 before it needs the library."""

    def discrete(n: int) -> dict[str, object]:
        return {":type:": "<class 'gymnasium.spaces.discrete.Discrete'>", "n": str(n), "start": "0"}

    policy = {
        "__module__": "stable_baselines3.common.policies",
        "__init__": "<function ActorCriticPolicy.__init__ at 0x1>",
    }
    data = {
        "policy_class": policy,
        "policy_kwargs": {},
        "observation_space": discrete(9),
        "action_space": discrete(4),
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("data", json.dumps(data))
        archive.writestr("policy.pth", b"")
