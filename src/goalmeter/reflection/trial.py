"""Trials: validate arguments, and run an agent in an environment or its opposite."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Real
from operator import index
from random import Random
from typing import Any, cast

import numpy as np

from goalmeter._errors import MOST_SECONDS, MOST_SEED, InvalidParameterError, finite, shown, whole
from goalmeter._files import Field, check_record, is_number
from goalmeter.agents.history import Agent, NoActionError
from goalmeter.agents.registry import history_agent
from goalmeter.agents.user_agents import check_counts, check_installed, check_mind
from goalmeter.agents.user_code import split_name
from goalmeter.reflection.environments.base import READINGS, Run, one_of
from goalmeter.reflection.environments.registry import Environment, find
from goalmeter.runs.jobs import CRASH, FAILED, OK, TIMEOUT, in_a_line

# A trial of so many percepts takes hours, and a run of so many trials days, with the fastest agent.
MOST_STEPS = 10_000_000
MOST_SEEDS = 100_000
MOST_ENVIRONMENTS = 1000
MOST_TRIALS = 1_000_000


def seeds_of(seeds: object) -> tuple[int, ...]:
    """Return the seeds, from their number or from a list of them."""
    listed = isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes)
    if not listed or getattr(seeds, "ndim", 1) == 0:  # an array of no dimension is a number
        return tuple(range(whole(seeds, "seeds", least=1, most=MOST_SEEDS)))
    # Of an iterator without end no more is taken than what is too many.
    chosen = [
        whole(seed, "a seed", least=0, most=MOST_SEED)
        for seed in islice(seeds, MOST_SEEDS + 1)  # type: ignore[call-overload]
    ]
    if not chosen:
        raise InvalidParameterError("seeds is empty, expected at least one seed")
    if len(chosen) > MOST_SEEDS:
        raise InvalidParameterError(f"there are more than {MOST_SEEDS} seeds, expected fewer")
    if twice := [seed for seed, count in Counter(chosen).items() if count > 1]:
        raise InvalidParameterError(f"seed {min(twice)} is given twice; give each once")
    return tuple(chosen)


def runs_of(environments: object) -> tuple[tuple[Environment, bool], ...]:
    """Return environments, and whether their opposites are meant, of one or several.

    An environment, or its name, stands for itself and its opposite; the name of an opposite for the
    opposite alone. What is named twice is played once.
    """
    is_single = isinstance(environments, str | Environment | type)
    if not is_single and not isinstance(environments, Iterable):
        raise _no_environment(environments)
    listed: Any = [environments] if is_single else environments
    runs: dict[tuple[str, bool], tuple[Environment, bool]] = {}
    for item in listed:
        environment, is_opposite = item, False
        if isinstance(item, str):
            environment, is_opposite = find(item)
        elif isinstance(item, type) and issubclass(item, Run):
            environment = Environment(item)
        elif not isinstance(item, Environment):
            raise _no_environment(item)
        for way in (True,) if is_opposite else (False, True):
            runs.setdefault((environment.name, way), (environment, way))
    if not 0 < len(runs) <= 2 * MOST_ENVIRONMENTS:
        raise InvalidParameterError(
            f"there are {len(runs)} environments and opposites, expected at least 1 and at most "
            f"{2 * MOST_ENVIRONMENTS}"
        )
    return tuple(runs.values())


def _no_environment(value: object) -> InvalidParameterError:
    return InvalidParameterError(
        f"{shown(value)} is no environment, expected a name, an Environment, a class derived from "
        f"goalmeter.reflection.environments.Run, or several of them"
    )


def check_timeout(timeout: object) -> float | None:
    """Return a time limit in seconds, or None for no limit."""
    if timeout is None:
        return None
    if not isinstance(timeout, Real) or not cast(float, timeout) > 0:
        raise InvalidParameterError(
            f"timeout is {shown(timeout)}, expected a number of seconds above 0, or None"
        )
    return finite(timeout, "timeout", least=0.0, most=MOST_SECONDS)


def check_confidence(confidence: object) -> float:
    """Return the nominal coverage of an interval."""
    if not isinstance(confidence, Real) or not 0 < cast(float, confidence) < 1:
        raise InvalidParameterError(
            f"confidence is {shown(confidence)}, expected a number between 0 and 1, such as 0.95"
        )
    return float(confidence)


# Whatever an agent does wrong is an outcome of its trial and stops nothing else.
BAD_ACTION = "illegal action"
# What a step is: a percept, the first included, or an action with the reward that it brings.
COUNTINGS = ("percepts", "actions")
OUTCOMES = (OK, BAD_ACTION, FAILED, TIMEOUT, CRASH)
# The size of a total reward: squares of it, and sums of many, are still numbers.
MOST_REWARD = 1e100
# A line of a run directory; "name" is the attribute `environment` of a trial.
_FIELDS = {
    "name": Field("text that is not empty", lambda value: isinstance(value, str) and value != ""),
    "opposite": Field("true or false", lambda value: isinstance(value, bool)),
    "seed": Field.whole(0, MOST_SEED),
    "steps": Field.whole(1, MOST_STEPS),
    "total_reward": Field("a finite number", lambda value: is_number(value, MOST_REWARD)),
    "outcome": Field.word(*OUTCOMES, required=False),
    "detail": Field("text", lambda value: isinstance(value, str), required=False),
    "played": Field.whole(0, MOST_STEPS + 1, or_null=True, required=False),
}


@dataclass(frozen=True)
class Trial:
    """Result of one trial."""

    environment: str
    opposite: bool  # whether it was the opposite
    seed: int  # of the environment's draws and the agent's
    steps: int  # percepts that were asked for, the first included; or actions, see `run_trial`
    # Sum of the rewards of the percepts that there were; 0 after "timeout" and "crash".
    total_reward: float
    outcome: str = OK  # or why it ended early: "illegal action", "exception", "timeout", "crash"
    detail: str = ""  # the error of a trial that was ended, in a line
    played: int | None = None  # percepts that there were; None where it is not known

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; `environment` is called "name"."""
        fields = dict(vars(self))
        return {"name": fields.pop("environment")} | fields

    @classmethod
    def from_json(cls, value: Any, where: str = "the trial") -> Trial:
        """Read the trial that `to_json` was of; `where` is its source, for the error."""
        fields = check_record(value, _FIELDS, where)
        return cls(environment=fields.pop("name"), **fields)


def run_trial(
    agent: Agent,
    environment: Environment,
    *,
    opposite: bool = False,
    steps: int,
    seed: int,
    opposite_reading: str = READINGS[0],
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
    """
    if steps < 1:
        raise InvalidParameterError(f"steps is {steps}, expected at least 1")
    by_action = one_of("step_counting", step_counting, COUNTINGS) == COUNTINGS[1]
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
            action: int | None = answer
            if type(answer) is not int:  # an integer of another kind, such as NumPy's
                try:
                    action = index(answer)
                except TypeError:
                    action = None
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


def play(
    agent: str,
    environment: str,
    opposite: bool,
    steps: int,
    seed: int,
    opposite_reading: str,
    step_counting: str = COUNTINGS[0],
) -> dict[str, Any]:
    """Play the trial of these names, in a worker; return `Trial.to_json` of it."""
    # Where a user's file is involved, what it may draw from (`random`, NumPy's and torch's global
    # generators) is seeded by the trial first, so that the trial is the same whatever was played in
    # this process before.
    user = is_user_code(agent) or is_user_code(environment)
    try:
        had_torch = user and _seed_generators(seed)
        player, place = history_agent(agent, seed), find(environment)[0]
        # A file that imports torch brings a generator that was not there to be seeded: once more.
        if user and not had_torch and _seed_generators(seed):
            player, place = history_agent(agent, seed), find(environment)[0]
    except (Exception, SystemExit) as error:
        return Trial(environment, opposite, seed, steps, 0, FAILED, in_a_line(error), 0).to_json()
    return run_trial(
        player,
        place,
        opposite=opposite,
        steps=steps,
        seed=seed,
        opposite_reading=opposite_reading,
        step_counting=step_counting,
        keyboard=False,
    ).to_json()


def check(agent: str, environments: Sequence[str], seed: int) -> None:
    """Make the agent once and look the environments up, for the error if that fails."""
    places = [find(environment)[0] for environment in environments]
    check_player(history_agent(agent, seed), agent, places, is_users=is_user_code(agent))


def check_player(
    player: Agent, name: str, environments: Iterable[Environment], *, is_users: bool
) -> None:
    """Raise what would be wrong with every trial of an agent, before the first of them."""
    check_installed(player)
    if is_users:
        check_mind(player, name)
    for environment in environments:
        check_counts(player, environment.n_actions, environment.n_observations)


def is_user_code(name: str) -> bool:
    """Return whether an agent's or environment's name, whatever encloses it, is of a file."""
    return split_name(name) is not None


def _seed_generators(seed: int) -> bool:
    """Seed all global generators that are imported; return whether torch's is among them."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  # the one that a user's file may draw from
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
    return torch is not None
