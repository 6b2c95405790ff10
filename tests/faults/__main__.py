"""Faults for some minutes: python -m faults, or make soak.

A run is begun, disturbed up to four times, given again and compared with one that nothing
disturbed; then the next one. Everything is drawn from a seed, which is printed. The exit status is
1 if anything went wrong; then the folders are kept, and `--only NUMBER` makes a try again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from random import SystemRandom

import goalmeter.cli
from faults.kinds import KINDS, RAY, Kind
from faults.ray_nodes import RayNodes
from faults.schedule import Try, tries
from faults.table import tables, to_json
from faults.trying import Outcome, Trier

_TELL_EVERY = 30.0  # seconds
SHORT = ("reflect",)


def main() -> None:
    """Read the options, and try until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m faults", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--tries", type=int, help="end after so many, if that is earlier")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    parser.add_argument("--kinds", help="names with semicolons; default all", default="")
    parser.add_argument("--only", type=int, help="this try alone")
    parser.add_argument("--short", action="store_true", help="one kind of run, and no clusters")
    parser.add_argument("--keep", type=Path, help="a folder for soak.json and soak.txt")
    options = parser.parse_args()
    names = {name.strip() for name in options.kinds.split(";") if name.strip()}
    if unknown := names - {kind.name for kind in KINDS}:
        sys.exit(f"there is no kind of run {min(unknown)!r}: {[kind.name for kind in KINDS]}")
    kinds = [kind for kind in KINDS if kind.name in names or not names]
    folder = Path(tempfile.mkdtemp(prefix="goalmeter-soak-"))
    # What Inspect keeps of its own belongs to the soak, and goes with it.
    for name in ("INSPECT_LOG_DIR", "INSPECT_CACHE_DIR", "XDG_DATA_HOME"):
        os.environ[name] = str(folder / name.lower())
    os.environ |= {"INSPECT_DISPLAY": "none", "HF_HUB_OFFLINE": "1", "COLUMNS": "100"}
    with ExitStack() as stack:
        _soak(options, kinds, folder, stack)


def _soak(options: argparse.Namespace, kinds: list[Kind], folder: Path, stack: ExitStack) -> None:
    possible = [kind for kind in kinds if kind.is_possible]
    if missing := [kind.name for kind in kinds if kind not in possible]:
        print(f"left out, since a package is missing: {', '.join(missing)}", flush=True)
    nodes = None
    if options.short:
        possible = [kind.where(ray=False, others=2) for kind in possible if kind.name in SHORT]
    else:
        if any(RAY in kind.places for kind in possible) and find_spec("ray") is not None:
            nodes = stack.enter_context(RayNodes())
        possible = [kind.where(ray=nodes is not None) for kind in possible]
    print(f"seed {options.seed}, {options.minutes:g} minutes, {folder}", flush=True)
    chosen = islice(tries(options.seed, possible), options.tries)
    if options.only is not None:
        chosen = islice(tries(options.seed, possible), options.only, options.only + 1)
    trier, outcome = Trier(folder, nodes), Outcome()
    _prepare(trier, possible, outcome)
    began = time.monotonic()
    _try_all(trier, chosen, began + 60 * options.minutes, outcome)
    about = {
        "goalmeter": goalmeter.__version__,
        "commit": _commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "seed": options.seed,
        "minutes": round((time.monotonic() - began) / 60, 1),
    }
    result = to_json(outcome, about)
    print(tables(result))
    if options.keep is not None:
        text = json.dumps(result, indent=1) + "\n"
        (options.keep / "soak.json").write_text(text, encoding="utf-8")
        (options.keep / "soak.txt").write_text(tables(result), encoding="utf-8")
    if outcome.wrong:
        print("\n".join(["", *outcome.notes]))
        print(f"\nseed {options.seed}: {sum(outcome.wrong.values())} wrong; kept in {folder}")
        sys.exit(1)
    shutil.rmtree(folder)


def _prepare(trier: Trier, kinds: list[Kind], outcome: Outcome) -> None:
    for kind in kinds:
        seconds = trier.undisturbed(kind, outcome).seconds
        shown = ", ".join(f"{place} {each:.1f} s" for place, each in seconds.items())
        print(f"{kind.name}: {shown}", flush=True)


def _try_all(trier: Trier, chosen: islice[Try], until: float, outcome: Outcome) -> None:
    told = time.monotonic()
    for a_try in chosen:
        if time.monotonic() > until:
            break
        made = trier.make(a_try)
        outcome.add(made)
        for note in made.notes:
            print(f"WRONG {note}", flush=True)
        if time.monotonic() - told > _TELL_EVERY:
            told = time.monotonic()
            print(
                f"{a_try.number + 1} tries, {sum(outcome.injected.values())} faults, "
                f"{sum(outcome.wrong.values())} wrong, {(until - told) / 60:.0f} minutes left",
                flush=True,
            )


def _commit() -> str:
    command = ["git", "-c", "safe.directory=*", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(
        command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    main()
