"""Network files: common limits and tables, XMLBIF 0.3, and pgmpy model objects."""

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
# Published networks give probabilities to a few decimals. A row that misses 1 by at most
# `ROW_TOLERANCE` is divided by its sum; a larger miss is an error of the file.

MAX_BYTES = 2**26  # of a file, unpacked; the largest network that pgmpy ships has 5.5 million
ROW_TOLERANCE = 1e-3
NO_NAMES = frozenset({"", "unknown", "UNTITLED"})  # of bnlearn and pgmpy for a network without one

_GZIP = b"\x1f\x8b"


def read_text(path: str | Path) -> str:
    """Return the text of a file in UTF-8, unpacked if it is a gzip archive (whatever its name)."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        # Recognised by its first bytes; pgmpy ships its networks packed.
        if data.startswith(_GZIP) and len(data) <= MAX_BYTES:
            with gzip.open(path) as unpacked:
                data = unpacked.read(MAX_BYTES + 1)
    except FileNotFoundError as cause:
        raise InvalidFileError(f"{path}: there is no such file; check the path") from cause
    except (gzip.BadGzipFile, zlib.error, EOFError) as cause:
        raise InvalidFileError(
            f"{path}: a damaged gzip archive ({cause}), expected one that can be unpacked; "
            f"fetch or pack the file again"
        ) from cause
    except OSError as cause:
        raise InvalidFileError(f"{path}: cannot be read: {cause.strerror or cause}") from cause
    if len(data) > MAX_BYTES:
        raise InvalidFileError(
            f"{path}: the text is longer than {MAX_BYTES / 2**20:.0f} MiB, the most that is read; "
            f"leave out variables that the question does not touch"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise InvalidFileError(
            f"{path}, line {1 + data.count(10, 0, cause.start)}: not UTF-8 text (byte "
            f"0x{data[cause.start]:02x}); if it is text, save it in UTF-8"
        ) from cause
    if "\0" in text:
        raise InvalidFileError(
            f"{path}: not a text file (it has zero bytes), expected a network in text form"
        )
    return text


def write_text(path: str | Path, text: str) -> Path:
    """Write a text file in UTF-8, packed if its name ends in .gz, in a single step."""
    data = text.encode("utf-8")
    if Path(path).suffix == ".gz":
        data = gzip.compress(data, mtime=0)  # no time stamp: the same bytes for the same network
    return write_bytes(path, data)


def within_rounding(rows: FloatArray, complain: Callable[[int, str], GoalmeterError]) -> FloatArray:
    """Return rows as distributions: those within `ROW_TOLERANCE` of 1 are divided by their sum."""
    check_rows(rows, ROW_TOLERANCE, complain)
    sums = rows.sum(axis=1)
    # Sums that differ from 1 by rounding alone are left, so that files read back bit for bit.
    return np.asarray(rows / np.where(np.abs(sums - 1.0) > ROUNDING, sums, 1.0)[:, None])


def row_text(x: str, parents: Mapping[str, Sequence[object]], row: int) -> str:
    """Return a row of a table in words: 'X' given A = a, B = b; parents come with their states."""
    places = np.unravel_index(row, [len(states) for states in parents.values()]) if parents else ()
    pairs = [f"{p} = {parents[p][int(i)]}" for p, i in zip(parents, places, strict=True)]
    return f"{x!r} given {', '.join(pairs)}" if pairs else repr(x)


class NetworkParts(NamedTuple):
    """What a network is made from; `CausalBayesianNetwork.of` makes and checks it."""

    domains: Mapping[str, Sequence[Value]]  # the states of each variable
    parents: Mapping[str, Sequence[str]]  # the direct causes of each
    cpds: Mapping[str, AnyArray]  # of each an array [*sizes of parents, own size]
    name: str = ""  # of the network; may be empty
    source: object = None  # what messages call the file; None if there is none


# --- XMLBIF ---------------------------------------------------------------------------------------
# Files are read by pgmpy. They are written here, because pgmpy's writer sorts the variables by name
# and replaces characters in the names of states.
#
# Source: Cozman, The Interchange Format for Bayesian Networks, XMLBIF 0.3 (1998).

# Characters that no XML 1.0 document may hold.
_NOT_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def read_xmlbif(path: str | Path) -> NetworkParts:
    """Read an XMLBIF file, gzipped or not, with pgmpy."""
    text = read_text(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the packages that pgmpy imports
        readwrite = require("pgmpy.readwrite", extra="pgmpy", feature="Reading XMLBIF")
    if "<!ENTITY" in text:
        raise InvalidFileError(
            f"{path}: declares an entity, expected none: such a file can expand without limit; "
            f"write the text of the entity in its place"
        )
    # The text is UTF-8 by now, whatever it declares, and pgmpy keeps white space around names.
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
        # The variable's own states change fastest, then the parents, the last one first.
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
    # A parser converts every line end to a line feed, unless it is written as a number.
    return f"<{tag}>{escape(name, quote=False)}</{tag}>".replace("\r", "&#13;")


# --- Pgmpy models ---------------------------------------------------------------------------------
# A model is read by what it offers, so reading one does not import pgmpy; making one does. States
# and their types stay as they are; the rule of files holds for columns that miss 1.


def read_pgmpy(model: Any) -> NetworkParts:
    """Return what a pgmpy `DiscreteBayesianNetwork` with a `TabularCPD` for each variable says."""
    # Variables keep pgmpy's order; names that are no text (pgmpy allows numbers) become text.
    try:
        cpds = {node: model.get_cpds(node) for node in model.nodes()}
        # The states of each variable as each CPD lists them; NumPy's scalars come from data.
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
        raise InvalidModelError("two variables have names that read the same, expected one each")
    parents = {node: list(cpd.variables)[1:] for node, cpd in cpds.items()}
    arrays: dict[str, FloatArray] = {}
    for node, values in tables.items():
        for axis, (v, named) in enumerate(states[node].items()):
            wanted = states[v][v]
            if len(named) != len(wanted) or set(named) != set(wanted):
                raise InvalidModelError(
                    f"the CPD of {names[node]!r} names the states {listed(named)} of {str(v)!r}, "
                    f"expected those of its own CPD, {listed(wanted)}; give state_names to both"
                )
            values = values.take([named.index(state) for state in wanted], axis=axis)
        # Own states come first in pgmpy.
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
    """Return the same network as a pgmpy `DiscreteBayesianNetwork`, states under their names."""
    feature = "Making a pgmpy model"
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
                # pgmpy puts own states in rows and values of the parents in columns.
                network.cpd(x).reshape(-1, network.size(x)).T,
                evidence=list(parents) or None,
                evidence_card=[network.size(parent) for parent in parents] or None,
                state_names={v: list(network.domain(v)) for v in (x, *parents)},
            )
        )
    return model
