"""Environment records, the battery of the paper, and lookup by name.

A name is that of the class; options follow in parentheses, and `opposite(...)` encloses both:
IgnoreRewards, opposite(IgnoreRewards), TemptingButton(coding=paper),
opposite(CryingBaby(nutrition=paper, recursion=paper)). A class in a user's file is FILE.py:NAME;
a class registered by another package has the name of its entry point.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from operator import index
from random import Random
from typing import Any

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._names import ENVIRONMENTS as PLUGINS
from goalmeter._names import did_you_mean, listed, loaded, plugins, refuse_taken
from goalmeter.agents.history import Agent, Source
from goalmeter.agents.user_code import canonical, load, misspelled, split_name
from goalmeter.reflection.environments import altered_histories, copies
from goalmeter.reflection.environments.base import READINGS, Run, Unnegated, check_option, one_of

HEADINGS = (
    "Idea",
    "Actions",
    "Observations",
    "What is simulated",
    "Reward",
    "Source",
    "Differences from the paper",
    "Known returns",
)
_HEADING = re.compile(rf"^({'|'.join(HEADINGS)}):", re.MULTILINE)
_OURS = f"{__package__}."


@dataclass(frozen=True)
class Environment:
    """Environment in one reading of its rules."""

    run: type[Run]  # class of its runs; `Environment(MyRun)` wraps a user's class
    in_battery: bool = False  # whether it is one of the paper's 25
    options: tuple[tuple[str, str], ...] = ()  # options that differ from the defaults
    spelled: str = ""  # FILE.py:NAME of a class from a user's file

    def __post_init__(self) -> None:
        run = self.run
        where = f"environment {self.spelled or getattr(run, '__name__', repr(run))}"
        if not (isinstance(run, type) and issubclass(run, Run)):
            raise InvalidParameterError(
                f"{where}: expected a class derived from goalmeter.reflection.environments.Run, "
                f"got {type(run).__name__}"
            )
        if missing := sorted(run.__abstractmethods__):
            raise InvalidParameterError(
                f"{where} does not define {' and '.join(missing)}, expected all abstract methods"
            )
        for name in ("n_actions", "n_observations"):
            count = getattr(run, name)
            if not (isinstance(count, int) and count >= 1):
                raise InvalidParameterError(
                    f"{where}: {name} is {count!r}, expected an integer of at least 1"
                )
        for option, value in self.options:
            check_option(run, option, value)

    @property
    def readings(self) -> str | None:
        """Options of the name that select other readings of its rules, such as "coding=paper"."""
        # The first value of each option is the default.
        options = self.run.options.items()
        return " ".join(f"{name}={v}" for name, values in options for v in values[1:]) or None

    def to_json(self) -> dict[str, Any]:
        """Return the description of the environment as JSON values."""
        names = ("name", "n_actions", "n_observations", "in_battery", "idea", "known_returns")
        options = {name: list(values) for name, values in self.run.options.items()}
        return {name: getattr(self, name) for name in names} | {"options": options}

    @property
    def base(self) -> str:
        """Name without options; it seeds the rooms, so all readings have the same rooms."""
        return self.run.__name__

    @property
    def name(self) -> str:
        """Name in tables and on the command line."""
        # Options are part of the name, so that runs of two readings are never confused.
        listed = ", ".join(f"{option}={value}" for option, value in self.options)
        bare = self.spelled or self.base
        return f"{bare}({listed})" if listed else bare

    @property
    def n_actions(self) -> int:
        """Number of actions; legal actions are 0 .. n_actions - 1."""
        return self.run.n_actions

    @property
    def n_observations(self) -> int:
        """Number of observations, which are 0 .. n_observations - 1."""
        return self.run.n_observations

    @property
    def idea(self) -> str:
        """Summary of the environment in one line."""
        # From the docstring of the file if it begins with the name, otherwise from the class.
        module = inspect.getdoc(sys.modules.get(self.run.__module__)) or ""
        doc = module if module.startswith(f"{self.base}:") else inspect.getdoc(self.run) or ""
        return doc.partition("\n")[0].removeprefix(f"{self.base}: ")

    @property
    def specification(self) -> dict[str, str]:
        """Text under each of `HEADINGS`, from the class or a base class."""
        found: dict[str, str] = {}
        for kind in reversed(self.run.__mro__):
            _, *parts = _HEADING.split(inspect.cleandoc(kind.__doc__ or ""))
            texts = (text.partition("\n\n")[0].strip() for text in parts[1::2])
            found |= dict(zip(parts[::2], texts, strict=True))
        return {heading: found[heading] for heading in HEADINGS if heading in found}

    @property
    def known_returns(self) -> list[str]:
        """Lines "AGENT: FORMULA" with total rewards that were derived by hand."""
        text = self.specification.get("Known returns", "")
        return [
            f"{agent.strip()}: {total}"
            for agents, _, total in (line.rpartition(": ") for line in text.splitlines())
            for agent in agents.split(";")
        ]

    def start(
        self,
        agent: Agent,
        draws: Random,
        *,
        opposite: bool = False,
        opposite_reading: str = READINGS[0],
    ) -> Run:
        """Return a new run with an agent; pass the same draws for the opposite.

        `opposite_reading` is "literal" or "unnegated"; see `base.READINGS`.
        """
        one_of("opposite_reading", opposite_reading, READINGS)
        # An unnegated opposite is a run of the environment itself, whose rewards are then negated.
        source = Source(agent, self.n_actions, self.n_observations)
        unnegated = opposite and opposite_reading == READINGS[1]
        sign = -1 if opposite and not unnegated else 1
        run = self.run(source, draws, sign, **dict(self.options))
        # Percepts of goalmeter's environments are tested; those of others are validated.
        if not self.run.__module__.startswith(_OURS):
            run = Checked(source, draws, run, self.n_observations)
        return Unnegated(source, draws, run) if unnegated else run


class Checked(Run):
    """Run of a user's class with validated percepts, converted to Python numbers."""

    def __init__(self, source: Source, draws: Random, inner: Run, legal: int) -> None:
        super().__init__(source, draws, inner.sign)
        self.inner, self.legal = inner, legal

    def begin(self) -> tuple[float, int]:
        """Return the first percept."""
        return self._percept(self.inner.begin, "begin")

    def react(self, action: int) -> tuple[float, int]:
        """Return the percept that follows an action."""
        return self._percept(lambda: self.inner.react(action), "react")

    def _percept(self, give: Callable[[], tuple[float, int]], method: str) -> tuple[float, int]:
        percept = give()
        try:
            reward, observation = percept
            observation = index(observation)
            if type(reward) is not int:
                reward = float(reward) if isinstance(reward, Real) else math.nan
        except (TypeError, ValueError):
            reward, observation = math.nan, 0
        if not (math.isfinite(reward) and 0 <= observation < self.legal):
            raise InvalidParameterError(
                f"{type(self.inner).__name__}.{method} returned {shown(percept)}, expected a "
                f"finite reward and an observation from 0 to {self.legal - 1}"
            )
        return reward, observation


_BATTERY = """
BackwardConsciousness DejaVu FalseMemories IgnoreRewards IgnoreRewards2 IgnoreRewards3
IgnoreObservations IgnoreActions IncentivizeZero CryingBaby CryingBaby2 TemptingButton
TemptingButtonVariation ThirdActionForbidden ShiftedRewards DelayedRewards Repeater AfterImages
SelfRecognition LimitedMemory CensoredObservation NthRewardMultipliedByN
AdversarialSequencePredictor AdversarialSequenceEvader IncentivizeLearningRate
"""
_OUTSIDE = """
PunishSlowAgent PunishFastAgent PunishDeterministicAgent PunishNondeterministicAgent FlipEveryOther
"""
_CLASSES = vars(altered_histories) | vars(copies)
# The 25 environments of the paper in its library's order; the battery includes their opposites.
BATTERY: tuple[Environment, ...] = tuple(
    Environment(_CLASSES[name], in_battery=True) for name in _BATTERY.split()
)
# Environments of goalmeter by name.
ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment
    for environment in (*BATTERY, *(Environment(_CLASSES[name]) for name in _OUTSIDE.split()))
}

# No two parts of a pattern match the same blanks, which prevents excessive backtracking.
_OPPOSITE = re.compile(r"opposite\((.*)\)")
_TWICE = re.compile(r"opposite\(\s*opposite\((.*)\)\s*\)")
_NAME = re.compile(r"((?:.+\.py:)?\w+)\s*(?:\((.*)\))?")
_OPTION = re.compile(r"(\w+)\s*=\s*(\w+)")


def opposite(name: str) -> str:
    """Return the name of the opposite of an environment."""
    return f"opposite({name})"


def all_environments() -> list[Environment]:
    """Return all environments; packages that register some are imported."""
    return [environment for name in environment_names() if (environment := _named(name))]


def environment_names() -> list[str]:
    """Return the names of all environments, without importing other packages."""
    return [*ENVIRONMENTS, *plugins(PLUGINS)]


def find(spelled: str) -> tuple[Environment, bool]:
    """Return the environment with a name, and whether its opposite is meant.

    >>> environment, is_opposite = find("opposite(TemptingButton(coding=paper))")
    >>> environment.name, environment.base, is_opposite
    ('TemptingButton(coding=paper)', 'TemptingButton', True)
    """
    around = _OPPOSITE.fullmatch(spelled.strip())
    inner = _NAME.fullmatch(around[1].strip() if around else spelled.strip())
    if inner is None:
        raise _unknown(spelled, spelled)
    if of_file := split_name(inner[1]):
        options = _options(inner[2], spelled)
        run = load(*of_file, kind="environment")
        return Environment(run, options=options, spelled=canonical(inner[1])), around is not None
    environment = _named(inner[1])
    if environment is None:
        raise _unknown(spelled, inner[1])
    if options := _options(inner[2], spelled):  # another reading is not the one of the battery
        environment = Environment(environment.run, options=options, spelled=environment.spelled)
    return environment, around is not None


def _named(name: str) -> Environment | None:
    """Return the environment of goalmeter or of an installed package with a name; None if none."""
    if name in ENVIRONMENTS:
        return ENVIRONMENTS[name]
    refuse_taken(PLUGINS, ENVIRONMENTS)
    entry = plugins(PLUGINS).get(name)
    return None if entry is None else Environment(loaded(entry), spelled=name)


def _unknown(spelled: str, name: str) -> InvalidParameterError:
    message = f"unknown environment {spelled!r}"
    if name.endswith(".py"):
        message = f"{name} is a file; name one of its environments: {name}:NAME"
    elif hint := misspelled(spelled, "my_world.py:MyWorld"):
        message += f": {hint}"
    elif twice := _TWICE.fullmatch(spelled.strip()):
        itself = twice[1].strip()
        message += f": the opposite of an opposite is {itself} itself; use that name"
    else:
        known = environment_names()
        hint = did_you_mean(name, known, quoted=True)
        message += f"{hint} Expected" if hint else ", expected"
        message += f" one of {listed(known)}"
    return InvalidParameterError(message)


def _options(text: str | None, spelled: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in text.split(",") if text else ():
        pair = _OPTION.fullmatch(part.strip())
        if pair is None:
            raise InvalidParameterError(
                f"environment {spelled!r}: {part.strip()!r} is not an option, expected name=value,"
                " such as coding=paper"
            )
        pairs.append((pair[1], pair[2]))
    return tuple(pairs)
