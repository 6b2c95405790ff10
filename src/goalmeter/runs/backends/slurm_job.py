"""What a job of Slurm does: its workers serve batches from a mailbox until nobody asks."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

from goalmeter._errors import GoalmeterError
from goalmeter.runs.backends.hosted import HostedWorker, place_here
from goalmeter.runs.backends.mailbox import READY, Mailbox

_SOONEST, _LATEST = 0.01, 0.5  # seconds between two looks into the mailbox
# Seconds without a sign of the driver until a job leaves; each worker goes by its own clock.
PATIENCE = 120.0


def serve(folder: str, names: list[str], patience: float = PATIENCE) -> None:
    """Serve a mailbox by some workers, until it is gone or nobody counts in it.

    Args:
        folder: of the mailbox.
        names: of the workers, each of which has a core.
        patience: seconds without a sign of the driver after which they leave.
    """
    # What submitit does at these signals keeps a job that was cancelled or preempted.
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGCONT", "SIGUSR1", "SIGUSR2", "SIGINT"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    mailbox = Mailbox(Path(folder))
    leave = threading.Event()
    workers = [
        threading.Thread(target=_work, args=(mailbox, name, leave), daemon=True) for name in names
    ]
    for worker in workers:
        worker.start()
    last, seen = "", time.monotonic()
    while any(worker.is_alive() for worker in workers) and not leave.wait(min(1.0, patience / 4)):
        heart = mailbox.heart()
        if heart and heart != last:
            last, seen = heart, time.monotonic()
        if not mailbox.folder.is_dir() or time.monotonic() - seen > patience:
            leave.set()
    for worker in workers:
        worker.join(timeout=1.0)


def _work(mailbox: Mailbox, name: str, leave: threading.Event) -> None:
    worker = None
    try:
        mailbox.begin(name)
        try:
            worker = _start(mailbox)
        except GoalmeterError as error:
            mailbox.answer(name, READY, json.dumps({"refused": str(error)}))
            return
        job = os.environ.get("SLURM_JOB_ID", "")
        if array := os.environ.get("SLURM_ARRAY_JOB_ID", ""):
            job = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
        mailbox.answer(name, READY, json.dumps(place_here() | {"job": job}))
        pause = _SOONEST
        while not leave.wait(pause):
            # The longer there was nothing, the less often is it looked.
            pause = min(1.2 * pause, _LATEST)
            for number, batch in mailbox.asked(name):
                mailbox.answer(name, number, worker.answer(batch))
                pause = _SOONEST
    except OSError:  # the driver has taken the mailbox away
        return
    finally:
        if worker is not None:
            worker.close()


# Workers of one job share its working folder, which each of them would move to.
_STARTING = threading.Lock()


def _start(mailbox: Mailbox) -> HostedWorker:
    with _STARTING:
        return HostedWorker(mailbox.setup())
