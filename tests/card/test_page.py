"""The page of a card: escaped, complete, of bounded size; and its text of one screen."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from html import escape
from typing import Any

import pytest

from goalmeter.card.page import render_card
from goalmeter.card.records import NATS, P_VALUE, SHARE, Card, CardRow, Gauge
from goalmeter.card.text import as_text, ends, quantity, with_unit

from ..report.test_page import Page
from .invented import (
    HOSTILE,
    INCONCLUSIVE,
    LANGUAGE_MODEL,
    POLICY,
    details,
    hostile_card,
    maze,
)

POLICY_OF_CONTENT = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
CARDS = (LANGUAGE_MODEL, POLICY, INCONCLUSIVE)


def page_of(card: Card, **options: Any) -> str:
    return render_card(card, **{"figure": maze(), "details": details(), **options})


def test_a_page_is_well_formed_and_its_references_lead_to_one_id() -> None:
    page = Page(page_of(LANGUAGE_MODEL, methods=["MEG measures `how much`."]))
    assert len(set(page.ids)) == len(page.ids) and set(page.references) <= set(page.ids)
    assert "script" not in page.tags and "img" not in page.tags
    assert ("content", POLICY_OF_CONTENT) in page.attributes


def test_everything_that_others_wrote_is_escaped() -> None:
    text = page_of(hostile_card(), methods=[HOSTILE])
    Page(text)
    assert "<script" not in text and '<b>&"' not in text and "\u202e" not in text
    assert text.count("</style>") == 1
    # Every text of the card is there: 30 fields and more.
    assert text.count("&lt;script&gt;") >= 30 and "\\u202e" in text
    assert "\u202e" not in as_text(hostile_card())


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.scale + card.agent[:5])
def test_every_number_and_every_sentence_is_on_the_page(card: Card) -> None:
    text = page_of(card)
    for row in card.rows:
        assert escape(row.title) in text and quantity(row.value, row.unit) in re.sub(
            "&lt;", "<", text
        )
        assert row.error_rate in text and row.source.replace("/", "/<wbr>") in text
    for gauge in card.gauges:
        assert gauge.title in text and gauge.answer in text
    for each in card.not_run:
        assert each.measure in text and each.reason in text
    assert escape(card.headline) in text and card.command in text and escape(card.certainty) in text


def test_what_is_absent_is_stated() -> None:
    text = page_of(POLICY, figure=None, details=())
    assert "None: no two measures contradict each other." in text
    assert "None of 60 trials failed; at most 5.0% of further trials would" in text
    assert 'id="claim"' not in text and 'id="elicitation"' not in text
    assert "Every measure was run." in page_of(replace(POLICY, not_run=()))
    assert "No trial was run." in page_of(replace(POLICY, trials=0))
    assert "None:" not in page_of(LANGUAGE_MODEL)


def test_a_scale_states_in_words_what_it_shows_and_never_leaves_its_line() -> None:
    text = page_of(LANGUAGE_MODEL)
    assert (
        'aria-label="85.0% on a scale from 0% to 100%; interval [70.0%, 92.0%]; '
        'random 0% · greedy 41% · wall-follower 44% · optimal 96%"'
    ) in text.replace("\u00a0", " ")
    far = Gauge(
        title="t", answer="a", value=7.0, lower=-math.inf, upper=math.inf, marks={"m": -3.0}
    )
    text = page_of(replace(LANGUAGE_MODEL, gauges=(far,)))
    places = [float(place) for place in re.findall(r"(?:left|right): ([\d.-]+)%", text)]
    assert places and all(0 <= place <= 100 for place in places)


def test_the_scale_of_a_gauge_has_room_for_negative_shares() -> None:
    """From −20% to 100%, −10% is at 1/12 and 40% at 1/2 of the line."""
    below = Gauge(
        title="t", answer="a", value=0.4, lower=-0.1, upper=0.4, marks={"m": -0.12}, row="meg"
    )
    of = CardRow(id="meg", measure="m", title="t", value=0.4)
    text = page_of(replace(LANGUAGE_MODEL, gauges=(below,), rows=(of,)))
    first = text[text.index('id="first-screen"') : text.index('class="measures"')]
    assert '<span class="end">−20%</span>' in first
    assert re.findall(r'class="(?:value|zero)" style="left: ([\d.]+)%', first) == ["16.67", "50.0"]
    assert 'style="left: 8.33%; right: 50.0%"' in first


def test_the_first_screen_states_failures_and_the_logs_can_be_opened() -> None:
    log = "navigation/inspect/a b.eval"
    text = page_of(replace(LANGUAGE_MODEL, failures={"timeout": 2}, logs=(log,)))
    assert f"Failed trials: 2 of {LANGUAGE_MODEL.trials:,}" in text
    assert f"Not run: {len(LANGUAGE_MODEL.not_run)}" in text
    assert f'<a href="navigation/inspect/a%20b.eval">{log}</a>' in text
    assert "Disagreements: none" in page_of(POLICY) and "inspect view" not in page_of(POLICY)


def test_a_page_of_large_details_stays_small_and_says_what_it_leaves_out() -> None:
    heavy = replace(
        maze("heavy"), svg=maze("heavy").svg.replace("<path", "<!--" + "x" * 10**6 + "--><path", 1)
    )
    section = replace(details(rows=2000)[0], figures=(heavy, heavy, heavy))
    text = page_of(LANGUAGE_MODEL, details=[section])
    assert len(text.encode()) < 3_000_000
    rows = text.count('<span class="bar"')
    assert rows == 100
    for left_out in ("Rows left out to keep this page small: 1,900.", "small: 1."):
        assert left_out in text


@pytest.mark.parametrize("card", [*CARDS, None], ids=["model", "policy", "unsure", "hostile"])
def test_the_text_fits_on_a_screen(card: Card | None) -> None:
    card = card or hostile_card()
    card = replace(card, rows=[*card.rows] * 9)
    lines = as_text(card).splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert any("further rows in card.json" in line for line in lines)
    assert any("Disagreements" in line for line in lines)
    assert Card.from_json(json.loads(json.dumps(card.to_json()))).headline == card.headline


def test_numbers_read_as_their_unit_demands() -> None:
    assert with_unit(0.841, SHARE) == "84.1%" and with_unit(math.nan, NATS) == "–"
    assert with_unit(7.614, NATS) == "7.61 nats" and with_unit(0.0003, P_VALUE) == "p < 0.001"
    assert (
        with_unit(0.034, P_VALUE) == "p = 0.034"
        and with_unit(123456.0, "steps") == "1.23e+05 steps"
    )
    row = CardRow(id="a", measure="m", title="t", value=2.0, lower=1.5, unit=NATS)
    assert ends(row, NATS) == "≥ 1.50" and ends(replace(row, lower=None), NATS) == "–"
    assert ends(replace(row, lower=None, upper=3.0), NATS) == "≤ 3.00"
