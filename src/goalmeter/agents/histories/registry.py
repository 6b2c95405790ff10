"""The table of agents that are functions of their history, by name."""

from __future__ import annotations

import re
from collections.abc import Callable

from goalmeter._arguments import whole_in_text
from goalmeter._errors import InvalidParameterError
from goalmeter.agents.abilities import Ability, AgentFactory, NamedAgent
from goalmeter.agents.histories.naive import NaiveLearner
from goalmeter.agents.histories.protocol import Agent
from goalmeter.agents.histories.q_learner import QLearner
from goalmeter.agents.histories.simple import ConstantAgent, RandomAgent

MakeAgent = Callable[[int], Agent]  # from a seed
MOST_K = 1_000_000  # the number of an action


def scripted(make: MakeAgent, about: str) -> AgentFactory:
    """The entry of an agent that is a function of its history and takes no argument."""
    return AgentFactory.without_argument(about, {Ability.HISTORY: make})


def _constant(about: str) -> AgentFactory:
    def named(name: str, argument: str | None) -> NamedAgent:
        if argument is None:
            return NamedAgent(name, about, {Ability.HISTORY: lambda seed: ConstantAgent()})
        if not re.fullmatch(r"\d+", argument):
            raise InvalidParameterError(
                f"there is no agent '{name}({argument})': in constant(K), K is a whole number, 0 "
                f"or more"
            )
        action = whole_in_text(argument, "K of constant(K)", least=0, most=MOST_K)
        makers = {Ability.HISTORY: lambda seed: ConstantAgent(action)}
        return NamedAgent(f"{name}({action})", f"always action {action}", makers)

    return AgentFactory(about, frozenset({Ability.HISTORY}), named, argument="K")


def _stable_baselines(algorithm: str, *, as_published: bool = False) -> MakeAgent:
    def make(seed: int) -> Agent:
        # Imported when an agent is asked for, since torch is heavy; likewise below.
        from goalmeter.agents.learners.stable_baselines import StableBaselinesAgent

        return StableBaselinesAgent(algorithm, seed, as_published=as_published)

    return make


def _recurrent_dqn(seed: int) -> Agent:
    from goalmeter.agents.learners.recurrent_dqn import RecurrentDQN

    return RecurrentDQN(seed)


HISTORY_AGENTS: dict[str, AgentFactory] = {
    "random": scripted(RandomAgent, "every action equally likely"),
    "constant": _constant("always action 0; constant(K) for action K"),
    "naive": scripted(NaiveLearner, "what paid best at once, as published; 15% at random"),
    "naive-true-average": scripted(
        lambda seed: NaiveLearner(seed, true_average=True), "naive with the average of the text"
    ),
    "q-learner": scripted(QLearner, "tabular Q-learning over observations"),
    "a2c": scripted(_stable_baselines("a2c"), "A2C of Stable-Baselines3"),
    "dqn": scripted(_stable_baselines("dqn"), "DQN of Stable-Baselines3"),
    "ppo": scripted(_stable_baselines("ppo"), "PPO of Stable-Baselines3"),
    "ppo-as-published": scripted(
        _stable_baselines("ppo", as_published=True),
        "PPO with the authors' wrong log-probabilities",
    ),
    "recurrent-dqn": scripted(_recurrent_dqn, "DQN with a recurrent network"),
}
