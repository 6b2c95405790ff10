"""A sweep as a study: its chunks measured here or anywhere, kept or not, and read back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError
from goalmeter.meg.sweeps.columns import FAILED, Columns, columns_from_json, columns_of, failed
from goalmeter.meg.sweeps.plan import KIND, SweepPlan, plan_of
from goalmeter.runs import JobResult, StoredRun, Study, carry_out, read_run, stored_results
from goalmeter.runs.jobs import REFUSED
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import RUN, another_kind


def study_of(plan: SweepPlan) -> Study[Columns]:
    """The study of a plan: a trial is a chunk of rows."""
    chunks = {chunk.key: chunk for chunk in plan.chunks}

    def shape(key: str) -> dict[str, int]:
        return {"rows": chunks[key].rows, "worlds": len(plan.part(chunks[key])[0])}

    def lost(key: str, result: JobResult) -> Columns:
        if result.outcome == REFUSED:
            # A file has changed: what is kept is of the old one, and all to come of the new.
            raise result.refusal()
        sentence = f"the process that measured it ended with {result.outcome}: {result.detail}"
        of = shape(key)
        return columns_of([None] * of["worlds"], [failed(sentence)] * of["rows"])

    return Study(
        KIND,
        "goalmeter.meg.sweeps.chunk:measure",
        {key: plan.arguments(chunk) for key, chunk in chunks.items()},
        common=plan.common(),
        noun="chunk",
        what=plan.to_json(),
        from_json=lambda key, value: columns_from_json(value, **shape(key)),
        to_json=Columns.to_json,
        is_failure=lambda columns: FAILED[0] in columns.record["status"],
        instead=lost,
    )


def play(
    plan: SweepPlan, *, on: str, out: str | Path | None, progress: Tell | None
) -> list[Columns]:
    """The columns of every chunk, in order; see `runs.carry_out`."""
    return list(carry_out(study_of(plan), on=on, out=out, progress=progress).values())


def stored(folder: str | Path) -> tuple[SweepPlan, list[Columns]]:
    """The plan and the columns of a finished run."""
    run = read_run(folder)
    plan = stored_plan(run.what, folder)
    return plan, list(stored_results(run, _to_read(plan, run)).values())


def stored_plan(what: Mapping[str, Any], folder: str | Path) -> SweepPlan:
    """The plan that a run is of, as its run.json has it."""
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    try:
        return plan_of(what)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as cause:
        raise InvalidFileError(
            f"{Path(folder) / RUN} is of no sweep: {cause}; restore it, or begin again in another "
            f"folder"
        ) from cause


def _to_read(plan: SweepPlan, run: StoredRun) -> Study[Columns]:
    """The study of a run as far as its chunks can be read: its files may be gone."""
    chunks = {chunk.key: chunk for chunk in plan.chunks}

    def read(key: str, value: Any) -> Columns:
        worlds, _ = plan.part(chunks[key])
        return columns_from_json(value, rows=chunks[key].rows, worlds=len(worlds))

    return Study(KIND, "", {key: {} for key in chunks}, noun="chunk", what=run.what, from_json=read)
