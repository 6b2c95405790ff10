"""Docstrings, names and links of the site."""

from __future__ import annotations

import inspect

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
        "Expected sum of log \\|A\\| of [\\*sizes, own size], *not* x\\ :sub:`1`\\  or a\\_.",
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


def test_a_doctest_of_its_own_is_code() -> None:
    lines = ["Return x_{n-1}.", "", '>>> text("#A_G#")', "#A_G#", "", "Not A_G or x_1(s)."]
    done = docstrings.as_restructured_text(lines)
    assert done[2:5] == lines[2:5] and done[5] == "Not A\\ :sub:`G`\\  or x\\ :sub:`1`\\ (s)."
    assert done[0] == "Return x\\ :sub:`n-1`\\ ."
    assert docstrings.escape("of y_0") == "of y\\ :sub:`0`"  # the next line begins a new word


def test_long_defaults_and_types_are_short() -> None:
    def call(kind: str = "a", values: object = tuple(range(99)), make: object = len) -> None: ...

    docstrings.omit_long_defaults(None, call, False)
    signature = "(kind: str = 'a', values: object = ..., make: object = ...) -> None"
    assert str(inspect.signature(call)).replace("'str'", "str").replace("'object'", "object") == (
        signature.replace("None", "'None'")
    )
    array = "~numpy.ndarray[tuple[~typing.Any, ...], dtype[~numpy.int64]]"
    assert docstrings.shortened(f"x: {array} | None") == "x: NDArray[int64] | None"


def test_constants_are_listed_by_members_or_value() -> None:
    assert public_names.summary("goalmeter.runs", "HERE") == "`here`"
    assert public_names.in_cell("An <a> | `<b>`") == "An &lt;a> \\| `<b>`"


def test_a_name_is_described_in_one_package() -> None:
    assert public_names.home("goalmeter", "TabularMDP") == "goalmeter.tabular"
    assert public_names.home("goalmeter", "measure") == "goalmeter"
    assert links.homes()["goalmeter.MegResult"] == "goalmeter.meg.MegResult"
    assert ".. autofunction:: goalmeter.meg.targets\n" in public_names.page("goalmeter.meg")
    assert ".. autoclass:: goalmeter.TabularMDP\n" not in public_names.page("goalmeter")


def test_a_page_is_repaired_once() -> None:
    text = '<p class="caption" role="heading">Start</p><pre>1</pre><dl>\n<dt>a</dt></dl>'
    text += f'<span class="pre">--unknown</span> <span class="pre">{"long" * 7}</span>'
    text += 'reflect<span class="w"> </span>--seeds<span class="w"> </span>2'
    once = accessible.repaired(text)
    assert '</span><span class="whole">--seeds</span><span' in once
    assert '<span class="pre whole">--unknown' in once and '<span class="pre">longlong' in once
    assert 'aria-level="2"' in once and '<pre tabindex="0">' in once and "<dl>" in once
    assert accessible.repaired(once) == once


def test_a_generated_table_has_its_title_as_caption() -> None:
    table = '<!-- table: All agents -->\n<div class="table-wrapper">\n<table>'
    once = accessible.repaired(table)
    assert '-->\n<p class="caption">All agents</p>\n<div' in once
    assert accessible.repaired(once) == once


def test_long_words_break_between_their_parts() -> None:
    assert "After<wbr>Images<wbr>Again" in accessible.repaired("<h1>AfterImagesAgain</h1>")
    word = '<span class="pre">own_policy(mdp</span>'
    assert "own_policy(mdp" in accessible.repaired(f"<p>{word}</p>")
    assert "own_<wbr>policy(<wbr>mdp" in accessible.repaired(f"<td>{word}</td>")
    index = (
        '<table style="width: 100%" class="indextable genindextable"><tr><td style="width: 33%">'
        "<a>f (goalmeter.meg.Sweep method)</a></td></tr></table>"
    )
    once = accessible.repaired(index)
    assert "goalmeter.<wbr>meg.<wbr>Sweep method" in once and "<td" not in once
    assert once.endswith("</div>") and accessible.repaired(once) == once
