"""What a result says of itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from goalmeter.meg import MegResult


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
