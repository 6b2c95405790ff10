"""All environments by name, the battery in the paper's order, and how names are spelled.

A name is that of the class of runs; options follow in brackets, and `opposite(...)` stands around
it all: IgnoreRewards, opposite(IgnoreRewards), TemptingButton(coding=paper),
opposite(CryingBaby(nutrition=paper, recursion=paper)). A class of runs in a user's own file is
FILE.py:NAME, and one that another package registers has the name of its entry point; both can stand
wherever a name can.
"""

from __future__ import annotations

import re
from importlib import import_module

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean, listed
from goalmeter._plugins import ENVIRONMENTS as PLUGINS
from goalmeter._plugins import loaded, plugins, refuse_taken
from goalmeter.agents.user_code import canonical, load, misspelled, split_name
from goalmeter.reflection.environments.base import Run
from goalmeter.reflection.environments.record import Environment

# IgnoreRewards2 is the class of that name in ignore_rewards_2.py, and so on.
_BATTERY = (
    "BackwardConsciousness",
    "DejaVu",
    "FalseMemories",
    "IgnoreRewards",
    "IgnoreRewards2",
    "IgnoreRewards3",
    "IgnoreObservations",
    "IgnoreActions",
    "IncentivizeZero",
    "CryingBaby",
    "CryingBaby2",
    "TemptingButton",
    "TemptingButtonVariation",
    "ThirdActionForbidden",
    "ShiftedRewards",
    "DelayedRewards",
    "Repeater",
    "AfterImages",
    "SelfRecognition",
    "LimitedMemory",
    "CensoredObservation",
    "NthRewardMultipliedByN",
    "AdversarialSequencePredictor",
    "AdversarialSequenceEvader",
    "IncentivizeLearningRate",
)
_OUTSIDE = (
    "PunishSlowAgent",
    "PunishFastAgent",
    "PunishDeterministicAgent",
    "PunishNondeterministicAgent",
    "FlipEveryOther",
)


def _run(name: str) -> type[Run]:
    file = re.sub(r"(?<!^)(?=[A-Z]|\d)", "_", name).lower()
    run: type[Run] = getattr(import_module(f"{__package__}.{file}"), name)
    return run


# The 25 of the paper, in its library's order; with their opposites they are the battery.
BATTERY: tuple[Environment, ...] = tuple(
    Environment(_run(name), in_battery=True) for name in _BATTERY
)
# Every environment of goalmeter's own, by name.
ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment
    for environment in (*BATTERY, *(Environment(_run(name)) for name in _OUTSIDE))
}

# No two parts of a pattern can take the same blanks, or a long line of them would take for ever.
_OPPOSITE = re.compile(r"opposite\((.*)\)")
_TWICE = re.compile(r"opposite\(\s*opposite\((.*)\)\s*\)")
_NAME = re.compile(r"((?:.+\.py:)?\w+)\s*(?:\((.*)\))?")
_OPTION = re.compile(r"(\w+)\s*=\s*(\w+)")


def opposite(name: str) -> str:
    """The name of the opposite of an environment."""
    return f"opposite({name})"


def all_environments() -> list[Environment]:
    """Every environment; the packages that register some are imported.

    Raises:
        GoalmeterError: one of them cannot be imported, or registers no environment.
    """
    return [environment for name in environment_names() if (environment := _named(name))]


def environment_names() -> list[str]:
    """The names of all environments, those of other packages too, which are not imported."""
    return [*ENVIRONMENTS, *plugins(PLUGINS)]


def find(spelled: str) -> tuple[Environment, bool]:
    """The environment of a name, and whether its opposite is meant.

    Raises:
        InvalidParameterError: there is none, or it has not those options.
        InvalidFileError: a user's file is missing, fails, or has no such environment.
        PluginError: a package that registers it cannot be imported, or takes a name of ours.

    >>> environment, is_opposite = find("opposite(TemptingButton(coding=paper))")
    >>> environment.name, environment.base, is_opposite
    ('TemptingButton(coding=paper)', 'TemptingButton', True)
    """
    around = _OPPOSITE.fullmatch(spelled.strip())
    inner = _NAME.fullmatch(around[1].strip() if around else spelled.strip())
    of_file = split_name(inner[1]) if inner else None
    if inner is not None and of_file is not None:
        options = _options(inner[2], spelled)
        run: type[Run] = load(*of_file, kind="environment")
        return Environment(run, options=options, spelled=canonical(inner[1])), around is not None
    environment = _named(inner[1]) if inner else None
    if inner is None or environment is None:
        raise InvalidParameterError(_unknown(spelled, inner[1] if inner else spelled))
    if options := _options(inner[2], spelled):  # another reading is not the one of the battery
        environment = Environment(environment.run, options=options, spelled=environment.spelled)
    return environment, around is not None


def _named(name: str) -> Environment | None:
    """Ours of a name, else the one that an installed package registers under it."""
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name]
    refuse_taken(PLUGINS, ENVIRONMENTS)
    entry = plugins(PLUGINS).get(name)
    return None if entry is None else Environment(loaded(entry), spelled=name)


def _unknown(spelled: str, name: str) -> str:
    if name.endswith(".py"):
        return f"{name} is a file; say which of its environments: {name}:NAME"
    if hint := misspelled(spelled, "my_world.py:MyWorld"):
        return f"there is no environment {spelled!r}: {hint}"
    if twice := _TWICE.fullmatch(spelled.strip()):
        return (
            f"there is no environment {spelled!r}: the opposite of an opposite is "
            f"{twice[1].strip()} itself; name that"
        )
    known = environment_names()
    hint = did_you_mean(name, known, quoted=True) or ";"
    return f"there is no environment {spelled!r}{hint} known are {listed(known)}"


def _options(text: str | None, spelled: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in text.split(",") if text else ():
        pair = _OPTION.fullmatch(part.strip())
        if pair is None:
            raise InvalidParameterError(
                f"environment {spelled!r}: {part.strip()!r} is no option, expected name=value,"
                " such as coding=paper"
            )
        pairs.append((pair[1], pair[2]))
    return tuple(pairs)
