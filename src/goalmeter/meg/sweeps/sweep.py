"""Run a sweep: measure its chunks of rows, and store or resume them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidUtilityError,
    MissingExtraError,
)
from goalmeter._types import FloatArray
from goalmeter.meg.known import known_utility_many
from goalmeter.meg.result import MegResult
from goalmeter.meg.sweeps.plan import (
    EPSILON_GREEDY,
    KIND,
    OPTIMAL,
    POLICY,
    UNIFORM,
    UNKNOWN,
    UTILITY,
    Chunk,
    Entry,
    SweepChoice,
    SweepPlan,
    Worlds,
    plan_of,
    plan_sweep,
)
from goalmeter.meg.sweeps.table import (
    CERTIFIED,
    FAILED,
    NUMBERS,
    OPEN,
    ChunkColumns,
    Sweep,
    SweepValues,
    WorldFacts,
    columns_from_json,
    columns_of,
)
from goalmeter.meg.sweeps.worlds import WorldSource, call, function_of, world_digest
from goalmeter.meg.unknown import unknown_utility, unknown_utility_many
from goalmeter.report.numbers import general
from goalmeter.runs import JobResult, Study, carry_out, read_run, stored_results
from goalmeter.runs.jobs import REFUSED
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import RUN, another_kind
from goalmeter.tabular import (
    TabularMDP,
    epsilon_greedy,
    load_features,
    load_policy,
    load_utility,
    uniform_policy,
)
from goalmeter.tabular.arrays import as_floats
from goalmeter.tabular.batched import optimal_policies, soft_optimal_policies
from goalmeter.tabular.policies import check_policy


# --- Measurement ----------------------------------------------------------------------------------
# Arguments and result are JSON, so any process can do it. What is wrong with a world, a policy or a
# utility is a sentence in its place, which becomes the note of its rows and stops no other row.
def _attempt(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the value of a function, or the sentence of why there is none."""
    try:
        return function(*arguments)
    except (GoalmeterError, MissingExtraError) as error:
        return str(error)


class _SweepCase(NamedTuple):
    """`aim`: the utility or the features; None for the reward or a named class."""

    world: TabularMDP
    policy: FloatArray
    aim: FloatArray | None


def measure(what: Mapping[str, Any], first: int, rows: int) -> dict[str, Any]:
    """Return the rows of a chunk of a stored plan, as `ChunkColumns.to_json`.

    Raises:
        InvalidFileError: a file has changed since the sweep was planned.
    """
    plan = plan_of(what)
    worlds_of_chunk, part = plan.part(Chunk(first, rows))
    origin, start = plan.place(worlds_of_chunk.start)
    numbers = range(start, start + len(worlds_of_chunk))
    plan.check_files(origin, numbers)
    behaviour = plan.policies[part.start : part.stop]
    make = _attempt(origin.maker)
    made = [make if isinstance(make, str) else _attempt(make, number) for number in numbers]
    pairs: list[tuple[TabularMDP, int]] = [
        (world, n) for world, n in zip(made, numbers, strict=True) if not isinstance(world, str)
    ]
    best = cache(lambda: optimal_policies([world for world, _ in pairs]))
    chances = [_arrays(choice, pairs, origin, best) for choice in behaviour]
    found: dict[tuple[int, int, int], SweepValues] = {}  # by world, policy and utility
    for u, utility in enumerate(plan.utilities):
        cases: dict[tuple[int, int, int], _SweepCase] = {}
        aims = _arrays(utility, pairs, origin, best)
        for p, policies in enumerate(chances):
            for (world, n), policy, aim in zip(pairs, policies, aims, strict=True):
                if isinstance(policy, str) or isinstance(aim, str):
                    sentence = policy if isinstance(policy, str) else str(aim)
                    found[n, p, u] = SweepValues(FAILED, note=sentence)
                else:
                    assert policy is not None
                    cases[n, p, u] = _SweepCase(world, policy, aim)
        found |= zip(cases, _measured(list(cases.values()), utility, plan.timeout), strict=True)
    facts: list[WorldFacts | None] = []
    out: list[SweepValues] = []
    places = list(product(range(len(behaviour)), range(len(plan.utilities))))
    for n, result in zip(numbers, made, strict=True):
        if isinstance(result, str):
            facts.append(None)
            out += [SweepValues(FAILED, note=result)] * len(places)
        else:
            size = (result.n_states, result.n_actions, result.horizon, result.discount)
            facts.append(WorldFacts(*size, world_digest(result)))
            out += [found[n, p, u] for p, u in places]
    return columns_of(facts, out).to_json()


def _arrays(
    choice: SweepChoice,
    pairs: Sequence[tuple[TabularMDP, int]],
    source: WorldSource,
    best: Callable[[], Sequence[FloatArray]],
) -> Sequence[FloatArray | str | None]:
    """Return the array of each world, None for its reward or a named class, or what is wrong.

    `pairs` are worlds with their numbers in the source; `best` returns the optimal policies, which
    all values of epsilon share.
    """
    worlds = [world for world, _ in pairs]
    if not worlds:
        return []
    if not choice.is_word:
        make = _attempt(_loader, choice, source)
        return [make if isinstance(make, str) else _attempt(make, *pair) for pair in pairs]
    if choice.role != POLICY:
        return [None] * len(worlds)

    def policies() -> Sequence[FloatArray]:
        if choice.name == OPTIMAL:
            return best()
        if choice.name == UNIFORM:
            return [uniform_policy(world) for world in worlds]
        if choice.name == EPSILON_GREEDY:
            return [epsilon_greedy(policy, choice.arguments["epsilon"]) for policy in best()]
        return soft_optimal_policies(worlds, choice.arguments["rationality"])

    out = _attempt(policies)
    return [out] * len(worlds) if isinstance(out, str) else out


def _loader(choice: SweepChoice, source: WorldSource) -> Callable[[TabularMDP, int], FloatArray]:
    """Return the function of a world and its number that a file or a user's function stands for."""

    def checked(world: TabularMDP, value: Any) -> FloatArray:
        if choice.role == POLICY:
            check_policy(world, value)
            return np.asarray(value, dtype=np.float64)
        return as_floats(value, "the array", InvalidUtilityError)  # its shape is checked later

    if choice.is_users:
        function = function_of(choice.name, choice.role)
        return lambda world, _: checked(
            world, call(function, choice.label, world, **choice.arguments)
        )
    load = cache({POLICY: load_policy, UTILITY: load_utility, UNKNOWN: load_features}[choice.role])

    def read(world: TabularMDP, number: int) -> FloatArray:
        path = choice.path_in(source, number)
        value = load(path)
        try:
            return checked(world, value)
        except GoalmeterError as cause:
            raise type(cause)(f"{path}: {cause}") from cause

    return read


def _measured(
    cases: Sequence[_SweepCase], utility: SweepChoice, timeout: float | None
) -> list[SweepValues]:
    """Return the row of each case; a case with an error fails alone."""
    if not cases:
        return []
    results = _attempt(_results, cases, utility, timeout)
    if not isinstance(results, str):
        return [_row_of(result) for result in results]
    if len(cases) == 1:
        return [SweepValues(FAILED, note=results)]
    half = len(cases) // 2
    parts = (cases[:half], cases[half:])
    return [row for part in parts for row in _measured(part, utility, timeout)]


def _results(
    cases: Sequence[_SweepCase], utility: SweepChoice, timeout: float | None
) -> list[MegResult]:
    worlds, policies, aims = zip(*cases, strict=True)
    if utility.role != UNKNOWN:
        return known_utility_many(worlds, policies, utilities=aims)
    if not utility.is_word:
        search: Callable[..., MegResult] = unknown_utility
        return [
            search(world, policy, features=aim, progress=False, timeout=timeout)
            for world, policy, aim in cases
        ]
    over: Any = utility.name
    # The time of a joint search is the sum over its rows.
    limit = None if timeout is None else timeout * len(cases)
    return unknown_utility_many(worlds, policies, over=over, timeout=limit)


def _row_of(result: MegResult) -> SweepValues:
    notes = list(result.notes)
    if not result.certified:
        ended = f" when the {result.stopped} ended the search" if result.stopped else ""
        notes.insert(
            0,
            f"the optimum is not certified: the bound was {general(result.gap, 2)} nats above the "
            f"value{ended}",
        )
    return SweepValues(
        CERTIFIED if result.certified else OPEN,
        **{name: getattr(result, name) for name in NUMBERS},
        method=result.method,
        note="; ".join(notes),
    )


# --- Runs -----------------------------------------------------------------------------------------
def study_of(plan: SweepPlan, what: Mapping[str, Any] | None = None) -> Study[ChunkColumns]:
    """Return the study of a plan: a trial is a chunk of rows.

    With `what`, the description that a run stores, the study can only read its results: the files
    of the sweep may be gone.
    """
    chunks = {chunk.key: chunk for chunk in plan.chunks}

    def read(key: str, value: Any) -> ChunkColumns:
        worlds, _ = plan.part(chunks[key])
        return columns_from_json(value, rows=chunks[key].rows, worlds=len(worlds))

    def lost(key: str, result: JobResult) -> ChunkColumns:
        if result.outcome == REFUSED:
            raise result.refusal()  # a file has changed: stored and new chunks do not fit together
        sentence = f"the process that measured it ended with {result.outcome}: {result.detail}"
        worlds, _ = plan.part(chunks[key])
        failed = SweepValues(FAILED, note=sentence)
        return columns_of([None] * len(worlds), [failed] * chunks[key].rows)

    return Study(
        KIND,
        "goalmeter.meg.sweeps.sweep:measure",
        {key: chunk._asdict() for key, chunk in chunks.items()},
        common={"what": plan.to_json()},
        noun="chunk",
        what=what or plan.to_json(),
        from_json=read,
        to_json=ChunkColumns.to_json,
        is_failure=lambda columns: FAILED[0] in columns.status,
        instead=lost,
    )


def play(
    plan: SweepPlan, *, on: str, out: str | Path | None, progress: Tell | None
) -> list[ChunkColumns]:
    """Measure every chunk and return the columns in order; see `runs.carry_out`."""
    return list(carry_out(study_of(plan), on=on, out=out, progress=progress).values())


def load(folder: str | Path) -> Sweep:
    """Return the sweep of a finished run.

    Raises:
        InvalidFileError: the folder is no run of a sweep, or was edited.
        IncompleteRunError: some of its chunks are missing.
    """
    run = read_run(folder)
    if run.what.get("kind") != KIND:
        raise another_kind(folder, run.what.get("kind"), KIND)
    try:
        plan = plan_of(run.what)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as cause:
        raise InvalidFileError(
            f"{Path(folder) / RUN} is of no sweep: {cause}; restore it, or begin again in another "
            f"folder"
        ) from cause
    return Sweep(plan, list(stored_results(run, study_of(plan, run.what)).values()))


def sweep(
    worlds: Worlds,
    *,
    policies: Sequence[Entry | str] = (),
    utilities: Sequence[Entry | str] = (),
    arguments: Mapping[str, Any] | None = None,
    seed: int = 0,
    timeout: float | None = None,
    on: str = "here",
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Sweep:
    """Measure MEG of every policy towards every utility in every world, one row each.

    Worlds of equal shape are measured together, in chunks that follow from the arguments alone:
    place, order and interruptions change no number. What is wrong with a world, a policy or a
    utility becomes the note of its rows, which count as failed.

    Args:
        worlds: the path of a TOML file, which may hold all other options; the path of a folder of
            MDP files; a function of worlds as FILE.py:NAME; or a list of tables such as
            {"generator": "cliff_world", "goal_length": [1, 2]} and {"files": "mdps/*.npz"}.
        policies: built-in names ("optimal", "uniform", "epsilon_greedy(0, 0.1)",
            "soft_optimal(1, 10)"), .npz files, whose path may contain {world} and arguments of the
            world in braces, functions (world, arguments) as FILE.py:NAME, or tables such as
            {"policy": "epsilon_greedy", "epsilon": [0, 0.1]}.
        utilities: "reward", .npz files or functions in the same way; or, for the best utility of a
            class, {"unknown": "state"}, "state-action", "time-state", or features from a file or a
            function. Default: the reward.
        arguments: of a function of worlds, by name: a list stands for each of its values,
            {"from": 0, "count": 100} for each of these numbers.
        seed: default of functions that have an argument `seed`.
        timeout: seconds that the search for an unknown utility may take per row, on average over
            the rows that are searched together; the row then has the best value and bound so far.
        on: where chunks are measured: "here", "processes:8", or another place.
        out: run directory; an existing run is resumed.
        progress: callback for the number of finished chunks and the remaining time.

    Raises:
        InvalidParameterError: an argument is invalid, or `out` holds another run.
        InvalidFileError: a file is missing, invalid, or has changed.

    Example: two CliffWorlds, and an agent that errs in one decision of ten.
        >>> result = sweep(
        ...     [{"generator": "cliff_world", "goal_length": [1, 4]}],
        ...     policies=["epsilon_greedy(0.1)"],
        ... )
        >>> [round(row.measured.value, 2) for row in result.rows]
        [23.79, 9.57]
    """
    options: dict[str, Any] = {"policies": policies, "utilities": utilities}
    plan = plan_sweep(worlds, arguments=arguments, seed=seed, timeout=timeout, **options)
    return Sweep(plan, play(plan, on=on, out=out, progress=progress))
