"""Write down the numbers of every command, or compare those of two checkouts.

    PYTHONPATH=tests python -m equal_numbers write after.json
    PYTHONPATH=tests python -m equal_numbers write before.json --tree ANOTHER_CHECKOUT
    PYTHONPATH=tests python -m equal_numbers compare before.json after.json

`--only WORD` chooses the cases whose name or group holds a word, `--without WORD` leaves such out;
both may be repeated. Cases that the file holds already are not run again, so slow ones can follow.
It is run by hand before and after code is moved; the organisms and the demo take long.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from equal_numbers.cases import Case, cases
from equal_numbers.comparing import NUMBERS, differences, table
from equal_numbers.running import results

HERE = Path(__file__).resolve().parents[2]


def main() -> None:
    """Read the options; `compare` ends with status 1 where numbers differ."""
    parser = argparse.ArgumentParser(prog="python -m equal_numbers", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    modes = parser.add_subparsers(dest="mode", required=True)
    write = modes.add_parser("write", help="run the commands of a checkout")
    write.add_argument("out", type=Path)
    write.add_argument("--tree", type=Path, default=HERE, help="the checkout; default this one")
    compare = modes.add_parser("compare", help="print what differs")
    compare.add_argument("before", type=Path)
    compare.add_argument("after", type=Path)
    for mode in (write, compare):
        mode.add_argument("--only", action="append", default=[], metavar="WORD")
        mode.add_argument("--without", action="append", default=[], metavar="WORD")
    options = parser.parse_args()
    chosen = _chosen(options.only, options.without)
    if options.mode == "write":
        _write(chosen, options.out, options.tree.resolve())
        return
    names = {case.name for case in chosen}
    before, after = (
        {name: kept for name, kept in json.loads(path.read_text()).items() if name in names}
        for path in (options.before, options.after)
    )
    print("\n".join(table(before, after)))
    places = [
        place
        for name in before
        if name in after
        for place in differences(before[name], after[name])
    ]
    sys.exit(any(place.kind == NUMBERS for place in places))


def _chosen(only: list[str], without: list[str]) -> list[Case]:
    def named(case: Case, words: list[str]) -> bool:
        return any(word == case.group or word in case.name for word in words)

    return [
        case for case in cases() if (named(case, only) or not only) and not named(case, without)
    ]


def _write(chosen: list[Case], out: Path, tree: Path) -> None:
    if not (tree / "src" / "goalmeter").is_dir():
        sys.exit(f"{tree} is no checkout of goalmeter: it has no src/goalmeter")
    kept = json.loads(out.read_text()) if out.exists() else {}
    left = [case for case in chosen if case.name not in kept]
    for name, result in results(left, tree):
        kept[name] = result
        # After each case: a run that is stopped has lost nothing.
        out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


main()
