"""`goalmeter reflect`: an agent's name in, its self-reflection out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SEED, InvalidParameterError, whole
from goalmeter.commands.options import chosen_place
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.pages.reflection_tables import early_text, measure_table, rewards_table
from goalmeter.reflection import Comparison, Reflection, compare, measure
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.measure import HEAVY, bare, check
from goalmeter.reflection.measure import forecast as forecast_of
from goalmeter.reflection.trial import MOST_SEEDS, MOST_STEPS, is_user_code

# Agents that are played beside the one that is asked about, where that takes about a second.
BASELINES = ("random", "constant")
BASELINE_STEPS, BASELINE_PERCEPTS = 1000, 250_000
# Seconds for a trial of a user's code, unless --timeout says otherwise.
TIMEOUT = 60.0
# Of scripted agents, about; those that train take a thousand times as long.
SECONDS_A_PERCEPT = 6e-6


def reflect(
    agent: str | None,
    *,
    environments: Sequence[str] = (),
    steps: int = 500,
    seeds: int = 10,
    seed: int = 0,
    out: str | Path | None = None,
    on: str | None = None,
    workers: int | None = None,
    timeout: float | None = None,
    opposite_reading: str = "literal",
    step_counting: str = "percepts",
    against: str | None = None,
    dry_run: bool = False,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """The self-reflection of an agent, beside agents that reflect on nothing.

    `steps` are percepts of each trial; of `seeds` trials of each environment the first has `seed`.
    The agent of `against` is kept in a run of its own, named `out`.against. `timeout` is in
    seconds, 0 for none; the default is 60 for users' code. `on` and `workers` say where it is
    played, see `chosen_place`. A `dry_run` says what it all will cost, and begins nothing.
    """
    if agent is None:
        raise InvalidParameterError(
            "AGENT is missing: name one, such as rc(naive) or my_agent.py:agent; --list shows "
            "all agents and environments"
        )
    # Before a range is made of them, or a product.
    whole(seeds, "seeds", least=1, most=MOST_SEEDS)
    whole(seed, "seed", least=0, most=MOST_SEED - seeds)
    whole(steps, "steps", least=1, most=MOST_STEPS)
    played = list(environments) or [environment.name for environment in BATTERY]
    chosen = range(seed, seed + seeds)

    # How long users' code takes cannot be told: it has a limit, and is played by all cores.
    def options(name: str, folder: Path | None, over: Sequence[int] = chosen) -> dict[str, Any]:
        users = any(map(is_user_code, [name, *played]))
        limit = timeout if timeout is not None else (TIMEOUT if users else 0.0)
        percepts = 2 * len(played) * len(over) * steps
        slow = users or bare(name) in HEAVY
        return {
            "steps": steps,
            "seeds": over,
            "environments": played,
            "opposite_reading": opposite_reading,
            "step_counting": step_counting,
            "on": chosen_place(on, workers, seconds=inf if slow else percepts * SECONDS_A_PERCEPT),
            "timeout": None if limit == 0 else limit,
            "out": folder,
        }

    folder = None if out is None else Path(out)
    beside = None if folder is None else _beside(folder)
    if dry_run:
        named = {agent: options(agent, folder)}
        named |= {} if against is None else {against: options(against, beside)}
        return shown([forecast_of(name, **asked) for name, asked in named.items()])
    if against is not None:  # for the error before the first agent is played, which may take long
        check(against, **options(against, beside))
    result = measure(agent, **options(agent, folder), progress=progress)
    rival = comparison = None
    if against is not None:
        rival = measure(against, **options(against, beside), progress=progress)
        comparison = compare(rival, result)
    names = [name for name in BASELINES if name not in (agent, against)]
    # Each environment is played with its opposite, so a seed is two trials of each.
    over = chosen[: BASELINE_PERCEPTS // (2 * len(played) * steps)]
    baselines = {}
    if over and steps <= BASELINE_STEPS:
        if progress is not None and names:
            progress(f"baselines: {', '.join(names)}")
        baselines = {name: measure(name, **options(name, None, over)) for name in names}
    return Outcome(
        text=early_text(result, rival),
        incomplete=_none_finished(result, rival),
        tables=(
            rewards_table(result, rival),
            measure_table(result, rival, comparison, baselines),
        ),
        json=_json(result, rival, comparison, baselines)
        | ({} if folder is None else {"run": str(folder.resolve())})
        | ({} if beside is None or rival is None else {"against_run": str(beside.resolve())}),
    )


def _beside(folder: Path) -> Path:
    """Where the agent that it is compared with is kept."""
    # "." and ".." have no name that could be continued.
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.with_name(f"{named.name}.against")


def _none_finished(*results: Reflection | None) -> str:
    """Of the first agent that finished no trial, that its measure says nothing; "" if all did."""
    for result in results:
        if result is not None and len(result.failures) == len(result.trials):
            return (
                f"none of the {len(result.failures)} trials of {result.agent} was finished, so its "
                "measure says nothing; the table says why"
            )
    return ""


def _json(
    result: Reflection,
    rival: Reflection | None,
    comparison: Comparison | None,
    baselines: dict[str, Reflection],
) -> dict[str, Any]:
    short = ("seeds", "measure", "stderr", "interval", "failures", "outcomes")
    values = result.to_json()
    values["baselines"] = {
        name: {key: value for key, value in baseline.to_json().items() if key in short}
        for name, baseline in baselines.items()
    }
    if rival is not None and comparison is not None:
        values["against"] = rival.to_json()
        values["comparison"] = comparison.to_json()
    return values
