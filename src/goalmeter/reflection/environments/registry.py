"""All environments by name, the battery in the paper's order, and how names are spelled.

A name is that of the class of runs; options follow in brackets, and `opposite(...)` stands around
it all: IgnoreRewards, opposite(IgnoreRewards), TemptingButton(coding=paper),
opposite(CryingBaby(nutrition=paper, recursion=paper)). A class of runs in a user's own file is
FILE.py:NAME, and can stand wherever a name can. Other packages add names by the entry-point group
`goalmeter.environments`, whose entries are such classes.
"""

from __future__ import annotations

import re

from goalmeter._errors import InvalidParameterError
from goalmeter._names import did_you_mean
from goalmeter._plugins import ENVIRONMENTS as GROUP
from goalmeter._plugins import PluginError, loaded, origin, plugins, refuse_taken
from goalmeter.agents.user_code import canonical, misspelled, split_name
from goalmeter.reflection.environments.adversarial_sequence_evader import AdversarialSequenceEvader
from goalmeter.reflection.environments.adversarial_sequence_predictor import (
    AdversarialSequencePredictor,
)
from goalmeter.reflection.environments.after_images import AfterImages
from goalmeter.reflection.environments.backward_consciousness import BackwardConsciousness
from goalmeter.reflection.environments.base import Run
from goalmeter.reflection.environments.censored_observation import CensoredObservation
from goalmeter.reflection.environments.crying_baby import CryingBaby
from goalmeter.reflection.environments.crying_baby_2 import CryingBaby2
from goalmeter.reflection.environments.deja_vu import DejaVu
from goalmeter.reflection.environments.delayed_rewards import DelayedRewards
from goalmeter.reflection.environments.false_memories import FalseMemories
from goalmeter.reflection.environments.flip_every_other import FlipEveryOther
from goalmeter.reflection.environments.ignore_actions import IgnoreActions
from goalmeter.reflection.environments.ignore_observations import IgnoreObservations
from goalmeter.reflection.environments.ignore_rewards import IgnoreRewards
from goalmeter.reflection.environments.ignore_rewards_2 import IgnoreRewards2
from goalmeter.reflection.environments.ignore_rewards_3 import IgnoreRewards3
from goalmeter.reflection.environments.incentivize_learning_rate import IncentivizeLearningRate
from goalmeter.reflection.environments.incentivize_zero import IncentivizeZero
from goalmeter.reflection.environments.limited_memory import LimitedMemory
from goalmeter.reflection.environments.nth_reward_multiplied_by_n import NthRewardMultipliedByN
from goalmeter.reflection.environments.punish_deterministic_agent import PunishDeterministicAgent
from goalmeter.reflection.environments.punish_fast_agent import PunishFastAgent
from goalmeter.reflection.environments.punish_nondeterministic_agent import (
    PunishNondeterministicAgent,
)
from goalmeter.reflection.environments.punish_slow_agent import PunishSlowAgent
from goalmeter.reflection.environments.record import Environment
from goalmeter.reflection.environments.repeater import Repeater
from goalmeter.reflection.environments.self_recognition import SelfRecognition
from goalmeter.reflection.environments.shifted_rewards import ShiftedRewards
from goalmeter.reflection.environments.tempting_button import TemptingButton
from goalmeter.reflection.environments.tempting_button_variation import TemptingButtonVariation
from goalmeter.reflection.environments.third_action_forbidden import ThirdActionForbidden
from goalmeter.reflection.environments.user_file import from_file

_BATTERY: tuple[type[Run], ...] = (
    BackwardConsciousness,
    DejaVu,
    FalseMemories,
    IgnoreRewards,
    IgnoreRewards2,
    IgnoreRewards3,
    IgnoreObservations,
    IgnoreActions,
    IncentivizeZero,
    CryingBaby,
    CryingBaby2,
    TemptingButton,
    TemptingButtonVariation,
    ThirdActionForbidden,
    ShiftedRewards,
    DelayedRewards,
    Repeater,
    AfterImages,
    SelfRecognition,
    LimitedMemory,
    CensoredObservation,
    NthRewardMultipliedByN,
    AdversarialSequencePredictor,
    AdversarialSequenceEvader,
    IncentivizeLearningRate,
)
_OUTSIDE: tuple[type[Run], ...] = (
    PunishSlowAgent,
    PunishFastAgent,
    PunishDeterministicAgent,
    PunishNondeterministicAgent,
    FlipEveryOther,
)

# The 25 of the paper, in its library's order; with their opposites they are the battery.
BATTERY: tuple[Environment, ...] = tuple(Environment(run, in_battery=True) for run in _BATTERY)
ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment
    for environment in (*BATTERY, *(Environment(run) for run in _OUTSIDE))
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
        PluginError: one of them cannot be used.
    """
    others = (plugin(name) for name in plugins(GROUP))
    return [*ENVIRONMENTS.values(), *(environment for environment in others if environment)]


def environment_names() -> list[str]:
    """The names of all environments, those of other packages too, which are not imported."""
    return [*ENVIRONMENTS, *plugins(GROUP)]


def find(spelled: str) -> tuple[Environment, bool]:
    """The environment of a name, and whether its opposite is meant.

    Raises:
        InvalidParameterError: there is none, or it has not those options.
        InvalidFileError: a user's file is missing, fails, or has no such environment.

    >>> environment, is_opposite = find("opposite(TemptingButton(coding=paper))")
    >>> environment.name, environment.base, is_opposite
    ('TemptingButton(coding=paper)', 'TemptingButton', True)
    """
    around = _OPPOSITE.fullmatch(spelled.strip())
    inner = _NAME.fullmatch(around[1].strip() if around else spelled.strip())
    of_file = split_name(inner[1]) if inner else None
    if inner is not None and of_file is not None:
        options = _options(inner[2], spelled) if inner[2] else ()
        run = from_file(*of_file)
        return Environment(run, options=options, spelled=canonical(inner[1])), around is not None
    environment = None if inner is None else ENVIRONMENTS.get(inner[1]) or plugin(inner[1])
    if inner is None or environment is None:
        raise InvalidParameterError(_unknown(spelled, inner[1] if inner else spelled))
    options = _options(inner[2], spelled) if inner[2] else ()
    if options:  # another reading is not the one of the battery
        environment = Environment(environment.run, options=options, package=environment.package)
    return environment, around is not None


def plugin(name: str) -> Environment | None:
    """The environment that another package registers under a name; None if none does.

    Raises:
        PluginError: the package cannot be imported, or what it registers is no environment.
    """
    entry = plugins(GROUP).get(name)
    if entry is None:
        return None
    refuse_taken(GROUP, ENVIRONMENTS)
    run = loaded(entry)
    try:
        environment = Environment(run, package=origin(entry))
    except InvalidParameterError as cause:
        raise PluginError(f"{origin(entry)} registers no environment: {cause}") from cause
    # Tables, runs on disk and other processes name an environment by its class.
    if environment.base != name:
        raise PluginError(
            f"{origin(entry)} registers the environment {name!r}, whose class is called "
            f"{environment.base!r}; expected the name of the class"
        )
    return environment


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
    hint = did_you_mean(name, environment_names(), quoted=True) or ";"
    return f"there is no environment {spelled!r}{hint} `goalmeter reflect --list` names all"


def _options(listed: str, spelled: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in listed.split(","):
        pair = _OPTION.fullmatch(part.strip())
        if pair is None:
            raise InvalidParameterError(
                f"environment {spelled!r}: {part.strip()!r} is no option, expected name=value,"
                " such as coding=paper"
            )
        pairs.append((pair[1], pair[2]))
    return tuple(pairs)
