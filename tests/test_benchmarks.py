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
# Script -> what it measured.
SCRIPTS = {
    "known_utility_vs_gradient_ascent": {"cap_seconds", "one_pass", "problems", "summary"},
    "unknown_utility_vs_gradient_ascent": {"cap_seconds", "problems", "summary"},
    "unknown_sweep": {"each", "named", "rows", "timeout"},
    "unknown_near_one": {"rows"},
    "unknown_scaling": {"cap", "rows"},
    "unknown_growth": {"rows"},
    "unknown_vs_gradients": {"cap", "rates", "rows"},
    "soft_backup_vs_memory": {
        "bytes_per_second",
        "growth_exponent",
        "horizon",
        "known_utility",
        "sizes",
        "threads",
    },
    "batch_vs_single": {"batch", "rows"},
    "many_worlds": {"rows", "singles", "worlds"},
    "compiled_kernel": {
        "compiled_seconds",
        "first_call_seconds",
        "numba",
        "numpy_seconds",
        "value_differs",
        "worlds",
    },
    "interval_coverage": {"confidence", "rows"},
    "few_clusters": {"confidence", "rows", "strata"},
    "causal_vs_enumeration": {"families", "max_entries", "max_seconds"},
    "causal_width": {"longer", "variables", "wider"},
    "causal_vs_pgmpy": {"networks", "pgmpy"},
    "causal_chain": {"exponent_last_two", "rows"},
    "sensitivity_table": {"rows"},
    "causal_search": {"diagrams", "rows"},
    "reflection_agreement": {"library", "rows"},
    "reflection_workers": {"agent", "rows", "steps"},
    "run_scaling": {"keeping", "rows"},
    "places": {"rows"},
    "reflection_vs_library": {
        "environments",
        "library",
        "ours",
        "sizes",
        "table_1_cpu_seconds",
        "table_1_seconds",
    },
    "simulator_coverage": {"coverage", "growth", "tight"},
    "navigation_reference_agents": {"agents", "rows", "scoring", "whole"},
    "navigation_overhead": {"batch", "libraries", "once", "rows", "tokens"},
    "language_model_server": {"rows", "shares"},
    "probe_rows": {"dimensions", "hidden", "rows"},
    "capture_overhead": {"positions", "rows"},
    "patching_sweep": {"rows", "preparing_s", "donors"},
}
# Script -> a package without which it cannot run.
NEEDS = {
    "compiled_kernel": "numba",
    "unknown_sweep": "gymnasium",
    "unknown_near_one": "mpmath",
    "simulator_coverage": "gymnasium",
    "navigation_overhead": "inspect_ai",
    "language_model_server": "openai",
    "probe_rows": "torch",
    "capture_overhead": "transformers",
    "patching_sweep": "transformers",
}


# A script starts itself again where the linear algebra has more threads.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def printed_by(script: str, *options: str | Path, environment: dict[str, str]) -> str:
    command = [sys.executable, str(BENCHMARKS / script), "--quick", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_quick_run_writes_every_field_and_prints_a_table(name: str, tmp_path: Path) -> None:
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    file = tmp_path / f"{name}.json"
    printed = printed_by(f"{name}.py", "--out", file, environment=os.environ | ONE_THREAD)
    result = json.loads(file.read_text())
    assert set(result) == COMMON | SCRIPTS[name]
    assert result["quick"] is True
    assert set(result["machine"]) == {"cpu", "cores", "memory_gib", "system", "load_before"}
    assert set(result["versions"]) == {"python", "numpy", "scipy", "goalmeter"}
    assert "|---" in printed


def test_all_are_run_by_one_command_with_one_thread(tmp_path: Path) -> None:
    many = os.environ | dict.fromkeys(ONE_THREAD, "2")
    options = ("--only", "batch_vs_single", "--out", tmp_path)
    assert "|---" in printed_by("run_all.py", *options, environment=many)
    assert [file.name for file in tmp_path.iterdir()] == ["batch_vs_single.json"]


def test_every_script_is_known_to_run_all_and_to_this_test() -> None:
    text = (BENCHMARKS / "run_all.py").read_text()
    scripts = {p.stem for p in BENCHMARKS.glob("*.py") if "harness.run(" in p.read_text()}
    assert scripts == set(SCRIPTS)
    assert all(f'"{name}"' in text for name in scripts)
