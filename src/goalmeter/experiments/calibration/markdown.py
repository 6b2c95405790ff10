"""Tables of a calibration as Markdown, and a document whose marked tables are filled with them.

A document marks a table by its caption, in comments that readers do not see:

    <!-- table: What it costs to be sure -->
    <!-- end of table -->

`python -m goalmeter.experiments.calibration.markdown RUN/tables.md docs/calibration.md` puts the
tables of a run between such marks, so that no number of the document is typed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from goalmeter._errors import InvalidFileError
from goalmeter.report import Table

_MARKED = re.compile(r"<!-- table: (.+?) -->\n(.*?)<!-- end of table -->", re.DOTALL)


def in_markdown(tables: Iterable[Table]) -> str:
    """Tables between their marks, each as Markdown has it."""
    return "\n\n".join(_marked(table.caption, _rows(table)) for table in tables) + "\n"


def filled(document: str, tables: str) -> str:
    """A document with its marked tables replaced by those of the same caption.

    Args:
        document: with marks.
        tables: as `in_markdown` writes them. Those that are not marked in the document are left
            out, and marks whose table is not among them keep what they hold.

    Raises:
        InvalidFileError: none of the tables is marked in the document.
    """
    known = dict(_MARKED.findall(tables))
    if not any(caption in known for caption, _ in _MARKED.findall(document)):
        raise InvalidFileError(
            f"the document marks none of the tables {sorted(known)}; expected lines such as "
            f"<!-- table: CAPTION --> and <!-- end of table -->"
        )
    return _MARKED.sub(
        lambda mark: _marked(mark[1], str(known.get(mark[1], mark[2])).rstrip()), document
    )


def _marked(caption: str, rows: str) -> str:
    return f"<!-- table: {caption} -->\n{rows}\n<!-- end of table -->"


def _rows(table: Table) -> str:
    heads = [head.full for head in table.heads]
    lines = [heads, ["---"] * len(heads), *([cell.text for cell in row] for row in table.cells)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main(tables: str, document: str) -> None:
    """Fill a document's marked tables.

    Args:
        tables: path of a run's tables.md.
        document: path of the document, which is rewritten.
    """
    page = Path(document)
    page.write_text(
        filled(page.read_text(encoding="utf-8"), Path(tables).read_text(encoding="utf-8")),
        encoding="utf-8",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
