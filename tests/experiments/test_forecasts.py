"""What experiments will cost: as many trials as they then make, and no folder before."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from goalmeter.commands.replicate import REPLICATIONS, dry_run, replication
from goalmeter.experiments.calibration.agents import (
    KEY_NO_DOOR,
    MAZE,
    Scale,
    forecasts,
    plan_for,
    play_every,
)
from goalmeter.experiments.tempting_button import measurements as button
from goalmeter.runs import Study

EXPERIMENTS = "goalmeter.experiments."


class BegunError(Exception):
    """The study that would be carried out."""


@pytest.mark.parametrize("name", REPLICATIONS)
def test_every_replication_tells_what_it_will_cost(name: str) -> None:
    assert callable(import_module(replication(name).__module__).forecasts)


@pytest.mark.parametrize(
    ("name", "module", "options"),
    [
        ("lm-navigation", "lm_navigation.compute", {"seeds": 2, "agents": "optimal,greedy"}),
        ("organism-use", "organism_use.replicate", {"seeds": 2}),
        ("organisms", "organisms.replicate", {"seeds": 2}),
        ("calibration", "calibration.population.measuring", {"seeds": 1, "agents": "none"}),
        ("goal-misgeneralisation", "goal_misgeneralisation.replicate", {"seeds": 2}),
    ],
)
def test_as_many_trials_are_told_as_are_then_made(
    name: str,
    module: str,
    options: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name == "organisms":
        pytest.importorskip("transformers")
    told = dry_run(name, tmp_path / "out", **options).json["forecasts"][0]
    assert list(tmp_path.iterdir()) == []
    # What nothing tells is said in a sentence, and no number stands for it.
    assert told["hours"] is None and "not known" in told["assumed"][0]

    def begun(study: Study[Any], **_: Any) -> None:
        raise BegunError(study.name, len(study.trials))

    monkeypatch.setattr(f"{EXPERIMENTS}{module}.carry_out", begun)
    with pytest.raises(BegunError) as reached:
        replication(name)(tmp_path / "out", **options)
    assert reached.value.args == (told["name"], told["trials"])


def test_settings_of_cliff_world_and_networks(tmp_path: Path) -> None:
    plain, networks = dry_run("meg-cliffworld", tmp_path / "out", seeds=3).json["forecasts"]
    # Four goal lengths and nine noises, and two ends of the scale beside them.
    assert (plain["trials"], networks["trials"]) == (15, 13)
    assert networks["counted"] == {"networks": 39} and networks["hours"] is None
    assert plain["hours"]["most"] > 0 and plain["disk"] is None
    (alone,) = dry_run("meg-cliffworld", tmp_path / "out", seeds=0).json["forecasts"]
    assert alone["trials"] == 15 and list(tmp_path.iterdir()) == []


def test_trials_of_the_tempting_button(tmp_path: Path) -> None:
    players = [*button.BASELINES[:2], button.ANEW[0]]
    options: dict[str, Any] = {"steps": 12, "seeds": range(4)}
    told = button.forecasts(tmp_path / "out", players, **options)
    assert [(each.name, each.trials) for each in told] == [
        ("reference agents", 8),
        ("recurrent DQN", 4),
    ]
    assert list(tmp_path.iterdir()) == []
    button.play(tmp_path / "out", players, **options)
    kept = (tmp_path / "out" / "trials.jsonl").read_bytes()
    assert len(kept.splitlines()) == 12
    disk = sum(each.disk.most for each in told if each.disk is not None)
    assert len(kept) / 1.5 < disk < 1.5 * len(kept)
    after = button.forecasts(tmp_path / "out", players, **options)
    assert [each.left for each in after] == [0, 0]


def test_walks_of_reference_and_ideal_agents(tmp_path: Path) -> None:
    scale = Scale(grids=1, sizes=(7,), complexities=(1.0,), key_worlds=2, walks=3)
    plans = [
        plan_for(agent, suite, scale, seed=0)
        for suite in (MAZE, KEY_NO_DOOR)
        for agent in ("optimal", "ideal-mouse")
    ]
    (told,) = forecasts(plans, tmp_path / "walks")
    assert list(tmp_path.iterdir()) == [] and told.name == "reference agents"
    runs = play_every(plans, tmp_path / "walks")
    assert told.trials == sum(len(run.trajectories) for run in runs) == told.left
    size = sum(path.stat().st_size for path in tmp_path.rglob("trials.jsonl"))
    assert told.disk is not None and size / 1.5 < told.disk.most < 1.5 * size
    (after,) = forecasts(plans, tmp_path / "walks")
    assert (after.kept, after.left) == (told.trials, 0)


def test_a_language_model_s_walks_are_calls(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (told,) = dry_run("lm-representation", tmp_path / "out", seeds=4).json["forecasts"]
    # A walk through each of 4 mazes of 3 sizes and 6 complexities.
    assert told["trials"] == 72 and told["calls"]["least"] >= 72
    assert any("rest on the decisions" in line for line in told["assumed"])
    assert list(tmp_path.iterdir()) == []


def test_parts_of_the_demo(tmp_path: Path) -> None:
    from goalmeter.experiments.demo.run import REFLECTING, REFLECTION_SEEDS, dry_run

    told = {f["name"]: f for f in dry_run(tmp_path / "out").json["forecasts"]}
    assert list(tmp_path.iterdir()) == []
    assert told["self-reflection"]["trials"] == len(REFLECTING) * 50 * REFLECTION_SEEDS
    assert told["CliffWorld"]["trials"] == 15 and told["beliefs"]["trials"] == 4
    # Two walks through 5 mazes of each of two sizes and complexities, and through 20 key worlds.
    assert told["reference agents"]["trials"] % (2 * (5 * 2 * 2 + 20)) == 0
