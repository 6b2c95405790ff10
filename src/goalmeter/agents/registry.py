"""Registry of all agents by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import NamedTuple

from goalmeter._errors import InvalidParameterError, whole_in_text
from goalmeter._names import AGENTS, PluginError, loaded, nearest, origin, plugins, refuse_taken
from goalmeter.agents.abilities import (
    Ability,
    AgentFactory,
    NamedAgent,
    call_of,
    with_checks,
    without_checks,
)
from goalmeter.agents.grid_agents import NAVIGATORS
from goalmeter.agents.history import Agent, RealityCheck
from goalmeter.agents.local_models import OURS, is_model, is_path, organism_agents
from goalmeter.agents.recurrent_dqn import RecurrentDQN
from goalmeter.agents.scripted import ConstantAgent, NaiveLearner, QLearner, RandomAgent
from goalmeter.agents.stable_baselines import StableBaselinesAgent
from goalmeter.agents.text_histories import text_agent
from goalmeter.agents.trained_policies import TRAINED, is_trained, trained_agent
from goalmeter.agents.user_agents import file_agent, object_makers
from goalmeter.agents.user_code import misspelled
from goalmeter.organisms import organism_names

MakeAgent = Callable[[int], Agent]  # creates an agent from a seed
MOST_K = 1_000_000  # maximum action number of constant(K)


def _of_history(make: MakeAgent, about: str) -> AgentFactory:
    return AgentFactory.without_argument(about, {Ability.HISTORY: make})


def _constant(name: str, argument: str | None) -> NamedAgent:
    if argument is None:
        return NamedAgent(name, _CONSTANT, {Ability.HISTORY: lambda seed: ConstantAgent()})
    if not re.fullmatch(r"\d+", argument):
        raise InvalidParameterError(
            f"there is no agent '{name}({argument})', expected a whole number K of 0 or more in "
            f"constant(K)"
        )
    action = whole_in_text(argument, "K of constant(K)", least=0, most=MOST_K)
    makers = {Ability.HISTORY: lambda seed: ConstantAgent(action)}
    return NamedAgent(f"{name}({action})", f"always action {action}", makers)


_CONSTANT = "always action 0; constant(K) for action K"
HISTORY_AGENTS = {
    "random": _of_history(RandomAgent, "every action equally likely"),
    "constant": AgentFactory(_CONSTANT, frozenset({Ability.HISTORY}), _constant, argument="K"),
    "naive": _of_history(NaiveLearner, "best average reward, as published; 15% random actions"),
    "naive-true-average": _of_history(
        partial(NaiveLearner, true_average=True), "naive with the average of the paper's text"
    ),
    "q-learner": _of_history(QLearner, "tabular Q-learning over observations"),
    "a2c": _of_history(partial(StableBaselinesAgent, "a2c"), "A2C of Stable-Baselines3"),
    "dqn": _of_history(partial(StableBaselinesAgent, "dqn"), "DQN of Stable-Baselines3"),
    "ppo": _of_history(partial(StableBaselinesAgent, "ppo"), "PPO of Stable-Baselines3"),
    "ppo-as-published": _of_history(
        partial(StableBaselinesAgent, "ppo", as_published=True),
        "PPO with the authors' wrong log-probabilities",
    ),
    "recurrent-dqn": _of_history(RecurrentDQN, "DQN with a recurrent network"),
}

# docs/notes/agents.md documents the grammar of names. Packages add names by entry points, programs
# by `register`. A name of two kinds, such as `random`, is one agent with the abilities of both.

_REGISTERED: dict[str, AgentFactory] = {}
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9-]*")


def agent(name: str) -> NamedAgent:
    """Return an agent by name.

    `goalmeter agents` lists the names. Large packages are imported, and files of agents are run,
    only when an ability of the agent is used.

    Example: an agent of two kinds.
        >>> [str(ability) for ability in agent("random").abilities]
        ['an action at a history', 'a distribution over actions in a state of a grid world']
    """
    inner, checks = without_checks(name)
    base = replace(_find(inner), others=listed_names)
    return _with_reality_checks(base, checks) if checks else base


def history_agent(name: str, seed: int = 0) -> Agent:
    """Return an agent by name as a function of its history, with a random seed."""
    return agent(name).at_histories(seed, asker="self-reflection")


def register(name: str, thing: AgentFactory | object, about: str = "") -> None:
    """Register an agent by name in this process; packages use an entry point instead.

    `thing` is an `AgentFactory`, or a function, an object or a class as in a file of agents.
    """
    if not _PLAIN_NAME.fullmatch(name):
        raise InvalidParameterError(
            f"{name!r} is not a valid agent name, expected lower-case letters, digits and hyphens"
        )
    if name in {**factories(), **plugins(AGENTS)}:
        raise InvalidParameterError(f"the agent name {name!r} is taken; choose another")
    _REGISTERED[name] = factory_of(thing, name, about)


def factories() -> dict[str, tuple[AgentFactory, ...]]:
    """Return the factories of each built-in or registered name."""
    # Later tables add abilities to the names of earlier tables.
    tables = (NAVIGATORS, HISTORY_AGENTS, _REGISTERED)
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: tuple(table[name] for table in tables if name in table) for name in names}


def factory_of(thing: AgentFactory | object, name: str, about: str = "") -> AgentFactory:
    """Return a registered factory, or a factory of the registered agent."""
    if isinstance(thing, AgentFactory):
        return thing
    document = (thing.__doc__ or "").strip().partition("\n")[0]
    about = about or document or "an agent without a description"
    return AgentFactory.without_argument(about, object_makers(thing, name))


def plugin_factory(name: str) -> AgentFactory:
    """Import the plugin package that registers a name, and return its factory."""
    entry = plugins(AGENTS)[name]
    refuse_taken(AGENTS, factories())
    registered = loaded(entry)
    try:
        return factory_of(registered, name)
    except InvalidParameterError as cause:
        raise PluginError(f"{origin(entry)} registers an invalid agent: {cause}") from cause


class ListedAgent(NamedTuple):
    """A line of the list of agents."""

    name: str  # in the spelling in which it can be used
    about: str
    abilities: Collection[Ability] = ()
    package: str | None = None  # another package that registers it
    problem: str | None = None  # why that package cannot be used


def all_agents(needed: Ability | None = None) -> list[ListedAgent]:
    """List every agent, or those with an ability; packages that add some are imported."""
    agents = []
    for name, kinds in factories().items():
        fitting = [kind for kind in kinds if needed is None or needed in kind.abilities] or kinds
        able = {ability for kind in fitting for ability in kind.abilities}
        about = "; ".join(kind.about for kind in fitting)
        agents.append(ListedAgent(fitting[0].spelled(name), about, able))
    local_model = (Ability.HISTORY, Ability.TEXT, Ability.HIDDEN)
    agents += [ListedAgent(name, about, local_model) for name, about in organism_agents().items()]
    for name, entry in plugins(AGENTS).items():
        try:
            kind = plugin_factory(name)
        except PluginError as error:  # it hinders no other
            agents.append(ListedAgent(name, "", (), origin(entry), str(error)))
        else:
            spelled = kind.spelled(name)
            agents.append(ListedAgent(spelled, kind.about, kind.abilities, origin(entry)))
    return [each for each in agents if needed in (None, *each.abilities)]


def listed_names(ability: Ability | None = None) -> Sequence[str]:
    """Return the names of the agents that have an ability, by default of all agents.

    Plugin packages are imported only if an ability is given.
    """
    if ability is not None:
        return [each.name for each in all_agents(ability)]
    names = [made[0].spelled(name) for name, made in factories().items()]
    return [*names, *organism_agents(), *plugins(AGENTS)]


def _find(name: str) -> NamedAgent:
    # Names with a prefix, a file or a slash are not in the tables.
    if is_trained(name):
        return trained_agent(name)
    if of_file := file_agent(name):
        return of_file
    if is_model(name):
        if is_path(name.partition("/")[0]):
            raise InvalidParameterError(
                f"{name!r} is a path, expected an agent name: goalmeter-local/FOLDER for a model "
                f"in a folder, sb3:PATH.zip or policy:PATH.npz for a saved policy, FILE.py:NAME "
                f"for your own agent; `goalmeter agents` lists all agents"
            )
        return text_agent(name)
    call, package = call_of(name), ""
    makers = factories().get(call.kind, ())
    if not makers and (entry := plugins(AGENTS).get(call.kind)):
        makers, package = (plugin_factory(call.kind),), origin(entry)
    if not makers:
        raise InvalidParameterError(_unknown_message(name, call.kind))
    kinds = (factory.make(call.kind, call.argument) for factory in makers)
    return replace(reduce(NamedAgent.joined, kinds), package=package)


def _with_reality_checks(base: NamedAgent, checks: int) -> NamedAgent:
    """Apply the reality check n times."""
    name = with_checks(base.name, checks)
    base.require(Ability.HISTORY, asker=f"the reality check {name}")

    def at_histories(seed: int = 0) -> Agent:
        inner = base.at_histories(seed)
        for _ in range(checks):
            inner = RealityCheck(inner)
        return inner

    # A reality check is defined on histories (Definition 8), so it has no other ability.
    about = f"the reality check of {with_checks(base.name, checks - 1)}"
    return replace(base, name=name, about=about, makers={Ability.HISTORY: at_histories})


def _unknown_message(name: str, kind: str) -> str:
    if name.endswith(".py"):
        return f"{name} is a file, expected {name}:NAME with the name of one of its agents"
    for prefix, (ending, _) in TRAINED.items():
        if name.endswith(ending):
            return f"{name} is a file; if it contains a trained policy, use {prefix}:{name}"
    if call_of(name) in (("rc", None), ("rc", "")):
        return f"{name} names no agent, expected rc(NAME), the reality check of NAME"
    if hint := misspelled(name, "my_agent.py:agent"):
        return f"there is no agent {name!r}: {hint}"
    # Users may omit "goalmeter/", so organisms are candidates too.
    close = nearest(kind, [*factories(), *plugins(AGENTS), *organism_names()])
    close = f"{OURS}{close}" if close in organism_names() else close
    hint = f"; did you mean {close!r}?" if close is not None else ";"
    return f"there is no agent {name!r}{hint} `goalmeter agents` lists all"
