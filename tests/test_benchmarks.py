"""The benchmark scripts run and say what was measured where; their times are not tested."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
COMMON = {"claim", "commit", "machine", "versions", "quick", "seconds"}
SCRIPTS = sorted(p.stem for p in BENCHMARKS.glob("*.py") if "harness.run(" in p.read_text())

# A script starts itself again where the linear algebra has more threads.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def printed_by(script: str, *options: str | Path, environment: dict[str, str]) -> str:
    command = [sys.executable, str(BENCHMARKS / script), "--quick", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_quick_run_writes_its_result_and_prints_a_table(name: str, tmp_path: Path) -> None:
    if name == "compiled_kernel":
        pytest.importorskip("numba")
    file = tmp_path / f"{name}.json"
    printed = printed_by(f"{name}.py", "--out", file, environment=os.environ | ONE_THREAD)
    result = json.loads(file.read_text())
    assert set(result) > COMMON
    assert result["quick"] is True
    assert set(result["machine"]) == {"cpu", "cores", "memory_gib", "system", "load_before"}
    assert set(result["versions"]) == {"python", "numpy", "scipy", "goalmeter"}
    assert "|---" in printed


def test_all_are_run_by_one_command_with_one_thread(tmp_path: Path) -> None:
    many = os.environ | dict.fromkeys(ONE_THREAD, "2")
    options = ("--only", "batch_vs_single", "--out", tmp_path)
    assert "|---" in printed_by("run_all.py", *options, environment=many)
    assert [file.name for file in tmp_path.iterdir()] == ["batch_vs_single.json"]


def test_one_command_runs_every_script() -> None:
    text = (BENCHMARKS / "run_all.py").read_text()
    assert SCRIPTS and all(f'"{name}"' in text for name in SCRIPTS)
