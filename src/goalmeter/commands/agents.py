"""`goalmeter agents`, `goalmeter reflect --list` and `goalmeter train-organism`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from goalmeter._names import AGENTS, PluginError, origin, plugins
from goalmeter.agents.abilities import Ability
from goalmeter.agents.local_models import organism_agents
from goalmeter.agents.registry import factories, plugin_factory
from goalmeter.commands.outcome import Outcome
from goalmeter.organisms.training import recipe, train
from goalmeter.reflection.environments import Environment, all_environments
from goalmeter.report.numbers import DASH
from goalmeter.report.tables import column, table_of, words
from goalmeter.runs import cores

# --- Agents ---------------------------------------------------------------------------------------
# What each instrument can measure: an agent with one of these abilities.
INSTRUMENTS: dict[str, tuple[Ability, ...]] = {
    "reflect": (Ability.HISTORY,),
    "navigate": (Ability.GRID, Ability.TEXT),
    "meg mdp": (Ability.TABLE,),
    "probe": (Ability.HIDDEN,),
}
_MODEL = (Ability.TEXT,)
_LOCAL_MODEL = (Ability.TEXT, Ability.HIDDEN)
_OWN = (Ability.HISTORY, Ability.GRID)
_TRAINED = (Ability.HISTORY, Ability.GRID, Ability.TABLE)
# Names that stand for many agents: about, and what can be asked of them, as far as each allows it.
FORMS: dict[str, tuple[str, tuple[Ability, ...]]] = {
    "rc(NAME)": (
        "the reality check of any agent: it freezes where it did not act as it would",
        (Ability.HISTORY,),
    ),
    "FILE.py:NAME": ("your own: a function, or an object with begin", _OWN),
    "sb3:PATH.zip": ("a policy that Stable-Baselines3 saved: PPO, A2C or DQN", _TRAINED),
    "policy:PATH.npz": ("a policy file, [S, A] or [H, S, A], over a world's states", _TRAINED),
    "goalmeter/AGENT": ("a reference agent without memory that reads prompts", _MODEL),
    "goalmeter-local/FOLDER": ("a language model in a folder of this machine", _LOCAL_MODEL),
    # Inspect's provider does not return the ids of tokens, without which no run can be probed.
    "hf/NAME": ("a model of the Hugging Face Hub; save it to a folder to probe it", _MODEL),
    "PROVIDER/NAME": ("any other model, as Inspect spells it: vllm/, openai/, ...", _MODEL),
}


@dataclass(frozen=True)
class Listing:
    """A line of the list; `name` is in the spelling in which it can be used.

    `package` is the other package that registers it, "" for ours; `problem` says why that package
    cannot be used, "" if it can.
    """

    name: str
    about: str
    abilities: tuple[Ability, ...]
    package: str = ""
    problem: str = ""

    @property
    def instruments(self) -> list[str]:
        """Those that can measure it."""
        able = set(self.abilities)
        return [name for name, needed in INSTRUMENTS.items() if able & set(needed)]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "name": self.name,
            "about": self.about,
            "abilities": [ability.name.lower() for ability in self.abilities],
            "instruments": self.instruments,
            "package": self.package or None,
            "problem": self.problem or None,
        }


def agents() -> Outcome:
    """All agents that have names, as a table and as JSON; packages that register some are imported.

    A package that cannot be loaded is a line that says so.
    """
    lines = listings()
    return Outcome(
        tables=(
            table_of(
                lines,
                (
                    words("name", lambda line: line.name),
                    words("what it is", lambda line: line.problem or _with_package(line)),
                    words("measured by", lambda line: ", ".join(line.instruments) or DASH),
                ),
                caption="Agents",
                meaning="What AGENT can be, and the commands that can measure it; in a shell, "
                "names with brackets stand in quotes.",
                notes=[
                    f"goalmeter {name} needs {' or '.join(map(str, needed))}."
                    for name, needed in INSTRUMENTS.items()
                ],
            ),
        ),
        json={
            "agents": [line.to_json() for line in lines],
            "abilities": {ability.name.lower(): str(ability) for ability in Ability},
        },
    )


def listings(needed: Ability | None = None) -> list[Listing]:
    """Every agent that can be named, or that has an ability; packages that add some are imported.

    Where a name is that of agents of two kinds, those that have the ability are described.
    """
    forms = [Listing(name, about, abilities) for name, (about, abilities) in FORMS.items()]
    lines = [*_ours(needed), *_of_packages(), *forms]
    return [line for line in lines if needed is None or needed in line.abilities]


def _ours(needed: Ability | None) -> Iterable[Listing]:
    for name, kinds in factories().items():
        matching = [kind for kind in kinds if needed is None or needed in kind.abilities] or kinds
        abilities = {ability for factory in matching for ability in factory.abilities}
        yield Listing(
            matching[0].spelled(name),
            "; ".join(factory.about for factory in matching),
            tuple(ability for ability in Ability if ability in abilities),
        )
    for name, about in organism_agents().items():
        yield Listing(name, about, _LOCAL_MODEL)


# One broken package is a line of the list; it hinders nobody who asks for the others.
def _of_packages() -> Iterable[Listing]:
    for name, entry in plugins(AGENTS).items():
        try:
            factory = plugin_factory(name)
        except PluginError as error:
            yield Listing(name, "", (), origin(entry), str(error))
        else:
            abilities = tuple(ability for ability in Ability if ability in factory.abilities)
            yield Listing(factory.spelled(name), factory.about, abilities, origin(entry))


def _with_package(line: Listing) -> str:
    return f"{line.about} (of {line.package})" if line.package else line.about


# --- Reflect list ---------------------------------------------------------------------------------
_RETURNS = re.compile(r"^Known returns:\n((?:[ \t]+.*\n?)*)", re.MULTILINE)


def catalogue() -> Outcome:
    """All environments and agents, as tables and as JSON."""
    environments = [_about(environment) for environment in all_environments()]
    agents = {line.name: line.about for line in listings(Ability.HISTORY)}
    return Outcome(
        tables=(
            table_of(
                environments,
                (
                    words("name", itemgetter("name")),
                    column("actions", itemgetter("n_actions")),
                    column("observations", itemgetter("n_observations")),
                    column("battery", lambda about: "yes" if about["in_battery"] else DASH),
                    words("idea", itemgetter("idea")),
                    words("other readings", itemgetter("options"), _other_readings),
                ),
                caption="Environments",
                meaning="Each has an opposite, spelled opposite(NAME). The battery is the paper's "
                "25. Other readings are spelled NAME(option=value).",
                notes=("One of your own is FILE.py:NAME, a class derived from Run.",),
            ),
            table_of(
                agents.items(),
                (words("name", itemgetter(0)), words("", itemgetter(1))),
                caption="Agents",
                meaning="What AGENT can be; in a shell, names with brackets stand in quotes.",
            ),
        ),
        json={
            "environments": environments,
            "agents": [{"name": name, "about": about} for name, about in agents.items()],
        },
    )


def _other_readings(options: dict[str, list[Any]]) -> str:
    # The first value of each is the default.
    readings = [f"{name}={value}" for name, values in options.items() for value in values[1:]]
    return " ".join(readings) or DASH


def _about(environment: Environment) -> dict[str, Any]:
    returns = _RETURNS.search(environment.doc)
    lines = [line.strip() for line in returns[1].splitlines()] if returns else []
    return {
        "name": environment.name,
        "n_actions": environment.n_actions,
        "n_observations": environment.n_observations,
        "in_battery": environment.in_battery,
        "idea": environment.idea,
        "options": {name: list(values) for name, values in environment.run.options.items()},
        "known_returns": [line for line in lines if line],
    }


# --- Train organism -------------------------------------------------------------------------------
def train_organism(
    name: str,
    out: str | Path | None = None,
    *,
    steps: int | None = None,
    rate: float | None = None,
    begin_with: str | None = None,
    sizes: list[int] | None = None,
    keys: bool = True,
    seed: int = 0,
    device: str | None = None,
    workers: int | None = 1,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Train an organism, or go on where its training stopped.

    By default checkpoints and weights go to runs/organism-NAME; `steps`, `rate` and `begin_with` (a
    shipped organism, a folder, or "nothing" for fresh weights) are the recipe's; all `sizes` of
    grids are learnt; and it runs on the first GPU, or else on the processor. `workers` None is two
    processes if there are cores, and does not change the weights. `keys` asks for worlds with keys
    and doors too.
    """
    usual = recipe(name)
    rounds = None
    # A recipe may have several rounds with rates of their own; --steps and --rate describe one.
    if steps is not None or rate is not None:
        usual_rate = usual.rounds[0][1]
        only = (usual.steps if steps is None else steps, usual_rate if rate is None else rate)
        rounds = (only,)
    options: dict[str, Any] = {
        "rounds": rounds,
        "begin_with": begin_with,
        "sizes": sizes and tuple(sizes),
    }
    changes = {option: value for option, value in options.items() if value is not None}
    settings = replace(usual, keys=keys, seed=seed, **changes)
    folder = train(
        settings,
        Path("runs") / f"organism-{name}" if out is None else out,
        device=device,
        workers=min(cores(), 2) if workers is None else workers,
        progress=progress,
    )
    result = asdict(settings) | {"organism": name, "weights": str(folder.resolve())}
    text = (
        f"The {name} is trained: {folder.resolve()}\n"
        f"See how good it is: goalmeter replicate organisms --agents {name}={folder}"
    )
    return Outcome(tables=(), json=result, text=text)
