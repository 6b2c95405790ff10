"""Docstrings of goalmeter as reStructuredText: their text is plain, and code is indented."""

from __future__ import annotations

import inspect
import re
from typing import Any

_SECTION = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Example|Examples|Note):$")
_NEW_PARAGRAPH = re.compile(r"(Source|Cost|Example|Examples): ")
_CODE = re.compile(r"(`[^`]+`)")
_EMPHASIS = re.compile(r"(?<![\w*\\])\*(\w[^*]*?\w|\w)\*(?![\w*])")
_SUBSCRIPT = re.compile(r"(?<![\w.])([A-Za-z]|pi|sum)_(?:\{([^}]+)\}|(\w))(?!\w)")


def escape(text: str) -> str:
    """Escape markup outside code and emphasis, |A| and [*sizes, own size]; set x_1 as subscript."""
    if bullet := re.match(r" *\* ", text):
        return bullet[0] + escape(text[bullet.end() :])
    parts = _CODE.split(text)
    for i, part in enumerate(parts):
        if i % 2 == 0:
            marked = _EMPHASIS.sub("\0\\1\0", part)
            marked = re.sub(r"([*|\\])|(?<=\w)(_)(?!\w)(?!\{)", r"\\\1\2", marked)
            parts[i] = _SUBSCRIPT.sub(r"\1\\ :sub:`\2\3`\\ ", marked).replace("\0", "*")
    return "".join(parts).removesuffix("\\ ")  # which would join this line and the next


def as_restructured_text(lines: list[str]) -> list[str]:
    """Return a docstring with code set off from its text and markup characters escaped."""
    result: list[str] = []
    section = code = doctest = False
    for line in lines:
        indented = line.startswith("    ")
        starts = line.lstrip().startswith(">>>")
        doctest = bool(line.strip()) and (doctest or (starts and not indented))
        if doctest:  # up to the next blank line
            result.append(line)
            continue
        if line and not indented:
            section, code = bool(_SECTION.match(line)), False
            if _NEW_PARAGRAPH.match(line):
                result.append("")
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
    if what == "property":  # an empty escape: napoleon reads text before a colon as a type
        lines.insert(0, "\\")


def skip_member(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out fields of named tuples, which the signature shows already."""
    return True if (getattr(obj, "__doc__", "") or "").startswith("Alias for field") else None


_LONGEST_DEFAULT = 60


class _Omitted:
    def __repr__(self) -> str:
        return "..."


def omit_long_defaults(app: Any, obj: Any, bound_method: bool) -> None:
    """Show "..." for defaults without a short form, such as arrays and what a factory makes."""
    try:
        signature = inspect.signature(obj)
    except (TypeError, ValueError):
        return
    shown = [
        p.replace(default=_Omitted())
        if p.default is not p.empty
        and ("<" in repr(p.default) or len(repr(p.default)) > _LONGEST_DEFAULT)
        else p
        for p in signature.parameters.values()
    ]
    if any(isinstance(p.default, _Omitted) for p in shown):
        obj.__signature__ = signature.replace(parameters=shown)


_MODULE = r"~?(?:\w+\.)*"
_ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
_ARRAY = re.compile(
    rf"{_MODULE}ndarray\[tuple\[{_MODULE}Any, \.\.\.\],"
    rf" {_MODULE}dtype\[{_MODULE}(\w+)(?:\[{_MODULE}Any\])?\]\]"
)
_ARRAY_LIKE = re.compile(
    rf"{_MODULE}_Buffer \| .*?\| {_MODULE}_NestedSequence\[complex \| bytes \| str\]"
)


def process_signature(
    app: Any, what: str, name: str, obj: Any, options: Any, signature: str | None, annotation: Any
) -> tuple[str, Any] | None:
    """Show the types of `autodoc_type_aliases` and arrays by their names."""
    if signature is None:  # an attribute
        return None
    return shortened(signature), annotation and shortened(annotation)


def shortened(text: str) -> str:
    """Return the text of types with the names of aliases and of arrays."""
    text = _ARRAY_LIKE.sub("ArrayLike", _ALIAS.sub(r"\1", text))
    return _ARRAY.sub(r"NDArray[\1]", text)


def setup(app: Any) -> dict[str, bool]:
    """Rewrite docstrings before sphinx.ext.napoleon reads their sections."""
    app.connect("autodoc-process-docstring", process, priority=400)
    app.connect("autodoc-before-process-signature", omit_long_defaults)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
