"""A try from its beginning to its end: faults, the same command again, and what became of it."""

from __future__ import annotations

import errno
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from faults.faults import Injected, Target
from faults.judge import Held, afterwards, at_the_end, held
from faults.kinds import RAY, Kind
from faults.ray_nodes import RayNodes
from faults.running import learnt, left_behind
from faults.schedule import Try
from faults.spoiling import Disk, NoLocks

HANGS, UNEXPLAINED, LEFT = "hangs", "unexplained", "left behind"


@dataclass
class Outcome:
    """What became of a try, or of many.

    Attributes:
        injected: faults that struck, by fault and kind of run.
        tries: by kind of run.
        trials: that the runs hold at their ends, by kind of run.
        wrong: what went wrong, by what and kind of run.
        notes: the same in words, with the number of the try.
    """

    injected: Counter[tuple[str, str]] = field(default_factory=Counter)
    tries: Counter[str] = field(default_factory=Counter)
    trials: Counter[str] = field(default_factory=Counter)
    wrong: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Count another one too."""
        for name in ("injected", "tries", "trials", "wrong"):
            getattr(self, name).update(getattr(other, name))
        self.notes += other.notes


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing disturbed.

    Attributes:
        seconds: that it took, by place.
        writes: calls that wrote below its folder.
        held: what it left.
    """

    seconds: dict[str, float]
    writes: int
    held: Held

    @property
    def largest(self) -> int:
        """Bytes of the largest file that is compared."""
        lines = (sum(map(len, lines)) for lines in self.held.trials.values())
        return max([*lines, *map(len, self.held.files.values())])


class Trier:
    """Runs of some kinds, each tried again and again in folders below one.

    Args:
        folder: for all files.
        nodes: the Ray cluster, for places that use it; or None.
    """

    def __init__(self, folder: Path, nodes: RayNodes | None = None) -> None:
        self._folder = folder
        self._nodes = nodes
        self._undisturbed: dict[str, Undisturbed] = {}

    def undisturbed(self, kind: Kind, outcome: Outcome) -> Undisturbed:
        """The run that a kind's tries are compared with; its places are compared here and now."""
        if kind.name not in self._undisturbed:
            prepared = self._prepared(kind)
            kind.prepare(prepared)
            seconds, every, writes = {}, [], 0
            place = next(iter(kind.places))
            learnt(self._words(kind, place), self._begun(kind, "first"), kind.smaller)
            for place in kind.places:
                folder = self._begun(kind, f"undisturbed, {place}")
                disk = Disk(folder)
                if self._nodes is not None and place == RAY:
                    self._nodes.mend()
                target = Target(self._words(kind, place), folder, 60.0, 0, 0, kind.smaller)
                command = target.start(disk.enter)
                ended = command.ended(target.limit)
                if ended.status != 0:
                    raise RuntimeError(f"{target.words} has no result: {ended.err[-2000:]}")
                seconds[place], writes = command.seconds, disk.asked
                every.append(held(folder, kind.runs, kind.files))
                where = f"{kind.name}: {place} beside {next(iter(kind.places))}"
                _note(outcome, at_the_end(every[-1], every[0]), kind, where)
            self._undisturbed[kind.name] = Undisturbed(seconds, writes, every[0])
        return self._undisturbed[kind.name]

    def make(self, a_try: Try) -> Outcome:
        """Make a try; its folder stays if something went wrong."""
        kind, outcome = a_try.kind, Outcome()
        usual = self.undisturbed(kind, outcome)
        folder = self._begun(kind, f"try {a_try.number}")
        before = held(folder, kind.runs, kind.files)
        story: list[str] = []
        for fault, place in zip(a_try.faults, a_try.places, strict=False):
            target = self._target(a_try, place, folder, usual)
            injected = fault.inject(target, a_try.random)
            story.append(f"{fault.name} ({place}{'' if injected.struck else ', in vain'})")
            outcome.injected[fault.name, kind.name] += injected.struck
            before = self._look(kind, folder, before, injected, outcome, story, a_try)
        target = self._target(a_try, a_try.places[-1], folder, usual)
        command = target.start()
        last = Injected(command, (command.ended(target.limit),), False)
        story.append(f"the same again ({a_try.places[-1]})")
        now = self._look(kind, folder, before, last, outcome, story, a_try)
        words = f"try {a_try.number}, {kind.name}, {', '.join(story)}"
        if last.endings[0].status not in (0, None):
            words = (
                f"try {a_try.number}, {kind.name}, {', '.join(story)}: {last.endings[0].err[-800:]}"
            )
            _note(outcome, {UNEXPLAINED: 1}, kind, words)
        _note(outcome, at_the_end(now, usual.held), kind, f"try {a_try.number}, {', '.join(story)}")
        outcome.tries[kind.name] += 1
        outcome.trials[kind.name] += now.number_of_trials
        if not outcome.wrong:
            shutil.rmtree(folder)
        return outcome

    def _look(
        self,
        kind: Kind,
        folder: Path,
        before: Held,
        injected: Injected,
        outcome: Outcome,
        story: Iterable[str],
        a_try: Try,
    ) -> Held:
        """Judge what a command left when it had ended; what is there now."""
        now = held(folder, kind.runs, kind.files)
        where = f"try {a_try.number}, {kind.name}, {', '.join(story)}"
        told = "\n".join(ended.err for ended in injected.endings)
        _note(outcome, afterwards(before, now, told), kind, where)
        for ended in injected.endings:
            if ended.status is None:
                _note(outcome, {HANGS: 1}, kind, where)
            for complaint in ended.complaints():
                _note(outcome, {UNEXPLAINED: 1}, kind, f"{where}: {complaint}")
        if left := left_behind(injected.command):
            _note(outcome, {LEFT: len(left)}, kind, where)
        return now

    def _target(self, a_try: Try, place: str, folder: Path, usual: Undisturbed) -> Target:
        return Target(
            self._words(a_try.kind, place),
            folder,
            usual.seconds[place],
            usual.writes,
            usual.largest,
            a_try.kind.smaller,
            None if a_try.has_locks else NoLocks(errno.ENOLCK),
            self._nodes if place == RAY else None,
        )

    def _words(self, kind: Kind, place: str) -> tuple[str, ...]:
        address = "" if self._nodes is None else self._nodes.address
        return (*kind.words.split(), *kind.places[place].format(address=address).split())

    def _prepared(self, kind: Kind) -> Path:
        return self._folder / f"{kind.name}, inputs"

    def _begun(self, kind: Kind, name: str) -> Path:
        folder = self._folder / f"{kind.name}, {name}"
        shutil.copytree(self._prepared(kind), folder)
        return folder


def _note(outcome: Outcome, wrong: dict[str, int], kind: Kind, where: str) -> None:
    for name, count in wrong.items():
        if count:
            outcome.wrong[name, kind.name] += count
            outcome.notes.append(f"{name} {count}: {where}")
