"""What a run folder of reflection holds, checked field by field when it is read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from goalmeter._arguments import MOST_SEED
from goalmeter._errors import InvalidFileError
from goalmeter.reflection.arguments import MOST_ENVIRONMENTS, MOST_SEEDS, MOST_STEPS, MOST_TRIALS
from goalmeter.reflection.environments.opposite import READINGS
from goalmeter.reflection.environments.registry import opposite
from goalmeter.reflection.plan import KIND, key
from goalmeter.reflection.trial import COUNTINGS, Trial
from goalmeter.runs import Study
from goalmeter.runs.checks import check_record, is_whole, listed, text, whole, word
from goalmeter.runs.reading import RUN, another_kind

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
    """Raises if a run is not described as one of reflection.

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


def stored_study(what: Mapping[str, Any]) -> Study[Trial]:
    """The study that a run is of, as far as its trials can be read.

    Nothing is looked up by the names in it, since users' files may be gone.
    """
    keys = [key(name, seed) for seed in what["seeds"] for name in what["environments"]]
    return Study(
        what["agent"],
        "goalmeter.reflection.named_trial:play",
        {kept_as: {} for kept_as in keys},
        what=what,
        from_json=partial(trial_of, steps=what["steps"]),
    )


def trial_of(kept_as: str, value: Any, *, steps: int) -> Trial:
    """The trial that a line of a run holds.

    Args:
        kept_as: the line's key.
        value: the line's.
        steps: of the run.

    Raises:
        InvalidFileError: it is no trial, or not the one that its key names.
    """
    trial = Trial.from_json(value)
    named = key(opposite(trial.environment) if trial.opposite else trial.environment, trial.seed)
    if (named, trial.steps) != (kept_as, steps):
        raise InvalidFileError(
            f"it is of {named}, {trial.steps} steps, expected {kept_as}, {steps} steps, as its key "
            f"has it"
        )
    return trial
