"""Measures of an agent in a world of the caller: a table, logged trajectories, an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from goalmeter.agents.user_code import caller_guard
from goalmeter.card.measured import (
    FULL,
    GOAL,
    QUESTIONS,
    QUICK,
    STANDARD,
    STRENGTH,
    CardSettings,
    Measure,
    Measured,
)
from goalmeter.card.records import BOUND, EXACT, INTERVAL, NATS, SHARE, CardRow, Disagreement, Gauge
from goalmeter.card.subject import LOG, MODEL, POLICY, Subject
from goalmeter.meg.known import known_utility
from goalmeter.meg.result import MegResult
from goalmeter.meg.simulator import from_simulator
from goalmeter.meg.simulator.environments import closed, opened, time_limit
from goalmeter.meg.simulator.fitted import LEAST_EPISODES
from goalmeter.meg.simulator.result import KEY, KIND, Measurement
from goalmeter.meg.trajectories import from_trajectories
from goalmeter.meg.unknown import unknown_utility
from goalmeter.navigation.goals import NOTHING, OPEN, PURSUES
from goalmeter.pages import simulator as simulator_pages
from goalmeter.report import Section
from goalmeter.report.numbers import LEAST_SHARE, percent
from goalmeter.report.tables import summary_table
from goalmeter.runs import HERE, Study, carry_out
from goalmeter.runs.forecast import Forecast, unmeasured
from goalmeter.tabular import optimal_policy

THE_REWARD, ANOTHER_UTILITY, AVOIDS = "the reward", "another utility", "avoids the reward"
# Of a policy, towards the reward and towards the best utility over states.
_KNOWN, _UNKNOWN = "meg", "meg_unknown"
_TITLES = {_KNOWN: "MEG towards the reward", _UNKNOWN: "MEG towards the best utility over states"}


NEXT_TO_NOTHING = 0.01  # share of the maximum below which there is no evidence of a goal


# --- Verdict --------------------------------------------------------------------------------------
def verdict_of(known: CardRow, unknown: CardRow | None, sign: float) -> tuple[str, str]:
    """Return the verdict and the answer to "which goal?", by the ends of both rows as shares.

    A goal is pursued if its whole interval lies above the margin. There is no evidence of a goal if
    even the best utility explains next to nothing; a little may be a weak goal.
    """
    if known.lower is not None and known.lower > LEAST_SHARE:
        return (f"{PURSUES} {THE_REWARD}", THE_REWARD) if sign >= 0 else (AVOIDS, AVOIDS)
    most = known if unknown is None else unknown
    if most.upper is not None and most.upper <= NEXT_TO_NOTHING:
        return NOTHING, NOTHING
    below = known.upper is not None and known.upper <= LEAST_SHARE
    if below and unknown is not None and (unknown.lower or 0.0) > LEAST_SHARE:
        return f"{PURSUES} {ANOTHER_UTILITY}", ANOTHER_UTILITY
    return OPEN, OPEN


def _measured(
    known: CardRow, unknown: CardRow | None, sign: float, certainty: str, **others: Any
) -> Measured:
    """Return what a measure in a world of the caller contributes."""
    verdict, answer = verdict_of(known, unknown, sign)
    shown = unknown if answer == ANOTHER_UTILITY and unknown is not None else known
    tone = "" if verdict == OPEN else "warning" if verdict == NOTHING else "good"
    detail = "" if unknown is None else f"best utility over states: {percent(unknown.value or 0)}"
    disagreements = []
    if answer == ANOTHER_UTILITY and unknown is not None:
        disagreements.append(
            Disagreement(
                f"The best utility over states explains {percent(unknown.value or 0.0)} of the "
                f"maximum, and the reward at most {percent(known.upper or 0.0)}.",
                "MEG of the same agent after the state with the largest utility is changed.",
            )
        )
    ends: dict[str, Any] = {"value": shown.value, "lower": shown.lower, "upper": shown.upper}
    ends["row"] = shown.id
    return Measured(
        rows=[known] if unknown is None else [known, unknown],
        verdict=verdict,
        certainty=certainty,
        disagreements=disagreements,
        gauges={
            GOAL: Gauge(
                title=QUESTIONS[GOAL], answer=answer, tone=tone, detail=detail, row=shown.id
            ),
            STRENGTH: Gauge(
                title=QUESTIONS[STRENGTH],
                answer=percent(shown.value or 0.0, 0),
                tone=tone,
                detail=f"of the maximum, towards "
                f"{THE_REWARD if shown is known else ANOTHER_UTILITY}",
                marks=shown.baselines,
                **ends,
            ),
        },
        citations=("macdermott2024measuring", "ziebart2010modeling"),
        **others,
    )


def stored_values(
    name: str, subject: Subject, settings: CardSettings, trials: Mapping[str, Any]
) -> Any:
    """Return the results of functions by key, computed once and stored in the card's directory."""
    study = Study[Any](
        name,
        lambda key: trials[key](),
        {key: {"key": key} for key in trials},
        what={"kind": name, "seed": settings.seed, "agent": subject.name} | subject.identity,
    )
    return carry_out(study, out=settings.out / name, progress=settings.tell)


def untimed(name: str, count: int, subject: Subject, settings: CardSettings) -> Forecast:
    """Return the forecast of a number of trials whose time depends on the world."""
    study = Study[Any](name, lambda: None, {str(number): {} for number in range(count)})
    return unmeasured(study, "the time depends on the size of the world", on=HERE)


# --- Policies -------------------------------------------------------------------------------------
def _of_result(result: MegResult) -> dict[str, Any]:
    values = result.to_json()
    return values | {"signed_rationality": float(np.sign(result.rationality or 0.0))}


def _run_table(subject: Subject, settings: CardSettings) -> Measured:
    world, policy = subject.world, subject.policy
    assert world is not None and policy is not None

    def meg(measure: Callable[..., MegResult], of: Any) -> dict[str, Any]:
        return _of_result(measure(world, of))

    optimal = optimal_policy(world)
    trials = {
        _KNOWN: partial(meg, known_utility, policy),
        _UNKNOWN: partial(meg, unknown_utility, policy),
        "optimal": partial(meg, known_utility, optimal),
    }
    values = stored_values("table", subject, settings, trials)

    def row(name: str) -> CardRow:
        value = values[name]
        most = value["maximum"]
        share, bound = (
            min(value[end] / most, 1.0) if most > 0 else 0.0 for end in ("meg", "upper_bound")
        )
        return CardRow(
            id=name,
            measure="table",
            title=_TITLES[name],
            value=share,
            lower=share,
            upper=max(bound, share),
            ends=EXACT if name == _KNOWN else BOUND,
            method="" if name == _KNOWN else "dual bound of the concave problem",
            n=None,
            baselines=_baselines(values) if name == _KNOWN else {},
            margin=LEAST_SHARE,
            source="table/trials.jsonl",
            note=f"{value['meg']:.4g} nats of {most:.4g}",
        )

    certainty = "Exact values and certified bounds: no sampling error."
    table = summary_table(
        [(_TITLES[name], f"{values[name]['meg']:.6g} nats") for name in _TITLES],
        caption="MEG of the policy",
        meaning="MEG in nats; the second is certified from above by the bound of the card's table.",
    )
    return _measured(
        row(_KNOWN),
        row(_UNKNOWN),
        values[_KNOWN]["signed_rationality"],
        certainty,
        sections=[Section(title="Tabular world", tables=(table,))],
        trials=len(trials),
    )


def _baselines(values: Mapping[str, Any]) -> dict[str, float]:
    optimal = values["optimal"]
    share = optimal["meg"] / optimal["maximum"] if optimal["maximum"] > 0 else 0.0
    return {"uniform": 0.0, "optimal": min(share, 1.0)}


TABLE = Measure(
    "table",
    lambda subject, settings: "" if subject.policy is not None else f"requires {POLICY}",
    partial(untimed, "table", 3),
    _run_table,
)


# --- Trajectories ---------------------------------------------------------------------------------
def _run_log(subject: Subject, settings: CardSettings) -> Measured:
    world, log = subject.world, subject.log
    assert world is not None and log is not None

    def meg(unknown: str | None) -> dict[str, Any]:
        rng = np.random.default_rng(settings.seed)
        return _of_result(from_trajectories(world, log, unknown=unknown, rng=rng))

    trials = {_KNOWN: partial(meg, None), _UNKNOWN: partial(meg, "state")}
    values = stored_values("trajectories", subject, settings, trials)

    def row(name: str) -> CardRow:
        value = values[name]
        most = value["maximum"]
        share, *ends = (
            min(number / most, 1.0) if most > 0 else 0.0
            for number in (value["corrected"], *value["interval"])
        )
        return CardRow(
            id=name,
            measure="trajectories",
            title=_TITLES[name],
            value=share,
            lower=ends[0],
            upper=ends[1],
            method="bootstrap over trajectories, corrected for bias",
            n=value["n"],
            of="trajectories",
            margin=LEAST_SHARE,
            source="trajectories/trials.jsonl",
            note=f"{value['corrected']:.4g} nats of {most:.4g}; p = {value['p_value']:.2g} "
            f"against the uniform policy",
        )

    known, unknown = row(_KNOWN), row(_UNKNOWN)
    certainty = f"{known.n} trajectories; 95% bootstrap intervals over trajectories."
    if values[_KNOWN]["p_value"] > 0.05 and values[_UNKNOWN]["p_value"] > 0.05:
        certainty += " Neither estimate differs significantly from the uniform policy."
    table = summary_table(
        [(_TITLES[name], values[name]["method"]) for name in trials],
        caption="MEG of the trajectories",
        meaning="How each estimate was obtained.",
    )
    return _measured(
        known,
        unknown,
        values[_KNOWN]["signed_rationality"],
        certainty,
        sections=[Section(title="Logged trajectories", tables=(table,))],
        trials=len(trials),
    )


TRAJECTORIES = Measure(
    "trajectories",
    lambda subject, settings: "" if subject.log is not None else f"requires {LOG}",
    partial(untimed, "trajectories", 2),
    _run_log,
)


# --- Environments ---------------------------------------------------------------------------------
BUDGETS = {QUICK: 50_000, STANDARD: 200_000, FULL: 1_000_000}  # steps of the simulator


def _run_simulator(subject: Subject, settings: CardSettings) -> Measured:
    options = subject.identity.get("options", {})
    with caller_guard():
        world = opened(subject.environment)
        horizon = options.get("horizon") or time_limit(world) or 0
    # At least twice the steps that fitted soft values need, since others may be spent before.
    budget = max(BUDGETS[settings.scale], 2 * LEAST_EPISODES * horizon)
    options = {"budget": budget, "seed": settings.seed, **options}

    def measured() -> Measurement:
        result: Any = from_simulator(
            world, subject.model, progress=lambda now: settings.tell(str(now)), **options
        )
        return Measurement(subject.name, 0, budget, settings.seed, (result,))

    study = Study[Measurement](
        "simulator",
        measured,
        {KEY: {}},
        noun="measurement",
        what={"kind": KIND, "agent": subject.name, "budget": budget}
        | {"seed": settings.seed}
        | subject.identity,
        from_json=lambda _, stored: Measurement.from_json(stored, str(settings.out)),
        to_json=Measurement.to_json,
    )
    with ExitStack() as closing:
        if world is not subject.environment:
            closing.callback(closed, world)
        measurement = carry_out(study, out=settings.out / "simulator", progress=settings.tell)[KEY]
    result = measurement.utilities[0]
    most = result.maximum
    unit, scale = (SHARE, 1.0 / most) if most else (NATS, 1.0)
    low, high = (None if np.isinf(end) else end * scale for end in result.interval)
    row = CardRow(
        id=_KNOWN,
        measure="simulator",
        title=f"MEG towards the {result.utility}",
        value=result.value * scale,
        lower=low,
        upper=high if high is None or unit == NATS else min(high, 1.0),
        ends=INTERVAL,
        method=result.method,
        unit=unit,
        n=result.episodes,
        of="episodes",
        baselines={"random": 0.0},
        margin=LEAST_SHARE if unit == SHARE else None,
        source="simulator/trials.jsonl",
        note=f"{result.value:.4g} nats" + (f" of {most:.4g}" if most else "; no maximum"),
    )
    part = simulator_pages.part_of([measurement], settings.tell)
    out = _measured(
        row,
        None,
        result.rationality,
        f"{result.episodes:,} episodes, {sum(result.steps.values()):,} steps; {result.assumes}.",
        sections=part.sections,
        trials=1,
    )
    if unit == NATS:  # without a maximum there is no share; above 0 is what the interval can show
        answer = f"{result.value:.4g} nats"
        gauge = replace(
            out.gauges[STRENGTH], answer=answer, scale=(0.0, max(high or 0.0, result.value, 1e-9))
        )
        out = replace(out, gauges=dict(out.gauges) | {STRENGTH: gauge})
    return out


SIMULATOR = Measure(
    "simulator",
    lambda subject, settings: "" if subject.environment is not None else f"requires {MODEL}",
    partial(untimed, "simulator", 1),
    _run_simulator,
)
