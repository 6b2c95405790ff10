"""What a result says of itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import goalmeter as gm
from goalmeter.meg import MegResult
from goalmeter.pages.meg import result_table
from goalmeter.tabular.trajectories import Trajectories


def result(**changes: Any) -> MegResult:
    fields: dict[str, Any] = {
        "value": 0.25,
        "upper_bound": 0.25 + 1e-9,
        "maximum": 1.0,
        "ceiling": 0.5,
        "rationality": 2.0,
        "target": "the reward",
        "method": "arithmetic",
        "tolerance": 1e-8,
        "by_step": np.array([0.25, 0.0]),
        "by_state": np.array([0.25]),
    }
    return MegResult(**{**fields, **changes})


def test_json_holds_infinities_as_words() -> None:
    for rationality, word in ((np.inf, "inf"), (-np.inf, "-inf"), (2.0, 2.0)):
        document = result(rationality=rationality, notes=("a note",)).to_json()
        text = json.dumps(document, allow_nan=False)
        assert json.loads(text) == document
        assert document["rationality"] == word
    assert document["meg"] == 0.25
    assert document["by_step"] == [0.25, 0.0]
    assert document["notes"] == ["a note"]
    assert document["certified"] is True


def test_a_behaviour_worse_than_the_reference_has_a_minus_sign_in_every_headline() -> None:
    worse = result(rationality=-2.0)
    assert str(worse).startswith("MEG −0.25 nats (certified to 1e-09), −25.0% of 1")
    assert dict(worse.summary())["MEG"] == "−0.2500 nats"
    assert dict(worse.summary())["share of maximum"] == "−25.0%"
    assert "−0.2500 nats" in worse._repr_html_()
    assert "upper bound of the absolute value 0.3" in str(result(rationality=-2.0, upper_bound=0.3))
    assert ("MEG", "−0.2500 nats") in result_table(worse).rows
    assert worse.to_json()["meg"] == 0.25 and worse.to_json()["signed"] == -0.25
    # Two states, each visited for sure; the reward is at the second, which is kept away from.
    mdp = gm.TabularMDP(np.eye(2)[[[0, 1], [0, 1]]], [0.0, 1.0], horizon=3, initial=0)
    still = np.zeros((9, 3), dtype=np.int64)
    logged = gm.meg.from_trajectories(mdp, Trajectories(still, still))
    assert logged.rationality < 0 and str(logged).startswith(f"MEG −{logged.raw:.6g} nats raw, −")
    assert f"[−{logged.interval[1]:.6g}, " in str(logged)
    assert dict(logged.headline())["MEG, estimate"].startswith("−")
