"""Options of the whole suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--all-docs",
        action="store_true",
        help="run the commands anew whose results the documentation keeps; may take hours",
    )
