"""Networks as XMLBIF 0.3, which pgmpy, Weka and JavaBayes read and write.

    <BIF VERSION="0.3"><NETWORK><NAME>N</NAME>
      <VARIABLE TYPE="nature"><NAME>B</NAME><OUTCOME>yes</OUTCOME><OUTCOME>no</OUTCOME></VARIABLE>
      <DEFINITION><FOR>B</FOR><GIVEN>A</GIVEN><TABLE>0.9 0.1 0.5 0.5</TABLE></DEFINITION>
    </NETWORK></BIF>

In a table the variable's own states change fastest, then the parents, the last one named first.
White space around names is dropped and properties are read over. A variable of TYPE decision is
read like any other: its table is its policy, and which variables are decisions is the question,
not part of the file. Utility nodes are refused. So are entity declarations, with which a short
file can unfold into gigabytes; the usual declaration of elements is fine.

Rows that miss 1 by rounding are divided by their sum (`model_files`).

Source: Cozman, The Interchange Format for Bayesian Networks, XMLBIF 0.3 (1998).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING
from xml.parsers import expat

import numpy as np

from goalmeter._errors import InvalidModelError
from goalmeter.causal.model_files import Draft, NetworkParts, numbers, read_text, write_text

if TYPE_CHECKING:
    from goalmeter.causal.network import CausalBayesianNetwork

# The largest network that pgmpy ships has some twenty thousand.
_MAX_ELEMENTS = 2**20
# Characters that no XML 1.0 document may hold.
_NOT_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def read_xmlbif(path: str | Path) -> NetworkParts:
    """What an XMLBIF file, gzipped or not, says of a network."""
    return parse_xmlbif(read_text(path), source=path)


def parse_xmlbif(text: str, *, source: object = "text") -> NetworkParts:
    """What a text in XMLBIF says of a network, as `read_xmlbif`; messages name its source."""
    draft = Draft(source)
    root = _parse(text, draft)
    if root.tag != "BIF":
        raise draft.error(root.line, f"expected the element BIF, got {root.tag}")
    network = root.only("NETWORK", draft)
    for variable in network.all("VARIABLE"):
        _declare(variable, draft)
    for definition in network.all("DEFINITION"):
        _define(definition, draft)
    names = network.all("NAME")
    name = names[0].text if names else ""
    return draft.parts(name)


def write_xmlbif(network: CausalBayesianNetwork, path: str | Path) -> Path:
    """Write a network as an XMLBIF file, gzipped if the name ends in .gz; returns its path.

    Numbers and booleans among the states become text.
    """
    return write_text(path, xmlbif_text(network))


def xmlbif_text(network: CausalBayesianNetwork) -> str:
    """A network as text in XMLBIF; raises as `write_xmlbif`."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', '<BIF VERSION="0.3">', "<NETWORK>"]
    lines.append(_element("NAME", network.name or "UNTITLED"))
    for x in network.variables:
        lines += ['<VARIABLE TYPE="nature">', f"  {_element('NAME', x)}"]
        lines += [f"  {_element('OUTCOME', str(value))}" for value in network.domain(x)]
        lines.append("</VARIABLE>")
    for x in network.variables:
        lines += ["<DEFINITION>", f"  {_element('FOR', x)}"]
        lines += [f"  {_element('GIVEN', parent)}" for parent in network.parents(x)]
        rows = network.cpd(x).reshape(-1, network.size(x)).tolist()
        table = "\n    ".join(" ".join(map(repr, row)) for row in rows)
        lines += [f"  <TABLE>\n    {table}\n  </TABLE>", "</DEFINITION>"]
    return "\n".join([*lines, "</NETWORK>", "</BIF>"]) + "\n"


def _element(tag: str, name: str) -> str:
    if name != name.strip() or not name or _NOT_XML.search(name):
        raise InvalidModelError(
            f"the name {name!r} cannot be written as XMLBIF: it is empty, begins or ends with "
            f"white space, or has a control character; rename it, or write BIF"
        )
    # A parser makes every end of a line a line feed, unless it is written as a number.
    return f"<{tag}>{escape(name, quote=False)}</{tag}>".replace("\r", "&#13;")


@dataclass
class _Element:
    tag: str
    attributes: dict[str, str]
    line: int
    children: list[_Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces).strip()

    def all(self, tag: str) -> list[_Element]:
        return [child for child in self.children if child.tag == tag]

    def only(self, tag: str, draft: Draft) -> _Element:
        children = self.all(tag)
        if len(children) != 1:
            raise draft.error(
                self.line, f"{self.tag} has {len(children)} elements {tag}, expected exactly one"
            )
        return children[0]

    def name(self, tag: str, draft: Draft) -> str:
        child = self.only(tag, draft)
        if not child.text:
            raise draft.error(child.line, f"{tag} is empty, expected a name")
        return child.text


def _parse(text: str, draft: Draft) -> _Element:
    parser = expat.ParserCreate("utf-8")
    # Text comes in one piece; without it a long table arrives in thousands of parts.
    parser.buffer_text = True
    document = _Element("", {}, 1)
    open_elements = [document]
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > _MAX_ELEMENTS:
            raise draft.error(
                parser.CurrentLineNumber,
                f"the file has more than {_MAX_ELEMENTS} elements, the most that are read",
            )
        element = _Element(tag, attributes, parser.CurrentLineNumber)
        open_elements[-1].children.append(element)
        open_elements.append(element)

    def end(tag: str) -> None:
        open_elements.pop()

    def characters(piece: str) -> None:
        open_elements[-1].pieces.append(piece)

    def entity(name: str, *_: object) -> None:
        raise draft.error(
            parser.CurrentLineNumber,
            f"declares the entity {name!r}, expected none: such a file can unfold without limit, "
            f"so it is not read; write the text of the entity in its place",
        )

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = characters, entity
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as cause:
        fault = expat.ErrorString(cause.code)
        raise draft.error(
            cause.lineno,
            f"not well-formed XML ({fault} at column {cause.offset}), expected a document "
            f"<BIF> ... </BIF>; check that the file is complete",
        ) from cause
    return document.children[0]


def _declare(variable: _Element, draft: Draft) -> None:
    x = variable.name("NAME", draft)
    kind = variable.attributes.get("TYPE", "nature")
    if kind not in ("nature", "decision"):
        raise draft.error(
            variable.line,
            f"{x!r} is of TYPE {kind!r}, expected nature (or decision, with a table for its "
            f"policy); hand a utility over separately, and leave its node out of the file",
        )
    draft.declare(x, [outcome.text for outcome in variable.all("OUTCOME")], variable.line)


def _define(definition: _Element, draft: Draft) -> None:
    x = definition.name("FOR", draft)
    sizes = draft.shape(x, [parent.text for parent in definition.all("GIVEN")], definition.line)
    table = definition.only("TABLE", draft)
    try:
        values = numbers(table.text.split())
    except ValueError as cause:
        raise draft.error(
            table.line, f"the table of {x!r} has {cause.args[0][:40]!r}, expected probabilities"
        ) from None
    expected = int(np.prod(sizes))
    if len(values) != expected:
        raise draft.error(
            table.line,
            f"the table of {x!r} has {len(values)} numbers, expected {expected}: {sizes[-1]} "
            f"states for each of {expected // sizes[-1]} values of its parents",
        )
    rows = np.array(values).reshape(-1, sizes[-1])
    draft.define(x, rows, lambda row: table.line)
