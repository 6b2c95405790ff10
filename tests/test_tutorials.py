from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
# Words of each tutorial's output, worked out independently.
SAYS = {
    "plot_your_own_mdp": "MEG 1.5157",
    # The two squares that the mouse prefers.
    "plot_mouse_lab": "highest at [9, 40]",
    # An untrained network chooses almost freely.
    "plot_meg_over_training": "after      0 steps of training: 0.00 nats",
    "plot_causal_models": "goes for the cheese 80%: 0.1927 nats, beta 0.6931",
    # The walls that its map lacks.
    "plot_the_map_of_the_mole": "mole pursues the goal, on a map without the inner walls of rows 2",
    "plot_reading_a_card": "success: 0.7500 from 40 mazes, 0.7500 on the card",
    # The second agent errs more often, and still arrives.
    "plot_compare_agents": "accuracy: -0.10 [-0.14, -0.05] lower (40 common mazes)",
    # The row of CliffWorld in the published table, times ten.
    "plot_certificate": "true reward 23.7886",
    # An agent without a goal.
    "plot_simulator_intervals": "uniform policy: 0.0000 nats (0.0, 0.0)",
    "plot_misgeneralising_goal": "{'wrong': 33, 'right': 13, 'neither': 2}",
    # The only path to the symptom is cut.
    "plot_decisions_in_asia": "under do(either = yes): 0.0000 nats",
    "plot_published_walks": "21 of 32 labels are on optimal actions",
    "plot_believed_worlds": "mole: believed minus true world +1.18 nats [+0.50, +4.48]",
    # Rewards of an environment and its opposite cancel.
    "plot_self_reflection": "constant: +0.000, with its reality check +0.000",
}
TUTORIALS = sorted((ROOT / "docs" / "gallery").glob("*.py"))


# These take more than five seconds.
SLOW = dict.fromkeys(
    (
        "plot_meg_over_training",
        "plot_the_map_of_the_mole",
        "plot_compare_agents",
        "plot_reading_a_card",
        "plot_simulator_intervals",
    ),
    pytest.mark.slow,
)


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
        assert "title=" in text, f"{path.name}: titles are the alternative text of its figure"
