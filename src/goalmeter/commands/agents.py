"""`goalmeter agents`, `goalmeter reflect --list` and `goalmeter train-organism`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, make_dataclass, replace
from pathlib import Path
from typing import Any

from goalmeter._errors import finite
from goalmeter._names import AGENTS, PluginError, origin, plugins
from goalmeter.agents.abilities import Ability
from goalmeter.agents.local_models import organism_agents
from goalmeter.agents.registry import factories, plugin_factory
from goalmeter.commands.declare import Tell, argument, command, option
from goalmeter.commands.options import SeedOptions, Steps
from goalmeter.commands.outcome import Outcome
from goalmeter.organisms.training import recipe, train
from goalmeter.pages import Texts
from goalmeter.reflection.environments import all_environments
from goalmeter.runs import cores

say = Texts("commands")

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
    lines = listings()
    rows = []
    for line in lines:
        about = line["about"] + (f" (of {line['package']})" if line["package"] else "")
        measured = ", ".join(line["instruments"]) or None
        rows.append(line | {"what": line["problem"] or about, "measured": measured})
    notes = [
        f"goalmeter {name} needs {' or '.join(map(str, needed))}."
        for name, needed in INSTRUMENTS.items()
    ]
    table = say.table("agents", rows, notes=notes)
    abilities = {ability.name.lower(): str(ability) for ability in Ability}
    return Outcome(tables=(table,), json={"agents": lines, "abilities": abilities})


def listings(needed: Ability | None = None) -> list[dict[str, Any]]:
    """Return every agent, or those with an ability; packages that add some are imported."""
    rows: list[tuple[str, str, Collection[Ability], dict[str, str]]] = []
    for name, kinds in factories().items():
        matching = [kind for kind in kinds if needed is None or needed in kind.abilities] or kinds
        about = "; ".join(kind.about for kind in matching)
        abilities = {ability for kind in matching for ability in kind.abilities}
        rows.append((matching[0].spelled(name), about, abilities, {}))
    local_model = (Ability.TEXT, Ability.HIDDEN)
    rows += [(name, about, local_model, {}) for name, about in organism_agents().items()]
    for name, entry in plugins(AGENTS).items():
        more = {"package": origin(entry)}
        try:
            kind = plugin_factory(name)
        except PluginError as error:  # it hinders no other
            rows.append((name, "", (), more | {"problem": str(error)}))
        else:
            rows.append((kind.spelled(name), kind.about, kind.abilities, more))
    # Names that stand for many agents: what can be asked of them, as far as each allows it.
    for name, form in say.declared("forms").items():
        abilities = {Ability[ability] for ability in form["abilities"]}
        rows.append((name, form["about"], abilities, {}))
    return [
        {
            "name": name,
            "about": about,
            "abilities": [ability.name.lower() for ability in Ability if ability in able],
            "instruments": [name for name, some in INSTRUMENTS.items() if set(some) & set(able)],
            "package": None,
            "problem": None,
        }
        | more
        for name, about, able, more in rows
        if needed is None or needed in able
    ]


def catalogue() -> Outcome:
    """Return all environments and agents, as tables and as JSON."""
    names = ("name", "n_actions", "n_observations", "in_battery", "idea")
    environments, rows = [], []
    for each in all_environments():
        options = {name: list(values) for name, values in each.run.options.items()}
        about: dict[str, Any] = {name: getattr(each, name) for name in names}
        environments.append(about | {"options": options, "known_returns": each.known_returns})
        # The first value of each is the default.
        readings = [f"{name}={value}" for name, some in options.items() for value in some[1:]]
        battery = "yes" if each.in_battery else None
        rows.append(about | {"battery": battery, "readings": " ".join(readings) or None})
    agents = [{key: line[key] for key in ("name", "about")} for line in listings(Ability.HISTORY)]
    return Outcome(
        tables=(say.table("environments", rows), say.table("names", agents)),
        json={"environments": environments, "agents": agents},
    )


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(SeedOptions):
    """Options of `goalmeter train-organism`; None stands for the value of the recipe."""

    name: str = argument("NAME  mouse, magpie, mole or moth.", complete="organisms")
    out: Path | None = option("Run directory; default runs/organism-NAME.")
    steps: Steps | None = option("Training steps; default as in the recipe.")
    rate: float | None = option("Learning rate; default as in the recipe.")
    begin_with: str | None = option("--from  Organism or folder of its first weights, or nothing.")
    sizes: Sequence[int] | None = option("5,7  Sizes of grids; default 5,7,9,11.", commas=True)
    keys: bool = option("--keys/--no-keys  Worlds with keys too.", default=True)
    device: str | None = option("cpu, cuda, ...; default the first GPU if there is one.")
    workers: int | None = option("Processes; default two if there are cores.", least=1, most=2)


@command(TrainingOptions)
def train_organism(o: TrainingOptions, tell: Tell) -> Outcome:
    """Train a small language model whose goal is known.

    An interrupted training is resumed by the same command.
    """
    usual = recipe(o.name)
    sizes = tuple(o.sizes) if o.sizes else None
    changes: dict[str, Any] = {"begin_with": o.begin_with, "sizes": sizes}
    # A recipe may have several rounds with rates of their own; --steps and --rate describe one.
    if o.steps is not None or o.rate is not None:
        rate = usual.rounds[0][1] if o.rate is None else o.rate
        finite(rate, "--rate", least=1e-12, most=10.0)
        changes["rounds"] = ((usual.steps if o.steps is None else o.steps, rate),)
    given = {name: value for name, value in changes.items() if value is not None}
    settings = replace(usual, keys=o.keys, seed=o.seed, **given)
    folder = train(
        settings,
        Path("runs") / f"organism-{o.name}" if o.out is None else o.out,
        device=o.device,
        workers=min(cores(), 2) if o.workers is None else o.workers,
        progress=tell,
    )
    result = asdict(settings) | {"organism": o.name, "weights": str(folder.resolve())}
    text = (
        f"The {o.name} is trained: {folder.resolve()}\n"
        f"Evaluate it: goalmeter replicate organisms --agents {o.name}={folder}"
    )
    return Outcome(tables=(), json=result, text=text)
