"""One self-contained HTML page: it opens from disk and asks the network for nothing.

Styles and pictures are inside the page, there is no script, and a content security policy in
the page's head holds the browser to that. Text is escaped by the template engine; the pictures
are the only markup that goes in as it is, and they come from `goalmeter.report.figures`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from goalmeter._errors import require
from goalmeter._files import write_text
from goalmeter.report.blocks import Section

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
    findings: Sequence[str] = (),
    glossary: Mapping[str, str] | None = None,
    provenance: Sequence[str] = (),
) -> Path:
    """Write a report in a single step; what was there before stays if anything fails.

    Args:
        path: the .html file; missing folders are made.
        title: the page's heading.
        sections: its body, in order.
        lede: a paragraph below the title.
        findings: the page in a few sentences.
        glossary: term -> what it means, in a sentence.
        provenance: how the page was made, for its foot.

    Raises:
        InvalidFileError: the file cannot be written there.
        MissingExtraError: jinja2 is not installed.
    """
    page = render(
        title,
        sections,
        lede=lede,
        findings=findings,
        glossary=glossary,
        provenance=provenance,
    )
    return write_text(path, page)


def render(
    title: str,
    sections: Sequence[Section],
    *,
    lede: str = "",
    findings: Sequence[str] = (),
    glossary: Mapping[str, str] | None = None,
    provenance: Sequence[str] = (),
) -> str:
    """The page as text; see `write_report`."""
    jinja2 = require("jinja2", extra="report", feature=_FEATURE)
    here = files("goalmeter.report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(here.joinpath("template.html").read_text(encoding="utf-8"))
    text: str = template.render(
        title=title,
        sections=list(zip(_anchors([s.title for s in sections]), sections, strict=True)),
        lede=lede,
        findings=findings,
        glossary=glossary or {},
        provenance=provenance,
        style=here.joinpath("style.css").read_text(encoding="utf-8"),
    )
    return text


def _anchors(titles: Sequence[str]) -> list[str]:
    """An id for each title, all different."""
    out: list[str] = []
    for number, title in enumerate(titles, start=1):
        slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        out.append(f"{slug}-{number}" if slug in out else slug)
    return out
