"""What is known of an environment without running it, and how a run of it is begun."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from operator import index
from random import Random

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.agents.histories.protocol import Agent, Source
from goalmeter.reflection.environments.base import Run, check_option
from goalmeter.reflection.environments.opposite import (
    READINGS,
    UNNEGATED,
    Unnegated,
    check_reading,
)

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
