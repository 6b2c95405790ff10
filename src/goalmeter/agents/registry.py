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
from goalmeter.agents.local_models import OURS, is_model, is_path, model_agent, organism_agents
from goalmeter.agents.recurrent_dqn import RecurrentDQN
from goalmeter.agents.scripted import ConstantAgent, NaiveLearner, QLearner, RandomAgent
from goalmeter.agents.stable_baselines import StableBaselinesAgent
from goalmeter.agents.trained_policies import TRAINED, is_trained, trained_agent
from goalmeter.agents.user_agents import file_agent, object_makers
from goalmeter.agents.user_code import misspelled
from goalmeter.organisms import organism_names

MakeAgent = Callable[[int], Agent]  # from a seed
MOST_K = 1_000_000  # the number of an action


def _of_history(make: MakeAgent, about: str) -> AgentFactory:
    return AgentFactory.without_argument(about, {Ability.HISTORY: make})


def _constant(name: str, argument: str | None) -> NamedAgent:
    if argument is None:
        return NamedAgent(name, _CONSTANT, {Ability.HISTORY: lambda seed: ConstantAgent()})
    if not re.fullmatch(r"\d+", argument):
        raise InvalidParameterError(
            f"there is no agent '{name}({argument})': in constant(K), K is a whole number, 0 or "
            f"more"
        )
    action = whole_in_text(argument, "K of constant(K)", least=0, most=MOST_K)
    makers = {Ability.HISTORY: lambda seed: ConstantAgent(action)}
    return NamedAgent(f"{name}({action})", f"always action {action}", makers)


_CONSTANT = "always action 0; constant(K) for action K"
HISTORY_AGENTS = {
    "random": _of_history(RandomAgent, "every action equally likely"),
    "constant": AgentFactory(_CONSTANT, frozenset({Ability.HISTORY}), _constant, argument="K"),
    "naive": _of_history(NaiveLearner, "what paid best at once, as published; 15% at random"),
    "naive-true-average": _of_history(
        partial(NaiveLearner, true_average=True), "naive with the average of the text"
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

# docs/agents.md has the grammar of names. Other packages add names by entry points, a program by
# `register`. A name that two kinds have, such as `random`, is one agent with the abilities of both.

_REGISTERED: dict[str, AgentFactory] = {}
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9-]*")


def agent(name: str) -> NamedAgent:
    """Return the agent that a name stands for, with what can be asked of it.

    `goalmeter agents` lists what there is. Nothing heavy is imported, and no file of agents is run,
    before one of its abilities is used.

    Example: an agent of two kinds.
        >>> [str(ability) for ability in agent("random").abilities]
        ['an action at a history', 'a distribution over actions in a state of a grid world']
    """
    inner, checks = without_checks(name)
    named = replace(_unchecked(inner), others=listed_names)
    return _checked(named, checks) if checks else named


def history_agent(name: str, seed: int = 0) -> Agent:
    """Return the agent of a name as a function of its history, whose draws come from the seed."""
    return agent(name).at_histories(seed, asker="self-reflection")


def register(name: str, thing: AgentFactory | object, about: str = "") -> None:
    """Give an agent a name in this process; a package does it by an entry point instead.

    It is an `AgentFactory`; or a function, an object or a class as in a file of agents.
    """
    if not _PLAIN_NAME.fullmatch(name):
        raise InvalidParameterError(
            f"{name!r} cannot name an agent; expected small letters, digits and hyphens"
        )
    if name in {**factories(), **plugins(AGENTS)}:
        raise InvalidParameterError(f"the name {name!r} is taken; choose another")
    _REGISTERED[name] = factory_of(thing, name, about)


def factories() -> dict[str, tuple[AgentFactory, ...]]:
    """Return the factories of each name that goalmeter knows, or that was registered."""
    # A later table adds its abilities to an earlier one's names.
    tables = (NAVIGATORS, HISTORY_AGENTS, _REGISTERED)
    names = dict.fromkeys(name for table in tables for name in table)
    return {name: tuple(table[name] for table in tables if name in table) for name in names}


def factory_of(thing: AgentFactory | object, name: str, about: str = "") -> AgentFactory:
    """Return the factory that was registered, or one that makes the agent that was."""
    if isinstance(thing, AgentFactory):
        return thing
    document = (thing.__doc__ or "").strip().partition("\n")[0]
    about = about or document or "an agent without a description"
    return AgentFactory.without_argument(about, object_makers(thing, name))


def plugin_factory(name: str) -> AgentFactory:
    """Return the factory of a name that another package registers; the package is imported."""
    entry = plugins(AGENTS)[name]
    refuse_taken(AGENTS, factories())
    registered = loaded(entry)
    try:
        return factory_of(registered, name)
    except InvalidParameterError as cause:
        raise PluginError(f"{origin(entry)} registers no agent: {cause}") from cause


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
    local_model = (Ability.TEXT, Ability.HIDDEN)
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
    """Return names in the spelling in which they can be used.

    Those of an ability, or all; for all no other package is imported.
    """
    if ability is not None:
        return [each.name for each in all_agents(ability)]
    names = [made[0].spelled(name) for name, made in factories().items()]
    return [*names, *organism_agents(), *plugins(AGENTS)]


def _unchecked(name: str) -> NamedAgent:
    # Spellings come first: what has a prefix, a file or a slash is in no table of names.
    if is_trained(name):
        return trained_agent(name)
    if of_file := file_agent(name):
        return of_file
    if is_model(name):
        if is_path(name.partition("/")[0]):
            raise InvalidParameterError(
                f"{name!r} is a path, expected the name of an agent: a model in a folder is "
                f"goalmeter-local/FOLDER, a saved policy sb3:PATH.zip or policy:PATH.npz, your own "
                f"FILE.py:NAME; `goalmeter agents` lists all"
            )
        return model_agent(name)
    call, package = call_of(name), ""
    makers = factories().get(call.kind, ())
    if not makers and (entry := plugins(AGENTS).get(call.kind)):
        makers, package = (plugin_factory(call.kind),), origin(entry)
    if not makers:
        raise InvalidParameterError(_unknown(name, call.kind))
    kinds = (factory.make(call.kind, call.argument) for factory in makers)
    return replace(reduce(NamedAgent.joined, kinds), package=package)


def _checked(named: NamedAgent, checks: int) -> NamedAgent:
    """The reality check of an agent, so many times over."""
    name = with_checks(named.name, checks)
    named.require(Ability.HISTORY, asker=f"the reality check {name}")

    def at_histories(seed: int = 0) -> Agent:
        inner = named.at_histories(seed)
        for _ in range(checks):
            inner = RealityCheck(inner)
        return inner

    # No other ability is left: a reality check is defined by the history (Definition 8).
    about = f"the reality check of {with_checks(named.name, checks - 1)}"
    return replace(named, name=name, about=about, makers={Ability.HISTORY: at_histories})


def _unknown(name: str, kind: str) -> str:
    if name.endswith(".py"):
        return f"{name} is a file; say which of its agents: {name}:NAME"
    for prefix, (ending, _) in TRAINED.items():
        if name.endswith(ending):
            return f"{name} is a file; if it holds a trained policy, name it {prefix}:{name}"
    if call_of(name) in (("rc", None), ("rc", "")):
        return f"{name} names nobody; rc(NAME) is the reality check of an agent, such as rc(naive)"
    if hint := misspelled(name, "my_agent.py:agent"):
        return f"there is no agent {name!r}: {hint}"
    # Somebody who leaves out "goalmeter/" means an organism as often as a reference agent.
    meant = nearest(kind, [*factories(), *plugins(AGENTS), *organism_names()])
    meant = f"{OURS}{meant}" if meant in organism_names() else meant
    hint = f"; did you mean {meant!r}?" if meant is not None else ";"
    return f"there is no agent {name!r}{hint} `goalmeter agents` lists all"
