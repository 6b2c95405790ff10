"""Tiny models, made once, and an Inspect that touches nothing outside of the tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lm.tiny_models import Models

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
HERE = Path(__file__).parent
# Inspect calls its own libraries in ways that they have given up.
IGNORED = ("ignore::DeprecationWarning:inspect_ai", "ignore::ResourceWarning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            for each in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(each))


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
