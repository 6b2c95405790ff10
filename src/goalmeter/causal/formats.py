"""Network files: shared limits and tables, XMLBIF 0.3, and pgmpy model objects."""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._errors import GoalmeterError, InvalidFileError, InvalidModelError, require
from goalmeter._files import write_bytes
from goalmeter._names import listed
from goalmeter._types import AnyArray, FloatArray
from goalmeter.causal.graph import Value, check_rows
from goalmeter.tabular.arrays import ROUNDING

if TYPE_CHECKING:
    from goalmeter.causal.network import CausalBayesianNetwork


# --- Model files ----------------------------------------------------------------------------------
# Published networks have probabilities with few decimals. A row whose sum differs from 1 by at most
# `ROW_TOLERANCE` is normalised; a larger difference is an error.

MAX_BYTES = 2**26  # maximum unpacked size of a file; the largest in pgmpy has 5.5 million bytes
ROW_TOLERANCE = 1e-3
NO_NAMES = frozenset({"", "unknown", "UNTITLED"})  # names of unnamed networks in bnlearn and pgmpy

_GZIP = b"\x1f\x8b"


def read_text(path: str | Path) -> str:
    """Read a UTF-8 text file; gzip archives are unpacked, whatever their name."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        # Archives are recognised by their first bytes.
        if data.startswith(_GZIP) and len(data) <= MAX_BYTES:
            with gzip.open(path) as unpacked:
                data = unpacked.read(MAX_BYTES + 1)
    except FileNotFoundError as cause:
        raise InvalidFileError(f"{path}: file not found; check the path") from cause
    except (gzip.BadGzipFile, zlib.error, EOFError) as cause:
        raise InvalidFileError(
            f"{path}: corrupt gzip archive ({cause}), expected one that can be unpacked; download "
            f"or pack the file again"
        ) from cause
    except OSError as cause:
        raise InvalidFileError(f"{path}: cannot be read: {cause.strerror or cause}") from cause
    if len(data) > MAX_BYTES:
        raise InvalidFileError(
            f"{path}: the text exceeds the limit of {MAX_BYTES / 2**20:.0f} MiB; remove variables "
            f"that are irrelevant to the query"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise InvalidFileError(
            f"{path}, line {1 + data.count(10, 0, cause.start)}: not UTF-8 text (byte "
            f"0x{data[cause.start]:02x}); save text files in UTF-8"
        ) from cause
    if "\0" in text:
        raise InvalidFileError(
            f"{path}: not a text file (it contains zero bytes), expected a network as text"
        )
    return text


def write_text(path: str | Path, text: str) -> Path:
    """Write a UTF-8 text file atomically, gzipped if its name ends in .gz."""
    data = text.encode("utf-8")
    if Path(path).suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # no timestamp, so that bytes are reproducible
    return write_bytes(path, data)


def within_rounding(rows: FloatArray, complain: Callable[[int, str], GoalmeterError]) -> FloatArray:
    """Normalise rows whose sums are within `ROW_TOLERANCE` of 1; refuse others."""
    check_rows(rows, ROW_TOLERANCE, complain)
    sums = rows.sum(axis=1)
    # Sums within rounding of 1 are unchanged, so that written files are read bitwise equal.
    return np.asarray(rows / np.where(np.abs(sums - 1.0) > ROUNDING, sums, 1.0)[:, None])


def row_text(x: str, parents: Mapping[str, Sequence[object]], row: int) -> str:
    """Return a description of a table row: 'X' given A = a, B = b; `parents` have their states."""
    places = np.unravel_index(row, [len(states) for states in parents.values()]) if parents else ()
    pairs = [f"{p} = {parents[p][int(i)]}" for p, i in zip(parents, places, strict=True)]
    return f"{x!r} given {', '.join(pairs)}" if pairs else repr(x)


class NetworkParts(NamedTuple):
    """Parts of a network, validated by `CausalBayesianNetwork.of`."""

    domains: Mapping[str, Sequence[Value]]  # states of each variable
    parents: Mapping[str, Sequence[str]]  # direct causes of each variable
    cpds: Mapping[str, AnyArray]  # CPD of each variable, [*sizes of parents, own size]
    name: str = ""  # name of the network; may be empty
    source: object = None  # name of the file in messages; None if there is none


# --- XMLBIF ---------------------------------------------------------------------------------------
# Files are read by pgmpy but written here, because pgmpy's writer sorts variables by name and
# replaces characters in the names of states.
#
# Source: Cozman, The Interchange Format for Bayesian Networks, XMLBIF 0.3 (1998).

# Characters that XML 1.0 documents must not contain.
_NOT_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def read_xmlbif(path: str | Path) -> NetworkParts:
    """Read an XMLBIF file, gzipped or not, with pgmpy."""
    text = read_text(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of packages that pgmpy imports
        readwrite = require("pgmpy.readwrite", extra="pgmpy", feature="Reading XMLBIF")
    if "<!ENTITY" in text:
        raise InvalidFileError(
            f"{path}: declares an entity, expected none, since entities can expand without limit; "
            f"replace the entity by its text"
        )
    # Remove the declared encoding, since the text is decoded, and white space around names.
    text = re.sub(r"^\s*<\?xml.*?\?>", "", text, flags=re.DOTALL)
    text = re.sub(r"<(NAME|OUTCOME|FOR|GIVEN)>\s*([^<]*?)\s*</\1>", r"<\1>\2</\1>", text)
    text = re.sub(r"<PROPERTY\b.*?(</PROPERTY>|/>)", "", text, flags=re.DOTALL)
    try:
        reader = readwrite.XMLBIFReader(string=text)
        if len(set(reader.variables)) < len(reader.variables):
            raise ValueError("a variable is declared twice")
        parts = read_pgmpy(reader.get_model())
    except Exception as cause:
        raise InvalidFileError(
            f"{path}: cannot be read as XMLBIF ({type(cause).__name__}: {cause}); check that the "
            f"file is complete, or convert it to BIF"
        ) from cause
    return parts._replace(source=path)


def write_xmlbif(network: CausalBayesianNetwork, path: str | Path) -> Path:
    """Write an XMLBIF file, gzipped if the name ends in .gz; states become text."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>', '<BIF VERSION="0.3">', "<NETWORK>"]
    lines.append(_element("NAME", network.name or "UNTITLED"))
    for x in network.variables:
        lines += ['<VARIABLE TYPE="nature">', f"  {_element('NAME', x)}"]
        lines += [f"  {_element('OUTCOME', str(value))}" for value in network.domain(x)]
        lines.append("</VARIABLE>")
    for x in network.variables:
        lines += ["<DEFINITION>", f"  {_element('FOR', x)}"]
        lines += [f"  {_element('GIVEN', parent)}" for parent in network.parents(x)]
        # The variable's own states change fastest, then those of its last parent, and so on.
        rows = network.cpd(x).reshape(-1, network.size(x)).tolist()
        table = "\n    ".join(" ".join(map(repr, row)) for row in rows)
        lines += [f"  <TABLE>\n    {table}\n  </TABLE>", "</DEFINITION>"]
    return write_text(path, "\n".join([*lines, "</NETWORK>", "</BIF>"]) + "\n")


def _element(tag: str, name: str) -> str:
    if name != name.strip() or not name or _NOT_XML.search(name):
        raise InvalidModelError(
            f"the name {name!r} cannot be written as XMLBIF: it is empty, begins or ends with "
            f"white space, or has a control character; rename it, or write BIF"
        )
    # Parsers convert all line ends to line feeds, except character references.
    return f"<{tag}>{escape(name, quote=False)}</{tag}>".replace("\r", "&#13;")


# --- Pgmpy models ---------------------------------------------------------------------------------
# Models are read through their attributes, without importing pgmpy; creating one imports it. States
# and their types are preserved; columns are normalised as in files.


def read_pgmpy(model: Any) -> NetworkParts:
    """Return the parts of a pgmpy `DiscreteBayesianNetwork` with a `TabularCPD` per variable."""
    # Variables are in pgmpy's order; other names than strings (pgmpy allows numbers) become text.
    try:
        cpds = {node: model.get_cpds(node) for node in model.nodes()}
        # States of each variable by CPD; models fitted to data have NumPy scalars.
        states = {
            node: {
                v: [s.item() if isinstance(s, np.generic) else s for s in cpd.state_names[v]]
                for v in cpd.variables
            }
            for node, cpd in cpds.items()
        }
        tables = {node: np.asarray(cpd.values, dtype=np.float64) for node, cpd in cpds.items()}
    except AttributeError as cause:
        raise InvalidModelError(
            f"the model is a {type(model).__name__}, expected a pgmpy DiscreteBayesianNetwork with "
            f"a TabularCPD for each variable ({cause}); add them with model.add_cpds, or fit it"
        ) from cause
    names = {node: str(node) for node in cpds}
    if len(set(names.values())) < len(names):
        raise InvalidModelError("two variables have the same name as text, expected unique names")
    parents = {node: list(cpd.variables)[1:] for node, cpd in cpds.items()}
    arrays: dict[str, FloatArray] = {}
    for node, values in tables.items():
        for axis, (v, found) in enumerate(states[node].items()):
            own = states[v][v]
            if len(found) != len(own) or set(found) != set(own):
                raise InvalidModelError(
                    f"the CPD of {names[node]!r} names the states {listed(found)} of {str(v)!r}, "
                    f"expected those of its own CPD, {listed(own)}; give state_names to both"
                )
            values = values.take([found.index(state) for state in own], axis=axis)
        # The axis of the variable itself is first in pgmpy.
        table = np.moveaxis(values, 0, -1)
        given = {str(v): states[v][v] for v in parents[node]}

        def complain(row: int, problem: str, x: str = names[node], given: Any = given) -> Any:
            return InvalidModelError(f"the CPD of {row_text(x, given, row)} {problem}")

        rows = within_rounding(table.reshape(-1, table.shape[-1]), complain)
        arrays[names[node]] = rows.reshape(table.shape)
    name = str(getattr(model, "name", None) or "")
    return NetworkParts(
        {names[node]: states[node][node] for node in cpds},
        {names[node]: [names[parent] for parent in parents[node]] for node in cpds},
        arrays,
        name="" if name in NO_NAMES else name,
    )


def to_pgmpy(network: CausalBayesianNetwork) -> Any:
    """Return the same network as a pgmpy `DiscreteBayesianNetwork` with named states."""
    feature = "Creating a pgmpy model"
    models = require("pgmpy.models", extra="pgmpy", feature=feature)
    factors = require("pgmpy.factors.discrete", extra="pgmpy", feature=feature)
    model = models.DiscreteBayesianNetwork()
    model.name = network.name
    model.add_nodes_from(network.variables)
    model.add_edges_from(network.edges())
    for x in network.variables:
        parents = network.parents(x)
        model.add_cpds(
            factors.TabularCPD(
                x,
                network.size(x),
                # In pgmpy, rows are states of the variable and columns values of the parents.
                network.cpd(x).reshape(-1, network.size(x)).T,
                evidence=list(parents) or None,
                evidence_card=[network.size(parent) for parent in parents] or None,
                state_names={v: list(network.domain(v)) for v in (x, *parents)},
            )
        )
    return model
