"""The paper's reading of maps and plans, on a small scale: every number has its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from goalmeter.commands.replicate import replicate as run_study

pytest.importorskip("transformers")

from goalmeter.representation.plans.readers import PlanDecoder
from goalmeter.representation.probes.registry import Published
from replications import ledger
from replications.lm_representation import study

# Inspect calls its own libraries in ways that they have given up.
pytestmark = [
    pytest.mark.slow,  # probes and decoders are trained
    # What all of its tests look at is made once, by one worker.
    pytest.mark.xdist_group("lm-representation"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:inspect_ai"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A replication in small mazes, with probes that are trained for a moment."""
    out = tmp_path_factory.mktemp("replication")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("INSPECT_LOG_DIR", "INSPECT_CACHE_DIR", "XDG_DATA_HOME"):
            patch.setenv(name, str(out / name.lower()))
        patch.setenv("INSPECT_DISPLAY", "none")
        patch.setattr(study, "SIZES", (7,))
        patch.setattr(study, "COMPLEXITIES", (0.6,))
        patch.setattr(study, "LARGE_SIZES", (7, 9))
        patch.setattr(study, "MLP", Published(hidden=8, epochs=2))
        patch.setattr(study, "LINEAR", Published(epochs=2))
        patch.setattr(study, "DECODER", PlanDecoder(1, width=16, heads=2))
        return out, run_study("lm-representation", out, seeds=16)


def test_every_published_number_of_a_size_has_ours_beside_it(outcome: tuple[Path, Any]) -> None:
    """Ids are those of the ledger."""
    _, result = outcome
    numbers = result.json["numbers"]
    known = {row.id.removeprefix("lm-representation/") for row in ledger.load("lm-representation/")}
    assert set(numbers) <= known
    assert {"map/mlp", "map/linear", "decoded/accuracy", "plan/post/1", "plan/7/3"} <= set(numbers)
    for value in numbers.values():
        assert value["value"] is None or 0.0 <= value["value"] <= 1.0


def test_shares_of_wrong_actions_by_size_add_up_to_all(outcome: tuple[Path, Any]) -> None:
    by_size = dict(outcome[1].json["explained_by_size"])
    whole = by_size.pop(study.ALL)
    assert [*by_size] == ["7", "9"]
    for name in ("steps", "errors", "unreadable"):
        assert whole[name] == sum(each[name] for each in by_size.values()), name
    assert whole["steps"] > 2 * 12  # every decision of 12 walks at each size
    for each in by_size.values():
        assert each["explained_errors"]["n"] == each["errors"]
        assert each["recovery"]["n"] <= each["errors"]
