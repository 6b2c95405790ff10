"""`goalmeter reflect`: self-reflection of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SEED, InvalidParameterError, whole
from goalmeter.commands.declare import (
    DryRunOptions,
    PlaceOptions,
    Tell,
    argument,
    command,
    option,
    out_option,
)
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.pages.reflection_tables import early_text, measure_table, rewards_table
from goalmeter.reflection import Comparison, Reflection, compare, measure
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.measure import HEAVY, bare, check
from goalmeter.reflection.measure import forecast as forecast_of
from goalmeter.reflection.trial import MOST_SEEDS, MOST_STEPS, is_user_code

# Baseline agents, where playing them takes about a second.
BASELINES = ("random", "constant")
BASELINE_STEPS, BASELINE_PERCEPTS = 1000, 250_000
# Seconds for a trial of a user's code, unless --timeout says otherwise.
TIMEOUT = 60.0
# Of scripted agents, about; those that train take a thousand times as long.
SECONDS_A_PERCEPT = 6e-6


@dataclass(frozen=True, kw_only=True)
class ReflectOptions(PlaceOptions, DryRunOptions):
    """Options of `goalmeter reflect`."""

    agent: str | None = argument(
        str,
        "A name, such as rc(naive), or your own: FILE.py:NAME.",
        "AGENT",
        default=None,
        complete="agents",
    )
    environments: Sequence[str] = option(
        list[str],
        "Play this and its opposite, or opposite(NAME) alone; FILE.py:NAME for your own; repeat "
        "for more. Default: the paper's battery.",
        "NAME",
        default=(),
        flag="--environment",
        complete="environments",
    )
    steps: int = option(int, "Length of each trial, in percepts.", default=500, least=1)
    seeds: int = option(int, "Trials of each environment.", default=10, least=1)
    out: Path | None = out_option()
    timeout: float | None = option(
        float, "Seconds for a trial, 0 for no limit; default 60 for your own code.", least=0
    )
    opposite_reading: str = option(
        str, "Definition of an opposite.", "literal|unnegated", default="literal"
    )
    step_counting: str = option(
        str, "Definition of a step.", "percepts|actions", default="percepts"
    )
    against: str | None = option(
        str,
        "Compare with this agent on the same trials, which --out RUN stores in RUN.against.",
        "AGENT",
        complete="agents",
    )
    list_all: bool = option(
        bool, "Show the environments and agents that have names.", default=False, flag="--list"
    )
    seed: int = option(int, "The first seed.", default=0, least=0, most=MOST_SEED)

    @property
    def played(self) -> list[str]:
        """Names of the environments."""
        return list(self.environments) or [environment.name for environment in BATTERY]

    def of_agent(self, name: str, folder: Path | None, seeds: Sequence[int]) -> dict[str, Any]:
        """Return the options of `measure` for an agent."""
        users = any(map(is_user_code, [name, *self.played]))
        limit = self.timeout if self.timeout is not None else (TIMEOUT if users else 0.0)
        percepts = 2 * len(self.played) * len(seeds) * self.steps
        # The time of users' code is unknown: it is played on all cores.
        slow = users or bare(name) in HEAVY
        return {
            "steps": self.steps,
            "seeds": seeds,
            "environments": self.played,
            "opposite_reading": self.opposite_reading,
            "step_counting": self.step_counting,
            "on": self.place(seconds=inf if slow else percepts * SECONDS_A_PERCEPT),
            "timeout": None if limit == 0 else limit,
            "out": folder,
        }


@command(ReflectOptions)
def reflect(o: ReflectOptions, tell: Tell) -> Outcome:
    """Measure the self-reflection of an agent.

    Trials that an agent fails count with the reward they had; the exit status is 3 where none was
    finished.
    """
    if o.list_all:
        from goalmeter.commands.agents import catalogue

        return catalogue()
    if o.agent is None:
        raise InvalidParameterError(
            "AGENT is missing: name one, such as rc(naive) or my_agent.py:agent; --list shows "
            "all agents and environments"
        )
    # Before a range is made of them, or a product.
    whole(o.seeds, "seeds", least=1, most=MOST_SEEDS)
    whole(o.seed, "seed", least=0, most=MOST_SEED - o.seeds)
    whole(o.steps, "steps", least=1, most=MOST_STEPS)
    chosen = range(o.seed, o.seed + o.seeds)
    folder = None if o.out is None else Path(o.out)
    beside = None if folder is None else _beside(folder)
    options = o.of_agent(o.agent, folder, chosen)
    rivals = {} if o.against is None else {o.against: o.of_agent(o.against, beside, chosen)}
    if o.dry_run:
        named = {o.agent: options} | rivals
        return shown([forecast_of(name, **asked) for name, asked in named.items()])
    for name, asked in rivals.items():  # before the first agent is played, which may take long
        check(name, **asked)
    result = measure(o.agent, **options, progress=tell)
    rival = comparison = None
    for name, asked in rivals.items():
        rival = measure(name, **asked, progress=tell)
        comparison = compare(rival, result)
    names = [name for name in BASELINES if name not in (o.agent, o.against)]
    # Each environment is played with its opposite, so a seed is two trials of each.
    over = chosen[: BASELINE_PERCEPTS // (2 * len(o.played) * o.steps)]
    baselines = {}
    if over and names and o.steps <= BASELINE_STEPS:
        tell(f"baselines: {', '.join(names)}")
        baselines = {name: measure(name, **o.of_agent(name, None, over)) for name in names}
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
    """Return the run directory of the agent that it is compared with."""
    # "." and ".." have no name that could be continued.
    named = folder if folder.name not in ("", "..") else folder.resolve()
    return named.with_name(f"{named.name}.against")


def _none_finished(*results: Reflection | None) -> str:
    """Return an error about the first agent that finished no trial; "" if all did."""
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
