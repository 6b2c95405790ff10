"""`goalmeter meg sweep`: worlds, policies and utilities in, a table out."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._files import check_writable
from goalmeter._text import shown
from goalmeter.commands.dry_run import shown as told
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.place import chosen_place
from goalmeter.meg.sweeps.columns import FAILED
from goalmeter.meg.sweeps.forecast import forecast_of
from goalmeter.meg.sweeps.planning import plan_sweep
from goalmeter.meg.sweeps.playing import play
from goalmeter.meg.sweeps.result import Sweep
from goalmeter.meg.sweeps.table_files import require_parquet, write_csv, write_parquet
from goalmeter.pages.sweep.page import short_tables


def sweep_worlds(
    worlds: str | Path,
    *,
    policies: Sequence[str] = (),
    utilities: Sequence[str] = (),
    unknown: Sequence[str] = (),
    arguments: Sequence[str] = (),
    seed: int = 0,
    timeout: float | None = None,
    on: str | None = None,
    workers: int | None = None,
    out: str | Path | None = None,
    csv: str | Path | None = None,
    parquet: str | Path | None = None,
    dry_run: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """MEG of policies × utilities × worlds, as `goalmeter.meg.sweep` has it.

    `worlds` is a TOML file, a folder of MDP files or FILE.py:NAME; `arguments` are those of the
    latter, each as NAME=VALUE with a value of TOML. `csv` and `parquet` are files for all rows;
    with `dry_run` nothing is measured and the outcome says what all of it will cost.
    """
    chosen_place(on, workers)  # for its errors, before any world is made
    if parquet is not None:
        require_parquet()
    plan = plan_sweep(
        worlds,
        policies=policies,
        utilities=[*utilities, *({"unknown": name} for name in unknown)],
        arguments=_arguments(arguments),
        seed=seed,
        timeout=timeout,
    )
    if dry_run:
        place = chosen_place(on, workers, seconds=plan.seconds)
        return told([forecast_of(plan, on=place, out=out)])
    inputs = {Path(path).resolve() for path in plan.contents} | {Path(worlds).resolve()}
    for path in (csv, parquet):
        if path is not None:
            if Path(path).resolve() in inputs:
                raise InvalidParameterError(f"{path} is an input of the sweep; name another file")
            check_writable(path)  # before all is measured, which may take long
    place = chosen_place(on, workers, seconds=plan.seconds)
    sweep = Sweep(plan, play(plan, on=place, out=out, progress=progress))
    written: dict[str, str] = {} if out is None else {"run": str(Path(out).resolve())}
    if csv is not None:
        written["csv"] = str(write_csv(sweep, csv).resolve())
    if parquet is not None:
        written["parquet"] = str(write_parquet(sweep, parquet).resolve())
    return Outcome(
        tables=short_tables(sweep), json=sweep.to_json() | written, incomplete=_incomplete(sweep)
    )


def _arguments(texts: Sequence[str]) -> Mapping[str, Any]:
    """The arguments that are spelled as NAME=VALUE, with values of TOML; a bare word is text."""
    out: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (equals and name.strip().isidentifier()):
            raise InvalidParameterError(
                f"--argument is {shown(text)}, expected NAME=VALUE, such as length=[3,4] or "
                f"'seed={{from=0,count=100}}'"
            )
        if name.strip() in out:
            raise InvalidParameterError(
                f"--argument {name.strip()} is given twice; give a list: {name.strip()}=[1,2]"
            )
        try:
            out[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except ValueError:  # no TOML, or a number that is too long
            out[name.strip()] = value
    return out


def _incomplete(sweep: Sweep) -> str:
    """That no row could be measured; "" if one could."""
    failed = sweep.counts[FAILED]
    if failed < len(sweep):
        return ""
    sentence = next(iter(sweep.sentences(FAILED)))
    rows = "the only row" if failed == 1 else f"all {failed} rows"
    return f"{rows} failed, so nothing was measured; most often: {sentence}"
