"""`goalmeter demo`: cards of the four organisms, and their comparison."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from goalmeter.agents.local_models import OURS
from goalmeter.card.evaluate import CardPlan, carry_out_plan, plan_of
from goalmeter.card.grids import NAME, plans_of
from goalmeter.card.measured import QUICK, CardSettings
from goalmeter.card.records import CARD_HTML
from goalmeter.commands.card import compare
from goalmeter.commands.declare import RunOptions, SeedOptions, Tell, command, option
from goalmeter.commands.outcome import Outcome, planned
from goalmeter.navigation.agent_walks import require_models, run_folder
from goalmeter.organisms.kinds import organism_names
from goalmeter.report import require_report_extra
from goalmeter.runs import HERE, Study, carry_out, keys_in


@dataclass(frozen=True, kw_only=True)
class _DemoOptions(RunOptions, SeedOptions):
    out: Path = option(
        "Directory of the cards; an existing one is resumed.", default=Path("goalmeter-demo")
    )


@command(_DemoOptions)
def demo(o: _DemoOptions, tell: Tell) -> Outcome:
    """Evaluate four small language models whose goals are known.

    It is `goalmeter measure --quick` of mouse, magpie, mole and moth, and `goalmeter compare`. The
    last line of the output is the path of the comparison, which leads to the cards.
    """
    require_report_extra()
    agents = {name: f"{OURS}{name}" for name in organism_names()}
    require_models(agents.values())
    settings = CardSettings(scale=QUICK, seed=o.seed, out=o.out, progress=tell)
    plans = {
        name: plan_of(agent, replace(settings, out=o.out / name)) for name, agent in agents.items()
    }
    if o.dry_run:
        return planned(*(each for plan in plans.values() for each in plan.forecasts()))
    _walk([*plans.values()], o.place(), tell)
    cards = {plan.settings.out: carry_out_plan(plan) for plan in plans.values()}
    compared = compare([*cards], out=o.out, progress=tell)
    headlines = {card.agent: card.headline for card in cards.values()}
    return replace(
        compared,
        tables=(),
        text="\n".join(
            f"- {card.headline}: {folder / CARD_HTML}" for folder, card in cards.items()
        ),
        json=compared.json | {"headlines": headlines, "cards": [str(folder) for folder in cards]},
    )


def _walk(plans: list[CardPlan], on: str, tell: Tell) -> None:
    """Let all models walk at once, each run in a process of its own."""
    trials = {}
    for plan in plans:
        for walks in plans_of(plan.subject, plan.settings):
            folder = run_folder(walks, plan.settings.out / NAME)
            if not walks.keys().keys() <= set(keys_in(folder)):
                key = f"{walks.agent} in {walks.suite.name}"
                trials[key] = {"run": json.dumps(walks.what), "folder": str(folder)}
    if on != HERE and len(trials) > 1:
        ask = "goalmeter.navigation.agent_walks:ask"
        carry_out(Study[None]("language models", ask, trials, noun="run"), on=on, progress=tell)
