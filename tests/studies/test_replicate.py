"""`goalmeter replicate`: find studies, count what they will do, and run them as scripts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from goalmeter.commands.replicate import REPLICATIONS, replicate
from goalmeter.runs import Study

ROOT = Path(__file__).resolve().parents[2]


class StartedError(Exception):
    """The trials of a study are about to run."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n in ("lm-navigation", "calibration") else ())
        for n in REPLICATIONS
    ],
)
def test_every_study_counts_what_it_will_do(name: str, tmp_path: Path) -> None:
    if name in ("calibration", "organisms", "lm-representation"):
        pytest.importorskip("transformers")
    planned = replicate(name, tmp_path / "out", dry_run=True).json["planned"]
    assert planned and all(count > 0 for count in planned.values())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "module", "options"),
    [
        ("lm-navigation", "lm_navigation.study", {"seeds": 2, "agents": "optimal,greedy"}),
        ("organism-use", "organism_use.study", {"seeds": 2}),
        ("organisms", "organisms.study", {"seeds": 2}),
        ("goal-misgeneralisation", "goal_misgeneralisation.study", {"seeds": 2}),
        ("tempting-button", "tempting_button.study", {"seeds": 2}),
    ],
)
def test_the_first_count_is_the_number_of_trials(
    name: str, module: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "organisms":
        pytest.importorskip("transformers")

    def started(study: Study[Any], **_: Any) -> None:
        raise StartedError(len(study.trials))

    monkeypatch.setattr(f"replications.{module}.carry_out", started)
    with pytest.raises(StartedError) as reached:
        replicate(name, tmp_path / "out", **options)
    first = next(iter(replicate(name, **options, dry_run=True).json["planned"].values()))
    assert reached.value.args == (first,)


def test_a_study_runs_as_a_script(tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, ROOT / "replications" / "cliffworld" / "study.py", "--dry-run"],
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    assert "networks" in done.stdout
