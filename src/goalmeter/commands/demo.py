"""`goalmeter demo`: cards of the four organisms, and their comparison."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from goalmeter.agents.local_models import OURS
from goalmeter.card.evaluate import carry_out_plan, plan_of
from goalmeter.card.measured import QUICK, CardSettings
from goalmeter.card.records import CARD_HTML, Card
from goalmeter.commands.card import compare
from goalmeter.commands.declare import RunOptions, SeedOptions, Tell, command, option
from goalmeter.commands.outcome import Outcome, planned
from goalmeter.navigation.agent_walks import require_models
from goalmeter.report import require_report_extra
from goalmeter.runs import Study, carry_out

# The mole walks longest, so its card is begun first.
ORGANISMS = ("mole", "moth", "magpie", "mouse")


@dataclass(frozen=True, kw_only=True)
class _DemoOptions(RunOptions, SeedOptions):
    out: Path = option(
        "Directory of the cards; an existing one is resumed.", default=Path("goalmeter-demo")
    )


@command(_DemoOptions)
def demo(o: _DemoOptions, tell: Tell) -> Outcome:
    """Evaluate four small language models whose goals are known.

    It is `goalmeter measure --quick` of mole, moth, magpie and mouse, and `goalmeter compare`. The
    last line of the output is the path of the comparison.
    """
    require_report_extra()
    require_models(f"{OURS}{name}" for name in ORGANISMS)
    if o.dry_run:
        plans = [plan_of(f"{OURS}{name}", _settings(name, o.seed, o.out)) for name in ORGANISMS]
        return planned(*(each for plan in plans for each in plan.forecasts()))
    trials = {name: {"name": name} for name in ORGANISMS}
    common = {"seed": o.seed, "out": str(o.out)}
    study = Study[Card]("demo", f"{__name__}:evaluate", trials, common, noun="card")
    study = replace(study, from_json=lambda _, value: Card.from_json(value))
    cards = carry_out(study, on=o.place(), progress=tell)
    folders = {name: o.out / name for name in cards}
    compared = compare([*folders.values()], out=o.out, progress=tell)
    lines = [f"- {card.headline}: {folders[name] / CARD_HTML}" for name, card in cards.items()]
    json = compared.json | {"cards": [*map(str, folders.values())]}
    return replace(compared, tables=(), text="\n".join(lines), json=json)


def evaluate(name: str, seed: int, out: str) -> dict[str, Any]:
    """Evaluate an organism in a worker process, and return its card as JSON values."""
    settings = _settings(name, seed, Path(out))
    return carry_out_plan(plan_of(f"{OURS}{name}", settings)).to_json()


def _settings(name: str, seed: int, out: Path) -> CardSettings:
    return CardSettings(scale=QUICK, seed=seed, out=out / name)
