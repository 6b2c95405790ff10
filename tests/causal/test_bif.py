"""BIF: what is written comes back, what others write is read, and what is wrong is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from causal.written_networks import assert_same, networks, shipped
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from goalmeter._errors import InvalidFileError
from goalmeter.causal import CausalBayesianNetwork, bif, formats
from goalmeter.causal.bif import bif_text, write_bif
from goalmeter.causal.files import load_model

RAIN = (
    "variable Rain { type discrete [ 2 ] { yes, no }; }\nprobability ( Rain ) { table .25, .75; }\n"
)
read_bif = CausalBayesianNetwork.from_bif
WET = "variable Wet {\n  type discrete [ 2 ] { wet, dry };\n}\n"


def parse_bif(text: str, source: object = "text") -> CausalBayesianNetwork:
    return CausalBayesianNetwork.of(bif.parse_bif(text, source=source))


# --- What is read ---------------------------------------------------------------------------------
def test_a_file_by_hand() -> None:
    network = parse_bif(
        """
        // Everything the format allows, in an unusual order.
        network "Two words" { property "author = me; or you"; property url = http://a.org/b ; }
        probability ( Wet | Rain "Sprink ler" ) {   /* commas may be left out */
          property note = (73, 165) ;
          ("no", <5) 1e-2 9.9E-1;
          default 0.5, 0.5;
          (yes, ">= 5") +1 0; // the rest is the default
        }
        variable Wet { type discrete [2] { wet dry }; property position = (1, 2) ; }
        """
        + RAIN
        + """
        variable "Sprink ler" { property a = b; type discrete[3]{ <5, 5-12, ">= 5" } ; }
        probability("Sprink ler"){default 0.5,0.25,0.25;}
        """
    )
    assert network.name == "Two words"
    assert network.variables == ("Wet", "Rain", "Sprink ler")
    assert network.domain("Sprink ler") == ("<5", "5-12", ">= 5")
    assert network.parents("Wet") == ("Rain", "Sprink ler")
    half = [0.5, 0.5]
    expected = [[half, half, [1, 0]], [[0.01, 0.99], half, half]]
    np.testing.assert_array_equal(network.cpd("Wet"), expected)
    np.testing.assert_array_equal(network.cpd("Sprink ler"), [0.5, 0.25, 0.25])


# Nodes, arrows and free parameters, counted once by regular expressions over the files' lines.
SHIPPED = {"alarm": (37, 46, 509), "sachs": (11, 17, 178), "water": (32, 66, 10083)}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_network_that_pgmpy_ships_is_read(name: str) -> None:
    network = read_bif(shipped(name))
    assert network.name == ""
    sizes = [(network.cpd(x).size, network.size(x)) for x in network.variables]
    parameters = sum(entries - entries // states for entries, states in sizes)
    assert (len(network.variables), len(network.edges()), parameters) == SHIPPED[name]


# --- Round trips ----------------------------------------------------------------------------------
@settings(max_examples=50, suppress_health_check=[HealthCheck.too_slow])
@given(networks(st.text(max_size=6)))
@example(
    CausalBayesianNetwork(
        {'a"\\\n;\0': ["", "//", "a/*b", "http://x"]}, {}, {'a"\\\n;\0': [1, 0, 0, 0]}
    )
)
def test_what_is_written_comes_back(network: CausalBayesianNetwork) -> None:
    if network.name in formats.NO_NAMES:
        return
    assert_same(parse_bif(bif_text(network)), network)


@pytest.mark.parametrize("name", ["m.bif", "m.bif.gz"])
def test_files_come_back(tmp_path: Path, name: str) -> None:
    network = read_bif(shipped("alarm"))
    path = tmp_path / name
    assert write_bif(network, path) == path
    assert_same(read_bif(str(path)), network)
    assert path.read_bytes().startswith(b"\x1f\x8b") == name.endswith("gz")
    assert list(tmp_path.iterdir()) == [path]
    before = path.read_bytes()
    write_bif(network, path)
    assert path.read_bytes() == before


# --- Errors ---------------------------------------------------------------------------------------
def wet(rows: str) -> str:
    """A network whose second table begins in line 6."""
    return f"{RAIN}{WET}probability ( Wet | Rain ) {{\n{rows}\n}}\n"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", None, "declares no variable, expected at least one"),
        ("/* a\n*/ /* b", 2, "this comment is not closed"),
        ("variable a { type discrete [2] {x y};\n", 2, "block of variable 'a' (opened in line 1)"),
        ("variable a { type discrete [two] {x y}; }", 1, "the number of states of variable 'a'"),
        ("variable a { type discrete [0] {}; }", 1, "has no states"),
        (RAIN + WET, 3, "Wet has no probabilities, expected a table for each variable"),
        (RAIN + WET + "probability (Wet | Rian) { }", 6, "did you mean 'Rain'?"),
        (wet("(yes) 0.5 0.5;"), 6, "'Wet' given Rain = no is missing (1 of 2 are)"),
        (wet("table 0.5 0.5 0.5 0.4;"), 7, "'Wet' given Rain = no sums to 0.9, expected"),
        (wet("(yes) 0.5; default 1 0;"), 7, "a row of 'Wet' has 1 numbers, expected 2"),
        (wet("(yes) 0.5 O.5;"), 7, "a probability of 'Wet', got \"O.5\""),
        (wet("(yes) 0.5 0.5\n(no) 1 0;"), 8, 'a probability of \'Wet\' or ";", got "("'),
        (wet("default 1 0;\ntable 1 1 0 0;"), 8, "mix table with other rows"),
        (wet("property x"), 7, 'expected ";" after the property, got the end of the file'),
        (
            "variable a { type discrete [1] {x}; } variable b { type discrete [1] {x}; }\n"
            "probability (a | b) { table 1; } probability (b | a) { table 1; }",
            None,
            "the edges form a cycle",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(text: str, line: int | None, message: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        parse_bif(text, source="m.bif")
    where = f"m.bif, line {line}: " if line else "m.bif: "
    assert str(caught.value).startswith(where), str(caught.value)
    assert message in str(caught.value)


def test_a_small_file_cannot_ask_for_a_large_table() -> None:
    n = 30
    text = "".join(f"variable v{i} {{ type discrete [2] {{ a b }}; }}\n" for i in range(n))
    parents = " ".join(f"v{i}" for i in range(1, n))
    text += f"probability ( v0 | {parents} ) {{ default 0.5 0.5; }}\n"
    with pytest.raises(InvalidFileError, match=r"line 31: the table of 'v0' has 1.07e\+09 entries"):
        parse_bif(text)


def test_the_example_network_is_found_by_its_name() -> None:
    # Lauritzen and Spiegelhalter (1988); the repository of bnlearn has the same numbers.
    ours, theirs = load_model("asia"), read_bif(shipped("asia"))
    assert ours.variables == theirs.variables
    for x in ours.variables:
        assert (ours.domain(x), ours.parents(x)) == (theirs.domain(x), theirs.parents(x))
        np.testing.assert_array_equal(ours.cpd(x), theirs.cpd(x))
