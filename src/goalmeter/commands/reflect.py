"""`goalmeter reflect`: self-reflection of an agent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from goalmeter._errors import MOST_SEED, InvalidParameterError
from goalmeter.agents import Ability, listed_names
from goalmeter.agents.local_models import is_model
from goalmeter.commands.declare import RunOptions, Tell, argument, command, option
from goalmeter.commands.outcome import Outcome, planned
from goalmeter.pages.reflection import early_text, measure_table, rewards_table
from goalmeter.reflection import compare, measure
from goalmeter.reflection.environments.registry import BATTERY, environment_names
from goalmeter.reflection.measure import BASELINES, HEAVY, bare, baselines, check, forecast
from goalmeter.reflection.trial import MOST_SEEDS, MOST_STEPS, is_user_code

TIMEOUT = 60.0  # seconds for a trial of a user's code, unless --timeout says otherwise
SECONDS_A_PERCEPT = 6e-6  # of scripted agents; those that train take a thousand times as long


def _agents() -> list[str]:
    return [form.format(n) for form in ("{}", "rc({})") for n in listed_names(Ability.HISTORY)]


@dataclass(frozen=True, kw_only=True)
class _ReflectOptions(RunOptions):
    agent: str | None = argument(
        "AGENT  A name, such as rc(naive), or FILE.py:NAME.", default=None, complete=_agents
    )
    environments: Sequence[str] = option(
        "--environment NAME  This and its opposite, or opposite(NAME) alone, or FILE.py:NAME; "
        "default the paper's battery.",
        default=(),
        complete=lambda: [f.format(n) for f in ("{}", "opposite({})") for n in environment_names()],
    )
    steps: int = option("Percepts of each trial.", default=500, least=1, most=MOST_STEPS)
    seeds: int = option("Trials of each environment.", default=10, least=1, most=MOST_SEEDS)
    timeout: float | None = option(
        "Seconds for a trial, 0 for no limit; default 60 for your own code.", least=0
    )
    opposite_reading: str = option("literal|unnegated  Reading of an opposite.", default="literal")
    step_counting: str = option("percepts|actions  Definition of a step.", default="percepts")
    against: str | None = option(
        "AGENT  Compare with this agent; its trials are in RUN.against.", complete=_agents
    )
    list_all: bool = option("--list  Show environments and agents that have names.", default=False)
    seed: int = option("The first seed.", default=0, least=0, most=MOST_SEED)


@command(_ReflectOptions)
def reflect(o: _ReflectOptions, tell: Tell) -> Outcome:
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
    environments = list(o.environments) or [environment.name for environment in BATTERY]
    seeds = range(o.seed, o.seed + o.seeds)

    def options_of(name: str, out: Path | None) -> dict[str, Any]:
        users = any(map(is_user_code, [name, *environments]))
        limit = o.timeout if o.timeout is not None else (TIMEOUT if users else 0.0)
        # The time of users' code is unknown: it is played on all cores.
        slow = users or bare(name) in HEAVY
        percepts = 2 * len(environments) * len(seeds) * o.steps  # each with its opposite
        # Other processes would each load a language model.
        seconds = inf if slow else 0 if is_model(bare(name)) else percepts * SECONDS_A_PERCEPT
        readings = {name: getattr(o, name) for name in ("opposite_reading", "step_counting")}
        where = {"timeout": limit or None, "on": o.place(seconds=seconds), "out": out}
        return {"environments": environments, "steps": o.steps, "seeds": seeds} | readings | where

    run = beside = None
    if o.out is not None:
        # "." and ".." have no name that could be continued.
        run, named = Path(o.out), Path(o.out).resolve()
        beside = (run if run.name not in ("", "..") else named).with_name(f"{named.name}.against")
    in_turn = [(o.agent, options_of(o.agent, run))]
    if o.against is not None:
        in_turn.append((o.against, options_of(o.against, beside)))
    if o.dry_run:
        return planned(*(forecast(name, **options) for name, options in in_turn))
    for name, options in in_turn[1:]:
        check(name, **options)  # before the first agent is played, which may take long
    measured = [measure(name, **options, progress=tell) for name, options in in_turn]
    result, rival = measured[0], measured[1] if len(measured) > 1 else None
    comparison = None if rival is None else compare(rival, result)
    options = options_of(BASELINES[0], None)
    others = baselines((o.agent, str(o.against)), **options, progress=tell)
    short = ("seeds", "measure", "stderr", "interval", "failures", "outcomes")
    shown = {name: baseline.to_json() for name, baseline in others.items()}
    json = result.to_json()
    json["baselines"] = {name: {key: of[key] for key in short} for name, of in shown.items()}
    json |= {} if run is None else {"run": str(run.resolve())}
    if rival is not None and comparison is not None:
        json |= {"against": rival.to_json(), "comparison": comparison.to_json()}
        json |= {} if beside is None else {"against_run": str(beside.resolve())}
    return Outcome(
        text=early_text(measured),
        incomplete=next(filter(None, (each.failed_in_words for each in measured)), ""),
        tables=[rewards_table(result, rival), measure_table(result, rival, comparison, others)],
        json=json,
    )
