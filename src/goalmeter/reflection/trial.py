"""Validate arguments of trials, and run an agent in an environment or its opposite."""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
from goalmeter.agents.text_histories import TextAgent
from goalmeter.agents.user_agents import check_counts, check_installed, check_mind, inner_agent
from goalmeter.agents.user_code import split_name
from goalmeter.reflection.environments.base import READINGS, Run, one_of
from goalmeter.reflection.environments.registry import Environment, find
from goalmeter.runs.jobs import CRASH, FAILED, OK, TIMEOUT, in_a_line

# With the fastest agent, a trial of this length takes hours and a run of this size days.
MOST_STEPS = 10_000_000
MOST_SEEDS = 100_000
MOST_ENVIRONMENTS = 1000
MOST_TRIALS = 1_000_000


def seeds_of(seeds: object) -> tuple[int, ...]:
    """Return the seeds from their number or a list of them."""
    listed = isinstance(seeds, Iterable) and not isinstance(seeds, str | bytes)
    if not listed or getattr(seeds, "ndim", 1) == 0:  # an array of no dimension is a number
        return tuple(range(whole(seeds, "seeds", least=1, most=MOST_SEEDS)))
    # An infinite iterator is read only up to the limit.
    chosen = [
        whole(seed, "a seed", least=0, most=MOST_SEED)
        for seed in islice(seeds, MOST_SEEDS + 1)  # type: ignore[call-overload]
    ]
    if not chosen:
        raise InvalidParameterError("seeds is empty, expected at least one seed")
    if len(chosen) > MOST_SEEDS:
        raise InvalidParameterError(f"there are too many seeds, expected at most {MOST_SEEDS}")
    if duplicates := [seed for seed, count in Counter(chosen).items() if count > 1]:
        raise InvalidParameterError(f"seed {min(duplicates)} is given twice, expected each once")
    return tuple(chosen)


def runs_of(environments: object) -> tuple[tuple[Environment, bool], ...]:
    """Return one or several environments, each with whether its opposite is meant.

    An environment or its name stands for itself and its opposite, the name of an opposite for the
    opposite alone. Duplicates are removed.
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
        f"{shown(value)} is not an environment, expected a name, an Environment, a class derived "
        f"from goalmeter.reflection.environments.Run, or several of them"
    )


def check_timeout(timeout: object) -> float | None:
    """Validate and return a timeout in seconds; None for no limit."""
    if timeout is None:
        return None
    if not isinstance(timeout, Real) or not cast(float, timeout) > 0:
        raise InvalidParameterError(
            f"timeout is {shown(timeout)}, expected a number of seconds above 0, or None"
        )
    return finite(timeout, "timeout", least=0.0, most=MOST_SECONDS)


def check_confidence(confidence: object) -> float:
    """Validate and return the nominal coverage of an interval."""
    if not isinstance(confidence, Real) or not 0 < cast(float, confidence) < 1:
        raise InvalidParameterError(
            f"confidence is {shown(confidence)}, expected a number between 0 and 1, such as 0.95"
        )
    return float(confidence)


# Errors of an agent are outcomes of its trial and do not affect other trials.
BAD_ACTION = "illegal action"
# Unit of steps: a percept, the first included, or an action with its reward.
COUNTINGS = ("percepts", "actions")
OUTCOMES = (OK, BAD_ACTION, FAILED, TIMEOUT, CRASH)
# Maximum size of a total reward, whose squares and sums remain finite.
MOST_REWARD = 1e100
# Fields of a line in a run directory; "name" is the attribute `environment` of a trial.
_FIELDS = {
    "name": Field("text that is not empty", lambda value: isinstance(value, str) and value != ""),
    "opposite": Field("true or false", lambda value: isinstance(value, bool)),
    "seed": Field.whole(0, MOST_SEED),
    "steps": Field.whole(1, MOST_STEPS),
    "total_reward": Field("a finite number", lambda value: is_number(value, MOST_REWARD)),
    "outcome": Field.word(*OUTCOMES, required=False),
    "detail": Field("text", lambda value: isinstance(value, str), required=False),
    "played": Field.whole(0, MOST_STEPS + 1, or_null=True, required=False),
    "calls": Field.whole(0, 10**12, required=False),
    "invalid_replies": Field.whole(0, 10**12, required=False),
}


@dataclass(frozen=True)
class Trial:
    """Result of one trial."""

    environment: str  # name of the environment
    opposite: bool  # whether it was the opposite
    seed: int  # seed of the environment and the agent
    steps: int  # requested number of percepts, the first included, or of actions (see `run_trial`)
    # Sum of the rewards of all percepts; 0 after "timeout" and "crash".
    total_reward: float
    outcome: str = OK  # "ok", "illegal action", "exception", "timeout" or "crash"
    detail: str = ""  # error of a trial that ended early, in one line
    played: int | None = None  # number of percepts; None if unknown
    calls: int | None = None  # number of calls of a language model; None for other agents
    invalid_replies: int | None = None  # number of its replies without a legal action

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values; `environment` is stored as "name"."""
        fields = dict(vars(self))
        if self.calls is None:
            del fields["calls"], fields["invalid_replies"]
        return {"name": fields.pop("environment")} | fields

    @classmethod
    def from_json(cls, value: Any, where: str = "the trial") -> Trial:
        """Read a trial from JSON values; `where` names the source in errors."""
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
    """Run an agent in an environment.

    A run of n steps has n percepts, the first included, so n - 1 actions bring rewards, as in the
    published table.

    Args:
        agent: agent that begins the acting mind and the copies simulated by the environment.
        environment: environment to run.
        opposite: whether to run its opposite.
        steps: number of percepts, or of actions, at least 1.
        seed: seed of the environment's draws; the agent has its own.
        opposite_reading: see `Environment.start`.
        step_counting: "percepts" counts as above; "actions" counts n actions and their rewards, as
            in the authors' later library, without the reward of the first percept.
        keyboard: whether a KeyboardInterrupt comes from a keyboard and is raised; otherwise it
            counts as an exception of the agent.
    """
    if steps < 1:
        raise InvalidParameterError(f"steps is {steps}, expected at least 1")
    by_action = one_of("step_counting", step_counting, COUNTINGS) == COUNTINGS[1]
    # The seed uses the name without options, so that all readings have the same rooms.
    draws = Random(f"{environment.base}:{seed}")
    total: float = 0
    played = 0
    outcome, detail = OK, ""
    try:
        run = environment.start(agent, draws, opposite=opposite, opposite_reading=opposite_reading)
        mind = agent.begin(environment.n_actions, environment.n_observations)
        n_actions = environment.n_actions
        # Bound methods are looked up once, since they dominate the time of scripted agents.
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
        # Exceptions of the agent are outcomes; a key press ends the measurement.
        if keyboard and isinstance(error, KeyboardInterrupt):
            raise
        outcome, detail = FAILED, in_a_line(error)
    if not is_number(total, MOST_REWARD):  # rewards of a user's environment may have any size
        total, outcome, detail = 0, FAILED, f"the total reward exceeds {MOST_REWARD:g}"
    if type(total) is not int:
        total = float(total)
    result = Trial(environment.name, opposite, seed, steps, total, outcome, detail, played)
    model = inner_agent(agent)
    if not isinstance(model, TextAgent):
        return result
    return replace(result, calls=model.calls, invalid_replies=model.invalid_replies)


def play(
    agent: str,
    environment: str,
    opposite: bool,
    steps: int,
    seed: int,
    opposite_reading: str,
    step_counting: str = COUNTINGS[0],
) -> dict[str, Any]:
    """Run the trial of these names in a worker and return its JSON values."""
    # For users' files, the global generators of `random`, NumPy and torch are seeded first, so that
    # a trial does not depend on earlier ones in the same process.
    user = is_user_code(agent) or is_user_code(environment)
    try:
        had_torch = user and _seed_generators(seed)
        player, place = history_agent(agent, seed), find(environment)[0]
        # If the file imported torch, its generator was not seeded: repeat.
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
    """Create the agent once and look up the environments; raise errors that occur."""
    places = [find(environment)[0] for environment in environments]
    check_player(history_agent(agent, seed), agent, places, is_users=is_user_code(agent))


def check_player(
    player: Agent, name: str, environments: Iterable[Environment], *, is_users: bool
) -> None:
    """Raise errors that would occur in every trial of an agent."""
    check_installed(player)
    if is_users:
        check_mind(player, name)
    for environment in environments:
        check_counts(player, environment.n_actions, environment.n_observations)


def is_user_code(name: str) -> bool:
    """Return whether the name of an agent or environment, possibly nested, refers to a file."""
    return split_name(name) is not None


def _seed_generators(seed: int) -> bool:
    """Seed the global generators of imported libraries; return whether torch is imported."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  # users' files may draw from it
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
    return torch is not None
