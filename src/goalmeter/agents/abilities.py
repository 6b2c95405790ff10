"""Parse agent names, and declare the abilities of an agent."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from goalmeter._errors import InvalidParameterError
from goalmeter._files import digest
from goalmeter._names import nearest
from goalmeter._types import FloatArray
from goalmeter.agents.user_code import files_of

if TYPE_CHECKING:
    from goalmeter.agents.grid_agents import Navigator
    from goalmeter.agents.history import Agent
    from goalmeter.agents.local_models import LocalModel
    from goalmeter.tabular.mdp import TabularMDP

# Reality checks around one agent: each calls the next one inside.
MOST_CHECKS = 20
_CALL = re.compile(r"([^()]*)(?:\(([^()]*)\)\s*)?")


class Call(NamedTuple):
    """A name taken apart at its brackets."""

    kind: str
    argument: str | None  # None without brackets


def call_of(name: str) -> Call:
    """Return a name taken apart at its brackets, which is no kind if they do not match."""
    parts = _CALL.fullmatch(name)
    if parts is None:
        return Call(name.strip(), None)
    return Call(parts[1].strip(), None if parts[2] is None else parts[2].strip())


def without_checks(name: str) -> tuple[str, int]:
    """Return an agent's name without the reality checks around it, and their number."""
    checks = 0
    name = name.strip()
    while name.startswith("rc(") and name.endswith(")") and len(name) > len("rc()"):
        name, checks = name[len("rc(") : -1].strip(), checks + 1
        if checks > MOST_CHECKS:
            raise InvalidParameterError(
                f"rc(...) encloses an agent more than {MOST_CHECKS} times; give it fewer times"
            )
    return name, checks


def with_checks(name: str, checks: int) -> str:
    """Return the name of the n-fold reality check of an agent."""
    return "rc(" * checks + name + ")" * checks


class Ability(Enum):
    """What can be asked of an agent; the value says it in words.

    Instruments need abilities, not kinds of agents. The object that is asked is made only when it
    is needed, so that naming a trained policy or a language model imports neither torch nor
    Inspect.
    """

    HISTORY = "an action at a history"  # `history.Agent`, from a seed
    GRID = "a distribution over actions in a state of a grid world"  # `grid_agents.Navigator`
    # An array [S, A] or [H, S, A], from a `TabularMDP` with S states and A actions.
    TABLE = "a distribution over actions in every state of a tabular world"
    TEXT = "text for a prompt"  # the name of a language model as Inspect spells it
    HIDDEN = "hidden states of its network"  # `local_models.LocalModel`

    def __str__(self) -> str:
        return self.value


Makers = Mapping[Ability, Callable[..., Any]]


class MissingAbilityError(InvalidParameterError):
    """An agent is asked for what it cannot give; the message names an agent that can."""


@dataclass(frozen=True)
class NamedAgent:
    """An agent that has a name, and what can be asked of it.

    Asked for an ability that it lacks, it raises a `MissingAbilityError`; `asker` is who needs the
    ability, for the message.
    """

    name: str  # in its one spelling, from which `agents.agent` makes the same agent again
    about: str  # summary in a line
    makers: Makers  # for each ability, what makes the object that is asked; see `Ability`
    files: tuple[str, ...] = ()  # paths of a trained policy, or of the user's own code
    package: str = ""  # name and version of the other package that registers it; "" for ours
    # Names of the agents that have an ability, for the message where this one lacks it. From the
    # registry, which knows every kind; importing it here would be a circle.
    others: Callable[[Ability], Sequence[str]] = field(
        default=lambda ability: (), compare=False, repr=False
    )

    @property
    def abilities(self) -> tuple[Ability, ...]:
        """What can be asked of it, in the order of `Ability`."""
        return tuple(ability for ability in Ability if ability in self.makers)

    def at_histories(self, seed: int = 0, *, asker: str = "") -> Agent:
        """Return the agent as a function of its history, whose draws come from the seed."""
        return cast("Agent", self._made(Ability.HISTORY, asker, seed))

    def in_grids(self, *, asker: str = "") -> Navigator:
        """Return the agent as one that walks in grid worlds."""
        return cast("Navigator", self._made(Ability.GRID, asker))

    def in_table(self, world: TabularMDP, *, asker: str = "") -> FloatArray:
        """Return the agent's policy in a tabular world, [S, A] or [H, S, A]."""
        return cast(FloatArray, self._made(Ability.TABLE, asker, world))

    def as_model(self, *, asker: str = "") -> str:
        """Return the name of the agent as a language model, as Inspect spells it."""
        return str(self._made(Ability.TEXT, asker))

    def local_model(self, *, asker: str = "") -> LocalModel:
        """Return the agent's network in this process, whose hidden states can be read."""
        return cast("LocalModel", self._made(Ability.HIDDEN, asker))

    def _made(self, ability: Ability, asker: str, *arguments: Any) -> Any:
        self.require(ability, asker=asker)
        return self.makers[ability](*arguments)

    def require(self, *needed: Ability, asker: str = "") -> None:
        """Raise MissingAbilityError unless the agent has one of some abilities."""
        if any(ability in self.makers for ability in needed):
            return
        able = [name for ability in needed for name in self.others(ability)]
        example = nearest(self.name, able) or (able[0] if able else "")
        advice = f"; {example!r} gives that" if example else ""
        raise MissingAbilityError(
            f"{asker or 'what is asked'} needs {' or '.join(map(str, needed))}, and "
            f"{self.name!r} gives only {' and '.join(map(str, self.abilities)) or 'nothing'}"
            f"{advice}; `goalmeter agents` lists all"
        )

    def all_files(self) -> list[str]:
        """Return the files that it consists of: its own, and neighbours that these import."""
        parts = [files_of(path) if path.endswith(".py") else [path] for path in self.files]
        return sorted({file for files in parts for file in files})

    def identity(self) -> dict[str, str]:
        """Return what tells two agents of this name apart: hashes of files, a version."""
        told = {f"content of {path} (sha256)": digest(path) for path in self.all_files()}
        return told | ({"package of the agent": self.package} if self.package else {})

    def joined(self, other: NamedAgent) -> NamedAgent:
        """Return this agent with the abilities that another kind gives to the same name."""
        return replace(
            self,
            about=f"{self.about}; {other.about}",
            makers={**other.makers, **self.makers},
            files=tuple(dict.fromkeys((*self.files, *other.files))),
        )


@dataclass(frozen=True)
class AgentFactory:
    """An entry of a table of names, which another package may register: it makes named agents."""

    about: str  # what its agents are, in a line
    abilities: frozenset[Ability]
    # Makes an agent from the name and from its argument in brackets, None without.
    make: Callable[[str, str | None], NamedAgent] = field(compare=False)
    argument: str = ""  # what may stand in the brackets, such as "BETA"; "" where nothing may
    needs_argument: bool = False

    @classmethod
    def without_argument(cls, about: str, makers: Makers) -> AgentFactory:
        """Return the factory of a name that takes nothing in brackets."""

        def make(name: str, argument: str | None) -> NamedAgent:
            if argument is not None:
                raise InvalidParameterError(
                    f"{name} takes nothing in brackets, but the agent is '{name}({argument})'"
                )
            return NamedAgent(name, about, makers)

        return cls(about, frozenset(makers), make)

    def spelled(self, name: str) -> str:
        """Return the name as a list shows it: with brackets where it cannot do without them."""
        return f"{name}({self.argument})" if self.needs_argument else name
