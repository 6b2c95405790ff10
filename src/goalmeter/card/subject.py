"""The agent of a card, and the world in which it is evaluated if that is not one of ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._types import ArrayLike, FloatArray
from goalmeter.agents.abilities import Ability, Makers, NamedAgent
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.user_agents import object_makers, walks
from goalmeter.agents.user_code import load as load_code
from goalmeter.agents.user_code import split_name
from goalmeter.tabular.arrays import load_arrays, load_policy
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.trajectories import Trajectories, load_trajectories

# What can be evaluated, as the reason that a measure gives where it is not.
POLICY, PLANNER, LOG, MODEL = (
    "a policy for a tabular world (--world MDP.npz)",
    "a function from a tabular world to a policy (--world MDP.npz)",
    "logged trajectories of a tabular world (--world MDP.npz)",
    "a policy for a Gymnasium environment (--world ENV_ID)",
)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One agent with everything that can be asked of it."""

    name: str
    about: str  # kind of agent, in words
    named: NamedAgent | None = None  # abilities outside a given world
    is_object: bool = False  # whether the agent is an object of this process, without a name
    world: TabularMDP | None = None
    policy: FloatArray | None = None  # for `world`, [S, A] or [H, S, A]
    # Policy for any world of the same shape, of an agent that knows about changes.
    planner: Callable[[TabularMDP], ArrayLike] | None = None
    log: Trajectories | None = None  # from `world`
    environment: Any = None  # Gymnasium environment or its id
    model: Any = None  # agent for `environment`, as `from_simulator` takes it
    identity: dict[str, Any] = field(default_factory=dict)  # settings stored with every run

    @property
    def abilities(self) -> tuple[Ability, ...]:
        """Abilities outside a given world."""
        return () if self.named is None else self.named.abilities

    @property
    def is_language_model(self) -> bool:
        """Whether the agent is a language model."""
        return Ability.TEXT in self.abilities and Ability.GRID not in self.abilities


def subject_of(agent: Any, world: Any = None) -> Subject:
    """Return the subject of an agent and a world, both as `gm.measure` takes them."""
    if world is None:
        return _in_our_worlds(agent)
    if isinstance(world, TabularMDP):
        return _in_a_table(agent, world, "a table")
    if isinstance(world, str | Path) and str(world).endswith(".npz"):
        return _in_a_table(agent, TabularMDP.from_npz(Path(world)), str(world))
    name = agent if isinstance(agent, str) else getattr(agent, "__name__", type(agent).__name__)
    return Subject(
        name=str(name),
        about="a policy in a Gymnasium environment",
        environment=world,
        model=agent,
        is_object=not isinstance(agent, str),
        identity={"world": str(world)},
    )


def _in_our_worlds(agent: Any) -> Subject:
    if isinstance(agent, str | Path):
        if str(agent).endswith(".npz"):
            raise InvalidParameterError(
                f"{agent} is a file of numbers, expected its world too: --world MDP.npz"
            )
        named = _with_its_ability(named_agent(str(agent)))
        kind = "a language model" if Ability.TEXT in named.abilities else named.about
        return Subject(name=named.name, about=kind, named=named, identity=named.identity())
    if isinstance(agent, np.ndarray | list | Trajectories):
        raise InvalidParameterError(
            "the agent is a table of numbers, expected its world too: world=TabularMDP(...)"
        )
    name = str(getattr(agent, "name", None) or getattr(agent, "__name__", type(agent).__name__))
    makers: Makers = object_makers(agent, name)
    named = NamedAgent(name, "an agent of this process", makers)
    return Subject(name=name, about=named.about, named=named, is_object=True)


def _with_its_ability(named: NamedAgent) -> NamedAgent:
    """Return a user's agent with the one ability that its signature shows."""
    if (parts := split_name(named.name)) is None:
        return named
    wanted = Ability.GRID if walks(load_code(*parts, kind="agent")) else Ability.HISTORY
    makers = {ability: make for ability, make in named.makers.items() if ability is wanted}
    return NamedAgent(named.name, named.about, makers, named.files, named.package)


def _in_a_table(agent: Any, world: TabularMDP, where: str) -> Subject:
    subject: dict[str, Any] = {"world": world, "identity": {"world": where}}
    if isinstance(agent, Trajectories):
        return Subject(name="log", about=LOG, log=agent, is_object=True, **subject)
    if isinstance(agent, np.ndarray | list):
        policy = np.asarray(agent, dtype=float)
        return Subject(name="policy", about=POLICY, policy=policy, is_object=True, **subject)
    if callable(agent):
        name = getattr(agent, "__name__", type(agent).__name__)
        return _planner(name, agent, is_object=True, **subject)
    name = str(agent)
    if (parts := split_name(name)) is not None:
        named = named_agent(name)
        subject["identity"] |= named.identity()
        return _planner(named.name, load_code(*parts, kind="agent"), **subject)
    if not name.endswith(".npz") or name.startswith(("sb3:", "policy:")):
        policy = named_agent(name).in_table(world, asker="a tabular world")
        return Subject(name=name, about=POLICY, policy=policy, **subject)
    arrays = load_arrays(name, required=(), optional=("policy", "states", "actions", "length"))
    if "policy" in arrays:
        return Subject(name=name, about=POLICY, policy=load_policy(name), **subject)
    if {"states", "actions"} <= arrays.keys():
        return Subject(name=name, about=LOG, log=load_trajectories(Path(name)), **subject)
    raise InvalidFileError(
        f"{name} has the arrays {', '.join(arrays) or 'none'}, expected policy, or states "
        f"and actions"
    )


def _planner(name: str, planner: Callable[[TabularMDP], ArrayLike], **subject: Any) -> Subject:
    """Return the subject of a function from a world to a policy."""
    try:
        policy = np.asarray(planner(subject["world"]), dtype=float)
    except (TypeError, ValueError) as cause:
        raise InvalidParameterError(
            f"{name} fails in a tabular world ({type(cause).__name__}: {cause}), expected a "
            f"function from a TabularMDP to a policy, [states, actions]"
        ) from cause
    return Subject(name=name, about=PLANNER, policy=policy, planner=planner, **subject)
