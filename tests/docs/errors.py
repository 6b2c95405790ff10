"""Errors and open results that users meet: what shows them, why they come, and how to fix them.

docs/errors.md is made from these cases, with the messages that they end in:
PYTHONPATH=src:tests python tests/docs/errors.py
"""

from __future__ import annotations

import gzip
import os
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from causal.written_networks import shipped
from robustness.cases import run

import goalmeter as gm
from goalmeter.tabular import sample_trajectories

TABLE = Path(__file__).with_name("errors.toml")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"


@dataclass(frozen=True)
class Case:
    """A symptom, as the head of errors.toml describes it."""

    group: str
    title: str
    shows: str
    cause: str
    fix: str
    line: str | None = None
    before: str = ""
    missing: str = ""


CASES = tuple(Case(**fields) for fields in tomllib.loads(TABLE.read_text(encoding="utf-8"))["case"])


def names(folder: Path) -> dict[str, Any]:
    """Write the files of the cases into a folder, and return the names of their expressions."""
    mdp = gm.cliff_world(goal_length=1)
    policy = gm.uniform_policy(mdp)
    counts = np.ones((mdp.n_states, mdp.n_actions))
    counts[-1] = 0
    mdp.to_npz(folder / "mdp.npz")
    np.savez(folder / "transposed.npz", policy=policy.T)
    np.savez(folder / "other.npz", probabilities=policy)
    (folder / "notes.txt").write_text("0.25 0.25 0.25 0.25\n")
    (folder / "asia.bif").write_bytes(gzip.decompress(shipped("asia").read_bytes()))
    agent = "def agent(history, n_actions, n_observations):\n    return n_actions\n"
    (folder / "my_agent.py").write_text(agent)
    (folder / "results").mkdir()
    side = ["left", "right"]
    forgetful = gm.CausalBayesianNetwork(
        domains={"S": side, "D1": side, "D2": side, "T": ["cheese", "none"]},
        parents={"D1": ["S"], "T": ["S", "D1", "D2"]},
        cpds={
            "S": [0.5, 0.5],
            "D1": [[0.8, 0.2], [0.2, 0.8]],
            "D2": [0.7, 0.3],
            "T": lambda s, first, second: "cheese" if s == first == second else "none",
        },
    )
    three = sample_trajectories(mdp, policy, 3, rng=np.random.default_rng(0))
    worst = gm.optimal_policy(mdp.replace(reward=-mdp.reward))
    return {
        **{"gm": gm, "np": np, "mdp": mdp, "policy": policy, "counts": counts},
        **{"coin": lambda observation: [0.5, 0.5], "three_trajectories": three},
        **{"forgetful": forgetful, "domains": {"S": side, "D": side}},
        **{
            "noisy": gm.epsilon_greedy(gm.optimal_policy(mdp), 0.3),
            "worst": gm.epsilon_greedy(worst, 0.3),
        },
    }


@contextmanager
def without(module: str) -> Iterator[None]:
    """Let the import of a module fail; of the others, those that are imported meanwhile stay."""
    installed = sys.modules.get(module)
    if module:
        sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if module:
            del sys.modules[module]
        if installed is not None:
            sys.modules[module] = installed


@contextmanager
def prepared(case: Case) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Enter a new folder in which a case can be shown."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as name, np.errstate(invalid="ignore"):
        folder = Path(name)
        os.chdir(folder)
        try:
            scope = names(folder)
            if case.before:
                assert run(shlex.split(case.before)[1:], folder).status == 0, case.before
            # In a wide terminal, where a message is one line.
            with mock.patch.dict("os.environ", {"COLUMNS": "1000"}), without(case.missing):
                yield folder, scope
        finally:
            os.chdir(before)


def message(case: Case) -> str:
    """Return what the user sees of a case: the line of its error, or that of its result."""
    with prepared(case) as (folder, scope):
        if case.shows.startswith("goalmeter "):
            ended = run(shlex.split(case.shows)[1:], folder)
            assert (ended.status == 0) == (case.line is not None), ended.err
            found = [line for line in ended.err.splitlines() if line.startswith("goalmeter: ")]
            text, lines = ended.out, found[-1:]
        else:
            text, lines = "", []
            try:
                text = str(eval(case.shows, scope))
            except (gm.GoalmeterError, gm.MissingExtraError) as error:
                lines = [f"{type(error).__name__}: {error}"]
    if case.line is not None:
        assert lines == [], lines
        lines = [line.strip() for line in text.splitlines() if line.strip().startswith(case.line)]
    assert lines, f"{case.title}: nothing begins with {case.line!r} in {text}"
    return lines[0]


def entry(case: Case) -> str:
    """Return the section of the page about one case."""
    is_command = case.shows.startswith("goalmeter ")
    language, prompt = ("console", "$") if is_command else ("pycon", ">>>")
    block = f"```{language}\n{prompt} {case.shows}\n{message(case)}\n```"
    return f"### {case.title}\n\n{block}\n\n**Cause.** {case.cause}\n\n**Fix.** {case.fix}\n"


HEAD = """# Errors

The most common errors and open results: symptom, cause, fix. Search for the words of your message.
Each example ends with the message that the command or expression prints. The exit status of a
command is 0 if it succeeded, 2 after invalid input, 3 if a part failed, 4 if a requirement on a
card is not met, and 1 after an internal error (please report it).

If there is no message, but no interval either, or a value that is not certified, see
[open and surprising results](#open-and-surprising-results).
"""


def page() -> str:
    """Return the text of docs/errors.md."""
    parts = [HEAD]
    for title, cases in groupby(CASES, key=lambda case: case.group):
        parts += [f"## {title}\n", *map(entry, cases)]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE)
