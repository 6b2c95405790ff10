"""Text of others: kept whole in records, spelled out where it is shown, bounded in messages."""

from __future__ import annotations

import json
import os
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goalmeter._errors import (
    LONGEST_MESSAGE,
    GoalmeterError,
    MissingExtraError,
    encodable,
    json_text,
    message,
    shown,
    visible,
)

# Strings of Python may hold half characters, which hypothesis leaves out unless it is told to.
ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "visible_text"),
    [
        ("plain text, ü ε 目", "plain text, ü ε 目"),
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("\u202egnp.exe", "\\u202egnp.exe"),  # right-to-left override
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("caf\udce9", "caf\\udce9"),  # a byte of a file name that is not UTF-8
        ("\U000e0041", "\\U000e0041"),  # a tag, which nobody sees
        ("two\nlines\r", "two\\nlines\\r"),
        ("next\u2028line", "next\\u2028line"),
        ("1\u202f000", "1\u202f000"),  # a narrow space is what it looks like
    ],
)
def test_what_cannot_be_seen_is_spelled_out(text: str, visible_text: str) -> None:
    assert visible(text) == visible_text


def test_ends_of_lines_stay_where_a_text_has_lines() -> None:
    assert visible("a\nb\x07", lines=True) == "a\nb\\x07"


@given(ANY_TEXT)
def test_nothing_shown_steers_a_terminal_or_cannot_be_encoded(text: str) -> None:
    line = visible(text)
    line.encode("utf-8")
    assert not any(unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in line)
    assert visible(line) == line


@given(st.recursive(st.none() | st.booleans() | st.integers() | ANY_TEXT, st.lists))
def test_json_is_encodable_and_read_back_as_it_was(value: Any) -> None:
    assert json.loads(json_text(value).encode("utf-8")) == value


def test_half_characters_are_escapes_of_json() -> None:
    assert json_text(["ü\ud800"]) == '["ü\\ud800"]'
    assert encodable("ü\ud800") == "ü\\ud800"


def test_a_message_is_one_line_of_bounded_length_that_keeps_its_end() -> None:
    long = message(f"there is no agent {'x' * 100_000}\n; mend it so")
    assert len(long) < LONGEST_MESSAGE + 50 and "\n" not in long
    assert long.startswith("there is no agent xxx") and long.endswith("\\n; mend it so")
    # 100,018 and 12 characters, \n as two of them, less those that are kept.
    assert f"… ({100_000 + 18 + 14 - LONGEST_MESSAGE} characters) …" in long


@pytest.mark.parametrize("kind", [GoalmeterError, MissingExtraError])
def test_errors_are_such_messages(kind: type[Exception]) -> None:
    assert str(kind("a\x1b[2J" + "b" * 5000)).startswith("a\\x1b[2Jbbb")
    assert len(str(kind("b" * 5000))) < LONGEST_MESSAGE + 50
    assert str(kind("plain")) == "plain"


def test_values_are_shown_in_a_few_characters() -> None:
    assert shown(10**5000) == "an integer of 16610 bits"
    assert shown("\x1b") == "'\\x1b'" and shown("\u202e") == "'\\u202e'"
    assert len(shown("x" * 10**6)) < 50 and len(shown([[0] * 10**5] * 100)) < 200


def test_file_names_that_are_not_utf_8_go_through(tmp_path: os.PathLike[str]) -> None:
    name = os.fsdecode(b"caf\xe9")
    assert json.loads(json_text({"file": name}))["file"] == name
    assert os.fsencode(json.loads(json_text(name))) == b"caf\xe9"
