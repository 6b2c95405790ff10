"""XMLBIF: what is written comes back, what pgmpy writes is read, and what is wrong is named."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from causal.written_networks import assert_same, networks, pgmpy_part, shipped
from hypothesis import given
from hypothesis import strategies as st

from goalmeter._errors import InvalidFileError, InvalidModelError
from goalmeter.causal import CausalBayesianNetwork, formats
from goalmeter.causal.formats import write_xmlbif, xmlbif_text

read_bif, read_xmlbif = CausalBayesianNetwork.from_bif, CausalBayesianNetwork.from_xmlbif
# As XMLBIF 0.3 has it: a document type with its elements, comments, and layout.
DOG = """<?xml version="1.0" encoding="US-ASCII"?>
<!-- Bayesian network in XMLBIF v0.3 -->
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
  <!ELEMENT NETWORK ( NAME, ( PROPERTY | VARIABLE | DEFINITION )* )>
  <!ELEMENT NAME (#PCDATA)>
]>
<BIF VERSION="0.3"><NETWORK>
<NAME>Dog-Problem</NAME>
<DEFINITION><FOR>out</FOR><GIVEN>bowel</GIVEN><GIVEN>family</GIVEN>
  <TABLE>0.99 0.01 <!-- both --> 0.97 0.03
         0.9 0.1 0.3 0.7 </TABLE></DEFINITION>
<VARIABLE TYPE="nature"><NAME> out </NAME><OUTCOME>true</OUTCOME><OUTCOME>false</OUTCOME>
  <PROPERTY>position = (155, 165)</PROPERTY></VARIABLE>
<VARIABLE TYPE="decision"><NAME>bowel</NAME>
  <OUTCOME>true</OUTCOME><OUTCOME>false</OUTCOME></VARIABLE>
<VARIABLE><NAME>family</NAME><OUTCOME>a&lt;b</OUTCOME><OUTCOME>b &amp; c</OUTCOME></VARIABLE>
<DEFINITION><FOR>bowel</FOR><TABLE>1e-2 .99</TABLE></DEFINITION>
<DEFINITION><FOR>family</FOR><TABLE>0.15 0.85</TABLE></DEFINITION>
</NETWORK></BIF>
"""


def parse_xmlbif(text: str, source: object = "text") -> CausalBayesianNetwork:
    return CausalBayesianNetwork.of(formats.parse_xmlbif(text, source=source))


def test_a_file_by_hand() -> None:
    network = parse_xmlbif(DOG)
    assert network.name == "Dog-Problem"
    assert network.variables == ("out", "bowel", "family")
    assert network.domain("family") == ("a<b", "b & c")
    assert network.parents("out") == ("bowel", "family")
    # Own states change fastest, then the last parent: P(out | bowel = true, family = b & c) = 0.97.
    assert network.cpd("out").tolist() == [[[0.99, 0.01], [0.97, 0.03]], [[0.9, 0.1], [0.3, 0.7]]]
    assert network.cpd("bowel").tolist() == [0.01, 0.99]


names = st.text(
    st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff"),
    min_size=1,
    max_size=6,
).filter(lambda text: text == text.strip())


@given(networks(names))
def test_what_is_written_comes_back(network: CausalBayesianNetwork) -> None:
    if network.name in formats.NO_NAMES:
        return
    assert_same(parse_xmlbif(xmlbif_text(network)), network)


@pytest.mark.parametrize("name", ["m.xml", "m.xmlbif.gz"])
def test_files_come_back(tmp_path: Path, name: str) -> None:
    network = read_bif(shipped("alarm"))
    path = tmp_path / name
    assert write_xmlbif(network, path) == path
    assert_same(read_xmlbif(path), network)


def test_line_ends_in_names_come_back() -> None:
    network = CausalBayesianNetwork({"a\rb\nc\td": ["x"]}, {}, {"a\rb\nc\td": [1]})
    assert_same(parse_xmlbif(xmlbif_text(network)), network)


@pytest.mark.parametrize("name", ["a ", "\tb", "a\x01b", "a\ufffe"])
def test_names_that_xml_cannot_hold_are_refused(name: str) -> None:
    network = CausalBayesianNetwork({"X": [name]}, {}, {"X": [1]})
    with pytest.raises(InvalidModelError, match="cannot be written as XMLBIF"):
        xmlbif_text(network)


def test_pgmpy_reads_ours_and_we_read_pgmpys(tmp_path: Path) -> None:
    readwrite = pgmpy_part("readwrite")
    network = read_bif(shipped("asia"))
    model = readwrite.XMLBIFReader(write_xmlbif(network, tmp_path / "ours.xml")).get_model()
    assert_same(CausalBayesianNetwork.from_pgmpy(model), network)
    readwrite.XMLBIFWriter(network.to_pgmpy()).write(tmp_path / "theirs.xml")
    theirs = read_xmlbif(tmp_path / "theirs.xml")
    for x in network.variables:  # pgmpy sorts variables by name
        assert theirs.parents(x) == network.parents(x)
        np.testing.assert_array_equal(theirs.cpd(x), network.cpd(x))


# --- Errors ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("</NETWORK></BIF>", "", 22, "not well-formed XML (no element found"),
        ("</NETWORK>", "</NETWERK>", 21, "not well-formed XML (mismatched tag"),
        ("<!ELEMENT NAME (#PCDATA)>", '<!ENTITY a "b">', 7, "declares the entity 'a'"),
        ("<!ELEMENT NAME (#PCDATA)>", '<!ENTITY % a SYSTEM "b">', 7, "declares the entity 'a'"),
        ("<NETWORK>", "<NETWORK/><NETWORK>", 9, "BIF has 2 elements NETWORK, expected exactly one"),
        ("bowel</NAME>", "</NAME>", 16, "NAME is empty, expected a name"),
        ("<NAME>bowel</NAME>", "", 16, "VARIABLE has 0 elements NAME, expected exactly one"),
        ("bowel</NAME>", "out</NAME>", 16, "'out' is declared a second time (first in line 14)"),
        ('"decision"', '"utility"', 16, "'bowel' is of TYPE 'utility', expected nature"),
        ("<OUTCOME>b &amp; c</OUTCOME>", "<OUTCOME>a&lt;b</OUTCOME>", 18, "the state 'a<b' twice"),
        ("<FOR>out</FOR>", "<FOR>outt</FOR>", 11, "did you mean 'out'?"),
        ("<GIVEN>bowel", "<GIVEN>bowl", 11, "did you mean 'bowel'?"),
        (
            "<DEFINITION><FOR>family</FOR><TABLE>0.15 0.85</TABLE></DEFINITION>",
            "",
            18,
            "family has no probabilities",
        ),
        ("<FOR>family", "<FOR>bowel", 20, "'bowel' has a second table"),
        ("<TABLE>1e-2 .99</TABLE>", "", 19, "DEFINITION has 0 elements TABLE"),
        ("0.99 0.01", "0.99", 12, "has 7 numbers, expected 8: 2 states for each of 4 values"),
        ("0.99 0.01", "0.99 0,01", 12, "the table of 'out' has '0,01', expected probabilities"),
        ("0.97 0.03", "0.97 0.3", 12, "'out' given bowel = true, family = b & c sums to 1.27"),
        ("0.97 0.03", "1.97 -0.97", 12, "has the negative probability -0.97"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, line: int, message: str) -> None:
    assert DOG.count(old) == 1
    with pytest.raises(InvalidFileError) as caught:
        parse_xmlbif(DOG.replace(old, new), source="m.xml")
    assert str(caught.value).startswith(f"m.xml, line {line}: "), str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: not well-formed XML (no element found"),
        ("network {}", "line 1: not well-formed XML (syntax error at column 0)"),
        ("<html/>", "line 1: expected the element BIF, got html"),
    ],
)
def test_another_document_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=re.escape(message)):
        parse_xmlbif(text)


def test_a_document_of_too_many_elements_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_MAX_ELEMENTS", 10)
    with pytest.raises(InvalidFileError, match="more than 10 elements"):
        parse_xmlbif(DOG)


def test_nothing_is_fetched() -> None:
    # A document type may name a file; it is not opened.
    text = re.sub(r"<!DOCTYPE.*?\]>", '<!DOCTYPE BIF SYSTEM "none.dtd">', DOG, flags=re.DOTALL)
    assert_same(parse_xmlbif(text), parse_xmlbif(DOG))
