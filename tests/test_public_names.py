"""Public names: each room lists them in `__all__`, each is documented, and the docs name no other.

`docs/reference.md` is made from these lists: PYTHONPATH=src python docs/_extensions/public_names.py
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from documented import PAGES, ROOT
from public_names import REFERENCE, ROOMS, public, reference, summary

import goalmeter as gm

TUTORIALS = sorted((ROOT / "docs" / "gallery").glob("*.py"))
# `gm.meg.targets`, and `meg.targets` where a page writes the room alone.
_MENTION = re.compile(r"(?<![\w./-])gm\.(?!__file__\b)([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
_SHORT = re.compile(
    r"`((?:meg|reflection|navigation|agents|tabular|causal|gridworld|statistics)"
    r"\.(?!md\b|py\b)[A-Za-z_]\w*)"
)
_IMPORT = re.compile(
    r"^from (?P<module>goalmeter[\w.]*) import (?P<names>\([^)]*\)|[^\n(#]+)", re.MULTILINE
)


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
    assert set(public(room)) == bound


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_documented(room: str) -> None:
    bare = [name for name in public(room) if not summary(room, name)]
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
        "PYTHONPATH=src python docs/_extensions/public_names.py"
    )


def test_a_name_that_is_not_there_is_noticed() -> None:
    text = "`gm.meg.tragets(model)` and `meg.known_utility`, beside gm.TabularMDP.from_gymnasium"
    wrong, right = _MENTION.findall(text)
    assert wrong == "meg.tragets" and _SHORT.findall(text) == ["meg.known_utility"]
    with pytest.raises(AttributeError, match=r"goalmeter\.meg does not list tragets"):
        resolved(wrong)
    assert resolved(right) == gm.TabularMDP.from_gymnasium
