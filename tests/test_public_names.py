"""Public names: each room lists them in `__all__`, each is documented, and the docs name no other.

`docs/reference.md` is made from these lists: PYTHONPATH=src:tests python -m test_public_names
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from documented import PAGES, ROOT

import goalmeter as gm

REFERENCE = ROOT / "docs" / "reference.md"
# Rooms whose names are for users, in the order of the reference.
ROOMS = (
    *("goalmeter", "goalmeter.meg", "goalmeter.reflection", "goalmeter.reflection.environments"),
    *("goalmeter.navigation", "goalmeter.agents", "goalmeter.organisms", "goalmeter.tabular"),
    *("goalmeter.causal", "goalmeter.gridworld", "goalmeter.statistics", "goalmeter.runs"),
    *("goalmeter.report", "goalmeter.representation"),
)
SHORT = 8  # members of a constant that the reference shows
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.py"))
# `gm.meg.targets`, and `meg.targets` where a page writes the room alone.
_MENTION = re.compile(r"(?<![\w./-])gm\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
_SHORT = re.compile(
    r"`((?:meg|reflection|navigation|agents|tabular|causal|gridworld|statistics)"
    r"\.(?!md\b|py\b)[A-Za-z_]\w*)"
)
_IMPORT = re.compile(
    r"^from (?P<module>goalmeter[\w.]*) import (?P<names>\([^)]*\)|[^\n(#]+)", re.MULTILINE
)


def public(room: str) -> dict[str, Any]:
    """The names that a room lists, with what they are."""
    module = import_module(room)
    return {name: getattr(module, name) for name in module.__all__}


def first_sentence(text: str) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) (?=[A-Z])", paragraph)[0]


def in_words(name: str, value: Any, module: ModuleType) -> str:
    """What the reference says of a public name; empty where nothing documents it."""
    if callable(value) or isinstance(value, ModuleType):
        return first_sentence(inspect.getdoc(value) or "")
    # Python keeps no docstring of a constant: the comment before it says what it is, and a short
    # one shows what it holds.
    members = ", ".join(f"`{member}`" for member in value) if len(value) <= SHORT else ""
    return " ".join(filter(None, (comment_before(name, module), members)))


def comment_before(constant: str, module: ModuleType) -> str:
    """The comment before a constant, in whichever file of its room defines it."""
    for path in sorted(Path(next(iter(module.__path__))).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if match := re.search(rf"((?:^# .*\n)+)^{constant}\b[^=\n]*= ", text, re.MULTILINE):
            return " ".join(line.removeprefix("# ") for line in match[1].splitlines())
    return ""


def spelled(name: str, value: Any) -> str:
    """The name as it is called: the parameters of a function without types and defaults."""
    if not inspect.isfunction(value):
        return name
    parts: list[str] = []
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            # Options are many and optional; the docstring explains them.
            parts.append("…")
            break
        optional = parameter.default is not parameter.empty
        parts.append(f"{parameter.name}=…" if optional else parameter.name)
    return f"{name}({', '.join(parts)})"


def reference() -> str:
    """The text of docs/reference.md."""
    lines = [
        "# Reference",
        "",
        "Every public name, with the first sentence of its docstring; `help(gm.meg.targets)` shows",
        "the rest: shapes, units, errors, source. … stands for options, given by keyword.",
        "",
        "This page is made from the `__all__` of each room:",
        "`PYTHONPATH=src:tests python -m test_public_names`.",
    ]
    for room in ROOMS:
        module = import_module(room)
        lines += ["", f"## {room}", "", first_sentence(module.__doc__ or ""), ""]
        lines += ["| name | |", "|---|---|"]
        for name, value in public(room).items():
            if not isinstance(value, ModuleType):
                words = in_words(name, value, module).replace("|", "\\|")
                lines.append(f"| `{spelled(name, value)}` | {words} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_lists_its_public_names_and_no_others(room: str) -> None:
    module = import_module(room)
    assert module.__all__ == sorted(set(module.__all__), key=module.__all__.index)
    bound = {
        name
        for name in dir(module)  # of the root, what it imports when it is first asked for, too
        if not name.startswith("_")
        and name != "annotations"
        and not isinstance(getattr(module, name), ModuleType)
    }
    rooms = {name for name, value in public(room).items() if isinstance(value, ModuleType)}
    assert set(module.__all__) - rooms == bound


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_documented(room: str) -> None:
    module = import_module(room)
    bare = [name for name, value in public(room).items() if not in_words(name, value, module)]
    assert not bare, f"{room}: no docstring, or of a constant no comment before it: {bare}"


def resolved(name: str) -> Any:
    """What a dotted name leads to, room by room and attribute by attribute.

    Raises:
        AttributeError: it leads to nothing, or to what its room does not list.
    """
    value: Any = gm
    for part in name.split("."):
        listed = getattr(value, "__all__", None)
        if isinstance(value, ModuleType) and listed is not None and part not in listed:
            raise AttributeError(f"{value.__name__} does not list {part}")
        # Attributes of a dataclass without a default are on its instances alone.
        fields = getattr(value, "__dataclass_fields__", {})
        value = getattr(value, part) if part not in fields else fields[part]
    return value


@pytest.mark.parametrize("page", [*PAGES, *TUTORIALS], ids=lambda page: page.name)
def test_every_name_that_a_page_mentions_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = []
    for name in sorted({match[1] for match in _MENTION.finditer(text)}):
        try:
            resolved(name)
        except AttributeError as error:
            wrong.append(f"gm.{name}: {error}")
    for name in sorted({match[1] for match in _SHORT.finditer(text)}):
        room, _, last = name.rpartition(".")
        # A page may name a file too, such as `tabular.backup`.
        if last not in public(f"goalmeter.{room}") and not find_spec(f"goalmeter.{name}"):
            wrong.append(name)
    for match in _IMPORT.finditer(text):
        module = import_module(match["module"])
        for name in re.findall(r"\w+(?= as |,|\s|\)|$)", re.sub(r" as \w+", "", match["names"])):
            if not hasattr(module, name):
                wrong.append(f"from {match['module']} import {name}")
    assert not wrong, f"{page.name} names what is not there: " + "; ".join(wrong)


def test_the_reference_is_made_from_these_lists() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == reference(), (
        "docs/reference.md is not what the lists give; make it again: "
        "PYTHONPATH=src:tests python -m test_public_names"
    )


def test_a_name_that_is_not_there_is_noticed() -> None:
    text = "`gm.meg.tragets(model)` and `meg.known_utility`, beside gm.TabularMDP.from_gymnasium"
    wrong, right = _MENTION.findall(text)
    assert wrong == "meg.tragets" and _SHORT.findall(text) == ["meg.known_utility"]
    with pytest.raises(AttributeError, match=r"goalmeter\.meg does not list tragets"):
        resolved(wrong)
    assert resolved(right) == gm.TabularMDP.from_gymnasium


if __name__ == "__main__":
    REFERENCE.write_text(reference(), encoding="utf-8")
    print(REFERENCE)
