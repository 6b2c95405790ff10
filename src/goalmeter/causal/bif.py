"""Read and write BIF, the interchange format of bnlearn and pgmpy (also gzipped, .bif.gz)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goalmeter._errors import InvalidFileError
from goalmeter._names import listed, unknown_name
from goalmeter._types import FloatArray, IntArray
from goalmeter.causal.formats import (
    NO_NAMES,
    NetworkParts,
    read_text,
    row_text,
    within_rounding,
    write_text,
)

if TYPE_CHECKING:
    from goalmeter.causal.network import CausalBayesianNetwork


MAX_ENTRIES = 2**25  # maximum entries of all tables of a file: a quarter of a gigabyte of doubles
MAX_AXES = 32  # maximum axes of arrays in NumPy 1, including that of the variable itself
_DIGITS = frozenset("0123456789+-.eE")

# --- Parser ---------------------------------------------------------------------------------------
# A // after a colon is not a comment; otherwise a URL in a property would hide its semicolon.
_TOKEN = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | /\*            # comments, and an unclosed one
      | "(?:[^"\\\n]|\\.)*" | "               # a quoted name, and an unclosed one
      | [;(){}\[\]|]
      | (?:[^\s,;(){}\[\]|"/] | (?<=:)/ | /(?![/*]))+""",
    re.VERBOSE | re.DOTALL,
)
PUNCTUATION = frozenset(";(){}[]|")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\0": "\\0"}
_ESCAPED = {"n": "\n", "0": "\0"}


def quoted(name: str) -> str:
    """Return a name as one token, in quotes only if necessary."""
    plain = _TOKEN.fullmatch(name)
    if plain and name not in PUNCTUATION and not name.startswith(('"', "//", "/*")):
        return name
    return '"' + "".join(_ESCAPES.get(c, c) for c in name) + '"'


class _Row(NamedTuple):
    """Statement of a probability block."""

    head: str  # "(", "table" or "default"
    states: list[str]  # states of the parents, if the head is "("
    values: list[float]
    start: int  # offset in the text


class _Block(NamedTuple):
    """Probability block of the file."""

    start: int  # offset in the text
    x: str
    parents: list[str]
    rows: list[_Row]


class Parser:
    """Parser of a text in one pass over its tokens; errors name the line."""

    def __init__(self, text: str, source: object) -> None:
        self.text, self.source = text, source  # the source is the file's name in messages
        self.start = 0  # offset of the last token in the text
        self._matches = _TOKEN.finditer(text)
        self._counted = 0, 1  # an offset and its line
        self._domains: dict[str, tuple[str, ...]] = {}
        self._starts: dict[str, int] = {}  # offsets of the declarations
        self._blocks: dict[str, _Block] = {}
        self._entries = 0  # entries of all tables so far

    def take(self) -> str:
        """Return the next token; "" at the end of the text."""
        for match in self._matches:
            token = match[0]
            if token[0] == "/" and token.startswith(("//", "/*")):
                if token == "/*":
                    self.start = match.start()
                    raise self.error("this comment is not closed, expected */ after it")
                continue
            self.start = match.start()
            return token
        self.start = len(self.text)
        return ""

    def line(self, start: int) -> int:
        """Return the line of an offset, from 1."""
        # Counted from the previous query: offsets increase, except in errors.
        place, line = self._counted if start >= self._counted[0] else (0, 1)
        self._counted = start, line + self.text.count("\n", place, start)
        return self._counted[1]

    def error(self, message: str, start: int | None = None) -> InvalidFileError:
        """Return an error at an offset, by default at the last token."""
        line = self.line(self.start if start is None else start)
        return InvalidFileError(f"{self.source}, line {line}: {message}")

    def expected(self, required: str, token: str, start: int | None = None) -> InvalidFileError:
        """Return the error for an unexpected token."""
        shown = f'"{token[:40]}"' if token else "the end of the file"
        return self.error(f"expected {required}, got {shown}", start)

    def punctuation(self, mark: str, where: str) -> None:
        """Take a required punctuation mark; `where` describes its place in the error."""
        token = self.take()
        if token != mark:
            raise self.expected(f'"{mark}" {where}', token)

    def name(self, token: str, role: str) -> str:
        """Return the name in a token; `role` describes it in the error."""
        if token == '"':
            raise self.error("this quote is not closed, expected another one in the same line")
        if not token or token in PUNCTUATION:
            raise self.expected(role, token)
        if token[0] != '"':
            return token
        return re.sub(r"\\([\\\"n0])", lambda m: _ESCAPED.get(m[1], m[1]), token[1:-1])

    def names(self, end: str, role: str) -> list[str]:
        """Return the names up to a closing mark."""
        names = []
        while (token := self.take()) != end:
            names.append(self.name(token, f'{role} or "{end}"'))
        return names

    # --- Blocks -----------------------------------------------------------------------------------
    def parts(self) -> NetworkParts:
        """Parse the text and return the parts of the network."""
        name = ""
        while token := self.take():
            match token:
                case "network":
                    name = self._network()
                case "variable":
                    self._variable()
                case "probability":
                    self._probability()
                case _:
                    raise self.expected("network, variable or probability", token)
        if not self._domains:
            raise InvalidFileError(
                f"{self.source}: declares no variable, expected at least one; check that the file "
                f"is complete and contains a Bayesian network"
            )
        parents = {x: block.parents for x, block in self._blocks.items()}
        cpds = {x: self._table(block) for x, block in self._blocks.items()}
        missing = [x for x in self._domains if x not in cpds]
        if missing:
            raise self.error(
                f"{listed(missing)} {'has' if len(missing) == 1 else 'have'} no probabilities, "
                f"expected a table for each variable",
                self._starts[missing[0]],
            )
        name = "" if name in NO_NAMES else name
        return NetworkParts(self._domains, parents, cpds, name, self.source)

    def _network(self) -> str:
        start = self.start
        name = " ".join(self.names("{", "the name of the network"))
        while (token := self.take()) != "}":
            if token != "property":
                raise self._in_block("the network block", 'a property or "}"', token, start)
            self._skip_property()
        return name

    def _skip_property(self) -> None:
        start = self.start
        while (token := self.take()) != ";":
            if not token:
                raise self.expected('";" after the property', "", start)

    def _in_block(self, block: str, required: str, token: str, start: int) -> InvalidFileError:
        opened = f" in {block} (opened in line {self.line(start)})"
        return self.expected(required + opened, token)

    def _variable(self) -> None:
        start = self.start
        x = self.name(self.take(), "the name of the variable")
        self.punctuation("{", f"after variable {x} (quote names with spaces)")
        states: list[str] | None = None
        while (token := self.take()) != "}":
            if token == "property":
                self._skip_property()
            elif token == "type" and states is None:
                states = self._states(x)
            else:
                required = 'a property or "}"' if states else "type discrete [ n ] { states };"
                raise self._in_block(f"the block of variable {x!r}", required, token, start)
        if states is None:
            raise self.error(f"variable {x!r} has no type, expected type discrete [ n ] {{ ... }};")
        if x in self._domains:
            raise self.error(
                f"the variable {x!r} is declared a second time (first in line "
                f"{self.line(self._starts[x])}), expected each variable once; rename or remove one",
                start,
            )
        if not states:
            raise self.error(f"the variable {x!r} has no states, expected at least one", start)
        self._domains[x], self._starts[x] = tuple(states), start

    def _states(self, x: str) -> list[str]:
        token = self.take()
        if token != "discrete":
            raise self.expected(f"the type discrete of variable {x!r}", token)
        self.punctuation("[", "and the number of states")
        count = self.take()
        if not count.isdecimal():
            raise self.expected(f"the number of states of variable {x!r}", count)
        self.punctuation("]", "after the number of states")
        self.punctuation("{", "and the states")
        states = self.names("}", f"a state of variable {x!r}")
        if str(len(states)) != (count.lstrip("0") or "0"):
            raise self.error(
                f"variable {x!r} has {len(states)} states ({', '.join(states[:8])}), expected "
                f"{count} as given in brackets; correct the number, or quote states with spaces"
            )
        self.punctuation(";", f"after the states of variable {x!r}")
        return states

    def _probability(self) -> None:
        start = self.start
        self.punctuation("(", "after probability")
        names = [self.name(self.take(), "the name of a variable")]
        token = self.take()
        if token != ")":
            # JavaBayes omits the mark between a variable and its parents.
            names += [] if token == "|" else [self.name(token, '"|" or ")"')]
            names += self.names(")", f"a parent of {names[0]!r}")
        block = _Block(start, names[0], names[1:], [])
        self.punctuation("{", f"and the probabilities of {block.x!r}")
        while (token := self.take()) != "}":
            if token == "property":
                self._skip_property()
            elif token in ("(", "table", "default"):
                self._row(block, token)
            else:
                rule = 'table, default, a row "(...)" or "}"'
                raise self._in_block(f"the block of probability {block.x!r}", rule, token, start)
        if block.x in self._blocks:
            raise self.error(f"{block.x!r} has a second table, expected one for each", start)
        self._blocks[block.x] = block

    def _row(self, block: _Block, head: str) -> None:
        start = self.start
        states = self.names(")", "a state") if head == "(" else []
        values: list[float] = []
        while (token := self.take()) != ";":
            if not token or token in PUNCTUATION:
                raise self.expected(f'a probability of {block.x!r} or ";"', token)
            try:
                # float() would also accept nan, infinity, 1_000 and digits of other scripts.
                values.append(float(token if _DIGITS.issuperset(token) else "no number"))
            except ValueError:
                raise self.expected(f"a probability of {block.x!r}", token) from None
        block.rows.append(_Row(head, states, values, start))

    # --- Tables -----------------------------------------------------------------------------------
    def _table(self, block: _Block) -> FloatArray:
        """Return the table of a block, [*sizes of parents, own size]."""
        for name in (block.x, *block.parents):
            if name not in self._domains:
                role = "variable" if name == block.x else f"parent of {block.x!r}:"
                raise self.error(str(unknown_name(name, list(self._domains), role)), block.start)
        sizes = [len(self._domains[name]) for name in (*block.parents, block.x)]
        # Sizes are summed before any allocation, since one line of text can declare any size.
        entries = prod(sizes)
        self._entries += entries
        if self._entries > MAX_ENTRIES or len(sizes) > MAX_AXES:
            raise self.error(
                f"the table of {block.x!r} has {entries:.3g} entries over {len(block.parents)} "
                f"parents, for a total of {self._entries:.3g} in the file, expected at most "
                f"{MAX_ENTRIES:.3g} and {MAX_AXES - 1} parents per table; use fewer parents, or "
                f"parents with fewer states",
                block.start,
            )
        contexts = prod(sizes[:-1])
        if any(row.head == "table" for row in block.rows):
            rows = self._full_table(block, contexts, sizes[-1])
            starts = np.full(contexts, block.rows[0].start)
        else:
            rows, starts = self._listed_rows(block, contexts, sizes)

        def complain(row: int, problem: str) -> InvalidFileError:
            return self.error(f"the row of {self._words(block, row)} {problem}", int(starts[row]))

        return within_rounding(rows, complain).reshape(sizes)

    def _words(self, block: _Block, row: int) -> str:
        return row_text(block.x, {p: self._domains[p] for p in block.parents}, row)

    def _full_table(self, block: _Block, contexts: int, size: int) -> FloatArray:
        first, *others = block.rows
        if others:
            raise self.error(
                f"the probabilities of {block.x!r} mix table with other rows, expected only a "
                f"table, or a row for each value of the parents",
                others[0].start,
            )
        if len(first.values) != contexts * size:
            raise self.error(
                f"the table of {block.x!r} has {len(first.values)} numbers, expected "
                f"{contexts * size}: {size} states for each of {contexts} values of its parents",
                first.start,
            )
        return np.array(first.values).reshape(size, contexts).T

    def _listed_rows(
        self, block: _Block, contexts: int, sizes: Sequence[int]
    ) -> tuple[FloatArray, IntArray]:
        """Return rows [contexts, own size] and their offsets in the text."""
        x, size = block.x, sizes[-1]
        places = [{s: i for i, s in enumerate(self._domains[p])} for p in block.parents]
        rows = np.zeros((contexts, size))
        starts = np.full(contexts, -1)
        default: _Row | None = None
        for row in block.rows:
            if len(row.values) != size:
                raise self.error(
                    f"a row of {x!r} has {len(row.values)} numbers, expected {size}, one for each "
                    f"state",
                    row.start,
                )
            # The default row fills all unlisted rows, wherever it is in the block.
            if row.head == "default":
                if default is not None:
                    raise self.error(f"{x!r} has a second default row, expected one", row.start)
                default = row
                continue
            context = self._context(block, row, places, sizes)
            if starts[context] >= 0:
                raise self.error(
                    f"the row of {self._words(block, context)} is given a second time (first "
                    f"in line {self.line(int(starts[context]))}), expected each row once",
                    row.start,
                )
            rows[context], starts[context] = row.values, row.start
        absent = starts < 0
        if default is not None:
            rows[absent], starts[absent] = default.values, default.start
        elif absent.any():
            raise self.error(
                f"the row of {self._words(block, int(np.argmax(absent)))} is missing "
                f"({int(absent.sum())} of {contexts} are), expected one for each value of the "
                f"parents, or a default row",
                block.start,
            )
        return rows, starts

    def _context(
        self, block: _Block, row: _Row, places: list[dict[str, int]], sizes: Sequence[int]
    ) -> int:
        """Return the index of a row among the joint values of the parents."""
        if len(row.states) != len(block.parents):
            parents = ", ".join(block.parents) or "none"
            raise self.error(
                f"a row of {block.x!r} names {len(row.states)} states "
                f"({', '.join(row.states[:8])}), expected {len(block.parents)}, one for each "
                f"parent ({parents})",
                row.start,
            )
        context = 0
        for state, place, size, parent in zip(
            row.states, places, sizes[:-1], block.parents, strict=True
        ):
            if state not in place:
                role = f"state of {parent!r} in a row of {block.x!r}:"
                raise self.error(str(unknown_name(state, list(place), role)), row.start)
            context = context * size + place[state]
        return context


# --- Format ---------------------------------------------------------------------------------------
# network NAME { property ...; }
#     variable B { type discrete [ 2 ] { yes, no }; property ...; }
#     probability ( A ) { table 0.2, 0.8; }
#     probability ( B | A ) {
#       (yes) 0.9, 0.1;
#       default 0.5, 0.5;      // all unlisted rows
#     }
#
# Blocks and rows may be in any order; commas and white space are equivalent separators; comments
# are // and /* */. Names with white space or punctuation are in double quotes, with \ as escape
# character. A `table` over several variables lists them in the order of the head, the last changing
# fastest; the `|` may be missing, as in JavaBayes files. Properties are ignored. States are text.
#
# Rows whose sums differ from 1 by rounding are normalised (`formats`). Probabilities are written
# with all digits, so that a network is bitwise equal after writing and reading.
#
# Source: Cozman, The Interchange Format for Bayesian Networks, version 0.15 (1998); bnlearn 5.0,
# read.bif and write.bif.


def read_bif(path: str | Path) -> NetworkParts:
    """Read the parts of a network from a BIF file, .bif or .bif.gz."""
    return parse_bif(read_text(path), source=path)


def parse_bif(text: str, *, source: object = "text") -> NetworkParts:
    """Parse the parts of a network from text in BIF; messages name its source."""
    return Parser(text, source).parts()


def write_bif(network: CausalBayesianNetwork, path: str | Path) -> Path:
    """Write a network as a BIF file, gzipped if the name ends in .gz; states become text."""
    return write_text(path, bif_text(network))


def bif_text(network: CausalBayesianNetwork) -> str:
    """Return a network as text in BIF with the layout of bnlearn."""
    lines = [f"network {quoted(network.name or 'unknown')} {{", "}"]
    states = {x: [quoted(str(value)) for value in network.domain(x)] for x in network.variables}
    for x in network.variables:
        lines += [
            f"variable {quoted(x)} {{",
            f"  type discrete [ {len(states[x])} ] {{ {', '.join(states[x])} }};",
            "}",
        ]
    for x in network.variables:
        parents = network.parents(x)
        condition = f" | {', '.join(map(quoted, parents))}" if parents else ""
        lines.append(f"probability ( {quoted(x)}{condition} ) {{")
        rows = network.cpd(x).reshape(-1, network.size(x)).tolist()
        for values, row in zip(product(*(states[p] for p in parents)), rows, strict=True):
            head = f"({', '.join(values)})" if parents else "table"
            # repr writes all digits, so that reading restores the same bits.
            lines.append(f"  {head} {', '.join(map(repr, row))};")
        lines.append("}")
    return "\n".join(lines) + "\n"
