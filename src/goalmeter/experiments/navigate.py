"""`goalmeter navigate`: an agent's name in, its behaviour in grid worlds out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.navigators import navigator, navigator_names
from goalmeter.experiments.navigation_meg import directed_table, measure_all
from goalmeter.experiments.navigation_results import measured, references
from goalmeter.experiments.navigation_tables import suite_tables
from goalmeter.experiments.outcome import Outcome
from goalmeter.navigation import SUITES
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.playing import play_all

Bounds = tuple[int, int]
N = TypeVar("N", int, float)


def navigate(
    agent: str | None,
    *,
    suite: str = "maze",
    sizes: Sequence[int] | None = None,
    complexities: Sequence[float] | None = None,
    grids: int | None = None,
    trajectories: int | None = None,
    transforms: Sequence[str] | None = None,
    distances: Sequence[Bounds] | None = None,
    detours: Sequence[Bounds] | None = None,
    paper: bool = False,
    cap: int | None = None,
    cap_factor: float | None = None,
    meg: bool = False,
    out: str | Path | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """The behaviour of an agent in a suite of grid worlds, beside reference agents.

    Args:
        agent: its name.
        suite: "maze", "isometries", "key-door", "key-no-door" or "two-path".
        sizes: of the grids.
        complexities: of mazes.
        grids: of each size and complexity.
        trajectories: walks through each.
        transforms: frames of "isometries".
        distances: strata by the shortest path.
        detours: strata by how much longer it is than the Manhattan distance.
        paper: take the paper's scale and caps for whatever is not given.
        cap: steps after which a walk is ended.
        cap_factor: the same as a multiple of the shortest path.
        meg: whether to measure goal-directedness towards goal and key too, which takes seconds for
            each agent.
        out: run folder, to keep the walks in or to continue from.
        seed: of the grids and of the walks.
        workers: processes that walk at once.
        progress: told how many walks are finished.

    Raises:
        GoalmeterError: options that cannot be used; the message says how to mend it.
    """
    name = _agent(agent)
    plan = plan_of(
        name,
        suite,
        paper=paper,
        sizes=sizes,
        complexities=complexities,
        grids=grids,
        trajectories=trajectories,
        transforms=transforms,
        distances=distances,
        detours=detours,
        cap=cap,
        cap_factor=cap_factor,
        seed=seed,
    )
    result = measured(play_all(plan, out=out, workers=workers, progress=progress))
    beside = references(plan, (name,), workers=workers, progress=progress)
    found: dict[str, Any] = result.to_json()
    found["references"] = {other.agent: other.to_json() for other in beside}
    if out is not None:
        found["run"] = str(Path(out).resolve())
    tables = suite_tables([result, *beside])
    if meg:
        nats = measure_all([result, *beside], seed=seed, progress=progress)
        tables.append(directed_table(nats))
        found["meg"] = [one.to_json() for one in nats if one.agent == name]
        for other in beside:
            own = [one.to_json() for one in nats if one.agent == other.agent]
            found["references"][other.agent]["meg"] = own
    return Outcome(tables=tuple(tables), json=found)


def numbers(option: str, text: str | None, kind: type[N]) -> list[N] | None:
    """The numbers of an option, written with commas between them.

    Raises:
        InvalidParameterError: one of them is no number of the kind.
    """
    try:
        return None if text is None else [kind(part) for part in text.split(",")]
    except ValueError as cause:
        whole = "whole numbers" if kind is int else "numbers"
        raise InvalidParameterError(
            f"{option} is {text!r}, expected {whole} with commas between them"
        ) from cause


def words(text: str | None) -> list[str] | None:
    """The words of an option, written with commas between them."""
    return None if text is None else [part.strip() for part in text.split(",")]


def bounds(option: str, texts: Sequence[str] | None) -> list[Bounds] | None:
    """Pairs of bounds, each written LOW-HIGH.

    Raises:
        InvalidParameterError: one is not written so.
    """
    if not texts:
        return None
    out = []
    for text in texts:
        found = re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*", text)
        if found is None:
            raise InvalidParameterError(
                f"{option} is {text!r}, expected two whole numbers LOW-HIGH, such as 4-8"
            )
        out.append((int(found[1]), int(found[2])))
    return out


def _agent(name: str | None) -> str:
    """The name of a reference agent in its own spelling."""
    if name is None:
        raise InvalidParameterError(
            f"AGENT is missing: name one of {', '.join(navigator_names())}; suites are "
            f"{', '.join(SUITES)}"
        )
    if "/" in name:
        raise InvalidParameterError(
            f"the agent {name!r} is a language model; those are asked through Inspect "
            f"(goalmeter[lm]), which this version does not do yet. Reference agents are "
            f"{', '.join(navigator_names())}"
        )
    return navigator(name).name
