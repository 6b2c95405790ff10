"""Run every benchmark, one after the other, and write the table of results.

    python benchmarks/run_all.py                 all, to benchmarks/results (about half an hour)
    python benchmarks/run_all.py --only batch    those whose name contains "batch"
    python benchmarks/run_all.py --quick --out /somewhere     smoke run, times mean nothing
    python benchmarks/run_all.py --write-docs    docs/benchmarks.md from the results, runs nothing

Times count only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import harness

SCRIPTS = (
    "known_utility_vs_gradient_ascent",
    "unknown_utility_vs_gradient_ascent",
    "unknown_sweep",
    "unknown_near_one",
    "unknown_scaling",
    "unknown_growth",
    "unknown_vs_gradients",
    "soft_backup_vs_memory",
    "batch_vs_single",
    "many_worlds",
    "compiled_kernel",
    "interval_coverage",
    "simulator_coverage",
    "simulator_guarantee",
    "simulator_steps",
    "simulator_fitted",
    "simulator_skill",
    "simulator_references",
    "few_clusters",
    "causal_vs_enumeration",
    "causal_width",
    "causal_vs_pgmpy",
    "causal_chain",
    "sensitivity_table",
    "causal_search",
    "reflection_agreement",
    "reflection_vs_library",
    "reflection_workers",
    "run_scaling",
    "places",
    "navigation_reference_agents",
    "card_headlines",
    "navigation_overhead",
    "language_model_server",
    "probe_rows",
    "capture_overhead",
    "patching_sweep",
)
DOCS = harness.HERE.parent / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

Each section is one script in `benchmarks/`: its claim, its method and its stored results. "Ours" is
goalmeter. Unless a section states otherwise, both sides run in turns in the same process, times are
medians, and "3×" means that the other side takes three times as long as ours. Linear algebra has
one thread on both sides; goalmeter itself uses all cores on worlds of more than 8192 states. Tests
check that the scripts run, not the numbers. Wide tables scroll sideways.

`make bench` runs all scripts; `python benchmarks/run_all.py --write-docs` generates this page from
`benchmarks/results/*.json`.
"""


def run(names: list[str], out: Path, quick: bool) -> int:
    """The scripts in processes of their own; the number that failed."""
    # The scripts must measure this checkout, also where goalmeter is not installed.
    source = str(harness.HERE.parent / "src")
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    failed = 0
    for name in names:
        print(f"\n{name}", flush=True)
        command = [sys.executable, str(harness.HERE / f"{name}.py")]
        command += ["--out", str(out / f"{name}.json"), *(["--quick"] if quick else [])]
        done = subprocess.run(
            command,
            # With one thread from the start, a script need not start itself again for it.
            env={**os.environ, "PYTHONPATH": path, **dict.fromkeys(harness.THREAD_VARIABLES, "1")},
            check=False,
        )
        failed += done.returncode != 0
    return failed


def page(results: Path) -> str:
    """The documentation page, from the results that are there."""
    parts = [HEAD]
    for name in SCRIPTS:
        file = results / f"{name}.json"
        if not file.exists():
            continue
        result: dict[str, Any] = json.loads(file.read_text())
        module = importlib.import_module(name)
        claim, _, method = (module.__doc__ or "").partition("\n\n")
        # What is special about a run, such as rows that were measured elsewhere.
        remark = result.get("remark", "")
        tables = readable(module.markdown(result))
        parts += [f"## {claim.rstrip('.')}", method, tables, remark, _origin(name, result)]
    parts = [part for part in parts if part]
    return "\n\n".join(part.strip() for part in parts) + "\n"


_SCIENTIFIC = re.compile(r"\b(\d(?:\.\d+)?)e([+-]\d{2,3})(?!\d)")
_LEAST_EXPONENT, _GREATEST_EXPONENT = -3, 6


def readable(text: str) -> str:
    """The tables of a script in common notation: 3,340× for 3.34e+03x, 1e-6 for 1e-06."""
    text = _SCIENTIFIC.sub(_plain, text)
    text = re.sub(r"(?<=\d)x(?=[\s|,;.)]|$)", "×", text, flags=re.MULTILINE)
    return re.sub(r"(?<=\d) us\b", " µs", text.replace(">= ", "≥ "))


def _plain(found: re.Match[str]) -> str:
    digits, exponent = found[1], int(found[2])
    if float(digits) == 0:
        return "0"
    if not _LEAST_EXPONENT <= exponent <= _GREATEST_EXPONENT:
        return f"{digits}e{exponent}"
    decimals = max(len(digits.partition(".")[2]) - exponent, 0)
    return f"{float(found[0]):,.{decimals}f}"


def _origin(name: str, result: dict[str, Any]) -> str:
    machine, versions = result["machine"], result["versions"]
    return (
        f"`benchmarks/{name}.py`, commit {result['commit'][:12] or 'unknown'}; {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, load {machine['load_before']} "
        f"before the run; "
        + ", ".join(f"{k} {v}" for k, v in versions.items())
        + f"; the run took {result['seconds']:.0f} s."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument("--quick", action="store_true", help="a smoke run, under a minute")
    parser.add_argument("--only", default="", help="part of a script's name")
    parser.add_argument("--out", type=Path, default=harness.RESULTS, help="folder for the results")
    parser.add_argument("--write-docs", action="store_true", help="write docs/benchmarks.md only")
    options = parser.parse_args()
    if options.write_docs:
        DOCS.write_text(page(options.out))
        print(f"wrote {DOCS}")
        return 0
    if options.quick and options.out == harness.RESULTS:
        parser.error("--quick needs --out, so that it does not replace the real results")
    return run([name for name in SCRIPTS if options.only in name], options.out, options.quick)


if __name__ == "__main__":
    sys.exit(main())
