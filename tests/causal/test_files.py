"""Files of models and utilities: what is read is what was written, what is wrong is named."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goalmeter._errors import GoalmeterError, InvalidParameterError
from goalmeter.causal import CausalBayesianNetwork
from goalmeter.causal.files import load_model, load_utility, parse_do

SIDE = ["left", "right"]


@pytest.fixture(scope="module")
def mouse() -> CausalBayesianNetwork:
    return CausalBayesianNetwork(
        {"S": SIDE, "D": SIDE, "T": ["cheese", "none"]},
        {"D": ["S"], "T": ["S", "D"]},
        {
            "S": [0.5, 0.5],
            "D": [[0.8, 0.2], [0.2, 0.8]],
            "T": lambda s, d: "cheese" if s == d else "none",
        },
    )


def written(folder: Path, value: Any) -> Path:
    path = folder / "u.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return path


# --- Models ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["m.BIF", "m.bif.gz", "m.xml"])
def test_the_ending_tells_the_format(
    tmp_path: Path, mouse: CausalBayesianNetwork, name: str
) -> None:
    plain = tmp_path / ("plain.bif" if ".bif" in name.lower() else "plain.xml")
    (mouse.to_bif if plain.suffix == ".bif" else mouse.to_xmlbif)(plain)
    data = plain.read_bytes()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    read = load_model(path)
    assert read.variables == mouse.variables and read.edges() == mouse.edges()
    for x in mouse.variables:
        assert read.domain(x) == mouse.domain(x)
        np.testing.assert_array_equal(read.cpd(x), mouse.cpd(x))


# --- Utilities ------------------------------------------------------------------------------------
def test_factors_are_in_the_order_of_the_models_states(
    tmp_path: Path, mouse: CausalBayesianNetwork
) -> None:
    factors = [
        {"variables": ["T"], "values": [1, -1]},
        {"variables": ["D", "S"], "values": [[0, 0.25], [1e-3, -2]]},
    ]
    utility = load_utility(written(tmp_path, factors), mouse)
    assert [factor.variables for factor in utility.factors] == [("T",), ("D", "S")]
    np.testing.assert_array_equal(utility.factors[0].values, [1, -1])
    np.testing.assert_array_equal(utility.factors[1].values, [[0, 0.25], [1e-3, -2]])


T = {"variables": ["T"], "values": [1, -1]}


@pytest.mark.parametrize(
    ("factors", "message"),
    [
        (T, "u.json: expected a list of one or more factors"),
        ("[\n {", "u.json: cannot be read as JSON in line 2"),
        ("[" * 200_000, "u.json: cannot be read as JSON"),
        ('[{"variables": ["T"], "values": [NaN, 1]}]', "expected a finite number"),
        ('[{"values": [1, 2], "values": [2, 1]}]', "the names values, values, expected each"),
        ([T, 3], "u.json, factor 2: expected {"),
        ([{"variables": ["T"]}], "u.json, factor 1: a factor of the utility is"),
        ([T | {"variables": ["t"]}], "variable 't' does not exist, expected one of S, D, T; did"),
        ([T | {"variables": ["T", "T"], "values": [[1, 2], [3, 4]]}], "reads T, T, expected each"),
        ([T | {"values": [1]}], "the utility over T has shape"),
        ([T | {"values": [10**400, 2]}], "the utility over T is not an array of numbers"),
        (f"[{'9' * 5000}]", "cannot be read as JSON (Exceeds the limit"),
    ],
)
def test_an_error_names_the_file_and_the_place(
    tmp_path: Path, mouse: CausalBayesianNetwork, factors: Any, message: str
) -> None:
    with pytest.raises(GoalmeterError, match=re.escape(message)) as caught:
        load_utility(written(tmp_path, factors), mouse)
    assert str(caught.value).startswith(str(tmp_path / "u.json"))
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


# --- Interventions --------------------------------------------------------------------------------


def test_states_come_back_as_the_model_has_them() -> None:
    model = CausalBayesianNetwork(
        {"a=b": ["x=1", "y"], "N": [0, 1], "a": ["b=y"]},
        {},
        {"a=b": [0.5, 0.5], "N": [0.5, 0.5], "a": [1.0]},
    )
    assert parse_do(["N=1"], model) == {"N": 1}
    # The text is cut at the first = that ends the name of a variable.
    assert parse_do(["a=b=y"], model) == {"a": "b=y"}


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["S"], "'S' has no '=', expected VARIABLE=STATE, such as S=STATE"),
        (["Z=left"], "variable 'Z' does not exist, expected one of S, D, T"),
        (["s=left"], "did you mean 'S'?"),
        (["S=lift"], "state of 'S': 'lift' does not exist, expected one of left, right; did"),
        (["S=left", "S=right"], "'S' is set twice, expected each variable once"),
    ],
)
def test_what_cannot_be_done_is_named(
    mouse: CausalBayesianNetwork, texts: list[str], message: str
) -> None:
    with pytest.raises(InvalidParameterError, match=re.escape(message)):
        parse_do(texts, mouse)
