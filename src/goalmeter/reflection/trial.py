"""One trial: an agent in an environment or its opposite, for a number of steps, from a seed.

Whatever an agent does wrong is an outcome of its trial and stops nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from random import Random
from typing import Any, SupportsIndex

from goalmeter._arguments import MOST_SEED
from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown
from goalmeter.agents.histories.protocol import Agent, NoActionError
from goalmeter.reflection.arguments import MOST_STEPS
from goalmeter.reflection.environments.record import Environment
from goalmeter.runs.checks import Field, check_record, is_number, text, true_or_false, whole, word
from goalmeter.runs.jobs import CRASH as CRASH
from goalmeter.runs.jobs import FAILED as FAILED
from goalmeter.runs.jobs import OK as OK
from goalmeter.runs.jobs import TIMEOUT as TIMEOUT
from goalmeter.runs.jobs import in_a_line

BAD_ACTION = "illegal action"
# What a step is: a percept, the first included, or an action with the reward that it brings.
COUNTINGS = ("percepts", "actions")
OUTCOMES = (OK, BAD_ACTION, FAILED, TIMEOUT, CRASH)
# The size of a total reward: squares of it, and sums of many, are still numbers.
MOST_REWARD = 1e100


@dataclass(frozen=True)
class Trial:
    """What came of one trial.

    Attributes:
        environment: its name.
        opposite: whether it was the opposite.
        seed: of the environment's draws and the agent's.
        steps: percepts that were asked for, the first included; or actions, see `run_trial`.
        total_reward: sum of the rewards of the percepts that there were; 0 after "timeout" and
            "crash", of which nothing else is known.
        outcome: "ok", or what ended the trial early: "illegal action", "exception", "timeout",
            "crash".
        detail: the error of a trial that was ended, in a line.
        played: percepts that there were; None where it is not known.
    """

    environment: str
    opposite: bool
    seed: int
    steps: int
    total_reward: float
    outcome: str = OK
    detail: str = ""
    played: int | None = None

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
            "played": self.played,
        }

    @classmethod
    def from_json(cls, value: Any, where: str = "the trial") -> Trial:
        """The trial that `to_json` was of.

        Args:
            value: what it gave.
            where: what it was read from, for the error.

        Raises:
            InvalidFileError: it was of no trial; the message names the field.
        """
        fields = check_record(value, _FIELDS, where)
        return cls(environment=fields.pop("name"), **fields)


def run_trial(
    agent: Agent,
    environment: Environment,
    *,
    opposite: bool = False,
    steps: int,
    seed: int,
    opposite_reading: str = "literal",
    step_counting: str = COUNTINGS[0],
    keyboard: bool = True,
) -> Trial:
    """Play an environment.

    A run of n steps has n percepts, the first included, so n - 1 actions bring rewards: that is how
    the published table counts.

    Args:
        agent: begins the mind that plays, and the copies that the environment asks.
        environment: what is played.
        opposite: whether to play its opposite.
        steps: number of percepts, or of actions, at least 1.
        seed: of the environment's draws; the agent has its own.
        opposite_reading: see `Environment.start`.
        step_counting: "percepts" is as above. "actions": n actions and the rewards that they bring,
            as the authors' later library counts; the first percept's reward does not count.
        keyboard: whether KeyboardInterrupt is somebody's at a keyboard, and goes through; where no
            keyboard reaches, it is an exception of the agent's.

    Raises:
        InvalidParameterError: fewer than 1 step, or another way of counting.
    """
    if steps < 1:
        raise InvalidParameterError(f"steps is {steps}, expected at least 1")
    by_action = check_counting(step_counting) == COUNTINGS[1]
    # Seeded by the name without options: all readings of the rules have the same rooms.
    draws = Random(f"{environment.base}:{seed}")
    total: float = 0
    played = 0
    outcome, detail = OK, ""
    try:
        run = environment.start(agent, draws, opposite=opposite, opposite_reading=opposite_reading)
        mind = agent.begin(environment.n_actions, environment.n_observations)
        n_actions = environment.n_actions
        # Looked up once: these four are all that a step of a scripted agent consists of.
        perceive, act, take, react = mind.perceive, mind.act, mind.take, run.react
        reward, observation = run.begin()
        total, played = 0 if by_action else reward, 1
        perceive(reward, observation)
        for played in range(1, steps + by_action):  # noqa: B007  # it is read where the loop is left
            answer = act()
            action = answer if type(answer) is int else _whole(answer)
            if action is None or not 0 <= action < n_actions:
                outcome = BAD_ACTION
                kind = f" ({type(answer).__name__})" if action is None else ""
                detail = f"action {shown(answer)}{kind}, expected 0 to {n_actions - 1}"
                break
            take(action)
            reward, observation = react(action)
            total += reward
            perceive(reward, observation)
        else:
            played = steps + by_action
    except NoActionError as error:
        outcome, detail = BAD_ACTION, str(error)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        # What an agent raises is its own; what somebody presses ends the measurement.
        if keyboard and isinstance(error, KeyboardInterrupt):
            raise
        outcome, detail = FAILED, in_a_line(error)
    if not is_number(total, MOST_REWARD):  # rewards of a user's environment may be of any size
        total, outcome, detail = 0, FAILED, f"the rewards add up to more than {MOST_REWARD:g}"
    if type(total) is not int:
        total = float(total)
    return Trial(environment.name, opposite, seed, steps, total, outcome, detail, played)


def check_counting(step_counting: str) -> str:
    """A way of counting steps, checked."""
    if step_counting not in COUNTINGS:
        raise InvalidParameterError(
            f"step_counting is {step_counting!r}, expected {' or '.join(map(repr, COUNTINGS))}"
        )
    return step_counting


def _whole(action: SupportsIndex) -> int | None:
    """An integer of any kind, such as NumPy's, as Python's; None for anything else."""
    try:
        return index(action)
    except TypeError:
        return None


# A line of a run folder.
_FIELDS = {
    "name": text(empty=False),
    "opposite": true_or_false(),
    "seed": whole(0, MOST_SEED),
    "steps": whole(1, MOST_STEPS),
    "total_reward": Field("a finite number", lambda value: is_number(value, MOST_REWARD)),
    "outcome": word(*OUTCOMES, required=False),
    "detail": text(required=False),
    "played": whole(0, MOST_STEPS + 1, or_null=True, required=False),
}
