"""Names of environments and of their readings, and environments of a user's own."""

from __future__ import annotations

from typing import Any

import pytest
from oracles import extended_environments as oracle

from goalmeter._errors import InvalidParameterError
from goalmeter.reflection.environments import (
    BATTERY,
    ENVIRONMENTS,
    Agreement,
    Environment,
    find,
    opposite,
)


def test_the_battery_is_the_papers() -> None:
    assert len(BATTERY) == 25 and all(environment.in_battery for environment in BATTERY)
    assert [environment.name for environment in BATTERY] == list(ENVIRONMENTS)[:25]
    assert BATTERY[0].name == "BackwardConsciousness"
    assert BATTERY[-1].name == "IncentivizeLearningRate"
    outside = list(ENVIRONMENTS)[25:]
    assert outside == [
        "PunishSlowAgent",
        "PunishFastAgent",
        "PunishDeterministicAgent",
        "PunishNondeterministicAgent",
        "FlipEveryOther",
    ]
    assert not any(ENVIRONMENTS[name].in_battery for name in outside)
    assert set(oracle.ENVIRONMENTS) >= set(ENVIRONMENTS)


@pytest.mark.parametrize(
    ("spelled", "name", "is_opposite"),
    [
        ("CryingBaby", "CryingBaby", False),
        (opposite("CryingBaby"), "CryingBaby", True),
        (" opposite( CryingBaby ) ", "CryingBaby", True),
        ("CryingBaby( nutrition = paper )", "CryingBaby(nutrition=paper)", False),
        (
            "opposite(CryingBaby(recursion=paper,nutrition=code))",
            "CryingBaby(recursion=paper, nutrition=code)",
            True,
        ),
    ],
)
def test_names(spelled: str, name: str, is_opposite: bool) -> None:
    environment, result = find(spelled)
    assert (environment.name, environment.base, result) == (name, "CryingBaby", is_opposite)
    assert environment.in_battery == (name == "CryingBaby")
    assert find(environment.name) == (environment, False)


@pytest.mark.parametrize(
    ("spelled", "message"),
    [
        ("CryingBabe", "environment 'CryingBabe'; did you mean 'CryingBaby'[?] Expected one of B"),
        ("opposite(opposite(DejaVu))", "unknown environment 'opposite\\(opposite\\(DejaVu\\)\\)'"),
        ("DejaVu(coding=paper)", "DejaVu has no option 'coding'; it has: none"),
        ("TemptingButton(coding=papers)", "coding is 'papers', expected 'code' or 'paper'"),
        ("TemptingButton(paper)", "'paper' is not an option, expected name=value, such as cod"),
    ],
)
def test_names_that_are_none(spelled: str, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        find(spelled)


class Shy(Agreement):
    """Act as if nothing had been paid, or taken."""

    n_observations = 3

    def tell(self, action: int, reward: float) -> None:
        self.copy.take(action)
        self.copy.perceive(abs(reward), 0)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (Agreement, "environment Agreement does not define tell"),
        (dict, "environment dict: expected a class derived from"),
        (7, "environment 7: expected a class derived from .*, got int"),
        (type("Many", (Shy,), {"n_actions": 0}), "n_actions is 0, expected an integer of at"),
    ],
)
def test_classes_that_are_no_environment(run: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        Environment(run)
