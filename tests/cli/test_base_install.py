"""Commands in an installation without any extra name the extra that they need."""

from __future__ import annotations

import subprocess
import sys
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
