"""From the tokens of BIF to a network: blocks first, as they stand, then the tables."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from goalmeter._errors import InvalidFileError
from goalmeter._types import FloatArray, IntArray
from goalmeter.causal.bif_tokens import PUNCTUATION, Tokens
from goalmeter.causal.model_files import Draft, NetworkParts, numbers


class _Row(NamedTuple):
    """One statement of a probability block; its numbers are the next ones of the block."""

    head: str  # "(", "table" or "default"
    states: list[str]  # of the parents, if the head is "("
    size: int
    start: int  # offset in the text


class _Block:
    """A probability block as it stands in the file."""

    def __init__(self, start: int, names: list[str]) -> None:
        self.start = start
        self.x, self.parents = names[0], names[1:]
        self.rows: list[_Row] = []
        self.numbers = array("d")


class Parser:
    """Reads the tokens of a text once, from left to right; variables first, then tables."""

    def __init__(self, text: str, draft: Draft) -> None:
        self._tokens = Tokens(text, draft)
        self._draft = draft
        self._blocks: list[_Block] = []

    def parts(self) -> NetworkParts:
        """What the text says of a network."""
        name = ""
        while token := self._tokens.take():
            match token:
                case "network":
                    name = self._network()
                case "variable":
                    self._variable()
                case "probability":
                    self._probability()
                case _:
                    raise self._tokens.expected("network, variable or probability", token)
        for block in self._blocks:
            self._define(block)
        return self._draft.parts(name)

    # --- Blocks -----------------------------------------------------------------------------------
    def _network(self) -> str:
        start = self._tokens.start
        name = " ".join(self._tokens.names("{", "the name of the network"))
        while (token := self._tokens.take()) != "}":
            if token != "property":
                raise self._in_block("the network block", 'a property or "}"', token, start)
            self._skip_property()
        return name

    def _skip_property(self) -> None:
        start = self._tokens.start
        while (token := self._tokens.take()) != ";":
            if not token:
                raise self._tokens.expected('";" behind the property', "", start)

    def _in_block(self, block: str, what: str, token: str, start: int) -> InvalidFileError:
        opened = f" in {block} (opened in line {self._tokens.line(start)})"
        return self._tokens.expected(what + opened, token)

    def _variable(self) -> None:
        start = self._tokens.start
        x = self._tokens.name(self._tokens.take(), "the name of the variable")
        self._tokens.punctuation("{", f"behind variable {x} (a name with spaces stands in quotes)")
        states: list[str] | None = None
        while (token := self._tokens.take()) != "}":
            if token == "property":
                self._skip_property()
            elif token == "type" and states is None:
                states = self._states(x)
            else:
                what = 'a property or "}"' if states else "type discrete [ n ] { states };"
                raise self._in_block(f"the block of variable {x!r}", what, token, start)
        if states is None:
            raise self._tokens.error(
                f"variable {x!r} has no type, expected type discrete [ n ] {{ ... }};"
            )
        self._draft.declare(x, states, self._tokens.line(start))

    def _states(self, x: str) -> list[str]:
        token = self._tokens.take()
        if token != "discrete":
            raise self._tokens.expected(f"the type discrete of variable {x!r}", token)
        self._tokens.punctuation("[", "and the number of states")
        count = self._tokens.take()
        if not count.isdecimal():
            raise self._tokens.expected(f"the number of states of variable {x!r}", count)
        self._tokens.punctuation("]", "behind the number of states")
        self._tokens.punctuation("{", "and the states")
        states = self._tokens.names("}", f"a state of variable {x!r}")
        if str(len(states)) != (count.lstrip("0") or "0"):
            raise self._tokens.error(
                f"variable {x!r} has {len(states)} states ({', '.join(states[:8])}), expected "
                f"{count} as it says in brackets; correct the number, or quote states with spaces"
            )
        self._tokens.punctuation(";", f"behind the states of variable {x!r}")
        return states

    def _probability(self) -> None:
        start = self._tokens.start
        self._tokens.punctuation("(", "behind probability")
        names = [self._tokens.name(self._tokens.take(), "the name of a variable")]
        token = self._tokens.take()
        if token != ")":
            # The mark between a variable and its parents is missing in JavaBayes' files.
            names += [] if token == "|" else [self._tokens.name(token, '"|" or ")"')]
            names += self._tokens.names(")", f"a parent of {names[0]!r}")
        block = _Block(start, names)
        self._tokens.punctuation("{", f"and the probabilities of {block.x!r}")
        while (token := self._tokens.take()) != "}":
            if token == "property":
                self._skip_property()
            elif token in ("(", "table", "default"):
                self._row(block, token)
            else:
                what = 'table, default, a row "(...)" or "}"'
                raise self._in_block(f"the block of probability {block.x!r}", what, token, start)
        self._blocks.append(block)

    def _row(self, block: _Block, head: str) -> None:
        start = self._tokens.start
        states = self._tokens.names(")", "a state") if head == "(" else []
        behind = self._tokens.start + 1
        tokens: list[str] = []
        while (token := self._tokens.take()) != ";":
            if not token or token in PUNCTUATION:
                raise self._tokens.expected(f'a probability of {block.x!r} or ";"', token)
            tokens.append(token)
        try:
            block.numbers.extend(numbers(tokens))
        except ValueError as cause:
            at = self._tokens.text.find(cause.args[0], behind)
            raise self._tokens.expected(
                f"a probability of {block.x!r}", cause.args[0], at
            ) from None
        block.rows.append(_Row(head, states, len(tokens), start))

    # --- Tables -----------------------------------------------------------------------------------
    def _define(self, block: _Block) -> None:
        """Work out the table of a block, when all variables are known."""
        draft, x = self._draft, block.x
        sizes = draft.shape(x, block.parents, self._tokens.line(block.start))
        contexts = int(np.prod(sizes[:-1]))
        if any(row.head == "table" for row in block.rows):
            rows = self._full_table(block, contexts, sizes[-1])
            starts = np.full(contexts, block.rows[0].start)
        else:
            rows, starts = self._listed_rows(block, contexts, sizes)
        draft.define(x, rows, lambda row: self._tokens.line(int(starts[row])))

    def _full_table(self, block: _Block, contexts: int, size: int) -> FloatArray:
        if len(block.rows) > 1:
            raise self._tokens.error(
                f"the probabilities of {block.x!r} mix table with other rows, expected a table "
                f"alone, or a row for each value of the parents",
                block.rows[1].start,
            )
        if len(block.numbers) != contexts * size:
            raise self._tokens.error(
                f"the table of {block.x!r} has {len(block.numbers)} numbers, expected "
                f"{contexts * size}: {size} states for each of {contexts} values of its parents",
                block.rows[0].start,
            )
        return np.array(block.numbers).reshape(size, contexts).T

    def _listed_rows(
        self, block: _Block, contexts: int, sizes: tuple[int, ...]
    ) -> tuple[FloatArray, IntArray]:
        """Rows [contexts, own size] and where each of them stands in the text."""
        x, parents, size = block.x, block.parents, sizes[-1]
        places = [{s: i for i, s in enumerate(self._draft.domains[p])} for p in parents]
        rows = np.zeros((contexts, size))
        starts = np.full(contexts, -1)
        default: FloatArray | None = None
        flat = np.array(block.numbers)
        end = 0
        for row in block.rows:
            if row.size != size:
                raise self._tokens.error(
                    f"a row of {x!r} has {row.size} numbers, expected {size}, one for each state",
                    row.start,
                )
            values, end = flat[end : end + size], end + size
            # The default fills what no row lists, wherever it stands in the block.
            if row.head == "default":
                if default is not None:
                    raise self._tokens.error(
                        f"{x!r} has a second default row, expected one", row.start
                    )
                default, default_start = values, row.start
                continue
            context = self._context(block, row, places, sizes)
            if starts[context] >= 0:
                raise self._tokens.error(
                    f"the row of {self._draft.context(x, context)} is given a second time (first "
                    f"in line {self._tokens.line(int(starts[context]))}), expected each row once",
                    row.start,
                )
            rows[context], starts[context] = values, row.start
        absent = starts < 0
        if default is not None:
            rows[absent], starts[absent] = default, default_start
        elif absent.any():
            raise self._tokens.error(
                f"the row of {self._draft.context(x, int(np.argmax(absent)))} is missing "
                f"({int(absent.sum())} of {contexts} are), expected one for each value of the "
                f"parents, or a default row",
                block.start,
            )
        return rows, starts

    def _context(
        self, block: _Block, row: _Row, places: list[dict[str, int]], sizes: tuple[int, ...]
    ) -> int:
        """The number of a row among the values of the parents."""
        if len(row.states) != len(block.parents):
            parents = ", ".join(block.parents) or "none"
            raise self._tokens.error(
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
                what = f"state of {parent!r} in a row of {block.x!r}:"
                raise self._draft.unknown(self._tokens.line(row.start), state, list(place), what)
            context = context * size + place[state]
        return context
