"""`goalmeter report`: finished runs on one page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from goalmeter._errors import (
    IncompleteRunError,
    InvalidFileError,
    InvalidParameterError,
    MissingExtraError,
)
from goalmeter.commands.runs import how_to_continue, report_runs
from goalmeter.reflection import measure


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    names = ["IgnoreRewards", "TemptingButton"]
    for name, agent in (("plain", "naive"), ("checked", "rc(naive)")):
        measure(agent, 30, 3, environments=names, out=folder / name)
    return [folder / "plain", folder / "checked"]


def test_a_page_of_runs(runs: list[Path], tmp_path: Path) -> None:
    told: list[str] = []
    outcome = report_runs(runs, tmp_path / "new" / "page.html", progress=told.append)
    assert outcome.report == (tmp_path / "new" / "page.html").resolve()
    page = outcome.report.read_text(encoding="utf-8")
    for words in ("rc(naive)", "TemptingButton", "<svg", "goalmeter report"):
        assert words in page
    assert outcome.json["report"] == str(outcome.report)
    assert [run["agent"] for run in outcome.json["runs"]] == ["naive", "rc(naive)"]
    assert all("environments" not in run and run["failures"] == 0 for run in outcome.json["runs"])
    assert outcome.tables and told[0] == f"reading {runs[0]}"


def test_what_is_refused(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "page.html"
    with pytest.raises(InvalidParameterError, match="is given twice; give each run once"):
        report_runs([runs[0], runs[0].parent / ".." / runs[0].parent.name / "plain"], out)
    with pytest.raises(InvalidFileError, match=r"is not a run: it has no run\.json"):
        report_runs([tmp_path], out)
    measure("naive", 9, 1, out=tmp_path / "part")
    (tmp_path / "part" / "trials.jsonl").write_text("")
    with pytest.raises(IncompleteRunError, match="lacks 50 of 50 trials; measure the") as refused:
        report_runs([runs[0], tmp_path / "part"], out)
    assert "lacks 50 of 50 trials; make them with: goalmeter reflect naive " in how_to_continue(
        refused.value
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"goalmeter\[report\]"):
        report_runs(runs, out)
    assert not out.exists()


def test_what_a_run_of_walks_lacks_is_typed_as_a_user_would() -> None:
    what = {
        "kind": "navigation",
        "agent": "greedy",
        "suite": "key-door",
        "sizes": [9],
        "grids": [0, 1],
        "trajectories": [0],
        "cap": 30,
        "seed": 0,
    }
    assert how_to_continue(IncompleteRunError("run", what, "1 of 2 walks")) == (
        "run lacks 1 of 2 walks; make them with: goalmeter navigate greedy --suite key-door "
        "--sizes 9 --grids 2 --trajectories 1 --cap 30 --out run"
    )
