"""Tables in notebooks: self-contained, escaped, and numbers to the right."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import pytest

from goalmeter._errors import InvalidParameterError, MissingExtraError
from goalmeter.report.tables import data_frame, html_table


class _Texts(HTMLParser):
    """The texts of a page with the tag and the style they stand in."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.texts: list[tuple[str, str, str]] = []
        self.feed(page)
        self.close()
        assert not self.open, "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append((tag, dict(attrs).get("style") or ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((data, *self.open[-1]))


def test_a_table_shows_every_text_and_sets_numbers_to_the_right() -> None:
    rows = [("optimal", "1.5 [1.2, 1.7]", "yes"), ("random", "−∞", "0 to 4"), ("none", "–", "no")]
    parsed = _Texts(html_table("Policies", ("policy", "MEG", "remark"), rows, ("A note.",)))
    texts = [text for text, _, _ in parsed.texts]
    assert texts == [
        "Policies",
        "policy",
        "MEG",
        "remark",
        *(t for row in rows for t in row),
        "A note.",
    ]
    sides = {text: "right" in style.partition("text-align:")[2] for text, _, style in parsed.texts}
    assert [sides[text] for text in ("policy", "MEG", "remark", "−∞", "–", "0 to 4")] == [
        *(False, True, False, True, True, False)
    ]


def test_names_and_values_need_no_heads() -> None:
    page = html_table("A result", ("", ""), [("MEG", "1.5 nats")])
    assert "<th" not in page and "1.5 nats" in page


def test_nothing_is_markup_and_no_scheme_is_assumed() -> None:
    page = html_table("<b>x</b>", ("", ""), [('"><script>alert(1)</script>', "\u202ea\x1b[0m")])
    assert "<script" not in page and "<b>" not in page and "&lt;b&gt;" in page
    assert "\u202e" not in page and "\x1b" not in page
    assert "#" not in page.replace("&#", ""), "a fixed colour is illegible in one of the schemes"


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match=r"row 1 .* has 1 cells, expected 2"):
        html_table("x", ("a", "b"), [("1", "2"), ("3",)])


def test_records_become_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    frame = data_frame([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["a", "b"] and frame["a"].tolist() == [1, 2]


def test_without_pandas_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # what Python does for one that is missing
    with pytest.raises(MissingExtraError, match=r"to_pandas needs .*'pandas'.*pip install pandas"):
        data_frame([{"a": 1}])
