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

# Maximum number of nested reality checks; each calls the next one inside.
MOST_CHECKS = 20
_CALL = re.compile(r"([^()]*)(?:\(([^()]*)\)\s*)?")


class Call(NamedTuple):
    """Parts of an agent name, such as "boltzmann(2)"."""

    kind: str
    argument: str | None  # text in brackets; None without brackets


def call_of(name: str) -> Call:
    """Split a name at its brackets; if they do not match, the whole name is the kind."""
    parts = _CALL.fullmatch(name)
    if parts is None:
        return Call(name.strip(), None)
    return Call(parts[1].strip(), None if parts[2] is None else parts[2].strip())


def without_checks(name: str) -> tuple[str, int]:
    """Return an agent's name without its reality checks, and their number."""
    checks = 0
    name = name.strip()
    while name.startswith("rc(") and name.endswith(")") and len(name) > len("rc()"):
        name, checks = name[len("rc(") : -1].strip(), checks + 1
        if checks > MOST_CHECKS:
            raise InvalidParameterError(
                f"{name!r} has too many reality checks rc(...), expected at most {MOST_CHECKS}"
            )
    return name, checks


def with_checks(name: str, checks: int) -> str:
    """Return the name of the n-fold reality check of an agent."""
    return "rc(" * checks + name + ")" * checks


class Ability(Enum):
    """Ability of an agent; the value is its description.

    Measures require abilities, not kinds of agents. The object with the ability is created on first
    use, so that naming a trained policy or a language model imports neither torch nor Inspect.
    """

    HISTORY = "an action at a history"  # `history.Agent`, from a seed
    GRID = "a distribution over actions in a state of a grid world"  # `grid_agents.Navigator`
    # An array [S, A] or [H, S, A], for a `TabularMDP` with S states and A actions.
    TABLE = "a distribution over actions in every state of a tabular world"
    TEXT = "text for a prompt"  # the Inspect name of a language model
    HIDDEN = "hidden states of its network"  # `local_models.LocalModel`

    def __str__(self) -> str:
        return self.value


Makers = Mapping[Ability, Callable[..., Any]]


class MissingAbilityError(InvalidParameterError):
    """An agent lacks a required ability; the message names an agent that has it."""


@dataclass(frozen=True)
class NamedAgent:
    """An agent with its name and abilities.

    Its methods raise `MissingAbilityError` if it lacks an ability; `asker` names the measure that
    requires the ability, for the message.
    """

    name: str  # canonical name, from which `agents.agent` creates the same agent
    about: str  # one-line summary
    makers: Makers  # factory of the object with each ability; see `Ability`
    files: tuple[str, ...] = ()  # paths of a trained policy or of user code
    package: str = ""  # name and version of the plugin package; "" for built-in agents
    # Names of the agents that have an ability, for error messages. The registry passes this
    # function, since importing the registry here would be circular.
    others: Callable[[Ability], Sequence[str]] = field(
        default=lambda ability: (), compare=False, repr=False
    )

    @property
    def abilities(self) -> tuple[Ability, ...]:
        """Abilities of the agent, in the order of `Ability`."""
        return tuple(ability for ability in Ability if ability in self.makers)

    def at_histories(self, seed: int = 0, *, asker: str = "") -> Agent:
        """Return the agent as a function of its history; `seed` determines its random choices."""
        return cast("Agent", self._make(Ability.HISTORY, asker, seed))

    def in_grids(self, *, asker: str = "") -> Navigator:
        """Return the agent as a navigator of grid worlds."""
        return cast("Navigator", self._make(Ability.GRID, asker))

    def in_table(self, world: TabularMDP, *, asker: str = "") -> FloatArray:
        """Return the agent's policy in a tabular world, [S, A] or [H, S, A]."""
        return cast(FloatArray, self._make(Ability.TABLE, asker, world))

    def as_model(self, *, asker: str = "") -> str:
        """Return the Inspect name of the agent as a language model."""
        return str(self._make(Ability.TEXT, asker))

    def local_model(self, *, asker: str = "") -> LocalModel:
        """Load the agent's network in this process, with access to its hidden states."""
        return cast("LocalModel", self._make(Ability.HIDDEN, asker))

    def _make(self, ability: Ability, asker: str, *arguments: Any) -> Any:
        self.require(ability, asker=asker)
        return self.makers[ability](*arguments)

    def require(self, *needed: Ability, asker: str = "") -> None:
        """Raise MissingAbilityError unless the agent has one of the abilities."""
        if any(ability in self.makers for ability in needed):
            return
        able = [name for ability in needed for name in self.others(ability)]
        example = nearest(self.name, able) or (able[0] if able else "")
        advice = f"; {example!r} has this ability" if example else ""
        raise MissingAbilityError(
            f"{asker or 'this measure'} requires {' or '.join(map(str, needed))}, but "
            f"{self.name!r} provides {' and '.join(map(str, self.abilities)) or 'nothing'}"
            f"{advice}; `goalmeter agents` lists all agents"
        )

    def all_files(self) -> list[str]:
        """Return the agent's files and the local modules that they import."""
        parts = [files_of(path) if path.endswith(".py") else [path] for path in self.files]
        return sorted({file for files in parts for file in files})

    def identity(self) -> dict[str, str]:
        """Return the identity of the agent beyond its name: hashes of files, package version."""
        hashes = {f"content of {path} (sha256)": digest(path) for path in self.all_files()}
        return hashes | ({"package of the agent": self.package} if self.package else {})

    def joined(self, other: NamedAgent) -> NamedAgent:
        """Return this agent with the abilities of another agent of the same name added."""
        return replace(
            self,
            about=f"{self.about}; {other.about}",
            makers={**other.makers, **self.makers},
            files=tuple(dict.fromkeys((*self.files, *other.files))),
        )


@dataclass(frozen=True)
class AgentFactory:
    """Registry entry that creates named agents; plugin packages may register their own."""

    about: str  # one-line description of its agents
    abilities: frozenset[Ability]
    # Creates an agent from its name and the argument in brackets, None without brackets.
    make: Callable[[str, str | None], NamedAgent] = field(compare=False)
    argument: str = ""  # name of the argument in brackets, such as "BETA"; "" for no argument
    needs_argument: bool = False

    @classmethod
    def without_argument(cls, about: str, makers: Makers) -> AgentFactory:
        """Return the factory for a name without an argument in brackets."""

        def make(name: str, argument: str | None) -> NamedAgent:
            if argument is not None:
                raise InvalidParameterError(
                    f"the agent is '{name}({argument})', but {name} takes no argument"
                )
            return NamedAgent(name, about, makers)

        return cls(about, frozenset(makers), make)

    def spelled(self, name: str) -> str:
        """Return the name as in lists of agents, with its argument if that is required."""
        return f"{name}({self.argument})" if self.needs_argument else name
