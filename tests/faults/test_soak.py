"""The soak, in short: faults in two kinds of run; `make soak` has all kinds, for half an hour."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SRC, TESTS = Path(__file__).resolve().parents[2] / "src", Path(__file__).resolve().parents[1]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen in /proc")
def test_whatever_is_done_to_a_run_it_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    pytest.importorskip("matplotlib")
    # In a process of its own: it forks, which those of the tests had better not.
    command = [sys.executable, "-m", "faults", "--short", "--seed", "1", "--tries", "16"]
    environment = os.environ | {
        "PYTHONPATH": f"{SRC}{os.pathsep}{TESTS}",
        "TMPDIR": str(tmp_path),
    }
    results = tmp_path / "results.json"
    done = subprocess.run(
        [*command, "--results", str(results)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(results.read_text())
    assert result["wrong"] == 0 and result["notes"] == []
    # A kill may come too late, which is then counted nowhere.
    assert result["injected"] >= 10
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
