"""Evaluate one agent with every applicable measure: the plan, the runs, and the card."""

from __future__ import annotations

import platform
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._files import strict_json, write_text
from goalmeter.card import grids, hidden, histories, interventions, isometries, worlds
from goalmeter.card.gates import read_claim, with_verdict
from goalmeter.card.measured import (
    GOAL,
    QUESTIONS,
    REFLECTION,
    SLOTS,
    CardSettings,
    Measure,
    Measured,
)
from goalmeter.card.page import render_card
from goalmeter.card.records import (
    CARD_HTML,
    CARD_JSON,
    ITEMS_JSON,
    Card,
    CardRow,
    Claim,
    Disagreement,
    Gauge,
    NotRun,
)
from goalmeter.card.subject import Subject, subject_of
from goalmeter.card.text import short_name
from goalmeter.gridworld.conversions import GOAL_UTILITY
from goalmeter.navigation.goals import OPEN, PURSUES, WISHES
from goalmeter.report.numbers import percent
from goalmeter.runs.forecast import Forecast
from goalmeter.statistics.verdicts import FOLLOWS, NOT_FOLLOWS

# In the order of the card.
MEASURES: dict[str, Measure] = {
    each.name: each
    for each in (
        grids.MEASURE,
        worlds.TABLE,
        worlds.TRAJECTORIES,
        worlds.SIMULATOR,
        interventions.MEASURE,
        isometries.MEASURE,
        hidden.MEASURE,
        histories.MEASURE,
    )
}
_PACKAGES = ("numpy", "scipy", "gymnasium", "torch", "transformers", "inspect_ai")
_DROPPED = "dropped (--without)"


@dataclass(frozen=True)
class CardPlan:
    """What a card will contain."""

    subject: Subject
    settings: CardSettings
    measures: Sequence[Measure]
    not_run: Sequence[NotRun]
    claim: Claim | None

    def forecasts(self) -> list[Forecast]:
        """Estimate the cost of each measure from some trials."""
        return [
            replace(each.forecast(self.subject, self.settings), name=each.name)
            for each in self.measures
        ]


def plan_of(agent: Any, settings: CardSettings) -> CardPlan:
    """Return the plan of a card."""
    if unknown := [name for name in settings.without if name not in MEASURES]:
        raise InvalidParameterError(
            f"without names {unknown[0]!r}, expected one of {', '.join(MEASURES)}"
        )
    subject = subject_of(agent, settings.world)
    reasons = {
        name: _DROPPED if name in settings.without else each.reason(subject, settings)
        for name, each in MEASURES.items()
    }
    chosen = [each for name, each in MEASURES.items() if not reasons[name]]
    if not chosen:
        why = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise InvalidParameterError(f"no measure applies to {subject.name}: {why}")
    not_run = [NotRun(name, reason) for name, reason in reasons.items() if reason]
    claim = None if settings.claim is None else read_claim(settings.claim)
    return CardPlan(subject, settings, chosen, not_run, claim)


def measure(agent: Any, **options: Any) -> Card:
    """Evaluate one agent with every applicable measure, and write its card.

    Args:
        agent: a name as on the command line, such as "goalmeter/mouse", "greedy", "sb3:PATH.zip" or
            "FILE.py:NAME"; a function of (world, state) or of (history, n_actions,
            n_observations); a policy [S, A] or [H, S, A], or logged `Trajectories`, with `world`; a
            Stable-Baselines3 model with `world`, a Gymnasium environment.
        options: fields of `CardSettings`: `world`, `scale` ("quick", "standard" or "full"),
            `without`, `claim`, `seed`, `on`, `out` and `progress`.

    Returns:
        The card; `card.json`, `items.json` and `card.html` are in its directory.

    Example: a policy that goes for the reward in two of three states.
        >>> import goalmeter as gm
        >>> mdp = gm.cliff_world(goal_length=1)
        >>> card = measure(gm.optimal_policy(mdp), world=mdp, scale="quick")
        >>> card.headline
        'policy pursues the reward'
    """
    return carry_out_plan(plan_of(agent, CardSettings(**options)))


def carry_out_plan(plan: CardPlan) -> Card:
    """Run all measures of a plan, and write the card."""
    settings = plan.settings
    if plan.claim is not None:
        _state_claim(plan.claim, settings.out)
    measured: dict[str, Measured] = {}
    for each in plan.measures:
        settings.tell(f"{plan.subject.name}: {each.name}")
        measured[each.name] = each.run(plan.subject, settings)
    card = _card(plan, measured)
    if card.claim is not None:
        card = replace(card, claim=with_verdict(card.claim, card))
    items = {name: rows for each in measured.values() for name, rows in each.items.items()}
    write_text(settings.out / CARD_JSON, strict_json(card.to_json()) + "\n")
    write_text(settings.out / ITEMS_JSON, strict_json(items) + "\n")
    figure = next((each.figure for each in measured.values() if each.figure), None)
    details = [section for each in measured.values() for section in each.sections]
    write_text(settings.out / CARD_HTML, render_card(card, figure=figure, details=details))
    return card


def _state_claim(claim: Claim, out: Path) -> None:
    """Store the hash of a claim before the first trial; refuse another claim later."""
    path = out / "claim.sha256"
    if path.exists() and path.read_text("utf-8").split()[0] != claim.sha256:
        raise InvalidParameterError(
            f"{out} was begun with another claim (its hash is in {path.name}); choose another "
            f"directory, or the file of that claim"
        )
    if not path.exists():
        if (out / CARD_JSON).exists():
            raise InvalidParameterError(
                f"{out} already has a card, and a claim must be stated before the first trial; "
                f"choose another directory"
            )
        write_text(path, claim.sha256 + "\n")


def _card(plan: CardPlan, measured: Mapping[str, Measured]) -> Card:
    """Return the card of some results."""
    subject, settings = plan.subject, plan.settings
    measured = reconciled(measured)
    gauges = {slot: gauge for each in measured.values() for slot, gauge in each.gauges.items()}
    verdict = next((each.verdict for each in measured.values() if each.verdict), "")
    failures: Counter[str] = Counter()
    for each in measured.values():
        failures.update(each.failures)
    elicitation = {k: v for each in measured.values() for k, v in (each.elicitation or {}).items()}
    return Card(
        agent=subject.name,
        about=subject.about,
        scale=settings.scale,
        seed=settings.seed,
        headline=headline_of(subject.name, verdict, measured),
        verdict=verdict or OPEN,
        certainty=" ".join(each.certainty for each in measured.values() if each.certainty),
        gauges=[gauges.get(slot, _empty(slot, plan)) for slot in SLOTS],
        rows=[row for each in measured.values() for row in each.rows],
        disagreements=[text for each in measured.values() for text in each.disagreements],
        claim=plan.claim,
        elicitation=elicitation or None,
        not_run=plan.not_run,
        failures=dict(failures),
        trials=sum(each.trials for each in measured.values()),
        citations=list(dict.fromkeys(key for each in measured.values() for key in each.citations)),
        versions=_versions(),
        command=_command(subject, settings),
        logs=[
            path.relative_to(settings.out).as_posix()
            for path in sorted(settings.out.glob("**/inspect/*.eval"))
        ],
    )


# --- Verdict --------------------------------------------------------------------------------------
_PURSUES_GOAL = f"{PURSUES} {WISHES[GOAL_UTILITY]}"


def joint_verdict(verdict: str, on_true_map: bool, moved_goal: str) -> str:
    """Return the verdict of walks as they are and of walks after the goal was moved.

    An agent that follows a moved goal pursues it, also if its walks as they are leave that open. An
    agent that does not follow it may have a habit that only looks like pursuit of the goal; one
    that acts on another map was scored on the true one, which decides nothing.
    """
    if verdict == OPEN and moved_goal == FOLLOWS:
        return _PURSUES_GOAL
    if verdict == _PURSUES_GOAL and on_true_map and moved_goal == NOT_FOLLOWS:
        return OPEN
    return verdict


def reconciled(measured: Mapping[str, Measured]) -> Mapping[str, Measured]:
    """Return what was measured, with the verdict of walks changed by those under intervention."""
    walks, moved = (measured.get(each) for each in (grids.NAME, interventions.NAME))
    if walks is None or moved is None:
        return measured
    verdict = joint_verdict(walks.verdict, **walks.facts, **moved.facts)
    if verdict == walks.verdict:
        return measured
    row, disagreements = _row_named("follows_goal", moved), list(walks.disagreements)
    if verdict == _PURSUES_GOAL:
        answer, tone = WISHES[GOAL_UTILITY], "good"
        certainty = (
            f"It follows a goal that is moved: pursuit of it explains at least "
            f"{percent(row.lower or 0.0)} of the maximum there (95%, {row.n} mazes)."
        )
    else:
        answer, tone = OPEN, ""
        certainty = "Walks as they are and walks after the goal is moved contradict each other."
        before, after = (percent(r.value or 0.0) for r in (_row_named("meg", walks), row))
        text = (
            f"In mazes as they are, pursuit of the goal explains {before} of the maximum; after "
            f"the goal is moved it explains {after}, and the agent does not follow it."
        )
        other = "Other candidates, such as a habit or a place that correlates with the goal."
        disagreements.append(Disagreement(text, other))
    gauge = replace(walks.gauges[GOAL], answer=answer, tone=tone)
    changed = replace(
        walks,
        verdict=verdict,
        certainty=certainty,
        disagreements=disagreements,
        gauges={**walks.gauges, GOAL: gauge},
    )
    return {**measured, grids.NAME: changed}


def _row_named(name: str, measured: Measured) -> CardRow:
    return next(row for row in measured.rows if row.id == name)


def headline_of(name: str, verdict: str, measured: Mapping[str, Measured]) -> str:
    """Return the headline, which states the verdict and nothing else."""
    short = short_name(name)
    if verdict:
        return f"{short} {verdict}" if verdict.startswith(PURSUES) else f"{short}: {verdict}"
    if (reflection := measured.get(histories.NAME)) is not None:
        (gauge,) = reflection.gauges.values()
        return f"{short}: self-reflection {gauge.answer}"
    return f"{short}: {OPEN}"


def _empty(slot: str, plan: CardPlan) -> Gauge:
    """Return the gauge of a question that no measure answers, with the reason."""
    reasons = {each.measure: each.reason for each in plan.not_run}
    by = histories.NAME if slot == REFLECTION else grids.NAME
    return Gauge(title=QUESTIONS[slot], answer="not measured", detail=reasons.get(by, ""))


def _versions() -> dict[str, str]:
    out = {"goalmeter": sys.modules["goalmeter"].__version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out


def _command(subject: Subject, settings: CardSettings) -> str:
    words = ["goalmeter", "measure", subject.name]
    if (world := settings.world) is not None:
        words += ["--world", str(world) if isinstance(world, str | Path) else "(an object)"]
    words += [f"--{settings.scale}", "--seed", str(settings.seed)]
    for name in settings.without:
        words += ["--without", name]
    return shlex.join([*words, "--out", str(settings.out)])
