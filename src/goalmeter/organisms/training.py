"""Train organisms: recipes, worker processes and the training loop."""

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
from goalmeter.organisms.lessons import (
    IDS,
    LARGE_SIZES,
    PAD,
    PLAN,
    SIZES,
    SMALL_VOCABULARY,
    VOCABULARY,
    WAYS,
    Lesson,
    batch,
    syllabus,
)
from goalmeter.organisms.network import (
    CHECKPOINT,
    SETTINGS,
    claim,
    new_network,
    read_network,
    read_settings,
    resume,
    save,
    with_vocabulary,
    write_network,
)
from goalmeter.runs.progress import FINISHED, Progress, reporting_status
from goalmeter.runs.reading import STATUS
from goalmeter.runs.status import INCOMPLETE, RunStatus

if TYPE_CHECKING:
    import torch


NOTHING = "nothing"
_MOST = 2**63 - 1  # largest seed of torch's generator
# Warm-up steps, and the share of a round in which the learning rate decays to 0.
_WARMUP, _DECAY_SHARE = 100, 0.4


@dataclass(frozen=True)
class Settings:
    """Settings of a training; on one machine equal settings give equal weights."""

    name: str  # name of the organism
    # Steps of each round, and Muon's learning rate after the warm-up and before the decay.
    rounds: tuple[tuple[int, float], ...] = ((3200, 0.02),)
    words: int = option("Words of a batch, about; default as in the recipe.", default=2600, least=1)
    seed: int = option("Seed of everything random.", default=0, least=0, most=_MOST)
    begin_with: str = option(
        "--from  Organism or folder of the initial weights, or nothing; default as in the recipe.",
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
        """Total number of steps."""
        return sum(steps for steps, _ in self.rounds)

    def rate(self, step: int) -> float:
        """Return Muon's learning rate at a step, counted from 0 over all rounds."""
        for steps, rate in self.rounds:
            if step < steps:
                warmup, decay = (step + 1) / _WARMUP, (1 - step / steps) / _DECAY_SHARE
                return rate * min(1.0, warmup) * min(1.0, decay)
            step -= steps
        raise IndexError(f"there are {self.steps} steps")


# The others start from the mouse's weights. The magpie and the mole use the same search, with
# another target or map. The moth looks up the moves of its cell, which is learnt slowly from its
# short answers: after 450 steps from random weights a quarter of its moves were correct.
RECIPES: dict[str, Settings] = {
    settings.name: settings
    for settings in (
        Settings("mouse", rounds=((5400, 0.02),), words=10400),
        Settings("magpie", rounds=((1200, 0.01),), words=5200, begin_with="mouse"),
        Settings("mole", rounds=((700, 0.01),), words=5200, begin_with="mouse"),
        Settings("moth", rounds=((700, 0.01),), words=5200, begin_with="mouse"),
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
    state, sentence = INCOMPLETE, "not running"
    # A training that is over keeps its weights and nothing that is said of a machine.
    if (folder / MANIFEST).exists():
        state, sentence = FINISHED, "finished; the weights are complete"
    name = str(read_settings(folder).get("name"))
    return RunStatus(str(folder), state, sentence, kind="steps", agent=name)


@dataclass(frozen=True)
class Team:
    """Communication of one of the one or two processes of a training."""

    rank: int = 0  # number of this process, 0 or 1
    # Connection to the other process. If that is killed, the system closes the pipe and this
    # process gets an error; a lock would stay locked.
    pipe: Connection | None = None

    @property
    def workers(self) -> int:
        """Number of processes."""
        return 1 if self.pipe is None else 2

    def add_up(self, model: Any) -> None:
        """Replace the gradients of the model by their sum over all processes."""
        import torch

        gradients = [weights.grad for weights in model.parameters()]
        total = self._sum(torch.cat([gradient.flatten() for gradient in gradients]).cpu())
        parts = torch.split(total, [gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def wait(self) -> None:
        """Wait for all processes (barrier)."""
        import torch

        self._sum(torch.zeros(1))

    def _sum(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return the sum over processes, computed in one so that all have identical weights."""
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
                f"one of the {self.workers} processes of the training has stopped, possibly out "
                f"of memory; repeat the command to resume from the last checkpoint"
            ) from cause


def in_team(
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    *,
    workers: int,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Call `work` in one or two processes, including this one, and wait for both.

    `work` takes the arguments, its `Team`, and the callback (in this process, which has rank 0).
    """
    if workers == 1:
        work(*arguments, Team(), progress)
        return
    import torch

    spawn = get_context("spawn")
    mine, end = spawn.Pipe()
    helper = spawn.Process(target=_help, args=(work, arguments, Team(1, end)), daemon=True)
    threads = torch.get_num_threads()
    # The processes share the threads.
    torch.set_num_threads(max(1, threads // workers))
    try:
        resource_tracker.ensure_running()  # starting it later would unblock the signal
        # Ctrl-C reaches all processes of a terminal; only the first process handles it.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            helper.start()
            end.close()  # the end of the helper is only detected if this copy is closed
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
        # The first process reports the same error, or that this process has stopped.
        sys.exit(1)


_FEATURE = "Training an organism"
_OTHER_FOLDER = "choose another folder (--out)"
# Matrices are trained by Muon, which needs half as many lessons as AdamW here; other weights by
# AdamW, with this share of Muon's learning rate.
_ADAMW_SHARE, _BETAS, _WEIGHT_DECAY, _MAX_GRADIENT = 0.15, (0.9, 0.98), 0.01, 1.0
# Seconds between checkpoints, and between progress messages.
_SAVE_EVERY, _REPORT_EVERY = 120.0, 20.0
# Weights in the loss of words from the plan on, and of words after moves, which show whether a cell
# has new neighbours and take longer to learn than all other words of a search.
_PLAN_WEIGHT, _NEW_WEIGHT = 4.0, 3.0
# Batches per step; each has one kind of world, and several reduce the variance of a step.
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
    """Train an organism, or resume its training, and return the folder of its weights.

    The weights do not depend on the number of `workers` (processes, 1 or 2). The second worker is
    spawned, so scripts need `if __name__ == "__main__":`. `until` is the step to stop at.
    """
    torch = require("torch", extra="lm", feature=_FEATURE)
    if not 1 <= workers <= _BATCHES:
        raise InvalidParameterError(
            f"workers is {workers}, expected 1 to {_BATCHES}, the number of batches of a step"
        )
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=device)
    except Exception as cause:  # the class of the error depends on the device
        raise InvalidParameterError(
            f"device {device!r} is not available: {in_a_line(cause)}"
        ) from cause
    place = Path(folder)
    if claim(place, asdict(settings)):
        return place
    # The lock prevents two trainings from overwriting one checkpoint.
    with locked(place, _OTHER_FOLDER):
        # Another process may have finished the training in the meantime.
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
    """Train on this process's batches; the first process writes checkpoints and weights."""
    import torch

    begin = settings.begin_with
    large = set(settings.sizes) & set(LARGE_SIZES)
    words = len(VOCABULARY) if large else SMALL_VOCABULARY
    if begin == NOTHING:
        initial = new_network(settings.seed, words)
    else:
        initial = with_vocabulary(read_network(_weights(begin)), words, settings.seed)
    model = initial.to(device).train()
    model.set_attn_implementation("eager")  # faster than the fused implementation on a CPU
    optimizers = _optimizers(model)
    done = resume(place / CHECKPOINT, model, optimizers)
    # All processes must read the checkpoint before the first one removes it at the end.
    team.wait()
    learner, kinds = organism(settings.name), syllabus(settings.sizes, keys=settings.keys)
    options: dict[str, Any] = {"kinds": kinds, "seed": settings.seed, "words": settings.words}
    last = saved = start = time.monotonic()
    losses: list[float] = []
    status = Progress(settings.name, "step", settings.steps, done, 0, None)
    with reporting_status(place, status) if team.rank == 0 else nullcontext():
        for step in range(done, end):
            rate = settings.rate(step)
            model.zero_grad(set_to_none=True)
            for number in range(step * _BATCHES + team.rank, (step + 1) * _BATCHES, team.workers):
                lessons = batch(learner, number, **options)
                loss: Any = loss_of(model, lessons) / _BATCHES
                loss.backward()
                losses.append(_BATCHES * loss.item())
            team.add_up(model)
            torch.nn.utils.clip_grad_norm_(model.parameters(), _MAX_GRADIENT)
            for optimizer, share in zip(optimizers, (1.0, _ADAMW_SHARE), strict=True):
                for group in optimizer.param_groups:
                    group["lr"] = rate * share
                optimizer.step()
            now = time.monotonic()
            if progress and now - last > _REPORT_EVERY:
                left = (now - start) / (step + 1 - done) * (settings.steps - step - 1)
                mean = sum(losses) / len(losses)
                progress(
                    f"{settings.name}: step {step + 1} of {settings.steps}, loss {mean:.4f}, "
                    f"{left / 60:.0f} min left"
                )
                last, losses = now, []
            if team.rank == 0 and now - saved > _SAVE_EVERY:
                save(place / CHECKPOINT, model, optimizers, step + 1)
                saved = now
            status.ended()
    if team.rank > 0:
        return
    if end < settings.steps:
        save(place / CHECKPOINT, model, optimizers, max(done, end))
    else:
        write_network(model.eval(), place)
        (place / CHECKPOINT).unlink(missing_ok=True)
        # The status contains the name of the machine, which should not be shared with weights.
        (place / STATUS).unlink(missing_ok=True)


def _weights(name: str) -> Path:
    if name in organism_names():
        return weights_of(name)
    hint = did_you_mean(name, (*organism_names(), NOTHING))
    if hint and not Path(name).exists():
        raise InvalidParameterError(f"there is no folder {name!r} with initial weights{hint}")
    return Path(name)


def loss_of(model: Any, lessons: Sequence[Lesson]) -> torch.Tensor:
    """Return the weighted mean cross-entropy of the words of the answers, in nats."""
    import torch

    cache = require("transformers", extra="lm", feature=_FEATURE).DynamicCache
    device = model.device
    maps = torch.tensor([lesson.map for lesson in lessons], device=device)
    pairs = [pair for lesson in lessons for pair in lesson.questions]
    # Some words have larger weights: words from the plan on, which are few and determine the
    # action, and words after the moves of a cell.
    longest = max(len(question) + len(answer) for question, answer in pairs)
    moves = {IDS[word] for word in WAYS}
    rows, masks, weights = [], [], []
    for question, answer in pairs:
        padding = longest - len(question) - len(answer)
        search_ends = len(question) + answer.index(IDS[PLAN])
        texts = (*question, *answer)
        after = [_NEW_WEIGHT if word in moves else 1.0 for word in texts[: search_ends - 1]]
        weights.append([1.0, *after, *[_PLAN_WEIGHT] * (longest - search_ends)])
        rows.append([*texts, *[IDS[PAD]] * padding])
        masks.append([*[False] * len(question), *[True] * len(answer), *[False] * padding])
    words = torch.tensor(rows, device=device)[:, :-1]
    mask = torch.tensor(masks, device=device)[:, 1:]
    weight = torch.tensor(weights, device=device)[:, 1:][mask]
    # The targets of random words are the distributions that they were drawn from, which removes the
    # noise of the draws. They are listed row by row, in the order of the mask.
    alternatives = [
        drawn.get(place, {word: 1.0})
        for lesson in lessons
        for (_, answer), drawn in zip(lesson.questions, lesson.drawn, strict=True)
        for place, word in enumerate(answer)
    ]
    most = max(map(len, alternatives))
    # Rows are padded with words of probability 0.
    targets = torch.tensor([[*p, *[0] * (most - len(p))] for p in alternatives], device=device)
    padded = [[*p.values(), *[0.0] * (most - len(p))] for p in alternatives]
    shares = torch.tensor(padded, device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=_has_bfloat16(device)):
        # Each map is processed once for all its questions.
        state = model.model(
            input_ids=maps, past_key_values=cache(config=model.config), use_cache=True
        ).past_key_values
        state.batch_repeat_interleave(len(lessons[0].questions))
        hidden = model.model(input_ids=words, past_key_values=state, use_cache=True)
        # Logits are larger than hidden states, so they are computed at masked words only.
        logits = model.lm_head(hidden.last_hidden_state[mask])
    loss = -(logits.float().log_softmax(dim=1).gather(1, targets) * shares).sum(dim=1)
    mean: torch.Tensor = (loss * weight).sum() / weight.sum()
    return mean


def _has_bfloat16(device: torch.device) -> bool:
    """Return whether bfloat16 is native; its emulation is 40 times slower than float32."""
    import torch

    return device.type != "cpu" or torch.cpu._is_avx512_bf16_supported()


def _optimizers(model: Any) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of the layers, AdamW for all other weights."""
    import torch

    inner = [w for name, w in model.named_parameters() if w.ndim == 2 and ".layers." in name]
    ids = {id(weights) for weights in inner}
    outer = [weights for weights in model.parameters() if id(weights) not in ids]
    return [
        torch.optim.Muon(inner, weight_decay=_WEIGHT_DECAY),
        torch.optim.AdamW(outer, betas=_BETAS, weight_decay=0.0),
    ]
