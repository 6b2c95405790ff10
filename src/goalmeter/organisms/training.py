"""Train an organism: recipes, distributed workers and the training loop."""

from __future__ import annotations

import math
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goalmeter._errors import GoalmeterError, InvalidParameterError, in_a_line, require, whole
from goalmeter._files import locked
from goalmeter._names import did_you_mean
from goalmeter._options import option
from goalmeter.organisms.kinds import MANIFEST, organism, organism_names, weights_of
from goalmeter.organisms.lessons import IDS, PAD, PLAN, SIZES, WAYS, Lesson, batch, syllabus
from goalmeter.organisms.network import (
    CHECKPOINT,
    SETTINGS,
    claim,
    new_network,
    read_network,
    read_settings,
    resume,
    save,
    write_network,
)
from goalmeter.runs.progress import FINISHED, Progress, reporting_status
from goalmeter.runs.reading import STATUS
from goalmeter.runs.status import INCOMPLETE, RunStatus

if TYPE_CHECKING:
    import torch


NOTHING = "nothing"
_MOST = 2**63 - 1  # the largest seed that torch's generator takes
# Steps of warming up, and the share of a round in which the rate falls to nothing.
_WARM, _COOLING = 100, 0.4


@dataclass(frozen=True)
class Settings:
    """Settings of a training; the same settings on the same machine train the same weights."""

    name: str  # of the organism
    # Of each: its steps, and Muon's learning rate after warming up, before cooling down.
    rounds: tuple[tuple[int, float], ...] = ((3200, 0.02),)
    words: int = 2600  # of a batch, about
    seed: int = option("Seed of everything random.", default=0, least=0, most=_MOST)
    begin_with: str = option(
        "--from  Organism or folder of its first weights, or nothing; default as in the recipe.",
        default=NOTHING,
    )
    sizes: tuple[int, ...] = option("5,7  Sizes of grids.", default=SIZES, commas=True)
    keys: bool = option("--keys/--no-keys  Worlds with keys too, the default.", default=True)

    def __post_init__(self) -> None:
        organism(self.name)
        syllabus(self.sizes)
        if not self.rounds:
            raise InvalidParameterError("rounds is empty, expected at least one")
        for steps, rate in self.rounds:
            whole(steps, "steps", least=1, most=_MOST)
            if not (0 < rate < math.inf):
                raise InvalidParameterError(f"rate is {rate!r}, expected a positive number")
        whole(self.words, "words", least=1, most=_MOST)
        whole(self.seed, "seed", least=0, most=_MOST)

    @property
    def steps(self) -> int:
        """Number of steps of all rounds."""
        return sum(steps for steps, _ in self.rounds)

    def rate(self, step: int) -> float:
        """Return Muon's learning rate at a step, counted from 0 through all rounds."""
        for steps, rate in self.rounds:
            if step < steps:
                warm, cool = (step + 1) / _WARM, (1 - step / steps) / _COOLING
                return rate * min(1.0, warm) * min(1.0, cool)
            step -= steps
        raise IndexError(f"there are {self.steps} steps")


# The others begin with the mouse's weights. The magpie and the mole search as it does, for another
# target or on another map. The moth looks up the ways from its cell, which is learnt slowly by
# answers that look up nothing else: after 450 steps from nothing it knew a quarter of its moves.
RECIPES: dict[str, Settings] = {
    settings.name: settings
    for settings in (
        Settings("mouse", rounds=((8000, 0.02),)),
        Settings("magpie", rounds=((1200, 0.01),), begin_with="mouse"),
        Settings("mole", rounds=((700, 0.01),), begin_with="mouse"),
        Settings("moth", rounds=((700, 0.01),), begin_with="mouse"),
    )
}


def recipe(
    name: str, *, steps: int | None = None, rate: float | None = None, **changes: Any
) -> Settings:
    """Return the settings that an organism was trained with, or with changes.

    A recipe may have several rounds with rates of their own; `steps` and `rate` describe one.
    """
    usual = RECIPES[organism(name).name]
    if steps is not None or rate is not None:
        rate = usual.rounds[0][1] if rate is None else rate
        changes["rounds"] = ((usual.steps if steps is None else steps, rate),)
    return replace(usual, **changes)


def training_status(folder: Path) -> RunStatus | None:
    """Return the status of a training whose driver left none; None for any other folder."""
    if (folder / STATUS).exists() or not (folder / SETTINGS).is_file():
        return None
    state, sentence = INCOMPLETE, "nobody trains it"
    # A training that is over keeps its weights and nothing that is said of a machine.
    if (folder / MANIFEST).exists():
        state, sentence = FINISHED, "it is finished: its weights are there"
    name = str(read_settings(folder).get("name"))
    return RunStatus(str(folder), state, sentence, kind="steps", agent=name)


@dataclass(frozen=True)
class Team:
    """One process of the one or two of a training."""

    rank: int = 0  # its number, 0 or 1
    # To the other one. The system closes the end of a process that is killed, and the process at
    # the other end gets an error; a lock would stay locked.
    pipe: Connection | None = None

    @property
    def workers(self) -> int:
        """Number of processes."""
        return 1 if self.pipe is None else 2

    def add_up(self, model: Any) -> None:
        """Make the gradients of the model the sum of those in all processes."""
        import torch

        mine = [weights.grad for weights in model.parameters()]
        total = self._summed(torch.cat([gradient.flatten() for gradient in mine]).cpu())
        parts = torch.split(total, [gradient.numel() for gradient in mine])
        for gradient, part in zip(mine, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def wait(self) -> None:
        """Wait until all processes have come as far as this."""
        import torch

        self._summed(torch.zeros(1))

    def _summed(self, numbers: torch.Tensor) -> torch.Tensor:
        """The first process adds up and sends the sum, so all weights stay equal bit by bit."""
        if self.pipe is None:
            return numbers
        other = numbers.clone()
        try:
            if self.rank:
                self.pipe.send_bytes(numbers.numpy().data)
                self.pipe.recv_bytes_into(other.numpy())
                return other
            self.pipe.recv_bytes_into(other.numpy())
            other += numbers
            self.pipe.send_bytes(other.numpy().data)
            return other
        except (EOFError, OSError) as cause:
            raise GoalmeterError(
                f"one of the {self.workers} processes of the training has stopped, maybe for "
                f"want of memory. The same command goes on from the last checkpoint"
            ) from cause


def in_team(
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    *,
    workers: int,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Do work in one or two processes, this one among them, and wait for both.

    The work takes the arguments, its `Team`, and the callback in this process, which has rank 0.
    """
    if workers == 1:
        work(*arguments, Team(), progress)
        return
    import torch

    spawn = get_context("spawn")
    mine, end = spawn.Pipe()
    helper = spawn.Process(target=_help, args=(work, arguments, Team(1, end)), daemon=True)
    threads = torch.get_num_threads()
    # Threads of several processes would get in each other's way.
    torch.set_num_threads(max(1, threads // workers))
    try:
        resource_tracker.ensure_running()  # which would unblock the signal when it starts
        # Ctrl-C reaches all processes of a terminal; the first one ends the other.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            helper.start()
            end.close()  # while it is open here too, the helper's death is not seen
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        work(*arguments, Team(0, mine), progress)
    except BaseException:
        if helper.pid:
            helper.kill()
        raise
    finally:
        if helper.pid:
            helper.join()
        torch.set_num_threads(threads)


def _help(work: Callable[..., None], arguments: tuple[Any, ...], team: Team) -> None:
    import torch

    torch.set_num_threads(max(1, torch.get_num_threads() // team.workers))
    try:
        work(*arguments, team, None)
    except GoalmeterError:
        # The first process meets the same, or that this one has stopped, and says so.
        sys.exit(1)


_FEATURE = "Training an organism"
_ELSEWHERE = "choose another folder (--out)"
# Matrices learn by Muon, which here needs half the lessons that AdamW does; the rest by AdamW,
# whose rate is this share of Muon's.
_SHARE, _BETAS, _DECAY, _GRADIENT = 0.15, (0.9, 0.98), 0.01, 1.0
# Seconds between checkpoints, and between lines of progress.
_SAVE_EVERY, _TELL_EVERY = 120.0, 20.0
# What a word counts from the plan on, and one that says whether a cell has neighbours that are new:
# no other word of a search takes so long to learn.
_OF_PLAN, _OF_NEWS = 4.0, 3.0
# Batches of a step: each is of one kind of world, and a step is steadier for having several.
_BATCHES = 2


def train(
    settings: Settings,
    folder: str | Path,
    *,
    device: str | None = None,
    workers: int = 1,
    until: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Train an organism, or go on where its training stopped; return the folder of its weights.

    With two `workers`, processes, the weights are the same. (The second is started afresh: a script
    that is run needs its `if __name__ == "__main__":`.) `until` is the step to stop at.
    """
    torch = require("torch", extra="lm", feature=_FEATURE)
    if not 1 <= workers <= _BATCHES:
        raise InvalidParameterError(
            f"workers is {workers}, expected from 1 to {_BATCHES}: a step has {_BATCHES} batches"
        )
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except Exception as cause:  # torch has a class of errors for each kind of device
        raise InvalidParameterError(
            f"device is {device!r}, which cannot be used: {in_a_line(cause)}"
        ) from cause
    place = Path(folder)
    if claim(place, asdict(settings)):
        return place
    # Two that write one checkpoint would leave neither of them.
    with locked(place, _ELSEWHERE):
        # Another process may have ended it meanwhile.
        if not claim(place, asdict(settings)):
            end = settings.steps if until is None else min(until, settings.steps)
            arguments = (settings, place, device, end)
            in_team(_learn, arguments, workers=workers, progress=progress)
    return place


def _learn(
    settings: Settings,
    place: Path,
    device: str,
    end: int,
    team: Team,
    progress: Callable[[str], None] | None,
) -> None:
    """Take this process's batches of the steps of a training; the first process stores it."""
    import torch

    begin = settings.begin_with
    fresh = new_network(settings.seed) if begin == NOTHING else read_network(_weights(begin))
    model = fresh.to(device).train()
    model.set_attn_implementation("eager")  # on a processor faster than the fused one
    optimizers = _optimizers(model)
    done = resume(place / CHECKPOINT, model, optimizers)
    # If all steps are done, the first one removes the checkpoint, which every process has to read.
    team.wait()
    learner, kinds = organism(settings.name), syllabus(settings.sizes, keys=settings.keys)
    asked: dict[str, Any] = {"kinds": kinds, "seed": settings.seed, "words": settings.words}
    last = saved = begun = time.monotonic()
    losses: list[float] = []
    counted = Progress(settings.name, "step", settings.steps, done, 0, None)
    with reporting_status(place, counted) if team.rank == 0 else nullcontext():
        for step in range(done, end):
            rate = settings.rate(step)
            model.zero_grad(set_to_none=True)
            for number in range(step * _BATCHES + team.rank, (step + 1) * _BATCHES, team.workers):
                lessons = batch(learner, number, **asked)
                loss: Any = loss_of(model, lessons) / _BATCHES
                loss.backward()
                losses.append(_BATCHES * loss.item())
            team.add_up(model)
            torch.nn.utils.clip_grad_norm_(model.parameters(), _GRADIENT)
            for optimizer, part_of_rate in zip(optimizers, (1.0, _SHARE), strict=True):
                for group in optimizer.param_groups:
                    group["lr"] = rate * part_of_rate
                optimizer.step()
            now = time.monotonic()
            if progress and now - last > _TELL_EVERY:
                left = (now - begun) / (step + 1 - done) * (settings.steps - step - 1)
                mean = sum(losses) / len(losses)
                progress(
                    f"{settings.name}: step {step + 1} of {settings.steps}, loss {mean:.4f}, "
                    f"{left / 60:.0f} min left"
                )
                last, losses = now, []
            if team.rank == 0 and now - saved > _SAVE_EVERY:
                save(place / CHECKPOINT, model, optimizers, step + 1)
                saved = now
            counted.ended()
    if team.rank > 0:
        return
    if end < settings.steps:
        save(place / CHECKPOINT, model, optimizers, max(done, end))
    else:
        write_network(model.eval(), place)
        (place / CHECKPOINT).unlink(missing_ok=True)
        # Weights are passed on, and whoever gets them has no use for the name of a machine.
        (place / STATUS).unlink(missing_ok=True)


def _weights(name: str) -> Path:
    if name in organism_names():
        return weights_of(name)
    hint = did_you_mean(name, (*organism_names(), NOTHING))
    if hint and not Path(name).exists():
        raise InvalidParameterError(f"there is no folder {name!r} to begin with{hint}")
    return Path(name)


def loss_of(model: Any, lessons: Sequence[Lesson]) -> torch.Tensor:
    """Return the mean cross-entropy of the words of the answers, weighted, in nats."""
    import torch

    cache = require("transformers", extra="lm", feature=_FEATURE).DynamicCache
    device = model.device
    maps = torch.tensor([lesson.map for lesson in lessons], device=device)
    pairs = [pair for lesson in lessons for pair in lesson.questions]
    # Some words count several times: those from the plan on, for they are few and what is done
    # hangs on them, and those after the ways from a cell.
    longest = max(len(question) + len(answer) for question, answer in pairs)
    ways = {IDS[word] for word in WAYS}
    rows, marks, worths = [], [], []
    for question, answer in pairs:
        padding = longest - len(question) - len(answer)
        search_ends = len(question) + answer.index(IDS[PLAN])
        texts = (*question, *answer)
        after = [_OF_NEWS if word in ways else 1.0 for word in texts[: search_ends - 1]]
        worths.append([1.0, *after, *[_OF_PLAN] * (longest - search_ends)])
        rows.append([*texts, *[IDS[PAD]] * padding])
        marks.append([*[False] * len(question), *[True] * len(answer), *[False] * padding])
    words = torch.tensor(rows, device=device)[:, :-1]
    counted = torch.tensor(marks, device=device)[:, 1:]
    worth = torch.tensor(worths, device=device)[:, 1:][counted]
    # Where a word was drawn, what is learnt is the distribution that it was drawn from, which is
    # all that could have been said, without the noise of the draw. Row after row, as the marks pick
    # them.
    could = [
        drawn.get(place, {word: 1.0})
        for lesson in lessons
        for (_, answer), drawn in zip(lesson.questions, lesson.drawn, strict=True)
        for place, word in enumerate(answer)
    ]
    most = max(map(len, could))
    # Padded by words of probability 0.
    wanted = torch.tensor([[*p, *[0] * (most - len(p))] for p in could], device=device)
    shares = torch.tensor([[*p.values(), *[0.0] * (most - len(p))] for p in could], device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=_has_bfloat16(device)):
        # Every map is read once; the questions about it go on from there.
        read = model.model(
            input_ids=maps, past_key_values=cache(config=model.config), use_cache=True
        ).past_key_values
        read.batch_repeat_interleave(len(lessons[0].questions))
        hidden = model.model(input_ids=words, past_key_values=read, use_cache=True)
        # The vocabulary is wider than the hidden states: logits are made only where a word counts.
        logits = model.lm_head(hidden.last_hidden_state[counted])
    surprise = -(logits.float().log_softmax(dim=1).gather(1, wanted) * shares).sum(dim=1)
    mean: torch.Tensor = (surprise * worth).sum() / worth.sum()
    return mean


def _has_bfloat16(device: torch.device) -> bool:
    """A processor without bfloat16 emulates it, and single precision is forty times faster."""
    import torch

    return device.type != "cpu" or torch.cpu._is_avx512_bf16_supported()


def _optimizers(model: Any) -> list[torch.optim.Optimizer]:
    """Muon for the matrices between layers, AdamW for all other weights."""
    import torch

    inner = [w for name, w in model.named_parameters() if w.ndim == 2 and ".layers." in name]
    ids = {id(weights) for weights in inner}
    outer = [weights for weights in model.parameters() if id(weights) not in ids]
    return [
        torch.optim.Muon(inner, weight_decay=_DECAY),
        torch.optim.AdamW(outer, betas=_BETAS, weight_decay=0.0),
    ]
