"""The prose of pages: code asks for texts that are there, and every text is asked for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from goalmeter.pages import prose

PAGES = Path(__file__).resolve().parents[2] / "src" / "goalmeter" / "pages"


@pytest.mark.parametrize("instrument", ["meg", "navigation", "reflection", "representation"])
def test_code_and_prose_have_the_same_names(instrument: str) -> None:
    files = [*PAGES.glob(f"{instrument}*.py"), *(PAGES / instrument).glob("*.py")]
    files += [PAGES / "simulator.py"] if instrument == "meg" else []
    code = "".join(path.read_text("utf-8") for path in files)
    texts = tomllib.loads((PAGES / f"{instrument}.toml").read_text("utf-8"))
    # Tables and sections of a page may be declared by the name of their texts.
    asked = set(re.findall(r'\bsay\(\s*"(\w+)"', code))
    assert asked <= set(texts) <= asked | set(re.findall(r'"(\w+)"', code))


def test_values_are_put_in_and_lists_become_tuples() -> None:
    values = {"first": "A", "second": "B", "below": "01", "across": "23"}
    texts = prose("navigation", "crossed", INTERVALS="In brackets.", **values)
    assert texts["caption"] == "The A by the B" and texts["meaning"].endswith("In brackets.")
    with pytest.raises(KeyError, match="INTERVALS"):
        prose("navigation", "crossed", **values)
    assert isinstance(prose("meg", "policies")["notes"], tuple)


def test_what_users_write_is_no_template() -> None:
    texts = prose("navigation", "walks", agent="{0.__class__}", suite="{maze}")
    assert texts["title"] == "Walks of {0.__class__}, {maze}"
