"""Tables of a run as Markdown, and a document whose marked tables are filled with them.

A document marks a table by its caption, in comments that readers do not see:

    <!-- table: What it costs to be sure -->
    <!-- end of table -->

`python -m goalmeter.report.markdown RUN/tables.md docs/calibration.md` puts the
tables of a run between such marks, so that no number of the document is typed. A third word tells
the tables of one run from those of another: those marked "CAPTION, WORD" are filled.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from goalmeter._errors import InvalidFileError
from goalmeter.report.page import Table

_MARKED = re.compile(r"<!-- table: (.+?) -->\n(.*?)<!-- end of table -->", re.DOTALL)


def in_markdown(tables: Iterable[Table], lists: Mapping[str, Iterable[str]] | None = None) -> str:
    """Tables between their marks, each as Markdown has it, and lists of sentences by a caption."""
    blocks = []
    for table in tables:
        heads = [head.full for head in table.heads]
        lines = [heads, ["---"] * len(heads), *([cell.text for cell in row] for row in table.cells)]
        rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        blocks.append(_marked(table.caption, rows))
    for caption, sentences in (lists or {}).items():
        blocks.append(_marked(caption, "\n".join(f"- {line}" for line in sentences)))
    return "\n\n".join(blocks) + "\n"


def _marked(caption: str, rows: str) -> str:
    return f"<!-- table: {caption} -->\n{rows}\n<!-- end of table -->"


def filled(document: str, tables: str, label: str = "") -> str:
    """A document with its marked tables replaced by those of the same caption (and label)."""
    # With a label it is another caption, so that runs do not overwrite each other's tables.
    ending = f", {label}" if label else ""
    known = {f"{caption}{ending}": rows for caption, rows in _MARKED.findall(tables)}
    if not any(caption in known for caption, _ in _MARKED.findall(document)):
        raise InvalidFileError(
            f"the document marks none of the tables {sorted(known)}; expected lines such as "
            f"<!-- table: CAPTION --> and <!-- end of table -->"
        )
    return _MARKED.sub(
        lambda mark: _marked(mark[1], str(known.get(mark[1], mark[2])).rstrip()), document
    )


def main(tables: str, document: str, label: str = "") -> None:
    """Fill the marked tables of a document from a run's tables.md."""
    page = Path(document)
    new = filled(page.read_text("utf-8"), Path(tables).read_text("utf-8"), label)
    page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
