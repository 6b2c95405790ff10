"""Put the runs of Table 1 into the ledger.

    python -m goalmeter.experiments.reflection_table_1.update_ledger [--partial] OUT [LEDGER.toml]

Reads the runs that `goalmeter replicate reflection-table-1 --out OUT` left, and writes `ours`,
`error`, `seeds` and `found` of their rows, and of neural agents the `tolerance`; every other row,
and the remarks, stay as they are. With --partial a run that is not finished counts with the seeds
that are, unless the ledger has more. Then make the page anew:
python -m goalmeter.experiments.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import json
import re
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from goalmeter._errors import InvalidFileError
from goalmeter._files import write_text
from goalmeter.experiments import ledger
from goalmeter.experiments.ledger.text import block_of, with_values
from goalmeter.experiments.reflection_table_1.compute import (
    LEDGER_PREFIX,
    NEURAL,
    forwarded,
    run_folder,
    setting,
    with_ours,
)
from goalmeter.experiments.reflection_table_1.finished import finished
from goalmeter.reflection import Reflection
from goalmeter.statistics.verdicts import Verdict, verdict
from goalmeter.statistics.welch import TOO_FEW

_LEAST_TOLERANCE = 1e-6  # as many digits as there are


def updated(text: str, rows: list[ledger.Number]) -> str:
    """The text of a ledger with other numbers in some of its rows.

    Raises:
        InvalidParameterError: the text has no such row.
    """
    for row in rows:
        place = block_of(text, row.id)
        # Written anew, below the remark.
        own = re.sub(r"^found = .*\n", "", place.group(), flags=re.MULTILINE)
        own = with_values(
            own,
            {
                "ours": f"{row.ours:.6f}",
                "error": f"{row.error:.6f}",
                "seeds": str(row.seeds),
                "tolerance": f"{row.tolerance:.6f}",
            },
        )
        if row.found:
            words = f"found = {json.dumps(row.found, ensure_ascii=False)}\n"
            at = re.search(r"^remark = .*\n", own, flags=re.MULTILINE)
            end = len(own) if at is None else at.end()
            own = own[:end] + words + own[end:]
        text = text[: place.start()] + own + text[place.end() :]
    return text


def measured(out: Path, *, partial: bool = False) -> list[ledger.Number]:
    """The rows of the ledger that there are runs for, with ours from them.

    Says on stderr which runs cannot be used.
    """
    rows = []
    for row in ledger.load(LEDGER_PREFIX):
        steps, agent = setting(row.id)
        if not run_folder(out, agent, steps).is_dir():
            continue
        try:
            result = _usable(out, row, agent, steps, partial=partial)
        except InvalidFileError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        rows.append(_filled(row, agent, result))
    return rows


def _usable(out: Path, row: ledger.Number, agent: str, steps: int, *, partial: bool) -> Reflection:
    """The run of a row, or as much of it as is finished if that is asked for and is not less."""
    try:
        result = finished(out, agent, steps)
    except InvalidFileError:
        if not partial:
            raise
        result = finished(out, agent, steps, partial=True)
        if len(result.by_seed) < row.seeds:
            raise InvalidFileError(
                f"{row.id} has {row.seeds} seeds already, and the run {len(result.by_seed)} "
                f"finished"
            ) from None
    if len(result.by_seed) < 2:
        raise InvalidFileError(f"{row.id}: the run has one seed, expected at least two")
    return result


def _filled(row: ledger.Number, agent: str, result: Reflection) -> ledger.Number:
    filled = with_ours(row, result)
    if agent in NEURAL:
        tolerance = max(2 * round(filled.error, 6), _LEAST_TOLERANCE)
        filled = replace(filled, tolerance=tolerance)
    return replace(filled, found=" ".join(_said(filled, agent, result)))


def _said(row: ledger.Number, agent: str, result: Reflection) -> list[str]:
    """What the runs say of the difference, sentence by sentence."""
    lines = []
    if row.verdict == TOO_FEW:
        lines.append(f"{row.seeds} seeds are too few for a verdict.")
    # Also of a difference that is too small to matter, but certain.
    side = verdict(row.difference_interval(row.theirs), margin=0)
    if side in (Verdict.ABOVE, Verdict.BELOW):
        lines.append(
            f"Ours is {abs(row.ours - row.theirs):.3f} {side}, {abs(row.z):.1f} standard "
            f"errors; up to {row.limit:.1f} would be luck. What could explain it are the "
            f"differences named here; 1 row in 20 is told to differ by luck alone."
        )
    asked = float(forwarded(result).mean())
    if agent in NEURAL and agent.startswith("rc("):
        lines.append(f"With these two ours would be {row.ours + asked:+.4f}.")
    elif agent in NEURAL:
        lines.append(f"IncentivizeLearningRate and its opposite make {asked:+.4f} of ours.")
    return lines


def main(arguments: list[str]) -> None:
    """Update the ledger; says what it wrote."""
    parser = ArgumentParser(
        prog="update_ledger", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT")
    default = Path(str(files("goalmeter.experiments.ledger").joinpath("ledger.toml")))
    parser.add_argument("ledger", type=Path, nargs="?", default=default, metavar="LEDGER.toml")
    parser.add_argument("--partial", action="store_true")
    given = parser.parse_args(arguments)
    rows = measured(given.out, partial=given.partial)
    write_text(given.ledger, updated(given.ledger.read_text(encoding="utf-8"), rows))
    for row in rows:
        print(f"{row.id}: {row.ours:+.6f} ± {row.error:.6f}, {row.seeds} seeds, {row.verdict}")


if __name__ == "__main__":
    main(sys.argv[1:])
