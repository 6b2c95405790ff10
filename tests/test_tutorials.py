from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# A line of each tutorial's output, worked out independently.
SAYS = {
    "plot_your_own_mdp": "MEG 1.5157",
    # The two squares that the mouse prefers.
    "plot_mouse_lab": "highest at [9, 40]",
    # An untrained network chooses almost freely.
    "plot_meg_over_training": "after      0 steps of training: 0.00 nats",
    "plot_causal_models": "goes for the cheese 80%: 0.1927 nats, beta 0.6931",
}
TUTORIALS = sorted((ROOT / "docs" / "gallery").glob("*.py"))


# The tutorial takes a minute.
SLOW = {"plot_meg_over_training": pytest.mark.slow}


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=SLOW.get(p.stem, ())) for p in TUTORIALS]
)
def test_a_tutorial_runs_as_it_stands(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env=os.environ
        # Stable-Baselines3 makes a folder for logs, also where it keeps none.
        | {"PYTHONPATH": str(ROOT / "src"), "PYTHONUTF8": "1", "SB3_LOGDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[path.stem] in done.stdout


def test_every_tutorial_is_built_and_ends_in_a_figure() -> None:
    assert TUTORIALS
    for path in TUTORIALS:
        text = path.read_text(encoding="utf-8")
        assert path.name.startswith("plot_"), f"{path.name}: sphinx-gallery runs plot_*.py only"
        assert text.endswith("plt.show()\n"), f"{path.name} does not end in a figure"
