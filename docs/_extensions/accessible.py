"""Repairs of the written pages, so that everybody can read and use all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_REPAIRS = (
    # A heading without a level, and landmarks without a name.
    ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="Site">'),
    ('<aside class="toc-drawer', '<aside aria-label="Page" class="toc-drawer'),
    # Boxes that scroll in a narrow window.
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    # Columns of the index, which a narrow window would cut off, as text in as many as fit.
    (
        '<table style="width: 100%" class="indextable genindextable"><tr>',
        '<div class="genindextable" style="columns: 18em; overflow-wrap: anywhere">',
    ),
    ('<div id="search-results">', '<h1>Search</h1>\n<div id="search-results">'),
)
# A word of code that fits every line, such as an option, and does not break at its hyphens.
_WORD = re.compile(r'<span class="pre">(?=[^<]{1,24}</span>)')
_OPTION = re.compile(r"(?<=</span>)--[\w-]+(?=<)")  # of a command in a console session
# Parameters on lines of their own, which Sphinx writes as a list of descriptions without terms.
_PARAMETERS = re.compile(r'<dl>\n((?:<dd><em class="sig-param">.*</dd>\n)+)</dl>')
# The title of a generated table stands in the comment before it, by which the table is found again.
_TITLED = re.compile(r"<!-- table: (.+) -->\n(?=<div [^>]*table-wrapper)")
# Long words, which a narrow window would break at any letter or, in tables, not at all.
_LONG_WORD = re.compile(
    r'(<h[12]>|<div class="title">|<span class="(?:doc|pre)">)([^\s<>&;]{12,})(?=<)'
)
_CELL = re.compile(r"<td>.*?</td>|<td class=.*?</td>", re.DOTALL)
_QUALIFIED = re.compile(r"(?<=\()goalmeter\.[\w.]+(?= )")
_PLACE_TO_BREAK = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[./_(])(?=\w)")


def repaired(text: str) -> str:
    """Return the text of a page with all repairs."""
    for theirs, ours in _REPAIRS:
        if ours not in text:  # a page that is not built again was repaired before
            text = text.replace(theirs, ours)
    text = _CELL.sub(lambda cell: breakable(cell[0]), text)
    text = _WORD.sub('<span class="pre whole">', text)
    text = _OPTION.sub(r'<span class="whole">\g<0></span>', text)
    text = _TITLED.sub(r'\g<0><p class="caption">\1</p>\n', text)
    if 'class="genindextable"' in text:
        text = re.sub(r'</?td(?: style="[^"]*")?>', "", text).replace("</tr></table>", "</div>")
        text = _QUALIFIED.sub(lambda name: _PLACE_TO_BREAK.sub("<wbr>", name[0]), text)
    return _PARAMETERS.sub(_as_lines, breakable(text))


def breakable(text: str) -> str:
    """Return the text with places to break in long words."""
    return _LONG_WORD.sub(lambda word: word[1] + _PLACE_TO_BREAK.sub("<wbr>", word[2]), text)


def _as_lines(found: re.Match[str]) -> str:
    lines = re.sub(r"(</?)dd>", r"\1div>", found[1])
    return f'<div class="parameters">\n{lines}</div>'


def repair_pages(app: Any, exception: Exception | None) -> None:
    """Repair the pages that were written."""
    if app.builder.format != "html":
        return
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        if (better := repaired(text)) != text:
            path.write_text(better, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Repair pages after all of them are written."""
    app.connect("build-finished", repair_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
