"""Self-reflection of an agent as a measure of a card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from goalmeter.agents.abilities import Ability
from goalmeter.card.measured import (
    FULL,
    QUESTIONS,
    QUICK,
    REFLECTION,
    STANDARD,
    CardSettings,
    Measure,
    Measured,
)
from goalmeter.card.records import REWARD, CardRow, Gauge
from goalmeter.card.subject import Subject
from goalmeter.pages import reflection as pages
from goalmeter.reflection import compare, measure
from goalmeter.reflection.environments.registry import BATTERY
from goalmeter.reflection.measure import HEAVY, bare, baselines, forecast
from goalmeter.reflection.trial import is_user_code
from goalmeter.report import Section
from goalmeter.report.numbers import plus
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, together
from goalmeter.statistics.verdicts import Verdict, verdict

NAME = "reflection"
# Steps and seeds; of agents that train; of language models, whose context may hold few steps.
TRIALS = {QUICK: (150, 5), STANDARD: (500, 10), FULL: (1000, 10)}
SLOW_TRIALS = {QUICK: (100, 5), STANDARD: (500, 5), FULL: (1000, 10)}
MODEL_TRIALS = {STANDARD: (50, 5), FULL: (60, 10)}
# Difference to the reality check that counts as none, in reward per step.
MARGIN = 0.05
METHOD = "Student's t over seeds"


def _options(subject: Subject, settings: CardSettings) -> dict[str, Any]:
    trials = SLOW_TRIALS if bare(subject.name) in HEAVY else TRIALS
    steps, seeds = (MODEL_TRIALS if subject.is_language_model else trials)[settings.scale]
    users = is_user_code(subject.name)
    return {
        "environments": [environment.name for environment in BATTERY],
        "steps": steps,
        "seeds": range(settings.seed, settings.seed + seeds),
        "timeout": 60.0 if users else None,
        "on": settings.on,
    }


def _agents(subject: Subject, settings: CardSettings) -> Mapping[str, Any]:
    """Return the agent and its reality check, by the names of their directories."""
    if subject.is_object:
        assert subject.named is not None
        return {"agent": subject.named.at_histories(settings.seed)}
    return {"agent": subject.name, "reality-check": f"rc({subject.name})"}


def _reason(subject: Subject, settings: CardSettings) -> str:
    if Ability.HISTORY not in subject.abilities:
        return "requires an agent that can be queried at a history"
    if subject.is_language_model and settings.scale == QUICK:
        return "not run for a language model at the quick scale (about 40,000 calls)"
    return ""


def _forecast(subject: Subject, settings: CardSettings) -> Forecast:
    options = _options(subject, settings)
    if subject.is_object:
        count = 2 * len(BATTERY) * len(options["seeds"])
        return Forecast(name=NAME, noun="trial", trials=count, left=count)
    parts = [
        forecast(agent, **options, out=settings.out / NAME / name)
        for name, agent in _agents(subject, settings).items()
    ]
    return together(NAME, parts)


def _run(subject: Subject, settings: CardSettings) -> Measured:
    options, agents = _options(subject, settings), _agents(subject, settings)
    if subject.is_object:  # other processes could not find it
        options |= {"on": HERE, "timeout": None}
    results = {}
    for name, each in agents.items():
        out = None if subject.is_object else settings.out / NAME / name
        results[name] = measure(each, **options, out=out, progress=settings.tell)
    agent = results["agent"]
    beside = baselines([subject.name], progress=settings.tell, **options)
    marks = {name: result.measure for name, result in beside.items()}
    source = "" if subject.is_object else f"{NAME}/agent/trials.jsonl"
    common: dict[str, Any] = {"measure": NAME, "unit": REWARD, "of": "seeds", "method": METHOD}
    low, high = agent.interval
    few = low != low
    rows = [
        CardRow(
            id="reflection",
            title="Self-reflection",
            value=agent.measure,
            lower=None if few else low,
            upper=None if few else high,
            n=len(agent.by_seed),
            baselines=marks,
            margin=MARGIN,
            source=source,
            **common,
        )
    ]
    words = "no reality check: the agent has no name"
    if "reality-check" in results:
        change = compare(agent, results["reality-check"])
        gained = verdict(change.interval, MARGIN)
        rows.append(
            CardRow(
                id="reality_check",
                title="Gain by the reality check",
                value=change.difference,
                lower=None if few else change.interval[0],
                upper=None if few else change.interval[1],
                n=len(agent.by_seed),
                margin=MARGIN,
                source=f"{NAME}/reality-check/trials.jsonl",
                note="paired by environment and seed",
                **common,
            )
        )
        words = {
            Verdict.EQUAL: "its reality check does equally well",
            Verdict.ABOVE: "its reality check does better",
            Verdict.BELOW: "its reality check does worse",
        }.get(gained, "compared with its reality check: inconclusive")
    gauge = Gauge(
        title=QUESTIONS[REFLECTION],
        answer=f"{plus(agent.measure, 3)} per step",
        detail=words,
        value=agent.measure,
        lower=rows[0].lower,
        upper=rows[0].upper,
        scale=(-1.0, 1.0),
        marks=marks,
        row="reflection",
    )
    failures = {name: count for name, count in agent.outcomes.items() if name != "ok"}
    tables = pages.short_tables([*results.values()])
    return Measured(
        rows=rows,
        gauges={REFLECTION: gauge},
        sections=[Section(title="Self-reflection", tables=tables)],
        failures=failures,
        trials=sum(len(result.trials) for result in results.values()),
        citations=("alexander2022extending",),
        elicitation=(
            {"self-reflection": "this model was not trained for these environments"}
            if subject.is_language_model
            else None
        ),
    )


MEASURE = Measure(NAME, _reason, _forecast, _run)
