"""One trial: an agent in an environment or its opposite, for a number of steps, from a seed.

Whatever an agent does wrong is an outcome of its trial and stops nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter.reflection.agents.registry import agent as named_agent
from goalmeter.reflection.environments.record import Environment
from goalmeter.reflection.protocol import Agent

OK = "ok"
BAD_ACTION = "illegal action"
FAILED = "exception"


@dataclass(frozen=True)
class Trial:
    """What came of one trial.

    Attributes:
        environment: its name.
        opposite: whether it was the opposite.
        seed: of the environment's draws and the agent's.
        steps: percepts that were asked for, the first included.
        total_reward: sum of the rewards of the percepts that there were.
        outcome: "ok", or what ended the trial early.
        detail: the error of a trial that was ended, in a line.
    """

    environment: str
    opposite: bool
    seed: int
    steps: int
    total_reward: float
    outcome: str = OK
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values, under the names of the design."""
        return {
            "name": self.environment,
            "opposite": self.opposite,
            "seed": self.seed,
            "steps": self.steps,
            "total_reward": self.total_reward,
            "outcome": self.outcome,
            "detail": self.detail,
        }


def run_trial(
    agent: Agent,
    environment: Environment,
    *,
    opposite: bool = False,
    steps: int,
    seed: int,
    opposite_reading: str = "literal",
) -> Trial:
    """Play an environment.

    A run of n steps has n percepts, the first included, so n - 1 actions bring rewards: that is how
    the published table counts.

    Args:
        agent: begins the mind that plays, and the copies that the environment asks.
        environment: what is played.
        opposite: whether to play its opposite.
        steps: number of percepts, at least 1.
        seed: of the environment's draws; the agent has its own.
        opposite_reading: see `Environment.start`.

    Raises:
        InvalidParameterError: fewer than 1 step.
    """
    if steps < 1:
        raise InvalidParameterError(f"steps is {steps}, expected at least 1")
    draws = Random(f"{environment.base}:{seed}")
    total: float = 0
    outcome, detail = OK, ""
    try:
        run = environment.start(agent, draws, opposite=opposite, opposite_reading=opposite_reading)
        mind = agent.begin(environment.n_actions, environment.n_observations)
        n_actions = environment.n_actions
        perceive, act, take, react = mind.perceive, mind.act, mind.take, run.react
        reward, observation = run.begin()
        total = reward
        perceive(reward, observation)
        for _ in range(steps - 1):
            action = act()
            if not 0 <= action < n_actions:
                outcome = BAD_ACTION
                detail = f"action {action!r}, expected 0 to {n_actions - 1}"
                break
            take(action)
            reward, observation = react(action)
            total += reward
            perceive(reward, observation)
    except Exception as error:
        outcome, detail = FAILED, f"{type(error).__name__}: {error}"
    return Trial(environment.name, opposite, seed, steps, total, outcome, detail)


def agent_of(given: Agent | str, seed: int) -> Agent:
    """An agent from its name and a seed; an agent is itself."""
    return named_agent(given, seed) if isinstance(given, str) else given
