"""`goalmeter navigate`: what it shows of an agent, and what it refuses."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from goalmeter import cli
from goalmeter._errors import InvalidParameterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.commands.navigate import navigate
from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.navigation import suite, walks
from goalmeter.navigation.behaviour import behaviour
from goalmeter.navigation.frames import FrameComparison
from goalmeter.navigation.rollouts import load
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import Equivalence, SignedRanks

SMALL: dict[str, Any] = {"sizes": [7], "complexities": [0.0, 1.0], "grids": 3, "trajectories": 2}
CELL = ("success", "accuracy", "accuracy_detour", "entropy", "jsd", "invalid")


def rows(outcome: Outcome, caption: str) -> dict[str, list[str]]:
    (table,) = (table for table in outcome.tables if table.caption.startswith(caption))
    return {row[0].text: [cell.text for cell in row[1:]] for row in table.cells}


def number(text: str) -> float:
    return float(re.split(r"[% ]", text.replace("−", "-"))[0])


def test_json_has_the_cells_and_agents_beside_them() -> None:
    result = json.loads(json_text(navigate("wall-follower", **SMALL, seed=1).json))
    expected = behaviour(list(walks(navigator("wall-follower"), suite("maze", **SMALL, seed=1))))
    assert (result["agent"], result["suite"]) == ("wall-follower", "maze")
    assert [(c["size"], c["complexity"]) for c in result["cells"]] == [(7, 0.0), (7, 1.0)]
    for cell, row in zip(result["cells"], expected.cells, strict=True):
        assert (cell["grids"], cell["trajectories"]) == (3, 6)
        for name in CELL:
            value = getattr(row, name).value
            assert cell[name] == (None if value != value else pytest.approx(value))
            assert len(cell[f"{name}_interval"] or (0, 0)) == 2
    assert set(result["references"]) == {"optimal", "greedy", "random"}
    assert result["references"]["optimal"]["overall"][0]["accuracy"] == 1.0
    # An agent that is a reference itself is not shown twice.
    assert set(navigate("greedy", **SMALL).json["references"]) == {"optimal", "random"}


@pytest.mark.parametrize(
    ("interval", "wilcoxon", "equal", "expected"),
    [
        ((-0.04, -0.01), 0.01, 0.01, "equal"),  # certain, and smaller than what matters
        ((-0.09, -0.01), 0.01, 0.30, "below"),
        ((0.01, 0.09), 0.01, 0.30, "above"),
        ((0.01, 0.09), 0.20, 0.30, "inconclusive"),  # not after correction for four frames
        ((-0.01, 0.09), 0.01, 0.30, "inconclusive"),  # ranks differ, the mean may not
        (None, 0.01, 0.30, "inconclusive"),
        ((-0.01, 0.09), math.nan, math.nan, "inconclusive"),
    ],
)
def test_a_frame_is_told_apart_by_both_tests(
    interval: tuple[float, float] | None, wilcoxon: float, equal: float, expected: str
) -> None:
    value = 0.0 if interval is None else sum(interval) / 2
    comparison = FrameComparison(
        "accuracy",
        0.9,
        0.9 + value,
        Estimate(value, interval, 30, 30),
        SignedRanks(0.0, wilcoxon, 0.0, 30, 30),
        wilcoxon,
        Equivalence(value, 0.05, equal, interval, 30),
        equal,
    )
    assert comparison.verdict == expected


def test_a_run_is_kept_and_continued(tmp_path: Path) -> None:
    first = navigate("random", **SMALL, out=tmp_path / "run")
    assert first.json["run"] == str((tmp_path / "run").resolve())
    assert len(load(tmp_path / "run").trajectories) == 12
    told: list[str] = []
    again = navigate("random", **SMALL, out=tmp_path / "run", progress=told.append)
    assert again.json == first.json and told[0] == "random: 12 of 12 walks were there already"


def test_what_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match="AGENT is missing: name one, such as greedy"):
        navigate(None)
    with pytest.raises(InvalidParameterError, match="or a language model as PROVIDER/NAME"):
        navigate(None)
    typed = {"temperature": 1.0, "options": {"a": 1}, "logs": (Path("x.eval"),)}
    with pytest.raises(
        InvalidParameterError, match=r"^--from-log, --temperature, -M: .* greedy is"
    ):
        navigate("greedy", **typed)
    with pytest.raises(InvalidParameterError, match="no agent 'gredy'; did you mean"):
        navigate("gredy")
    with pytest.raises(
        InvalidParameterError, match=r"no suite 'mazes', expected .*; did you mean 'maze'\?"
    ):
        navigate("greedy", suite="mazes")
    with pytest.raises(InvalidParameterError, match="has no complexities; only mazes do"):
        navigate("greedy", suite="key-door", complexities=[1.0])


def test_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--sizes", "9", "--complexities", "1", "--grids", "2", "--trajectories", "1"]
    strata = ["--distance", "4-6", "--distance", "8-12", "--cap-factor", "2", "--seed", "5"]
    arguments = ["goalmeter", "navigate", "greedy", *options, *strata, "--json"]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit, match="0"):
        cli.main()
    output = capsys.readouterr()
    result = json.loads(output.out)
    assert [cell["condition"]["distance"] for cell in result["cells"]] == [[4, 6], [8, 12]]
    assert "baseline agent: random" in output.err
    for typed, message in (
        (("greedy", "--top-p", "0.5"), "--top-p: for language models only"),
        (("greedy", "--sizes", "7,x"), "--sizes is '7,x', expected whole numbers"),
        (("greedy", "--complexities", "all"), "--complexities is 'all', expected numbers"),
        (("greedy", "--detour", "4"), "--detour is '4', expected two whole numbers"),
        (("hf/./none", "--dry-run"), "there is no folder './none'"),
    ):
        monkeypatch.setattr("sys.argv", ["goalmeter", "navigate", *typed])
        with pytest.raises(SystemExit, match="2"):
            cli.main()
        assert message in capsys.readouterr().err
