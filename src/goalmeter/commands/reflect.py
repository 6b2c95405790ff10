"""`goalmeter reflect`: self-reflection of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SEED, InvalidParameterError
from goalmeter.agents import Ability, listed_names
from goalmeter.commands.declare import PlaceOptions, RunOptions, Tell, argument, command, option
from goalmeter.commands.outcome import Outcome, planned
from goalmeter.pages.reflection import early_text, measure_table, rewards_table
from goalmeter.reflection import compare, measure
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.environments.registry import environment_names
from goalmeter.reflection.measure import HEAVY, bare, check, forecast
from goalmeter.reflection.trial import MOST_SEEDS, MOST_STEPS, is_user_code

# Baseline agents, where playing them takes about a second.
BASELINES = ("random", "constant")
BASELINE_STEPS, BASELINE_PERCEPTS = 1000, 250_000
TIMEOUT = 60.0  # seconds for a trial of a user's code, unless --timeout says otherwise
SECONDS_A_PERCEPT = 6e-6  # of scripted agents; those that train take a thousand times as long


def _agents() -> list[str]:
    names = listed_names(Ability.HISTORY)
    return [*names, *map("rc({})".format, names)]


def _environments() -> list[str]:
    names = environment_names()
    return [*names, *map("opposite({})".format, names)]


@dataclass(frozen=True, kw_only=True)
class ReflectOptions(PlaceOptions, RunOptions):
    """Options of `goalmeter reflect`."""

    agent: str | None = argument(
        "AGENT  A name, such as rc(naive), or FILE.py:NAME.", default=None, complete=_agents
    )
    environments: Sequence[str] = option(
        "--environment NAME  Play this and its opposite, or opposite(NAME) alone; FILE.py:NAME for "
        "your own; repeat for more. Default: the paper's battery.",
        default=(),
        complete=_environments,
    )
    steps: int = option("Length of each trial, in percepts.", default=500, least=1, most=MOST_STEPS)
    seeds: int = option("Trials of each environment.", default=10, least=1, most=MOST_SEEDS)
    timeout: float | None = option(
        "Seconds for a trial, 0 for no limit; default 60 for your own code.", least=0
    )
    opposite_reading: str = option("literal|unnegated  Reading of an opposite.", default="literal")
    step_counting: str = option("percepts|actions  Definition of a step.", default="percepts")
    against: str | None = option(
        "AGENT  Compare with this agent on the same trials, which --out RUN stores in RUN.against.",
        complete=_agents,
    )
    list_all: bool = option("--list  Show environments and agents that have names.", default=False)
    seed: int = option("The first seed.", default=0, least=0, most=MOST_SEED)

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
            "timeout": limit or None,
            "on": self.place(seconds=inf if slow else percepts * SECONDS_A_PERCEPT),
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
            "AGENT is missing: name one, such as rc(naive) or my_agent.py:agent; --list shows all"
        )
    seeds = range(o.seed, o.seed + o.seeds)
    folders: dict[str, Path] = {}
    if o.out is not None:
        # "." and ".." have no name that could be continued.
        named = Path(o.out) if Path(o.out).name not in ("", "..") else Path(o.out).resolve()
        folders = {"run": Path(o.out), "against_run": named.with_name(f"{named.name}.against")}
    asked = {"run": o.agent} | ({} if o.against is None else {"against_run": o.against})
    in_turn = [(name, o.of_agent(name, folders.get(run), seeds)) for run, name in asked.items()]
    if o.dry_run:
        return planned(*(forecast(name, **options) for name, options in in_turn))
    for name, options in in_turn[1:]:
        check(name, **options)  # before the first agent is played, which may take long
    measured = [measure(name, **options, progress=tell) for name, options in in_turn]
    result, rival = measured[0], measured[1] if len(measured) > 1 else None
    comparison = None if rival is None else compare(rival, result)
    # Each environment is played with its opposite, so a seed is two trials of each.
    over = seeds[: BASELINE_PERCEPTS // (2 * len(o.played) * o.steps)]
    names = [name for name in BASELINES if name not in (o.agent, o.against)]
    baselines = {}
    if over and names and o.steps <= BASELINE_STEPS:
        tell(f"baselines: {', '.join(names)}")
        baselines = {name: measure(name, **o.of_agent(name, None, over)) for name in names}
    json = result.to_json()
    short = ("seeds", "measure", "stderr", "interval", "failures", "outcomes")
    json["baselines"] = {
        name: {key: value for key, value in baseline.to_json().items() if key in short}
        for name, baseline in baselines.items()
    }
    if rival is not None and comparison is not None:
        json |= {"against": rival.to_json(), "comparison": comparison.to_json()}
    json |= {name: str(folder.resolve()) for name, folder in folders.items() if name in asked}
    failed = [each for each in measured if len(each.failures) == len(each.trials)]
    return Outcome(
        text=early_text(result, rival),
        incomplete=""
        if not failed
        else (
            f"none of the {len(failed[0].failures)} trials of {failed[0].agent} was finished, so "
            f"its measure says nothing; the table says why"
        ),
        tables=[rewards_table(result, rival), measure_table(result, rival, comparison, baselines)],
        json=json,
    )
