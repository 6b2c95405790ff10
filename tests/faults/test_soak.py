"""The soak, in short: all faults in one kind of run; `make soak` has all kinds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from faults.table import tables

SRC, TESTS = Path(__file__).resolve().parents[2] / "src", Path(__file__).resolve().parents[1]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are seen in /proc")
def test_whatever_is_done_to_a_run_it_ends_as_if_nothing_had_been(tmp_path: Path) -> None:
    # In a process of its own: it forks, which those of the tests had better not.
    command = [sys.executable, "-m", "faults", "--short", "--seed", "51", "--tries", "9"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, (SRC, TESTS, TESTS.parent))),
        "TMPDIR": str(tmp_path),
    }
    kept = tmp_path / "kept"
    kept.mkdir()
    done = subprocess.run(
        [*command, "--keep", str(kept)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((kept / "soak.json").read_text())
    assert result["wrong"] == 0 and result["notes"] == []
    # A kill may come too late, which is then counted nowhere.
    assert result["injected"] >= 5
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_every_write_may_fail() -> None:
    command = [sys.executable, "-m", "faults.every_write"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (SRC, TESTS, TESTS.parent)))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.findall(r": (\d+) faults, 0 wrong", done.stdout)
    assert len(counts) == 4 and min(map(int, counts)) >= 10


def test_the_kept_tables_are_those_of_the_kept_counts() -> None:
    kept = TESTS.parent / "docs" / "results"
    counts = json.loads((kept / "soak.json").read_text(encoding="utf-8"))
    assert (kept / "soak.txt").read_text(encoding="utf-8") == tables(counts)
    assert counts["wrong"] == 0
