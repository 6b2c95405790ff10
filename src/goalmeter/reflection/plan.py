"""Which trials make a measurement, and in what one measurement differs from another.

A plan by names can be played in any process and kept on disk; one with objects only here and now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._arguments import whole
from goalmeter._errors import InvalidParameterError
from goalmeter._files import digest
from goalmeter.agents.abilities import Ability
from goalmeter.agents.histories.adapters import HistoryFunction, as_agent
from goalmeter.agents.histories.protocol import Agent
from goalmeter.agents.registry import agent as named_agent
from goalmeter.agents.registry import history_agent
from goalmeter.agents.spelling import without_checks
from goalmeter.agents.user_agents import agent_of
from goalmeter.agents.user_code import files_of, split_name
from goalmeter.reflection.arguments import MOST_STEPS, MOST_TRIALS, runs_of, seeds_of
from goalmeter.reflection.environments.opposite import READINGS, check_reading
from goalmeter.reflection.environments.record import Environment
from goalmeter.reflection.environments.registry import ENVIRONMENTS, opposite
from goalmeter.reflection.named_trial import is_user_code
from goalmeter.reflection.trial import COUNTINGS, check_counting

KIND = "reflection"
# What can be measured: a name, or what stands for an agent.
AgentLike = Agent | HistoryFunction | type[Agent] | str
# Ways to read the rules, and what is published.
OPTIONS = ("opposite_reading", "step_counting")
DEFAULTS = (READINGS[0], COUNTINGS[0])
# Agents that train. They are played in processes of their own, whose numerics have one thread: with
# more, the last bits of their sums, and so their choices, may differ.
HEAVY = frozenset({"a2c", "dqn", "ppo", "ppo-as-published", "recurrent-dqn"})


@dataclass(frozen=True)
class Case:
    """One trial that is asked for."""

    environment: Environment
    opposite: bool
    seed: int

    @property
    def key(self) -> str:
        """What it is kept under."""
        return key(spelled(self.environment, self.opposite), self.seed)

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `named_trial.play`, those that differ from trial to trial."""
        return vars(self) | {"environment": self.environment.name}


@dataclass(frozen=True)
class TrialPlan:
    """What is to be measured.

    Attributes:
        agent: it, a class of it that is called with a seed, or its name.
        runs: environments, and whether their opposites are meant.
        steps: percepts of each trial.
        seeds: all different.
        opposite_reading: see `Environment.start`.
        step_counting: see `run_trial`.
    """

    agent: Agent | type[Agent] | str
    runs: tuple[tuple[Environment, bool], ...]
    steps: int
    seeds: tuple[int, ...]
    opposite_reading: str = READINGS[0]
    step_counting: str = COUNTINGS[0]

    def __post_init__(self) -> None:
        check_reading(self.opposite_reading)
        check_counting(self.step_counting)
        if (trials := len(self.runs) * len(self.seeds)) > MOST_TRIALS:
            raise InvalidParameterError(
                f"environments, opposites and seeds make {trials} trials, expected at most "
                f"{MOST_TRIALS}; ask for fewer seeds"
            )

    @property
    def agent_name(self) -> str:
        """As in tables."""
        agent = self.agent
        if isinstance(agent, str):
            return agent
        if isinstance(agent, type):
            return agent.__name__
        plain = type(agent).__repr__ is object.__repr__  # which gives its place in memory
        return type(agent).__name__ if plain else repr(agent)

    def made(self, seed: int) -> Agent:
        """The agent of a trial."""
        agent = self.agent
        if isinstance(agent, str):
            return history_agent(agent, seed)
        return agent_of(agent, seed, f"the agent {self.agent_name}")

    @property
    def cases(self) -> list[Case]:
        """Every trial, one seed after the other."""
        return [
            Case(environment, is_opposite, seed)
            for seed in self.seeds
            for environment, is_opposite in self.runs
        ]

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `named_trial.play`, those that all trials share."""
        readings = {name: getattr(self, name) for name in OPTIONS}
        return {"agent": self.agent_name, "steps": self.steps} | readings

    @property
    def readings(self) -> dict[str, str]:
        """What is not read as published: the name of the option, and its value."""
        return readings_of(self.arguments)

    def object_in_it(self) -> str:
        """What of it has no name by which another process could find it, in words; "" if all has.

        The words are the subject of a sentence.
        """
        if not isinstance(self.agent, str):
            return f"the agent {self.agent_name}"
        for environment, _ in self.runs:
            # A user's class may have the name of one of ours, and is another environment.
            known = ENVIRONMENTS.get(environment.base)
            if not environment.spelled and (known is None or known.run is not environment.run):
                return f"the environment {environment.name}"
        return ""

    def needs_process(self) -> bool:
        """Whether it is played in another process even if nothing asks for one."""
        return not self.object_in_it() and (
            is_user_code(self.agent_name)
            or bare(self.agent_name) in HEAVY
            or any(environment.spelled for environment, _ in self.runs)
        )

    def as_json(self) -> dict[str, Any]:
        """What tells this measurement from others, as JSON values; of names only."""
        return (
            {
                "kind": KIND,
                "agent": self.agent_name,
                "steps": self.steps,
                "seeds": list(self.seeds),
                "environments": [
                    spelled(environment, is_opposite) for environment, is_opposite in self.runs
                ],
                "opposite_reading": self.opposite_reading,
            }
            | self.readings
            | named_agent(self.agent_name).identity()
            | {f"content of {path} (sha256)": digest(path) for path in self._of_environments()}
        )

    def files(self) -> dict[str, str]:
        """The files that a trial reads, agents' and environments', with their SHA-256.

        One that is not there is left to whoever runs it, who says what it should be.
        """
        paths = [*named_agent(self.agent_name).all_files(), *self._of_environments()]
        return {path: digest(path) for path in dict.fromkeys(paths) if Path(path).is_file()}

    def _of_environments(self) -> list[str]:
        files = [split_name(environment.spelled) for environment, _ in self.runs]
        return sorted({path for parts in files if parts for path in files_of(parts[0])})


def plan_of(
    agent: AgentLike, steps: object, seeds: object, environments: object, *readings: str
) -> TrialPlan:
    """The plan of what `measure` is asked for; files have one spelling in it.

    `readings` are the values of `OPTIONS`.
    """
    if isinstance(agent, str):
        named = named_agent(agent)
        named.require(Ability.HISTORY, asker="self-reflection")
        agent = named.name
    elif not (isinstance(agent, type) and hasattr(agent, "begin")):
        agent = as_agent(agent)
    steps = whole(steps, "steps", least=1, most=MOST_STEPS)
    return TrialPlan(agent, runs_of(environments), steps, seeds_of(seeds), *readings)


def readings_of(what: Mapping[str, Any]) -> dict[str, str]:
    """What of a measurement is not read as published; an option that is not there is."""
    return {k: what[k] for k in OPTIONS if k in what and what[k] not in DEFAULTS}


def key(name: str, seed: int) -> str:
    """What a trial is kept under; an opposite is named as such."""
    return f"{name} seed {seed}"


def spelled(environment: Environment, is_opposite: bool) -> str:
    """The name of an environment, or of its opposite."""
    return opposite(environment.name) if is_opposite else environment.name


def bare(name: str) -> str:
    """An agent's name without the reality checks around it.

    >>> bare("rc(rc(naive))")
    'naive'
    """
    return without_checks(name)[0]
