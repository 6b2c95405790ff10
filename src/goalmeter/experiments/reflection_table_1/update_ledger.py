"""Put the runs of Table 1 into the ledger.

    python -m goalmeter.experiments.reflection_table_1.update_ledger [--partial] OUT [LEDGER.toml]

Reads the runs that `goalmeter replicate reflection-table-1 --out OUT` left, and writes `ours`,
`error`, `seeds` and `found` of their rows, and of neural agents the `tolerance`; every other row,
and the remarks, stay as they are. With --partial a run that is not finished counts with the seeds
that are, unless the ledger has more. Then make the page anew:
python -m goalmeter.experiments.ledger.page > docs/ledger.md
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import replace
from pathlib import Path

from goalmeter._errors import InvalidFileError
from goalmeter._files import write_text
from goalmeter.experiments import ledger
from goalmeter.experiments.ledger.file import PATH, with_row
from goalmeter.experiments.reflection_table_1 import compute
from goalmeter.experiments.reflection_table_1.compute import LEDGER_PREFIX, NEURAL, run_folder
from goalmeter.reflection import Reflection, Trial
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.plan import DEFAULTS, key, plan_of
from goalmeter.reflection.result import failures_in_words, reflection_of
from goalmeter.runs import read_run
from goalmeter.statistics.verdicts import Verdict, verdict
from goalmeter.statistics.welch import TOO_FEW

_LEAST_TOLERANCE = 1e-6  # as many digits as there are
_LEAST_SEEDS = 2  # for a standard error


def updated(text: str, rows: list[ledger.Number]) -> str:
    """The text of a ledger with other numbers in some of its rows."""
    for row in rows:
        text = with_row(
            text,
            row.id,
            ours=f"{row.ours:.6f}",
            error=f"{row.error:.6f}",
            seeds=str(row.seeds),
            tolerance=f"{row.tolerance:.6f}",
            found=row.found,
        )
    return text


def measured(out: Path, *, partial: bool = False) -> list[ledger.Number]:
    """The rows of the ledger that there are runs for, with ours from them.

    Says on stderr which runs cannot be used.
    """
    rows = []
    for row in ledger.load(LEDGER_PREFIX):
        steps, agent = compute.setting(row.id)
        if not run_folder(out, agent, steps).is_dir():
            continue
        try:
            result = _usable(out, row, agent, steps, partial=partial)
        except InvalidFileError as error:
            print(f"left out: {error}", file=sys.stderr)
            continue
        rows.append(_filled(row, agent, result))
    return rows


def finished(out: Path, agent: str, steps: int, *, partial: bool = False) -> Reflection:
    """The measurement that a run of Table 1 holds.

    With `partial`, an unfinished run counts with the seeds that have all of their trials.
    """
    folder = run_folder(out, agent, steps)
    run = read_run(folder)
    plan = plan_of(agent, steps, 1, BATTERY, *DEFAULTS).as_json()
    # How many seeds a run has may differ; anything else would make it another row.
    differ = [k for k in {**plan, **run.what} if k != "seeds" and run.what.get(k) != plan.get(k)]
    seeds = run.what.get("seeds")
    if differ or not isinstance(seeds, list):
        raise InvalidFileError(
            f"{folder} is not the run of {agent}, {steps} steps, that Table 1 asks for: "
            f"{', '.join(differ) or 'seeds'} differs"
        )
    names = plan["environments"]
    complete = [s for s in seeds if all(key(name, s) in run.values for name in names)]
    if len(complete) < (_LEAST_SEEDS if partial else len(seeds)):
        wanted = f"at least {_LEAST_SEEDS}" if partial else "all; --partial takes those that are"
        raise InvalidFileError(
            f"{folder}: {len(complete)} of {len(seeds)} seeds are finished, expected {wanted}"
        )
    trials = [Trial.from_json(run.values[key(name, s)]) for s in complete for name in names]
    result = reflection_of(agent, steps, trials, runs=len(names), confidence=0.95)
    if result.failures:
        raise InvalidFileError(f"{folder}: {failures_in_words(result)}")
    return result


def _usable(out: Path, row: ledger.Number, agent: str, steps: int, *, partial: bool) -> Reflection:
    """The run of a row; with `partial` its finished seeds, if the ledger has no more."""
    try:
        result = finished(out, agent, steps)
    except InvalidFileError:
        if not partial:
            raise
        # A run that is under way must not take the place of one that was finished.
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
    filled = compute.with_ours(row, result)
    if agent in NEURAL:
        tolerance = max(2 * round(filled.error, 6), _LEAST_TOLERANCE)
        filled = replace(filled, tolerance=tolerance)
    return replace(filled, found=" ".join(_explained(filled, agent, result)))


def _explained(row: ledger.Number, agent: str, result: Reflection) -> list[str]:
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
    forwarded = float(compute.forwarded(result).mean())
    if agent in NEURAL and agent.startswith("rc("):
        lines.append(f"With these two ours would be {row.ours + forwarded:+.4f}.")
    elif agent in NEURAL:
        lines.append(f"IncentivizeLearningRate and its opposite make {forwarded:+.4f} of ours.")
    return lines


def main(arguments: list[str]) -> None:
    """Update the ledger; says what it wrote."""
    parser = ArgumentParser(
        prog="update_ledger", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("ledger", type=Path, nargs="?", default=PATH, metavar="LEDGER.toml")
    parser.add_argument("--partial", action="store_true")
    options = parser.parse_args(arguments)
    rows = measured(options.out, partial=options.partial)
    write_text(options.ledger, updated(options.ledger.read_text(encoding="utf-8"), rows))
    for row in rows:
        print(f"{row.id}: {row.ours:+.6f} ± {row.error:.6f}, {row.seeds} seeds, {row.verdict}")


if __name__ == "__main__":
    main(sys.argv[1:])
