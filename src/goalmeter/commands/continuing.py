"""What to type to make what a run still lacks.

An instrument only says what is missing (`IncompleteRunError`); how its command is spelled is known
here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from goalmeter._errors import IncompleteRunError
from goalmeter.agents.language_models.names import is_organism
from goalmeter.commands.suite_options import typed_options
from goalmeter.navigation.asking.settings import Asking
from goalmeter.navigation.plan import KIND as NAVIGATION
from goalmeter.reflection.environments.registry import BATTERY, opposite
from goalmeter.reflection.plan import KIND as REFLECTION
from goalmeter.reflection.plan import readings_of


def how_to_continue(error: IncompleteRunError) -> str:
    """What a run lacks, and what makes it: a command, or where none can say it a call.

    >>> print(how_to_continue(IncompleteRunError("run", {"kind": "navigation", "agent": "greedy",
    ...     "suite": "key-door", "sizes": [9], "grids": [0, 1], "trajectories": [0], "cap": 30,
    ...     "seed": 0}, missing=1, total=2, trials="walks")))
    run lacks 1 of 2 walks; make them with: goalmeter navigate greedy --suite key-door --sizes 9 \
--grids 2 --trajectories 1 --cap 30 --out run
    """
    return f"{error.shortage}; make them with: {command(error.what, error.folder)}"


def command(what: Mapping[str, Any], folder: str) -> str:
    """What to type to continue a run.

    Args:
        what: what the run is, as its run.json says.
        folder: where it is.
    """
    return _COMMANDS.get(what["kind"], _again)(what, folder)


def _navigate(what: Mapping[str, Any], folder: str) -> str:
    agent = what["agent"]
    typed = typed_options(what, held_out_by_default=is_organism(agent))
    if "prompts" in what:
        typed += ["--prompt", ",".join(what["prompts"])]
        typed += ["--history", str(what["history"])] if what.get("history") else []
        typed += _asking(Asking.from_json(what))
    words = ["goalmeter", "navigate", agent, "--suite", what["suite"], *typed, "--out", folder]
    return shlex.join(words)


# What is the default is not typed, so that the command reads as a user would have typed it.
def _asking(asking: Asking) -> list[str]:
    """The options that ask a language model in this way."""
    default, typed = Asking(), []
    for field in fields(asking):
        value = getattr(asking, field.name)
        if value == getattr(default, field.name):
            continue
        match field.name:
            case "options":
                for name, option in asking.to_json()["options"].items():
                    text = option if isinstance(option, str) else json.dumps(option)
                    typed += ["-M", f"{name}={text}"]
            case "seeded":
                typed.append("--no-seeds")
            case "logprobs":
                typed.append("--logprobs")
            case name:
                typed += [f"--{name.replace('_', '-')}", str(value)]
    return typed


def _reflect(what: Mapping[str, Any], folder: str) -> str:
    agent, seeds, names = what["agent"], what["seeds"], what["environments"]
    first, readings = seeds[0], readings_of(dict(what))
    # An environment that is named is played with its opposite, which is not typed again.
    environments = [n for n in names if not (n[:9] == "opposite(" and n[9:-1] in names)]
    if names == [way for e in BATTERY for way in (e.name, opposite(e.name))]:
        environments = []  # the battery is the default
    if seeds != list(range(first, first + len(seeds))):
        # The command counts seeds from the first one, so only a call can name these.
        options = {"out": folder} | ({"environments": environments} if environments else {})
        named = "".join(f", {name}={value!r}" for name, value in (options | readings).items())
        return f"goalmeter.reflection.measure({agent!r}, {what['steps']}, {seeds}{named})"
    words = ["goalmeter", "reflect", agent]
    for name in environments:
        words += ["--environment", name]
    words += ["--steps", what["steps"], "--seeds", len(seeds)]
    words += ["--seed", first] if first else []
    for option, value in readings.items():
        words += [f"--{option.replace('_', '-')}", value]
    return shlex.join(map(str, [*words, "--out", folder]))


# A sweep knows its worlds by content, and not by the file or the folder that named them.
def _again(what: Mapping[str, Any], folder: str) -> str:
    return f"the command that began it, with --out {shlex.quote(folder)}"


_COMMANDS: dict[str, Callable[[Mapping[str, Any], str], str]] = {
    NAVIGATION: _navigate,
    REFLECTION: _reflect,
}
