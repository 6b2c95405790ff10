"""The texts of pages: code asks for entries that are there, and every entry is asked for."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalmeter.pages import Texts
from goalmeter.report import Column

PAGES = Path(__file__).resolve().parents[2] / "src" / "goalmeter" / "pages"


@pytest.mark.parametrize(
    "instrument", ["meg", "navigation", "reflection", "representation", "sweep"]
)
def test_code_and_texts_have_the_same_names(instrument: str) -> None:
    files = [*PAGES.glob(f"{instrument}*.py"), *(PAGES / instrument).glob("*.py")]
    files += [PAGES / "simulator.py"] if instrument == "meg" else []
    code = "".join(path.read_text("utf-8") for path in files)
    texts = tomllib.loads((PAGES / f"{instrument}.toml").read_text("utf-8"))
    # Tables and sections of a page may be declared by the name of their texts.
    asked = set(re.findall(r'\bsay(?:\.\w+)?\(\s*"(\w+)"', code))
    quoted = re.findall(r"""["'](\w+)["']""", f"{code}{texts.get('sections')}")
    assert asked <= set(texts) <= asked | {"shared"} | set(quoted)


@dataclass
class Agent:
    name: str
    scores: dict[str, float | None]

    def total(self) -> float | None:
        known = [score for score in self.scores.values() if score is not None]
        return sum(known) if known else None


def test_a_table_follows_from_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    columns = [
        ["agent", "0.name", "words"],
        ["{kind} | *", "0.scores.*", "number:1"],
        ["total", "0.total", "percent", "answer"],
        ["remark", "1", "words", "optional"],
    ]
    entry = {"caption": "C {kind}", "meaning": "M", "notes": ["own"], "columns": columns}
    monkeypatch.setattr("goalmeter.pages._read", lambda instrument: {"t": entry, "shared": {}})
    rows = [(Agent("{x}", {"a*": 0.5, "b": None}), ""), (Agent("y", {"c": 0.0}), None)]
    table = Texts("made").table("t", rows, before=["first"], notes=["last"], kind="scores")
    assert table.heads == (
        Column("agent", numeric=False),
        *(Column(name, group="scores") for name in ("a*", "b", "c")),
        Column("total", answer=True),
    )
    assert [[cell.text for cell in row] for row in table.cells] == [
        ["{x}", "0.5", "–", "–", "50.0%"],
        ["y", "–", "–", "0.0", "0.0%"],
    ]
    assert table.caption == "C scores" and table.notes == ("first", "own", "last")
    empty = Texts("made").table("t", [], kind="scores")
    assert [head.title for head in empty.heads] == ["agent", "total"] and empty.rows == ()


def test_texts_show_values_as_columns_do(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"text": "{x:percent}, {y[0]:number:2}, {none:points}, {z:twice} {name}{n:>3}"}
    entries = {"t": entry, "shared": {"name": "{shared}"}}
    monkeypatch.setattr("goalmeter.pages._read", lambda instrument: entries)
    say = Texts("made", {"twice": lambda value: value * 2})
    values = {"x": 0.9999, "y": [-0.5], "none": None, "z": "ab", "n": 7}
    assert say.sentence("t", **values) == ">99.9%, −0.50, –, abab {shared}  7"
