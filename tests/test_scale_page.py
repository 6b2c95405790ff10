"""What docs/notes/scale.md computes: memory from shapes of models, and the rows of a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

import goalmeter as gm
from goalmeter.meg.sweeps.plan import plan_sweep

PAGE = Path(__file__).resolve().parents[1] / "docs" / "notes" / "scale.md"
GIB, KIB = 2**30, 2**10
# Of keys and values; and the reach of the sliding attention that half of the layers have.
HEADS, HEAD, BYTES, WINDOW = 8, 64, 2, 128
USED, OVERHEAD, QUESTION = 0.9 * 80e9, 2 * GIB, 2000


@pytest.mark.parametrize(
    ("label", "layers", "weights", "gpus"),
    [
        ("gpt-oss-20b on one GPU", 24, 12.8, 1),
        ("gpt-oss-120b on one GPU", 36, 60.8, 1),
        ("gpt-oss-120b on two, `--tensor-parallel-size 2`", 36, 60.8, 2),
    ],
)
def test_the_memory_of_gpt_oss(label: str, layers: int, weights: float, gpus: int) -> None:
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| {label} |")]
    _, held, left, tokens, questions = (cell.strip() for cell in row.strip("|").split("|"))
    layer = 2 * HEADS * HEAD * BYTES / gpus  # keys and values of a token
    context = USED - weights * GIB / gpus - OVERHEAD
    token, window = layers / 2 * layer, layers / 2 * layer * WINDOW
    assert held == f"{weights / gpus:.1f} GiB" + " each" * (gpus > 1)
    assert left == f"{context / GIB:.0f} GiB" + " each" * (gpus > 1)
    assert tokens == f"{context / token / 1e6:.2f} million"
    assert questions == f"{int(context / (QUESTION * token + window)):,}"
    if gpus == 1:
        text = PAGE.read_text()
        assert f"{token / KIB:.0f} KiB" in text and layer == 2 * KIB


def test_the_sweep_of_the_page(tmp_path: Path) -> None:
    toml = PAGE.read_text("utf-8").split("```toml\n")[1].split("```")[0]
    (tmp_path / "SWEEP.toml").write_text(toml)
    (tmp_path / "mdps").mkdir()
    gm.cliff_world(2).to_npz(tmp_path / "mdps" / "cliffs.npz")
    plan = plan_sweep(tmp_path / "SWEEP.toml")
    # Four cliffs, two sizes of a hundred mazes and a file; three epsilons; the reward and any goal.
    assert plan.shape == (4 + 2 * 100 + 1, 3, 2)
