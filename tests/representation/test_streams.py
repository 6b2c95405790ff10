"""The stages of where and when: kept as they are finished, with reasons for what is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from representation.use.test_causal_use import decisions

from goalmeter.representation import stages as staged
from goalmeter.representation.network import Network
from goalmeter.representation.result_rows import MovedRow, SubspaceRow, row_from
from goalmeter.representation.stages import ProbeOptions, ProbeRun, stream_stage
from goalmeter.runs import Stages


def asked(
    mouse: Network, folder: Path, lines: list[str], samples: list[Any]
) -> tuple[dict[str, str], Any]:
    """What the stages of where and when leave out, and their rows."""
    wanted = ProbeOptions((1,), ("pre/end",), ("ridge",), ("use",), ("knock-out", "patch"), 40)
    with Stages(folder, {"kind": "probe"}, tell=lines.append) as stages:
        run = ProbeRun(stages, tuple(samples), mouse, wanted)
        value = stream_stage(run)
    kinds: dict[str, Any] = {"moved": MovedRow, "subspaces": SubspaceRow}
    rows = {name: [row_from(kind, row) for row in value[name]] for name, kind in kinds.items()}
    return run.left_out, rows


@pytest.mark.slow
def test_streams_are_exchanged_and_a_carrier_is_learnt(
    mouse: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mouse reads the goal off its word in the first blocks: no later stream carries it."""
    monkeypatch.setattr(staged, "_STEPS", 4)
    with Stages(tmp_path / "probe", {"kind": "probe"}) as stages:
        stages.value("use/spans", lambda: {"rows": []})
        stages.value("use/moved/agent", lambda: {"rows": [], "carrier": None})
        stages.value("use/moved/isometry", lambda: {"reason": "too few grids"})
    lines: list[str] = []
    samples = decisions(mouse, 24)
    left_out, rows = asked(mouse, tmp_path / "probe", lines, samples)
    made = [line.removeprefix("probe: ") for line in lines if line.startswith("probe:")]
    assert made == ["use/moved/goal", "use/subspace/goal", "use/subspace/agent"]

    screened = [row for row in rows["moved"] if row.half == "screen"]
    places = {(row.position, row.layer) for row in screened}
    layers: list[int | str] = [1, "1-2", "3-4", "all"]
    assert places == {(name, layer) for name in ("pre/goal", "pre/end") for layer in layers}
    best, ceiling = (row for row in rows["moved"] if row.half == "confirm")
    (chosen,) = (row for row in screened if row.chosen)
    assert (best.position, best.layer) == (chosen.position, chosen.layer) == ("pre/goal", 1)
    assert best.chosen and ceiling.is_ceiling and not ceiling.chosen
    assert min(best.flips.value, ceiling.flips.value) > 0.75
    assert not any(r.flips.value for r in screened if {"pre/end", "3-4"} & {r.position, r.layer})

    (row,) = rows["subspaces"]
    assert (row.half, row.moved, row.layer, row.position) == ("confirm", "goal", 1, "pre/goal")
    assert row.rank == 4 and row.losses[1] < row.losses[0] and row.trained <= 24
    assert row.whole_flips.value > 0.75 and row.pairs == row.flips.n
    low, middle, high = row.chance
    assert row.degrees is not None and 0 < low < middle < high <= 90
    assert set(left_out) == {"isometry moved", "subspace of the agent"}
    assert "at no confirmed place" in left_out["subspace of the agent"]
    lines.clear()
    assert asked(mouse, tmp_path / "probe", lines, samples) == (left_out, rows) and not lines
