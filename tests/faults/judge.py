"""What a run holds, and what is wrong with it: trials that are lost, doubled, or not the same."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

LOST, DOUBLED, UNEQUAL = "lost", "doubled", "unequal"
# What a run's folder may hold besides: it is told to those who watch, and decides nothing.
_TOLD = re.compile(r": (\d+) of \d+ (?:trials|walks|chunks)\b")
# A walk that failed is kept as a try, beside the walk that is made in its place.
_TRY = re.compile(r", failed [1-9]\d*$")


@dataclass(frozen=True)
class Held:
    """What is on disk at some moment.

    Attributes:
        about: the bytes of each run.json, by the folder of its run.
        trials: the whole lines of each trials.jsonl, by folder.
        files: the bytes of all other files that are compared, by name.
    """

    about: Mapping[str, bytes] = field(default_factory=dict)
    trials: Mapping[str, list[bytes]] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def number_of_trials(self) -> int:
        """Of all runs together."""
        return sum(map(len, self.trials.values()))


def held(folder: Path, runs: Collection[str], files: Collection[str]) -> Held:
    """What a folder holds of some runs, and of files of some patterns."""
    trials = {}
    for run in runs:
        path = folder / run / "trials.jsonl"
        data = path.read_bytes() if path.exists() else b""
        trials[run] = data[: data.rfind(b"\n") + 1].splitlines()
    about = {
        run: path.read_bytes() for run in runs if (path := folder / run / "run.json").is_file()
    }
    listed = {path for pattern in files for path in folder.glob(pattern)}
    rest = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(listed)
        if path.is_file() and not path.name.startswith(".") and path.name != "status.json"
    }
    return Held(about, trials, rest)


def afterwards(before: Held, now: Held, told: str) -> Counter[str]:
    """What went wrong while a command ran: whatever was kept stays, and what it told is kept.

    Args:
        before: what was there when it began.
        now: what is there after it has ended, of itself or not.
        told: its progress.
    """
    wrong = _doubled(now)
    for run, lines in before.trials.items():
        wrong[LOST] += len(set(lines) - set(now.trials[run]))
    counts = [int(number) for number in _TOLD.findall(told)]
    if len(now.trials) == 1 and counts:
        wrong[LOST] += max(0, max(counts) - now.number_of_trials)
    return wrong


def at_the_end(now: Held, expected: Held) -> Counter[str]:
    """What is wrong with a run that is over, beside one that nothing disturbed."""
    wrong = _doubled(now)
    for run, lines in expected.trials.items():
        there, wanted = _by_key(now.trials.get(run, [])), _by_key(lines)
        wrong[LOST] += len(wanted.keys() - there.keys())
        # A fault may fail a walk of a language model, and that is to be on record.
        more = [key for key in there.keys() - wanted.keys() if not _TRY.search(key)]
        wrong[UNEQUAL] += len(more)
        wrong[UNEQUAL] += sum(there[key] != wanted[key] for key in there.keys() & wanted.keys())
    for there_, wanted_ in ((now.about, expected.about), (now.files, expected.files)):
        wrong[LOST] += len(wanted_.keys() - there_.keys())
        wrong[UNEQUAL] += len(there_.keys() - wanted_.keys())
        wrong[UNEQUAL] += sum(
            there_[name] != wanted_[name] for name in there_.keys() & wanted_.keys()
        )
    return wrong


def _doubled(now: Held) -> Counter[str]:
    return Counter(
        {DOUBLED: sum(len(lines) - len(_by_key(lines)) for lines in now.trials.values())}
    )


def _by_key(lines: Collection[bytes]) -> dict[str, bytes]:
    """Lines by the keys of their trials; a line that is none stands for itself."""
    keyed = {}
    for line in lines:
        try:
            keyed[str(json.loads(line)["key"])] = line
        except (ValueError, LookupError, TypeError):
            keyed[repr(line)] = line
    return keyed
