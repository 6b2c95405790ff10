"""The agents of Table 1, measured, beside the published numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.experiments import ledger
from goalmeter.pages.reflection.pairs import inner_name
from goalmeter.reflection import Reflection, measure
from goalmeter.reflection.environments.registry import BATTERY
from goalmeter.reflection.forecast import forecast
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast
from goalmeter.runs.progress import Tell

LEDGER_PREFIX = "reflection-table-1/"
STEPS = (500, 1000)
COMMAND = "goalmeter replicate reflection-table-1"
# The environment that tells the agent's learning rate, and the only one that asks for a setting.
ASKS_SETTING = "IncentivizeLearningRate"

_AGENTS = {
    "RandomAgent": "random",
    "ConstantAgent": "constant",
    "NaiveLearner": "naive",
    "A2C": "a2c",
    "DQN": "dqn",
    "PPO": "ppo",
    "PPO as published": "ppo-as-published",
}
# Name here -> name in the paper, each agent followed by its reality check.
PUBLISHED_NAMES = {
    name: shown
    for paper, agent in _AGENTS.items()
    for name, shown in ((agent, paper), (f"rc({agent})", f"RC({paper})"))
}
SCRIPTED = tuple(PUBLISHED_NAMES)[:6]
NEURAL = tuple(PUBLISHED_NAMES)[6:]
GROUPS = {"scripted": SCRIPTED, "neural": NEURAL, "all": (*SCRIPTED, *NEURAL)}
SEEDS = 10  # as in the paper
SEEDS_NEURAL_1000 = 2  # these take long; the paper has 10 of them too


@dataclass(frozen=True, eq=False)
class Row:
    """One number of Table 1 and ours; `result` is None where ours is the ledger's."""

    agent: str
    steps: int
    published: ledger.Number
    result: Reflection | None

    @property
    def number(self) -> ledger.Number:
        """The row of the ledger with ours from this run, if there was one."""
        return self.published if self.result is None else with_ours(self.published, self.result)


def chosen(agents: str) -> tuple[str, ...]:
    """Names of agents: of a group, or listed with commas between them."""
    if agents in GROUPS:
        return GROUPS[agents]
    names = tuple(name.strip() for name in agents.split(","))
    for name in names:
        if name not in PUBLISHED_NAMES:
            raise InvalidParameterError(
                f"agents is {agents!r}, expected {', '.join(GROUPS)}, or some of "
                f"{', '.join(PUBLISHED_NAMES)} with commas between them"
            )
    return names


def default_seeds(agent: str, steps: int) -> int:
    """How many seeds a row has unless `seeds` says otherwise."""
    return SEEDS_NEURAL_1000 if agent in NEURAL and steps == 1000 else SEEDS


def table(
    agents: Sequence[str],
    out: Path,
    *,
    lengths: Sequence[int] = STEPS,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
    progress: Tell | None = None,
) -> list[Row]:
    """Every row of Table 1; those of the agents named are run, the rest is as in the ledger.

    Runs that the folder `out` holds are continued. `lengths` are the steps of the trials to run;
    `seeds` None is `default_seeds`.
    """
    rows = []
    for number in ledger.load(LEDGER_PREFIX):
        steps, agent = setting(number.id)
        result = None
        if agent in agents and steps in lengths:
            n = default_seeds(agent, steps) if seeds is None else seeds
            if progress is not None:
                progress(f"{agent}, {steps} steps, {n} seeds")
            result = measure(
                agent,
                steps,
                range(seed, seed + n),
                on=on,
                out=run_folder(out, agent, steps),
                progress=progress,
            )
        rows.append(Row(agent, steps, number, result))
    return rows


def forecasts(
    agents: Sequence[str],
    out: Path,
    *,
    lengths: Sequence[int] = STEPS,
    seeds: int | None = None,
    seed: int = 0,
    on: str = HERE,
) -> list[Forecast]:
    """What each row that `table` would run will cost; the arguments are the same."""
    told = []
    for steps, agent in (setting(number.id) for number in ledger.load(LEDGER_PREFIX)):
        if agent in agents and steps in lengths:
            n = default_seeds(agent, steps) if seeds is None else seeds
            cost = forecast(
                agent,
                steps=steps,
                seeds=range(seed, seed + n),
                environments=BATTERY,
                on=on,
                out=run_folder(out, agent, steps),
            )
            told.append(replace(cost, name=f"{agent}, {steps} steps"))
    return told


def run_folder(out: Path, agent: str, steps: int) -> Path:
    """Where the run of an agent is."""
    return out / "runs" / f"{agent.replace('(', '-').rstrip(')')}-{steps}"


def setting(row_id: str) -> tuple[int, str]:
    """Steps and agent of a ledger row reflection-table-1/STEPS/AGENT."""
    steps, _, agent = row_id.removeprefix(LEDGER_PREFIX).partition("/")
    if steps not in map(str, STEPS) or agent not in PUBLISHED_NAMES:
        raise InvalidParameterError(
            f"ledger row {row_id!r}: expected {LEDGER_PREFIX}STEPS/AGENT with STEPS "
            f"{' or '.join(map(str, STEPS))} and AGENT one of {', '.join(PUBLISHED_NAMES)}"
        )
    return int(steps), agent


def with_ours(number: ledger.Number, result: Reflection) -> ledger.Number:
    """A row of the ledger with what was measured."""
    values = as_published(result)
    n = len(values)
    error = float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    return replace(number, ours=float(values.mean()), error=error, seeds=n)


def as_published(result: Reflection) -> FloatArray:
    """The measure of each seed, [seeds], as the authors' library would give it."""
    # Their reality check hands no setting on to the agent inside, so that one environment pays it
    # -1 and the opposite +1, whatever it does, and both together nothing. What they paid is left
    # out for a reality check; nothing else depends on it.
    is_check = inner_name(result.agent) is not None
    return result.by_seed - forwarded(result) if is_check else result.by_seed


def forwarded(result: Reflection) -> FloatArray:
    """What the environment that asks for a setting adds to the measure of each seed, [seeds]."""
    seeds = list(dict.fromkeys(trial.seed for trial in result.trials))
    trials_a_seed = len(result.trials) // len(seeds)
    totals = np.zeros(len(seeds))
    for trial in result.trials:
        if trial.environment == ASKS_SETTING:
            totals[seeds.index(trial.seed)] += trial.total_reward
    return totals / (trials_a_seed * result.steps)


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Values of ledger rows reflection-table-1/STEPS/AGENT, reward per step."""
    out = {}
    for row in ids:
        steps, agent = setting(row)
        out[row] = float(as_published(measure(agent, steps, SEEDS)).mean())
    return out
