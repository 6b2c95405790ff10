"""What is asked of the hand-written pages as a whole."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
MOST_WORDS = 45_000
# Laboratory notes, and pages that commands write.
NOT_COUNTED = {"benchmarks.md", "ledger.md", "reference.md"}


def words(path: Path) -> int:
    """Return the number of words of a page, without its comments."""
    return len(re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.S).split())


def test_the_site_can_be_read_in_a_day() -> None:
    counted = {
        path.relative_to(DOCS).as_posix(): words(path)
        for path in DOCS.rglob("*.md")
        if path.name not in NOT_COUNTED and DOCS / "notes" not in path.parents
    }
    assert sum(counted.values()) <= MOST_WORDS, sorted(counted.items(), key=lambda item: -item[1])
