"""The command line in the process of the tests, and what it is given."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import goalmeter as gm
from goalmeter import cli

Run = Callable[..., Any]


class Done(NamedTuple):
    status: int
    out: str
    err: str


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process: `run("meg", "mdp", ...)`."""

    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["goalmeter", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        code = stopped.value.code
        return Done(code if isinstance(code, int) else 0 if code is None else 1, out, err)

    return call


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The mouse of the paper's Example 1, who takes the cheese 8 times in 10."""
    stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
    gm.TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2).to_npz(tmp_path / "m.npz")
    np.savez(tmp_path / "p.npz", policy=[[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
    return tmp_path


# --- reflect and report ---------------------------------------------------------------------------
AGENT = """
def agent(history, n_actions, n_observations):
    print("{}")
    return len(history.actions) % n_actions

def bad(history, n_actions, n_observations):
    raise ValueError("\\x1b[31m[red]")

def short(history):
    return 0
"""


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(AGENT)
    return tmp_path
