"""Stages: made once, in order, and kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.runs import Stages


def test_a_stage_is_made_once(tmp_path: Path) -> None:
    made: list[str] = []
    lines: list[str] = []

    def make(name: str) -> str:
        made.append(name)
        return name.upper()

    for _ in range(2):
        with Stages(tmp_path / "run", {"kind": "test", "n": 1}, tell=lines.append) as stages:
            assert stages.value("first", lambda: make("first")) == "FIRST"
            assert stages.value("second", lambda: make("second")) == "SECOND"
            stages.add("third", [1, 2])
            assert stages.values["third"] == [1, 2] and "fourth" not in stages.values
    assert made == ["first", "second"]
    assert lines == ["test: first", "test: second"]


def test_another_question_is_refused_and_lists_may_grow(tmp_path: Path) -> None:
    what = {"kind": "test", "seed": 0, "parts": ["a"]}
    with Stages(tmp_path / "run", what, grows=("parts",)) as stages:
        stages.add("a", 1)
    with Stages(tmp_path / "run", what | {"parts": ["b"]}, grows=("parts",)) as stages:
        assert stages.values["a"] == 1
    with (
        pytest.raises(InvalidParameterError, match="seed"),
        Stages(tmp_path / "run", what | {"seed": 1}, grows=("parts",)),
    ):
        pass
