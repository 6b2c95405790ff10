"""docs/errors.md has the messages that users see."""

from __future__ import annotations

import pytest

from .errors import CASES, PAGE, Case, entry


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_the_page_of_errors_has_the_messages(case: Case) -> None:
    hint = "run: PYTHONPATH=src:tests python tests/docs/errors.py"
    assert entry(case) in PAGE.read_text(encoding="utf-8"), hint


def test_the_page_of_errors_has_nothing_else() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("\n### ") == len(CASES) >= 25
    assert len({case.title for case in CASES}) == len(CASES)
