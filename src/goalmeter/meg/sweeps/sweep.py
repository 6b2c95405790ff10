"""Run a sweep: measure its chunks of rows, and store or resume them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter import tabular
from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidUtilityError,
    MissingExtraError,
    json_text,
)
from goalmeter._files import digest
from goalmeter._types import FloatArray
from goalmeter.meg.known import known_utility_many
from goalmeter.meg.result import MegResult
from goalmeter.meg.sweeps import plan as plans
from goalmeter.meg.sweeps import table
from goalmeter.meg.sweeps.plan import SweepChoice, SweepPlan
from goalmeter.meg.sweeps.table import FAILED, Columns, Sweep, SweepValues
from goalmeter.meg.sweeps.worlds import WorldSource, call, function_of, world_digest
from goalmeter.meg.unknown import unknown_utility, unknown_utility_many
from goalmeter.report.numbers import general
from goalmeter.runs import HERE, JobResult, Study, carry_out, read_run, stored_results
from goalmeter.runs.forecast import Forecast, Span, left_of, unmeasured
from goalmeter.runs.jobs import REFUSED
from goalmeter.runs.progress import Tell
from goalmeter.runs.reading import RUN, another_kind
from goalmeter.tabular.arrays import as_floats, naming
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.planning import optimal_policies, soft_optimal_policies
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


def measure(what: Mapping[str, Any], key: str) -> Columns:
    """Return the columns of a chunk of a stored plan."""
    plan = plans.plan_of(what)
    chunk = plan.chunks[key]
    source, start = plan.place(chunk.worlds.start)
    numbers = range(start, start + len(chunk.worlds))
    code = (path for path in plan.contents if path.endswith(".py"))
    for path in {*code, *plan.data_paths(source, numbers)}:
        expected = plan.contents.get(path)
        if expected is not None and digest(path) != expected:
            raise InvalidFileError(
                f"{path} has changed since the sweep began; restore it, or begin again in another "
                f"folder"
            )
    made = {number: _attempt(source.make, number) for number in numbers}
    good = {n: world for n, world in made.items() if not isinstance(world, str)}
    best = cache(lambda: optimal_policies(list(good.values())))  # all values of epsilon share it
    policies = [_arrays(plan.policies[p], source, good, best) for p in chunk.policies]
    aims = [_arrays(each, source, good, best) for each in plan.utilities]
    found: dict[tuple[int, int, int], SweepValues] = {}  # by world, policy and utility
    for u, utility in enumerate(plan.utilities):
        cases: dict[tuple[int, int, int], Any] = {}
        for p, n in product(range(len(policies)), numbers):
            case = (made[n], policies[p].get(n), aims[u].get(n))
            if sentences := [value for value in case if isinstance(value, str)]:
                found[n, p, u] = SweepValues(FAILED, note=sentences[0])
            else:
                cases[n, p, u] = case
        found |= zip(cases, _measured(list(cases.values()), utility, plan.timeout), strict=True)
    facts = {
        n: table.WorldFacts(w.n_states, w.n_actions, w.horizon, w.discount, world_digest(w))
        for n, w in good.items()
    }
    ordered = [found[place] for place in sorted(found)]
    return table.columns_of([facts.get(number) for number in numbers], ordered)


def _arrays(
    choice: SweepChoice,
    source: WorldSource,
    worlds: Mapping[int, TabularMDP],
    best: Callable[[], Sequence[FloatArray]],
) -> Mapping[int, FloatArray | str | None]:
    """Return the array of each world, None for its reward or a named class, or what is wrong."""
    if not worlds or (choice.is_word and choice.role != plans.POLICY):
        return {}
    if choice.is_word:
        made = _attempt(_policies, choice, list(worlds.values()), best)
    else:
        made = _attempt(_loaded, choice, source, worlds)
    return dict(zip(worlds, [made] * len(worlds) if isinstance(made, str) else made, strict=True))


def _policies(
    choice: SweepChoice, worlds: Sequence[TabularMDP], best: Callable[[], Sequence[FloatArray]]
) -> Sequence[FloatArray]:
    """Return a built-in policy in every world; `best` returns the optimal ones."""
    if choice.name == "optimal":
        return best()
    if choice.name == "uniform":
        return [tabular.uniform_policy(world) for world in worlds]
    if choice.name == "epsilon_greedy":
        return [tabular.epsilon_greedy(policy, choice.arguments["epsilon"]) for policy in best()]
    return soft_optimal_policies(worlds, choice.arguments["rationality"])


_READERS: dict[str, Callable[[str], FloatArray]] = {
    plans.POLICY: tabular.load_policy,
    plans.UTILITY: tabular.load_utility,
    plans.UNKNOWN: tabular.load_features,
}


def _loaded(
    choice: SweepChoice, source: WorldSource, worlds: Mapping[int, TabularMDP]
) -> list[FloatArray | str]:
    """Return the array of a file or a user's function in each world, or what is wrong with it."""
    read = cache(_READERS[choice.role])
    function = None if choice.name.endswith(".npz") else function_of(choice.name, choice.role)

    def load(world: TabularMDP, number: int) -> FloatArray:
        if function is not None:
            return checked(world, call(function, choice.label, world, **choice.arguments))
        path = choice.path_in(source, number)
        value = read(path)
        with naming(path):
            return checked(world, value)

    def checked(world: TabularMDP, value: Any) -> FloatArray:
        if choice.role == plans.POLICY:
            check_policy(world, value)
            return np.asarray(value, dtype=np.float64)
        return as_floats(value, "the array", InvalidUtilityError)  # its shape is checked later

    return [_attempt(load, world, number) for number, world in worlds.items()]


# A world, a policy, and a utility or features; None for the reward or a named class.
_Case = tuple[TabularMDP, FloatArray, FloatArray | None]


def _measured(
    cases: Sequence[_Case], utility: SweepChoice, timeout: float | None
) -> list[SweepValues]:
    results = _attempt(_results, cases, utility, timeout) if cases else []
    if not isinstance(results, str):
        return [_row_of(result) for result in results]
    if len(cases) == 1:
        return [SweepValues(FAILED, note=results)]
    half = len(cases) // 2  # as a batch names no row, the rows that fail are looked for
    parts = (cases[:half], cases[half:])
    return [row for part in parts for row in _measured(part, utility, timeout)]


def _results(
    cases: Sequence[_Case], utility: SweepChoice, timeout: float | None
) -> list[MegResult]:
    worlds, policies, aims = zip(*cases, strict=True)
    if utility.role != plans.UNKNOWN:
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
        bound = f"the bound was {general(result.gap, 2)} nats above the value{ended}"
        notes.insert(0, f"the optimum is not certified: {bound}")
    return SweepValues(
        table.CERTIFIED if result.certified else table.OPEN,
        **{name: getattr(result, name) for name in table.NUMBERS},
        method=result.method,
        note="; ".join(notes),
    )


# --- Runs -----------------------------------------------------------------------------------------
def study_of(plan: SweepPlan, what: Mapping[str, Any]) -> Study[Columns]:
    """Return the study of a plan, whose trials are chunks; `what` is as a run stores it."""
    chunks = plan.chunks

    def lost(key: str, result: JobResult) -> Columns:
        if result.outcome == REFUSED:
            raise result.refusal()  # a file has changed: stored and new chunks do not fit together
        sentence = f"the process that measured it ended with {result.outcome}: {result.detail}"
        failed = [SweepValues(FAILED, note=sentence)] * chunks[key].rows
        return table.columns_of([None] * len(chunks[key].worlds), failed)

    return Study(
        plans.KIND,
        "goalmeter.meg.sweeps.sweep:measure",
        {key: {"key": key} for key in chunks},
        common={"what": what},
        noun="chunk",
        what=what,
        from_json=lambda key, value: table.checked_columns(
            value, chunks[key].rows, len(chunks[key].worlds)
        ),
        is_failure=lambda columns: FAILED[0] in columns["status"],
        instead=lost,
    )


ROW_BYTES, WORLD_BYTES, CHUNK_BYTES = 100, 50, 400  # bytes of a run directory


def forecast_of(plan: SweepPlan, *, on: str = HERE, out: str | Path | None = None) -> Forecast:
    """Return the chunks that are left of a sweep, with a rough estimate of their cost."""
    what = plan.to_json()
    study = study_of(plan, what)
    left = [plan.chunks[key] for key in left_of(study.trials, out)]
    rows = sum(chunk.rows for chunk in left)
    worlds = sum(len(chunk.worlds) for chunk in left)
    size = rows * ROW_BYTES + worlds * WORLD_BYTES + len(left) * CHUNK_BYTES
    rough = "the time is a rough estimate from the numbers of states; nothing was measured for it"
    names = ("worlds", "policies", "utilities", "rows")
    sizes = (plan.worlds, len(plan.policies), len(plan.utilities), plan.rows)
    forecast = unmeasured(study, rough, on=on, out=out)
    parallel = min(forecast.slots, max(len(left), 1))
    return replace(
        forecast,
        counted=dict(zip(names, sizes, strict=True)),
        hours=Span.of(plan.seconds * rows / plan.rows / parallel / 3600),
        disk=Span.of(size + (len(json_text(what)) if left else 0)),
    )


def play(plan: SweepPlan, *, on: str, out: str | Path | None, progress: Tell | None) -> Sweep:
    """Measure every chunk; see `runs.carry_out`."""
    study = study_of(plan, plan.to_json())
    return Sweep(plan, list(carry_out(study, on=on, out=out, progress=progress).values()))


def load(folder: str | Path) -> Sweep:
    """Return the sweep of a finished run; files of the sweep itself may be gone."""
    run = read_run(folder)
    if run.what.get("kind") != plans.KIND:
        raise another_kind(folder, run.what.get("kind"), plans.KIND)
    try:
        plan = plans.plan_of(run.what)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as cause:
        raise InvalidFileError(
            f"{Path(folder) / RUN} is of no sweep: {cause}; restore it, or begin again in another "
            f"folder"
        ) from cause
    return Sweep(plan, list(stored_results(run, study_of(plan, run.what)).values()))


def sweep(
    worlds: plans.Worlds,
    *,
    policies: Sequence[plans.Entry | str] = (),
    utilities: Sequence[plans.Entry | str] = (),
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
        utilities: "reward" (the default), .npz files or functions in the same way; or, for the best
            utility of a class, {"unknown": "state"}, "state-action", "time-state", or features from
            a file or a function.
        arguments: of a function of worlds, by name: a list stands for each of its values,
            {"from": 0, "count": 100} for each of these numbers.
        seed: default of functions that have an argument `seed`.
        timeout: seconds that the search of a row may take, on average over rows that are searched
            together; the row then has the best value and bound so far.
        on: where chunks are measured: "here", "processes:8", or another place.
        out: run directory; an existing run is resumed.
        progress: callback for the number of finished chunks and the remaining time.

    Example: two CliffWorlds, and an agent that errs in one decision of ten.
        >>> result = sweep(
        ...     [{"generator": "cliff_world", "goal_length": [1, 4]}],
        ...     policies=["epsilon_greedy(0.1)"],
        ... )
        >>> [round(row.measured.value, 2) for row in result.rows]
        [23.79, 9.57]
    """
    options: dict[str, Any] = {"policies": policies, "utilities": utilities}
    plan = plans.plan_sweep(worlds, arguments=arguments, seed=seed, timeout=timeout, **options)
    return play(plan, on=on, out=out, progress=progress)
