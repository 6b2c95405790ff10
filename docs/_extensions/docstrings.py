"""Docstrings of goalmeter as reStructuredText: their text is plain, and code is indented."""

from __future__ import annotations

import re
from typing import Any

_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Example|Examples|Note):$")
_NEW_PARAGRAPH = re.compile(r"(Source|Cost|Example|Examples): ")
_CODE = re.compile(r"(`[^`]+`)")
_EMPHASIS = re.compile(r"(?<![\w*\\])\*(\w[^*]*?\w|\w)\*(?![\w*])")


def escape(text: str) -> str:
    """Escape markup characters outside code and emphasis: |A| and [*sizes, own size]."""
    if bullet := re.match(r" *\* ", text):
        return bullet[0] + escape(text[bullet.end() :])
    parts = _CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            marked = _EMPHASIS.sub("\0\\1\0", part)
            parts[i] = re.sub(r"([*|\\])|(?<=\w)(_)(?!\w)", r"\\\1\2", marked).replace("\0", "*")
    return "".join(parts)


def as_restructured_text(lines: list[str]) -> list[str]:
    """Return a docstring with code set off from its text and markup characters escaped."""
    result: list[str] = []
    section = code = False
    for line in lines:
        indented = line.startswith("    ")
        if line and not indented:
            section, code = bool(_SECTION.match(line)), False
            if _NEW_PARAGRAPH.match(line):
                result.append("")
        starts = line.lstrip().startswith(">>>")
        if not code and indented and (starts or not section):
            code = True
            result += [""] if starts else ["", "::", ""]
        elif code and not line.strip():
            code = False
        result.append(line if code else escape(line))
    return result


def process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Rewrite the lines of a docstring in place."""
    lines[:] = as_restructured_text(lines)


def process_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, annotation: Any
) -> tuple[str, Any] | None:
    """Show the aliases of `autodoc_type_aliases` by their names."""
    alias = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
    if signature is None:  # an attribute
        return None
    return alias.sub(r"\1", signature), annotation and alias.sub(r"\1", annotation)


def setup(app: Any) -> dict[str, bool]:
    """Rewrite docstrings before sphinx.ext.napoleon reads their sections."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-process-signature", process_signature)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
