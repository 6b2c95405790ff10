"""`goalmeter agents`, `goalmeter reflect --list` and `goalmeter train-organism`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, make_dataclass
from pathlib import Path
from typing import Any

from goalmeter._options import given, optional
from goalmeter.agents.abilities import Ability
from goalmeter.agents.registry import ListedAgent, all_agents
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.outcome import Outcome
from goalmeter.organisms import organism_names
from goalmeter.organisms.training import Settings, recipe, train
from goalmeter.pages import Texts
from goalmeter.reflection.environments import all_environments
from goalmeter.report.numbers import DASH
from goalmeter.runs import cores

say = Texts("commands", {"yes": lambda value: "yes" if value else DASH})

# What each instrument can measure: an agent with one of these abilities.
INSTRUMENTS: dict[str, tuple[Ability, ...]] = {
    "reflect": (Ability.HISTORY,),
    "navigate": (Ability.GRID, Ability.TEXT),
    "meg mdp": (Ability.TABLE,),
    "probe": (Ability.HIDDEN,),
}


@command(make_dataclass("NoOptions", ()))
def agents(o: Any, tell: Tell) -> Outcome:
    """List available agents and the measures that support each."""
    lines, rows = [], []
    for each in listed():
        able = {*each.abilities}
        measured = [name for name, needed in INSTRUMENTS.items() if able.intersection(needed)]
        abilities = [ability.name.lower() for ability in Ability if ability in able]
        lines.append(each._asdict() | {"abilities": abilities, "instruments": measured})
        about = each.problem or each.about + (f" (of {each.package})" if each.package else "")
        rows.append({"name": each.name, "what": about, "measured": ", ".join(measured) or None})
    needs = [(name, " or ".join(map(str, needed))) for name, needed in INSTRUMENTS.items()]
    notes = [f"goalmeter {name} needs {needed}." for name, needed in needs]
    words = {ability.name.lower(): str(ability) for ability in Ability}
    table = say.table("agents", rows, notes=notes)
    return Outcome(tables=[table], json={"agents": lines, "abilities": words})


def listed(needed: Ability | None = None) -> list[ListedAgent]:
    """Return every agent, or those with an ability, and the names that stand for many."""
    # What can be asked of these, as far as each allows it.
    forms = [
        ListedAgent(name, form["about"], [Ability[ability] for ability in form["abilities"]])
        for name, form in say.declared("forms").items()
    ]
    return all_agents(needed) + [each for each in forms if needed in (None, *each.abilities)]


def catalogue() -> Outcome:
    """Return all environments and agents, as tables and as JSON."""
    environments, agents = all_environments(), listed(Ability.HISTORY)
    json = {
        "environments": [each.to_json() for each in environments],
        "agents": [{"name": each.name, "about": each.about} for each in agents],
    }
    tables = [say.table("environments", environments), say.table("names", agents)]
    return Outcome(tables=tables, json=json)


@dataclass(frozen=True, kw_only=True)
class _TrainingOptions(optional(Settings)):  # type: ignore[misc]
    name: str = argument("NAME  mouse, magpie, mole or moth.", complete=organism_names)
    out: Path | None = option("Run directory; default runs/organism-NAME.")
    steps: int | None = option("Default as in the recipe.", least=1, most=10_000_000)
    rate: float | None = option("Learning rate; default as in the recipe.", least=1e-12, most=10)
    device: str | None = option("cpu, cuda, ...; default the first GPU if there is one.")
    workers: int | None = option("Processes; default two if there are cores.", least=1, most=2)


@command(_TrainingOptions)
def train_organism(o: _TrainingOptions, tell: Tell) -> Outcome:
    """Train a small language model whose goal is known, by default as ours were trained.

    An interrupted training is resumed by the same command.
    """
    settings = recipe(o.name, steps=o.steps, rate=o.rate, **given(o, Settings))
    out = o.out or Path("runs") / f"organism-{o.name}"
    workers = o.workers or min(cores(), 2)
    folder = train(settings, out, device=o.device, workers=workers, progress=tell)
    result = asdict(settings) | {"organism": o.name, "weights": str(folder.resolve())}
    text = (
        f"The {o.name} is trained: {folder.resolve()}\n"
        f"Evaluate it: goalmeter replicate organisms --agents {o.name}={folder}"
    )
    return Outcome(tables=[], json=result, text=text)
