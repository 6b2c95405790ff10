"""Processes that train one network together: each has its own batches of every step."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from goalmeter._errors import GoalmeterError


@dataclass(frozen=True)
class Team:
    """One process among those of a training.

    Processes exchange data through pipes only. The system closes the end of a process that is
    killed, and the process at the other end gets an error; a lock would stay locked.

    Attributes:
        rank: its number, from 0.
        workers: how many there are.
        pipes: to the others for the first process, to the first process for the others.
    """

    rank: int = 0
    workers: int = 1
    pipes: tuple[Connection, ...] = ()

    def add_up(self, model: Any) -> None:
        """Make the gradients of the model the sum of those in all processes."""
        if not self.pipes:
            return
        import torch

        # The first process adds up and sends the sum, so all weights stay equal bit by bit.
        mine = [weights.grad for weights in model.parameters()]
        total = torch.cat([gradient.flatten() for gradient in mine]).cpu()
        with self._pipe_errors():
            if self.rank:
                self.pipes[0].send_bytes(total.numpy().data)
                self.pipes[0].recv_bytes_into(total.numpy())
            else:
                every = total.repeat(self.workers, 1)
                for pipe, other in zip(self.pipes, every[1:], strict=True):
                    pipe.recv_bytes_into(other.numpy())
                total = every.sum(dim=0)
                for pipe in self.pipes:
                    pipe.send_bytes(total.numpy().data)
        parts = torch.split(total, [gradient.numel() for gradient in mine])
        for gradient, part in zip(mine, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def wait(self) -> None:
        """Wait until all processes have come as far as this."""
        with self._pipe_errors():
            if self.rank:
                self.pipes[0].send_bytes(b"")
            for pipe in self.pipes:
                pipe.recv_bytes()
            if not self.rank:
                for pipe in self.pipes:
                    pipe.send_bytes(b"")

    @contextmanager
    def _pipe_errors(self) -> Iterator[None]:
        try:
            yield
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
    """Do work in several processes, this one among them, and wait for all.

    Args:
        work: takes the arguments, its `Team` and the callback; a function of a module, and what
            it takes can be sent to another process.
        arguments: for the work.
        workers: how many processes.
        progress: called by this process, which has rank 0.
    """
    if workers == 1:
        work(*arguments, Team(), progress)
        return
    import torch

    spawn = get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(1, workers)]
    helpers = []
    threads = torch.get_num_threads()
    # Threads of several processes would get in each other's way.
    torch.set_num_threads(max(1, threads // workers))
    try:
        resource_tracker.ensure_running()  # which would unblock the signal when it starts
        # Ctrl-C reaches all processes of a terminal; the first one ends the others.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for rank, (_, end) in enumerate(pipes, start=1):
                given = (work, arguments, Team(rank, workers, (end,)))
                helper = spawn.Process(target=_help, args=given, daemon=True)
                helper.start()
                helpers.append(helper)
                end.close()  # while it is open here too, the helper's death is not seen
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        work(*arguments, Team(0, workers, tuple(mine for mine, _ in pipes)), progress)
    except BaseException:
        for helper in helpers:
            helper.kill()
        raise
    finally:
        for helper in helpers:
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
