"""Files of models, utilities and tables of outcomes, and interventions as text.

    model    .bif or .xmlbif (also .xml), optionally gzipped; every variable is a chance node, since
             decisions are part of the query, not of the file
    utility  .json: a list of factors that are added, each {"variables": ["S", "M"], "values":
             [[1, 0], [0, 1]]} with nested lists in the order of the model's states

Errors name the file and the place in it.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError, InvalidTrajectoryError
from goalmeter._names import listed, unknown_name
from goalmeter._types import IntArray
from goalmeter.causal.bif import read_bif
from goalmeter.causal.diagram import Utility, utility_of
from goalmeter.causal.formats import NetworkParts, read_text, read_xmlbif
from goalmeter.causal.graph import Value
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.tabular.arrays import naming

EXAMPLE = "asia"
_SHAPE = '{"variables": [names], "values": nested lists of numbers}'
# Readers by file extension, which may be followed by .gz.
MODEL_FORMATS: dict[str, Callable[[str | Path], NetworkParts]] = {
    ".bif": read_bif,
    ".xmlbif": read_xmlbif,
    ".xml": read_xmlbif,
}


def load_model(path: str | Path) -> CausalBayesianNetwork:
    """Read a network in the format of the file extension; "asia" is included in the package."""
    if str(path) == EXAMPLE and not Path(path).exists():
        path = Path(__file__).with_name(f"{EXAMPLE}.bif")
    name = Path(path).name.lower().removesuffix(".gz")
    for ending, read in MODEL_FORMATS.items():
        if name.endswith(ending):
            return CausalBayesianNetwork.of(read(path))
    *endings, last = MODEL_FORMATS
    raise InvalidFileError(
        f"{path}: unknown file extension, expected {', '.join(endings)} or {last}, optionally with "
        f".gz; rename the file, or convert it with pgmpy or bnlearn"
    )


def load_utility(path: str | Path, network: CausalBayesianNetwork) -> Utility:
    """Read a utility file with any extension, and validate it for a model."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Refuse an object with duplicate names, which Python's reader accepts."""
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise InvalidFileError(
                f"{path}: an object has the names {listed(names)}, expected each one once"
            )
        return dict(pairs)

    try:
        factors = json.loads(read_text(path), object_pairs_hook=once)
    except InvalidFileError:
        raise
    except (ValueError, RecursionError) as cause:
        place = f" in line {cause.lineno}" if isinstance(cause, json.JSONDecodeError) else ""
        raise InvalidFileError(
            f"{path}: cannot be read as JSON{place} ({cause}), expected a list of factors, each "
            f"{_SHAPE}"
        ) from cause
    if not isinstance(factors, list) or not factors:
        raise InvalidFileError(f"{path}: expected a list of one or more factors, each {_SHAPE}")
    parts: list[Any] = []
    for number, factor in enumerate(factors, start=1):
        with naming(f"{path}, factor {number}"):
            if not isinstance(factor, dict) or not factor.get("variables"):
                raise InvalidFileError(f"expected {_SHAPE}")
            parts += utility_of(network, [factor]).factors
    return Utility(tuple(parts))


def parse_do(texts: Iterable[str], network: CausalBayesianNetwork) -> dict[str, Value]:
    """Parse an intervention {variable: state} from texts such as "X=x"."""
    out: dict[str, Value] = {}
    for text in texts:
        places = [i for i, c in enumerate(text) if c == "="]
        if not places:
            raise InvalidParameterError(
                f"{text!r} has no '=', expected VARIABLE=STATE, such as "
                f"{network.variables[0]}=STATE"
            )
        # A name or a state may contain "="; the text is split after the name of a variable.
        pairs = [(text[:i].strip(), text[i + 1 :].strip()) for i in places]
        x, state = next((pair for pair in pairs if pair[0] in network.variables), pairs[0])
        network.check_names([x])
        if x in out:
            raise InvalidParameterError(f"{x!r} is set twice, expected each variable once")
        out[x] = network.domain(x)[network.index(x, state)]
    return out


# --- Tables of outcomes ---------------------------------------------------------------------------
def table_columns(
    network: CausalBayesianNetwork, names: Sequence[str], data: Any
) -> dict[str, IntArray]:
    """Return the states of some variables in every row of a table, as indices, [N] each."""
    if isinstance(data, (str, Path)):
        data = _read_csv(data)
    head = list(data) if isinstance(data, Mapping) else list(getattr(data, "columns", []))
    if not head:
        raise InvalidTrajectoryError(
            f"the table is {type(data).__name__}, expected a pandas or polars frame, "
            f"{{column: values}}, or the path of a CSV file"
        )
    columns: dict[str, IntArray] = {}
    for x in dict.fromkeys(names):
        if head.count(x) > 1:
            raise InvalidTrajectoryError(
                f"the table has {head.count(x)} columns named {x!r}, expected each name once"
            )
        if x not in head:
            raise unknown_name(x, head, "the table's column", InvalidTrajectoryError)
        columns[x] = _indices(network, x, list(data[x]))
    lengths = {len(column) for column in columns.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidTrajectoryError(
            f"the columns of the table have {sorted(lengths)} rows, expected as many in each, "
            f"and at least one"
        )
    return columns


def _indices(network: CausalBayesianNetwork, x: str, values: Sequence[Any]) -> IntArray:
    known: dict[Any, int] = {}
    # A column has many rows and few states: each is looked up once.
    for row, value in enumerate(values):
        try:
            if value not in known:
                known[value] = network.index(x, value)
        except (InvalidParameterError, TypeError) as error:
            raise InvalidTrajectoryError(f"row {row} of the table: {error}") from None
    return np.array([known[value] for value in values], dtype=np.int64)


def _read_csv(path: str | Path) -> dict[str, list[str]]:
    """Return a CSV file with a head line, as {column: values}."""
    try:
        # Spreadsheets put a byte order mark in front.
        with Path(path).open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader if row]
    except (OSError, UnicodeDecodeError, csv.Error) as cause:
        raise InvalidFileError(f"{path} cannot be read as CSV: {cause}") from cause
    (_, head), *rows = lines or [(0, [])]
    if len(set(head)) < len(head):
        raise InvalidFileError(f"{path} has two columns of one name, expected each name once")
    for number, line in rows:
        if len(line) != len(head):
            raise InvalidFileError(
                f"{path}: line {number} has {len(line)} values, expected {len(head)}, one for each "
                f"column"
            )
    return {name: [line[i] for _, line in rows] for i, name in enumerate(head)}
