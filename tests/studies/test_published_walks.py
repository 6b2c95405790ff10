"""`goalmeter replicate published-walks`, on files of the published form that are made here."""

from __future__ import annotations

import csv
import json
import re
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from documented import ROOT, Rows, shown
from navigation.walked import walked

import goalmeter as gm
from goalmeter._errors import InvalidFileError, InvalidParameterError, InvalidTrajectoryError
from goalmeter.commands.navigate import navigate
from goalmeter.commands.replicate import replicate as run_study
from goalmeter.gridworld import ACTIONS, plan, rendered
from goalmeter.navigation import Trajectory, from_walks
from replications.published_walks import study
from replications.published_walks.converter import FILE, steps, walks

replicate = partial(run_study, "published-walks")
CONVERTER = ROOT / "replications" / "published_walks" / "converter.py"


def rows_of(number: int, walk: Trajectory) -> list[dict[str, Any]]:
    """The steps of a walk in the published form; the legacy sets have no action but LEFT."""
    return [
        {
            "trajectory_id": f"walk_{number}",
            "step_index": index,
            "grid_text": rendered(walk.world, step.state),
            "carrying_key": step.state.has_key,
            "observed_action": ACTIONS[step.action or 0],
            "optimal_actions": [ACTIONS[action] for action in step.optimal],
            "legacy_optimal_actions": ["LEFT"],
            "failure_modes": ["backtrack"] if index == 1 else [],
            "selected_for_probe": index == 1,
            "trajectory_class": "optimal_success",
            "trajectory_actual_length": len(walk.steps),
            "stored_astar_distance": 30,
        }
        for index, step in enumerate(walk.steps)
    ]


def write(folder: Path, rows: list[dict[str, Any]], kind: str = "json") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"{FILE}.{kind}"
    if kind == "json":
        path.write_text(json.dumps(rows))
        return folder
    names = {"optimal_actions", "legacy_optimal_actions", "failure_modes"}
    with path.open("w", newline="") as file:
        flat = [
            {
                f"{n}_json" if n in names else n: json.dumps(v) if n in names else v
                for n, v in r.items()
            }
            for r in rows
        ]
        writer = csv.DictWriter(file, list(flat[0]))
        writer.writeheader()
        writer.writerows(flat)
    return folder


@pytest.fixture(scope="module")
def recorded() -> list[Trajectory]:
    """Walks of an agent that errs, which end within the limit."""
    return walked("epsilon-optimal(0.2)", "key-door", seed=1, grids=4, cap=30)


@pytest.fixture(scope="module")
def published(recorded: list[Trajectory]) -> list[dict[str, Any]]:
    return [row for number, walk in enumerate(recorded) for row in rows_of(number, walk)]


def test_the_study_counts_what_was_published(
    recorded: list[Trajectory], published: list[dict[str, Any]], tmp_path: Path
) -> None:
    outcome = replicate(tmp_path / "out", data=write(tmp_path / "data", published))
    result = outcome.json
    assert [each["wrong"] for each in result["items"]] == [
        sum(not step.is_optimal for step in walk.steps) for walk in recorded
    ]
    assert [each["shortest"] for each in result["items"]] == [walk.distance for walk in recorded]
    total = result["total"]
    assert total["steps"] == total["sets"] == total["sets_equal"] == len(published)
    optimal = [step.optimal for walk in recorded for step in walk.steps]
    assert total["legacy_differs"] == sum(each != (0,) for each in optimal)
    assert total["selected"] == len(recorded)
    second = [walk.steps[1].is_optimal for walk in recorded]
    assert result["failure_modes"] == {"backtrack": {"steps": 4, "optimal": sum(second)}}
    arrived = [walk.arrived for walk in recorded]
    assert sum(result["classes"].values()) == 4 and result["classes"]["failed"] == 4 - sum(arrived)
    # The run that the study stores is one of navigation.
    again = gm.navigation.load(tmp_path / "out" / "walks")
    assert again.overall[0].to_json() == result["behaviour"]
    assert not any("grid" in each or "actions" in each for each in result["items"])


def test_shares_that_policies_explain(recorded: list[Trajectory]) -> None:
    records = [
        {"grid": str(walk.world), "actions": [step.action for step in walk.steps], "cap": walk.cap}
        for walk in recorded
    ]
    found = study.explained(from_walks(records, beside=[]))

    for name in study.POLICIES:
        # Literally: the best rate of random actions, tried one after the other.
        walker: Any = gm.agents.agent(name).in_grids()
        likely: list[float] = []
        for walk in recorded:
            shortest = plan(walk.world)
            policy = walker.policy(shortest)
            likely += [policy[shortest.number(step.state), step.action] for step in walk.steps]
        rates = np.geomspace(1e-3, 1, 121)
        nats = [sum(log((1 - rate) * p + rate / 4) + log(4) for p in likely) for rate in rates]
        assert found[name].value == pytest.approx(max(nats) / (len(likely) * log(4)))
        assert found[name].n == len(likely) and found[name].clusters == 4
    assert found["optimal"].value > found["greedy"].value


def test_both_files_are_the_same_walks(published: list[dict[str, Any]], tmp_path: Path) -> None:
    as_json, as_csv = (write(tmp_path / kind, published, kind) for kind in ("json", "csv"))
    assert [*steps(as_json)] == [*steps(as_csv)] and [*walks(as_json)] == [*walks(as_csv)]
    converted = navigate("a", walks=as_csv, converter=f"{CONVERTER}:walks")
    assert converted.json == from_walks(walks(as_json), "a").to_json()


def test_selected_steps_are_no_sample(published: list[dict[str, Any]], tmp_path: Path) -> None:
    selected = write(tmp_path / "selected", [row for row in published if row["selected_for_probe"]])
    with pytest.raises(InvalidParameterError, match="selected for failures, and success and goal-"):
        replicate(tmp_path / "out", data=selected)
    # A trajectory of which a step is missing is left out, and the others are measured.
    most = write(tmp_path / "most", [row for row in published if row != published[2]])
    assert len([*walks(most)]) == 3


def test_what_is_refused(published: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(InvalidParameterError, match=r"missing \(--data\): give the folder"):
        replicate(tmp_path / "out")
    with pytest.raises(InvalidFileError, match=f"has no {FILE}.json or .csv"):
        replicate(tmp_path / "out", data=tmp_path)
    other = "UP" if published[0]["observed_action"] != "UP" else "DOWN"
    damaged = [published[0] | {"observed_action": other}, *published[1:]]
    with pytest.raises(
        InvalidTrajectoryError, match=r"trajectory 0 \('walk_0'\), step 0: .*next rec"
    ):
        replicate(tmp_path / "out", data=write(tmp_path / "damaged", damaged))
    short = [{name: row[name] for name in row if name != "carrying_key"} for row in published]
    with pytest.raises(
        InvalidFileError, match="step 0: KeyError: 'carrying_key'; expected the fie"
    ):
        replicate(tmp_path / "out", data=write(tmp_path / "short", short))


# --- What was stored ------------------------------------------------------------------------------
KEPT = ROOT / "docs" / "results" / "published-walks.json"


def test_the_page_shows_the_stored_numbers() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    page = ROOT / "docs" / "notes" / "navigation-language-models.md"
    marked = (
        f"tests/studies/{Path(__file__).name}::{test_the_page_shows_the_stored_numbers.__name__}"
    )
    (table,) = (
        each
        for each in shown(page)
        if isinstance(each, Rows) and each.marker == ("checked by", marked)
    )
    text = " ".join(kept["findings"])
    numbers = [n for row in table.cells[1:] for n in re.findall(r"[\d.,]*\d", " ".join(row[1:]))]
    assert len(numbers) > 20
    assert [number for number in numbers if number not in text] == []
    # The totals are those of the items.
    for name in ("steps", "wrong", "detour", "legacy_differs", "sets_equal"):
        assert kept["total"][name] == sum(each[name] for each in kept["items"])
