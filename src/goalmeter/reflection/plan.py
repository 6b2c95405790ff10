"""Which trials make a measurement, and how a measurement is told from another.

A plan by names can be played in any process and kept on disk; one with objects only here and now.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.reflection.environments.opposite import READINGS
from goalmeter.reflection.environments.record import Environment
from goalmeter.reflection.environments.registry import ENVIRONMENTS, find, opposite
from goalmeter.reflection.named_trial import is_user_code
from goalmeter.reflection.protocol import Agent
from goalmeter.reflection.trial import COUNTINGS, check_counting
from goalmeter.reflection.user_code import split_name

KIND = "reflection"
# Ways to read the rules, and what is published.
OPTIONS = ("opposite_reading", "step_counting")
DEFAULTS = (READINGS[0], COUNTINGS[0])
# Agents that bring torch. They are played in processes of one thread: with more, the last bits of
# their sums, and so their choices, may differ.
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


@dataclass(frozen=True)
class Plan:
    """What is to be measured.

    Attributes:
        agent: it, or its name.
        runs: environments, and whether their opposites are meant.
        steps: percepts of each trial.
        seeds: all different.
        opposite_reading: see `Environment.start`.
        step_counting: see `run_trial`.

    Raises:
        InvalidParameterError: no runs, no seeds, one of them twice, fewer than 1 step, or no such
            reading.
    """

    agent: Agent | str
    runs: tuple[tuple[Environment, bool], ...]
    steps: int
    seeds: tuple[int, ...]
    opposite_reading: str = READINGS[0]
    step_counting: str = COUNTINGS[0]

    def __post_init__(self) -> None:
        if not self.seeds or not self.runs:
            raise InvalidParameterError(
                f"got {len(self.seeds)} seeds and {len(self.runs)} environments with opposites, "
                f"expected at least one of each"
            )
        if self.steps < 1:
            raise InvalidParameterError(f"steps is {self.steps}, expected at least 1")
        if twice := sorted({seed for seed in self.seeds if self.seeds.count(seed) > 1}):
            raise InvalidParameterError(f"seed {twice[0]} is given twice; give each once")
        if min(self.seeds) < 0:
            raise InvalidParameterError(f"seed {min(self.seeds)} is below 0, expected 0 or more")
        if self.opposite_reading not in READINGS:
            raise InvalidParameterError(
                f"opposite_reading is {self.opposite_reading!r}, expected"
                f" {' or '.join(map(repr, READINGS))}"
            )
        check_counting(self.step_counting)

    @property
    def agent_name(self) -> str:
        """As in tables."""
        return self.agent if isinstance(self.agent, str) else repr(self.agent)

    @property
    def cases(self) -> list[Case]:
        """Every trial, one seed after the other."""
        return [
            Case(environment, is_opposite, seed)
            for seed in self.seeds
            for environment, is_opposite in self.runs
        ]

    @property
    def readings(self) -> dict[str, str]:
        """What is not read as published: the name of the option, and its value."""
        given = {name: getattr(self, name) for name in OPTIONS}
        return {name: value for name, value in given.items() if value not in DEFAULTS}

    def object_in_it(self) -> str:
        """What of it has no name by which another process could find it, in words; "" if all has.

        The words are the subject of a sentence.
        """
        if not isinstance(self.agent, str):
            return f"the agent {self.agent!r}"
        for environment, _ in self.runs:
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

    def what(self) -> dict[str, Any]:
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
            | {f"content of {path} (sha256)": _digest(path) for path in self._files()}
        )

    def _files(self) -> list[str]:
        names = [bare(self.agent_name), *(environment.spelled for environment, _ in self.runs)]
        found = [split_name(name) for name in names]
        return sorted({file[0] for file in found if file is not None})


def plan_of(
    agent: Agent | str,
    steps: int,
    seeds: int | Sequence[int],
    environments: Iterable[Environment | str],
    opposite_reading: str,
    step_counting: str,
) -> Plan:
    """The plan of what `measure` is asked for.

    An environment, or its name, stands for itself and its opposite; the name of an opposite for the
    opposite alone. What is named twice is played once.

    Raises:
        GoalmeterError: as `Plan`, or a name stands for nothing.
    """
    runs: dict[tuple[str, bool], tuple[Environment, bool]] = {}
    for given in environments:
        environment, is_opposite = find(given) if isinstance(given, str) else (given, False)
        for way in (True,) if is_opposite else (False, True):
            runs.setdefault((environment.name, way), (environment, way))
    chosen = range(seeds) if isinstance(seeds, int) else seeds
    agent = agent.strip() if isinstance(agent, str) else agent
    return Plan(agent, tuple(runs.values()), steps, tuple(chosen), opposite_reading, step_counting)


def key(name: str, seed: int) -> str:
    """What a trial is kept under; an opposite is named as such."""
    return f"{name} seed {seed}"


def spelled(environment: Environment, is_opposite: bool) -> str:
    """The name of an environment, or of its opposite."""
    return opposite(environment.name) if is_opposite else environment.name


def trial_arguments(plan: Plan, case: Case) -> dict[str, Any]:
    """The arguments of `named_trial.play`."""
    return {
        "agent": plan.agent_name,
        "environment": case.environment.name,
        "opposite": case.opposite,
        "steps": plan.steps,
        "seed": case.seed,
        "opposite_reading": plan.opposite_reading,
        "step_counting": plan.step_counting,
    }


def bare(name: str) -> str:
    """An agent's name without the reality checks around it.

    >>> bare("rc(rc(naive))")
    'naive'
    """
    while checked := re.fullmatch(r"\s*rc\((.+)\)\s*", name, re.DOTALL):
        name = checked[1]
    return name.strip()


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as cause:
        raise InvalidFileError(f"{path} cannot be read: {cause.strerror or cause}") from cause
