"""`goalmeter measure`: evaluate one agent with every applicable measure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents import listed_names
from goalmeter.card.evaluate import MEASURES, carry_out_plan, plan_of
from goalmeter.card.measured import SCALES, STANDARD, CardSettings
from goalmeter.card.records import CARD_HTML, CARD_JSON
from goalmeter.card.text import as_text
from goalmeter.commands.declare import RunOptions, Tell, argument, command, option
from goalmeter.commands.outcome import Outcome, planned
from goalmeter.report import require_report_extra
from goalmeter.runs.forecast import Forecast
from goalmeter.runs.progress import in_words


def _scale(name: str) -> Any:
    return option(f"The {name} scale.", default=False)


@dataclass(frozen=True, kw_only=True)
class _MeasureOptions(RunOptions):
    agent: str = argument(
        "AGENT  A name, such as goalmeter/mouse or sb3:PATH.zip; FILE.py:NAME; POLICY.npz or "
        "TRAJECTORIES.npz with --world.",
        complete=listed_names,
    )
    world: str | None = option("MDP.npz|ENV_ID  The agent's own world: a table, or Gymnasium's.")
    quick: bool = _scale("quick")
    standard: bool = option("The standard scale, the default.", default=False)
    full: bool = _scale("full")
    without: Sequence[str] = option(
        f"MEASURE  Leave a measure out: {', '.join(MEASURES)}.",
        default=(),
        complete=lambda: [*MEASURES],
    )
    claim: Path | None = option("FILE.toml  A claim, which is hashed before the first trial.")
    seed: int = option("Seed of everything random.", default=0, least=0, most=2**31 - 1)


@command(_MeasureOptions)
def measure(o: _MeasureOptions, tell: Tell) -> Outcome:
    """Evaluate one agent with every applicable measure.

    The plan is printed first. The same command resumes an interrupted evaluation. It ends with the
    path of the card; card.json has the same numbers.
    """
    chosen = [name for name in SCALES if getattr(o, name)]
    if len(chosen) > 1:
        raise InvalidParameterError(
            f"{' and '.join(f'--{name}' for name in chosen)} given, expected at most one scale"
        )
    require_report_extra()
    settings = CardSettings(
        world=o.world,
        scale=chosen[0] if chosen else STANDARD,
        without=o.without,
        claim=o.claim,
        seed=o.seed,
        on=o.place(seconds=0.0),
        out=o.out or Path("cards") / _folder(o.agent),
        progress=tell,
    )
    plan = plan_of(o.agent, settings)
    forecasts = plan.forecasts()
    if o.dry_run:
        return planned(*forecasts)
    for forecast in forecasts:
        tell(_planned(forecast))
    for each in plan.not_run:
        tell(f"not run: {each.measure}: {each.reason}")
    card = carry_out_plan(plan)
    out = settings.out.resolve()
    json = card.to_json() | {"report": str(out / CARD_HTML), "results": str(out / CARD_JSON)}
    failed = sum(card.failures.values())
    return Outcome(
        tables=(),
        text=as_text(card),
        json=json,
        report=out / CARD_HTML,
        incomplete=f"{failed} trials failed; the same command makes them again" if failed else "",
    )


def _planned(forecast: Forecast) -> str:
    """Return what a measure will run, in one line."""
    words = [f"{forecast.left:,} of {forecast.trials:,} {forecast.noun}s to run"]
    if forecast.calls is not None:
        words.append(f"up to {forecast.calls.most:,.0f} calls of the model")
    if forecast.hours is not None:
        words.append(f"about {in_words(3600 * forecast.hours.most)}")
    return f"plan: {forecast.name}: {', '.join(words)}"


def _folder(agent: str) -> str:
    """Return the name of the default directory of an agent's card."""
    return "".join(char if char.isalnum() or char in "-.()" else "_" for char in agent)
