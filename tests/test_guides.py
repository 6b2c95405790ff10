"""Guides whose programs need a process of their own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from documented import ROOT, Block, shown

installed = all(importlib.util.find_spec(name) for name in ("nnsight", "inspect_ai"))


@pytest.mark.slow
@pytest.mark.skipif(not installed, reason="nnsight is not installed")
def test_the_guide_on_hidden_states_prints_what_it_shows(tmp_path: Path) -> None:
    """Importing nnsight changes every object of a process."""
    blocks = [b for b in shown(ROOT / "docs/guides/hidden-states.md") if isinstance(b, Block)]
    pairs = [
        (program, output) for program, output in pairwise(blocks) if program.language == "python"
    ]
    assert len(pairs) == 3 and all(output.follows for _, output in pairs)
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(program.text for program, _ in pairs)],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(output.text for _, output in pairs)
