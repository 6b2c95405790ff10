"""Tiny models of four architectures, and decisions recorded with the tokens of their tokenizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Logs and caches of Inspect in a folder of the tests, and no display."""
    folder = tmp_path_factory.mktemp("inspect")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("INSPECT_LOG_DIR", "INSPECT_CACHE_DIR", "XDG_DATA_HOME"):
            patch.setenv(name, str(folder / name.lower()))
        patch.setenv("INSPECT_DISPLAY", "none")
        yield


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Networks with random weights: a Llama, a GPT-2, a Qwen and a gpt-oss with its experts."""
    pytest.importorskip("transformers")
    from representation.tiny import saved_networks

    return saved_networks(tmp_path_factory.mktemp("networks"))


@pytest.fixture(scope="session")
def mouse() -> Any:
    """The organism that goes for the goal."""
    pytest.importorskip("transformers")
    from goalmeter.representation.network import Network

    return Network.open("goalmeter/mouse")


@pytest.fixture(scope="session")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the mouse through four small mazes."""
    pytest.importorskip("inspect_ai")
    import goalmeter as gm

    folder = tmp_path_factory.mktemp("run")
    gm.navigation.measure(
        "goalmeter/mouse",
        sizes=[7],
        complexities=[0.6],
        grids=2,
        trajectories=1,
        beside=[],
        out=folder,
        cap=3,
    )
    return folder
