"""The arguments of `measure` are made plain, or refused before anything is played."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.reflection import measure
from goalmeter.reflection.environments import Run


def test_integers_of_any_kind() -> None:
    plain = measure("naive", 12, [3, 5], environments="DejaVu")
    arrays: list[Any] = [np.array([3, 5]), np.array([3, 5], dtype=np.uint8), (3, np.int64(5))]
    for seeds in (*arrays, iter([3, 5])):
        result = measure("naive", np.int32(12), seeds, environments="DejaVu")  # type: ignore[arg-type]
        assert result.trials == plain.trials
        assert json.dumps(result.to_json()) == json.dumps(plain.to_json())
    for number in (np.int64(2), np.array(2)):
        result = measure("naive", 12, number, environments="DejaVu")
        assert result.seeds == (0, 1) and type(result.seeds[0]) is int


def test_a_result_is_plain_json() -> None:
    class Odd(Run):
        """Rewards of NumPy."""

        def begin(self) -> tuple[float, int]:
            return np.float32(0.5), np.int64(0)  # type: ignore[return-value]

        def react(self, action: int) -> tuple[float, int]:
            return np.int64(self.sign), 0  # type: ignore[return-value]

    result = measure("constant", np.int64(4), np.arange(2), environments=Odd)
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert data["steps"] == 4 and data["environments"][0]["total_reward"] == 3.5
    assert data["environments"][1]["total_reward"] == -2.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 10.0}, r"steps is 10\.0, expected an integer, 1 or more"),
        ({"steps": 0}, "steps is 0, expected at least 1"),
        ({"seeds": "12"}, "seeds is '12', expected an integer"),
        ({"seeds": []}, "seeds is empty, expected at least one seed"),
        ({"seeds": [3, 1, 3]}, "seed 3 is given twice"),
        ({"seeds": [0, 1.5]}, r"a seed is 1\.5, expected an integer, 0 or more"),
        ({"environments": 3}, "3 is not an environment"),
        ({"environments": []}, "there are 0 environments and opposites, expected"),
        ({"on": "processes:0"}, "workers is 0, expected at least 1"),
        ({"opposite_reading": "x"}, "opposite_reading is 'x', expected 'literal' or"),
        ({"step_counting": "x"}, "step_counting is 'x', expected 'percepts' or"),
        ({"timeout": -1}, "timeout is -1, expected a number of seconds above 0"),
        ({"confidence": 95}, "confidence is 95, expected a number between 0 and 1, such as"),
    ],
)
def test_anything_else_is_refused_before_anything_is_played(
    options: dict[str, Any], message: str
) -> None:
    asked: list[Any] = []
    agent: Callable[..., int] = lambda history, *_: asked.append(history) or 0  # noqa: E731
    arguments = {"steps": 5, "seeds": 1, "environments": "DejaVu"} | options
    with pytest.raises(InvalidParameterError, match=message):
        measure(agent, **arguments)
    assert asked == []
