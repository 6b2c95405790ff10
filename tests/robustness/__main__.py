"""Many cases of one format in a process of its own: `python -m robustness FORMAT`."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from random import Random

from robustness.cases import Ended, run
from robustness.formats import Format, formats


def main() -> None:
    """Print every case that did not end as it should; the exit status is 1 if there is one."""
    known = formats()
    parser = argparse.ArgumentParser(prog="python -m robustness", description=__doc__)
    parser.add_argument("formats", choices=sorted(known), nargs="+", metavar="FORMAT")
    parser.add_argument("--cases", type=int, help="how many of each; default as in make test")
    parser.add_argument("--times", type=float, default=1.0, help="so many times the default")
    parser.add_argument("--first", type=int, default=0, help="number of the first")
    parser.add_argument("--only", type=int, help="this one alone")
    parser.add_argument("--keep", type=Path, help="folder for the inputs of cases that are wrong")
    options = parser.parse_args()
    wrong = 0
    for name in options.formats:
        usual = max(1, round(known[name].cases * options.times))
        count = usual if options.cases is None else options.cases
        numbers = range(options.first, options.first + count)
        wrong += _all(
            known[name], numbers if options.only is None else [options.only], options.keep
        )
    sys.exit(1 if wrong else 0)


def _all(format: Format, numbers: range | list[int], keep: Path | None) -> int:
    for module in format.imports:
        import_module(module)
    wrong, seconds, refused = 0, 0.0, 0
    with tempfile.TemporaryDirectory(prefix="goalmeter-fuzz-") as temporary:
        valid, place = Path(temporary) / "valid", Path(temporary) / "case"
        valid.mkdir()
        format.prepare(valid)
        if format.valid:
            ended = run(format.valid, valid)
            assert ended.status == 0, f"{format.name} refuses its valid input: {ended.err}"
        for number in numbers:
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(valid, place)
            # Said before it runs, so that a case that kills this process is known.
            print(f"case {number} of {format.name}", flush=True)
            ended = run(format.damage(place, Random(f"{format.name}:{number}")), place)
            seconds += ended.seconds
            refused += ended.status == 2
            if complaints := ended.complaints():
                wrong += 1
                _print(format, number, ended, complaints)
                if keep is not None:
                    shutil.copytree(place, keep / f"{format.name}-{number}", dirs_exist_ok=True)
    print(f"{format.name}: {len(numbers)} cases, {refused} refused, {wrong} wrong, {seconds:.1f} s")
    return wrong


def _print(format: Format, number: int, ended: Ended, complaints: list[str]) -> None:
    shown = " ".join(repr(word)[:200] for word in ended.arguments)
    print(f"WRONG {format.name} {number}: {'; '.join(complaints)}\n  goalmeter {shown}")
    for line in ended.err.splitlines()[-8:]:
        print(f"  | {line[:300]!r}", flush=True)


if __name__ == "__main__":
    main()
