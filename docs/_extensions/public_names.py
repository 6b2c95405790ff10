"""Public names of goalmeter by package: the list in reference.md, and a page for each package."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from docstrings import escape

# Packages whose names are for users, in the order of the reference.
ROOMS = (
    *("goalmeter", "goalmeter.meg", "goalmeter.reflection", "goalmeter.reflection.environments"),
    *("goalmeter.navigation", "goalmeter.agents", "goalmeter.organisms", "goalmeter.tabular"),
    *("goalmeter.causal", "goalmeter.gridworld", "goalmeter.statistics", "goalmeter.runs"),
    *("goalmeter.report", "goalmeter.representation"),
)
SHORT = 8  # members of a constant that the reference shows
REFERENCE = Path(__file__).resolve().parents[1] / "reference.md"
HEAD = """# Reference

Every public name, with the first sentence of its docstring. The page of each package, and
`help(gm.meg.targets)`, show the rest: shapes, units, errors, source. … stands for keyword-only
options.

This page is generated from the `__all__` of each package:
`PYTHONPATH=src python docs/_extensions/public_names.py`.

:::{toctree}
:glob:
:hidden:
reference/*
:::
"""


def public(room: str) -> dict[str, Any]:
    """Return the objects that a package lists in `__all__`, except its subpackages."""
    module = import_module(room)
    names = {name: getattr(module, name) for name in module.__all__}
    return {name: value for name, value in names.items() if not isinstance(value, ModuleType)}


def summary(room: str, name: str) -> str:
    """Return the first sentence about a public name; empty if it is not documented."""
    module = import_module(room)
    value = getattr(module, name)
    if callable(value):
        return first_sentence(inspect.getdoc(value) or "")
    # Python keeps no docstring of a constant: the comment before it says what it is.
    shown = [value] if isinstance(value, str) else value
    members = ", ".join(f"`{member}`" for member in shown) if len(shown) <= SHORT else ""
    return " ".join(filter(None, (comment_before(name, module), members)))


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring on one line."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])", paragraph)[0]


def comment_before(constant: str, module: ModuleType) -> str:
    """Return the comment before a constant, from whichever file of its package defines it."""
    for path in sorted(Path(next(iter(module.__path__))).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if match := re.search(rf"((?:^# .*\n)+)^{constant}\b[^=\n]*= ", text, re.MULTILINE):
            return " ".join(line.removeprefix("# ") for line in match[1].splitlines())
    return ""


def call(name: str, value: Any) -> str:
    """Return a name with its parameters, without types, defaults and keyword-only options."""
    if not inspect.isfunction(value):
        return name
    parts: list[str] = []
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            parts.append("…")
            break
        optional = parameter.default is not parameter.empty
        parts.append(f"{parameter.name}=…" if optional else parameter.name)
    return f"{name}({', '.join(parts)})"


def reference() -> str:
    """Return the text of docs/reference.md."""
    lines = [HEAD.rstrip()]
    for room in ROOMS:
        lines += ["", f"## {room}", "", first_sentence(import_module(room).__doc__ or ""), ""]
        lines += ["| name | description |", "|---|---|"]
        for name, value in public(room).items():
            words = in_cell(summary(room, name))
            lines.append(f"| `{call(name, value)}` | {words} |")
    return "\n".join(lines) + "\n"


def in_cell(text: str) -> str:
    """Escape what Markdown would take for a cell's end, or outside code for HTML."""
    parts = re.split(r"(`[^`]*`)", text.replace("|", "\\|"))
    return "".join(p if p.startswith("`") else p.replace("<", "&lt;") for p in parts)


# --- Pages ----------------------------------------------------------------------------------------
KINDS = {"Classes": "autoclass", "Functions": "autofunction", "Constants": "py:data"}


def kind(value: Any) -> str:
    """Return the section of a public object."""
    if inspect.isclass(value):
        return "Classes"
    return "Functions" if callable(value) else "Constants"


def home(room: str, name: str) -> str:
    """Return the package under which an object is documented: its own, not one that repeats it."""
    value = public(room)[name]
    if callable(value):
        for other in ROOMS:
            inside = value.__module__.startswith(f"{other}.")
            if other not in (room, "goalmeter") and inside and name in public(other):
                return other
    return room


def page(room: str) -> str:
    """Return the reference page of a package as reStructuredText."""
    names = public(room)
    lines = [room, "=" * len(room), "", f".. automodule:: {room}", "   :no-members:", ""]
    for title, directive in KINDS.items():
        members = [name for name, value in names.items() if kind(value) == title]
        if not members:
            continue
        lines += [title, "-" * len(title), "", ".. list-table::", "   :widths: 1 2", ""]
        for name in members:
            target = f"{home(room, name)}.{name}"
            lines += [
                f"   * - :py:obj:`{name} <{target}>`",
                f"     - {escape(summary(room, name))}",
            ]
        lines.append("")
        for name in members:
            if home(room, name) != room:
                continue
            if title == "Constants":
                text = escape(summary(room, name))
                lines += [f".. {directive}:: {name}", f"   :module: {room}", "", f"   {text}", ""]
            else:
                lines += [f".. {directive}:: {room}.{name}", ""]
    return "\n".join(lines)


def write_pages(app: Any) -> None:
    """Write the generated pages of the reference, unless they are up to date."""
    (Path(app.srcdir) / "reference").mkdir(exist_ok=True)
    for room in ROOMS:
        write(Path(app.srcdir) / "reference" / f"{room}.rst", page(room))


def write(path: Path, text: str) -> None:
    """Write a page if its text changed, so that an unchanged page is not built again."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    """Register the generated pages with Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")
    print(REFERENCE)
