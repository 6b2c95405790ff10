"""`goalmeter reflect`: self-reflection of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SEED, InvalidParameterError, whole
from goalmeter.commands.declare import Tell, argument, command, option, several
from goalmeter.commands.options import Count, PlaceOptions, RunOptions, Seed
from goalmeter.commands.outcome import Outcome, shown
from goalmeter.pages.reflection import early_text, measure_table, rewards_table
from goalmeter.reflection import compare, measure
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.measure import HEAVY, bare, check
from goalmeter.reflection.measure import forecast as forecast_of
from goalmeter.reflection.trial import MOST_SEEDS, MOST_STEPS, is_user_code

# Baseline agents, where playing them takes about a second.
BASELINES = ("random", "constant")
BASELINE_STEPS, BASELINE_PERCEPTS = 1000, 250_000
TIMEOUT = 60.0  # seconds for a trial of a user's code, unless --timeout says otherwise
SECONDS_A_PERCEPT = 6e-6  # of scripted agents; those that train take a thousand times as long


@dataclass(frozen=True, kw_only=True)
class ReflectOptions(PlaceOptions, RunOptions):
    """Options of `goalmeter reflect`."""

    agent: str | None = argument(
        "AGENT  A name, such as rc(naive), or FILE.py:NAME.", default=None, complete="agents"
    )
    environments: Sequence[str] = several(
        "--environment NAME  Play this and its opposite, or opposite(NAME) alone; FILE.py:NAME for "
        "your own; repeat for more. Default: the paper's battery.",
        complete="environments",
    )
    steps: Count = option("Length of each trial, in percepts.", default=500)
    seeds: Count = option("Trials of each environment.", default=10)
    timeout: float | None = option(
        "Seconds for a trial, 0 for no limit; default 60 for your own code.", least=0
    )
    opposite_reading: str = option("literal|unnegated  Reading of an opposite.", default="literal")
    step_counting: str = option("percepts|actions  Definition of a step.", default="percepts")
    against: str | None = option(
        "AGENT  Compare with this agent on the same trials, which --out RUN stores in RUN.against.",
        complete="agents",
    )
    list_all: bool = option("--list  Show environments and agents that have names.", default=False)
    seed: Seed = option("The first seed.", default=0)

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
        place = self.place(seconds=inf if slow else percepts * SECONDS_A_PERCEPT)
        as_they_are = ("steps", "opposite_reading", "step_counting")
        more = {"seeds": seeds, "environments": self.played, "timeout": limit or None, "on": place}
        return {name: getattr(self, name) for name in as_they_are} | more | {"out": folder}


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
    # Before a range is made of them, or a product.
    whole(o.seeds, "seeds", least=1, most=MOST_SEEDS)
    whole(o.seed, "seed", least=0, most=MOST_SEED - o.seeds)
    whole(o.steps, "steps", least=1, most=MOST_STEPS)
    seeds = range(o.seed, o.seed + o.seeds)
    folders: dict[str, Path] = {}
    if o.out is not None:
        # "." and ".." have no name that could be continued.
        named = Path(o.out) if Path(o.out).name not in ("", "..") else Path(o.out).resolve()
        folders = {"run": Path(o.out), "against_run": named.with_name(f"{named.name}.against")}
    asked = {"run": o.agent} | ({} if o.against is None else {"against_run": o.against})
    in_turn = [(name, o.of_agent(name, folders.get(run), seeds)) for run, name in asked.items()]
    if o.dry_run:
        return shown([forecast_of(name, **options) for name, options in in_turn])
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
    incomplete = ""
    for each in measured[::-1]:
        if len(each.failures) == len(each.trials):
            incomplete = (
                f"none of the {len(each.failures)} trials of {each.agent} was finished, so its "
                f"measure says nothing; the table says why"
            )
    return Outcome(
        text=early_text(result, rival),
        incomplete=incomplete,
        tables=(rewards_table(result, rival), measure_table(result, rival, comparison, baselines)),
        json=json,
    )
