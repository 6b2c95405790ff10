"""Which policies and utilities a sweep measures: words, files, and functions of a user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.user_code import split_name
from goalmeter.meg.sweeps.grids import label
from goalmeter.meg.sweeps.sources import WORLD, Source

POLICY, UTILITY, UNKNOWN = "policy", "utility", "unknown"
OPTIMAL, UNIFORM, EPSILON_GREEDY, SOFT_OPTIMAL = (
    "optimal",
    "uniform",
    "epsilon_greedy",
    "soft_optimal",
)
REWARD = "reward"
# What can be named in each role, with the arguments that it takes.
WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    POLICY: {
        OPTIMAL: (),
        UNIFORM: (),
        EPSILON_GREEDY: ("epsilon",),
        SOFT_OPTIMAL: ("rationality",),
    },
    UTILITY: {REWARD: ()},
    UNKNOWN: {"state": (), "state-action": (), "time-state": ()},
}


@dataclass(frozen=True)
class Choice:
    """One policy, one known utility, or one class of unknown ones.

    Attributes:
        role: "policy", "utility" or "unknown".
        name: a word of `WORDS`, the path of an .npz file, or FILE.py:NAME.
        arguments: of the word or the function.
    """

    role: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What it is called in tables; all that a sweep has are different."""
        text = label(self.name, self.arguments)
        return f"unknown {text}" if self.role == UNKNOWN else text

    @property
    def is_word(self) -> bool:
        """Whether it is one of goalmeter's own."""
        return self.name in WORDS[self.role]

    @property
    def is_users(self) -> bool:
        """Whether it is a function of a user's file."""
        return split_name(self.name) is not None

    @property
    def is_file(self) -> bool:
        """Whether it is read from an .npz file."""
        return not (self.is_word or self.is_users)

    @property
    def placeholders(self) -> list[str]:
        """The {names} in the path of a file."""
        if not self.is_file:
            return []
        return [name for _, name, _, _ in Formatter().parse(self.name) if name is not None]

    def path(self, fields: Mapping[str, Any]) -> str:
        """The path of the file for a world of which {names} are these."""
        return self.name.format_map(fields)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {"role": self.role, "name": self.name, "arguments": dict(self.arguments)}


def check_placeholders(choice: Choice, source: Source, where: str) -> None:
    """Raises if the path of a file has a {name} that a world has no value for."""
    known = source.fields(0)
    for name in choice.placeholders:
        if name not in known:
            listed = ", ".join(f"{{{key}}}" for key in known) or "none"
            hint = f" ({{{WORLD}}} is the name of an MDP file without its ending)"
            raise InvalidParameterError(
                f"{where}: {choice.name} has {{{name}}}, which {source.label(0)} has no value for, "
                f"expected {listed}{hint if name == WORLD else ''}"
            )
