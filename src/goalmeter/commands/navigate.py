"""`goalmeter navigate`: an agent's name in, its behaviour in grid worlds out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from goalmeter._arguments import whole_in_text
from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.agents.abilities import Ability
from goalmeter.agents.registry import agent as named_agent
from goalmeter.commands.model_options import ROUNDS, ModelOptions
from goalmeter.commands.outcome import Outcome
from goalmeter.navigation import SUITES
from goalmeter.navigation.caps import MOST_STEPS
from goalmeter.navigation.directed.meg import measure_all
from goalmeter.navigation.directed.results import measured, references
from goalmeter.navigation.kept import failures
from goalmeter.navigation.plan import Plan, plan_of
from goalmeter.navigation.playing import Walked, play_all
from goalmeter.pages.navigation.meg_tables import directed_tables
from goalmeter.pages.navigation.tables import suite_tables

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
    objects: Sequence[str] | None = None,
    distances: Sequence[Bounds] | None = None,
    detours: Sequence[Bounds] | None = None,
    paper: bool = False,
    cap: int | None = None,
    cap_factor: float | None = None,
    held_out: bool | None = None,
    meg: bool = False,
    out: str | Path | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Callable[[str], None] | None = None,
    model: ModelOptions | None = None,
) -> Outcome:
    """The behaviour of an agent in a suite of grid worlds, beside reference agents.

    Args:
        agent: its name, in the grammar of `agents.registry`.
        suite: "maze", "isometries", "key-door", "key-no-door" or "two-path".
        sizes: of the grids.
        complexities: of mazes.
        grids: of each size and complexity.
        trajectories: walks through each.
        transforms: frames of "isometries".
        objects: what lies about in "key-no-door" and "two-path": "key", "neutral" or both.
        distances: strata by the shortest path.
        detours: strata by how much longer it is than the Manhattan distance.
        paper: take the paper's scale and caps for whatever is not given.
        cap: steps after which a walk is ended.
        cap_factor: the same as a multiple of the shortest path.
        held_out: take only grids that no recipe of an organism teaches; None for what suits the
            agent: true for organisms, false for others.
        meg: whether to measure goal-directedness towards goal and key too.
        out: run folder, to keep the walks in or to continue from.
        seed: of the grids and of the walks.
        workers: processes that walk at once; a language model is asked by one.
        progress: told how many walks are finished.
        model: how a language model is asked, and how it is reached.

    Raises:
        GoalmeterError: options that cannot be used; the message says how to mend it.
        MissingExtraError: a language model is named, and inspect_ai is not installed.
    """
    name, is_model = _agent(agent)
    given = model or ModelOptions()
    if not is_model:
        given.refuse(name)
    plan = plan_of(
        name,
        suite,
        paper=paper,
        sizes=sizes,
        complexities=complexities,
        grids=grids,
        trajectories=trajectories,
        transforms=transforms,
        objects=objects,
        distances=distances,
        detours=detours,
        cap=cap,
        cap_factor=cap_factor,
        held_out=held_out,
        seed=seed,
        prompts=given.prompts,
        history=given.history or 0,
        asking=given.asking(name, suite, paper=paper) if is_model else None,
    )
    if plan.asking is None:
        walked = play_all(plan, out=out, workers=workers, progress=progress)
    else:
        walked = _asked(plan, given, out, progress)
    result = measured(walked)
    beside = references(plan, (name,), workers=workers, progress=progress)
    found: dict[str, Any] = result.to_json()
    found["references"] = {other.agent: other.to_json() for other in beside}
    if out is not None:
        found["run"] = str(Path(out).resolve())
    if plan.asking is not None:
        found["failed"] = failures(walked.trajectories)
    tables = suite_tables([result, *beside])
    if meg:
        nats = measure_all([result, *beside], progress=progress)
        tables += directed_tables(nats)
        found["meg"] = [one.to_json() for one in nats if one.agent == name]
        for other in beside:
            own = [one.to_json() for one in nats if one.agent == other.agent]
            found["references"][other.agent]["meg"] = own
    if progress is not None and found.get("failed"):
        progress(_of_failures(found["failed"], len(walked.trajectories), out))
    return Outcome(tables=tuple(tables), json=found)


def numbers(option: str, text: str | None, kind: type[N]) -> list[N] | None:
    """The numbers of an option, written with commas between them.

    Raises:
        InvalidParameterError: one of them is no number of the kind.
    """
    try:
        return None if text is None else [kind(part) for part in text.split(",")]
    except ValueError as cause:  # also for integers of thousands of digits
        whole = "whole numbers" if kind is int else "numbers"
        raise InvalidParameterError(
            f"{option} is {shown(text)}, expected {whole} with commas between them"
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
        found = re.fullmatch(r"(\d+)\s*-\s*(\d+)", text.strip())
        if found is None:
            raise InvalidParameterError(
                f"{option} is {shown(text)}, expected two whole numbers LOW-HIGH, such as 4-8"
            )
        low, high = (
            whole_in_text(part, option, least=0, most=MOST_STEPS) for part in found.groups()
        )
        out.append((low, high))
    return out


def _agent(name: str | None) -> tuple[str, bool]:
    """The name of an agent in its own spelling, and whether it is asked with prompts."""
    if name is None:
        raise InvalidParameterError(
            f"AGENT is missing: name one, such as greedy, sb3:POLICY.zip or a language model as "
            f"PROVIDER/NAME (`goalmeter agents` lists all); suites are {', '.join(SUITES)}"
        )
    named = named_agent(name)
    named.require(Ability.GRID, Ability.TEXT, asker="navigation")
    return named.name, Ability.GRID not in named.abilities


def _asked(
    plan: Plan,
    given: ModelOptions,
    out: str | Path | None,
    progress: Callable[[str], None] | None,
) -> Walked:
    """The walks of a language model, those from logs among them."""
    from goalmeter.navigation.inspect.log_import import from_logs
    from goalmeter.navigation.inspect.run import ask_all

    imported = from_logs(plan, given.from_log) if given.from_log else None
    if imported is not None and progress is not None:
        others = (
            f"; {imported.others} others are of other worlds, or had failed"
            if imported.others
            else ""
        )
        progress(f"{plan.agent}: {len(imported.walks)} walks taken from logs{others}")
    return ask_all(
        plan,
        out=out,
        server=given.server(),
        rounds=ROUNDS if given.rounds is None else given.rounds,
        imported=imported.walks if imported is not None else None,
        progress=progress,
    )


def _of_failures(failed: dict[str, int], walks: int, out: str | Path | None) -> str:
    """What to say of walks that the server failed."""
    each = ", ".join(f"{count} × {outcome}" for outcome, count in sorted(failed.items()))
    again = "the same command makes them again" if out is not None else "nothing was kept (--out)"
    return (
        f"goalmeter: {sum(failed.values())} of {walks} walks failed ({each}); they count as not "
        f"arrived, and {again}"
    )
