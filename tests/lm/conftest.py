"""Tiny models, made once, and an Inspect that touches nothing outside of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from lm.tiny_models import Models


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Models by name: random and speaking ones, and one in MXFP4."""
    return Models(tmp_path_factory.mktemp("models"))


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs and caches in a folder of the test, and no display."""
    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "inspect-logs"))
    monkeypatch.setenv("INSPECT_CACHE_DIR", str(tmp_path / "inspect-cache"))
    monkeypatch.setenv("INSPECT_DISPLAY", "none")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
