"""One self-contained HTML page: it opens from disk and asks the network for nothing.

Styles and pictures are inside the page, there is no script, and a content security policy in
the page's head holds the browser to that. What moves is the browser's own: sections fold as
`details`, all open at first, so that a link, a search and a printer find everything in any
browser; colours follow the scheme that the reader has chosen, light or dark. The pictures are the
only markup that goes in as it is, and they come from `goalmeter.report.charts.canvas`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError, require
from goalmeter._files import write_text
from goalmeter._text import visible
from goalmeter.report.blocks import Finding, Section, anchors
from goalmeter.report.charts.colours import as_variables, styles

_FEATURE = "Writing a report"


def require_report_extra() -> None:
    """Check that a report can be written, before the work that it is to show.

    Raises:
        MissingExtraError: jinja2 or matplotlib is not installed.
    """
    require("jinja2", extra="report", feature=_FEATURE)
    require("matplotlib", extra="report", feature=_FEATURE)


def write_report(
    path: str | Path,
    title: str,
    sections: Sequence[Section],
    *,
    lede: str = "",
    findings: Sequence[Finding | str] = (),
    glossary: Mapping[str, str] | None = None,
    provenance: Sequence[str] = (),
) -> Path:
    """Write a report in a single step; what was there before stays if anything fails.

    Args:
        path: the .html file; missing folders are made.
        title: the page's heading.
        sections: its body, in order.
        lede: a paragraph below the title.
        findings: the page in a few sentences, which may lead to the numbers behind them.
        glossary: term -> what it means, in a sentence.
        provenance: how the page was made, for its foot.

    Raises:
        InvalidFileError: the file cannot be written there.
        InvalidParameterError: two places have one id, or a finding leads to none.
        MissingExtraError: jinja2 is not installed.
    """
    page = render(
        title, sections, lede=lede, findings=findings, glossary=glossary, provenance=provenance
    )
    return write_text(path, page)


def render(
    title: str,
    sections: Sequence[Section],
    *,
    lede: str = "",
    findings: Sequence[Finding | str] = (),
    glossary: Mapping[str, str] | None = None,
    provenance: Sequence[str] = (),
) -> str:
    """The page as text; see `write_report`."""
    jinja2 = require("jinja2", extra="report", feature=_FEATURE)
    room = files("goalmeter.report")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_spelled_out,
    )
    environment.filters |= {"themed": as_variables, "spelled_out": _spelled_out}
    template = environment.from_string(room.joinpath("template.html").read_text(encoding="utf-8"))
    placed = list(zip(anchors([s.anchor or s.title for s in sections]), sections, strict=True))
    sentences = [
        Finding(text=finding) if isinstance(finding, str) else finding for finding in findings
    ]
    # A link that leads nowhere is seen by nobody who writes the page, so it is refused here.
    _check(placed, sentences)
    # Declared once a page: pictures share most of their colours.
    light, dark = styles(figure.svg for section in sections for figure in section.figures)
    text: str = template.render(
        title=title,
        sections=placed,
        lede=lede,
        findings=sentences,
        glossary=glossary or {},
        provenance=provenance,
        style=room.joinpath("style.css").read_text(encoding="utf-8"),
        light=light,
        dark=dark,
    )
    return text


def _spelled_out(value: Any) -> Any:
    """A value as the template shows it; what is markup already stays as it is."""
    # The engine makes markup harmless, but lets through what misleads all the same: marks that turn
    # a line around, characters without width, codes of a terminal, which a page hands on to whoever
    # copies from it.
    is_markup = hasattr(value, "__html__")
    return visible(value, lines=True) if isinstance(value, str) and not is_markup else value


def _check(sections: Sequence[tuple[str, Section]], findings: Sequence[Finding]) -> None:
    """Every id is there once, and every link leads to one."""
    places = [anchor for anchor, _ in sections]
    for _, section in sections:
        for table in section.tables:
            places += [name for name in (table.anchor, *table.row_anchors) if name]
    if twice := {name for name in places if places.count(name) > 1}:
        raise InvalidParameterError(
            f"{min(twice)!r} is the id of {places.count(min(twice))} places on the page, expected "
            "one: give the sections and tables other anchors"
        )
    for finding in findings:
        for link in finding.links:
            if link.to not in places:
                raise InvalidParameterError(
                    f"the link {link.text!r} leads to {link.to!r}, expected the id of a section, a "
                    f"table or a row on the page: one of {', '.join(places)}"
                )
