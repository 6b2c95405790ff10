"""Processes that train one network together: each has its own batches of every step."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from goalmeter._errors import GoalmeterError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Team:
    """One process among those of a training; alone unless told otherwise.

    Attributes:
        rank: its number, from 0.
        workers: how many there are.
        gradients: of all of them, [workers, weights]; None for one alone.
        barrier: where they wait for each other; None for one alone.
    """

    rank: int = 0
    workers: int = 1
    gradients: torch.Tensor | None = None
    barrier: Any = None

    def add_up(self, model: Any) -> None:
        """Make the gradients of the model the sum of those in all processes.

        Raises:
            GoalmeterError: another process has stopped.
        """
        if self.gradients is None:
            return
        import torch

        # Each process holds the whole network. The gradients lie side by side in memory that all of
        # them see, and every process adds them up in the same order, so that their weights stay the
        # same, number by number.
        mine = [weights.grad for weights in model.parameters()]
        self.gradients[self.rank] = torch.cat([gradient.flatten() for gradient in mine]).cpu()
        self.wait()
        total = self.gradients.sum(dim=0)
        # Nobody may write the gradients of the next step while somebody still adds these up.
        self.wait()
        parts = torch.split(total, [gradient.numel() for gradient in mine])
        for gradient, part in zip(mine, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def wait(self) -> None:
        """Wait until all processes have come as far as this.

        Raises:
            GoalmeterError: another process has stopped.
        """
        if self.barrier is None:
            return
        try:
            self.barrier.wait()
        except threading.BrokenBarrierError as cause:
            raise GoalmeterError(
                f"one of the {self.workers} processes of the training has stopped, maybe for "
                f"want of memory. The same command goes on from the last checkpoint"
            ) from cause


def in_team(
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    *,
    workers: int,
    weights: int,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Do work in several processes, this one among them, and wait for all.

    Args:
        work: takes the arguments, its `Team` and whom to tell; a function of a module, and what
            it takes can be sent to another process.
        arguments: for the work.
        workers: how many processes.
        weights: how many numbers the gradient of the network has; for one worker any.
        progress: told by this process, which has rank 0.

    Raises:
        GoalmeterError: one of the others has stopped, or there is no memory that they could share.
    """
    if workers == 1:
        work(*arguments, Team(), progress)
        return
    import torch
    from torch import multiprocessing

    spawn = multiprocessing.get_context("spawn")
    gradients: Any = torch.zeros(workers, weights)
    try:
        shared = gradients.share_memory_()
    except RuntimeError as cause:
        raise GoalmeterError(
            f"the processes of a training need {gradients.nbytes / 2**20:.0f} MiB of memory that "
            f"they share, and the system gives none: {' '.join(str(cause).split())}; make room "
            f"(in a container its --shm-size), or train with one process (--workers 1)"
        ) from cause
    barrier = spawn.Barrier(workers)
    helpers = [
        spawn.Process(
            target=_help,
            args=(work, arguments, Team(rank, workers, shared, barrier)),
            daemon=True,
        )
        for rank in range(1, workers)
    ]
    threads = torch.get_num_threads()
    # Threads of several processes would get in each other's way.
    torch.set_num_threads(max(1, threads // workers))
    try:
        for helper in helpers:
            helper.start()
        threading.Thread(target=_watch, args=(helpers, barrier), daemon=True).start()
        work(*arguments, Team(0, workers, shared, barrier), progress)
    except BaseException:
        barrier.abort()
        raise
    finally:
        for helper in helpers:
            helper.join()
        torch.set_num_threads(threads)


def _watch(helpers: Sequence[BaseProcess], barrier: Any) -> None:
    # A process that has died never comes to the barrier: those that wait for it have to be told.
    running = list(helpers)
    while running:
        ended = wait([helper.sentinel for helper in running])
        for helper in [helper for helper in running if helper.sentinel in ended]:
            running.remove(helper)
            helper.join()
            if helper.exitcode:
                barrier.abort()


def _end_with_first() -> None:
    # The first process may be killed while this one waits at the barrier, where nothing wakes it.
    first = parent_process()
    assert first is not None, "a helper was started by the first process"
    wait([first.sentinel])
    os._exit(1)


def _help(work: Callable[..., None], arguments: tuple[Any, ...], team: Team) -> None:
    import torch

    threading.Thread(target=_end_with_first, daemon=True).start()
    torch.set_num_threads(max(1, torch.get_num_threads() // team.workers))
    try:
        work(*arguments, team, None)
    except (GoalmeterError, KeyboardInterrupt):
        # The first process meets the same, or that this one has stopped, and says so.
        sys.exit(1)
