from __future__ import annotations

import re

import pytest

from goalmeter import GoalmeterError
from goalmeter.report import Column, Finding, Link, Section, Table
from goalmeter.report.page import render


def table(*names: str, anchor: str = "wants") -> Table:
    return Table(
        caption="c",
        anchor=anchor,
        columns=(Column("agent", numeric=False), Column("verdict", numeric=False, answer=True)),
        rows=tuple((name, "the goal") for name in names),
        meaning="m",
    )


def test_a_finding_has_its_lead_its_sentence_and_its_links() -> None:
    wants = table("goalmeter/mouse")
    finding = Finding(
        lead="mouse: wants the goal.",
        text="By <much>.",
        links=(Link("numbers", wants.row_anchor("goalmeter/mouse")), Link("there", "s")),
    )
    assert finding.plain == "mouse: wants the goal. By <much>."
    assert Finding(text="Only this.").plain == "Only this."
    page = render("t", [Section(title="S", tables=(wants,))], findings=[finding, "plain"])
    assert "<strong>mouse: wants the goal.</strong> By &lt;much&gt;." in page
    for place in ("wants-goalmeter-mouse", "s"):
        assert f'href="#{place}"' in page and f'id="{place}"' in page
    assert '<td class="words answer">the goal</td>' in page and "<li>plain" in page


def test_rows_of_one_name_have_different_ids_and_a_table_without_anchor_none() -> None:
    twice = table("a", "b", "a")
    assert twice.row_anchors == ("wants-a", "wants-b", "wants-a-3")
    assert twice.row_anchor("a") == "wants-a" and twice.row_anchor("x") == "wants"
    bare = table("a", anchor="")
    page = render("t", [Section(title="s", tables=(bare,))])
    assert bare.row_anchors == ("",) and "<tr>" in page and not re.search("<tr id", page)


def test_a_section_can_name_its_place() -> None:
    page = render("t", [Section(title="A long title", anchor="short")])
    assert '<h2 id="short">A long title</h2>' in page and 'href="#short"' in page


def test_a_link_to_nowhere_is_refused() -> None:
    lost = Finding(text="t", links=(Link("numbers", "nowhere"),))
    message = (
        "the link 'numbers' leads to 'nowhere', expected the id of a section, a table or a row on "
        "the page: one of s, wants, wants-a"
    )
    with pytest.raises(GoalmeterError, match=re.escape(message)):
        render("t", [Section(title="s", tables=(table("a"),))], findings=[lost])


def test_two_places_of_one_id_are_refused() -> None:
    message = "'wants' is the id of 2 places on the page, expected one"
    with pytest.raises(GoalmeterError, match=re.escape(message)):
        render("t", [Section(title="s", tables=(table("a"), table("b")))])
