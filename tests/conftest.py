"""Options of the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Models are those of this machine; the tests that have some ask nobody else.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
ASKING = [Path(__file__).parent / room for room in ("lm", "representation")]
# Inspect calls its own libraries in ways that they have given up.
IGNORED = ("ignore::DeprecationWarning:inspect_ai", "ignore::ResourceWarning")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-docs",
        action="store_true",
        help="run the commands anew whose results the documentation keeps; may take hours",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if config.getoption("--all-docs"):
            item.add_marker(pytest.mark.timeout(0))
        if any(room in item.path.parents for room in ASKING):
            for category in IGNORED:
                item.add_marker(pytest.mark.filterwarnings(category))
