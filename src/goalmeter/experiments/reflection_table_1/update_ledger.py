"""Put the runs of Table 1 into the ledger.

    python -m goalmeter.experiments.reflection_table_1.update_ledger OUT [LEDGER.toml]

Reads the runs that `goalmeter replicate reflection-table-1 --out OUT` left, and writes `ours`,
`error` and `seeds` of their rows; every other row, and all words, stay as they are. Then make the
page anew: python -m goalmeter.experiments.ledger > docs/ledger.md
"""

from __future__ import annotations

import re
import sys
from importlib.resources import files
from pathlib import Path

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._files import write_text
from goalmeter.experiments import ledger
from goalmeter.experiments.reflection_table_1.compute import (
    LEDGER_PREFIX,
    run_folder,
    setting,
    with_ours,
)
from goalmeter.reflection import load


def updated(text: str, rows: list[ledger.Number]) -> str:
    """The text of a ledger with other numbers in some of its rows.

    Raises:
        InvalidParameterError: the text has no such row.
    """
    for row in rows:
        block = re.compile(rf'\[\[number\]\]\nid = "{re.escape(row.id)}"\n(?:(?!\[\[).*\n)*')
        found = block.search(text)
        if found is None:
            raise InvalidParameterError(f"the ledger has no row {row.id!r}")
        own = found.group()
        for key, value in (
            ("ours", f"{row.ours:.6f}"),
            ("error", f"{row.error:.6f}"),
            ("seeds", str(row.seeds)),
        ):
            own = re.sub(rf"^{key} = .*$", f"{key} = {value}", own, flags=re.MULTILINE)
        text = text[: found.start()] + own + text[found.end() :]
    return text


def measured(out: Path) -> list[ledger.Number]:
    """The rows of the ledger that there are runs for, with ours from them."""
    rows = []
    for row in ledger.load(LEDGER_PREFIX):
        steps, agent = setting(row.id)
        folder = run_folder(out, agent, steps)
        if not folder.is_dir():
            continue
        try:
            result = load(folder)
        except InvalidFileError as error:  # not finished, say
            print(f"left out: {error}", file=sys.stderr)
            continue
        rows.append(with_ours(row, result))
    return rows


def main(arguments: list[str]) -> None:
    """Update the ledger; says what it wrote."""
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    default = str(files("goalmeter.experiments").joinpath("ledger.toml"))
    path = Path(arguments[1] if len(arguments) == 2 else default)
    rows = measured(Path(arguments[0]))
    write_text(path, updated(path.read_text(encoding="utf-8"), rows))
    for row in rows:
        print(f"{row.id}: {row.ours:+.6f} ± {row.error:.6f}, {row.seeds} seeds, {row.verdict}")


if __name__ == "__main__":
    main(sys.argv[1:])
