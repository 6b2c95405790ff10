"""Questions that make no sense are refused, in words that say what to ask instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from meg.causal.instances import (
    CHEESE,
    mouse,
)

from goalmeter import meg
from goalmeter._errors import InvalidModelError, InvalidParameterError, InvalidUtilityError
from goalmeter.causal import CausalBayesianNetwork, elimination

# --- Refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"decisions": ["d"]},
            "decision 'd' does not exist, expected one of S, D, T; did you mean 'D'?",
        ),
        (
            {"decisions": ["D", "D"]},
            "decisions are D, D, expected one or more, each of them once",
        ),
        (
            {"utility": None},
            "the utility is missing, expected {variable: {state: number}} or another form of it; "
            "for the best of all utilities over some variables use goalmeter.meg.targets",
        ),
        (
            {"do": {"S": "lift"}},
            "state of 'S': 'lift' does not exist, expected one of left, right; did you mean 'left'",
        ),
    ],
)
def test_questions_that_make_no_sense_are_refused(options: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        meg.causal_utility(mouse(), **{"decisions": ["D"], "utility": CHEESE, **options})


def test_what_is_no_model_and_what_is_no_utility_is_refused() -> None:
    with pytest.raises(
        InvalidModelError,
        match="the model is str, expected a CausalBayesianNetwork, an InfluenceDiagram or a pgmpy "
        r"model; CausalBayesianNetwork\.from_bif reads a file",
    ):
        model: Any = "mouse.bif"
        meg.causal_utility(model, ["D"], CHEESE)
    with pytest.raises(
        InvalidUtilityError, match="utility: variable 'U' does not exist, expected one of S, D, T"
    ):
        meg.causal_utility(mouse(), ["D"], {"U": [1]})


# --- Targets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (
            ["D"],
            {},
            "the target 'D' is one of the decisions, expected other variables: with respect to "
            "utilities of its own choices every deterministic policy is maximally goal-directed, "
            "so the number would say nothing; name what the choice is for",
        ),
        (["T", "D"], {}, "the target 'D' is one of the decisions"),
        (["t"], {}, "target 't' does not exist, expected one of S, D, T; did you mean 'T'?"),
        ([], {}, "targets are missing, expected one or more, each of them once"),
        (["T", "T"], {}, "targets are T, T, expected one or more, each of them once"),
        ("T", {}, r"targets are 'T', expected a list of names such as \['T'\]"),
        (["T"], {"tolerance": 0.0}, "tolerance is 0.0, expected a positive number"),
    ],
)
def test_targets_that_make_no_sense_are_refused(targets: Any, options: Any, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        meg.targets(mouse(), ["D"], targets, **options)


def test_questions_too_large_to_work_with_are_refused() -> None:
    names = [f"X{i}" for i in range(26)]
    network = CausalBayesianNetwork(
        {"D": [0, 1], **{key: [0, 1] for key in names}},
        {x: ["D"] for x in names},
        {x: [0.5, 0.5] if x == "D" else [[0.9, 0.1], [0.2, 0.8]] for x in ("D", *names)},
    )
    with pytest.raises(
        InvalidModelError,
        match=r"1 contexts, 2 actions and 67108864 weights need a table of 1\.34e\+08 entries, "
        r"expected "
        r"at most 6\.71e\+07; ask about fewer targets, or merge states of targets or of what "
        "decisions observe",
    ):
        meg.targets(network, ["D"], names)
    # Few of them are no matter, however many there are.
    assert meg.targets(network, ["D"], names[:3]).certified


def test_models_too_wide_to_eliminate_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    # The target joins twelve hidden causes: its table alone is 2^13, and they are all of two
    # more, so that no order avoids it.
    names = [f"X{i}" for i in range(12)]
    network = CausalBayesianNetwork(
        {"D": [0, 1], "H": [0, 1], **{key: [0, 1] for key in names}, "T": [0, 1]},
        {**{key: ["D", "H"] for key in names}, "T": names},
        {
            "D": [0.5, 0.5],
            "H": [0.5, 0.5],
            **dict.fromkeys(names, np.full((2, 2, 2), 0.5)),
            "T": lambda *xs: int(sum(xs) > 6),
        },
    )
    assert meg.targets(network, ["D"], ["T"]).value == pytest.approx(0.0, abs=1e-9)
    monkeypatch.setattr(elimination, "MAX_ENTRIES", 2**12)
    with pytest.raises(
        InvalidModelError,
        match=r"the model is too large to eliminate: the best order found needs a table over \d+ "
        r"variables at once \(D, .*\) with [\de.+]+ entries, expected at most 4\.1e\+03 to keep "
        r"and "
        r"2\.15e\+09 to sum; merge states of these variables, fix some of them with do, or ask "
        r"about "
        "fewer targets at a time",
    ):
        meg.targets(network.with_mechanism("H", [0.4, 0.6]), ["D"], ["T"])
