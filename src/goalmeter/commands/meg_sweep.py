"""`goalmeter meg sweep`: MEG of policies × utilities × worlds."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._files import check_writable, parquet_type, require_parquet, write_csv, write_parquet
from goalmeter._options import values_by_name
from goalmeter.commands import declare
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.outcome import Outcome, planned
from goalmeter.meg.sweeps.plan import plan_sweep
from goalmeter.meg.sweeps.sweep import FACTS, FAILED, RESULTS, Sweep, forecast_of, play
from goalmeter.pages.sweep import short_tables

EXAMPLE = "NAME=VALUE, such as length=[3,4] or 'seed={from=0,count=100}'"


def _value(text: str) -> Any:
    return tomllib.loads(f"value = {text}")["value"]


@dataclass(frozen=True, kw_only=True)
class _SweepOptions(declare.RunOptions, declare.SeedOptions):
    worlds: str | Path = argument("SWEEP  TOML file, folder of MDPs, or FILE.py:NAME.", kind=str)
    policies: Sequence[str] = option(
        "--policy POLICY  optimal, uniform, epsilon_greedy(0,0.1), soft_optimal(1), or of a file: "
        "NAME-{world}.npz, FILE.py:NAME.",
        default=(),
    )
    utilities: Sequence[str] = option(
        "--utility UTILITY  reward (the default), an .npz file or FILE.py:NAME.", default=()
    )
    unknown: Sequence[str] = option(
        "CLASS  Best utility of state, state-action, time-state, or features in a file.", default=()
    )
    arguments: Mapping[str, Any] | None = option(
        "--argument NAME=VALUE  Of FILE.py:NAME: a value, a list, or {from=0,count=100}.",
        read=partial(values_by_name, expected=EXAMPLE, read=_value),
    )
    timeout: float | None = declare.search_time("Limit of a row's search, ending with its best.")
    csv: Path | None = option("FILE.csv  A file for all rows.")
    parquet: Path | None = option("FILE.parquet  The same as Parquet; needs pyarrow.")


@command(_SweepOptions)
def sweep_worlds(o: _SweepOptions, tell: Tell) -> Outcome:
    """Measure policies × utilities × worlds, one row each.

    Errors of a world or policy are in its rows; the exit status is 3 if no row could be measured.
    """
    o.place()  # for its errors, before any world is made
    if o.parquet is not None:
        require_parquet()
    plan = plan_sweep(
        o.worlds,
        policies=o.policies,
        utilities=[*o.utilities, *({"unknown": name} for name in o.unknown)],
        arguments=o.arguments or {},
        seed=o.seed,
        timeout=o.timeout,
    )
    place = o.place(seconds=plan.seconds)
    if o.dry_run:
        return planned(forecast_of(plan, on=place, out=o.out))
    inputs = {Path(path).resolve() for path in (*plan.contents, o.worlds)}
    for path in filter(None, (o.csv, o.parquet)):
        if Path(path).resolve() in inputs:
            raise InvalidParameterError(f"{path} is an input of the sweep; name another file")
        check_writable(path)  # before all is measured, which may take long
    sweep = play(plan, on=place, out=o.out, progress=tell)
    json = sweep.to_json()
    if o.out is not None:
        json["run"] = str(Path(o.out).resolve())
    for name, write in (("csv", write_csv), ("parquet", write_parquet)):
        if (path := getattr(o, name)) is not None:
            json[name] = str(write(path, _column_types(sweep), sweep.records()).resolve())
    incomplete = ""
    if (failed := sweep.counts[FAILED]) == len(sweep):
        rows = "the only row" if failed == 1 else f"all {failed} rows"
        sentence = next(iter(sweep.sentences(FAILED)))
        incomplete = f"{rows} failed, so nothing was measured; most often: {sentence}"
    return Outcome(tables=short_tables(sweep), json=json, incomplete=incomplete)


def _column_types(sweep: Sweep) -> dict[str, str]:
    types = dict.fromkeys(sweep.columns, "string") | dict.fromkeys(("row", *FACTS), "int64")
    types |= dict.fromkeys(("discount", *RESULTS), "double")
    return types | {name: parquet_type(values) for name, values in sweep.arguments.items()}
