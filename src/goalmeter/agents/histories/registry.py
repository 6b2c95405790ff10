"""Agents by name, as they are spelled on the command line."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import NamedTuple

from goalmeter._arguments import whole_in_text
from goalmeter._errors import InvalidParameterError
from goalmeter.agents.histories.constant import ConstantAgent
from goalmeter.agents.histories.naive import NaiveLearner
from goalmeter.agents.histories.protocol import Agent
from goalmeter.agents.histories.q_learner import QLearner
from goalmeter.agents.histories.random_agent import RandomAgent
from goalmeter.agents.histories.reality_check import RealityCheck
from goalmeter.agents.histories.user_file import from_file
from goalmeter.agents.user_code import misspelled

MakeAgent = Callable[[int], Agent]  # from a seed
# Reality checks around one agent: each calls the next one inside.
MOST_CHECKS = 20
MOST_K = 1_000_000  # the number of an action


class Entry(NamedTuple):
    """An agent that has a name: how it is made from a seed, and what it is in a line."""

    make: MakeAgent
    about: str


def agent(name: str, seed: int = 0) -> Agent:
    """The agent that a name stands for.

    Names are those of `agent_names`, `constant(K)` for action K, `FILE.py:NAME` for a user's own,
    and `rc(NAME)` for the reality check of any of these, also of another reality check.

    Args:
        name: of the agent.
        seed: of its draws, for those that draw.

    Raises:
        InvalidParameterError: no agent has that name.
        InvalidFileError: a user's file is missing, fails, or has no such agent.

    Example: the reality check of the naive learner.
        >>> agent("rc(naive)", seed=3)
        RealityCheck(NaiveLearner(seed=3, exploration=0.15, true_average=False))
    """
    inner, checks = without_checks(name)
    player = _unchecked(inner, seed)
    for _ in range(checks):
        player = RealityCheck(player)
    return player


def without_checks(name: str) -> tuple[str, int]:
    """An agent's name without the reality checks around it, and how many these are.

    Raises:
        InvalidParameterError: there are more than `MOST_CHECKS`.

    >>> without_checks("rc( rc(naive))")
    ('naive', 2)
    """
    checks = 0
    name = name.strip()
    while name.startswith("rc(") and name.endswith(")") and len(name) > len("rc()"):
        name, checks = name[len("rc(") : -1].strip(), checks + 1
        if checks > MOST_CHECKS:
            raise InvalidParameterError(
                f"rc(...) stands around an agent more than {MOST_CHECKS} times, expected at most "
                f"so many"
            )
    return name, checks


def _unchecked(name: str, seed: int) -> Agent:
    if ".py:" in name:
        path, _, attribute = name.rpartition(":")
        return from_file(path, attribute, seed)
    if constant := re.fullmatch(r"constant\(\s*(\d+)\s*\)", name):
        return ConstantAgent(whole_in_text(constant[1], "K of constant(K)", least=0, most=MOST_K))
    if name not in _ENTRIES:
        raise InvalidParameterError(_unknown(name))
    return _ENTRIES[name].make(seed)


def agent_names() -> dict[str, str]:
    """Every name that `agent` knows, with a line about the agent."""
    return {name: entry.about for name, entry in _ENTRIES.items()}


def register(name: str, make: MakeAgent, about: str) -> None:
    """Give an agent a name: from then on `agent(name, seed)` is `make(seed)`.

    Raises:
        InvalidParameterError: the name is taken, or is none that `agent` could tell from others.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise InvalidParameterError(
            f"{name!r} cannot name an agent; expected small letters, digits and hyphens"
        )
    if name in _ENTRIES:
        raise InvalidParameterError(f"the name {name!r} is taken; choose another")
    _ENTRIES[name] = Entry(make, about)


def later(module: str, function: str) -> MakeAgent:
    """A maker that imports its module only when an agent is asked of it, since torch is heavy."""

    def make(seed: int) -> Agent:
        made: Agent = getattr(importlib.import_module(module), function)(seed)
        return made

    return make


_HERE = "goalmeter.agents.histories"
_ENTRIES = {
    "random": Entry(RandomAgent, "every action equally likely"),
    "constant": Entry(lambda seed: ConstantAgent(), "always action 0; constant(K) for action K"),
    "naive": Entry(NaiveLearner, "what paid best at once, as published; 15% at random"),
    "naive-true-average": Entry(
        lambda seed: NaiveLearner(seed, true_average=True), "naive with the average of the text"
    ),
    "q-learner": Entry(QLearner, "tabular Q-learning over observations"),
    "a2c": Entry(later(f"{_HERE}.stable_baselines", "a2c"), "A2C of Stable-Baselines3"),
    "dqn": Entry(later(f"{_HERE}.stable_baselines", "dqn"), "DQN of Stable-Baselines3"),
    "ppo": Entry(later(f"{_HERE}.stable_baselines", "ppo"), "PPO of Stable-Baselines3"),
    "ppo-as-published": Entry(
        later(f"{_HERE}.stable_baselines", "ppo_as_published"),
        "PPO with the authors' wrong log-probabilities",
    ),
    "recurrent-dqn": Entry(
        later(f"{_HERE}.recurrent_dqn", "RecurrentDQN"), "DQN with a recurrent network"
    ),
}


def _unknown(name: str) -> str:
    if name.endswith(".py"):
        return f"{name} is a file; say which of its agents: {name}:NAME"
    if hint := misspelled(name, "my_agent.py:agent"):
        return f"there is no agent {name!r}: {hint}"
    if name.startswith("constant("):
        return f"there is no agent {name!r}: in constant(K), K is a whole number, 0 or more"
    nearest = get_close_matches(name.lower(), _ENTRIES, n=1)
    hint = f"did you mean {nearest[0]!r}? Known" if nearest else "known"
    names = ", ".join(_ENTRIES)
    return f"there is no agent {name!r}; {hint} are {names}, constant(K), rc(NAME) and FILE.py:NAME"
