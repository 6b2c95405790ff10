"""Stages of a probe in the folder of its run: what is finished is not made again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from goalmeter.runs.store import RunStore, made_here

Tell = Callable[[str], None]
KIND = "probe"


class Stages:
    """Values of finished stages, by key; made where they are missing.

    Args:
        folder: of the probe.
        what: what decides the values, as JSON values.
        tell: told what is being made.
    """

    def __init__(self, folder: Path, what: dict[str, Any], tell: Tell) -> None:
        self.folder = folder
        self.tell = tell
        # More parts and probes can be asked for later; all else would be another probe.
        self._store = RunStore(
            folder, {"kind": KIND} | what, grows=("parts", "probes"), made_by=made_here()
        )

    def __enter__(self) -> Stages:
        self._store.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._store.__exit__(*error)

    def value(self, key: str, make: Callable[[], Any]) -> Any:
        """The JSON value of a stage: as it is kept, or else made and kept."""
        if key not in self._store.values:
            self.tell(f"probe: {key}")
            self._store.add(key, make())
        return self._store.values[key]
