"""No damaged input ends in a traceback, a hang, a flood of memory, or without a word.

GOALMETER_FUZZ=20 tries twenty times as many cases of each format.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import pytest

from robustness.formats import formats

ROOT = Path(__file__).resolve().parents[2]
FORMATS = formats()
TIMES = float(os.environ.get("GOALMETER_FUZZ", "1"))


# Formats that import the same share a process, since that takes longer than most of their cases.
BY_IMPORTS = groupby(
    sorted(FORMATS, key=lambda n: FORMATS[n].imports), lambda n: FORMATS[n].imports
)


@pytest.mark.slow
@pytest.mark.parametrize("names", [[*group] for _, group in BY_IMPORTS], ids=",".join)
def test_damaged_inputs_end_in_a_result_or_one_line(names: list[str]) -> None:
    needs = {module for name in names for module in FORMATS[name].needs}
    if missing := sorted(module for module in needs if find_spec(module) is None):
        pytest.skip(f"{missing[0]} is not installed")
    cases = sum(FORMATS[name].cases for name in names) * TIMES
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    # In a process of its own, so that one that hangs in a library or is killed is seen as well.
    done = subprocess.run(
        [sys.executable, "-m", "robustness", *names, "--times", str(TIMES)],
        env=os.environ | {"PYTHONPATH": paths, "GOALMETER_TRACEBACK": "1"},
        capture_output=True,
        text=True,
        timeout=120 + 20 * cases,
    )
    shown = [line for line in done.stdout.splitlines() if not line.startswith("case ")]
    last = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, "\n".join([*shown, f"last: {last}", done.stderr[-2000:]])
