"""What a run folder of reflection holds, checked field by field when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_SEED
from goalmeter._errors import InvalidFileError
from goalmeter.reflection.arguments import MOST_ENVIRONMENTS, MOST_SEEDS, MOST_STEPS, MOST_TRIALS
from goalmeter.reflection.environments.opposite import READINGS
from goalmeter.reflection.environments.registry import opposite
from goalmeter.reflection.plan import KIND, key
from goalmeter.reflection.trial import COUNTINGS, Trial
from goalmeter.runs.checks import check_record, is_whole, listed, text, whole, word
from goalmeter.runs.reading import RUN, TRIALS, another_kind

_RUN = {
    "kind": word(KIND),
    "agent": text(empty=False),
    "steps": whole(1, MOST_STEPS),
    "seeds": listed("seeds", lambda seed: is_whole(seed, 0, MOST_SEED), least=1, most=MOST_SEEDS),
    "environments": listed(
        "names", lambda name: isinstance(name, str), least=1, most=2 * MOST_ENVIRONMENTS
    ),
    "opposite_reading": word(*READINGS),
    "step_counting": word(*COUNTINGS, required=False),
}


def check_what(what: Mapping[str, Any], folder: str | Path) -> None:
    """Refuse what is no description of a reflection run.

    Raises:
        InvalidFileError: the run is of another kind, or its run.json was edited.
    """
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    where = f"{Path(folder) / RUN}"
    check_record(what, _RUN, where, others=True)  # others: digests of users' files
    trials = len(what["seeds"]) * len(what["environments"])
    if trials > MOST_TRIALS:
        raise InvalidFileError(
            f"{where}: seeds and environments make {trials} trials, expected at most {MOST_TRIALS}"
        )


def trial_of(
    value: Any, name: str, seed: int, steps: int, folder: str | Path, line: int | None
) -> Trial:
    """The trial that a line of a run holds.

    Args:
        value: the line's.
        name: of the environment, or of its opposite, that its key names.
        seed: that its key names.
        steps: of the run.
        folder: of the run.
        line: number of the line, where it is known.

    Raises:
        InvalidFileError: it is no trial, or not the one that its key names.
    """
    where = f"{Path(folder) / TRIALS}" + (f", line {line}" if line is not None else "")
    trial = Trial.from_json(value, where)
    named = opposite(trial.environment) if trial.opposite else trial.environment
    if (named, trial.seed, trial.steps) != (name, seed, steps):
        raise InvalidFileError(
            f"{where}: the trial is of {key(named, trial.seed)}, {trial.steps} steps, expected "
            f"{key(name, seed)}, {steps} steps, as its key has it; remove that line and its trial "
            f"is played again"
        )
    return trial
