"""Environments as records, the battery of the paper, and lookup by name.

A name is the name of the class; options follow in brackets, and `opposite(...)` encloses both:
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

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._names import ENVIRONMENTS as PLUGINS
from goalmeter._names import did_you_mean, listed, loaded, plugins, refuse_taken
from goalmeter.agents.history import Agent, Source
from goalmeter.agents.user_code import canonical, load, misspelled, split_name
from goalmeter.reflection.environments.altered_histories import (
    AfterImages,
    BackwardConsciousness,
    DejaVu,
    FalseMemories,
    Repeater,
)
from goalmeter.reflection.environments.altered_rewards import (
    DelayedRewards,
    FlipEveryOther,
    NthRewardMultipliedByN,
    ShiftedRewards,
)
from goalmeter.reflection.environments.base import (
    READINGS,
    UNNEGATED,
    Run,
    Unnegated,
    check_option,
    check_reading,
)
from goalmeter.reflection.environments.behaviour import (
    PunishDeterministicAgent,
    PunishFastAgent,
    PunishNondeterministicAgent,
    PunishSlowAgent,
)
from goalmeter.reflection.environments.copies import (
    AdversarialSequenceEvader,
    AdversarialSequencePredictor,
    CryingBaby,
    CryingBaby2,
    IncentivizeZero,
)
from goalmeter.reflection.environments.counterfactuals import (
    IncentivizeLearningRate,
    SelfRecognition,
    TemptingButton,
    TemptingButtonVariation,
    ThirdActionForbidden,
)
from goalmeter.reflection.environments.ignored_percepts import (
    CensoredObservation,
    IgnoreActions,
    IgnoreObservations,
    IgnoreRewards,
    IgnoreRewards2,
    IgnoreRewards3,
    LimitedMemory,
)

# --- Record ---------------------------------------------------------------------------------------
_OURS = f"{__package__}."


@dataclass(frozen=True)
class Environment:
    """An environment, in one reading of its rules.

    Attributes:
        run: the class of its runs; `Environment(MyRun)` is the environment of a user's class.
        in_battery: whether it is one of the paper's 25.
        options: what is not as in `run.options` by default: pairs of a name and a value.
        spelled: FILE.py:NAME of a class that is from a user's file.

    Raises:
        InvalidParameterError: the class cannot be run, or has no such options.
    """

    run: type[Run]
    in_battery: bool = False
    options: tuple[tuple[str, str], ...] = ()
    spelled: str = ""

    def __post_init__(self) -> None:
        _check_run(self.run, self.spelled)
        for option, value in self.options:
            check_option(self.run, option, value)

    @property
    def base(self) -> str:
        """The name without options; it seeds the rooms, so all readings have the same rooms."""
        return self.run.__name__

    @property
    def name(self) -> str:
        """As in tables and on the command line."""
        # Options are part of the name: runs of two readings are never taken for each other.
        listed = ", ".join(f"{option}={value}" for option, value in self.options)
        bare = self.spelled or self.base
        return f"{bare}({listed})" if listed else bare

    @property
    def n_actions(self) -> int:
        """Legal actions are 0 .. n_actions - 1."""
        return self.run.n_actions

    @property
    def n_observations(self) -> int:
        """Observations are 0 .. n_observations - 1."""
        return self.run.n_observations

    @property
    def doc(self) -> str:
        """The specification: the file's if it begins with the name, else the class's."""
        of_file = inspect.cleandoc(
            getattr(sys.modules.get(self.run.__module__), "__doc__", "") or ""
        )
        if of_file.startswith(f"{self.base}:"):
            return of_file
        return inspect.cleandoc(self.run.__doc__ or "")

    @property
    def idea(self) -> str:
        """What it is about, in a line."""
        return self.doc.partition("\n")[0].removeprefix(f"{self.base}: ")

    def start(
        self,
        agent: Agent,
        draws: Random,
        *,
        opposite: bool = False,
        opposite_reading: str = READINGS[0],
    ) -> Run:
        """A run that has not begun.

        Args:
            agent: the one that it will be played by.
            draws: the run's own randomness; give the opposite the same.
            opposite: whether to run the opposite.
            opposite_reading: "literal" or "unnegated"; `opposite.py` says which is which.

        Raises:
            InvalidParameterError: no such reading.
        """
        check_reading(opposite_reading)
        # An unnegated opposite is a run of the environment itself; its rewards are turned outside.
        source = Source(agent, self.n_actions, self.n_observations)
        unnegated = opposite and opposite_reading == UNNEGATED
        sign = -1 if opposite and not unnegated else 1
        run = self.run(source, draws, sign, **dict(self.options))
        # Ours are held to giving percepts by the tests; anybody else's is checked as it runs.
        if not self.run.__module__.startswith(_OURS):
            run = Checked(source, draws, run, self.n_observations)
        return Unnegated(source, draws, run) if unnegated else run


class Checked(Run):
    """A run of a user's class, whose percepts are checked: a finite reward, a legal observation.

    NumPy's numbers are turned into Python's, so a user need not do so.

    Args:
        source: of the agent.
        draws: the run's own randomness.
        inner: the user's run.
        legal: how many observations there are.
    """

    def __init__(self, source: Source, draws: Random, inner: Run, legal: int) -> None:
        super().__init__(source, draws, inner.sign)
        self.inner = inner
        self.legal = legal

    def begin(self) -> tuple[float, int]:
        """The first percept."""
        return self._percept(self.inner.begin, "begin")

    def react(self, action: int) -> tuple[float, int]:
        """The percept that follows an action."""
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
                f"{type(self.inner).__name__}.{method} gives {shown(percept)}, expected a finite "
                f"reward and an observation from 0 to {self.legal - 1}"
            )
        return reward, observation


def _check_run(run: type[Run], spelled: str) -> None:
    where = spelled or getattr(run, "__name__", repr(run))
    if not (isinstance(run, type) and issubclass(run, Run)):
        raise InvalidParameterError(
            f"environment {where}: expected a class derived from"
            f" goalmeter.reflection.environments.Run, got {type(run).__name__}"
        )
    if missing := sorted(run.__abstractmethods__):
        raise InvalidParameterError(
            f"environment {where}: define {' and '.join(missing)}, which it lacks"
        )
    for name, count in (("n_actions", run.n_actions), ("n_observations", run.n_observations)):
        if not (isinstance(count, int) and count >= 1):
            raise InvalidParameterError(
                f"environment {where}: {name} is {count!r}, expected a whole number, at least 1"
            )


# --- Registry -------------------------------------------------------------------------------------
# A name is that of the class of runs; options follow in brackets, and `opposite(...)` stands
# around it all: IgnoreRewards, opposite(IgnoreRewards), TemptingButton(coding=paper),
# opposite(CryingBaby(nutrition=paper, recursion=paper)). A class of runs in a user's own file is
# FILE.py:NAME, and one that another package registers has the name of its entry point; both can
# stand wherever a name can.

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
# Every environment of goalmeter's own, by name.
ENVIRONMENTS: dict[str, Environment] = {
    environment.name: environment for environment in (*BATTERY, *map(Environment, _OUTSIDE))
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
