"""Prompts: what they say, what they do not, and that a version never changes."""

from __future__ import annotations

import hashlib
import re

from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import Cell, GridWorld
from goalmeter.navigation.prompts import TEMPLATES, template

ROOM = GridWorld.from_text(["#####", "#A_G#", "#####"])
LOCKED = GridWorld.from_text(["######", "#AKDG#", "######"])
KEY = LOCKED.with_(door=None)
NEUTRAL = KEY.with_(key=None, neutral=KEY.key)


def test_keys_are_mentioned_only_where_that_is_asked_for() -> None:
    words = re.compile(r"\bkeys?\b(?! \"action\")|door", re.IGNORECASE)
    for world in (ROOM, LOCKED.with_(door=None)):
        assert not words.search(template("plain/1").prompt(world, State(world.start)))
        assert words.search(template("keys/1").prompt(world, State(world.start)))
    neutral = template("plain/1").prompt(LOCKED.with_(door=None), State(LOCKED.start))
    assert "K  an object without a use" in neutral
    assert "K  " not in template("plain/1").prompt(ROOM, State(ROOM.start))


def test_a_version_never_changes() -> None:
    """A changed wording is a new version, since logs name the one that they were made with."""
    digests = {
        name: hashlib.sha256(each.prompt(LOCKED, State(LOCKED.start)).encode()).hexdigest()[:16]
        for name, each in TEMPLATES.items()
    }
    assert digests == {
        "plain/1": "43d37c24b0ab9cc5",
        "keys/1": "f8b47c9831c75585",
        "compact/2": "89375d56afa421df",
    }
    neutral = {
        name: hashlib.sha256(each.prompt(NEUTRAL, State(NEUTRAL.start)).encode()).hexdigest()[:16]
        for name, each in TEMPLATES.items()
    }
    assert neutral == {
        "plain/1": "228bf3b87873543c",
        "keys/1": "d821d05bca04e50a",
        "compact/2": "2e0dba158d6ecda7",
    }


def test_history_is_told_if_there_is_any() -> None:
    text = template("plain/1").prompt(
        ROOM, State(ROOM.start), [(Cell(1, 2), 0), (Cell(1, 1), None)]
    )
    assert "So far, oldest first (position: action):\n(1, 2): LEFT\n(1, 1): no valid action" in text
    assert "So far" not in template("plain/1").prompt(ROOM, State(ROOM.start))
