"""Docstrings, names and links of the site."""

from __future__ import annotations

import accessible
import docstrings
import links
import public_names


def test_docstrings_keep_their_code_and_text() -> None:
    lines = [
        "Expected sum of log |A| of [*sizes, own size], *not* x_1 or a_.",
        "Source: the paper.",
        "",
        "    rc(x) = pi(x)",
        "",
        "Example: two of them.",
        "    >>> 1 + 1",
        "    2",
        "",
        "Args:",
        "    value: in `a|b`.",
    ]
    assert docstrings.as_restructured_text(lines) == [
        "Expected sum of log \\|A\\| of [\\*sizes, own size], *not* x_1 or a\\_.",
        "",
        "Source: the paper.",
        "",
        "",
        "::",
        "",
        "    rc(x) = pi(x)",
        "",
        "",
        "Example: two of them.",
        "",
        "    >>> 1 + 1",
        "    2",
        "",
        "Args:",
        "    value: in `a|b`.",
    ]


def test_a_name_is_described_in_one_package() -> None:
    assert public_names.home("goalmeter", "TabularMDP") == "goalmeter.tabular"
    assert public_names.home("goalmeter", "measure") == "goalmeter"
    assert links.homes()["goalmeter.MegResult"] == "goalmeter.meg.MegResult"
    assert ".. autofunction:: goalmeter.meg.targets\n" in public_names.page("goalmeter.meg")
    assert ".. autoclass:: goalmeter.TabularMDP\n" not in public_names.page("goalmeter")


def test_a_page_is_repaired_once() -> None:
    text = '<p class="caption" role="heading">Start</p><pre>1</pre><dl>\n<dt>a</dt></dl>'
    text += f'<span class="pre">--unknown</span> <span class="pre">{"long" * 7}</span>'
    once = accessible.repaired(text)
    assert '<span class="pre whole">--unknown' in once and '<span class="pre">longlong' in once
    assert 'aria-level="2"' in once and '<pre tabindex="0">' in once and "<dl>" in once
    assert accessible.repaired(once) == once


def test_a_generated_table_has_its_title_as_caption() -> None:
    table = '<!-- table: All agents -->\n<div class="table-wrapper">\n<table>'
    once = accessible.repaired(table)
    assert '-->\n<p class="caption">All agents</p>\n<div' in once
    assert accessible.repaired(once) == once
