"""The page: well formed, escaped, without scripts, and every link leads to a place on it."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from goalmeter import GoalmeterError, MissingExtraError
from goalmeter.report import (
    Cell,
    Column,
    Figure,
    Finding,
    Link,
    Section,
    Table,
    require_report_extra,
    write_report,
    write_text,
)
from goalmeter.report.page import render

from .test_charts import KINDS

HOSTILE = '<script>document.title = "owned"</script><b>&"\'[red]\u202e'
LONG = "unbroken" * 30
VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}


class Page(HTMLParser):
    """Tags, ids and references; checks that what opens also closes."""

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


def sections() -> list[Section]:
    """One of everything, with text that tries to be markup."""
    table = Table(
        caption=f"A table of {HOSTILE}",
        columns=(
            Column(HOSTILE, numeric=False),
            Column("wants", numeric=False, answer=True),
            *(Column(f"column {i}", group="many columns") for i in range(14)),
        ),
        rows=(
            (HOSTILE, "the key", *["12345.6789"] * 13, Cell("50%", share=0.5)),
            ("b/a-name-that-is-rather-long-for-a-telephone", "nothing", *["1"] * 14),
        ),
        meaning=f"It means {HOSTILE}.",
        notes=(HOSTILE, LONG),
        anchor="wants",
    )
    narrow = Table(caption="Few columns", columns=("a", "b"), rows=(("1", "2"),), meaning="m")
    figures = tuple(
        Figure(svg=draw(kind), alt=f"alt {HOSTILE}", caption=f"caption {HOSTILE}", wide=i == 2)
        for i, (kind, draw) in enumerate(KINDS.items())
    )
    return [
        Section(
            title=f"First {HOSTILE}",
            text=(HOSTILE, LONG),
            tables=(table, narrow),
            points=(LONG,),
            anchor="first",
        ),
        Section(title="Pictures", figures=figures),
        Section(title="Pictures", text=("a second section of the same name",)),
    ]


FINDING = Finding(
    lead="b: wants nothing.",
    text=f"By {HOSTILE}.",
    links=(
        Link("numbers", "wants-b-a-name-that-is-rather-long-for-a-telephone"),
        Link("there", "pictures"),
    ),
)


def text_of(drawn: list[Section]) -> str:
    return render(
        f"Title {HOSTILE}",
        drawn,
        lede=HOSTILE,
        findings=[FINDING, HOSTILE],
        glossary={HOSTILE: HOSTILE},
        provenance=[HOSTILE],
    )


@pytest.fixture(scope="module")
def drawn() -> list[Section]:
    return sections()


@pytest.fixture(scope="module")
def text(drawn: list[Section]) -> str:
    return text_of(drawn)


def test_the_page_is_well_formed_and_every_reference_leads_to_one_id(
    text: str, drawn: list[Section]
) -> None:
    page = Page(text)
    assert len(set(page.ids)) == len(page.ids) and set(page.references) <= set(page.ids)
    assert {"wants", "pictures", "pictures-3", FINDING.links[0].to} <= set(page.ids)
    assert page.tags.count("h1") == 1 and page.tags.count("main") == 1
    assert page.tags.count("figure") == page.tags.count("figcaption") == len(KINDS)
    assert page.tags.count("caption") == page.tags.count("table") == 2
    assert {value for name, value in page.attributes if name == "scope"} == {
        *("col", "row", "colgroup")
    }
    labels = [value for name, value in page.attributes if name == "aria-label"]
    assert sum(label.startswith("alt ") for label in labels) == len(KINDS)
    assert "<strong>b: wants nothing.</strong>" in text and '<table class="dense">' in text
    assert '<td class="words answer">nothing</td>' in text
    assert text_of(drawn) == text


def test_users_text_is_escaped_and_nothing_runs_or_is_fetched(text: str) -> None:
    # In the title, the lede, a finding, headings, the contents, the table, captions, the foot ...
    assert "<script" not in text and "<b>" not in text and "\u202e" not in text
    assert text.count("&lt;script&gt;") >= 15
    # The names of XML vocabularies are no addresses to fetch from.
    bare = re.sub(r"http://www\.w3\.org/(2000/svg|1999/xlink)", "", text)
    assert "://" not in bare and "@import" not in bare and not re.search(r"url\((?!#)", bare)
    page = Page(text)
    assert {"script", "link", "iframe", "img"}.isdisjoint(page.tags)
    assert "default-src 'none'" in text


def test_pictures_stand_after_tables_unless_they_are_to_come_first() -> None:
    table = Table(caption="a table", columns=("x",), rows=(("1",),), meaning="It means x.")
    figure = Figure(svg="<svg></svg>", alt="a picture", caption="of it")
    for first in (False, True):
        section = Section(title="s", tables=(table,), figures=(figure,), figures_first=first)
        page = render("t", [section])
        assert (page.index("<figure") < page.index("<table")) == first
        assert "<tr id" not in page and page.startswith("<!DOCTYPE html>")


def test_rows_have_places_and_links_to_nowhere_are_refused() -> None:
    def table(*names: str) -> Table:
        rows = tuple((name,) for name in names)
        return Table(caption="c", anchor="wants", columns=("x",), rows=rows, meaning="m")

    twice = table("a", "b", "a")
    assert twice.row_anchors == ("wants-a", "wants-b", "wants-a-3")
    assert twice.row_anchor("a") == "wants-a" and twice.row_anchor("x") == "wants"
    lost = Finding(text="t", links=(Link("numbers", "nowhere"),))
    message = "the link 'numbers' leads to 'nowhere', expected the id of a section"
    with pytest.raises(GoalmeterError, match=message):
        render("t", [Section(title="s", tables=(table("a"),))], findings=[lost])
    with pytest.raises(GoalmeterError, match="'wants' is the id of 2 places on the page"):
        render("t", [Section(title="s", tables=(table("a"), table("b")))])


def test_writing_replaces_in_one_step_and_a_failure_leaves_the_old_page(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "report.html"
    assert write_report(path, "one", [Section(title="s")]) == path
    write_report(path, "two", [Section(title="s")])
    with pytest.raises(Exception, match="no attribute"):
        write_report(path, "new", [None])  # type: ignore[list-item]
    assert "<h1>two</h1>" in path.read_text(encoding="utf-8")
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    with pytest.raises(GoalmeterError, match=r"report\.html cannot be written: .*choose a folder"):
        write_text(write_text(tmp_path / "file", "") / "report.html", "")


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_named_with_its_command(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"'{module}'.*pip install 'goalmeter\[report\]'"):
        require_report_extra()
