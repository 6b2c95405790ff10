from __future__ import annotations

import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from goalmeter import GoalmeterError, MissingExtraError
from goalmeter.report import Figure, Section, Table, require_report_extra, write_report, write_text
from goalmeter.report.page import render

from .sample import HOSTILE, WRITE, sections

VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


class Page(HTMLParser):
    """Tags, ids, references and headings; checks that what opens also closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        assert self.open == [], "tags left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.append((name, value or ""))
            if name == "id":
                self.ids.append(value or "")
            # Pictures may hold images, as data inside the page.
            linked = name.endswith("href") and not (value or "").startswith("data:")
            if name == "aria-labelledby" or linked:
                self.references.append((value or "").removeprefix("#"))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def text() -> str:
    return render(f"Title {HOSTILE}", sections(), **WRITE)  # type: ignore[arg-type]


def test_the_page_is_well_formed_and_every_id_is_used_once(text: str) -> None:
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids)
    assert set(page.references) <= set(page.ids)
    assert page.tags.count("h1") == 1 and page.tags.count("main") == 1
    assert page.tags.count("figure") == page.tags.count("figcaption") == 3


def test_users_text_is_escaped_everywhere(text: str) -> None:
    # In the title, the lede, a finding, headings, the contents, the table, captions, the foot ...
    assert "<script" not in text and "<b>" not in text
    assert text.count("&lt;script&gt;") >= 15


def test_the_page_asks_the_network_for_nothing(text: str) -> None:
    # The names of XML vocabularies are no addresses to fetch from.
    bare = text.replace("http://www.w3.org/2000/svg", "").replace(
        "http://www.w3.org/1999/xlink", ""
    )
    assert "://" not in bare and "@import" not in bare
    assert not re.search(r"url\((?!#)", bare)
    page = Page(text)
    assert {"script", "link", "iframe", "img"}.isdisjoint(page.tags)
    assert "default-src 'none'" in dict(page.attributes)["content"] or "default-src 'none'" in text


def test_tables_and_figures_speak(text: str) -> None:
    page = Page(text)
    assert page.tags.count("caption") == page.tags.count("table") == 1
    scopes = [value for name, value in page.attributes if name == "scope"]
    assert {"col", "row", "colgroup"} == set(scopes)
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert sum(label.startswith("alt ") for label in labels) == 3


def test_pictures_stand_after_tables_unless_they_are_to_come_first() -> None:
    table = Table(caption="a table", columns=("x",), rows=(("1",),), meaning="It means x.")
    figure = Figure(svg="<svg></svg>", alt="a picture", caption="of it")
    for first in (False, True):
        section = Section(title="s", tables=(table,), figures=(figure,), figures_first=first)
        page = render("t", [section])
        assert (page.index("<figure") < page.index("<table")) == first
        assert page.count("<figure") == 1 and page.startswith("<!DOCTYPE html>")


def test_tables_of_many_columns_are_set_close() -> None:
    def page(columns: int) -> str:
        cells = tuple(map(str, range(columns)))
        table = Table(caption="t", columns=cells, rows=(cells,), meaning="m")
        return render("t", [Section(title="s", tables=(table,))])

    assert '<table class="dense">' in page(7) and "<table>" in page(6)
    row = ("a name that is longer than a column can be without scrolling",)
    long = Table(caption="t", columns=("x",), rows=(row,), meaning="m")
    assert long.dense and not replace(long, rows=()).dense


def test_the_same_report_is_the_same_bytes(text: str) -> None:
    assert render(f"Title {HOSTILE}", sections(), **WRITE) == text  # type: ignore[arg-type]


def test_sections_of_one_name_have_different_anchors(text: str) -> None:
    assert 'id="pictures"' in text and 'id="pictures-3"' in text


def test_writing_makes_folders_and_replaces_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "report.html"
    assert write_report(path, "one", [Section(title="s")]) == path
    write_report(path, "two", [Section(title="s")])
    assert "<h1>two</h1>" in path.read_text(encoding="utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_a_report_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = write_text(tmp_path / "report.html", "old")
    with pytest.raises(Exception, match="no attribute"):
        write_report(path, "new", [None])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    file = write_text(tmp_path / "file", "")
    with pytest.raises(GoalmeterError, match=r"report\.html cannot be written: .*choose a folder"):
        write_text(file / "report.html", "")


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_named_with_its_command(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"'{module}'.*pip install 'goalmeter\[report\]'"):
        require_report_extra()
