"""Prompts and answers: a version never changes, and answers as models give them."""

from __future__ import annotations

import hashlib

import pytest

from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.prompts import TEMPLATES, understood

ROOM = GridWorld.from_text(["#####", "#A_G#", "#####"])
LOCKED = GridWorld.from_text(["######", "#AKDG#", "######"])
KEY = LOCKED.with_(door=None)
NEUTRAL = KEY.with_(key=None, neutral=KEY.key)


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


UP, DOWN, LEFT = 2, 3, 0


@pytest.mark.parametrize(
    ("text", "action", "strict"),
    [
        ('{"action": "UP"}', UP, True),
        (' {"action": "DOWN"}\n', DOWN, True),
        ('```json\n{"action": "LEFT"}\n```', LEFT, False),
        ('I go up.\n{"action": "UP"}', UP, False),
        ('{"action": "up"}', UP, False),
        ('{"action": "UP", "why": "closer"}', UP, False),
        # The last object counts: a model that reasons aloud writes others before.
        ('{"action": "UP"} would hit a wall, so {"action": "DOWN"}', DOWN, False),
        ('{"grid": {"action": "UP"}} {"action": "DOWN"}', DOWN, False),
        ('<think>{"action": "UP"}?</think>{"action": "DOWN"}', DOWN, True),
        (
            '<|channel|>analysis<|message|>{"action": "UP"} no<|end|><|start|>assistant<|channel|>'
            'final<|message|>{"action": "DOWN"}<|return|>',
            DOWN,
            True,
        ),
    ],
)
def test_the_action_in_an_answer(text: str, action: int, strict: bool) -> None:
    answer = understood(text)
    assert (answer.action, answer.strict, answer.invalid) == (action, strict, "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty answer"),
        (" \n", "an empty answer"),
        ("UP", 'no JSON object with the key "action"'),
        ("{'action': 'UP'}", 'no JSON object with the key "action"'),
        ('{"action": "UP",}', 'no JSON object with the key "action"'),
        ('{"move": "UP"}', 'no JSON object with the key "action"'),
        ('["action", "UP"]', 'no JSON object with the key "action"'),
        ('{"action": "JUMP"}', "the action 'JUMP' does not exist"),
        ('{"action": 2}', "the action 2 does not exist"),
        ('{"action": null}', "the action None does not exist"),
        ('{"action": ["UP"]}', "the action ['UP'] does not exist"),
        ("<think>first up, then", "no answer after the reasoning"),
        ('<|channel|>analysis<|message|>{"action": "UP"}', "no answer after the reasoning"),
    ],
)
def test_an_answer_without_an_action_says_why(text: str, message: str) -> None:
    answer = understood(text)
    assert answer.action is None and answer.invalid == message and not answer.strict


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"action": ' + "1" * 6000 + "}", id="digits"),
        pytest.param('{"action": ' + "[" * 100_000 + "]" * 100_000 + "}", id="lists"),
        # Read again from each of its letters, it would take an hour.
        pytest.param("<|channel|>" + "a" * 1_000_000, id="channel"),
        pytest.param("{" * 1_000_000, id="braces"),
    ],
)
def test_an_answer_that_goes_on_and_on_is_no_action(text: str) -> None:
    assert understood(text).invalid == 'no JSON object with the key "action"'
    # And it hides no answer that comes behind it.
    assert understood(text + ' {"action": "UP"}').action == UP
