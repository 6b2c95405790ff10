from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from goalmeter.agents import local_models
from goalmeter.commands.outcome import Outcome
from goalmeter.demo import run
from goalmeter.demo.run import demo
from goalmeter.organisms import organism_names
from goalmeter.report.page import render

# Models are asked in this process, where Inspect calls its own libraries in ways that they have
# given up.
pytestmark = [
    pytest.mark.slow,
    # What all of its tests look at is made once, by one worker.
    pytest.mark.xdist_group("demo"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:inspect_ai"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
SMALL = {
    "maze": {"sizes": (7,), "complexities": (1.0,), "grids": 1, "trajectories": 1},
    "key-no-door": {"grids": 1, "trajectories": 1},
}
MODELS = tuple(f"goalmeter/{name}" for name in organism_names())


@pytest.fixture(scope="module", autouse=True)
def scale(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "SUITES", SMALL)
        patch.setattr(run, "GRIDS", 8)
        # Inspect keeps files of its own there.
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return demo(tmp_path_factory.mktemp("demo"))


def test_the_page_has_all_its_parts(outcome: Outcome) -> None:
    assert outcome.report is not None
    page = outcome.report.read_text(encoding="utf-8")
    for title in (
        "Four language models whose goals are known",
        "The same worlds, different goals",
        "In mazes: do they plan?",
        "Worlds with a key that opens nothing: which goal is pursued?",
        run.TITLE,
        "A world where MEG is exact: CliffWorld",
        "A Gymnasium environment: FrozenLake",
        "From logged trajectories",
        "A causal model: the mouse and the cheese",
        "A true goal and a spurious one",
        "Self-reflection",
        "In which environments?",
        "With and without reality check",
        "Every agent in every environment",
        "What each number means",
    ):
        assert f">{title}</h2>" in page, title
    walks, megs, causal, reflection = 6, 2, 2, 3
    assert page.count("<figure") == walks + megs + causal + reflection
    assert page.index("Four language models") < page.index("CliffWorld</h2>")
    assert len(page) < 2_000_000
    assert "nan" not in page.lower().replace("governance", "")
    assert "Cell(" not in page


def test_walks_are_kept_and_the_report_is_reproducible(
    outcome: Outcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert outcome.report is not None
    for folder in ("organisms", "use"):
        shutil.copytree(outcome.report.parent / folder, tmp_path / folder)
    monkeypatch.setattr(local_models, "LocalModel", None)  # so that nothing can be asked again
    again = demo(tmp_path)
    assert again.report is not None
    assert again.report.read_bytes() == outcome.report.read_bytes()


def test_without_language_models_ideal_organisms_walk_and_the_page_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    _, part = run.organisms(tmp_path, seed=0, on="processes:2")
    names = [f"ideal-{name}" for name in organism_names()]
    assert "pip install 'goalmeter[lm]'" in part.sections[0].text[-1]
    assert [finding.lead.partition(":")[0] for finding in part.findings] == names
    # Each line leads to a place on the page, or the page cannot be made.
    page = render("t", part.sections, findings=part.findings)
    assert page.count('<span class="links">') == 4
    cells = run.measure_use(tmp_path, seed=0, on="here")
    assert isinstance(cells, str)
    (section,) = run.part_of_use(cells).sections
    assert section.title.endswith("not measured") and "goalmeter[lm]" in section.text[0]


def test_the_mole_does_not_act_on_rows_that_it_does_not_see(outcome: Outcome) -> None:
    pytest.importorskip("transformers")
    flips = {(row["organism"], row["cells"]): row["flips"]["value"] for row in outcome.json["use"]}
    assert len(flips) == 4
    assert flips["mouse", run.UNSEEN] > 0.6 and flips["mole", run.UNSEEN] < 0.4
