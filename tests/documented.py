"""What the pages of documentation show: their blocks of code, outputs and tables, in order.

A block or table that is not run by the tests says so in a comment directly before it:

    <!-- not run: WHY -->              nothing here is checked
    <!-- checked by: FILE::TEST -->    a test elsewhere compares it
    <!-- kept: FILE.json; SCRIPT -->  its numbers are those of this file, which the script wrote
    <!-- table: CAPTION -->            it was filled from kept tables of a replication
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
MARKER = re.compile(r"<!-- (?P<kind>not run|checked by|kept|table): (?P<text>.+) -->")
# A cell with a measurement: digits behind a point, or a unit, and few words.
_MEASURED = re.compile(r"\d\.\d|\d ?(%|x|ms|us|ns|s)\b|\d%|^[\d,.+−-]+$")
_WORDS = 12  # letters
# Of the cells behind the first column, so many make a table one of measurements.
_SHARE = 0.4


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        page: relative to the root.
        line: of its fence.
        language: "" for none; of a directive its name in braces, such as "{literalinclude}".
        text: between the fences; of a directive after its argument, as the first line.
        marker: kind and text of the comment before it.
        follows: whether it stands right behind another block, with nothing but blank lines between.
    """

    page: str
    line: int
    language: str
    text: str
    marker: tuple[str, str] | None
    follows: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


@dataclass(frozen=True)
class Rows:
    """A table: its cells, [rows][columns], the head first."""

    page: str
    line: int
    cells: tuple[tuple[str, ...], ...]
    marker: tuple[str, str] | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def measured(self) -> bool:
        """Whether what it shows are numbers, as an output does, and not words."""
        cells = [cell for row in self.cells[1:] for cell in row[1:] if cell]
        numbers = sum(
            bool(_MEASURED.search(cell)) and len(re.findall(r"[a-z]", cell)) <= _WORDS
            for cell in cells
        )
        return bool(cells) and numbers >= _SHARE * len(cells)


def shown(page: Path, text: str | None = None) -> list[Block | Rows]:
    """Everything that a page shows, from its top."""
    name = page.relative_to(ROOT).as_posix()
    lines = (page.read_text(encoding="utf-8") if text is None else text).splitlines()
    out: list[Block | Rows] = []
    marker: tuple[str, str] | None = None
    behind = False  # whether the last thing that was not blank was a block
    at = 0
    while at < len(lines):
        line, start = lines[at], at + 1
        if fence := re.match(r"^( *)```(\w*|\{[\w-]+\})(?: (.+))?$", line):
            end = next(i for i in range(at + 1, len(lines)) if lines[i] == f"{fence[1]}```")
            argument = [fence[3]] if fence[3] else []
            body = "".join(f"{inner}\n" for inner in [*argument, *lines[at + 1 : end]])
            out.append(Block(name, start, fence[2], body, marker, behind))
            at, marker, behind = end + 1, None, True
        elif line.startswith("|"):
            end = next((i for i in range(at, len(lines)) if not lines[i].startswith("|")), -1)
            end = len(lines) if end < 0 else end
            out.append(Rows(name, start, tuple(_cells(lines[at:end])), marker))
            at, marker, behind = end, None, False
        else:
            if result := MARKER.fullmatch(line):
                marker = (result["kind"], result["text"])
            elif line.strip():
                marker, behind = None, False
            at += 1
    return out


def _cells(lines: list[str]) -> Iterator[tuple[str, ...]]:
    for line in lines:
        cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
        if not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            yield cells


def parts_with_numbers(comment: str) -> list[str]:
    """What of a comment behind a command or an expression is to be found in its output.

    Example: "0.4984 nats; goal: no +1, yes −1" asks for three things.
    """
    number = re.compile(r"(?<![A-Za-z0-9])\d")
    return [part.strip() for part in re.split(r"[;:,]", comment) if number.search(part)]


def says(output: str, part: str) -> bool:
    """Whether an output has these words, with these numbers and not with longer ones."""
    return bool(re.search(rf"(?<![\w.+−-]){re.escape(part)}(?![\w.])", plain(output)))


def plain(output: str) -> str:
    """An output without the lines of its tables, on one line."""
    return " ".join(re.sub(r"[│┃━─┏┓┗┛┡┩└┘┌┐├┤┬┴┼╇╈┳┻╋|]", " ", output).split())


def numbers_of(result: Any) -> Iterator[float]:
    """Every number in a JSON value."""
    if isinstance(result, dict):
        for value in result.values():
            yield from numbers_of(value)
    elif isinstance(result, list):
        for value in result:
            yield from numbers_of(value)
    elif isinstance(result, int | float) and not isinstance(result, bool):
        yield float(result)


def foreign_numbers(rows: Rows, kept: Path) -> list[str]:
    """Numbers of a table that are no rounded number of a kept result, as a share or in percent."""
    values = list(numbers_of(json.loads(kept.read_text(encoding="utf-8"))))
    out = []
    for row in rows.cells[1:]:
        for cell in row[1:]:
            for token in re.findall(r"[+−-]?\d+(?:\.\d+)?", cell):
                number = float(token.replace("−", "-"))
                half = 0.5 * 10.0 ** -len(token.partition(".")[2]) * (1 + 1e-6)
                if not any(abs(scale * v - number) <= half for v in values for scale in (1, 100)):
                    out.append(f"{row[0]}: {token}")
    return out
