"""The runs of Table 1 that a folder holds, as far as they can be used."""

from __future__ import annotations

from pathlib import Path

from goalmeter._errors import InvalidFileError
from goalmeter.experiments.reflection_table_1.compute import run_folder
from goalmeter.reflection import Reflection, Trial
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.plan import DEFAULTS, key, plan_of
from goalmeter.reflection.result import failures_in_words, reflection_of
from goalmeter.runs import read_run

_LEAST = 2  # seeds, for a standard error


def finished(out: Path, agent: str, steps: int, *, partial: bool = False) -> Reflection:
    """The measurement that a run of Table 1 holds.

    Args:
        out: folder that `goalmeter replicate reflection-table-1` was given.
        agent: its name.
        steps: of each trial.
        partial: of a run that is not finished, take the seeds of which every trial is there.

    Raises:
        InvalidFileError: there is no such run, it is another than Table 1 asks for, it is not
            finished, or trials of it ended early.
    """
    folder = run_folder(out, agent, steps)
    run = read_run(folder)
    asked = plan_of(agent, steps, 1, BATTERY, *DEFAULTS).as_json()
    differ = [k for k in {**asked, **run.what} if k != "seeds" and run.what.get(k) != asked.get(k)]
    seeds = run.what.get("seeds")
    if differ or not isinstance(seeds, list):
        raise InvalidFileError(
            f"{folder} is not the run of {agent}, {steps} steps, that Table 1 asks for: "
            f"{', '.join(differ) or 'seeds'} differs"
        )
    names = asked["environments"]
    complete = [s for s in seeds if all(key(name, s) in run.values for name in names)]
    if len(complete) < (_LEAST if partial else len(seeds)):
        wanted = f"at least {_LEAST}" if partial else "all; --partial takes those that are"
        raise InvalidFileError(
            f"{folder}: {len(complete)} of {len(seeds)} seeds are finished, expected {wanted}"
        )
    trials = [Trial.from_json(run.values[key(name, s)]) for s in complete for name in names]
    result = reflection_of(agent, steps, trials, runs=len(names), confidence=0.95)
    if result.failures:
        raise InvalidFileError(f"{folder}: {failures_in_words(result)}")
    return result
