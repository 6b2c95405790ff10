"""XMLBIF: what is written comes back, pgmpy reads it too, and damaged files are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from causal.written_networks import assert_same, networks, pgmpy_part, shipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from goalmeter._errors import InvalidFileError
from goalmeter.causal import CausalBayesianNetwork, formats

read_bif, read_xmlbif = CausalBayesianNetwork.from_bif, CausalBayesianNetwork.from_xmlbif
# As XMLBIF 0.3 has it: a document type with its elements, comments, and layout.
DOG = """<?xml version="1.0" encoding="US-ASCII"?>
<!-- Bayesian network in XMLBIF v0.3 -->
<!DOCTYPE BIF [
  <!ELEMENT BIF ( NETWORK )*>
  <!ATTLIST BIF VERSION CDATA #REQUIRED>
  <!ELEMENT NAME (#PCDATA)>
]>
<BIF VERSION="0.3"><NETWORK>
<NAME>Dog-Problem</NAME>
<DEFINITION><FOR>out</FOR><GIVEN>bowel</GIVEN><GIVEN>family</GIVEN>
  <TABLE>0.99 0.01 <!-- both --> 0.97 0.03
         0.9 0.1 0.3 0.7 </TABLE></DEFINITION>
<VARIABLE TYPE="nature"><NAME> out </NAME><OUTCOME>true</OUTCOME><OUTCOME>false</OUTCOME>
  <PROPERTY>position (155, 165)</PROPERTY></VARIABLE>
<VARIABLE TYPE="decision"><NAME>bowel</NAME>
  <OUTCOME>true</OUTCOME><OUTCOME>false</OUTCOME></VARIABLE>
<VARIABLE><NAME>family</NAME><OUTCOME>a&lt;b</OUTCOME><OUTCOME>b &amp; c</OUTCOME></VARIABLE>
<DEFINITION><FOR>bowel</FOR><TABLE>1e-2 .99</TABLE></DEFINITION>
<DEFINITION><FOR>family</FOR><TABLE>0.15 0.85</TABLE></DEFINITION>
</NETWORK></BIF>
"""


@pytest.fixture(autouse=True)
def _pgmpy() -> None:
    pgmpy_part("readwrite")


def test_a_file_by_hand(tmp_path: Path) -> None:
    (tmp_path / "dog.xml").write_text(DOG)
    network = read_xmlbif(tmp_path / "dog.xml")
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


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(networks(names))
def test_what_is_written_comes_back(tmp_path: Path, network: CausalBayesianNetwork) -> None:
    if network.name not in formats.NO_NAMES:
        network.to_xmlbif(tmp_path / "m.xml")
        assert_same(read_xmlbif(tmp_path / "m.xml"), network)


def test_a_file_by_pgmpy_is_read(tmp_path: Path) -> None:
    network = read_bif(shipped("asia"))
    pgmpy_part("readwrite").XMLBIFWriter(network.to_pgmpy()).write(tmp_path / "theirs.xml")
    theirs = read_xmlbif(tmp_path / "theirs.xml")
    for x in network.variables:  # pgmpy sorts variables by name
        assert theirs.parents(x) == network.parents(x)
        np.testing.assert_array_equal(theirs.cpd(x), network.cpd(x))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("</NETWORK></BIF>", ""),
        ("<!ELEMENT NAME (#PCDATA)>", '<!ENTITY a "b">'),
        ("<NAME>bowel</NAME>", ""),
        ("bowel</NAME>", "out</NAME>"),
        ("<OUTCOME>b &amp; c</OUTCOME>", "<OUTCOME>a&lt;b</OUTCOME>"),
        ("<GIVEN>bowel", "<GIVEN>bowl"),
        ("<DEFINITION><FOR>family</FOR><TABLE>0.15 0.85</TABLE></DEFINITION>", ""),
        ("<TABLE>1e-2 .99</TABLE>", ""),
        ("0.99 0.01", "0.99"),
        ("0.97 0.03", "0.97 0.3"),
        ("0.97 0.03", "1.97 -0.97"),
        ("0.97 0.03", "nan 0.03"),
        (DOG, "<html/>"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, old: str, new: str) -> None:
    assert DOG.count(old) == 1
    (tmp_path / "m.xml").write_text(DOG.replace(old, new))
    with pytest.raises(InvalidFileError, match=r"m\.xml: "):
        read_xmlbif(tmp_path / "m.xml")
