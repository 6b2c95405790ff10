"""A thread that does the same small things once a second, for as long as a run is filled."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

EVERY = 1.0  # seconds


class Heartbeat:
    """Calls a function about once a second, from `start` to `stop`, in a thread of its own.

    It never holds the process open, and where no thread can be started it does nothing.

    Args:
        beat: what is called; whatever it raises is its own affair, and the next beat comes.
    """

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._ended = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin; the first beat comes after a second."""
        thread = Thread(target=self._run, name="goalmeter heartbeat", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads, or Python is about to end
            return
        self._thread = thread

    def stop(self) -> None:
        """End, and wait for a beat that has begun."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        # `Event.wait` goes by the monotonic clock, which nobody sets.
        while not self._ended.wait(EVERY):
            try:
                self._beat()
            except Exception:
                continue
